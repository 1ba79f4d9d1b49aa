// The last days of the log against as many before.
import { fill, h } from "../dom.js";
import { get } from "../api.js";
import { go, to } from "../url.js";
import { moment, percent, sentence, whole } from "../words.js";
import { empty, failed, waiting } from "./states.js";

const shared = (share) => (share.share === null ? "–" : [percent(share.share), h("span", { class: "dim" }, ` of ${whole(share.of)}`)]);

export async function drawDrift(body, first, signal) {
  const days = Number(first.params.get("days")) || 7;
  const choice = h("select", { id: "days", onchange: () => go(to(["runs", "drift"], { days: choice.value })) }, [1, 7, 14, 30].map((each) => h("option", { value: String(each), selected: each === days }, each === 1 ? "1 day" : `${each} days`)));
  const place = h("div", { class: "roomy" }, waiting("Reading the log"));
  fill(body, h("div", { class: "card" }, h("div", { class: "row" }, h("label", { for: "days" }, "Length of a window"), h("div", {}, choice))), place);
  try {
    const { has_log: hasLog, drift: found } = await get(`drift?days=${days}`, signal);
    if (!found) {
      fill(place, h("div", { class: "card" }, hasLog ? empty("The log is empty", "Requests of clients and of the agent are kept in it from now on; what is tried in the panel is not.") : empty("There is no log", "Start the service with --log FILE to know how requests change from week to week.")));
      return;
    }
    const rows = [
      ["Requests", (each) => whole(each.requests)],
      ["A model was asked", (each) => shared(each.asked)],
      ["Nothing was chosen", (each) => shared(each.none)],
      ["Expected to be right", (each) => percent(each.accuracy.expected)],
      ["Right, as people said", (each) => shared(each.accuracy.observed)],
    ];
    const flows = found.flows.filter((each) => each.now.requests).slice(0, 20);
    fill(place,
      h("div", { class: "card" }, h("h2", {}, found.alarms.length ? "What to look at" : found.before.requests ? "Nothing to look at" : "Nothing to compare with yet"),
        found.alarms.length ? h("ul", { class: "notes" }, found.alarms.map((each) => h("li", {}, each.subject ? `${each.kind === "unserved" ? "Nearest to " : ""}${each.subject}: ` : "", each.message))) : found.before.requests ? h("p", { class: "note" }, "No change is larger than chance makes it.") : null,
        found.notes.map((note) => h("p", { class: "note" }, sentence(note)))),
      h("div", { class: "card flush" }, h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Both windows" }, h("table", {},
        h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "All flows"), h("th", { scope: "col", class: "num" }, `${moment(found.now.since)} – ${moment(found.now.until)}`), h("th", { scope: "col", class: "num" }, "before"))),
        h("tbody", {}, rows.map(([label, of]) => h("tr", {}, h("th", { scope: "row" }, label), h("td", { class: "num" }, of(found.now)), h("td", { class: "num" }, of(found.before)))))))),
      found.audit ? drawAudit(found.audit) : null,
      flows.length ? h("div", { class: "card flush" }, h("div", { class: "card-head" }, h("h2", {}, "By flow, least sure first")), h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "By flow" }, h("table", {},
        h("thead", {}, h("tr", {}, ["Flow", "Requests", "Before", "Expected right", "Before", "Right, people said"].map((name, at) => h("th", { scope: "col", class: at ? "num" : "" }, name)))),
        h("tbody", {}, flows.map((each) => h("tr", {}, h("th", { scope: "row" }, h("a", { href: to(["flow", each.flow]) }, each.flow)), h("td", { class: "num" }, whole(each.now.requests)), h("td", { class: "num" }, whole(each.before.requests)), h("td", { class: "num" }, percent(each.now.expected)), h("td", { class: "num" }, percent(each.before.expected)), h("td", { class: "num" }, shared(each.now.observed)))))))) : null,
      found.clusters.length ? h("div", { class: "card" }, h("h2", {}, "Requests without a flow"), h("ul", { class: "examples" }, found.clusters.slice(0, 15).map((each) => h("li", {}, each.texts.map((text, at) => [at ? " · " : null, h("a", { href: to(["try"], { q: text }) }, text)]), h("span", { class: "dim small" }, ` ${each.size} now, ${each.before} before`))))) : null,
      found.silent.length ? h("details", {}, h("summary", {}, `First for no request in ${found.days} days: ${found.silent.length}`), h("p", { class: "note" }, found.silent.join(", "))) : null);
  } catch (error) {
    if (error.name !== "AbortError") fill(place, h("div", { class: "card" }, failed(error, error.status >= 500 || !error.status ? () => drawDrift(body, first, signal) : null)));
  }
}

function drawAudit({ promise, whole: all, moves }) {
  const promised = promise === null ? "No error budget is set, so nothing is promised." : `Promised: at most ${percent(promise)} of the answers without a model differ from what it would choose.`;
  const measured = all.audited ? `${whole(all.differed)} of ${whole(all.audited)} that were asked all the same did (${percent(all.differed / all.audited)}).` : "None was asked all the same yet.";
  return h("div", { class: "card" }, h("h2", {}, "Decided without a model"), h("p", {}, `${promised} ${measured} ${whole(all.alone)} were given without a model.`),
    moves.length ? h("ul", { class: "notes" }, moves.slice(-10).reverse().map((each) => h("li", {}, `${moment(each.at)}: the threshold of ${each.flow || "all flows"} was ${each.kind} to ${each.threshold.toFixed(3)}: ${each.why}`))) : null);
}
