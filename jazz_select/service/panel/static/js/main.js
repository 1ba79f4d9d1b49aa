// The shell: which page is shown, what stands beside it, and what is told of the service as a whole.
import { ApiError, askKeyWith, forget, key, standing, WRITTEN } from "./api.js";
import { fill, h, say } from "./dom.js";
import { route, to } from "./url.js";
import { counted, moment } from "./words.js";
import { empty, failed, waiting } from "./parts/states.js";
import { forgetNames } from "./parts/mend.js";

const icon = (d) => h("svg", { viewBox: "0 0 24 24", "aria-hidden": "true" }, h("path", { d }));
const PAGES = [
  ["try", "Try", "M11 4a7 7 0 1 0 0 14 7 7 0 0 0 0-14zM20 20l-4-4"],
  ["talk", "Talk", "M4 5h16v11H9l-5 4z"],
  ["catalogue", "Catalogue", "M4 5h6v6H4zM14 5h6v6h-6zM4 15h6v4H4zM14 15h6v4h-6z"],
  ["runs", "Runs", "M4 19V5M4 19h16M8 15l4-5 3 3 5-7"],
  ["correct", "Correct", "M5 12l5 5L20 6"],
];
const UNDER = { flow: "catalogue" };
const main = document.getElementById("main");
let shown = null;
let mounted = null;
let generation = 0;
let rounds = 0;

const MODULES = ["try", "talk", "catalogue", "flow", "runs", "run", "correct"];
const module = (at) => {
  const name = at.path[0] === "runs" && at.path[1] && at.path[1] !== "drift" ? "run" : at.path[0];
  return MODULES.includes(name) ? name : null;
};

/** A page's module, which a service that is gone cannot give. */
async function load(name) {
  try { return await import(`./pages/${name}.js`); } catch { throw new ApiError(0, "The service does not answer. It may have stopped, or be starting again.", "gone"); }
}

async function show(event) {
  // Looked up with each page, so that what is told beside it is as new as the page; it asks the same answer of `standing`.
  if (event) stand();
  const at = route();
  const name = module(at);
  const current = UNDER[at.path[0]] ?? at.path[0];
  document.querySelectorAll("#pages a").forEach((link) => (link.dataset.page === current ? link.setAttribute("aria-current", "page") : link.removeAttribute("aria-current")));
  if (name && name === shown && mounted?.update && mounted.update(at) !== false) return;
  mounted?.leave?.();
  const fromElsewhere = shown !== null;
  const mine = Symbol(name);
  show.last = mine;
  shown = name;
  mounted = null;
  if (!name) {
    fill(main, h("div", { class: "card" }, h("h1", { tabindex: "-1", class: "unseen" }, "No such page"), empty("There is no such page", "The address may be of another version.", h("a", { class: "button", href: "#/try" }, "To the first page"))));
    return;
  }
  const place = h("div", { class: "stack page" });
  fill(main, place);
  fill(place, h("div", { class: "card" }, waiting("Opening")));
  let title = "Panel";
  try {
    const page = await load(name);
    title = page.title;
    document.title = `${at.path[0] === "flow" ? at.path[1] : title} · jazz_select`;
    const made = await page.mount(place, at);
    if (show.last !== mine) { made?.leave?.(); return; }
    mounted = made;
  } catch (error) {
    if (show.last === mine) { shown = null; fill(place, h("div", { class: "card" }, h("h1", { tabindex: "-1", class: "unseen" }, title), failed(error, () => { forget(); show(); stand(); }))); }
  }
  if (fromElsewhere && show.last === mine) {
    scrollTo(0, 0);
    main.querySelector("h1")?.focus({ preventScroll: true });
    say(title);
  }
}

/** What is told of the service, looked at again and again: a reload that failed, a service that is gone. */
async function stand() {
  const banner = document.getElementById("banner");
  const mine = Symbol("stand");
  stand.last = mine;
  try {
    forget();
    const now = await standing();
    if (stand.last !== mine) return;
    fill(document.getElementById("standing"), h("strong", {}, now.agent_id), h("span", {}, `${counted(now.flows, "flow")}, ${counted(now.tools, "tool")}`), h("span", {}, now.has_model ? "with a model" : "without a model"), h("span", { title: `generation ${now.generation}` }, `read ${moment(now.loaded_at)}`));
    fill(banner, now.problem ? h("div", { class: "banner" }, h("strong", {}, "The newest files are not live."), h("span", {}, now.problem)) : null);
    if (generation && generation !== now.generation) { forgetNames(); say("The catalogue was reloaded"); mounted?.renew?.(); }
    generation = now.generation;
  } catch (error) {
    if (stand.last !== mine) return;
    fill(banner, h("div", { class: "banner bad" }, h("strong", {}, error.code === "gone" ? "The service is not there." : "The service cannot answer."), h("span", {}, error.code === "gone" ? "It is asked again every few seconds." : error.message)));
  }
}

let asked = null;
/** Ask for the key, once for all who wait for it. */
function askKey(wasWrong) {
  asked ??= new Promise((have) => {
    const input = h("input", { type: "password", id: "key", autocomplete: "off", required: true, "aria-describedby": "key-told" });
    const dialog = h("dialog", { "aria-labelledby": "key-title", oncancel: (event) => event.preventDefault() },
      h("form", { onsubmit: (event) => { event.preventDefault(); if (!input.value.trim()) return; key.set(input.value.trim()); dialog.close(); dialog.remove(); asked = null; have(); } },
        h("h2", { id: "key-title" }, wasWrong ? "This key opens nothing here" : "This service asks for a key"),
        h("p", { class: "dim", id: "key-told" }, "Whoever started the service has it. It is kept in this tab, and gone when you close it."),
        h("div", { class: "field" }, h("label", { for: "key" }, "Key"), input),
        h("button", { class: "main", type: "submit" }, "Open")));
    document.body.append(dialog);
    dialog.showModal();
  });
  return asked;
}

function theme() {
  const names = [["auto", "Auto"], ["light", "Light"], ["dark", "Dark"]];
  const buttons = names.map(([name, label]) => h("button", { type: "button", onclick: () => { globalThis.jazzTheme.choose(name); mark(); } }, label));
  const mark = () => buttons.forEach((button, at) => button.setAttribute("aria-pressed", String(names[at][0] === globalThis.jazzTheme.chosen())));
  mark();
  fill(document.getElementById("theme"), h("div", { role: "group", "aria-label": "Colours", class: "row" }, buttons));
}

fill(document.getElementById("pages"), h("ul", {}, PAGES.map(([name, label, d]) => h("li", {}, h("a", { href: to([name]), "data-page": name }, icon(d), label)))));
document.querySelector(".skip").addEventListener("click", (event) => { event.preventDefault(); main.focus(); });
theme();
askKeyWith(askKey);
addEventListener("hashchange", show);
addEventListener(WRITTEN, stand);
addEventListener("focus", () => { if (!asked) stand(); });
// The other pages are fetched once this one is shown: then each opens at once, also while the service is away.
show().then(() => MODULES.forEach((name) => load(name).catch(() => null)));
stand();
setInterval(() => {
  rounds += 1;
  if (!document.hidden && !asked && (rounds % 5 === 0 || document.getElementById("banner").firstChild)) stand();
}, 2_000);
