// Keyboard shortcuts: pages register them, `?` lists them, and the user turns them off or chooses other keys.

import { all, closeDrops, dialog, make, one, settings } from "./kit.js";

const keys = new Map();
const explained = [];
/**
 * Registers a keyboard shortcut, which is ignored while the user is typing. `?` lists the shortcuts by group. `action`
 * gets the event and which of `names` it stands for, which is another key if the user exchanged them.
 */
export function key(names, what, action, group = "This page") {
  for (const name of names) keys.set(name, action);
  if (what) explained.push([names, what, group]);
}

/**
 * Single characters, which speech input or accidental keystrokes can trigger. WCAG 2.1.4 requires a way to turn them
 * off.
 */
const isCharacter = (name) => name.length === 1 && name !== " ";

// Keys that the user exchanged, by the key pressed: the key that usually does the same. Since two keys always change
// places, no action is left without a key, on any page.

/** Returns the exchanged keys; none if what is stored is not an exchange, since an action would then have no key. */
function exchanged() {
  const pairs = Object.entries(settings.get("exchanged"));
  const isWhole = pairs.every(([pressed, usual]) => isChoosable(pressed) && isChoosable(usual));
  const sorted = (at) => JSON.stringify(pairs.map((pair) => pair[at]).sort());
  return isWhole && sorted(0) === sorted(1) ? Object.fromEntries(pairs) : {};
}
const usualOf = (pressed) => exchanged()[pressed] ?? pressed;
const pressedFor = (usual) => Object.entries(exchanged()).find(([, name]) => name === usual)?.[0] ?? usual;
/** Returns whether another key can be chosen: digits are ratings, and `?` leads to this choice. */
const isChoosable = (name) => typeof name === "string" && isCharacter(name) && !/[0-9?]/.test(name);

function exchange(usual, wanted) {
  const next = { ...exchanged(), [pressedFor(usual)]: usualOf(wanted), [wanted]: usual };
  settings.set("exchanged", Object.fromEntries(Object.entries(next).filter(([pressed, name]) => pressed !== name)));
}

const shownNames = { ArrowLeft: "←", ArrowRight: "→", ArrowUp: "↑", ArrowDown: "↓", Escape: "Esc", " ": "Space", "-": "−" };

/** Returns the key to press for an action, by its usual key; `null` if the user has turned that kind of key off. */
function shortcut(usual) {
  const pressed = isCharacter(usual) ? pressedFor(usual) : usual;
  return isCharacter(pressed) && !settings.get("keys") ? null : pressed;
}

/** Returns text that names the key of an action after it: `Reject (x)`. */
export function withKey(text, usual) {
  const pressed = shortcut(usual);
  return pressed === null ? text : `${text} (${shownNames[pressed] ?? pressed})`;
}

/** Returns the name of a key for `aria-keyshortcuts`. */
function ariaName(pressed) {
  if (pressed === " ") return "Space";
  if (pressed === "+") return "Plus";
  return pressed.length === 1 && pressed !== pressed.toLowerCase() ? `Shift+${pressed}` : pressed;
}

/** Names its key on an element with `data-shortcut`: in its tooltip and for screen readers, or as its text. */
function label(element) {
  const { shortcut: usual } = element.dataset;
  const pressed = shortcut(usual);
  if (element.tagName === "KBD") {
    element.textContent = pressed === null ? "" : shownNames[pressed] ?? pressed;
    element.hidden = pressed === null;
    return;
  }
  element.dataset.tooltip ??= element.title;
  if (element.dataset.tooltip) element.title = withKey(element.dataset.tooltip, usual);
  if (pressed === null) element.removeAttribute("aria-keyshortcuts"); else element.setAttribute("aria-keyshortcuts", ariaName(pressed));
}

function labelAll(root) {
  if (root.matches?.("[data-shortcut]")) label(root);
  all("[data-shortcut]", root).forEach(label);
}
/** Names the keys on the page, and on what is added to it. */
export function labelShortcuts() {
  labelAll(document);
  new MutationObserver((changes) => {
    for (const { addedNodes } of changes) for (const node of addedNodes) if (node.nodeType === Node.ELEMENT_NODE) labelAll(node);
  }).observe(document.body, { childList: true, subtree: true });
}

/** The most frequent groups first. */
const GROUPS = ["Looking", "Reviewing", "Comparing", "This page", "Views", "Session", "Everywhere"];

/** Shows the shortcuts of this page in groups, to be changed or turned off. */
export function showKeys() {
  const setting = (name, text) => {
    const box = make("input", { type: "checkbox", onchange: () => { settings.set(name, box.checked); labelAll(document); } });
    box.checked = settings.get(name);
    return make("label", { class: "switch" }, box, make("span", {}, text));
  };
  const said = make("span", { class: "muted", role: "status" });
  const reset = make("button", { type: "button", class: "quiet", onclick: () => { settings.set("exchanged", {}); draw(); said.textContent = "All keys are as usual"; } }, "Reset keys");
  const groups = make("div", { class: "key-groups" });

  /** Returns a key that can be pressed to choose another one. */
  function choosable(usual, what) {
    const shown = pressedFor(usual);
    const button = make("button", { type: "button", title: "Choose another key", "aria-label": `${what}: ${shown}. Choose another key`, "data-key": usual }, make("kbd", {}, shown));
    const listen = (event) => {
      if (["Shift", "Control", "Alt", "Meta", "Tab"].includes(event.key)) return;
      event.preventDefault();
      event.stopPropagation();
      if (event.key !== "Escape" && !isChoosable(event.key)) { said.textContent = "Choose a letter or a sign"; return; }
      if (event.key !== "Escape") exchange(usual, event.key);
      draw();
      said.textContent = event.key === "Escape" ? "" : `${what}: ${event.key}`;
      one(`[data-key="${CSS.escape(usual)}"]`, groups)?.focus();
    };
    const stop = () => { button.removeEventListener("keydown", listen); button.removeAttribute("aria-pressed"); };
    button.addEventListener("click", () => { button.setAttribute("aria-pressed", "true"); button.addEventListener("keydown", listen); said.textContent = "Press the new key, or Esc"; });
    button.addEventListener("blur", stop);
    return button;
  }

  function draw() {
    const found = new Map();
    for (const [names, what, group] of explained) found.set(group, [...(found.get(group) ?? []), [names, what]]);
    const sorted = [...found].sort(([first], [second]) => GROUPS.indexOf(first) - GROUPS.indexOf(second));
    groups.replaceChildren(...sorted.map(([group, rows]) => make("section", {},
      make("h2", {}, group),
      make("table", {}, make("tbody", {}, ...rows.map(([names, what]) => {
        const caps = names.length === 1 && isChoosable(names[0])
          ? [choosable(names[0], what)]
          : (names.length > 4 ? [names[0], names.at(-1)] : names).map((name) => make("kbd", {}, shownNames[name] ?? name));
        return make("tr", {}, make("td", {}, ...caps.flatMap((cap, at) => [at > 0 ? (names.length > 4 ? " – " : " ") : "", cap])), make("td", {}, what));
      }))))));
    reset.hidden = Object.keys(exchanged()).length === 0;
    labelAll(document);
  }

  draw();
  const box = dialog("Keys",
    setting("keys", "Use keys of a single character, such as 5 or x"),
    setting("linger", "Show messages ten times as long"),
    groups,
    make("div", { class: "row choosing" }, make("span", { class: "muted" }, "Click a letter to choose another key."), said, reset));
  box.classList.add("wide");
}

addEventListener("keydown", (event) => {
  if (event.metaKey || event.ctrlKey || event.altKey || event.defaultPrevented) return;
  if (one("dialog[open]")) return;
  // The browser closes it; the page stays.
  if (event.key === "Escape" && one(":popover-open")) return;
  const open = one("details.drop[open]");
  if (event.key === "Escape" && open) { event.preventDefault(); closeDrops(); one("summary", open).focus(); return; }
  // A field keeps the focus for a moment after its dialog has closed; it takes no keys any more.
  if (event.target.closest?.("textarea, select, [contenteditable], input:not([type=checkbox], [type=range])") && !event.target.closest("dialog:not([open])")) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  if (event.target.matches?.("input[type=range]") && !isCharacter(event.key)) return;
  // A focused video uses these keys for playback.
  if (event.target.matches?.("video") && !isCharacter(event.key)) return;
  // Space presses a focused button.
  if (event.key === " " && event.target.closest?.("button, summary, input")) return;
  if (isCharacter(event.key) && !settings.get("keys")) return;
  const usual = usualOf(event.key);
  const action = keys.get(usual);
  if (action && action(event, usual) !== false) event.preventDefault();
});
