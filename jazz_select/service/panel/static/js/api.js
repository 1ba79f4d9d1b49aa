// Data of the service, with the key where it needs one. The key is kept for this tab alone.

const KEY = "jazz.key";

export class ApiError extends Error {
  constructor(status, detail, code = "") {
    super(detail);
    this.status = status;
    this.code = code;
  }
}

let asking = null;

export const key = {
  get: () => { try { return sessionStorage.getItem(KEY) ?? ""; } catch { return ""; } },
  set: (value) => { try { sessionStorage.setItem(KEY, value); } catch { /* then it is asked for again */ } },
};

/** Who asks people for a key: given by the shell, returns a promise of having one. */
export function askKeyWith(ask) { asking = ask; }

const headers = (more = {}) => (key.get() ? { ...more, Authorization: `Bearer ${key.get()}` } : more);

async function problem(response) {
  let told = {};
  try { told = await response.json(); } catch { /* whatever stands before the service answered */ }
  return new ApiError(response.status, told.detail ?? `the service answered ${response.status}`, told.code ?? "");
}

async function call(path, options = {}, again = true) {
  let response;
  try {
    response = await fetch(`../v1/panel/${path}`, { ...options, headers: headers(options.headers) });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(0, "The service does not answer. It may have stopped, or be starting again.", "gone");
  }
  if (response.status === 401 && asking && again) {
    const before = key.get();
    await asking(before !== "");
    return call(path, options, true);
  }
  if (!response.ok) throw await problem(response);
  return response;
}

export const get = async (path, signal) => (await call(path, { signal })).json();

const body = (value) => ({ method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(value) });

export const post = async (path, value, signal) => (await call(path, { ...body(value), signal })).json();

/** Server-sent events of a request, one after the other: [name, data]. */
export async function* events(path, value, signal) {
  const response = await call(path, { ...body(value), signal });
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let left = "";
  for (;;) {
    const { done, value: piece } = await reader.read();
    if (done) break;
    left += piece;
    const blocks = left.split("\n\n");
    left = blocks.pop();
    for (const block of blocks) {
      const name = /^event: (.*)$/m.exec(block)?.[1] ?? "message";
      const data = /^data: (.*)$/m.exec(block)?.[1];
      if (data) yield [name, JSON.parse(data)];
    }
  }
}

let known = null;
/** What the service says of itself; kept until `forget`. */
export async function standing() {
  known ??= get("state");
  try { return await known; } catch (error) { known = null; throw error; }
}
/** Heard by the shell when something was written, or failed to be. */
export const WRITTEN = "jazz-written";
export const forget = () => { known = null; };
