// Nothing here, not yet, not now: each says what it is and what to do.
import { h } from "../dom.js";

/** While something is fetched. */
export const waiting = (what, tall = false) =>
  h("div", { class: tall ? "bones tall" : "bones", role: "status" }, h("span", { class: "unseen" }, `${what} …`), ...[1, 2, 3, 4, 5].map(() => h("div", { class: "bone", "aria-hidden": "true" })));

/** Where there is nothing: why, and what makes something. */
export const empty = (title, text, ...more) => h("div", { class: "state" }, h("h2", {}, title), h("p", {}, text), ...more);

const TITLES = {
  gone: "The service is not there",
  wrong_host: "This address is not served",
  not_found: "Not here",
};

/** What went wrong, in words, and a way on. */
export function failed(error, again) {
  const title = TITLES[error.code] ?? (error.status === 404 ? TITLES.not_found : error.status >= 500 ? "The service could not answer" : "That cannot be done");
  return h("div", { class: "state bad", role: "alert" },
    h("h2", {}, title),
    h("p", {}, error.message || "Something went wrong, and nobody said what."),
    again ? h("button", { type: "button", onclick: again }, "Try again") : null);
}

/** A line that something worked, or did not. */
export const told = (kind, ...what) => h("div", { class: `told ${kind}`, role: kind === "bad" ? "alert" : "status" }, ...what);
