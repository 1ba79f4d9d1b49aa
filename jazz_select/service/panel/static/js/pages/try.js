// Try: one request, and all that is known of how flows were found for it.
import { bar, fill, h, say } from "../dom.js";
import { post, standing } from "../api.js";
import { go, to } from "../url.js";
import { fixed, sentence, share, TIERS, time, whole } from "../words.js";
import { empty, failed, waiting } from "../parts/states.js";
import { flowNames, mend } from "../parts/mend.js";
import { scale } from "../parts/scale.js";
import { tabs } from "../parts/tabs.js";
import { trace } from "../parts/trace.js";

export const title = "Try";

const number = (text) => (text === null || text === "" || Number.isNaN(Number(text)) ? null : Number(text));

function read(params) {
  const top = params.get("top_k");
  return {
    request: params.get("q") ?? "",
    episodes: params.getAll("earlier"),
    max_error: number(params.get("error")),
    top_k: top ? Math.min(10, Math.max(1, Math.round(number(top) ?? 3))) : null,
    ask: params.get("ask") === "1",
    context: params.get("context") ?? "",
    tab: params.get("tab") ?? "",
  };
}

/** What guards see: JSON, or nothing. */
function facts(text) {
  if (!text.trim()) return {};
  const found = JSON.parse(text);
  if (found === null || typeof found !== "object" || Array.isArray(found)) throw new Error("facts are a JSON object, such as {\"authenticated\": false}");
  return found;
}
const hash = (asked) => to(["try"], { q: asked.request, earlier: asked.episodes, error: asked.max_error, top_k: asked.top_k, ask: asked.ask, context: asked.context, tab: asked.tab });

export async function mount(outlet, first) {
  const service = await standing();
  let asked = read(first.params);
  let abort = null;
  const results = h("section", { "aria-label": "What was selected", class: "roomy results" });
  const request = h("textarea", { id: "request", rows: 1, maxLength: 8000, required: true, placeholder: "What a user says", onkeydown: (event) => { if (event.key === "Enter" && !event.shiftKey) { event.preventDefault(); form.requestSubmit(); } } });
  const earlier = h("textarea", { id: "earlier", rows: 2, placeholder: "One summary a line", onchange: () => change({ episodes: lines(earlier.value) }) });
  const context = h("textarea", { id: "context", rows: 2, placeholder: '{"authenticated": false}', onchange: () => change({ context: context.value.trim() }) });
  const facing = h("details", { open: asked.context !== "" }, h("summary", {}, "Facts that guards see"), h("label", { class: "unseen", for: "context" }, "Facts as a JSON object"), context);
  const form = h("form", { class: "card ask", role: "search", onsubmit: (event) => { event.preventDefault(); change({ request: request.value.trim(), episodes: lines(earlier.value), context: context.value.trim() }, false); } },
    h("div", { class: "ask-line" },
      h("div", { class: "field" }, h("label", { for: "request" }, "Request"), request),
      h("button", { class: "main", type: "submit" }, "Select")));
  const sliders = [
    slider("error", "Wrong answers without the model, at most", "max_error", 0.01, 0.5, 0.01, service.settings.max_error, "none"),
    slider("top", "Candidates", "top_k", 1, 10, 1, service.settings.top_k === "auto" ? null : service.settings.top_k, "as needed"),
  ];
  const askBox = h("input", { type: "checkbox", id: "ask", onchange: () => change({ ask: askBox.checked }) });
  form.append(
    h("div", { class: "sliders" }, sliders.map((each) => each.element)),
    h("div", { class: "row" },
      h("details", { open: asked.episodes.length > 0 }, h("summary", {}, "What was said earlier"), h("label", { class: "unseen", for: "earlier" }, "Summaries of earlier turns, one a line"), earlier),
      facing,
      service.has_model ? h("label", { class: "check", for: "ask" }, askBox, "Ask the model where it would be asked") : h("p", { class: "note" }, "No model is configured: the first candidate is taken.")));

  function slider(id, label, field, min, max, step, set, off) {
    const out = h("output", { for: id });
    const input = h("input", { type: "range", id, min: String(min - step), max: String(max), step: String(step), oninput: show, onchange: () => change({ [field]: current() }) });
    // The lowest place stands for what the service is set to.
    const fallback = set === null ? off : `as set: ${set}`;
    const current = () => (Number(input.value) < min - step / 2 ? null : Math.round(Number(input.value) * 100) / 100);
    function show() {
      const value = current();
      const text = value === null ? fallback : field === "top_k" ? String(value) : value.toFixed(2);
      out.textContent = text;
      input.setAttribute("aria-valuetext", text);
    }
    return {
      element: h("div", { class: "slider" }, h("div", {}, h("label", { for: id }, label), out), input),
      set(value) { input.value = String(value ?? min - step); show(); },
    };
  }

  function change(part, quietly = true) {
    asked = { ...asked, ...part };
    go(hash(asked), quietly && asked.request !== "");
  }

  function show() {
    if (document.activeElement !== request || request.value.trim() !== asked.request) request.value = asked.request;
    earlier.value = asked.episodes.join("\n");
    context.value = asked.context;
    sliders[0].set(asked.max_error);
    sliders[1].set(asked.top_k);
    askBox.checked = asked.ask;
  }

  async function run() {
    abort?.abort();
    if (!asked.request) {
      fill(results, empty("Nothing asked yet", `Write what a user would say. It is looked for among ${service.flows} flows by meaning and by words, and you see why one is chosen. ${service.forecast.says}`,
        h("div", { class: "hints" }, service.examples.map((text) => h("a", { href: to(["try"], { q: text }) }, text)))));
      return;
    }
    const mine = (abort = new AbortController());
    if (!results.querySelector(".verdict")) fill(results, waiting("Selecting"));
    results.setAttribute("aria-busy", "true");
    const { tab, ...sent } = asked;
    try {
      sent.context = facts(asked.context);
      const [found, names] = await Promise.all([post("try", sent, mine.signal), flowNames()]);
      if (mine.signal.aborted) return;
      fill(results, verdict(found, asked), candidates(found), correction(found, names), inside(found));
      say(`${found.chosen.map((each) => each.title || each.name).join(", ") || "No flow"}: ${found.why}`);
    } catch (error) {
      if (error.name !== "AbortError") fill(results, h("div", { class: "card" }, failed(error, run)));
    } finally {
      if (mine === abort) results.removeAttribute("aria-busy");
    }
  }

  function verdict(found, asked) {
    const decision = found.decision;
    const budget = asked.max_error ?? service.settings.max_error;
    // What is said below of this very request stands there instead of the note of every selection.
    const instead = [found.withheld.length ? "not available in this context" : null, found.several ? "several wishes" : null].filter(Boolean);
    const notes = decision.notes.filter((note) => !instead.some((start) => note.startsWith(start)));
    const names = found.chosen.length
      ? found.chosen.map((each, at) => [at ? ", " : null, h("a", { href: to(["flow", each.name]) }, each.name)])
      : decision.reason === "unasked" ? "A model chooses" : "No flow";
    const figures = [
      ["Time", time(decision.latency.total_s), `recall ${time(decision.latency.recall_s)}${decision.latency.choose_s > 0.0005 ? `, choice ${time(decision.latency.choose_s)}` : ""}`],
      ["Candidates", whole(found.candidates.length), decision.sized ? "as many as needed" : "as set"],
      decision.usage === null
        ? ["Prompt", found.prompt.tokens ? `≈ ${whole(found.prompt.tokens)}` : "–", found.prompt.tokens ? "tokens, not sent" : "nothing to send"]
        : ["Tokens", `${whole(decision.usage.input_tokens)} → ${whole(decision.usage.output_tokens)}`, decision.model || `${decision.attempts} calls`],
    ];
    return h("div", { class: "card verdict" },
      h("div", { class: "stack" },
        h("div", { class: "verdict-line" },
          h("h2", { class: "verdict-name" }, names),
          h("span", { class: `tag ${decision.tier === "open" ? "warn" : found.chosen.length ? "accent" : ""}` }, TIERS[decision.tier] ?? decision.tier),
          h("code", { class: "tag" }, decision.reason)),
        h("p", { class: "dim" }, sentence(found.why), decision.error ? ` ${decision.error}` : "")),
      h("div", { class: "two-scales" },
        scale("Confidence in the first", decision.confidence, null, budget === null ? "No error budget: a model is asked, where there is one." : `At most ${share(budget)} of the answers without a model may be wrong.`),
        scale("P(none)", decision.p_none, null, "How likely it is that the request is for no flow at all.")),
      h("dl", { class: "figures" }, figures.map(([name, value, more]) => h("div", {}, h("dt", {}, name), h("dd", {}, value, h("small", {}, more))))),
      notes.length || found.unresolved.length || found.withheld.length || found.several ? h("ul", { class: "notes" }, found.withheld.length ? h("li", {}, `Near, but withheld by guards: ${found.withheld.join(", ")}. `, h("button", { type: "button", class: "slim", onclick: () => { facing.open = true; context.focus(); } }, "Give the facts that guards see")) : null, notes.map((note) => h("li", {}, note)), found.several ? h("li", {}, "It reads like several wishes: try each by itself, too.") : null, found.unresolved.map((id) => h("li", {}, `${id} cannot be run: it is in the index, and no longer among the flows`))) : null);
  }

  function candidates(found) {
    if (!found.candidates.length) return h("div", { class: "card" }, h("p", { class: "note" }, "There were no candidates."));
    const best = Math.max(...found.candidates.map((each) => each.score), 1e-9);
    const words = Math.max(...found.candidates.map((each) => each.scores.bm25 ?? 0), 1e-9);
    const arm = (each, name, label, of) => {
      const rank = each.ranks[name];
      return h("td", { "data-label": label }, rank === undefined
        ? h("span", { class: "faint" }, "not found")
        : h("div", { class: "arm" }, h("span", { class: `rank ${rank === 1 ? "first" : ""}` }, rank), h("div", { class: "meter" }, bar((each.scores[name] ?? 0) / of), h("span", { class: "num" }, name === "dense" ? fixed(each.scores[name]) : fixed(each.scores[name], 1)))));
    };
    return h("div", { class: "card flush" },
      h("div", { class: "card-head" }, h("h2", {}, "Candidates"), h("p", {}, "Two retrievers rank the flows, by meaning and by words; both ranks are fused.")),
      h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Candidates" }, h("table", { class: "tight" },
        h("thead", {}, h("tr", {}, ["Flow", "By meaning (cosine)", "By words (BM25)", "Fused", "Confidence"].map((name) => h("th", { scope: "col" }, name)))),
        h("tbody", {}, found.candidates.map((each) => h("tr", { class: each.is_chosen ? "on" : "" },
          h("th", { scope: "row" }, h("div", { class: "cand-name" }, h("a", { href: to(["flow", each.name]) }, each.name), h("span", {}, each.is_chosen ? "chosen" : !each.is_live ? "not among the flows any more" : each.title))),
          arm(each, "dense", "By meaning", 1),
          arm(each, "bm25", "By words", words),
          h("td", { "data-label": "Fused" }, h("div", { class: "meter" }, bar(each.score / best), h("span", { class: "num" }, fixed(each.score)))),
          h("td", { "data-label": "Confidence" }, each.confidence === null ? h("span", { class: "faint" }, "not known") : h("div", { class: "meter" }, bar(each.confidence), h("span", { class: "num" }, share(each.confidence)))))))))) ;
  }

  function correction(found, names) {
    const suggested = found.chosen[0]?.name ?? (found.decision.reason === "unasked" ? found.candidates[0]?.name : null) ?? null;
    return h("div", { class: "card" },
      h("div", { class: "card-head" }, h("h2", {}, "What is right?"), h("p", {}, "A case is judged by in every run; an example is learned from.")),
      mend({ request: asked.request, episodes: asked.episodes }, suggested, names, service));
  }

  function inside(found) {
    const prompt = found.prompt;
    const seen = { sent: "This was sent to the model.", unsent: "No model was asked. This is what one would be shown.", "": "There was nothing to choose between, so there is no prompt." }[prompt.seen];
    const messages = () => [h("p", { class: "note" }, seen), prompt.messages.map((each) => h("div", {}, h("p", { class: "said-by" }, each.role), h("pre", { class: "text", tabindex: "0", "aria-label": `What the ${each.role} message says` }, each.content)))];
    const said = () => found.decision.raw_reply === null
      ? h("p", { class: "note" }, "No model answered.")
      : [h("pre", { class: "text", tabindex: "0", "aria-label": "The model's reply" }, found.decision.raw_reply), h("p", { class: "note" }, `Read as: ${found.decision.parsed_ids.map((id) => found.candidates.find((each) => each.flow_id === id)?.name ?? id).join(", ") || "nothing that was offered"}`)];
    const prompts = () => found.chosen.length
      ? found.chosen.map((each) => h("div", {}, h("p", { class: "said-by" }, each.name), h("pre", { class: "text", tabindex: "0", "aria-label": `The prompt of ${each.name}` }, each.prompt)))
      : h("p", { class: "note" }, "No flow was chosen.");
    return h("div", { class: "card" }, h("h2", { class: "unseen" }, "Inside"), tabs("Inside this selection", {
      prompt: ["What a model sees", messages],
      reply: ["What it said", said],
      chosen: ["Chosen prompts", prompts],
      explained: ["Explained", () => h("pre", { class: "text", tabindex: "0", "aria-label": "The explanation" }, found.explained)],
      trace: ["Trace", () => trace(found.trace)],
    }, asked.tab, (name) => { asked = { ...asked, tab: name }; history.replaceState(null, "", hash(asked)); }));
  }

  fill(outlet,
    h("div", { class: "head" }, h("div", {}, h("h1", { tabindex: "-1" }, "Try a request"), h("p", {}, "See which flow is found, by which retriever, how surely, and what a model would be told."))),
    form, results);
  show();
  await run();
  return {
    update(next) {
      const before = hash({ ...asked, tab: "" });
      const wanted = read(next.params);
      asked = wanted;
      show();
      if (hash({ ...wanted, tab: "" }) !== before || !results.querySelector(".verdict") || wanted.request) run();
    },
    leave() { abort?.abort(); },
  };
}

const lines = (text) => text.split("\n").map((line) => line.trim()).filter(Boolean).slice(0, 20);
