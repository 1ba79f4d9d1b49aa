// A probability on a line from 0 to 1, with the threshold that it is compared with.
import { h } from "../dom.js";
import { share } from "../words.js";

export function scale(label, value, threshold, told) {
  const fill = h("div", { class: "fill" });
  fill.style.width = `${100 * (value ?? 0)}%`;
  fill.style.height = "100%";
  const mark = threshold === null ? null : h("div", { class: "scale-mark" });
  if (mark) mark.style.left = `calc(${100 * threshold}% - 1px)`;
  return h("div", { class: "scale" },
    h("div", { class: "scale-top" }, h("span", { class: "dim" }, label), h("strong", {}, share(value))),
    h("div", { class: "scale-line", "aria-hidden": "true" }, fill, mark),
    h("p", { class: "note" }, told));
}
