// R@1 from run to run, as a line for all cases and one for each tag: of the file of cases that was measured last.
import { h } from "../dom.js";
import { to } from "../url.js";
import { moment, percent } from "../words.js";

const MOST = 12;

/** Shares as a line, with a dot at the last one. */
function line(values) {
  const known = values.map((value, at) => [value, at]).filter(([value]) => value !== undefined && value !== null);
  const x = (at) => 4 + (at * 152) / Math.max(values.length - 1, 1);
  const y = (value) => 24 - 20 * value;
  const d = known.map(([value, at], place) => `${place ? "L" : "M"}${x(at).toFixed(1)} ${y(value).toFixed(1)}`).join("");
  const [last, place] = known[known.length - 1];
  return h("svg", { viewBox: "0 0 160 28", class: "trend", "aria-hidden": "true" }, h("path", { d }), h("circle", { cx: x(place), cy: y(last), r: 3 }));
}

export function drawTrend(runs) {
  const evals = runs.filter((run) => run.kind === "eval");
  const same = evals.filter((run) => run.cases === evals[0].cases).slice(0, MOST).reverse();
  if (same.length < 2) return null;
  const tags = [...new Set(same.flatMap((run) => Object.keys(run.by_tag)))].sort();
  const rows = [["all", same.map((run) => run.recall_at_1)], ...tags.map((tag) => [tag, same.map((run) => run.by_tag[tag])])];
  const known = (values) => values.filter((value) => value !== undefined && value !== null);
  const last = same[same.length - 1];
  return h("div", { class: "card flush" }, h("div", { class: "card-head" }, h("h2", {}, "Trend"), h("p", {}, `R@1 of the last ${same.length} runs${last.cases ? ` of ${last.cases}` : ""}, since ${moment(same[0].at)}.`)),
    h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Trend" }, h("table", { class: "tight" },
      h("thead", {}, h("tr", {}, ["Cases", "Trend", "First", "Lowest", "Last"].map((name, at) => h("th", { scope: "col", class: at > 1 ? "num" : "" }, name)))),
      h("tbody", {}, rows.filter(([, values]) => known(values).length).map(([tag, values]) => h("tr", {},
        h("th", { scope: "row" }, tag === "all" ? h("a", { href: to(["runs", last.id]) }, "all") : tag),
        h("td", { "data-label": "Trend" }, line(values)),
        h("td", { class: "num", "data-label": "First" }, percent(known(values)[0], 1)),
        h("td", { class: "num", "data-label": "Lowest" }, percent(Math.min(...known(values)), 1)),
        h("td", { class: "num", "data-label": "Last" }, percent(known(values).at(-1), 1))))))));
}
