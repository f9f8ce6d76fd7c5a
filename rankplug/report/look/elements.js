// Texts, elements of the page, and its data. Texts of the data become text, never markup.

function format(value, digits = 3) {
  if (value === null || value === undefined) return "–";
  if (typeof value !== "number") return value;
  if (Number.isInteger(value) && Math.abs(value) < 1e7) return String(value);
  return String(Number(value.toPrecision(digits)));
}

function signed(value, digits = 3) {
  const text = format(Math.abs(value), digits);
  if (Number(text) === 0) return "0";
  return (value < 0 ? "−" : "+") + text;
}

const measure = (value) => (value === null ? "–" : value.toFixed(3));

function count(number, one, many = `${one}s`) {
  return `${number.toLocaleString("en")} ${number === 1 ? one : many}`;
}

// Elements

function element(name, properties = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (value === true) made.setAttribute(key, "");
    else if (value !== false && value !== null) made.setAttribute(key, value);
  }
  made.append(...children);
  return made;
}

function drawing(name, attributes = {}, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

function choice(label, options, chosen, change) {
  const select = element("select", { onchange: () => change(select.value) });
  for (const [value, text] of options) {
    select.append(element("option", { value, selected: value === chosen }, text));
  }
  return element("label", {}, element("span", {}, label), select);
}

// Data

async function unpack(text) {
  const bytes = Uint8Array.from(atob(text.trim()), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  const data = JSON.parse(await new Response(stream).text());
  for (const query of data.queries) {
    let row = 0;
    query.rows = query.rows.map((step) => (row += step));
  }
  return data;
}
