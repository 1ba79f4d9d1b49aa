// A trace as a tree: each span with its time as a bar, and all that is known of it when it is opened.
import { h } from "../dom.js";
import { time } from "../words.js";

const shown = (value) => (typeof value === "string" ? value : JSON.stringify(value, null, 1));
const given = (values) => Object.entries(values ?? {}).filter(([, value]) => value !== null && value !== "" && !(Array.isArray(value) && !value.length));

function pairs(values) {
  const rows = given(values);
  return rows.length ? h("dl", { class: "pairs" }, rows.map(([name, value]) => [h("dt", {}, name.replaceAll("_", " ")), h("dd", {}, shown(value))])) : null;
}

function content(values) {
  return given(values).map(([name, value]) =>
    name === "messages" && Array.isArray(value)
      ? value.map((each) => h("div", {}, h("p", { class: "said-by" }, each.role), h("pre", { class: "text", tabindex: "0", "aria-label": `What ${each.role} says` }, each.content)))
      : h("div", {}, h("p", { class: "said-by" }, name.replaceAll("_", " ")), h("pre", { class: "text", tabindex: "0", "aria-label": name }, shown(value))));
}

/** Whether a step was only put off: until a yes, or until the user says what it lacks. */
const waits = (each) => each.kind === "decision" && each.error === "failed" && (each.attributes.fault === "asked" || each.attributes.missing?.length > 0);

export function trace(spans, leftOut = 0) {
  if (!spans.length) return h("p", { class: "note" }, "Nothing was traced.");
  const end = Math.max(...spans.map((each) => each.started_s + (each.duration_s ?? 0)), 1e-6);
  return h("div", { class: "trace" },
    spans.map((each) => {
      const run = h("div", { class: "fill" });
      run.style.left = `${(100 * each.started_s) / end}%`;
      run.style.width = `${(100 * (each.duration_s ?? 0)) / end}%`;
      return h("details", {},
        h("summary", {},
          h("span", { class: `trace-name d${Math.min(5, each.depth)}` },
            h("span", { class: `trace-kind is-${each.kind}`, "aria-hidden": "true" }),
            h("b", {}, each.name), h("span", { class: "faint small" }, each.kind),
            waits(each) ? h("span", { class: "tag" }, "waits") : each.error ? h("span", { class: "tag bad" }, each.error) : null),
          h("span", { class: "trace-time", "aria-hidden": "true" }, run),
          h("span", { class: "num dim" }, time(each.duration_s))),
        h("div", { class: `trace-more d${Math.min(5, each.depth)}` }, pairs(each.attributes), content(each.content)));
    }),
    leftOut ? h("p", { class: "note" }, `… and ${leftOut} more spans`) : null);
}
