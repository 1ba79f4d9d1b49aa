// What was right: one click makes a case, or an example.
import { fill, fresh, h, say } from "../dom.js";
import { get, post, WRITTEN } from "../api.js";
import { counted, percent } from "../words.js";
import { told } from "./states.js";

let names = null;
/** The names of all flows, for choosing among them. */
export async function flowNames() {
  names ??= get("flows").then((found) => found.flows.map((flow) => flow.name));
  try { return await names; } catch (error) { names = null; throw error; }
}
let reviewer = "";
/** Who corrects, for the log; kept while the page is open. */
export const whoCorrects = () => reviewer;
/** A field for the name of who corrects. */
export function naming() {
  const id = fresh("by");
  return h("div", { class: "field" }, h("label", { for: id }, "Your name"), h("input", { id, type: "text", maxLength: 200, value: reviewer, autocomplete: "name", oninput: (event) => { reviewer = event.target.value; } }));
}
export const forgetNames = () => { names = null; };

/** A choice of the right flow, and the two buttons. `about` is {request, episodes, logged}. */
export function mend(about, suggested, flows, standing, done) {
  const id = fresh("right");
  const choice = h("select", { id, name: "right" },
    suggested === null ? h("option", { value: "?", selected: true }, "choose …") : null,
    h("option", { value: "", selected: suggested === "" }, "nothing fits"),
    flows.map((name) => h("option", { value: name, selected: name === suggested }, name)));
  const outcome = h("div", { "aria-live": "polite" });
  const buttons = [["case", "Save as case"], ["example", "Teach as example"]].map(([make, label]) =>
    h("button", { type: "button", class: make === "case" ? "main" : "", onclick: () => save(make), disabled: make === "example" && !standing.has_learned, title: make === "example" && !standing.has_learned ? "The service was started without --config learned=FILE" : "" }, label));
  const asked = (make) => ({ request: about.request, right: choice.value ? [choice.value] : [], make, by: reviewer, episodes: about.episodes ?? [], logged: about.logged ?? "" });
  async function rehearse() {
    fill(outcome, told("info", "Asking what it costs: every case, and an example of each flow, with it and without …"));
    buttons.forEach((button) => { button.disabled = true; });
    try {
      const { cost, overrules } = await post("corrections/rehearsal", asked("example"));
      const lost = cost?.lost ?? [];
      const says = cost === null ? "There are too few cases to tell what it costs." : lost.length ? `It takes ${counted(lost.length, "request")} from the right flow.` : "It takes no known request from its flow.";
      const gain = cost === null ? "" : ` Right first: ${percent(cost.gain.before)} before, ${percent(cost.gain.after)} with it, of ${cost.gain.requests}.`;
      const other = overrules ? ` It is learned for ${overrules}: with your name you overrule that.` : "";
      const list = lost.length ? h("ul", { class: "examples" }, lost.map((each) => h("li", {}, each.request, h("span", { class: "dim small" }, ` ${each.right.join(", ") || "nothing fits"} → ${each.after || "nothing"}`)))) : null;
      const go = h("button", { type: "button", class: "main", onclick: () => save("example", true) }, lost.length || overrules ? "Teach it all the same" : "Teach it");
      fill(outcome, told(lost.length || overrules ? "warn" : "good", says, gain, other, list, go));
      say(`${says}${gain}${other}`);
    } catch (error) {
      fill(outcome, told("bad", `Nothing was written: ${error.message}`));
    } finally {
      buttons.forEach((button, at) => { button.disabled = at === 1 && !standing.has_learned; });
    }
  }
  async function save(make, sure = false) {
    if (choice.value === "?") {
      fill(outcome, told("warn", "Choose the flow that would have been right, or that nothing fits."));
      choice.focus();
      return;
    }
    if (make === "example" && !sure) return rehearse();
    buttons.forEach((button) => { button.disabled = true; });
    try {
      const found = await post("corrections", asked(make));
      const isLive = found.generation !== undefined;
      const what = !found.is_new ? `It is there already: ${found.file}` : make === "case" ? `Added to ${found.file}` : `Learned as version ${found.version}${isLive ? ", live now" : ""}: ${found.file}`;
      const whole = found.is_new && !found.problems.length;
      fill(outcome, told(whole ? "good" : "warn", what, found.logged ? ". The log was told as well." : ".", found.problems.map((each) => h("p", {}, each)), found.text ? h("pre", {}, found.text) : null));
      say([what, ...found.problems].join(". "));
      done?.();
    } catch (error) {
      fill(outcome, told("bad", error.status >= 400 && error.status < 500 ? `Nothing was written: ${error.message}` : `It may not have been written: ${error.message}`));
    } finally {
      dispatchEvent(new Event(WRITTEN));
      buttons.forEach((button, at) => { button.disabled = at === 1 && !standing.has_learned; });
    }
  }
  return h("div", { class: "stack" },
    h("div", { class: "mend" }, h("div", { class: "field" }, h("label", { for: id }, "The right flow"), choice), naming(), buttons),
    standing.has_learned ? null : h("p", { class: "note" }, "Examples can be taught where the service was started with ", h("code", {}, "--config learned=FILE"), "."),
    outcome);
}
