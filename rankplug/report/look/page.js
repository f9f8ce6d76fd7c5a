// The page: two entrants, the queries, two lists side by side, and why documents stand so.
//
// What is chosen is kept in `state`; every choice changes it, and then draws the parts of the page
// that depend on it.

const ORDERS = {
  disagreement: ["largest difference", (query) => -Math.abs(query.margin)],
  loss: ["right loses most", (query) => query.margin],
  gain: ["right wins most", (query) => -query.margin],
  size: ["most documents", (query) => -query.size],
};

class Page {
  constructor(data, root) {
    this.data = data;
    this.root = root;
    this.entrants = this.allEntrants();
    this.state = { left: 0, right: this.bestOpponent(), order: "disagreement", search: "" };
    this.parts = {
      choice: element("div", { class: "look-choice" }),
      total: element("p", { class: "look-total", role: "status" }),
      queries: element("div", { class: "look-queries" }),
      main: element("div", { class: "look-main" }),
      panel: element("div", { class: "look-panel" }),
    };
    const { choice: top, total, queries, main, panel } = this.parts;
    root.replaceChildren(top, total, panel, element("div", { class: "look-body" }, queries, main));
    this.drawPanel();
    this.drawChoice();
    this.drawQueryChoice();
    this.update();
    new ResizeObserver(() => this.drawLines()).observe(main);
  }

  // Those of the data, then what the labels say, then models that can be turned.
  allEntrants() {
    const { data } = this;
    const entrants = data.entrants.map(({ name, method, curves }, index) => ({
      name, method, curves, index, kind: "saved",
      ranking: (query) => savedRanking(query, index),
    }));
    const turned = entrants.filter((one) => one.curves).map((one) => {
      const made = { ...one, kind: "turned", name: `${one.name}, turned`, turns: new Map() };
      made.ranking = (query) => turnedRanking(data, query, made);
      return made;
    });
    if (data.grades) {
      entrants.push({ name: "the labels", kind: "ideal", ranking: idealRanking });
    }
    return [...entrants, ...turned];
  }

  // The other entrant of the best mean; of one alone, its turned model or the labels.
  bestOpponent() {
    const { data, entrants } = this;
    const saved = data.entrants.map((_, index) => index).slice(1);
    if (!saved.length) return entrants.length - 1;
    const sign = data.higher ? 1 : -1;
    return saved.reduce((best, index) =>
      sign * data.entrants[index].mean > sign * data.entrants[best].mean ? index : best);
  }

  get left() { return this.entrants[this.state.left]; }
  get right() { return this.entrants[this.state.right]; }

  // The metric of a query; with a turned model, that of the documents on the page for both.
  valueOf(entrant, query) {
    const turned = this.left.kind === "turned" || this.right.kind === "turned";
    if (entrant.kind === "ideal") return this.data.higher ? 1 : null;
    const ranking = entrant.ranking(query);
    return turned ? ndcg(query.labels, ranking.scores, this.data.grades) : ranking.value;
  }

  metricName() {
    const turned = this.left.kind === "turned" || this.right.kind === "turned";
    return turned ? `ndcg@${NDCG_AT}` : this.data.metric;
  }

  // Take note of the values of all queries, and draw what depends on the two entrants.
  update() {
    for (const query of this.data.queries) {
      query.left = this.valueOf(this.left, query);
      query.right = this.valueOf(this.right, query);
      const known = query.left !== null && query.right !== null;
      query.margin = known ? (query.right - query.left) * (this.data.higher ? 1 : -1) : 0;
    }
    this.drawTotal();
    this.sortQueries();
    this.drawQueries();
    this.drawMain();
  }

  swap() {
    const { left, right } = this.state;
    Object.assign(this.state, { left: right, right: left });
    this.drawChoice();
    this.root.querySelector(".look-swap").focus();
    this.update();
  }

  drawChoice() {
    const options = this.entrants.map((one, index) => [String(index), one.name]);
    const side = (name) =>
      choice(name, options, String(this.state[name.toLowerCase()]), (value) => {
        this.state[name.toLowerCase()] = Number(value);
        this.update();
      });
    const swap = element("button", {
      type: "button", class: "look-swap", title: "Swap left and right", onclick: () => this.swap(),
    }, "⇄ Swap");
    this.parts.choice.replaceChildren(side("Left"), swap, side("Right"));
  }

  // Who wins, on how many queries.
  drawTotal() {
    const { data, left, right } = this;
    const values = data.queries.filter((query) => query.left !== null && query.right !== null);
    const saved = left.kind === "saved" && right.kind === "saved" && data.wins.length;
    const mean = (side, entrant) => saved
      ? data.entrants[entrant.index].mean
      : values.reduce((sum, query) => sum + query[side], 0) / values.length;
    if (!values.length) {
      this.parts.total.replaceChildren(data.grades
        ? "No metric can be told of these labels."
        : "There are no labels: nobody can say who wins.");
      return;
    }
    const better = saved ? data.wins[right.index][left.index]
      : values.filter((query) => query.margin > 0).length;
    const worse = saved ? data.wins[left.index][right.index]
      : values.filter((query) => query.margin < 0).length;
    const [more, less] = saved && !data.higher ? [worse, better] : [better, worse];
    const where = saved ? "" : `, mean of ${count(values.length, "query", "queries")}`;
    const told = (side, entrant) => element(
      "strong", { class: `look-of-${side}` }, `${entrant.name} ${measure(mean(side, entrant))}`);
    this.parts.total.replaceChildren(
      `${this.metricName()}${where}: `, told("left", left), ", ", told("right", right),
      `. ${right.name} is better on ${more} queries, worse on ${less}.`,
    );
  }

  // Queries

  drawQueryChoice() {
    const { state } = this;
    const search = element("input", {
      type: "search", placeholder: "id or text",
      oninput: () => { state.search = search.value; this.drawQueries(); },
    });
    const orders = Object.entries(ORDERS).map(([key, [text]]) => [key, text]);
    this.list = element("div", {
      class: "look-list", role: "listbox", tabindex: "0", "aria-label": "Queries",
      onkeydown: (event) => this.moveInQueries(event),
    });
    this.found = element("p", { class: "look-found", role: "status" });
    this.parts.queries.replaceChildren(
      element("label", {}, element("span", {}, "Find a query"), search),
      choice("Sort by", orders, state.order, (value) => {
        state.order = value;
        this.sortQueries();
        this.select(this.visible()[0]);
      }),
      element("div", { class: "look-head", "aria-hidden": "true" },
        ...["query", "left", "", "right"].map((text) => element("span", {}, text))),
      this.list, this.found,
    );
  }

  sortQueries() {
    const key = ORDERS[this.state.order][1];
    this.sorted = [...this.data.queries].sort((a, b) => key(a) - key(b));
    this.state.query ??= this.sorted[0];
  }

  visible() {
    const wanted = this.state.search.trim().toLowerCase();
    if (!wanted) return this.sorted;
    const texts = (query) => [query.id, ...(query.texts ? query.texts.flat() : [])];
    return this.sorted.filter((query) =>
      texts(query).some((text) => text.toLowerCase().includes(wanted)));
  }

  drawQueries() {
    const shown = this.visible();
    const widest = Math.max(...this.data.queries.map((query) => Math.abs(query.margin))) || 1;
    this.list.replaceChildren(...shown.map((query) => this.queryOption(query, widest)));
    this.found.textContent = shown.length === this.sorted.length
      ? this.data.about : `${shown.length} of ${this.sorted.length} fit`;
    this.markQuery();
  }

  queryOption(query, widest) {
    const side = query.margin < 0 ? "left" : "right";
    const bar = element("span", { class: `look-bar look-${side}` });
    bar.style.width = `${(50 * Math.abs(query.margin)) / widest}%`;
    const label = `query ${query.id}, ${count(query.size, "document")}, left ` +
      `${measure(query.left)}, right ${measure(query.right)}`;
    return element("div", {
      role: "option", id: `look-query-${this.data.queries.indexOf(query)}`, "aria-label": label,
      onclick: () => this.select(query),
    },
    element("span", { class: "look-id" }, query.id),
    element("span", { class: "look-of-left" }, measure(query.left)),
    element("span", { class: "look-track" }, bar),
    element("span", { class: "look-of-right" }, measure(query.right)));
  }

  moveInQueries(event) {
    const shown = this.visible();
    const now = shown.indexOf(this.state.query);
    const places = {
      ArrowDown: now + 1, ArrowUp: now - 1, PageDown: now + 10, PageUp: now - 10,
      Home: 0, End: shown.length - 1,
    };
    if (!(event.key in places) || !shown.length) return;
    event.preventDefault();
    this.select(shown[Math.max(0, Math.min(places[event.key], shown.length - 1))]);
  }

  select(query) {
    if (!query) return;
    this.state.query = query;
    this.drawQueries();
    this.drawMain();
  }

  markQuery() {
    const chosen = `look-query-${this.data.queries.indexOf(this.state.query)}`;
    for (const option of this.list.children) {
      option.setAttribute("aria-selected", String(option.id === chosen));
      if (option.id === chosen) {
        this.list.setAttribute("aria-activedescendant", chosen);
        this.keepInView(option);
      }
    }
  }

  // Scrolls the list alone, unlike scrollIntoView, which would move the page.
  keepInView(option) {
    const { list } = this;
    const top = option.offsetTop - list.offsetTop;
    const bottom = top + option.offsetHeight;
    if (top < list.scrollTop) list.scrollTop = top;
    if (bottom > list.scrollTop + list.clientHeight) list.scrollTop = bottom - list.clientHeight;
  }

  // The two lists

  drawMain() {
    const { query } = this.state;
    const [left, right] = [this.left.ranking(query), this.right.ranking(query)];
    this.state.pair = tellingPair(query, left, right);
    this.lines = drawing("svg", { class: "look-lines", "aria-hidden": "true" });
    this.lists = element("div", { class: "look-lists" },
      this.documentList("left", left, null), this.lines, this.documentList("right", right, left));
    this.why = element("div", { class: "look-why", "aria-live": "polite" });
    this.parts.main.replaceChildren(
      element("h3", {}, `Query ${query.id}`),
      element("p", { class: "look-verdict" }, this.verdict(query)),
      this.lists, this.legend(), this.why,
    );
    this.drawPair();
  }

  verdict(query) {
    const documents = count(query.size, "document");
    if (query.left === null || query.right === null) return `${documents}.`;
    const name = this.metricName();
    const [left, right] = [measure(query.left), measure(query.right)];
    const by = measure(Math.abs(query.margin));
    const said = left === right ? "both are alike"
      : `${this.right.name} is ${query.margin > 0 ? "better" : "worse"} by ${by}`;
    return `${documents}; ${name} is ${left} at the left and ${right} at the right: ${said}.`;
  }

  documentList(side, ranking, other) {
    const { query } = this.state;
    const entrant = this[side];
    const list = element(
      "ol", { class: `look-side look-side-${side}`, "aria-label": entrant.name });
    const order = [...query.rows.keys()].sort((a, b) => ranking.ranks[a] - ranking.ranks[b]);
    let last = 0;
    for (const document of order) {
      const rank = ranking.ranks[document];
      if (rank > last + 1) list.append(this.gap(rank - last - 1));
      list.append(this.documentItem(document, rank, other && other.ranks[document] - rank));
      last = rank;
    }
    if (query.size > last) list.append(this.gap(query.size - last));
    return element("div", {}, element("h4", { class: `look-of-${side}` }, entrant.name), list);
  }

  gap(number) {
    return element("li", { class: "look-gap" }, `${number} more`);
  }

  documentItem(document, rank, moved) {
    const { query } = this.state;
    const [title, details] = [this.titleOf(query, document), this.detailsOf(query, document)];
    const arrow = moved > 0 ? "▲" : "▼";
    const moves = moved ? `${moved > 0 ? "up" : "down"} ${Math.abs(moved)}` : "";
    const label = query.labels ? `label ${format(query.labels[document])}, ` : "";
    const button = element("button", {
      type: "button", "data-document": document, title: [title, details].filter(Boolean).join("\n"),
      "aria-label": `rank ${rank}, ${label}${title} ${details} ${moves}`,
      onclick: () => this.choose(document),
      onkeydown: (event) => this.moveInList(event),
    },
    element("span", { class: "look-rank" }, String(rank)),
    this.labelChip(query, document),
    element("span", { class: "look-text" },
      element("span", { class: "look-title" }, title),
      element("span", { class: "look-details" }, details)),
    element("span", { class: "look-move" }, moved ? arrow + Math.abs(moved) : ""),
    element("span", { class: "look-mark" }));
    return element("li", {}, button);
  }

  // The label as a number on a shade: the higher, the darker.
  labelChip(query, document) {
    if (!query.labels) return element("span");
    const chip = element("span", { class: "look-label" }, format(query.labels[document]));
    chip.style.setProperty("--share", `${Math.round(100 * this.share(query, document))}%`);
    if (this.share(query, document) > 0.55) chip.classList.add("look-dark");
    return chip;
  }

  share(query, document) {
    const { low, high } = this.data.grades;
    return high > low ? (query.labels[document] - low) / (high - low) : 0;
  }

  titleOf(query, document) {
    return (query.texts && query.texts[0][document]) || `row ${query.rows[document]}`;
  }

  // The other columns, or the features that move the query's documents most.
  detailsOf(query, document) {
    const { columns, features } = this.data;
    if (query.texts && query.texts.length > 1) {
      return query.texts.slice(1)
        .map((texts, place) => `${columns[place + 1]} ${texts[document]}`).join(" · ");
    }
    return query.features.slice(0, 3)
      .map((feature, place) => `${features[feature]} ${format(query.cells[place][document])}`)
      .join(" · ");
  }

  moveInList(event) {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    const across = { ArrowLeft: ".look-side-left", ArrowRight: ".look-side-right" }[event.key];
    if (!step && !across) return;
    event.preventDefault();
    const button = event.currentTarget;
    if (across) {
      this.lists.querySelector(`${across} [data-document="${button.dataset.document}"]`).focus();
      return;
    }
    const all = [...button.closest("ol").querySelectorAll("button")];
    const next = all[all.indexOf(button) + step];
    if (next) next.focus();
  }

  // Of two documents the first stands for the upper one; a third takes the place of the older.
  choose(document) {
    const { pair } = this.state;
    if (pair.includes(document)) this.state.pair = pair.filter((one) => one !== document);
    else this.state.pair = [...pair, document].slice(-2);
    this.drawPair();
  }

  drawPair() {
    const { pair } = this.state;
    for (const button of this.lists.querySelectorAll("[data-document]")) {
      const place = pair.indexOf(Number(button.dataset.document));
      button.setAttribute("aria-pressed", String(place >= 0));
      button.querySelector(".look-mark").textContent = place < 0 ? "" : "AB"[place];
    }
    this.drawLines();
    this.why.replaceChildren(...reasons(this));
  }

  drawLines() {
    const { query, pair } = this.state;
    const box = this.lines.getBoundingClientRect();
    this.lines.setAttribute("viewBox", `0 0 ${Math.max(box.width, 1)} ${Math.max(box.height, 1)}`);
    const middle = (side, document) => {
      const found = this.lists.querySelector(`.look-side-${side} [data-document="${document}"]`);
      const { top, height } = found.getBoundingClientRect();
      return top + height / 2 - box.top;
    };
    const ranks = [this.left.ranking(query).ranks, this.right.ranking(query).ranks];
    const lines = query.rows.map((_, document) => {
      const [from, to] = [middle("left", document), middle("right", document)];
      const half = box.width / 2;
      const moved = ranks[0][document] - ranks[1][document];
      const matters = query.labels && this.share(query, document) > 0;
      const kind = !moved || !matters ? "same" : moved > 0 ? "up" : "down";
      const chosen = pair.includes(document) ? " look-chosen" : "";
      return drawing("path", {
        class: `look-${kind}${chosen}`,
        d: `M0,${from} C${half},${from} ${half},${to} ${box.width},${to}`,
      });
    });
    this.lines.replaceChildren(...lines);
  }

  legend() {
    const { grades } = this.data;
    const legend = element("p", { class: "look-legend" });
    if (grades) {
      legend.append("Numbers on a shade are labels. Lines: a relevant document stands ",
        element("span", { class: "look-up" }, "higher"), " or ",
        element("span", { class: "look-down" }, "lower"), " at the right. ");
    }
    legend.append("Choose two documents to see why one stands above the other.");
    return legend;
  }

  // Weights and curves that are turned by hand

  drawPanel() {
    const turned = this.entrants.filter((one) => one.kind === "turned");
    this.parts.panel.replaceChildren(...turned.map((entrant) => new Panel(this, entrant).root));
  }

  // A turned model is looked at as soon as it is touched, beside the saved one.
  turn(entrant) {
    const index = this.entrants.indexOf(entrant);
    if (this.state.left !== index && this.state.right !== index) {
      Object.assign(this.state, { left: entrant.index, right: index });
      this.drawChoice();
    }
    this.update();
  }
}

async function start() {
  const root = document.getElementById("look");
  try {
    const data = await unpack(document.getElementById("look-data").textContent);
    new Page(data, root);
  } catch (error) {
    root.textContent = `The rankings cannot be shown by this browser: ${error}`;
    throw error;
  }
}
