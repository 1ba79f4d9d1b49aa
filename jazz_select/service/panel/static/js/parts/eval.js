// An evaluation: measures, the worst flows, who is taken for whom, every miss.
import { bar, firsts, h } from "../dom.js";
import { to } from "../url.js";
import { counted, fixed, percent, time, whole } from "../words.js";

const SHARES = new Set(["MRR", "size", "ECE", "AUROC"]);
const show = (name, value) => (value === null || value === undefined ? "–" : SHARES.has(name) ? fixed(value, name === "size" ? 1 : 3) : percent(value, 1));
const NAMES = { coverage: "Right among the candidates", size: "Candidates", exact: "Exactly the right ones", unasked: "Decided without a model", "unasked-right": "Right of these" };
// Where none was asked, this is how often one would not have been.
const NAMES_UNASKED = { ...NAMES, unasked: "Would need no model" };

function change(now, then, name) {
  if (then === undefined || then === null || now === null) return null;
  const by = now - then;
  if (Math.abs(by) < 0.0005) return h("span", { class: "dim" }, "the same");
  const better = ["ECE", "size"].includes(name) ? by < 0 : by > 0;
  const text = SHARES.has(name) ? Math.abs(by).toFixed(3) : `${(100 * Math.abs(by)).toFixed(1)} points`;
  return h("span", { class: better ? "change-up" : "change-down" }, `${by > 0 ? "▲" : "▼"} ${text}`);
}

export function drawEval(run, other) {
  const measures = Object.entries(run.measures).filter(([, each]) => each).map(([name, each]) => ({ name, ...each })).filter((each) => !each.name.includes(":") && each.value !== null);
  const names = run.choices ? NAMES : NAMES_UNASKED;
  const head = ["R@1", "R@3", "MRR", "coverage"].filter((name) => run.measures[name]);
  const misses = new Map(run.misses.map((each) => [each.request, each]));
  const before = new Map((other?.misses ?? []).map((each) => [each.request, each]));
  const broken = other ? [...misses.values()].filter((each) => !before.has(each.request)) : [];
  const mended = other ? [...before.values()].filter((each) => !misses.has(each.request)) : [];
  const missed = h("tbody");
  const rest = firsts(missed, run.misses, miss);
  return [
    h("div", { class: "card" }, h("dl", { class: "figures" },
      head.map((name) => { const each = run.measures[name]; return h("div", {}, h("dt", {}, NAMES[name] ?? name), h("dd", {}, show(name, each.value), h("small", {}, other ? change(each.value, other.measures[name]?.value, name) : each.low !== null && each.low !== undefined ? `${percent(each.low, 1)} to ${percent(each.high, 1)}` : `of ${whole(each.cases)}`))); }),
      h("div", {}, h("dt", {}, "A request takes"), h("dd", {}, time(run.p50_s), h("small", {}, "median, asked together"))))),
    other ? h("div", { class: "cols" }, moved("Mended since", mended, "good"), moved("Broken since", broken, "bad")) : null,
    h("div", { class: "card flush" }, h("div", { class: "card-head" }, h("h2", {}, "Measures"), h("p", {}, run.choices ? `With the model ${run.choices.model ?? ""}.` : "Recall alone: this run asked no model.")),
      h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Measures" }, h("table", { class: "tight" },
        h("thead", {}, h("tr", {}, ["Measure", "Value", "95 % interval", "Cases", other ? "Since" : ""].map((name, at) => h("th", { scope: "col", class: at ? "num" : "" }, name || h("span", { class: "unseen" }, "Change"))))),
        h("tbody", {}, measures.map((each) => h("tr", {}, h("th", { scope: "row" }, names[each.name] ?? each.name), h("td", { class: "num", "data-label": "Value" }, show(each.name, each.value)), h("td", { class: "num dim", "data-label": "95 % interval" }, each.low === null || each.low === undefined ? "–" : `${show(each.name, each.low)} – ${show(each.name, each.high)}`), h("td", { class: "num", "data-label": "Cases" }, whole(each.cases)), h("td", { class: "num", "data-label": other ? "Since" : null }, other ? change(each.value, other.measures[each.name]?.value, each.name) : null))))))),
    run.misses.length ? h("div", { class: "card flush" }, h("div", { class: "card-head" }, h("h2", {}, "Misses"), h("p", {}, `${counted(run.misses.length, "case")} whose right flow is not first, the worst first.`)),
      h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Misses" }, h("table", { class: "tight" },
        h("thead", {}, h("tr", {}, ["Request", "Right", "First instead", "Rank"].map((name, at) => h("th", { scope: "col", class: at === 3 ? "num" : "" }, name)))), missed)),
      rest ? h("div", { class: "row foot" }, rest) : null) : h("div", { class: "card" }, h("h2", {}, "No misses"), h("p", { class: "note" }, "Every case has its flow first.")),
    worst(run),
    run.problems.length ? h("div", { class: "card" }, h("h2", {}, "Left out, or noted"), h("ul", { class: "notes" }, run.problems.slice(0, 30).map((each) => h("li", {}, `${each.file}${each.line ? `:${each.line}` : ""}: ${each.problem}`)))) : null,
  ];
}

const miss = (each) => h("tr", {}, h("th", { scope: "row", class: "said" }, h("a", { href: to(["try"], { q: each.request }) }, each.request)), h("td", { "data-label": "Right" }, flows(each.expect)), h("td", { "data-label": "First" }, each.first ? flows([each.first]) : "nothing"), h("td", { class: "num", "data-label": "Rank" }, each.rank ?? "> 10"));
const flows = (names) => names.map((name, at) => [at ? ", " : null, h("a", { href: to(["flow", name]) }, name)]);
const moved = (label, cases, kind) => h("div", { class: "card" }, h("h2", {}, label, " ", h("span", { class: `tag ${cases.length ? kind : ""}` }, cases.length)), cases.length ? h("ul", { class: "examples" }, cases.slice(0, 30).map((each) => h("li", {}, h("a", { href: to(["try"], { q: each.request }) }, each.request), h("span", { class: "dim small" }, ` ${each.expect.join(", ")}`)))) : h("p", { class: "note" }, "None."));

function worst(run) {
  const bad = run.by_flow.filter((each) => each.recall_at_1 < 1).slice(0, 20);
  if (!bad.length) return null;
  return h("div", { class: "card flush" }, h("div", { class: "card-head" }, h("h2", {}, "Flows with misses")), h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Flows with misses" }, h("table", { class: "tight" },
    h("thead", {}, h("tr", {}, ["Flow", "First", "Cases", "Taken by"].map((name, at) => h("th", { scope: "col", class: at === 2 ? "num" : "" }, name)))),
    h("tbody", {}, bad.map((each) => h("tr", {}, h("th", { scope: "row" }, h("a", { href: to(["flow", each.name]) }, each.name)), h("td", { "data-label": "First" }, h("div", { class: "meter" }, bar(each.recall_at_1), h("span", { class: "num" }, percent(each.recall_at_1)))), h("td", { class: "num", "data-label": "Cases" }, each.cases), h("td", { "data-label": "Taken by" }, each.taken_by.map((one, at) => [at ? ", " : null, one.flow ? h("a", { href: to(["flow", one.flow]) }, one.flow) : "nothing", one.count > 1 ? ` (${one.count})` : null]))))))));
}
