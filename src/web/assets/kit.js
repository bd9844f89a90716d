// Shared by all pages: elements, requests, notifications, settings, dialogs, drafts, times.

const policy = globalThis.trustedTypes?.createPolicy("retake", { createHTML: (text) => text });

/** Marks HTML that the server rendered and escaped as trusted. No other text becomes HTML. */
const trusted = (text) => (policy ? policy.createHTML(text) : text);

function parsed(text) {
  const template = document.createElement("template");
  template.innerHTML = trusted(text);
  return template.content;
}

/** Creates an element: `make("a", { href: "/" }, "text", child)`. Strings become text nodes. */
export function make(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else element.setAttribute(key, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

export const one = (selector, root = document) => root.querySelector(selector);
export const all = (selector, root = document) => [...root.querySelectorAll(selector)];

/** Sends a request and returns the response, or throws an error that tells the user what to do. */
async function answered(path, request) {
  const response = await fetch(path, request).catch((error) => {
    if (error.name === "AbortError") throw error;
    // A write was not saved; a read can be repeated.
    throw Object.assign(new Error(request?.method === "POST" ? "Connection lost. Your change was not saved." : "Connection lost."), { kind: "offline" });
  });
  if (response.ok) return response;
  let said = { message: `The server answered ${response.status}.`, hint: "" };
  if (response.headers.get("content-type")?.includes("json")) said = (await response.json()).error ?? said;
  throw Object.assign(new Error(said.message), { hint: said.hint, kind: said.kind });
}

/** How long in milliseconds a press holds back updates at most, if its release is never seen. */
const MAX_PRESS = 10_000;
let press = null;
let release = () => {};
const pressed = () => { release(); press = new Promise((done) => { release = done; setTimeout(done, MAX_PRESS); }); };
// The click follows the release, and must still find its target.
const letGo = () => setTimeout(release);
addEventListener("pointerdown", pressed, true);
for (const name of ["pointerup", "pointercancel"]) addEventListener(name, letGo, true);
addEventListener("keydown", (event) => { if (event.key === " " && !event.repeat && event.target.closest?.("button, summary, input")) pressed(); }, true);
addEventListener("keyup", (event) => { if (event.key === " ") letGo(); }, true);

/**
 * Requests a part of a page. What comes while a button is held is handed over when it is released: replacing what is
 * being clicked would swallow the click.
 */
export async function part(path, signal) {
  const response = await answered(path, { signal, headers: { accept: "text/html" } });
  const text = await response.text();
  await press;
  return { headers: response.headers, content: parsed(text) };
}

/** Requests a whole page, to replace parts of the current one. */
export async function page(path, signal) {
  const response = await answered(path, { signal, headers: { accept: "text/html" } });
  const text = await response.text();
  await press;
  return new DOMParser().parseFromString(trusted(text), "text/html");
}

/** Calls a tool of /api. */
export async function ask(verb, request) {
  const headers = { "content-type": "application/json" };
  const body = JSON.stringify(request);
  // Small writes continue even if the page is closed.
  return (await answered(`/api/${verb}`, { method: "POST", headers, body, keepalive: body.length < 16000 })).json();
}

/** Keeps an opened drop-down list inside the window. */
document.addEventListener("toggle", (event) => {
  const list = event.target.open && event.target.matches(".drop") ? one(":scope > div", event.target) : null;
  if (!list) return;
  list.classList.remove("to-left", "to-right");
  const { left, right } = list.getBoundingClientRect();
  if (left < 8) list.classList.add("to-left"); else if (right > document.documentElement.clientWidth - 8) list.classList.add("to-right");
}, true);

/** Loads expensive details only when they are opened. */
document.addEventListener("toggle", async (event) => {
  const details = event.target;
  if (!details.open || !details.dataset.load || details.dataset.loaded) return;
  details.dataset.loaded = "yes";
  try {
    const { content } = await part(details.dataset.load);
    one("div", details).replaceChildren(details.dataset.take ? one(details.dataset.take, content) : content);
  } catch (error) {
    delete details.dataset.loaded;
    one("div", details).textContent = error.message;
  }
}, true);

const SETTINGS = "retake-settings";
const usual = { keys: true, exchanged: {}, advance: false, follow: false, linger: false };
const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);
/** Settings stored in this browser. A stored value of the wrong type counts as absent: anything may have written it. */
export const settings = {
  all() {
    let stored = null;
    try { stored = JSON.parse(localStorage.getItem(SETTINGS)); } catch { /* Blocked or damaged: as if nothing were stored. */ }
    const fits = ([name, value]) => !(name in usual) || (typeof value === typeof usual[name] && isObject(value) === isObject(usual[name]));
    return { ...usual, ...(isObject(stored) ? Object.fromEntries(Object.entries(stored).filter(fits)) : {}) };
  },
  get: (name) => settings.all()[name],
  set(name, value) {
    try { localStorage.setItem(SETTINGS, JSON.stringify({ ...settings.all(), [name]: value })); } catch { say("Storage is blocked: this setting lasts until you leave the page"); }
  },
};

let quiet;
/** Shows a notification for a moment; with an action such as Undo, for longer. */
export function say(text, action) {
  const toast = one("#toast");
  const hide = () => { toast.classList.remove("on"); toast.replaceChildren(); };
  toast.replaceChildren(make("span", {}, text));
  if (action) toast.append(make("button", { type: "button", onclick: () => { hide(); action.run(); } }, action.name));
  toast.classList.add("on");
  clearTimeout(quiet);
  // WCAG 2.2.1: people who need more time get ten times as much.
  quiet = setTimeout(hide, (action ? 8000 : 3000) * (settings.get("linger") ? 10 : 1));
}

/** Shows an error. Hints are written for programs, so only the message is shown. */
export const sayWhy = (error) => {
  const { message } = error;
  say(`${message.charAt(0).toUpperCase()}${message.slice(1)}`);
};

/** Copies text to the clipboard. */
export async function copy(text, what) {
  try {
    await navigator.clipboard.writeText(text);
    say(`${what} copied`);
  } catch {
    // Over plain HTTP from another machine, the clipboard is unavailable: show the text to be copied by hand.
    const area = make("textarea", { rows: 10, readonly: true, "aria-label": what });
    area.value = text;
    dialog(what, area);
    area.select();
  }
}

/** Whether this browser can copy images: over HTTPS, or at this machine. */
export const copiesImages = Boolean(navigator.clipboard?.write && globalThis.ClipboardItem);

/** Copies an image to the clipboard, for programs that take no files. */
export async function copyImage(hash) {
  try {
    // A promise in the item: the write must start while the key or button is handled.
    await navigator.clipboard.write([new ClipboardItem({ "image/png": asPng(`/images/${hash}`) })]);
    say("Image copied");
  } catch {
    say("The image could not be copied. Download it instead.");
  }
}

/** Returns an image as PNG, the only format that every clipboard takes. */
async function asPng(path) {
  const blob = await (await answered(path)).blob();
  if (blob.type === "image/png") return blob;
  const bitmap = await createImageBitmap(blob);
  const canvas = make("canvas", { width: bitmap.width, height: bitmap.height });
  canvas.getContext("2d").drawImage(bitmap, 0, 0);
  return new Promise((done, fail) => { canvas.toBlob((png) => (png ? done(png) : fail(new Error("no PNG"))), "image/png"); });
}

/** Opens a dialog. */
export function dialog(title, ...content) {
  const close = make("button", { type: "button", onclick: () => box.close() }, "Close");
  const box = make("dialog", { "aria-label": title }, make("form", { method: "dialog" }, make("h1", {}, title), ...content, make("div", { class: "row" }, close)));
  const back = wayBack();
  box.addEventListener("close", () => { box.remove(); back(); });
  document.body.append(box);
  box.showModal();
  return box;
}

/**
 * Remembers the focused element and returns a function that restores the focus. Browsers do this for dialogs, but not
 * if the element was replaced by a fresh copy meanwhile.
 */
function wayBack() {
  const opener = document.activeElement;
  const path = opener && opener !== document.body ? findable(opener) : null;
  return () => {
    if (path && (!document.activeElement || document.activeElement === document.body)) one(path)?.focus({ preventScroll: true });
  };
}

const draftName = (about) => `retake-draft:${about}`;
/** Unsaved texts, kept for this tab until they are saved or discarded. */
export const drafts = {
  get(about) { try { return sessionStorage.getItem(draftName(about)); } catch { return null; } },
  set(about, text) { try { sessionStorage.setItem(draftName(about), text); } catch { /* Then the text is only in the dialog. */ } },
  drop(about) { try { sessionStorage.removeItem(draftName(about)); } catch { /* Storage is blocked, so there was none. */ } },
};

/**
 * Asks for a text; resolves to null if cancelled. With `draft`, the text survives a reload until the caller drops it
 * after saving. Closing with unsaved changes asks first. `rows: 1` is a single line, which Enter saves. `dress` may
 * return an element to show below the field. `value` may be a promise: the dialog opens at once, so that it gets the
 * next keys, and the value is put before what has been typed meanwhile.
 */
export function askText(title, field, action, { value: known = "", rows = 3, hint = "", draft = "", dress = () => null } = {}) {
  return new Promise((done) => {
    let value = typeof known === "string" ? known : "";
    const area = rows === 1 ? make("input", { type: "text", maxlength: 60000, dir: "auto" }) : make("textarea", { rows, maxlength: 60000, dir: "auto" });
    const kept = draft ? drafts.get(draft) : null;
    area.value = kept ?? value;
    const restored = kept !== null && kept !== value;
    const question = make("div", { class: "row question", role: "alert", hidden: true },
      make("span", {}, "Discard what you wrote?"), make("span", { class: "spring" }),
      make("button", { type: "button", onclick: () => askToLeave(false) }, "Keep editing"),
      make("button", { type: "button", class: "danger", onclick: () => { if (draft) drafts.drop(draft); box.close(""); } }, "Discard"));
    const choice = make("div", { class: "row" },
      make("button", { type: "button", onclick: () => leave() }, "Cancel"),
      make("button", { type: "submit", class: "primary", value: "yes" }, action));
    const askToLeave = (asking) => {
      question.hidden = !asking;
      choice.hidden = asking;
      if (asking) one("button", question).focus(); else area.focus();
    };
    const leave = () => {
      if (area.value !== value && area.value.trim() !== "") askToLeave(question.hidden);
      else { if (draft) drafts.drop(draft); box.close(""); }
    };
    const box = make(
      "dialog",
      { "aria-label": title },
      make(
        "form",
        { method: "dialog" },
        make("h1", { dir: "auto" }, title),
        hint || restored ? make("p", { class: "muted" }, restored ? "Your unsaved draft was restored." : hint) : null,
        make("label", { class: "field" }, field, area),
        dress(area),
        choice,
        question,
      ),
    );
    const back = wayBack();
    box.addEventListener("close", () => {
      box.remove();
      back();
      done(box.returnValue === "yes" ? area.value : null);
    });
    // Not `cancel`: browsers let a page prevent that only once.
    box.addEventListener("keydown", (event) => {
      if (event.key !== "Escape") return;
      event.preventDefault();
      leave();
    });
    area.addEventListener("input", () => { if (draft) drafts.set(draft, area.value); });
    area.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.metaKey || event.ctrlKey)) { event.preventDefault(); box.close("yes"); }
    });
    document.body.append(box);
    box.showModal();
    area.focus();
    if (!restored) area.select();
    if (typeof known !== "string") {
      known.then((text) => {
        value = text;
        if (restored || text === "") return;
        const typed = area.value;
        area.value = typed === "" ? text : `${text}${rows === 1 ? ", " : "\n"}${typed}`;
        if (typed === "") area.select(); else if (draft) drafts.set(draft, area.value);
      });
    }
  });
}

/** Formats how long ago something was, as briefly as possible: minutes, hours, days, then the date, then the month. */
function ago(at) {
  const past = Date.now() - at.getTime();
  if (Math.abs(past) < 6e4) return "just now";
  const said = (number, unit) => (past > 0 ? `${number} ${unit} ago` : `in ${number} ${unit}`);
  const span = Math.abs(past);
  if (span < 36e5) return said(Math.trunc(span / 6e4), "min");
  if (span < 864e5) return said(Math.trunc(span / 36e5), "h");
  if (span < 7 * 864e5) return said(Math.trunc(span / 864e5), "d");
  return (span < 300 * 864e5 ? day : month).format(at);
}

const day = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short" });
const month = new Intl.DateTimeFormat(undefined, { month: "short", year: "numeric" });
const exact = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });

/** Replaces times by relative ones, with the exact time as a tooltip. */
export function tellTimes(root = document) {
  for (const time of all("time:not([title])", root)) {
    const at = new Date(time.dateTime);
    if (Number.isNaN(at.getTime())) continue;
    time.title = exact.format(at);
    if (!time.hasAttribute("data-exact")) time.textContent = ago(at);
  }
}

/** Closes drop-down lists on Escape or a click elsewhere. */
export const closeDrops = (but) => { for (const drop of all("details.drop[open]")) if (drop !== but) drop.open = false; };
addEventListener("pointerdown", (event) => closeDrops(event.target.closest?.("details.drop")));

/** Calls `replace`, then focuses the control that corresponds to the one that had the focus. */
export function keepFocus(replace) {
  const focused = document.activeElement;
  const path = focused && focused !== document.body ? findable(focused) : null;
  replace();
  if (path && !focused.isConnected) one(path)?.focus({ preventScroll: true });
}

/** Replaces old content, preserving the focus, open details and the scroll position. */
export function swap(old, fresh) {
  if (old.isEqualNode(fresh)) return old;
  const focused = old.contains(document.activeElement) && document.activeElement !== old ? document.activeElement : null;
  const onSelf = document.activeElement === old;
  const path = focused ? findable(focused) : null;
  const open = new Map(all("details[data-name]", old).map((details) => [details.dataset.name, details.open]));
  const { scrollTop } = old;
  old.replaceWith(fresh);
  for (const details of all("details[data-name]", fresh)) if (open.has(details.dataset.name)) details.open = open.get(details.dataset.name);
  fresh.scrollTop = scrollTop;
  if (onSelf) fresh.focus({ preventScroll: true });
  if (path) one(path, fresh)?.focus({ preventScroll: true });
  return fresh;
}

/** Returns a selector that finds the same control in a fresh copy of the page. */
function findable(element) {
  if (element.id) return `#${CSS.escape(element.id)}`;
  const said = ["data-do", "data-rating", "data-what", "data-tray", "href"].filter((name) => element.hasAttribute(name));
  const parts = said.filter((name) => name !== "data-tray").map((name) => `[${name}="${CSS.escape(element.getAttribute(name))}"]`);
  if (element.hasAttribute("data-tray")) parts.push("[data-tray]");
  if (element.tagName === "SUMMARY" && element.parentElement.dataset.name) return `details[data-name="${element.parentElement.dataset.name}"] > summary`;
  return `${element.tagName.toLowerCase()}${parts.join("")}`;
}

/** Delays a call until there have been no others for a while; only the last one runs. */
export function calmly(wait, action) {
  let timer;
  return (...args) => {
    clearTimeout(timer);
    timer = setTimeout(async () => {
      try { await action(...args); } catch (error) { if (error.name !== "AbortError") sayWhy(error); }
    }, wait);
  };
}

/**
 * Collects calls for a while, then runs the action once with the arguments of all of them. Unlike `calmly`, it is not
 * put off by further calls, and never runs twice at the same time.
 */
export function steadily(wait, action) {
  let waiting = [];
  let running = false;
  const run = async () => {
    const calls = waiting;
    waiting = [];
    try { await action(calls); } catch (error) { if (error.name !== "AbortError") sayWhy(error); }
    running = false;
    if (waiting.length > 0) start();
  };
  const start = () => { running = true; setTimeout(run, wait); };
  return (call) => { waiting.push(call); if (!running) start(); };
}
