// What all pages share: making elements, asking the server, saying things, dialogs, times, keys.

const policy = globalThis.trustedTypes?.createPolicy("retake", { createHTML: (text) => text });

/** What the server rendered and escaped. The only text that becomes HTML. */
const trusted = (text) => (policy ? policy.createHTML(text) : text);

function parsed(text) {
  const template = document.createElement("template");
  template.innerHTML = trusted(text);
  return template.content;
}

/** An element: `make("a", { href: "/" }, "text", child)`. Text stays text. */
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

/** What the server answered, or an error that says what to do. */
async function answered(path, request) {
  const response = await fetch(path, request).catch((error) => {
    if (error.name === "AbortError") throw error;
    throw Object.assign(new Error("Retake is not there right now"), { hint: "nothing was changed; try again when it is back" });
  });
  if (response.ok) return response;
  let said = { message: `The server answered ${response.status}.`, hint: "" };
  if (response.headers.get("content-type")?.includes("json")) said = (await response.json()).error ?? said;
  throw Object.assign(new Error(said.message), { hint: said.hint, kind: said.kind });
}

/** A part of a page. */
export async function part(path, signal) {
  const response = await answered(path, { signal, headers: { accept: "text/html" } });
  return { headers: response.headers, content: parsed(await response.text()) };
}

/** A whole page, to show parts of it in the place of those that are shown. */
export async function page(path, signal) {
  const response = await answered(path, { signal, headers: { accept: "text/html" } });
  return new DOMParser().parseFromString(trusted(await response.text()), "text/html");
}

/** A verb of /api. */
export async function ask(verb, request) {
  const headers = { "content-type": "application/json" };
  return (await answered(`/api/${verb}`, { method: "POST", headers, body: JSON.stringify(request) })).json();
}

/** What takes long to read is read when someone opens it. */
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

let quiet;
/** Says something for a moment. */
export function say(text) {
  const toast = one("#toast");
  toast.textContent = text;
  toast.classList.add("on");
  clearTimeout(quiet);
  quiet = setTimeout(() => toast.classList.remove("on"), 2600);
}

/** Says why something failed. */
export const sayWhy = (error) => say(error.hint ? `${error.message}: ${error.hint}` : error.message);

/** Copies a text. */
export async function copy(text, what) {
  try {
    await navigator.clipboard.writeText(text);
    say(`${what} copied`);
  } catch {
    // Over plain HTTP from another machine there is no clipboard: show it, so that it can be copied by hand.
    const area = make("textarea", { rows: 10, readonly: true, "aria-label": what });
    area.value = text;
    dialog(what, area);
    area.select();
  }
}

/** Opens a dialog. */
export function dialog(title, ...content) {
  const close = make("button", { type: "button", onclick: () => box.close() }, "Close");
  const box = make("dialog", { "aria-label": title }, make("form", { method: "dialog" }, make("h1", {}, title), ...content, make("div", { class: "row" }, close)));
  box.addEventListener("close", () => box.remove());
  document.body.append(box);
  box.showModal();
  return box;
}

/** Asks for a text; null when it was not given. */
export function askText(title, field, action, { value = "", rows = 3, hint = "" } = {}) {
  return new Promise((done) => {
    const area = make("textarea", { rows, maxlength: 60000 });
    area.value = value;
    const box = make(
      "dialog",
      { "aria-label": title },
      make(
        "form",
        { method: "dialog" },
        make("h1", {}, title),
        hint ? make("p", { class: "muted" }, hint) : null,
        make("label", { class: "field" }, field, area),
        make(
          "div",
          { class: "row" },
          make("button", { type: "button", onclick: () => box.close("") }, "Cancel"),
          make("button", { type: "submit", class: "primary", value: "yes" }, action),
        ),
      ),
    );
    box.addEventListener("close", () => {
      box.remove();
      done(box.returnValue === "yes" ? area.value : null);
    });
    area.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.metaKey || event.ctrlKey)) box.close("yes");
    });
    document.body.append(box);
    box.showModal();
    area.focus();
    area.select();
  });
}

const units = [["year", 31536e6], ["month", 2592e6], ["day", 864e5], ["hour", 36e5], ["minute", 6e4]];
const relative = new Intl.RelativeTimeFormat("en", { numeric: "auto", style: "short" });
const exact = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });

/** Turns times into how long ago they are, with the exact time on top. */
export function tellTimes(root = document) {
  for (const time of all("time:not([title])", root)) {
    const at = new Date(time.dateTime);
    if (Number.isNaN(at.getTime())) continue;
    const ago = at.getTime() - Date.now();
    const unit = units.find(([, span]) => Math.abs(ago) >= span);
    time.title = exact.format(at);
    if (!time.hasAttribute("data-exact")) time.textContent = unit ? relative.format(Math.trunc(ago / unit[1]), unit[0]) : "just now";
  }
}

const keys = new Map();
const explained = [];
/** Does something on a key, unless someone is typing. What it does is shown with `?`. */
export function key(names, what, action) {
  for (const name of names) keys.set(name, action);
  if (what) explained.push([names, what]);
}

const shownNames = { ArrowLeft: "←", ArrowRight: "→", ArrowUp: "↑", ArrowDown: "↓", Escape: "Esc", " ": "Space" };

/** Shows the keys of this page. */
export function showKeys() {
  const rows = explained.map(([names, what]) => {
    const caps = names.map((name) => make("kbd", {}, shownNames[name] ?? name));
    return make("tr", {}, make("td", {}, ...caps.flatMap((cap) => [cap, " "])), make("td", {}, what));
  });
  dialog("Keys", make("table", {}, make("tbody", {}, ...rows)));
}

addEventListener("keydown", (event) => {
  if (event.metaKey || event.ctrlKey || event.altKey || event.defaultPrevented) return;
  if (one("dialog[open]")) return;
  if (event.target.closest?.("input, textarea, select, [contenteditable]")) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  const action = keys.get(event.key);
  if (action && action(event) !== false) event.preventDefault();
});

/** Runs at most once in a while, and always after the last call. */
export function calmly(wait, action) {
  let timer;
  return (...args) => {
    clearTimeout(timer);
    timer = setTimeout(async () => {
      try { await action(...args); } catch (error) { if (error.name !== "AbortError") sayWhy(error); }
    }, wait);
  };
}
