// Runs: what was measured, kept as files; a new one with a click; and what the log says of the last days.
import { fill, h } from "../dom.js";
import { get, post } from "../api.js";
import { go, to } from "../url.js";
import { counted, moment, percent, whole } from "../words.js";
import { empty, failed, told, waiting } from "../parts/states.js";
import { linked } from "../parts/tabs.js";
import { drawDrift } from "../parts/drift.js";
import { drawTrend } from "../parts/trend.js";

export const title = "Runs";

export async function mount(outlet, first) {
  const drift = first.path[1] === "drift";
  const body = h("div", { class: "roomy" });
  fill(outlet,
    h("div", { class: "head" }, h("div", {}, h("h1", { tabindex: "-1" }, "Runs"), h("p", {}, drift ? "The last days of the log against as many before." : "How well the flows are found on labelled requests, then and now."))),
    linked("Views of runs", [["Measured", to(["runs"]), !drift], ["Drift", to(["runs", "drift"]), drift]]), body);
  const abort = new AbortController();
  let timer = 0;
  async function load() {
    if (!body.firstChild) fill(body, h("div", { class: "card" }, waiting("Reading the runs", true)));
    try {
      if (drift) drawDrift(body, first, abort.signal);
      else list(await get("runs", abort.signal));
    } catch (error) {
      if (error.name !== "AbortError") fill(body, h("div", { class: "card" }, failed(error, load)));
    }
  }
  function list(data) {
    const wrong = h("div");
    const begin = async (value) => {
      try { go(to(["runs", (await post("runs", value)).id])); } catch (error) { fill(wrong, told("bad", error.message)); }
    };
    const file = h("select", { id: "cases" }, data.cases.map((name) => h("option", { value: name }, name)));
    const base = h("select", { id: "base" }, data.commits.map((each) => h("option", { value: each.commit }, `${each.commit} · ${each.subject.slice(0, 60)}`)));
    const ask = h("input", { type: "checkbox", id: "ask-model" });
    const busy = Boolean(data.under_way);
    fill(body,
      h("div", { class: "cols" },
        h("form", { class: "card", onsubmit: (event) => { event.preventDefault(); begin({ kind: "eval", cases: file.value, ask: ask.checked }); } },
          h("div", { class: "card-head" }, h("h2", {}, "Measure now"), h("p", {}, "Every labelled request is asked of the flows as they are live.")),
          data.cases.length ? [h("div", { class: "run-form" }, h("div", { class: "field" }, h("label", { for: "cases" }, "Cases"), file), h("button", { class: "main", type: "submit", disabled: busy }, "Measure")),
            data.has_model ? h("label", { class: "check", for: "ask-model" }, ask, "Ask the model too: up to one call a case") : null] : h("p", { class: "note" }, "The service knows no file of cases. Save a correction as a case, or start it with one.")),
        h("form", { class: "card", onsubmit: (event) => { event.preventDefault(); begin({ kind: "diff", base: base.value }); } },
          h("div", { class: "card-head" }, h("h2", {}, "Compare versions"), h("p", {}, "Which requests does a change of the flows lead elsewhere?")),
          data.commits.length ? h("div", { class: "run-form" }, h("div", { class: "field" }, h("label", { for: "base" }, "The files now against"), base), h("button", { type: "submit", disabled: busy }, "Compare")) : h("p", { class: "note" }, "The flows are in no git repository here, so there is no earlier version."))),
      wrong,
      data.under_way ? h("div", { class: "card" }, h("p", {}, h("a", { href: to(["runs", data.under_way.id]) }, data.under_way.id), " is being made.")) : null,
      drawTrend(data.runs),
      data.runs.length ? h("div", { class: "card flush" }, h("div", { class: "card-head" }, h("h2", {}, "Kept"), h("p", {}, "In ", h("code", {}, data.folder), ". What ", h("code", {}, "eval --json"), " and ", h("code", {}, "diff --json"), " write there is shown as well.")),
        h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Runs" }, h("table", { class: "tight" },
          h("thead", {}, h("tr", {}, ["Run", "When", "What", "Result"].map((name) => h("th", { scope: "col" }, name)))),
          h("tbody", {}, data.runs.map((run) => h("tr", {},
            h("th", { scope: "row" }, h("a", { href: to(["runs", run.id]) }, run.id)), h("td", { "data-label": "When" }, moment(run.at)),
            h("td", { "data-label": "What", class: "wrap" }, run.kind === "diff" ? `${run.base} → ${run.head}` : `${counted(run.requests, "case")}${run.cases ? ` of ${run.cases}` : ""}, ${counted(run.flows, "flow")}`),
            h("td", { "data-label": "Result" }, run.kind === "diff" ? h("span", { class: `tag ${run.passed ? "" : "bad"}` }, counted(run.changes, "request"), " led elsewhere") : h("strong", {}, `R@1 ${percent(run.recall_at_1, 1)}`)))))))) : h("div", { class: "card" }, empty("Nothing was measured yet", "A run asks every labelled request and counts how often the right flow comes first. It takes seconds, and no model is needed.")));
    if (data.under_way) timer = setTimeout(load, 1500);
  }
  load();
  return { update(next) { if ((next.path[1] === "drift") !== drift || (next.path[1] && !drift)) return false; load(); return true; }, leave() { clearTimeout(timer); abort.abort(); } };
}
