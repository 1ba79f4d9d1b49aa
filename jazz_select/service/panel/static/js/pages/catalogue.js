// Catalogue: every flow, the map, who is taken for whom, and what a check finds.
import { fill, h, say } from "../dom.js";
import { get } from "../api.js";
import { route, to } from "../url.js";
import { counted } from "../words.js";
import { empty, failed, waiting } from "../parts/states.js";
import { linked } from "../parts/tabs.js";
import { drawMap } from "../parts/map.js";
import { drawMatrix } from "../parts/matrix.js";
import { drawFindings, severity } from "../parts/findings.js";

export const title = "Catalogue";
const VIEWS = { flows: "Flows", map: "Map", confusions: "Confusions", findings: "Findings" };
const LEADS = {
  flows: "Every flow that can be found, with what stands beside it.",
  map: "Near flows are easily taken for each other.",
  confusions: "Whose examples lead to another flow, before any model is asked.",
  findings: "What is wrong with the catalogue, the worst first.",
};

export async function mount(outlet, first) {
  const view = VIEWS[first.path[1]] ? first.path[1] : "flows";
  const body = h("div", { class: "roomy" });
  fill(outlet,
    h("div", { class: "head" }, h("div", {}, h("h1", { tabindex: "-1" }, "Catalogue"), h("p", {}, LEADS[view]))),
    linked("Views of the catalogue", Object.entries(VIEWS).map(([name, label]) => [label, to(name === "flows" ? ["catalogue"] : ["catalogue", name]), name === view])),
    body);
  const abort = new AbortController();
  let drawn = null;
  async function load() {
    if (!drawn) fill(body, h("div", { class: "card" }, waiting(view === "flows" ? "Reading the flows" : "Comparing every example with every flow", true)));
    try {
      if (view === "flows") drawn = await list(body, route(), abort.signal);
      else if (view === "findings") drawn = drawFindings(body, await get("findings", abort.signal), route());
      else drawn = (view === "map" ? drawMap : drawMatrix)(body, await get("map", abort.signal), route());
    } catch (error) {
      if (error.name !== "AbortError") fill(body, h("div", { class: "card" }, failed(error, load)));
    }
  }
  load();
  return {
    update(next) {
      if ((VIEWS[next.path[1]] ? next.path[1] : "flows") !== view) return false;
      drawn?.(next);
      return true;
    },
    renew: load,
    leave() { abort.abort(); },
  };
}

/** The folders of flows, or their owners, as places of a choice with how many flows there are in each. */
function grouped(label, flows, field) {
  const counts = new Map();
  for (const flow of flows) if (flow[field]) counts.set(flow[field], (counts.get(flow[field]) ?? 0) + 1);
  if (!counts.size || counts.get(flows[0]?.[field]) === flows.length) return null;
  return h("optgroup", { label }, [...counts].sort().map(([name, count]) => h("option", { value: `${field}:${name}` }, `${name} (${count})`)));
}

async function list(body, first, signal) {
  const { flows } = await get("flows", signal);
  let found = null;
  let recalled = {};
  const bad = (flow) => Object.entries(found?.[flow.name] ?? {}).reduce((sum, [kind, count]) => sum + count * ({ error: 1e6, warning: 1e3 }[kind] ?? 1), 0);
  const ORDERS = { name: ["Name", () => 0], chosen: ["Chosen most often", (flow) => -flow.chosen], recalled: ["Worst R@1", (flow) => recalled[flow.name] ?? 2], findings: ["Worst findings", (flow) => -bad(flow)] };
  const groups = [grouped("Folder", flows, "folder"), grouped("Owner", flows, "owner")].filter(Boolean);
  const order = h("select", { id: "order", onchange: changed }, Object.entries(ORDERS).map(([name, [label]]) => h("option", { value: name }, label)));
  const group = h("select", { id: "group", onchange: changed }, h("option", { value: "" }, "All flows"), groups);
  let most = 100;
  const rows = h("tbody");
  const count = h("p", { class: "note", role: "status" });
  const search = h("input", { type: "search", id: "search", placeholder: "Name, description, condition, tool, owner", oninput: changed });
  const words = (flow) => [flow.name, flow.title, flow.description, flow.condition, flow.owner, ...flow.aliases, ...flow.tools].join(" ").toLowerCase();
  const known = flows.map((flow) => [flow, words(flow)]);
  const table = h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Flows" }, h("table", { class: "flow-list tight" },
    h("thead", {}, h("tr", {}, ["Flow", "What it does", "Tools", "Examples", "Chosen", "R@1", "Findings"].map((name, at) => h("th", { scope: "col", class: at > 1 ? "num" : "" }, name)))), rows));
  const none = h("div");
  const rest = h("button", { type: "button", class: "quiet", onclick: () => { most = flows.length; show(); } });
  function changed() {
    show();
    history.replaceState(null, "", to(["catalogue"], { q: search.value, order: order.value === "name" ? "" : order.value, group: group.value }));
  }
  function set({ params }) {
    search.value = params.get("q") ?? "";
    order.value = ORDERS[params.get("order")] ? params.get("order") : "name";
    group.value = params.get("group") ?? "";
    if (group.selectedIndex < 0) group.value = "";
    show();
  }
  function show() {
    const [field, ...named] = group.value.split(":");
    const wanted = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const left = known.filter(([, text]) => wanted.every((word) => text.includes(word))).map(([flow]) => flow).filter((flow) => !field || flow[field] === named.join(":"));
    const [, by] = ORDERS[order.value];
    left.sort((one, other) => by(one) - by(other));
    fill(rows, left.slice(0, most).map((flow) => h("tr", {},
      h("th", { scope: "row" }, h("a", { href: to(["flow", flow.name]) }, flow.name)),
      h("td", {}, h("span", { class: "clip" }, flow.description || "–")),
      h("td", { class: "num", "data-label": "Tools" }, flow.unconnected.length ? h("span", { class: "tag warn", title: flow.unconnected.join(", ") }, `${flow.unconnected.length} missing`) : flow.tools.length || "–"),
      h("td", { class: "num", "data-label": "Examples" }, flow.examples),
      h("td", { class: "num", "data-label": "Chosen" }, flow.chosen || "–"),
      h("td", { class: "num", "data-label": "R@1" }, !found ? "…" : recalled[flow.name] === undefined ? "–" : `${Math.round(100 * recalled[flow.name])} %`),
      h("td", { class: "num", "data-label": "Findings" }, found ? severity(found[flow.name]) ?? "–" : "…"))));
    count.textContent = wanted.length || field ? `${left.length} of ${counted(flows.length, "flow")}` : counted(flows.length, "flow");
    table.hidden = !left.length;
    rest.hidden = left.length <= most;
    rest.textContent = `Show all ${left.length}`;
    fill(none, left.length ? null : flows.length ? empty("No flow has these words", "Take one out, or look under Try for what a user would say.") : empty("There are no flows", "The catalogue is empty. Write one, and sync."));
  }
  fill(body, h("div", { class: "card flush" }, h("div", { class: "card-head filters" }, h("div", { class: "field grow" }, h("label", { for: "search", class: "unseen" }, "Search flows"), search), h("div", { class: "field" }, h("label", { for: "order" }, "Order"), order), groups.length ? h("div", { class: "field" }, h("label", { for: "group" }, "Show"), group) : null, count), table, h("div", { class: "row foot" }, rest), none));
  set(first);
  get("findings", signal).then((told) => { found = told.by_flow; recalled = told.recalled; show(); }).catch(() => { found = {}; show(); /* the page of findings says why */ });
  return (next) => { set(next); say(count.textContent); };
}
