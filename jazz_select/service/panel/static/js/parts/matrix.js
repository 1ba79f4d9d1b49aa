// Who is taken for whom, as a matrix and as a list.
import { fill, firsts, h } from "../dom.js";
import { to } from "../url.js";
import { counted, percent, whole } from "../words.js";
import { empty } from "./states.js";

const MOST = 26;

/** The worst pairs with an example each; all of them where somebody asks for them. */
function list(pairs) {
  const row = (each) => h("tr", {},
    h("th", { scope: "row" }, h("a", { href: to(["flow", each.expected]) }, each.expected)),
    h("td", { "data-label": "Taken for" }, h("a", { href: to(["flow", each.first]) }, each.first)),
    h("td", { class: "num", "data-label": "Examples" }, `${each.count} of ${each.of}`),
    h("td", {}, h("a", { class: "plain", href: to(["try"], { q: each.examples[0] }) }, each.examples[0])));
  const body = h("tbody");
  const more = firsts(body, pairs, row);
  return h("div", { class: "card flush" }, h("div", { class: "card-head" }, h("h2", {}, "Pairs"), h("p", {}, "The worst first.")),
    h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Pairs" }, h("table", { class: "tight" },
      h("thead", {}, h("tr", {}, ["Flow", "Taken for", "Examples", "Such as"].map((name, at) => h("th", { scope: "col", class: at === 2 ? "num" : "" }, name)))), body)),
    more ? h("div", { class: "row foot" }, more) : null);
}

export function drawMatrix(body, data, first) {
  if (!data.asked) {
    fill(body, h("div", { class: "card" }, empty("There is too little to compare", "With six flows or more that have two examples each, every example is asked as a request, and you see whose lead elsewhere.")));
    return null;
  }
  // The worst pairs come first, and both flows of a pair stand beside each other.
  const confused = [...new Set(data.confusions.flatMap((each) => [each.expected, each.first]))];
  const names = confused.slice(0, MOST);
  const cell = new Map(data.confusions.map((each) => [`${each.expected}\n${each.first}`, each]));
  const picked = h("div", { "aria-live": "polite" });
  const most = Math.max(...data.confusions.map((each) => each.count), 1);
  const heat = (count) => (count >= 0.75 * most && count > 1 ? "h3" : count > 1 ? "h2" : "h1");
  const cells = new Map();
  const matrix = h("table", { class: "matrix" },
    h("caption", { class: "unseen" }, "Rows: the flow that an example belongs to. Columns: the flow that came first instead."),
    h("thead", {}, h("tr", {}, h("td"), names.map((name) => h("th", { scope: "col" }, h("span", { title: name }, name))))),
    h("tbody", {}, names.map((row) => h("tr", {}, h("th", { scope: "row", title: row }, row), names.map((column) => {
      const each = cell.get(`${row}\n${column}`);
      const made = row === column ? h("td", { class: "self" }) : each ? h("td", { class: heat(each.count) }, h("a", { href: to(["catalogue", "confusions"], { pair: `${row},${column}` }), "aria-label": `${counted(each.count, "example")} of ${row} taken for ${column}` }, each.count)) : h("td");
      if (each) cells.set(`${row},${column}`, made);
      return made;
    })))));
  function show(next) {
    const pair = next.params.get("pair") ?? "";
    cells.forEach((made, name) => made.classList.toggle("on", name === pair));
    const each = cell.get(pair.replace(",", "\n"));
    fill(picked, each ? one(each) : h("p", { class: "note" }, "Choose a cell to see the examples."));
  }
  const one = (each) => h("div", { class: "finding" },
    h("h3", {}, h("a", { href: to(["flow", each.expected]) }, each.expected), " taken for ", h("a", { href: to(["flow", each.first]) }, each.first), h("span", { class: "dim" }, `, ${each.count} of ${each.of}`)),
    h("ul", { class: "examples" }, each.examples.map((text) => h("li", {}, h("a", { href: to(["try"], { q: text }) }, text)))));
  fill(body,
    h("div", { class: "card" },
      h("dl", { class: "figures" },
        [["Examples asked", whole(data.asked), "each without itself"], ["Lead elsewhere", whole(data.asked - data.right), percent((data.asked - data.right) / data.asked)], ["Pairs confused", whole(data.confusions.length), "in one direction"]].map(([name, value, more]) => h("div", {}, h("dt", {}, name), h("dd", {}, value, h("small", {}, more))))),
      names.length ? h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Matrix of confusions" }, matrix) : h("p", { class: "note" }, "Every example leads to its own flow."),
      confused.length > MOST ? h("p", { class: "note" }, `The ${MOST} flows of the worst pairs, of ${confused.length}; the list below has all pairs.`) : null,
      names.length ? picked : null,
      h("details", {}, h("summary", {}, "How it is counted"), h("p", { class: "note" }, data.how_confused))),
    data.confusions.length ? list(data.confusions) : null);
  show(first);
  return show;
}
