// One flow: what authors wrote, what models are shown, what lies near it, and what is wrong with it.
import { bar, fill, h, refill } from "../dom.js";
import { get } from "../api.js";
import { to } from "../url.js";
import { counted, fixed } from "../words.js";
import { failed, waiting } from "../parts/states.js";
import { finding } from "../parts/findings.js";
import { tabs } from "../parts/tabs.js";

export const title = "Flow";

/** A step of a chain: a tool, or a choice. */
function chained(step) {
  if (step.problem) return h("span", { class: "tag warn" }, step.problem);
  if (step === "CHOOSE") return "a choice: whichever of its tools fits then";
  if (typeof step === "string") return h("code", {}, step);
  const names = step.candidate_tools.map((name, at) => [at ? " or " : null, h("code", {}, name)]);
  return ["a choice: ", names, step.fallback_tool ? [", else ", h("code", {}, step.fallback_tool)] : null];
}

export async function mount(outlet, first) {
  const name = first.path[1] ?? "";
  const abort = new AbortController();
  const back = h("p", { class: "small" }, h("a", { href: to(["catalogue"]) }, "← Catalogue"));
  async function load() {
    refill(outlet, h("div", { class: "head" }, h("div", {}, back, h("h1", { tabindex: "-1", class: "wrap" }, name))), h("div", { class: "card" }, waiting("Reading the flow")));
    try {
      draw(await get(`flows/${encodeURIComponent(name)}`, abort.signal));
    } catch (error) {
      if (error.name !== "AbortError") refill(outlet, back, h("div", { class: "card" }, h("h1", { tabindex: "-1", class: "unseen" }, name), failed(error, error.status === 404 ? null : load)));
    }
  }
  function draw(flow) {
    const beside = h("div", { class: "card" }, h("h2", {}, "Nearest flows"), waiting("Comparing"));
    const wrong = h("div", { class: "card" }, h("h2", {}, "Findings"), waiting("Checking"));
    const facts = [
      ["Condition", flow.condition || "–"],
      ["Effects", flow.desired_effects.join("; ") || "–"],
      ["Also called", flow.aliases.join(", ")],
      ["Parts", flow.parts.length ? flow.parts.map((part, at) => [at ? ", " : null, h("a", { href: to(["flow", part]) }, part)]) : ""],
      ["Steps", flow.steps.length ? h("ol", { class: "numbered" }, flow.steps.map((step) => h("li", {}, step))) : ""],
      ["Chain", flow.chain.length ? h("ol", { class: "numbered" }, flow.chain.map((step) => h("li", {}, chained(step)))) : flow.parts.length ? "" : "– (a model or the caller goes on with its prompt)"],
      ["Reply", flow.reply],
      ["Written in", flow.file ? h("code", { class: "wrap" }, `${flow.file}${flow.line ? `:${flow.line}` : ""}`) : ""],
    ].filter(([, value]) => value !== "");
    const tools = flow.tools.length ? h("ul", { class: "stack" }, flow.tools.map((tool) => h("li", {}, h("div", { class: "meta" }, h("code", {}, tool.name), tool.destructive ? h("span", { class: "tag bad" }, "cannot be undone") : null, tool.is_connected ? null : h("span", { class: `tag ${tool.is_optional ? "" : "warn"}` }, tool.is_optional ? "optional, not connected" : "not connected")), tool.description ? h("p", { class: "dim small" }, tool.description.split("\n")[0]) : null))) : h("p", { class: "note" }, "It has no tools.");
    refill(outlet,
      h("div", { class: "head" },
        h("div", {}, back, h("h1", { tabindex: "-1", class: "wrap" }, flow.name), h("p", {}, flow.description),
          h("div", { class: "meta" }, h("span", { class: "tag" }, flow.type), flow.owner ? h("a", { class: "tag", href: to(["catalogue"], { group: `owner:${flow.owner}` }) }, `owner ${flow.owner}`) : null, flow.has_guard ? h("span", { class: "tag" }, "has a guard") : null, flow.manual ? h("span", { class: "tag" }, "by hand") : null)),
        h("a", { class: "button", href: to(["catalogue", "map"], { flow: flow.name }) }, "On the map")),
      h("div", { class: "cols" },
        h("div", { class: "roomy" },
          h("div", { class: "card" }, h("h2", {}, "Definition"), h("dl", { class: "pairs" }, facts.map(([label, value]) => [h("dt", {}, label), h("dd", {}, value)]))),
          h("div", { class: "card" }, h("h2", {}, "Tools"), tools), wrong),
        h("div", { class: "roomy" },
          h("div", { class: "card" }, h("div", { class: "card-head" }, h("h2", {}, "Examples"), h("p", {}, counted(flow.examples.length, "request"))), h("ul", { class: "examples" }, flow.examples.map((text) => h("li", {}, h("a", { href: to(["try"], { q: text }) }, text))))), beside)),
      h("div", { class: "card" }, tabs("Prompts", {
        short: ["Prompt, compact", () => h("pre", { class: "text", tabindex: "0", "aria-label": "The compact prompt" }, flow.prompt)],
        whole: ["Prompt, whole", () => h("pre", { class: "text", tabindex: "0", "aria-label": "The whole prompt" }, flow.whole_prompt)],
      })));
    get("map", abort.signal).then((map) => {
      const near = map.nearest[flow.name] ?? [];
      fill(beside, h("div", { class: "card-head" }, h("h2", {}, "Nearest flows"), h("p", {}, "By cosine; and how many examples of either lead to the other.")),
        near.length ? h("ul", { class: "stack" }, near.map((other) => h("li", { class: "meter" }, h("span", {}, h("a", { href: to(["flow", other.name]) }, other.name), other.confused ? h("span", { class: "dim small" }, ` ${counted(other.confused, "example")} astray`) : null, bar(other.cosine)), h("span", { class: "num" }, fixed(other.cosine, 2))))) : h("p", { class: "note" }, "There is no other flow."));
    }).catch((error) => { if (error.name !== "AbortError") fill(beside, h("h2", {}, "Nearest flows"), failed(error)); });
    get("findings", abort.signal).then((told) => {
      const mine = told.findings.filter((each) => each.flows.includes(flow.name));
      const accepted = told.accepted.filter((each) => each.flows.includes(flow.name));
      fill(wrong, h("h2", {}, "Findings"), mine.map((each) => finding(each)), accepted.map((each) => finding(each, true)), mine.length || accepted.length ? null : h("p", { class: "note" }, "The check finds nothing wrong with it."));
    }).catch((error) => { if (error.name !== "AbortError") fill(wrong, h("h2", {}, "Findings"), failed(error)); });
  }
  load();
  return { renew: load, leave() { abort.abort(); } };
}
