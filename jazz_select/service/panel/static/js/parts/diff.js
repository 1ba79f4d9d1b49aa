// A comparison of two versions: which requests are led elsewhere.
import { h } from "../dom.js";
import { to } from "../url.js";
import { counted, percent, time, whole } from "../words.js";

const KINDS = { broken: "bad", gone: "bad", lost: "bad", surer: "warn", found: "good", fixed: "good" };

export function drawDiff(run) {
  const rows = [
    ["Flows", (each) => whole(each.flows)],
    ["R@1", (each) => percent(each.recall_at_1, 1)],
    ["Requests", (each) => whole(each.requests)],
    ["A model would be asked", (each) => `${whole(each.asked)} (${percent(each.asked_share, 1)})`],
    ["Lead nowhere", (each) => whole(each.none)],
  ];
  const flows = run.flows ?? {};
  const changed = [["Added", flows.added], ["Removed", flows.removed], ["Renamed", Object.entries(flows.renamed ?? {}).map(([a, b]) => `${a} → ${b}`)], ["Changed", Object.entries(flows.changed ?? {}).map(([name, fields]) => `${name} (${fields.join(", ")})`)]].filter(([, names]) => names?.length);
  return [
    h("div", { class: "card" }, h("h2", { class: "wrap" }, `${run.base} → ${run.head}`), h("p", {}, run.summary),
      changed.length ? h("dl", { class: "pairs" }, changed.map(([label, names]) => [h("dt", {}, label), h("dd", {}, names.join(", "))])) : h("p", { class: "note" }, "The flows are the same in both."),
      run.failures?.length ? h("ul", { class: "notes" }, run.failures.map((each) => h("li", {}, each.message))) : null,
      run.notes?.length ? h("ul", { class: "notes" }, run.notes.map((note) => h("li", {}, note))) : null),
    h("div", { class: "card flush" }, h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Before and after" }, h("table", {},
      h("thead", {}, h("tr", {}, h("td"), h("th", { scope: "col", class: "num" }, "Before"), h("th", { scope: "col", class: "num" }, "After"))),
      h("tbody", {}, rows.map(([label, of]) => h("tr", {}, h("th", { scope: "row" }, label), h("td", { class: "num" }, of(run.before)), h("td", { class: "num" }, of(run.after)))))))),
    run.changes.length ? h("div", { class: "card flush" }, h("div", { class: "card-head" }, h("h2", {}, "Led elsewhere"), h("p", {}, counted(run.changes.length, "request"))),
      h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Led elsewhere" }, h("table", { class: "tight" },
        h("thead", {}, h("tr", {}, ["Request", "Effect", "Before", "After", "Right"].map((name) => h("th", { scope: "col" }, name)))),
        h("tbody", {}, run.changes.slice(0, 150).map((each) => h("tr", {}, h("th", { scope: "row", class: "said" }, h("a", { href: to(["try"], { q: each.request }) }, each.request)), h("td", { "data-label": "Effect" }, h("span", { class: `tag ${KINDS[each.effect] ?? ""}` }, each.effect || (each.kinds ?? [])[0] || "other")), h("td", { "data-label": "Before" }, first(each.before)), h("td", { "data-label": "After" }, first(each.after)), h("td", { "data-label": "Right" }, (each.expect ?? []).join(", ") || "–"))))))) : null,
    h("p", { class: "note" }, `It took ${time(run.took_s)}, and no model was asked.`),
  ];
}

const first = (side) => side.first ?? side.ranking?.[0] ?? side.candidates?.[0] ?? "nothing";
