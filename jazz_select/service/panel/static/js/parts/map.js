// The flows as points on a plane: a link each. Tab leads to one of them, and the arrow keys to those around it.
import { fill, h } from "../dom.js";
import { to } from "../url.js";
import { embedderName, fixed } from "../words.js";
import { empty } from "./states.js";

/** A wide sheet where there is room, an upright one on a phone. */
const sheet = () => (matchMedia("(max-width: 600px)").matches ? { W: 400, H: 560, margin: [44, 28] } : { W: 1000, H: 660, margin: [90, 40] });
/** Dots of hundreds of flows are small, so that fewer lie on each other. */
const radius = (count, W) => Math.min(7, Math.max(3, (W / 1000) * (count > 150 ? 4.5 : 7)));

/** Where a label fits without lying on another: right, left, above or below its dot; else only when it is pointed at. */
function placed(points, W, r) {
  const taken = points.map(({ x, y }) => [x - r, y - r, x + r, y + r]);
  const clear = (box) => box[0] > 0 && box[2] < W && taken.every((other) => box[2] < other[0] || box[0] > other[2] || box[3] < other[1] || box[1] > other[3]);
  for (const point of points) {
    const wide = 6.6 * point.name.length + 4;
    const { x, y } = point;
    const tries = [["start", x + 10, y + 4], ["end", x - 10, y + 4], ["middle", x, y - 11], ["middle", x, y + 20]];
    const box = (anchor, left, base) => { const from = anchor === "start" ? left : anchor === "end" ? left - wide : left - wide / 2; return [from, base - 11, from + wide, base + 3]; };
    const fit = tries.find((each) => clear(box(...each)));
    point.label = fit ?? (x > W / 2 ? tries[1] : tries[0]);
    point.far = !fit;
    if (fit) taken.push(box(...fit));
  }
}

export function drawMap(body, data, first) {
  if (!data.points.length) {
    fill(body, h("div", { class: "card" }, empty("There is nothing to draw", "No flow has a description or an example yet.")));
    return null;
  }
  const { W, H, margin } = sheet();
  const points = data.points.map((each) => ({ ...each, x: margin[0] + ((each.x + 1) / 2) * (W - 2 * margin[0]), y: 0, raw: each.y }));
  const tall = Math.max(...points.map((each) => Math.abs(each.raw)), 0.01);
  points.forEach((each) => { each.y = H / 2 + (each.raw / tall) * (H / 2 - margin[1]); });
  const r = radius(points.length, W);
  placed(points, W, r);
  const at = new Map(points.map((each) => [each.name, each]));
  const edges = h("g", { svg: true });
  const links = new Map();
  const line = (a, b, kind) => h("line", { x1: a.x, y1: a.y, x2: b.x, y2: b.y, class: kind });
  const twins = data.twins.map((each) => each.flows.map((name) => at.get(name))).filter((pair) => pair.length === 2 && pair[0] && pair[1]);
  const svg = h("svg", { class: "map", viewBox: `0 0 ${W} ${H}`, role: "group", "aria-label": "Map of the flows", onkeydown: (event) => move(event) },
    twins.map(([a, b]) => line(a, b, "twin")), edges,
    points.map((each) => {
      const link = h("a", { svg: true, href: to(["flow", each.name]), "aria-label": `${each.name}; nearest: ${(data.nearest[each.name] ?? []).slice(0, 3).map((other) => other.name).join(", ")}`, onmouseenter: () => pick(each.name), onmouseleave: () => pick(chosen), onfocus: () => { stopAt(each.name); pick(each.name); }, onblur: () => pick(chosen) },
        h("circle", { cx: each.x, cy: each.y, r, class: `dot ${each.type === "flow" ? "" : "composite"} ${each.worst}` }),
        h("text", { x: each.label[1], y: each.label[2], "text-anchor": each.label[0], class: each.far ? "far" : "" }, each.name));
      links.set(each.name, link);
      return link;
    }));
  const beside = h("div", { class: "stack", "aria-live": "polite" });
  let chosen = "";

  const stopAt = (name) => links.forEach((link, each) => link.setAttribute("tabindex", each === name ? "0" : "-1"));
  /** To the nearest flow that way: hundreds are one stop for Tab, and the arrow keys go among them. */
  function move(event) {
    const [dx, dy] = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowDown: [0, 1], ArrowUp: [0, -1] }[event.key] ?? [0, 0];
    const from = points.find((each) => links.get(each.name) === document.activeElement);
    if (!from || (!dx && !dy)) return;
    event.preventDefault();
    const far = (each) => (each.x - from.x) * dx + (each.y - from.y) * dy + 2 * Math.abs((each.x - from.x) * dy + (each.y - from.y) * dx);
    const that = points.filter((each) => (each.x - from.x) * dx + (each.y - from.y) * dy > 0).sort((a, b) => far(a) - far(b))[0];
    if (that) links.get(that.name).focus();
  }

  function pick(name) {
    svg.classList.toggle("picked", Boolean(name) && at.has(name));
    const near = (data.nearest[name] ?? []).slice(0, 5);
    links.forEach((link, each) => {
      link.classList.toggle("on", each === name);
      link.classList.toggle("near", near.some((other) => other.name === each));
    });
    const here = at.get(name);
    fill(edges, here ? near.map((other) => at.get(other.name)).filter(Boolean).map((there) => line(here, there, "edge on")) : null);
    fill(beside, here ? h("p", { class: "note" }, h("strong", {}, name), " lies nearest to ", near.map((other, place) => [place ? ", " : null, h("a", { href: to(["flow", other.name]) }, other.name), ` ${fixed(other.cosine, 2)}`])) : h("p", { class: "note" }, "Point at a flow, or go to it with Tab and the arrow keys, to see what lies nearest. Enter opens it."));
  }

  const pairs = [...new Map(points.flatMap((each) => (data.nearest[each.name] ?? []).slice(0, 3).map((other) => [[each.name, other.name].sort().join("\n"), { a: each.name, b: other.name, ...other }]))).values()].sort((a, b) => b.cosine - a.cosine).slice(0, 12);
  const isTwin = (pair) => data.twins.some((each) => each.flows.includes(pair.a) && each.flows.includes(pair.b));
  fill(body,
    h("div", { class: "card" },
      h("div", { class: "legend" }, h("span", {}, h("i"), "flow"), h("span", {}, h("i", { class: "ring" }), "composite"), [["warning", "with a warning"], ["error", "with an error"]].map(([worst, label]) => (points.some((each) => each.worst === worst) ? h("span", {}, h("i", { class: worst }), label) : null)), twins.length ? h("span", {}, h("i", { class: "dash" }), "near-twins") : null, data.stress === null ? null : h("span", { class: data.stress > 0.3 ? "tag warn" : "" }, data.stress > 0.3 ? `stress ${fixed(data.stress, 2)}: distances are rough here, read the pairs` : `stress ${fixed(data.stress, 2)}`), h("span", {}, `embedder ${embedderName(data.embedder)}`)),
      svg, beside,
      h("details", {}, h("summary", {}, "How the map is made"), h("p", { class: "note" }, data.how_mapped))),
    h("div", { class: "card flush" }, h("div", { class: "card-head" }, h("h2", {}, "Nearest pairs"), h("p", {}, "By cosine of where their texts lie.")),
      h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Nearest pairs" }, h("table", { class: "tight" }, h("thead", {}, h("tr", {}, ["Flow", "Beside", "Cosine", "Examples that lead astray", ""].map((name, at) => h("th", { scope: "col", class: at === 2 || at === 3 ? "num" : "" }, name || h("span", { class: "unseen" }, "Judged"))))),
        h("tbody", {}, pairs.map((pair) => h("tr", {}, h("th", { scope: "row" }, h("a", { href: to(["flow", pair.a]) }, pair.a)), h("td", { "data-label": "Beside" }, h("a", { href: to(["flow", pair.b]) }, pair.b)), h("td", { class: "num", "data-label": "Cosine" }, fixed(pair.cosine, 3)), h("td", { class: "num", "data-label": "Lead astray" }, pair.confused || "–"), h("td", {}, isTwin(pair) ? h("span", { class: "tag warn" }, "near-twins") : null))))))));
  const show = (next) => { chosen = next.params.get("flow") ?? ""; stopAt(at.has(chosen) ? chosen : points[0].name); pick(chosen); };
  show(first);
  return show;
}
