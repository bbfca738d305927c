// Elements and pictures. Everything that comes from the appliance becomes text, never markup.

const SVG = "http://www.w3.org/2000/svg";

// An element with properties and children; strings become text.
export function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [key, value] of Object.entries(properties)) {
    if (key === "class") element.className = value;
    else if (key.includes("-") || key === "role" || key === "scope") element.setAttribute(key, value);
    else element[key] = value;
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

export function text(id, content) {
  const element = document.getElementById(id);
  if (element.textContent !== content) element.textContent = content;
}

// Replaces what is inside.
export function fill(id, ...children) {
  document.getElementById(id).replaceChildren(...children);
}

// A bar from 0 to 1.
export function meter(share, kind = "") {
  const inside = make("i");
  inside.style.width = `${Math.min(Math.max(share, 0), 1) * 100}%`;
  return make("span", { class: `meter ${kind}`, "aria-hidden": "true" }, inside);
}

// Rows of cells; the first cell of a row is its heading. A cell is a string, a node or a list of them.
export function table(heads, rows, options = {}) {
  const wide = new Set(options.wide ?? []);
  const cell = (tag, content, index, scope) => {
    const made = make(tag, wide.has(index) ? { class: "wide" } : {});
    if (scope) made.setAttribute("scope", scope);
    made.append(...(Array.isArray(content) ? content : [content]));
    return made;
  };
  const head = make("tr", {}, ...heads.map((content, index) => cell("th", content, index, "col")));
  const body = rows.map((row) =>
    make("tr", {}, ...row.map((content, index) => cell(index === 0 ? "th" : "td", content, index, index === 0 ? "row" : null)))
  );
  const caption = options.caption ? make("caption", {}, options.caption) : null;
  return make("table", {}, caption, make("thead", {}, head), make("tbody", {}, ...body));
}

// Two lines over time, newest at the right; `points` are [in, out], `most` how many there are at the most.
export function chart(svg, points, most) {
  const [width, height] = [600, 150];
  const top = Math.max(...points.map(([first, second]) => Math.max(first, second)), 1);
  const ceiling = nice(top);
  const at = (index, value) => {
    const x = width - (points.length - 1 - index) * (width / (most - 1));
    return `${x.toFixed(1)} ${(height - (value / ceiling) * (height - 8)).toFixed(1)}`;
  };
  const line = (which) => points.map((point, index) => `${index ? "L" : "M"}${at(index, point[which])}`).join("");
  const children = [0.25, 0.5, 0.75].map((share) => shape("line", { x1: 0, x2: width, y1: height - share * (height - 8), y2: height - share * (height - 8) }));
  if (points.length > 1) {
    const from = width - (points.length - 1) * (width / (most - 1));
    children.push(
      shape("path", { class: "area", d: `${line(0)}L${width} ${height}L${from.toFixed(1)} ${height}Z` }),
      shape("path", { class: "in", d: line(0) }),
      shape("path", { class: "out", d: line(1) }),
    );
  }
  svg.replaceChildren(...children);
  return ceiling;
}

// The next larger of 1, 2, 5, 10, ...
function nice(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((step) => step * power).find((step) => step >= value);
}

function shape(tag, attributes) {
  const element = document.createElementNS(SVG, tag);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  return element;
}

// The pool as cells: how full each is, and how much of that is partials.
export function heat(element, cells, slotsPerCell) {
  while (element.childElementCount > cells.length) element.lastChild.remove();
  while (element.childElementCount < cells.length) element.append(make("i"));
  cells.forEach(([open, done], index) => {
    const style = element.children[index].style;
    const used = open + done;
    // A single partial among many kept results should be seen.
    const part = used ? Math.max(open / used, open ? 0.25 : 0) : 0;
    style.setProperty("--used", `${Math.min(used / slotsPerCell, 1) * 100}%`);
    style.setProperty("--part", `${part * 100}%`);
  });
}
