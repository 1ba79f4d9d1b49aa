// What a check finds, at the flow that it is about.
import { fill, firsts, h } from "../dom.js";
import { to } from "../url.js";
import { counted, fixed, time } from "../words.js";
import { empty } from "./states.js";

const KINDS = { error: "bad", warning: "warn", note: "" };

/** {error: 1, warning: 2} in a word or two. */
export const severity = (counts) => counts && Object.entries(counts).map(([name, count]) => h("span", { class: `tag ${KINDS[name]}` }, counted(count, name)));

export function finding(each, isAccepted = false) {
  const evidence = each.evidence.filter((one) => one.cosine !== null).slice(0, 4);
  return h("article", { class: "finding" },
    h("div", { class: "meta" }, h("span", { class: `tag ${KINDS[each.severity]}` }, isAccepted ? "accepted" : each.severity), h("h3", {}, h("code", {}, each.code)), each.file ? h("span", { class: "dim small mono wrap" }, `${each.file}${each.line ? `:${each.line}` : ""}`) : null),
    h("p", {}, each.what), h("p", { class: "dim small" }, each.remedy),
    evidence.length ? h("ul", { class: "examples small" }, evidence.map((one) => h("li", {}, `“${one.text}”`, h("span", { class: "dim" }, ` ${one.own_cosine === null ? "" : `${one.flow} ${fixed(one.own_cosine, 2)}, `}${one.other} ${fixed(one.cosine, 2)}`)))) : null,
    each.flows.length ? h("div", { class: "meta small" }, each.flows.map((name) => h("a", { href: to(["flow", name]) }, name))) : null);
}

export function drawFindings(body, data) {
  const { findings: found, accepted } = data;
  const codes = new Map();
  found.forEach((each) => codes.set(each.code, (codes.get(each.code) ?? 0) + 1));
  const kind = h("select", { id: "kind", onchange: () => show() }, h("option", { value: "" }, `All kinds (${found.length})`), [...codes].map(([code, count]) => h("option", { value: code }, `${code} (${count})`)));
  const listed = h("div");
  const rest = h("div");
  const show = () => fill(rest, firsts(listed, found.filter((each) => !kind.value || each.code === kind.value), (each) => finding(each)));
  show();
  fill(body,
    h("div", { class: "card" },
      h("dl", { class: "figures" }, Object.entries(data.counts).map(([name, count]) => h("div", {}, h("dt", {}, `${name[0].toUpperCase()}${name.slice(1)}s`), h("dd", {}, count))), h("div", {}, h("dt", {}, "Looked at"), h("dd", {}, data.flows, h("small", {}, `${counted(data.flows, "flow").replace(/^\S+ /, "")} and ${counted(data.cases, "case")} in ${time(data.took_s)}`)))),
      data.notes.length ? h("ul", { class: "notes" }, data.notes.map((note) => h("li", {}, note))) : null),
    found.length ? h("div", { class: "card" }, codes.size > 1 ? h("div", { class: "row" }, h("label", { for: "kind" }, "Kind"), h("div", {}, kind)) : null, listed, rest) : h("div", { class: "card" }, empty("Nothing is wrong", "No flow is missing a part, no example lies with another flow, no two say the same.")),
    accepted.length ? h("div", { class: "card" }, h("div", { class: "card-head" }, h("h2", {}, "Accepted"), h("p", {}, "Told to be so, in pyproject.toml.")), accepted.map((each) => finding(each, true))) : null);
  return null;
}
