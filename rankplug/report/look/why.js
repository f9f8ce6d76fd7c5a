// Why documents stand so: what each feature adds to the difference of two documents' scores.

function reasons(page) {
  const { query, pair } = page.state;
  if (pair.length < 2) {
    return [element("p", {}, "Choose another document to compare with.")];
  }
  const sides = page.left === page.right ? ["left"] : ["left", "right"];
  const [above, below] = pair.map((document, place) => nameOf(page, query, document, "AB"[place]));
  return [
    element("h3", {}, "Why?"),
    element("p", {}, above, " against ", below, wish(query, pair)),
    element("div", { class: "look-reasons" }, ...sides.map((side) => reason(page, side))),
  ];
}

function nameOf(page, query, document, mark) {
  const label = query.labels ? ` (label ${format(query.labels[document])})` : "";
  return element("span", {},
    element("b", { class: "look-badge" }, mark), ` ${page.titleOf(query, document)}${label}`);
}

// What the labels say about the two documents.
function wish(query, pair) {
  if (!query.labels) return ".";
  const [above, below] = pair.map((document) => query.labels[document]);
  if (above === below) return ". Their labels are alike.";
  return `. By the labels ${above > below ? "A" : "B"} should stand above.`;
}

function reason(page, side) {
  const { query, pair: [above, below] } = page.state;
  const entrant = page[side];
  const { scores, ranks } = entrant.ranking(query);
  const order = ranks[above] < ranks[below] ? "A above B" : "B above A";
  const title = element("h4", {},
    element("span", { class: `look-of-${side}` }, entrant.name), ` puts ${order}`);
  const found = differences(page.data, query, entrant, above, below);
  if (found) {
    const method = element("p", { class: "look-method" },
      `Added to the score of A, less that of B: ${entrant.method}.`);
    return element("div", {}, title, barTable(found), method);
  }
  const difference = ` The scores differ by ${signed(scores[above] - scores[below])}.`;
  return element("div", {}, title, element("p", {}, unexplained(entrant), difference));
}

function unexplained(entrant) {
  if (entrant.kind === "ideal") return "It is the order of the labels.";
  return entrant.method
    ? "The scores are those of another training than the model at hand, as of another fold."
    : "What its features add would take long to find: the command rankplug explain tells it.";
}

function barTable({ bars, rest, total }) {
  const others = { name: "other features", above: "", below: "", added: rest };
  const rows = rest ? [...bars, others] : bars;
  const widest = Math.max(...rows.map((row) => Math.abs(row.added))) || 1;
  const body = rows.map((row) => element("tr", {},
    element("th", { scope: "row", title: row.name }, row.name),
    element("td", {}, format(row.above)), element("td", {}, format(row.below)),
    element("td", { class: "look-track" }, bar(row.added, widest)),
    element("td", {}, signed(row.added))));
  const head = ["feature", "A", "B", "B ◂ ▸ A", "added"].map((text) =>
    element("th", { scope: "col" }, text));
  return element("table", {},
    element("thead", {}, element("tr", {}, ...head)),
    element("tbody", {}, ...body),
    element("tfoot", {}, element("tr", {},
      element("th", { scope: "row", colspan: "4" }, "difference of the scores"),
      element("td", { class: "look-sum" }, signed(total)))));
}

function bar(added, widest) {
  const drawn = element("span", { class: `look-bar look-${added > 0 ? "for-a" : "for-b"}` });
  drawn.style.width = `${(50 * Math.abs(added)) / widest}%`;
  return drawn;
}
