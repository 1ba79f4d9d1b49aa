// Tabs: of links where each is a page, of buttons where they show parts of one.
import { fill, fresh, h } from "../dom.js";

/** Pages beside each other: [[label, hash, isCurrent, extra]]. */
export const linked = (label, pages) =>
  h("nav", { class: "tabs", "aria-label": label }, pages.map(([name, hash, current, extra]) => h("a", { href: hash, "aria-current": current ? "page" : null }, name, extra ?? null)));

/** Parts of one page: {name: [label, () => content]}; `pick` hears of what is chosen. Arrow keys go along. */
export function tabs(label, parts, chosen, pick) {
  const names = Object.keys(parts);
  let current = names.includes(chosen) ? chosen : names[0];
  const panelId = fresh("panel");
  const panel = h("div", { role: "tabpanel", id: panelId, tabindex: "0", class: "stack" });
  const buttons = names.map((name) => h("button", { type: "button", role: "tab", id: `${panelId}-${name}`, "aria-controls": panelId, onclick: () => show(name), onkeydown: move }, parts[name][0]));
  const list = h("div", { class: "tabs", role: "tablist", "aria-label": label }, buttons);

  function move(event) {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    const at = event.key === "Home" ? 0 : event.key === "End" ? names.length - 1 : step ? (names.indexOf(current) + step + names.length) % names.length : -1;
    if (at < 0) return;
    event.preventDefault();
    show(names[at]);
    buttons[at].focus();
  }
  function show(name, silent = false) {
    current = name;
    buttons.forEach((button, at) => {
      button.setAttribute("aria-selected", String(names[at] === name));
      button.tabIndex = names[at] === name ? 0 : -1;
    });
    panel.setAttribute("aria-labelledby", `${panelId}-${name}`);
    fill(panel, parts[name][1]());
    if (!silent && pick) pick(name);
  }
  show(current, true);
  return h("div", { class: "stack" }, list, panel);
}
