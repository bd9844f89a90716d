// Multiple selection: a checkbox on each card, a rubber band, Shift for a range, Ctrl or a long press to add one; and
// the bar of actions. An action applies to the selection at the time it was started, one item after the other, and can
// be undone.

import { all, ask, askText, make, one, sayWhy } from "./kit.js";
import { forgetTags, knownTags, withCompletion } from "./completion.js";
import { compareAddress, tray } from "./tray.js";
import { iterationOf, offerUndo, sendRating } from "./writes.js";

/** The selected items by reference: `{ reference, session, label, image }`. */
const chosen = new Map();
let wall = null;
let last = null;

const keyOf = (card) => card.dataset.reference ?? card.dataset.session;
/** Returns the hash of the image on a card, also while the pointer flips through others. */
export const imageOf = (card) => (one("img", card)?.dataset.cover ?? one("img", card)?.getAttribute("src"))?.split("/").pop();
const described = (card) => ({
  reference: card.dataset.reference, session: card.dataset.session, project: card.dataset.project ?? "", label: card.dataset.label, rating: Number(card.dataset.rating ?? 0), image: imageOf(card),
});

function set(card, on) {
  if (on) chosen.set(keyOf(card), described(card)); else chosen.delete(keyOf(card));
  one(".select", card.parentElement).checked = on;
  card.parentElement.toggleAttribute("data-chosen", on);
}

export const selection = {
  busy: false,
  /** Starts on another wall; `kept` if it shows the same again, so that the selection stays. */
  start(element, kept = false) {
    wall = element;
    if (!kept) chosen.clear();
    show();
  },
  /** Marks the selected cards in newly inserted content. */
  mark(element) {
    for (const card of all(".card", element)) if (chosen.has(keyOf(card))) set(card, true);
  },
  toggle(card, on = !chosen.has(keyOf(card))) {
    set(card, on);
    last = keyOf(card);
    show();
  },
  /** Selects exactly these cards, plus those in `before`. */
  among(cards, before) {
    const wanted = new Set(cards.map(keyOf));
    for (const card of all("#wall .card")) {
      const on = wanted.has(keyOf(card)) || before.has(keyOf(card));
      if (on !== chosen.has(keyOf(card))) set(card, on);
    }
    last = cards.length > 0 ? keyOf(cards.at(-1)) : last;
    show();
  },
  keys: () => new Set(chosen.keys()),
};

/** Selects all cards from the last selected one to this one. */
function range(card) {
  const cards = all("#wall > .part:not(.ghost)").sort((a, b) => Number(a.dataset.part) - Number(b.dataset.part)).flatMap((part) => all(".card", part));
  const [from, to] = [cards.findIndex((it) => keyOf(it) === last), cards.indexOf(card)].sort((a, b) => a - b);
  if (from < 0) { selection.toggle(card, true); return; }
  for (const one of cards.slice(from, to + 1)) set(one, true);
  last = keyOf(card);
  show();
}

document.addEventListener("click", (event) => {
  const box = event.target.closest?.("#wall .select");
  const card = box ? one(".card", box.parentElement) : event.target.closest?.("#wall .card");
  if (!card) return;
  if (box) { if (event.shiftKey && last) { range(card); } else { selection.toggle(card, box.checked); } return; }
  if (event.shiftKey && chosen.size > 0) { event.preventDefault(); range(card); return; }
  if (event.ctrlKey || event.metaKey || (chosen.size > 0 && touched)) { event.preventDefault(); selection.toggle(card); }
}, true);

let held;
let touched = false;
document.addEventListener("pointerdown", (event) => {
  touched = event.pointerType === "touch";
  clearTimeout(held);
  const card = event.target.closest?.("#wall .card");
  if (!card || !touched) return;
  held = setTimeout(() => { selection.toggle(card, true); suppress = true; }, 450);
}, { passive: true });
let suppress = false;
for (const name of ["pointerup", "pointercancel", "scroll"]) addEventListener(name, () => clearTimeout(held), { passive: true, capture: true });
document.addEventListener("contextmenu", (event) => { if (touched && event.target.closest?.("#wall .card")) event.preventDefault(); });
document.addEventListener("click", (event) => { if (suppress && event.target.closest?.("#wall .card")) { event.preventDefault(); event.stopPropagation(); } suppress = false; }, true);
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && chosen.size > 0 && !one("dialog[open], details.drop[open]") && !event.target.closest?.("input, textarea")) clear();
});

function clear() {
  for (const card of all("#wall .card")) if (chosen.has(keyOf(card))) set(card, false);
  chosen.clear();
  show();
}

/** Updates the action bar, which is below the wall and covers nothing. */
function show() {
  document.body.toggleAttribute("data-selecting", chosen.size > 0);
  let bar = one("#chosen");
  if (chosen.size === 0) { bar?.remove(); return; }
  const count = chosen.size;
  if (bar) { one(".number", bar).textContent = `${count} selected`; one("[data-act=compare]", bar).disabled = count < 2 || count > 12; return; }
  const act = (name, text, action, attributes = {}) => make("button", { type: "button", "data-act": name, onclick: action, ...attributes }, text);
  const form = (name, text, of) => make("a", { href: "#", class: "button", download: true, "data-form": name, onclick: (event) => { event.currentTarget.href = `/export/${name}?of=${of().map(encodeURIComponent).join(",")}`; } }, text);
  const stars = make("span", { class: "stars", role: "group", "aria-label": "Rate all selected" },
    ...[1, 2, 3, 4, 5].map((rating) => make("button", { type: "button", "data-rate": rating, "aria-label": `${rating} of 5`, onclick: () => rateAll(rating) }, "★")));
  const toggle = make("details", { class: "drop up" }, make("summary", {}, "Export"), make("div", {},
    form("sessions.zip", "Sessions as ZIP", sessions),
    form("images.zip", "These images as ZIP", () => [...chosen.values()].map((it) => it.reference).filter(Boolean)),
    form("proof.tar", "Proof (audit bundle)", sessions)));
  bar = make("div", { id: "chosen", class: "picked", role: "region", "aria-label": "Selected" },
    make("span", { class: "number", role: "status" }, `${count} selected`), stars,
    act("tag", "Tag…", tagAll), act("compare", "Compare", compareAll, { disabled: count < 2 || count > 12 }), toggle,
    act("project", "Project…", projectAll), act("archive", "Archive…", archiveAll), make("span", { class: "spring" }), act("clear", "Clear", clear, { class: "quiet" }));
  document.body.append(bar);
}

/** Runs an action on each item in sequence, and shows the progress. */
async function each(items, what, action) {
  selection.busy = true;
  let done = 0;
  try {
    for (const item of items) {
      await action(item);
      done += 1;
      const number = one("#chosen .number");
      if (number) number.textContent = `${what} ${done} of ${items.length}`;
    }
  } finally {
    selection.busy = false;
    show();
    dispatchEvent(new Event("retake-idle"));
  }
  return done;
}

const iterations = () => [...chosen.values()].filter((it) => it.reference);

async function rateAll(rating) {
  const items = iterations();
  try {
    await each(items, "Rating", (item) => sendRating(item.reference, rating));
    offerUndo(`${items.length} rated ${"★".repeat(rating)}`, () => each(items, "Undoing", (item) => sendRating(item.reference, item.rating)));
    for (const card of all("#wall .card")) if (chosen.has(keyOf(card))) { card.dataset.rating = rating; set(card, true); }
  } catch (error) { sayWhy(error); }
}

async function tagAll() {
  const items = iterations();
  const text = await askText("Tag all selected", "Tags, separated by commas", "Add", { rows: 1, dress: (area) => withCompletion(area, knownTags) });
  const tags = (text ?? "").split(",").map((it) => it.trim()).filter(Boolean);
  if (tags.length === 0) return;
  forgetTags();
  try {
    await each(items, "Tagging", (item) => ask("annotate-iteration", { reference: iterationOf(item.reference), addTags: tags }));
    offerUndo(`${items.length} tagged ${tags.join(", ")}`, () => each(items, "Undoing", (item) => ask("annotate-iteration", { reference: iterationOf(item.reference), removeTags: tags })));
  } catch (error) { sayWhy(error); }
}

function compareAll() {
  const items = iterations();
  tray.set(items.map(({ reference, image, label }) => ({ reference, image, name: label })));
  location.assign(compareAddress(items.map((it) => it.reference)));
}

const sessions = () => [...new Set([...chosen.values()].map((it) => it.session ?? it.reference.split("#")[0]))];

async function projectAll() {
  const ids = sessions();
  const text = await askText(`Project of ${ids.length} ${ids.length === 1 ? "session" : "sessions"}`, "Name; empty for none", "Save", { rows: 1 });
  if (text === null) return;
  const project = text.trim();
  const before = new Map([...chosen.values()].map((it) => [it.session ?? it.reference.split("#")[0], it.project]));
  try {
    await each(ids, "Moving", (sessionId) => ask("update-session", { sessionId, project }));
    offerUndo(project ? `${ids.length} moved to “${project}”` : `${ids.length} without a project`, () => each(ids, "Undoing", (sessionId) => ask("update-session", { sessionId, project: before.get(sessionId) })));
  } catch (error) { sayWhy(error); }
}

async function archiveAll() {
  const ids = sessions();
  const reason = await askText(`Archive ${ids.length} ${ids.length === 1 ? "session" : "sessions"}`, "Reason (kept in the audit trail)", "Archive", { hint: "No iterations can be added until they are restored. Nothing is deleted.", rows: 2 });
  if (reason === null) return;
  try {
    await each(ids, "Archiving", (sessionId) => ask("archive-session", { sessionId, reason }));
    clear();
    offerUndo(`${ids.length} archived`, () => each(ids, "Restoring", (sessionId) => ask("restore-session", { sessionId })));
  } catch (error) { sayWhy(error); }
}
