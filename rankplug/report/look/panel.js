// Weights and curves of linear and additive models, turned by hand.

const MOST_CURVES = 8; // features that are shown at first
const WIDTH = 220;
const HEIGHT = 76;
const EDGE = 7;

class Panel {
  constructor(page, entrant) {
    this.page = page;
    this.entrant = entrant;
    this.curves = element("div", { class: "look-curves" });
    this.written = element("div", { class: "look-written" });
    this.all = false;
    const all = `Show all ${entrant.curves.length} features`;
    const more = this.button(all, () => this.showAll(more));
    this.root = element("details", { open: page.data.entrants.length === 1 && innerWidth > 600 },
      element("summary", {}, `Turn the weights of ${page.data.entrants[entrant.index].name}`),
      element("p", { class: "look-about" },
        "A slider makes all that a feature adds larger or smaller; points of its curve can be ",
        "moved, with the mouse or the arrow keys. Lists and metric follow."),
      this.curves,
      element("p", { class: "look-buttons" },
        entrant.curves.length > MOST_CURVES ? more : "",
        this.button("Back to the saved model", () => this.reset()),
        this.button("Write the turned model down", () => this.write())),
      this.written);
    this.draw();
  }

  button(text, act) {
    return element("button", { type: "button", onclick: act }, text);
  }

  draw() {
    const { curves } = this.entrant;
    const shown = this.all ? curves : curves.slice(0, MOST_CURVES);
    this.curves.replaceChildren(...shown.map((curve) => new Curve(this, curve).root));
  }

  showAll(button) {
    this.all = true;
    button.remove();
    this.draw();
  }

  reset() {
    this.entrant.turns.clear();
    this.written.replaceChildren();
    this.draw();
    this.page.turn(this.entrant);
  }

  // The turned model as JSON, to be copied or saved.
  write() {
    const text = JSON.stringify(this.adjustment(), null, 2) + "\n";
    const area = element(
      "textarea", { readonly: true, rows: "8", "aria-label": "The turned model" });
    area.value = text;
    const href = URL.createObjectURL(new Blob([text], { type: "application/json" }));
    const link = element("a", { href, download: "turned.json" }, "Save as turned.json");
    this.written.replaceChildren(area, element("p", {}, link,
      ", then: rankplug predict turned.json DATA -o scores.csv"));
  }

  adjustment() {
    const features = {};
    for (const [name, { factor, handles, added }] of this.entrant.turns) {
      const points = added.some((height) => height !== 0)
        ? { added: handles.map((place, k) => [place, added[k]]) } : {};
      if (factor !== 1 || points.added) features[name] = { factor, ...points };
    }
    return {
      format: "rankplug-adjustment", schema_version: 1,
      ...this.page.data.entrants[this.entrant.index].saved, features,
    };
  }
}

class Curve {
  constructor(panel, { feature, points, handles }) {
    this.panel = panel;
    this.feature = feature;
    this.points = points;
    const known = panel.entrant.turns.get(feature);
    this.turn = known || { factor: 1, handles, added: handles.map(() => 0) };
    this.weight = element("p", { class: "look-weight" });
    this.picture = drawing("svg", { class: "look-curve", viewBox: `0 0 ${WIDTH} ${HEIGHT}` });
    this.root = element("fieldset", {}, element("legend", { title: feature }, feature),
      points.length ? this.picture : "", this.weight, this.slider());
    if (points.length) this.makeHandles();
    this.draw();
  }

  slider() {
    const value = String(this.turn.factor);
    const range = element("input", {
      type: "range", min: "-1", max: "3", step: "0.05", value,
      "aria-label": `${this.feature}: times`,
      oninput: () => this.setFactor(Number(range.value), number),
    });
    const number = element("input", {
      type: "number", step: "any", value, "aria-label": `${this.feature}: times, as a number`,
      onchange: () => this.setFactor(Number(number.value), range),
    });
    return element("div", { class: "look-slider" }, range, element("span", {}, "×"), number);
  }

  setFactor(factor, other) {
    if (!Number.isFinite(factor)) return;
    this.turn.factor = factor;
    other.value = factor;
    this.changed();
  }

  changed() {
    this.panel.entrant.turns.set(this.feature, this.turn);
    this.draw();
    this.panel.page.turn(this.panel.entrant);
  }

  heightAt(place) {
    return this.turn.factor * this.savedAt(place) + interpolate(this.turn, place);
  }

  savedAt(place) {
    const handles = this.points.map(([x]) => x);
    return interpolate({ handles, added: this.points.map(([, y]) => y) }, place);
  }

  makeHandles() {
    this.handles = this.turn.handles.map((place, k) => {
      const handle = drawing("circle", {
        r: 5, tabindex: "0", role: "slider", "aria-label": `${this.feature} at ${format(place)}`,
      });
      handle.addEventListener("keydown", (event) => this.step(event, k));
      handle.addEventListener("pointerdown", (event) => this.hold(handle, event));
      handle.addEventListener("pointerup", () => this.release());
      handle.addEventListener("pointermove", (event) => {
        if (this.isHeld) this.drag(event, k);
      });
      return handle;
    });
    this.before = drawing("path", { class: "look-before" });
    this.after = drawing("path", { class: "look-after" });
    this.picture.append(this.before, this.after, ...this.handles);
    this.first = this.points[0][0];
    this.last = this.points[this.points.length - 1][0];
    this.isHeld = false;
  }

  hold(handle, event) {
    handle.setPointerCapture(event.pointerId);
    this.isHeld = true;
  }

  release() {
    this.isHeld = false;
    this.draw();
  }

  // The range of the picture: both curves, with room to move points.
  frame(places) {
    const heights = places.flatMap((place) => [this.savedAt(place), this.heightAt(place)]);
    const [low, high] = [Math.min(...heights), Math.max(...heights)];
    const room = 0.4 * (high - low) || 1;
    Object.assign(this, { low: low - room, high: high + room });
  }

  // Of a linear model what one more of the feature adds, as long as its curve is a line.
  tellWeight() {
    if (this.panel.entrant.method !== "weight times value") return;
    const isLine = this.turn.added.every((height) => height === 0);
    const rise = this.savedAt(this.last) - this.savedAt(this.first);
    const weight = (this.turn.factor * rise) / (this.last - this.first);
    this.weight.textContent = isLine ? `weight ${format(weight)}` : "a curve";
  }

  draw() {
    if (!this.points.length) return;
    this.tellWeight();
    const places = [...this.points.map(([place]) => place), ...this.turn.handles];
    places.sort((a, b) => a - b);
    if (!this.isHeld) this.frame(places); // which stays while a point is moved
    const path = (height) => places
      .map((place, k) => `${k ? "L" : "M"}${this.x(place)},${this.y(height(place))}`).join("");
    this.before.setAttribute("d", path((place) => this.savedAt(place)));
    this.after.setAttribute("d", path((place) => this.heightAt(place)));
    this.handles.forEach((handle, k) => {
      const height = this.heightAt(this.turn.handles[k]);
      handle.setAttribute("cx", this.x(this.turn.handles[k]));
      handle.setAttribute("cy", Math.max(0, Math.min(this.y(height), HEIGHT)));
      for (const [name, value] of [["now", height], ["min", this.low], ["max", this.high]]) {
        handle.setAttribute(`aria-value${name}`, format(value));
      }
    });
  }

  x(place) {
    return EDGE + ((WIDTH - 2 * EDGE) * (place - this.first)) / (this.last - this.first);
  }

  y(height) {
    return HEIGHT - (HEIGHT * (height - this.low)) / (this.high - this.low);
  }

  drag(event, k) {
    const box = this.picture.getBoundingClientRect();
    const share = 1 - (event.clientY - box.top) / box.height;
    this.move(k, this.low + share * (this.high - this.low) - this.heightAt(this.turn.handles[k]));
  }

  step(event, k) {
    const direction = { ArrowUp: 1, ArrowRight: 1, ArrowDown: -1, ArrowLeft: -1 }[event.key];
    if (!direction) return;
    event.preventDefault();
    this.move(k, (direction * (this.high - this.low)) / 40);
  }

  move(k, by) {
    this.turn.added[k] = Number((this.turn.added[k] + by).toPrecision(6));
    this.changed();
  }
}
