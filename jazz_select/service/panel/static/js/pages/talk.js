// Talk: a conversation with the agent, and the trace of each turn beside it. It is kept in this tab alone.
import { fill, h, say } from "../dom.js";
import { events, standing } from "../api.js";
import { go, to } from "../url.js";
import { counted, STATUSES, time } from "../words.js";
import { empty, told } from "../parts/states.js";
import { flowNames, mend } from "../parts/mend.js";
import { trace } from "../parts/trace.js";

export const title = "Talk";
const kept = {
  get(id) { try { return JSON.parse(sessionStorage.getItem(`jazz.talk.${id}`)); } catch { return null; } },
  set(id, talk) {
    try { sessionStorage.setItem(`jazz.talk.${id}`, JSON.stringify(talk)); } catch {
      // The tab's room is full: traces of all but the last turns go first.
      talk.turns.slice(0, -2).forEach((turn) => { if (turn.result) turn.result.trace = []; });
      try { sessionStorage.setItem(`jazz.talk.${id}`, JSON.stringify(talk)); } catch { /* then it ends with the page */ }
    }
  },
  last() { try { return sessionStorage.getItem("jazz.talk"); } catch { return null; } },
  setLast(id) { try { sessionStorage.setItem("jazz.talk", id); } catch { /* likewise */ } },
};
const begun = () => Math.random().toString(36).slice(2, 8);

export async function mount(outlet, first) {
  const service = await standing();
  const id = first.path[1];
  if (!id) {
    go(to(["talk", kept.last() ?? begun()]), true);
    return null;
  }
  const talk = kept.get(id) ?? { turns: [], conversation: "", context: "" };
  kept.setLast(id);
  let picked = Number(first.params.get("turn")) || 0;
  let running = null;
  const log = h("div", { class: "talk-log", role: "log", tabindex: "0", "aria-label": "What was said" });
  const side = h("div", { class: "stack" });
  const message = h("textarea", { id: "message", rows: 1, maxLength: 8000, placeholder: "Say something", onkeydown: (event) => { if (event.key === "Enter" && !event.shiftKey && !event.isComposing) { event.preventDefault(); send(message.value); } } });
  const sendButton = h("button", { class: "main", type: "submit" }, "Send");
  const stop = h("button", { type: "button", hidden: true, onclick: () => running?.abort() }, "Stop");
  const context = h("textarea", { id: "context", rows: 2, spellcheck: false, placeholder: '{"email": "ada@example.org"}', value: talk.context, onchange: () => { talk.context = context.value; kept.set(id, talk); } });
  const wrong = h("div", { "aria-live": "assertive" });

  const chosen = () => (picked >= 1 && picked <= talk.turns.length ? picked : talk.turns.length);

  function draw() {
    fill(log, talk.turns.length ? talk.turns.map(turn) : empty("Nothing said yet", service.has_model ? "Say what a customer would say. The agent finds a flow, runs its tools and answers." : "Say what a customer would say. Without a model the agent runs flows whose steps are plain, and asks for what it lacks.",
      h("div", { class: "hints" }, service.examples.map((text) => h("button", { type: "button", class: "slim", onclick: () => { message.value = text; message.focus(); } }, text)))));
    drawSide();
  }

  function turn(each, at) {
    const result = each.result;
    const last = at === talk.turns.length - 1;
    return h("article", { class: `turn ${chosen() === at + 1 ? "on" : ""}`, "aria-label": `Turn ${at + 1}` },
      h("p", { class: "turn-user" }, each.message),
      h("div", { class: "turn-agent" },
        each.steps.length ? h("ul", { class: "steps" }, each.steps.map((step) => h("li", {}, step))) : null,
        each.error ? told("bad", each.error) : null,
        each.busy ? h("p", { class: "dim busy" }, "…") : null,
        result ? answer(result, last) : null,
        result ? h("div", { class: "turn-foot" },
          h("span", { class: `tag ${STATUSES[result.status]?.[1] ?? ""}` }, STATUSES[result.status]?.[0] ?? result.status),
          result.runs.map((run) => h("a", { href: to(["flow", run.flow]) }, run.flow)),
          h("a", { href: to(["talk", id], { turn: at + 1 }), "aria-label": `Trace of turn ${at + 1}` }, `trace, ${counted(result.trace.length, "span")}`)) : null));
  }

  function answer(result, last) {
    if (result.pending) return approval(result, last);
    const ask = last && result.status === "waiting" ? waits(result) : null;
    const standsStill = !result.text || result.status === "open";
    return [result.text ? h("p", {}, result.text) : null, standsStill ? h("p", { class: "dim" }, nothing(result)) : null, result.error ? told("bad", result.error) : null, ask];
  }

  /** Why a turn has no words or no flow ran to its end, and what to do about it. */
  function nothing(result) {
    const reason = result.reason ? `: ${result.reason}` : "";
    if (result.status === "blocked") return result.runs.length ? `This cannot be done here${reason}.` : `A guard ended this turn without words${reason}.`;
    if (result.status !== "open") return "Nothing was said.";
    const run = result.runs.findLast((each) => each.status === "open");
    if (!run) return `No flow was run${reason}. ${service.has_model ? "Put it in other words, or answer it yourself." : "Put it in other words; with a model, the agent would answer or ask back."}`;
    const why = run.problem ? `: ${run.problem}` : reason;
    return `${run.flow} was found, and stands still${why}. ${service.has_model ? "Whoever called the agent goes on, with the prompt beside." : "No model is configured that could go on: give the flow a chain that leaves no choice open, start the service with a model, or go on yourself with the prompt beside."}`;
  }

  function approval(result, last) {
    const call = result.pending;
    const rows = Object.entries(call.arguments);
    const before = result.text.replace(call.question, "").trim();
    return [before ? h("p", {}, before) : null, h("section", { class: `approve ${call.destructive ? "final" : ""}`, "aria-label": "A call that waits for a yes" },
      h("div", { class: "row" }, h("h3", {}, call.title), call.destructive ? h("span", { class: "tag bad" }, "cannot be undone") : null),
      call.words ? h("p", {}, call.words) : null,
      rows.length ? h("dl", { class: "pairs" }, rows.map(([name, value]) => [h("dt", {}, name.replaceAll("_", " ")), h("dd", { class: "mono" }, typeof value === "string" ? value : JSON.stringify(value))])) : null,
      last ? h("div", { class: "row" },
        h("button", { class: "main", type: "button", onclick: () => send("yes") }, "Yes, go on"),
        h("button", { type: "button", onclick: () => send("no") }, "No")) : h("p", { class: "note" }, "It was asked for in this turn."))];
  }

  function waits(result) {
    const choices = result.options.length ? result.options : Object.values(result.choices).flat();
    if (choices.length) return h("div", { class: "row" }, choices.map((value) => h("button", { type: "button", class: "slim", onclick: () => send(String(value)) }, String(value))));
    if (!result.waits_for.length) return h("div", { class: "row" }, h("button", { type: "button", class: "main", onclick: () => send("yes") }, "Yes"), h("button", { type: "button", onclick: () => send("no") }, "No"));
    return h("p", { class: "note" }, `It waits for ${result.waits_for.map((name) => name.replaceAll("_", " ")).join(", ")}.`);
  }

  async function drawSide() {
    const at = chosen();
    const each = talk.turns[at - 1];
    if (!each?.result) {
      fill(side, h("h2", {}, "Trace"), h("p", { class: "note" }, each?.busy ? "The turn is under way." : "What was found, asked and called in each turn appears here."));
      return;
    }
    const result = each.result;
    const took = result.trace[0]?.duration_s;
    fill(side,
      h("div", { class: "card-head" }, h("h2", {}, "Trace"), h("nav", { class: "turns", "aria-label": "Turns" }, talk.turns.map((_, place) => h("a", { href: to(["talk", id], { turn: place + 1 }), "aria-current": place + 1 === at ? "true" : null, "aria-label": `Turn ${place + 1}` }, place + 1)))),
      h("p", { class: "note" }, [time(took), counted(result.model_calls, "model call"), result.model_calls ? `${result.input_tokens} → ${result.output_tokens} tokens` : null, result.reason].filter(Boolean).join(" · ")),
      trace(result.trace, result.left_out),
      noted(result),
      result.selection ? h("details", {}, h("summary", {}, "How the flow was found"), h("pre", { class: "text", tabindex: "0", "aria-label": "How the flow was found" }, result.selection.explained)) : null,
      result.prompt ? h("details", {}, h("summary", {}, "Prompt to go on with"), h("pre", { class: "text", tabindex: "0", "aria-label": "The prompt" }, result.prompt)) : null,
      result.selection ? correct(each, result) : null);
  }

  /** Notes of the turn, and of how its flow was found: a guard that withheld one, a second wish. */
  function noted(result) {
    const notes = [...new Set([...result.notes, ...(result.selection?.notes ?? [])])];
    return notes.length ? h("ul", { class: "notes" }, notes.map((note) => h("li", {}, note))) : null;
  }

  function correct(each, result) {
    const place = h("div");
    const details = h("details", { ontoggle: async () => {
      if (!details.open || place.firstChild) return;
      try { fill(place, mend({ request: each.message, logged: result.selection.logged }, result.selection.names[0] ?? null, await flowNames(), service)); } catch (error) { fill(place, told("bad", error.message)); }
    } }, h("summary", {}, "Was another flow right?"), place);
    return details;
  }

  function given() {
    const text = context.value.trim();
    if (!text) return {};
    try {
      const read = JSON.parse(text);
      if (read && typeof read === "object" && !Array.isArray(read)) return read;
    } catch { /* said below */ }
    throw new Error('What is known beside has to be a JSON object, such as {"email": "ada@example.org"}.');
  }

  /** To what was said last, and where to answer. */
  function down() {
    requestAnimationFrame(() => {
      log.scrollTop = log.scrollHeight;
      message.form?.scrollIntoView({ block: "nearest" });
    });
  }

  async function send(text) {
    const said = text.trim();
    if (!said || running) return;
    fill(wrong);
    let known;
    try { known = given(); } catch (error) { fill(wrong, told("bad", error.message)); return; }
    const each = { message: said, steps: [], busy: true, result: null, error: "" };
    talk.turns.push(each);
    message.value = "";
    running = new AbortController();
    sendButton.hidden = true;
    stop.hidden = false;
    if (picked) { picked = 0; history.replaceState(null, "", to(["talk", id])); }
    draw();
    down();
    try {
      for await (const [name, data] of events("turn", { message: said, history: talk.conversation || null, context: known }, running.signal)) {
        if (name === "finished") { each.result = data; talk.conversation = data.conversation; delete data.conversation; }
        else if (name === "problem") each.error = data.detail;
        else hear(each.steps, name, data);
        draw();
        down();
      }
      if (!each.result && !each.error) each.error = "The service ended the turn without an answer. Say it again.";
    } catch (error) {
      each.error = error.name === "AbortError" ? "Stopped. What was called until then may have had its effect." : error.message;
    } finally {
      each.busy = false;
      running = null;
      sendButton.hidden = false;
      stop.hidden = true;
      kept.set(id, talk);
      draw();
      down();
      say(each.error || each.result?.pending?.question || each.result?.text || "The turn has ended");
      message.focus();
    }
  }

  fill(outlet,
    h("div", { class: "head" },
      h("div", {}, h("h1", { tabindex: "-1" }, "Talk to the agent"), h("p", {}, "Each turn with all that was found, asked and called. Tools are real: what they do, they do.")),
      h("a", { class: "button", href: to(["talk", begun()]) }, "New conversation")),
    h("div", { class: "talk" },
      h("section", { class: "card", "aria-label": "Conversation with the agent" }, log,
        h("form", { class: "compose", onsubmit: (event) => { event.preventDefault(); send(message.value); } },
          wrong,
          h("div", { class: "compose-line" }, h("div", {}, h("label", { class: "unseen", for: "message" }, "Message"), message), h("div", { class: "row" }, sendButton, stop)),
          h("details", { open: Boolean(talk.context) }, h("summary", {}, "What is known beside"), h("label", { class: "unseen", for: "context" }, "Context, as a JSON object"), context))),
      h("section", { class: "card side", tabindex: "0", "aria-label": "Trace of the turn" }, side)));
  draw();
  requestAnimationFrame(() => { log.scrollTop = log.scrollHeight; });
  return {
    update(next) {
      if (next.path[1] !== id) return false;
      picked = Number(next.params.get("turn")) || 0;
      draw();
      return true;
    },
    leave() { running?.abort(); },
  };
}

/** Put down what an event tells. A call that was refused, or waits for a yes, has not been made: its line says so. */
function hear(steps, name, data) {
  const tool = data.call?.tool ?? data.result?.tool;
  const said = {
    flow_chosen: () => `→ ${data.flow}`,
    tool_called: () => `calls ${tool}`,
    tool_returned: () => (data.result.ok ? null : data.result.fault === "asked" ? `asks to call ${tool}` : `${tool}: ${data.result.error || "no output"}`),
    model_called: () => `asks the model (${data.purpose})`,
  }[name]?.();
  const begun = name === "tool_returned" && !data.result.ok && !data.result.called ? steps.lastIndexOf(`calls ${tool}`) : -1;
  if (said && begun >= 0) steps[begun] = said;
  else if (said) steps.push(said);
}
