// The wall: only what is near the window is in the page, however many there are. Parts of 60 cards come from the server
// when they come into sight: by the cursor behind the part before, or, after a jump, by the nearest mark.

import { all, calmly, key, make, one, part, say, tellTimes } from "./kit.js";
import { tray } from "./tray.js";
import { typing } from "./typing.js";

const SIZE = 60;
const MARK = 600;
const COLUMNS = [1, 2, 3, 4, 5, 6, 10, 12, 15, 20];
const KEEP = 40;

let wall;
let source;
let where;
let total = 0;
let row = 300;
let columns = 6;
const gap = 20;
let marks = null;
const cursors = new Map();
const loaded = new Map();
const loading = new Map();

const wallTop = () => wall.getBoundingClientRect().top + scrollY;
const top = (index) => Math.floor((index * SIZE) / columns) * row;
const seen = () => ({ from: scrollY - wallTop(), height: innerHeight });
const firstSeen = () => Math.max(0, Math.floor(seen().from / row) * columns);
const scrollToCard = (card) => { if (card > 0) scrollTo(0, wallTop() + Math.floor(card / columns) * row); };

/** Takes up the wall that is in the page now, if there is one. */
function hang() {
  for (const aborter of loading.values()) aborter.abort();
  for (const map of [loading, loaded, cursors]) map.clear();
  marks = null;
  wall = one("#wall");
  where = new URL(location.href);
  if (!wall) return;
  source = wall.dataset.source ?? "/sessions";
  total = Number(wall.dataset.total);
  cursors.set(0, "");
  loaded.set(0, one(".part", wall));
  if (wall.dataset.next) cursors.set(1, wall.dataset.next);
  wall.classList.add("live");
  lay();
  look();
}

/** What happened elsewhere: new work comes first, so the first part is asked for again. */
const refresh = calmly(250, async () => {
  // What is searched for, or not there yet, is asked for whole; not from under someone who reads on further down.
  if (!wall || source !== "/sessions") { if (scrollY > innerHeight) newWork(); else await again(); return; }
  const mine = wall;
  const { headers, content } = await part(`${source}/part?${where.searchParams}`);
  if (mine !== wall) return;
  total = Number(headers.get("x-total") ?? total);
  const shown = one("#total");
  if (shown) shown.textContent = total.toLocaleString("fr").replaceAll("\u00a0", "\u202f");
  const element = make("div", { class: "part", "data-part": 0 });
  element.append(content);
  tellTimes(element);
  const focused = document.activeElement?.closest?.(".card")?.dataset.session;
  loaded.forEach((old) => old.remove());
  loaded.clear();
  cursors.clear();
  cursors.set(0, "");
  marks = null;
  loaded.set(0, element);
  wall.append(element);
  const next = headers.get("x-next");
  if (next) cursors.set(1, next);
  lay();
  look();
  if (focused) one(`.card[data-session="${CSS.escape(focused)}"]`, wall)?.focus({ preventScroll: true });
  if (scrollY > innerHeight) newWork();
});

/** Measures columns and rows, and gives the wall its whole height. */
function lay() {
  const width = wall.clientWidth;
  const wanted = width < 560 ? 2 : Math.max(3, Math.floor((width + 16) / (width > 2400 ? 300 : 216)));
  columns = COLUMNS.filter((count) => count <= wanted).pop();
  wall.style.setProperty("--columns", columns);
  const card = one(".card", wall);
  row = card ? card.getBoundingClientRect().height + gap : row;
  wall.style.height = `${Math.ceil(total / columns) * row}px`;
  for (const [index, element] of loaded) element.style.top = `${top(index)}px`;
}

/** Brings in the parts around the window, and takes out those far from it. */
function look() {
  if (!wall) return;
  const { from, height } = seen();
  const last = Math.max(0, Math.ceil(total / SIZE) - 1);
  const at = (y) => Math.min(last, Math.max(0, Math.floor((Math.floor(y / row) * columns) / SIZE)));
  const near = [at(from - height), at(from + 2 * height)];
  const unknown = [];
  for (let index = near[0]; index <= near[1]; index += 1) if (cursors.has(index)) bring(index); else unknown.push(index);
  if (unknown.some((index) => !loaded.has(index) && !loading.has(index))) land();
  for (const [index, element] of loaded) {
    const far = index < near[0] - 1 || index > near[1] + 1;
    if (far && element.isConnected) element.remove();
    if (!far && !element.isConnected) wall.append(element);
  }
  for (const [index, aborter] of loading) if (index < near[0] - 2 || index > near[1] + 2) { aborter.abort(); }
  for (const index of [...loaded.keys()].slice(0, Math.max(0, loaded.size - KEEP))) {
    if (!loaded.get(index).isConnected) loaded.delete(index);
  }
}

/** Where the way is long, it is gone when the scroll bar rests: what is passed on the way is not asked for. */
const land = calmly(90, () => {
  const { from, height } = seen();
  const last = Math.max(0, Math.ceil(total / SIZE) - 1);
  const at = (y) => Math.min(last, Math.max(0, Math.floor((Math.floor(y / row) * columns) / SIZE)));
  for (let index = at(from - height / 2); index <= at(from + 1.5 * height); index += 1) bring(index);
});

async function bring(index) {
  if (loaded.has(index) || loading.has(index)) return;
  const mine = wall;
  const aborter = new AbortController();
  loading.set(index, aborter);
  const ghost = ghosts(index);
  wall.append(ghost);
  try {
    const query = new URLSearchParams(where.search);
    const { at, skip } = await way(index, aborter.signal);
    if (at) query.set("at", at);
    if (skip) query.set("skip", skip);
    const { headers, content } = await part(`${source}/part?${query}`, aborter.signal);
    if (mine !== wall) return;
    const element = make("div", { class: "part", "data-part": index });
    element.append(content);
    element.style.top = `${top(index)}px`;
    tellTimes(element);
    loaded.set(index, element);
    wall.append(element);
    const next = headers.get("x-next");
    if (next) cursors.set(index + 1, next);
  } catch (error) {
    if (error.name !== "AbortError") say(error.message);
  } finally {
    ghost.remove();
    if (loading.get(index) === aborter) loading.delete(index);
  }
}

/** How to get to a part: a cursor and how many to pass over. */
async function way(index, signal) {
  if (cursors.has(index)) return { at: cursors.get(index), skip: 0 };
  if (source !== "/sessions") return { at: "", skip: index * SIZE };
  marks ??= fetch(`${source}/marks?${new URLSearchParams(where.search)}`, { signal }).then((answer) => answer.json());
  try {
    const known = await marks;
    const nearest = Math.min(known.length, Math.floor((index * SIZE) / MARK));
    return { at: nearest === 0 ? "" : known[nearest - 1], skip: index * SIZE - nearest * MARK };
  } catch (error) {
    marks = null;
    throw error;
  }
}

function ghosts(index) {
  const count = Math.min(SIZE, total - index * SIZE);
  const cards = Array.from({ length: Math.max(0, count) }, () =>
    make("span", { class: "card" }, make("span", { class: "cover" }), make("span", { class: "name" }), make("span", { class: "meta" })));
  const element = make("div", { class: "part ghost", "aria-hidden": "true" }, ...cards);
  element.style.top = `${top(index)}px`;
  return element;
}

/** Back from a session: where one was. */
function restore() {
  const name = () => `retake-wall ${location.pathname}${location.search}`;
  history.scrollRestoration = "manual";
  const kept = sessionStorage.getItem(name());
  const back = performance.getEntriesByType("navigation")[0]?.type !== "navigate";
  if (wall && kept && back) scrollTo(0, Number(kept));
  addEventListener("pagehide", () => sessionStorage.setItem(name(), String(scrollY)));
}

function keysOfTheWall() {
  const cards = () => all("#wall > .part:not(.ghost) > .card").sort((a, b) => a.getBoundingClientRect().top - b.getBoundingClientRect().top || a.getBoundingClientRect().left - b.getBoundingClientRect().left);
  const move = (by) => {
    const shown = cards();
    const at = shown.indexOf(document.activeElement);
    const inSight = shown.findIndex((card) => card.getBoundingClientRect().top >= 56);
    const next = at < 0 ? Math.max(0, inSight) : Math.min(shown.length - 1, Math.max(0, at + by));
    shown[next]?.focus({ preventScroll: true });
    shown[next]?.scrollIntoView({ block: "nearest" });
    return at >= 0 || by !== 0;
  };
  key(["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown"], "Move among the pictures", (event) =>
    move({ ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns, ArrowDown: columns }[event.key]));
  key(["Enter"], "Open", () => false);
  key(["c"], "Add to the compare tray", () => {
    const card = document.activeElement.closest?.(".card");
    const image = one("img", card ?? undefined)?.getAttribute("src")?.split("/").pop();
    if (card?.dataset.reference) tray.toggle(card.dataset.reference, image);
    else say("Choose a picture with the arrow keys first");
  });
}

function newWork() {
  if (one(".pill")) return;
  const pill = make("button", { class: "pill", type: "button", onclick: () => { scrollTo(0, 0); pill.remove(); if (source !== "/sessions") again(); } }, "New work ↑");
  document.body.append(pill);
}

hang();
restore();
look();
addEventListener("resize", calmly(60, () => { if (!wall) return; const at = firstSeen(); lay(); scrollToCard(at); look(); }));
addEventListener("scroll", () => requestAnimationFrame(look), { passive: true });
keysOfTheWall();
/** The search box works on this page: what it finds takes the place of what is shown. */
const again = typing(hang);

export function heard() {
  refresh();
}
