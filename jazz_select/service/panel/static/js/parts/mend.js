// What was right: one click makes a case, or an example.
import { fill, fresh, h, say } from "../dom.js";
import { get, post, WRITTEN } from "../api.js";
import { told } from "./states.js";

let names = null;
/** The names of all flows, for choosing among them. */
export async function flowNames() {
  names ??= get("flows").then((found) => found.flows.map((flow) => flow.name));
  try { return await names; } catch (error) { names = null; throw error; }
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
    h("button", { type: "button", class: make === "case" ? "main" : "", onclick: () => save(make), disabled: make === "example" && !standing.has_learned, title: make === "example" && !standing.has_learned ? "The service was started without --learned FILE" : "" }, label));
  async function save(make) {
    if (choice.value === "?") {
      fill(outcome, told("warn", "Choose the flow that would have been right, or that nothing fits."));
      choice.focus();
      return;
    }
    buttons.forEach((button) => { button.disabled = true; });
    try {
      const right = choice.value ? [choice.value] : [];
      const found = await post("corrections", { request: about.request, right, make, episodes: about.episodes ?? [], logged: about.logged ?? "" });
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
    h("div", { class: "mend" }, h("div", { class: "field" }, h("label", { for: id }, "The right flow"), choice), buttons),
    standing.has_learned ? null : h("p", { class: "note" }, "Examples can be taught where the service was started with ", h("code", {}, "--learned FILE"), "."),
    outcome);
}
