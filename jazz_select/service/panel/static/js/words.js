// Numbers, times and codes as people read them.

const dash = "–";
export const percent = (value, digits = 0) => (value === null || value === undefined ? dash : `${(100 * value).toFixed(digits)} %`);
export const share = (value) => (value === null || value === undefined ? dash : value >= 0.995 && value < 1 ? "> .99" : value.toFixed(2));
export const whole = (value) => (value === null || value === undefined ? dash : Number(value).toLocaleString("en"));
export const fixed = (value, digits = 3) => (value === null || value === undefined ? dash : Number(value).toFixed(digits));

export function time(seconds) {
  if (seconds === null || seconds === undefined) return dash;
  if (seconds < 0.0995) return `${(1000 * seconds).toFixed(1)} ms`;
  if (seconds < 1) return `${Math.round(1000 * seconds)} ms`;
  return `${seconds.toFixed(seconds < 10 ? 2 : 1)} s`;
}

export function moment(at) {
  const date = typeof at === "number" ? new Date(at * 1000) : new Date(at);
  return Number.isNaN(date.getTime()) ? dash : date.toLocaleString("en-GB", { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" });
}

/** A note as a sentence: with a capital and a full stop. */
export const sentence = (text) => text.replace(/^./u, (letter) => letter.toUpperCase()).replace(/(?<![.!?…])$/, ".");

/** An embedder by its name, without the digests that tell one version from another. */
export const embedderName = (text) => String(text ?? "").replace(/:[^,()]*/g, "") || "not told";

export const counted = (number, one, many = `${one}s`) => `${whole(number)} ${number === 1 ? one : many}`;

export const TIERS = { deterministic: "no model", guided: "guided", open: "open" };
export const STATUSES = {
  done: ["done", "good"], active: ["goes on", "accent"], open: ["open", "warn"], waiting: ["waits for you", "accent"],
  confirming: ["needs a yes", "warn"], failed: ["failed", "bad"], blocked: ["blocked", "bad"],
};
