// Completes tags in a comma-separated list: shows the existing tags that contain the typed text, to be chosen with the
// arrow keys and Enter, the mouse or touch.

import { ask, make } from "./kit.js";

const MOST = 8;
let asked = null;

/** Returns the existing tags, most frequent first. Requested once per page. */
export function knownTags() {
  asked ??= ask("search-iterations", { facets: true, limit: 1 }).then(({ facets }) => facets?.tag?.map(({ value }) => value) ?? []);
  asked.catch(() => { asked = null; });
  return asked;
}

/** Invalidates the cached tags after some were added. */
export const forgetTags = () => { asked = null; };

/** Completes what is typed into `area` from `words()`. Returns the list element to be placed below it. */
export function withCompletion(area, words) {
  const list = make("div", { id: "completion", class: "completion", role: "listbox", "aria-label": "Existing tags", hidden: true });
  area.setAttribute("role", "combobox");
  area.setAttribute("aria-autocomplete", "list");
  area.setAttribute("aria-controls", "completion");
  area.setAttribute("aria-expanded", "false");
  area.setAttribute("autocomplete", "off");
  let known = [];
  let active = -1;
  /** Splits the text at the caret into the part before the current tag and the tag itself. */
  const parts = () => {
    const caret = area.selectionStart ?? area.value.length;
    const start = area.value.lastIndexOf(",", caret - 1) + 1;
    const next = area.value.indexOf(",", caret);
    return { before: area.value.slice(0, start), typed: area.value.slice(start, caret).trim(), after: next < 0 ? "" : area.value.slice(next) };
  };
  const options = () => [...list.children];
  function mark(at) {
    active = at;
    options().forEach((option, number) => option.setAttribute("aria-selected", String(number === at)));
    if (at < 0) area.removeAttribute("aria-activedescendant"); else area.setAttribute("aria-activedescendant", options()[at].id);
  }
  function accept(tag) {
    const { before, after } = parts();
    area.value = `${before.trim()}${before.trim() ? " " : ""}${tag}${after || ", "}`;
    area.dispatchEvent(new InputEvent("input", { bubbles: true }));
    area.focus();
    const end = area.value.length - after.length;
    area.setSelectionRange(end, end);
    show();
  }
  function show() {
    const { typed } = parts();
    const present = area.value.split(",").map((it) => it.trim().toLowerCase());
    const wanted = typed.toLowerCase();
    const starts = (tag) => (tag.toLowerCase().startsWith(wanted) ? 0 : 1);
    const fits = known.filter((tag) => tag.toLowerCase().includes(wanted) && !present.includes(tag.toLowerCase()) && !tag.includes(","));
    const best = fits.map((tag, at) => [starts(tag), at, tag]).sort((a, b) => a[0] - b[0] || a[1] - b[1]).slice(0, MOST);
    // Pressing must not move the focus from the field, or an on-screen keyboard would close.
    list.replaceChildren(...best.map(([, , tag], at) => make("button", {
      type: "button", id: `completion-${at}`, role: "option", "aria-selected": "false", tabindex: -1, dir: "auto",
      onpointerdown: (event) => event.preventDefault(), onclick: () => accept(tag),
    }, tag)));
    const open = best.length > 0;
    list.hidden = !open;
    area.setAttribute("aria-expanded", String(open));
    mark(-1);
  }
  area.addEventListener("input", show);
  area.addEventListener("keydown", (event) => {
    const count = options().length;
    if (list.hidden || count === 0) return;
    if (event.key === "ArrowDown") mark((active + 1) % count);
    else if (event.key === "ArrowUp") mark(active <= 0 ? count - 1 : active - 1);
    else if ((event.key === "Enter" || event.key === "Tab") && active >= 0 && !event.ctrlKey && !event.metaKey) accept(options()[active].textContent);
    else return;
    event.preventDefault();
    event.stopPropagation();
  });
  words().then((tags) => { known = tags; if (area.isConnected) show(); }, () => { /* Completion is optional. */ });
  return list;
}
