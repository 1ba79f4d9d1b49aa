// Correct: what was right for a request, and all that was collected and learned so far.
import { fill, h, say } from "../dom.js";
import { get, post, standing, WRITTEN } from "../api.js";
import { to } from "../url.js";
import { counted, moment } from "../words.js";
import { empty, failed, waiting } from "../parts/states.js";
import { flowNames, mend, whoCorrects } from "../parts/mend.js";

export const title = "Correct";

export async function mount(outlet, first) {
  const service = await standing();
  const abort = new AbortController();
  const place = h("div", { class: "stack" });
  const collected = h("div", { class: "roomy" });
  const request = h("textarea", { id: "request", rows: 2, maxLength: 8000, value: first.params.get("q") ?? "", placeholder: "What a user said", oninput: () => { about.request = request.value; history.replaceState(null, "", to(["correct"], { q: request.value, right, logged: about.logged })); } });
  const about = { request: request.value, episodes: [], logged: first.params.get("logged") ?? "" };
  const right = first.params.get("right");
  fill(outlet,
    h("div", { class: "head" }, h("div", {}, h("h1", { tabindex: "-1" }, "Correct"), h("p", {}, "Say what would have been right. A case is kept to judge by; what an example costs is told first. It is live at once, and can be taken back."))),
    h("div", { class: "card" }, h("div", { class: "field" }, h("label", { for: "request" }, "Request"), request), place),
    collected);
  async function load() {
    try {
      fill(place, mend(about, right, await flowNames(), service, list));
      await list();
    } catch (error) {
      if (error.name !== "AbortError") fill(collected, h("div", { class: "card" }, failed(error, load)));
    }
  }
  async function undo(event, request) {
    event.target.disabled = true;
    try {
      const found = await post("corrections/undo", { request, by: whoCorrects() });
      say([`Version ${found.version} is live.`, ...found.problems].join(" "));
      dispatchEvent(new Event(WRITTEN));
      await list();
    } catch (error) { fill(collected, h("div", { class: "card" }, failed(error, list))); }
  }
  async function list() {
    if (!collected.firstChild) fill(collected, h("div", { class: "card" }, waiting("Reading what was corrected")));
    const data = await get("corrections", abort.signal);
    const learned = Object.entries(data.learned.examples).filter(([, texts]) => texts.length);
    const log = data.log;
    fill(collected,
      h("div", { class: "cols" },
        h("div", { class: "card" }, h("div", { class: "card-head" }, h("h2", {}, "Cases"), h("p", {}, counted(data.collected.count, "case"), " in ", h("code", { class: "wrap" }, data.collected.file))),
          data.collected.cases.length ? h("ul", { class: "examples" }, data.collected.cases.map((each) => h("li", {}, h("a", { href: to(["try"], { q: each.request }) }, each.request), h("span", { class: "dim small" }, ` ${each.expect.join(", ") || "nothing fits"}`)))) : h("p", { class: "note" }, "None yet. The file is made with the first.")),
        h("div", { class: "card" }, h("div", { class: "card-head" }, h("h2", {}, "Learned"), data.learned.can_undo ? h("button", { type: "button", onclick: (event) => undo(event, "") }, "Take back the last") : null, h("p", {}, data.learned.file ? [`version ${data.learned.version}, ${counted(data.learned.count, "example")} in `, h("code", { class: "wrap" }, data.learned.file)] : "nothing can be learned here")),
          learned.length ? h("dl", { class: "stack" }, learned.map(([name, texts]) => h("div", {}, h("dt", {}, h("a", { href: to(["flow", name]) }, name)), texts.map((text) => h("dd", { class: "dim small wrap" }, text, " ", h("button", { type: "button", class: "quiet slim", "aria-label": `Take back ${text}`, onclick: (event) => undo(event, text) }, "take back")))))) : h("p", { class: "note" }, data.learned.file ? "Nothing yet. What is taught can be taken back." : ["Start the service with ", h("code", {}, "--config learned=FILE"), "."]))),
      h("div", { class: "card flush" }, h("div", { class: "card-head" }, h("h2", {}, "Asked lately"), h("p", {}, log ? counted(log.count, "entry", "entries") : "no log")),
        !log ? h("div", { class: "state" }, h("p", {}, "The service keeps no log. Start it with ", h("code", {}, "--log FILE"), " to correct what was asked.")) : !log.entries.length ? empty("Nothing was asked yet", "Requests of clients and of the agent appear here; what is tried in the panel does not.") : h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Asked lately" }, h("table", { class: "tight" },
          h("thead", {}, h("tr", {}, ["Request", "Chosen", "Right", "When", ""].map((name) => h("th", { scope: "col" }, name || h("span", { class: "unseen" }, "Correct"))))),
          h("tbody", {}, log.entries.map((each) => h("tr", {}, h("th", { scope: "row", class: "said" }, each.request || h("span", { class: "dim" }, "text not kept")), h("td", { "data-label": "Chosen" }, each.chosen.join(", ") || "nothing", h("span", { class: "dim small" }, ` by ${each.by.chosen}`)), h("td", { "data-label": "Right" }, each.right === null ? "–" : [h("span", { class: "tag good" }, each.right.join(", ") || "nothing fits"), h("span", { class: "dim small" }, ` by ${each.by.corrected}`)]), h("td", { "data-label": "When" }, moment(each.at)), h("td", {}, each.request ? h("a", { href: to(["correct"], { q: each.request, right: each.chosen[0], logged: each.id }) }, "Correct") : null))))))));
  }
  load();
  return { leave() { abort.abort(); } };
}
