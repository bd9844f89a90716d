// The wall: rows of uncropped images, of which only those near the viewport are in the DOM, however many there are.
// Parts of 60 cards are loaded as they come into view. The height of a part is only known once it is laid out; until
// then, the average of the others is used, and scroll anchoring compensates for differences above the viewport.

import { all, calmly, make, one, part, say, sayWhy, steadily, tellTimes } from "./kit.js";
import { key } from "./keys.js";
import { openActions, rateCard, withActions } from "./actions.js";
import { intake } from "./intake.js";
import { rubberBand } from "./band.js";
import { imageOf, selection } from "./select.js";
import { tray } from "./tray.js";
import { keepResults } from "./results.js";
import { savedSearches, typing } from "./typing.js";
import { undo } from "./writes.js";

const SIZE = 60;
const KEEP = 40;
const GAP = 14;
const SIZE_KEY = "retake-size";

let wall;
let source;
let where;
let total = 0;
let first = 0;
let heights = [];
let stale = false;
const cursors = new Map();
const loaded = new Map();
const loading = new Map();
/** Parts being loaded, so that several callers can wait for one. */
const arriving = new Map();

const wallTop = () => wall.getBoundingClientRect().top + scrollY;
const parts = () => Math.max(1, Math.ceil((total - first) / SIZE));
const usual = () => { const known = heights.filter(Boolean); return known.length > 0 ? known.reduce((sum, it) => sum + it, 0) / known.length : 1200; };
function tops() {
  const mean = usual();
  const all = [0];
  for (let at = 0; at < parts(); at += 1) all.push(all[at] + (heights[at] ?? mean) + GAP);
  return all;
}

/** On small windows, filters start folded, since they would push the images off the page. */
function fold() {
  const filters = one("details.facets");
  if (!filters || innerWidth > 900) return;
  filters.open = sessionStorage.getItem("retake-filters") === "open";
  filters.addEventListener("toggle", () => sessionStorage.setItem("retake-filters", filters.open ? "open" : "folded"));
}

/** Initialises the wall that is in the page, if there is one; `kept` if it shows the same again. */
function hang(kept = false) {
  for (const aborter of loading.values()) aborter.abort();
  for (const map of [loading, arriving, loaded, cursors]) map.clear();
  heights = [];
  fold();
  wall = one("#wall");
  where = new URL(location.href);
  size();
  savedSearches();
  for (const button of all("[data-read]")) { button.hidden = false; button.addEventListener("click", markRead); }
  if (!wall) { selection.start(null, kept); return; }
  source = wall.dataset.source ?? "/sessions";
  total = Number(wall.dataset.total);
  first = Number(wall.dataset.from ?? 0);
  cursors.set(0, "");
  const shown = one(".part", wall);
  loaded.set(0, shown);
  if (wall.dataset.next) cursors.set(1, wall.dataset.next);
  wall.classList.add("live");
  all(".onward").forEach((link) => { link.hidden = true; });
  selection.start(wall, kept);
  dress(shown, null);
  lay();
  look();
  scrubber();
}

/** Returns the aspect ratio of a card. One without an image takes less space. */
const ratioOf = (item) => Math.min(2.8, Math.max(0.5, Number(item.dataset.ratio) || (one(".cover img", item) ? 1 : 0.6)));

/** Prepares a card for scripts: its aspect ratio, date and checkbox. */
function dress(element, before) {
  let day = before;
  const dated = wall.hasAttribute("data-dated");
  for (const item of all(".item", element)) {
    item.style.setProperty("--r", ratioOf(item));
    if (dated) {
      const own = dayName(item.dataset.at);
      one(".day", item)?.remove();
      if (own !== day) item.prepend(make("h2", { class: "day" }, own));
      day = own;
    }
    const card = one(".card", item);
    card.tabIndex = -1;
    if (!one(".select", item)) {
      item.append(make("input", { type: "checkbox", class: "select", tabindex: -1, "aria-label": `Select ${card.dataset.label}` }));
    }
    withActions(item, card);
  }
  tellTimes(element);
  selection.mark(element);
  element.dataset.lastDay = day ?? "";
}

const days = new Intl.DateTimeFormat("en", { day: "numeric", month: "long" });
const older = new Intl.DateTimeFormat("en", { day: "numeric", month: "long", year: "numeric" });
/** Returns the name of the day in the user's time zone. */
function dayName(at) {
  const [then, now] = [new Date(at), new Date()];
  const midnight = (date) => new Date(date.getFullYear(), date.getMonth(), date.getDate()).getTime();
  const ago = Math.round((midnight(now) - midnight(then)) / 864e5);
  if (ago === 0) return "Today";
  if (ago === 1) return "Yesterday";
  return then.getFullYear() === now.getFullYear() ? days.format(then) : older.format(then);
}

/** Sets the total height of the wall and the position of every part. */
function lay() {
  if (!wall) return;
  for (const [index, element] of loaded) if (element.isConnected) heights[index] = element.offsetHeight;
  const at = tops();
  wall.style.height = `${at.at(-1) - GAP}px`;
  for (const [index, element] of loaded) element.style.top = `${at[index]}px`;
  if (!one('#wall .card[tabindex="0"]')) { const card = one("#wall .card"); if (card) card.tabIndex = 0; }
}

/** Applies a change to the layout without moving what is in view. */
function settle(change) {
  const anchor = all("#wall .item").find((item) => item.getBoundingClientRect().bottom > 80);
  const before = anchor?.getBoundingClientRect().top;
  change();
  lay();
  if (anchor?.isConnected && scrollY > 0) { const moved = anchor.getBoundingClientRect().top - before; if (Math.abs(moved) > 1) scrollBy(0, moved); }
}

/** Loads the parts near the viewport and removes distant ones. */
function look() {
  if (!wall) return;
  const from = scrollY - wallTop();
  const at = tops();
  const last = parts() - 1;
  const indexAt = (y) => { let low = 0; let high = last; while (low < high) { const middle = (low + high + 1) >> 1; if (at[middle] <= y) low = middle; else high = middle - 1; } return low; };
  const near = [indexAt(from - innerHeight), indexAt(from + 2 * innerHeight)];
  for (let index = near[0]; index <= near[1]; index += 1) bring(index);
  for (const [index, element] of loaded) {
    const far = index < near[0] - 1 || index > near[1] + 1;
    if (far && element.isConnected) element.remove();
    if (!far && !element.isConnected) wall.append(element);
  }
  // A later caller must not wait for the cancelled request.
  for (const [index, aborter] of loading) if (index < near[0] - 2 || index > near[1] + 2) { aborter.abort(); loading.delete(index); arriving.delete(index); }
  for (const index of [...loaded.keys()].slice(0, Math.max(0, loaded.size - KEEP))) if (!loaded.get(index).isConnected) loaded.delete(index);
  markMonth();
}

/** Returns the query for a part: its offset in the order, or the cursor before it. */
function query(index) {
  const asked = new URLSearchParams(where.search);
  if (source === "/sessions") asked.set("from", first + index * SIZE);
  else if (cursors.has(index)) { if (cursors.get(index)) asked.set("at", cursors.get(index)); }
  else asked.set("skip", index * SIZE);
  return asked;
}

/** Loads a part unless it is present or being loaded; resolves when it is in the page. */
function bring(index, anew = false) {
  if (!anew && loaded.has(index)) return Promise.resolve();
  if (!anew && arriving.has(index)) return arriving.get(index);
  const coming = fetched(index, anew).finally(() => { if (arriving.get(index) === coming) arriving.delete(index); });
  arriving.set(index, coming);
  return coming;
}

async function fetched(index, anew) {
  const mine = wall;
  const aborter = new AbortController();
  loading.set(index, aborter);
  const ghost = anew ? null : ghosts(index);
  if (ghost) wall.append(ghost);
  try {
    const { headers, content } = await part(`${source}/part?${query(index)}`, aborter.signal);
    if (mine !== wall) return;
    total = Number(headers.get("x-total") ?? total);
    const element = make("div", { class: "part", "data-part": index });
    element.append(content);
    dress(element, loaded.get(index - 1)?.dataset.lastDay ?? null);
    const next = headers.get("x-next");
    if (next) cursors.set(index + 1, next);
    settle(() => {
      const focused = document.activeElement?.closest?.(".card");
      const again = focused && loaded.get(index)?.contains(focused) ? focused.dataset.reference ?? focused.dataset.session : null;
      loaded.get(index)?.remove();
      loaded.set(index, element);
      wall.append(element);
      if (again) refocus(again);
    });
  } catch (error) {
    if (error.name !== "AbortError") say(error.message);
  } finally {
    ghost?.remove();
    if (loading.get(index) === aborter) loading.delete(index);
  }
}

function ghosts(index) {
  const count = Math.min(18, Math.max(0, total - first - index * SIZE));
  const cards = Array.from({ length: count }, (_, at) => {
    const item = make("span", { class: "item" }, make("span", { class: "card" }, make("span", { class: "cover" }), make("span", { class: "name" }), make("span", { class: "meta" })));
    item.style.setProperty("--r", [1.5, 0.8, 1, 1.4][at % 4]);
    return item;
  });
  const element = make("div", { class: "part ghost", "aria-hidden": "true" }, ...cards);
  element.style.top = `${tops()[index]}px`;
  return element;
}

/** Reloads what is in view after changes elsewhere, unless the user has scrolled down. */
const refresh = steadily(250, async () => {
  if (!wall || source !== "/sessions") { if (scrollY > innerHeight) newWork(); else await again(); return; }
  if (scrollY > innerHeight) { stale = true; newWork(); return; }
  await anew();
});

async function anew() {
  stale = false;
  for (const [index, element] of loaded) if (!element.isConnected) loaded.delete(index);
  await Promise.all([...loaded.keys()].map((index) => bring(index, true)));
  const shown = one("#total");
  if (shown) shown.textContent = String(total).replace(/\B(?=(\d{3})+$)/g, "\u202f");
  lay();
  look();
}

function newWork() {
  if (one(".pill")) return;
  const pill = make("button", { class: "pill", type: "button", onclick: () => { scrollTo(0, 0); pill.remove(); if (source !== "/sessions") again(); else if (stale) anew(); } }, "New work ↑");
  document.body.append(pill);
}

async function markRead() {
  try {
    const answer = await fetch("/workspace/read", { method: "POST", headers: { "content-type": "application/json" }, body: "{}" });
    if (!answer.ok) throw new Error("The reports could not be marked as read");
    one(".notice")?.remove();
    lay();
    say("Marked as read");
  } catch (error) { sayWhy(error); }
}

// The size of the images.

function size() {
  const input = one("#size");
  if (!input) return;
  input.closest("label").hidden = false;
  input.value = kept() ?? filling(innerWidth < 700 ? 130 : innerWidth > 2200 ? 300 : 220, Number(input.max));
  const apply = () => document.documentElement.style.setProperty("--row", `${input.value}px`);
  apply();
  input.addEventListener("input", () => settle(() => { apply(); heights = []; try { localStorage.setItem(SIZE_KEY, input.value); } catch { /* The size then lasts until the page is left. */ } }));
  input.addEventListener("change", look);
}
/** Returns the largest size at which everything is in sight: few images fill a large window. */
function filling(usual, most) {
  if (!wall || total > SIZE || innerWidth < 700) return usual;
  const ratios = all(".item", wall).map(ratioOf);
  const UNDER = 84;
  for (let size = most; size > usual; size -= 10) {
    let [high, row] = [0, 0];
    const close = () => { high += size * Math.min(1.4, wall.clientWidth / row) + UNDER; };
    for (const ratio of ratios) {
      const wide = Math.max(120, ratio * size);
      if (row > 0 && row + wide > wall.clientWidth) { close(); row = 0; }
      row += wide + GAP;
    }
    close();
    if (wallTop() + high < innerHeight) return size;
  }
  return usual;
}
function kept() { try { return localStorage.getItem(SIZE_KEY); } catch { return null; } }

// The months next to the wall.

let months = [];
async function scrubber() {
  const box = one("#scrubber");
  months = [];
  if (!box || total < SIZE) return;
  try {
    const asked = new URLSearchParams(where.search);
    asked.delete("from");
    const counts = await (await fetch(`/sessions/marks?${asked}`)).json();
    let start = 0;
    months = counts.map(([month, count]) => { const from = start; start += count; return { month, from, count }; });
  } catch { return; }
  if (months.length < 2) return;
  let year = "";
  const every = Math.ceil(months.length / 24);
  box.replaceChildren(...months.map(({ month, from, count }, at) => {
    const name = new Date(`${month}-15T00:00:00Z`).toLocaleDateString("en", { month: "short" });
    const label = month.slice(0, 4) === year ? name : `${name} ${month.slice(0, 4)}`;
    year = month.slice(0, 4);
    const address = new URLSearchParams(where.search);
    address.set("from", from);
    return make("a", { href: `/?${address}`, tabindex: at === 0 ? 0 : -1, class: at % every === 0 ? null : "small", title: `${new Date(`${month}-15T00:00:00Z`).toLocaleDateString("en", { month: "long", year: "numeric" })}: ${count}`, onclick: (event) => { if (event.metaKey || event.ctrlKey) return; event.preventDefault(); jump(from); } }, label);
  }));
  box.hidden = false;
  box.onkeydown = (event) => {
    const links = all("a", box);
    const next = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!next) return;
    event.preventDefault();
    event.stopPropagation();
    const to = links[links.indexOf(document.activeElement) + next];
    if (to) { links.forEach((link) => { link.tabIndex = link === to ? 0 : -1; }); to.focus(); }
  };
  // Dragging along the months jumps through them. Positions are those at the start of the drag, since the list moves
  // with the page.
  let places = [];
  let at = -1;
  // In small windows, the months are a row that is scrolled by dragging.
  box.onpointerdown = () => { places = getComputedStyle(box).flexDirection === "column" ? all("a", box).map((link) => { const { top, height } = link.getBoundingClientRect(); return top + height / 2; }) : []; at = -1; };
  for (const name of ["pointerup", "pointercancel"]) addEventListener(name, () => { places = []; });
  addEventListener("pointermove", (event) => {
    if (places.length === 0) return;
    const apart = places.map((place) => Math.abs(place - event.clientY));
    const nearest = apart.indexOf(Math.min(...apart));
    if (nearest !== at) { at = nearest; jump(months[nearest].from); }
  });
  // Otherwise the browser would drag the link itself.
  box.ondragstart = (event) => event.preventDefault();
  markMonth();
}

let jumps = 0;
/** Jumps to a card by its offset in the order. Of several jumps, the last one wins. */
async function jump(card) {
  const mine = (jumps += 1);
  const index = Math.max(0, Math.floor((card - first) / SIZE));
  scrollTo(0, wallTop() + tops()[index] - 70);
  look();
  await bring(index);
  const there = loaded.get(index);
  if (!there || mine !== jumps) return;
  const item = all(".item", there)[Math.max(0, card - first - index * SIZE)];
  if (item) scrollTo(0, item.getBoundingClientRect().top + scrollY - 72);
}

/** Marks the month of the first card in view. */
function markMonth() {
  if (months.length < 2) return;
  const inSight = all("#wall > .part:not(.ghost) .item").map((item) => ({ item, box: item.getBoundingClientRect() })).filter(({ box }) => box.top > 40 && box.top < innerHeight);
  const [top] = inSight.sort((a, b) => a.box.top - b.box.top || a.box.left - b.box.left);
  // While the part is being loaded, keep the previous mark.
  if (!top) return;
  const now = months.findIndex(({ month }) => top.item.dataset.at.startsWith(month));
  all("#scrubber a").forEach((link, number) => { if (number === now) link.setAttribute("aria-current", "true"); else link.removeAttribute("aria-current"); });
}

// Pointing at a session flips through its takes.

function leaf(event) {
  if (event.pointerType === "touch") return;
  const cover = event.target.closest?.(".cover[data-takes]");
  if (!cover) return;
  const takes = cover.dataset.takes.split(",").map((take) => take.split(":"));
  const box = cover.getBoundingClientRect();
  const at = Math.min(takes.length - 1, Math.max(0, Math.floor(((event.clientX - box.left) / box.width) * takes.length)));
  if (cover.dataset.at === String(at)) return;
  cover.dataset.at = at;
  const image = one("img", cover);
  image.dataset.cover ??= image.getAttribute("src");
  image.src = `/thumbs/${takes[at][1]}`;
  let bar = one(".leaves", cover);
  if (!bar) { bar = make("span", { class: "leaves", "aria-hidden": "true" }, ...takes.map(() => make("i"))); cover.append(bar); }
  all("i", bar).forEach((mark, number) => mark.classList.toggle("on", number === at));
  const card = cover.closest(".card");
  card.dataset.cover ??= card.getAttribute("href");
  card.href = `/sessions/${card.dataset.session}/${takes[at][0]}`;
}
function unleaf(event) {
  const cover = event.target.closest?.(".cover[data-takes]");
  if (!cover || cover.contains(event.relatedTarget)) return;
  const [image, card] = [one("img", cover), cover.closest(".card")];
  delete cover.dataset.at;
  if (image.dataset.cover) image.src = image.dataset.cover;
  if (card.dataset.cover) card.href = card.dataset.cover;
  one(".leaves", cover)?.remove();
}
document.addEventListener("pointermove", leaf, { passive: true });
document.addEventListener("pointerout", unleaf, { passive: true });

/** Returns the cards that are in the page, in order. */
const shownCards = () => all("#wall > .part:not(.ghost)").sort((a, b) => Number(a.dataset.part) - Number(b.dataset.part)).flatMap((element) => all(".card", element));

/** Restores the scroll position and the focused card after returning from a session. */
function restore() {
  const name = () => `retake-wall ${location.pathname}${location.search}`;
  history.scrollRestoration = "manual";
  const back = performance.getEntriesByType("navigation")[0]?.type !== "navigate";
  let before = null;
  try { before = JSON.parse(sessionStorage.getItem(name()) ?? "null"); } catch { /* Then the page starts at the top. */ }
  if (wall && before && back) {
    scrollTo(0, before.y);
    look();
    if (before.card) { refocus(before.card); setTimeout(() => { if (document.activeElement === document.body) refocus(before.card); }, 400); }
  }
  let left = null;
  document.addEventListener("click", (event) => {
    const card = event.target.closest?.("#wall .card");
    if (!card) return;
    left = card.dataset.reference ?? card.dataset.session;
    if (source === "/search") keepResults({ address: location.pathname + location.search, links: shownCards().map((it) => it.getAttribute("href")) });
  });
  addEventListener("pagehide", () => {
    const card = document.activeElement?.closest?.("#wall .card");
    try { sessionStorage.setItem(name(), JSON.stringify({ y: scrollY, card: card?.dataset.reference ?? left })); } catch { /* Then the page starts at the top. */ }
  });
}
function refocus(reference) {
  const card = one(`#wall .card[data-reference="${CSS.escape(reference)}"]`) ?? one(`#wall .card[data-session="${CSS.escape(reference.split("#")[0])}"]`);
  if (card) choose(card, { preventScroll: true });
}

function choose(card, options = { preventScroll: true }) {
  all('#wall .card[tabindex="0"]').forEach((other) => { other.tabIndex = -1; });
  card.tabIndex = 0;
  card.focus(options);
}

function keysOfTheWall() {
  const place = (card) => { const box = one(".cover", card).getBoundingClientRect(); return { top: box.top, middle: box.left + box.width / 2 }; };
  const focused = () => document.activeElement.closest?.("#wall .card");
  const move = (event) => {
    const shown = shownCards();
    const now = shown.indexOf(focused());
    if (shown.length === 0) return false;
    let next = now;
    if (now < 0) next = Math.max(0, shown.findIndex((card) => card.getBoundingClientRect().top >= 56));
    else if (event.key === "ArrowLeft") next = now - 1;
    else if (event.key === "ArrowRight") next = now + 1;
    else {
      const from = place(shown[now]);
      const down = event.key === "ArrowDown";
      const rows = shown.map((card, at) => ({ at, ...place(card) })).filter((it) => (down ? it.top > from.top + 20 : it.top < from.top - 20));
      const row = down ? Math.min(...rows.map((it) => it.top)) : Math.max(...rows.map((it) => it.top));
      const best = rows.filter((it) => Math.abs(it.top - row) < 30).sort((a, b) => Math.abs(a.middle - from.middle) - Math.abs(b.middle - from.middle))[0];
      next = best ? best.at : now;
    }
    const card = shown[Math.min(shown.length - 1, Math.max(0, next))];
    choose(card);
    card.scrollIntoView({ block: "nearest" });
  };
  key(["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown"], "Move among the images", move);
  key(["Enter"], "Open", () => false);
  key(["s"], "Select", () => { const card = focused(); if (card) selection.toggle(card); });
  key(["c"], "Add to compare", () => {
    const card = focused();
    if (card?.dataset.reference) tray.toggle(card.dataset.reference, imageOf(card), card.dataset.label);
    else say("Choose an image with the arrow keys first");
  });
  key(["0", "1", "2", "3", "4", "5"], "Rate the cover; 0 clears", (event) => {
    const card = focused();
    if (!card?.dataset.reference) return false;
    rateCard(card, Number(event.key));
  });
  key(["m"], "Actions", () => { const card = focused(); if (!card?.dataset.reference) return false; openActions(card); });
  key(["u"], "Undo", undo);
  key(["+", "="], "Larger images", () => resize(30));
  key(["-"], "Smaller images", () => resize(-30));
}
function resize(by) {
  const input = one("#size");
  if (!input) return false;
  input.value = Number(input.value) + by;
  input.dispatchEvent(new Event("input"));
  look();
}

hang();
restore();
look();
addEventListener("resize", calmly(60, () => { settle(() => { heights = []; }); look(); }));
addEventListener("scroll", () => requestAnimationFrame(look), { passive: true });
keysOfTheWall();
rubberBand({ settled: look });
intake({ done: () => refresh() });
/** Search on this page replaces the wall with the results. */
const again = typing(hang);

export function heard() {
  // An action on several would be redrawn after each of them.
  if (selection.busy) addEventListener("retake-idle", refresh, { once: true }); else refresh();
}
