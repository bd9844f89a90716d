// The tray: images collected for comparison across sessions and tabs, and named sets. Stored in the browser separately
// for each workspace, since different workspaces may be served at the same address over time. It appears as a number
// next to Compare in the menu and opens below it, so that it never covers the images.

import { workspace } from "/here.js";
import { all, make, one, part, say } from "./kit.js";
import { key, withKey } from "./keys.js";

const NAME = `retake-tray ${workspace}`;
const SETS = `retake-sets ${workspace}`;
const MOST = 12;

const kept = (name) => {
  try { return JSON.parse(localStorage.getItem(name) ?? "[]"); } catch { return []; }
};

/** Returns its contents: `{ reference, image, name }`. */
function read() {
  const items = kept(NAME);
  return (Array.isArray(items) ? items : []).filter((item) => typeof item?.reference === "string").slice(0, MOST);
}

let warned = false;
function keep(name, value) {
  try {
    localStorage.setItem(name, JSON.stringify(value));
  } catch {
    if (!warned) say("Storage is blocked: the compare tray will be lost with this tab");
    warned = true;
  }
}

function write(items) {
  keep(NAME, items);
  show();
}

/** Returns the URL that compares these. */
export const compareAddress = (references, name = "") =>
  `/compare?refs=${references.map((it) => encodeURIComponent(it)).join(",")}${name ? `&name=${encodeURIComponent(name)}` : ""}`;

const named = (item) => item.name ?? `#${item.reference.split("#")[1] ?? ""}`;
const pageOf = (reference) => `/sessions/${reference.replace("#", "/")}`;

/** Creates the panel and the menu button that opens it. */
function button() {
  const known = one("#tray-count");
  if (known) return known;
  const link = one('.menu a[href^="/compare"]');
  const made = make("button", { id: "tray-count", type: "button", class: "count", popovertarget: "tray", hidden: true });
  link?.after(made);
  return made;
}

function show() {
  const items = read();
  const box = one("#tray");
  box.setAttribute("popover", "");
  box.hidden = false;
  const count = button();
  count.hidden = items.length === 0;
  count.textContent = String(items.length);
  count.setAttribute("aria-label", `Compare tray: ${items.length} ${items.length === 1 ? "image" : "images"}`);
  const link = one('.menu a[href^="/compare"]');
  if (link) link.href = items.length > 0 ? compareAddress(items.map((item) => item.reference)) : "/compare";
  const focused = all("button", box).indexOf(document.activeElement);
  const rows = items.map((item) =>
    make("li", {},
      make("a", { href: pageOf(item.reference) },
        item.image ? make("img", { src: `/thumbs/${item.image}`, alt: "" }) : make("span", { class: "none" }),
        make("span", { class: "named", dir: "auto" }, named(item))),
      make("button", { type: "button", class: "quiet", "aria-label": `Remove ${named(item)}`, onclick: () => tray.remove(item.reference) }, "×")));
  box.replaceChildren(
    make("h2", {}, "Compare"),
    make("ol", {}, ...rows),
    ...(items.length < 2 ? [make("p", { class: "muted" }, withKey("Add one more to compare", "c"))] : []),
    make("div", { class: "row" },
      make("button", { type: "button", class: "quiet", onclick: () => tray.clear() }, "Clear"),
      make("button", { type: "button", class: "primary", disabled: items.length < 2, onclick: () => tray.compare() }, `Compare ${items.length}`)),
  );
  // Keep the focus position, so that several items can be removed in a row.
  if (focused >= 0) all("button", box)[Math.max(0, Math.min(focused, rows.length - 1))]?.focus();
  if (items.length === 0 && box.matches(":popover-open")) { box.hidePopover(); link?.focus(); }
  for (const toggle of all("[data-tray]")) {
    const held = items.some((item) => item.reference === toggle.dataset.tray);
    toggle.setAttribute("aria-pressed", held);
    toggle.textContent = held ? "Added" : "Add to compare";
  }
}

export const tray = {
  start() {
    show();
    addEventListener("storage", (event) => { if (event.key === NAME) show(); });
    document.addEventListener("click", (event) => {
      const toggle = event.target.closest("[data-tray]");
      if (toggle) tray.toggle(toggle.dataset.tray, toggle.dataset.image, toggle.dataset.label);
    });
    key(["C"], "Compare what is in the tray", () => tray.compare(), "Everywhere");
  },
  show,
  items: read,
  has: (reference) => read().some((item) => item.reference === reference),
  toggle(reference, image, name = document.body.dataset.page === "session" ? document.title.replace(/ · Retake$/, "") : undefined) {
    const items = read();
    if (items.some((item) => item.reference === reference)) return tray.remove(reference);
    if (items.length >= MOST) return say(`At most ${MOST} can be compared`);
    write([...items, { reference, image, name }]);
    say(`“${name ?? reference}” added to compare`);
  },
  remove(reference) {
    write(read().filter((item) => item.reference !== reference));
  },
  /** Replaces the contents. */
  set(items) {
    write(items.slice(0, MOST));
  },
  clear() {
    write([]);
  },
  compare() {
    const items = read();
    if (items.length < 2) return say(withKey("Add one more to compare", "c"));
    location.assign(compareAddress(items.map((item) => item.reference)));
  },
};

/** Named sets: `{ name, references }`. */
export const sets = {
  all: () => kept(SETS).filter((set) => typeof set?.name === "string" && Array.isArray(set.references)),
  save(name, references) {
    keep(SETS, [{ name, references }, ...sets.all().filter((set) => set.name !== name)].slice(0, 50));
  },
  forget(name) {
    keep(SETS, sets.all().filter((set) => set.name !== name));
  },
};

// The verification badge, on pages whose header has one.

async function verdicts() {
  for (const place of all("[data-verdict]")) {
    try {
      const { content } = await part(place.dataset.verdict);
      if (place.isConnected) place.replaceWith(content);
    } catch { /* The link still works. */ }
  }
}
verdicts();
