// Elements out of data. Whatever is said by a flow, a tool or a model becomes a text node, and never markup.

const SVG = "http://www.w3.org/2000/svg";
const SVG_TAGS = new Set(["svg", "path", "line", "circle", "text", "g", "rect", "title"]);

/** An element: `h("p", {class: "dim"}, "text", child, [more])`. Functions are listeners; null and false are left out. */
export function h(tag, props, ...children) {
  const svg = SVG_TAGS.has(tag) || props?.svg;
  const made = svg ? document.createElementNS(SVG, tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === null || value === undefined || value === false || name === "svg") continue;
    if (typeof value === "function") made.addEventListener(name.slice(2), value);
    else if (name === "href") made.setAttribute("href", here(value));
    else if (name in made && !svg && name !== "list") made[name === "class" ? "className" : name] = value;
    else made.setAttribute(name, value === true ? "" : value);
  }
  add(made, children);
  return made;
}

/** Only links within the panel: nobody's text makes an address. */
function here(value) {
  return String(value).startsWith("#") ? value : "#/";
}

function add(parent, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false || child === "") continue;
    parent.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
}

/** Put these in the place of what an element holds. */
export function fill(parent, ...children) {
  parent.replaceChildren();
  add(parent, children);
  return parent;
}

/** As `fill`, for a whole page: who was at its heading is at the new one. */
export function refill(parent, ...children) {
  const atHeading = document.activeElement?.tagName === "H1";
  fill(parent, ...children);
  if (atHeading) parent.querySelector("h1")?.focus({ preventScroll: true });
  return parent;
}

/** Fill a place with the first of a long list; returns a button that shows all of it, or null where that is all. */
export function firsts(place, items, draw, most = 50) {
  fill(place, items.slice(0, most).map(draw));
  if (items.length <= most) return null;
  const all = h("button", { type: "button", class: "quiet", onclick: () => { fill(place, items.map(draw)); all.remove(); } }, `Show all ${items.length}`);
  return all;
}

/** A part of something, from 0 to 1, as a width. */
export function bar(share, strong = false) {
  const inner = h("div", { class: strong ? "fill strong" : "fill" });
  inner.style.width = `${Math.round(Math.max(0, Math.min(1, share)) * 1000) / 10}%`;
  return h("div", { class: "track", "aria-hidden": "true" }, inner);
}

/** Tell whoever cannot see it. */
export function say(text) {
  const place = document.getElementById("said");
  place.textContent = "";
  setTimeout(() => { place.textContent = text; }, 30);
}

let numbered = 0;
/** An id that nothing else has. */
export const fresh = (name) => `${name}-${(numbered += 1)}`;
