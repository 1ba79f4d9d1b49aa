// One run: an evaluation, beside another if one is chosen, or a comparison of two versions.
import { h, refill, say } from "../dom.js";
import { get } from "../api.js";
import { go, to } from "../url.js";
import { counted, embedderName, moment } from "../words.js";
import { failed, waiting } from "../parts/states.js";
import { drawDiff } from "../parts/diff.js";
import { drawEval } from "../parts/eval.js";

export const title = "Run";

export async function mount(outlet, first) {
  const id = first.path[1];
  const abort = new AbortController();
  let timer = 0;
  const head = (run, ...more) => h("div", { class: "head" }, h("div", {}, h("p", { class: "small" }, h("a", { href: to(["runs"]) }, "← Runs")), h("h1", { tabindex: "-1", class: "wrap" }, id), h("p", {}, run ? `${moment(run.at)}${run.kind === "diff" ? "" : `, ${counted(run.requests, "case")}${run.cases ? ` of ${run.cases}` : ""}, embedder ${embedderName(run.embedder)}`}` : "")), ...more);
  async function load(next) {
    try {
      const data = await get(`runs/${encodeURIComponent(id)}`, abort.signal);
      if (data.under_way) {
        const { done, total } = data.under_way;
        const bar = h("div", { class: "fill" });
        bar.style.width = total ? `${(100 * done) / total}%` : "8%";
        refill(outlet, head(null), h("div", { class: "card" }, h("p", {}, total && done ? `The model was asked about ${done} of ${total} cases.` : "It is being made."), h("div", { class: "progress", role: "progressbar", "aria-label": "Progress", "aria-valuemin": "0", "aria-valuemax": String(total || 1), "aria-valuenow": String(done) }, bar), waiting("Measuring")));
        timer = setTimeout(() => load(next), 700);
        return;
      }
      if (data.failed) { refill(outlet, head(null), h("div", { class: "card" }, failed({ message: data.failed, code: "", status: 400 }))); return; }
      await draw(data.run, next);
      say("The run is shown");
    } catch (error) {
      if (error.name !== "AbortError") refill(outlet, head(null), h("div", { class: "card" }, failed(error, error.status === 404 ? null : () => load(next))));
    }
  }
  async function draw(run, next) {
    if (run.kind === "diff") { refill(outlet, head(run), drawDiff(run)); return; }
    const others = (await get("runs", abort.signal)).runs.filter((each) => each.kind === "eval" && each.id !== id);
    const wanted = next.params.get("with") ?? "";
    const other = others.some((each) => each.id === wanted) ? (await get(`runs/${encodeURIComponent(wanted)}`, abort.signal)).run : null;
    const choice = h("select", { id: "with", onchange: () => go(to(["runs", id], { with: choice.value })) }, h("option", { value: "" }, "none"), others.map((each) => h("option", { value: each.id, selected: each.id === wanted }, each.id)));
    refill(outlet, head(run, others.length ? h("div", { class: "field" }, h("label", { for: "with" }, "Compare with"), choice) : null), drawEval(run, other));
  }
  refill(outlet, head(null), h("div", { class: "card" }, waiting("Reading the run", true)));
  load(first);
  return { update(next) { if (next.path[1] !== id) return false; load(next); return true; }, leave() { clearTimeout(timer); abort.abort(); } };
}
