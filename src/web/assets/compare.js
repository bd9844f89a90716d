// The compare page: a set of images, as a survey or as a pair. Every change to the set navigates to a URL that the
// server renders; zoom, mode and the selected pair are handled locally. The URL always describes what is shown.

import { all, ask, askText, calmly, copy, dialog, make, one, page, part, say, sayWhy, steadily, tellTimes } from "./kit.js";
import { key } from "./keys.js";
import { Lens, hands } from "./lens.js";
import { pairing } from "./pair.js";
import { compareAddress, sets, tray } from "./tray.js";
import { drawStars, imageRating, iterationOf, offerUndo, pending, rate, undo } from "./writes.js";

let main;
let items = [];
let pair;
let survey;
let view;
let name = "";
/** Measured differences by URL: measuring is slow, and stepping back should not be. */
const looked = new Map();

const references = () => items.map((item) => item.reference);
const letter = (at) => String.fromCharCode(65 + at);

/** Initialises the state from the page's current content. */
function take() {
  main = one("main");
  items = all("#tiles .tile").map((tile) => ({ tile, reference: tile.dataset.reference, label: tile.dataset.label, short: tile.dataset.short, image: tile.dataset.image }));
  if (items.length === 0) { empty(); return; }
  view = main.dataset.view;
  name = main.dataset.name ?? "";
  main.dataset.count = items.length;
  lay = layout;
  pair = pairing({ main, items, seen, moved: remember });
  survey = new Lens(() => items.map(({ tile }) => ({ box: one(".clip", tile), image: one("img.whole", tile) })).filter(({ image }) => image), level);
  hands(one("#tiles"), survey, (event) => {
    const clip = event.target.closest(".clip");
    const image = clip && one("img.whole", clip);
    return image ? { box: clip, image } : null;
  }, { tap: (event) => event.target.closest(".tile")?.focus() });
  tiles();
  controls();
  showSets();
  matrix();
  forget();
  if (view === "pair") pair.start(); else lay();
  settle();
}

/** If the URL names no images, compares those in the tray. */
function empty() {
  const waiting = tray.items();
  if (!new URL(location.href).searchParams.get("refs") && waiting.length > 0) { go(waiting.map((item) => item.reference), { push: false }); return; }
  forget();
  showSets();
}

/** Removes images from the tray that no longer exist in the workspace. */
function forget() {
  const gone = one("[data-skipped]")?.dataset.skipped.split(",") ?? [];
  for (const reference of gone) if (tray.has(reference)) tray.remove(reference);
}

/** Shows another set. The tray is updated as well, so that it is the same set everywhere. */
async function go(next, { push = true, focus = null, called = name } = {}) {
  try {
    const query = new URL(location.href).searchParams;
    const kept = ["mode", "view"].filter((it) => query.get(it)).map((it) => `&${it}=${encodeURIComponent(query.get(it))}`).join("");
    const address = `${compareAddress(next, called)}${next.length > 1 ? kept : ""}`;
    const found = await page(address);
    const fresh = one("main", found);
    tellTimes(fresh);
    // Reuse images that stay, so that they are not loaded again.
    const old = new Map(all("#tiles .tile").map((tile) => [tile.dataset.reference, one("img.whole", tile)]));
    for (const tile of all("#tiles .tile", fresh)) {
      const same = old.get(tile.dataset.reference);
      if (same) one("img.whole", tile)?.replaceWith(same);
    }
    const zoom = survey && { zoom: survey.zoom, u: survey.u, v: survey.v };
    one("main").replaceWith(fresh);
    document.title = found.title;
    if (push) history.pushState(null, "", address); else history.replaceState(null, "", address);
    take();
    if (zoom && survey && view === "survey") { Object.assign(survey, zoom); survey.apply(); }
    tray.set(items.map(({ reference, image, label }) => ({ reference, image, name: label })));
    if (focus !== null) one(`.tile[data-reference="${CSS.escape(focus)}"]`)?.focus();
  } catch (error) {
    sayWhy(error);
  }
}

addEventListener("popstate", async () => {
  try {
    const found = await page(location.pathname + location.search);
    const fresh = one("main", found);
    tellTimes(fresh);
    one("main").replaceWith(fresh);
    document.title = found.title;
    take();
  } catch (error) { sayWhy(error); }
});

/** Stores the current view in the URL. */
function remember() {
  const chosen = view === "pair" ? `&a=${pair.a}&b=${pair.b}&mode=${pair.mode}` : "";
  const usual = items.length === 2 ? "pair" : "survey";
  history.replaceState(null, "", `${compareAddress(references(), name)}${chosen}${view === usual ? "" : `&view=${view}`}`);
  level();
}

// The survey.

/**
 * Returns the heights of rows that show their images largest: in proportion to the number of images in each, but no row
 * wider than the window. `caps` are the heights at which the rows are that wide.
 */
function heightsOf(rows, caps, room) {
  const heights = new Array(rows.length).fill(0);
  let open = rows.map((_, at) => at);
  let left = room;
  for (;;) {
    const count = open.reduce((sum, at) => sum + rows[at].length, 0);
    const full = open.filter((at) => caps[at] * count <= left * rows[at].length);
    if (full.length === 0) {
      for (const at of open) heights[at] = (left * rows[at].length) / count;
      return heights;
    }
    for (const at of full) { heights[at] = caps[at]; left -= caps[at]; }
    open = open.filter((at) => !full.includes(at));
  }
}

/** How much rows of different heights count against an arrangement, compared with the size of its images. */
const UNEVEN = 0.1;
/** The height of a caption below its image, in small windows. */
const CAPTION = 76;

/**
 * Finds the rows of tiles that show the images largest. Tries every way to break the sequence into rows, at most 2048,
 * each with rows of the same and of different heights.
 */
function layout() {
  const box = one("#tiles");
  if (view !== "survey") return;
  const style = getComputedStyle(box);
  const GAP = parseFloat(style.rowGap);
  const wide = box.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
  const narrow = matchMedia("(max-width: 900px)").matches;
  // A small window is scrolled, unless few images fit into it.
  const fits = narrow && items.length <= 3;
  const high = fits ? innerHeight - (box.getBoundingClientRect().top + scrollY) - 24 - items.length * CAPTION
    : narrow ? Infinity : box.clientHeight - parseFloat(style.paddingTop) - parseFloat(style.paddingBottom);
  // Two in a row of a small window need room for their captions.
  const most = narrow ? 2 : 6;
  const ratios = items.map(({ tile }) => Math.min(most, Math.max(1 / most, Number(tile.dataset.ratio) || 1)));
  let best = null;
  for (let breaks = 0; breaks < 2 ** (ratios.length - 1); breaks += 1) {
    const rows = [[]];
    ratios.forEach((ratio, at) => { rows.at(-1).push(ratio); if (at < ratios.length - 1 && breaks & (1 << at)) rows.push([]); });
    if (narrow && rows.some((row) => row.length > 2)) continue;
    const caps = rows.map((row) => (wide - GAP * (row.length - 1)) / row.reduce((sum, ratio) => sum + ratio, 0));
    const room = high - (rows.length - 1) * GAP;
    if (room <= 0 && best) continue;
    for (const heights of [heightsOf(rows, caps, room), rows.map(() => Math.min(room / rows.length, ...caps))]) {
      // Sum logarithms, so that doubling one tile does not make up for halving another. Of equals, the one with a larger A.
      const sizes = rows.reduce((sum, row, at) => sum + row.reduce((of, ratio) => of + Math.log(ratio * heights[at] ** 2), 0), heights[0] / 1e6);
      const score = sizes + UNEVEN * ratios.length * Math.log(Math.min(...heights) / Math.max(...heights));
      if (!best || score > best.score) best = { score, sizes: rows.flatMap((row, at) => row.map((ratio) => [ratio * heights[at], heights[at]])), rows: rows.map((row) => row.length) };
    }
    if (narrow && !fits && best && rows.length === Math.ceil(ratios.length / 2)) break;
  }
  let at = 0;
  const lines = best.rows.map((count) => {
    const line = make("div", { class: "line" });
    for (let n = 0; n < count; n += 1, at += 1) {
      const { tile } = items[at];
      tile.style.width = `${Math.floor(best.sizes[at][0])}px`;
      one(".clip", tile).style.height = `${Math.floor(best.sizes[at][1])}px`;
      line.append(tile);
    }
    return line;
  });
  const focused = document.activeElement;
  box.replaceChildren(...lines);
  if (focused && box.contains(focused)) focused.focus();
  survey.apply();
  sharpen();
}
let lay = () => {};

/** Replaces the thumbnails of large tiles with the originals. */
function sharpen() {
  for (const image of all("img.whole[data-full]", main)) {
    const seen = image.getBoundingClientRect();
    if (seen.width === 0 || Math.max(seen.width, seen.height) * devicePixelRatio < 500) continue;
    const full = new Image();
    const { full: source } = image.dataset;
    delete image.dataset.full;
    full.src = source;
    full.decode().then(() => { image.src = source; }, () => {});
  }
}
const settle = calmly(30, () => { if (view === "pair") sharpen(); });

function tiles() {
  items.forEach(({ tile, reference, label }, at) => {
    tile.tabIndex = at === 0 ? 0 : -1;
    tile.setAttribute("role", "group");
    tile.setAttribute("aria-label", `${letter(at)}: ${label}`);
    tile.addEventListener("focus", () => { for (const item of items) item.tile.tabIndex = item.tile === tile ? 0 : -1; });
    one("[data-promote]", tile).addEventListener("click", () => promote(at));
    one("[data-drop]", tile).addEventListener("click", () => drop(at));
    for (const star of all("[data-rate]", tile)) star.addEventListener("click", () => judge(at, Number(star.dataset.rate)));
    one(".caption", tile).addEventListener("dragstart", (event) => { event.dataTransfer.setData("text/retake", reference); event.dataTransfer.effectAllowed = "move"; });
    tile.addEventListener("dragover", (event) => { if (event.dataTransfer.types.includes("text/retake")) { event.preventDefault(); tile.classList.add("over"); } });
    tile.addEventListener("dragleave", () => tile.classList.remove("over"));
    tile.addEventListener("drop", (event) => {
      event.preventDefault();
      tile.classList.remove("over");
      const from = items.findIndex((item) => item.reference === event.dataTransfer.getData("text/retake"));
      if (from >= 0 && from !== at) reorder(from, at);
    });
  });
}

const moved = (from, to) => { const next = references(); next.splice(to, 0, ...next.splice(from, 1)); return next; };
const reorder = (from, to) => go(moved(from, to), { focus: items[from].reference });
const promote = (at) => { if (at > 0) { say(`“${items[at].label}” is A now`); go(moved(at, 0), { focus: items[at].reference }); } };

function drop(at) {
  const before = references();
  const { label, reference } = items[at];
  const rest = before.filter((it) => it !== reference);
  if (rest.length === 0) { tray.clear(); location.assign("/compare"); return; }
  go(rest, { focus: rest[Math.min(at, rest.length - 1)] });
  offerUndo(`“${label}” removed`, () => go(before, { focus: reference }));
}

/** Rates the image that was shown when the key was pressed. Updates the stars at once, and reverts them on failure. */
function judge(at, wanted) {
  const { tile, reference, label } = items[at];
  const before = Number(tile.dataset.rating);
  // The set may have been rendered again, with new elements for the same image.
  const show = (value) => {
    for (const item of items.filter((other) => other.reference === reference)) {
      item.tile.dataset.rating = value;
      drawStars(one(".stars", item.tile), value);
    }
  };
  rate({ reference, name: `“${label}”`, rating: wanted === before ? 0 : wanted, before, show });
}

/** Returns the tile that keyboard shortcuts apply to. */
const current = () => Math.max(0, items.findIndex((item) => item.tile.contains(document.activeElement)));

// Shared by the survey and the pair.

function controls() {
  for (const button of all("[data-view-choice]", main)) button.addEventListener("click", () => look(button.dataset.viewChoice));
  for (const button of all("[data-zoom]", main)) button.addEventListener("click", () => magnify(button.dataset.zoom));
  for (const button of all("[data-add]", main)) button.addEventListener("click", add);
  one("#only")?.addEventListener("change", matrix);
  one('[data-set="save"]', main)?.addEventListener("click", saveSet);
  one('[data-set="link"]', main)?.addEventListener("click", () => copy(location.href, "Link"));
}

function look(next) {
  if (next === "pair" && items.length < 2) return;
  view = next;
  main.dataset.view = next;
  for (const button of all("[data-view-choice]", main)) button.setAttribute("aria-pressed", button.dataset.viewChoice === next);
  if (next === "pair") { pair.start(); settle(); } else { pair.stop(); lay(); }
  remember();
}

const lens = () => (view === "pair" ? pair.lens : survey);
function magnify(how) {
  if (how === "in") lens().by(1.5);
  if (how === "out") lens().by(1 / 1.5);
  if (how === "fit") lens().fit();
  if (how === "actual") lens().actual();
}

function level() {
  const shown = one(".zoom .level", main);
  if (shown && lens()) shown.textContent = lens().fits ? `Fit ${lens().percent} %` : `${lens().percent} %`;
  if (lens() && !lens().fits) sharpen();
}

function matrix() {
  one("#matrix")?.toggleAttribute("data-only", one("#only")?.checked ?? true);
  looks();
}

/** Fills in the row of similarities to A, one measurement at a time. */
async function looks() {
  for (const cell of all("[data-looks]", main)) {
    try {
      const measured = await seen(cell.dataset.looks);
      if (cell.isConnected) cell.textContent = measured.dataset.short;
    } catch { cell.textContent = "–"; }
  }
}

/** Requests how much two images differ. */
function seen(address) {
  if (!looked.has(address)) {
    looked.set(address, page(address).then((found) => one("#seen", found)));
    looked.get(address).catch(() => looked.delete(address));
  }
  return looked.get(address);
}

// Sets.

async function saveSet() {
  const text = await askText("Save this set", "Name", "Save", { value: name, rows: 1 });
  const called = text?.trim();
  if (!called) return;
  sets.save(called, references());
  say(`Set “${called}” saved`);
  go(references(), { called, push: false });
}

function showSets() {
  const box = one("#sets");
  if (!box) return;
  const rows = sets.all().map((set) =>
    make("li", {},
      make("a", { href: compareAddress(set.references, set.name) }, make("span", { dir: "auto" }, set.name), make("span", { class: "muted" }, String(set.references.length))),
      make("button", { type: "button", class: "quiet", "aria-label": `Forget the set ${set.name}`, onclick: () => { sets.forget(set.name); showSets(); } }, "×")));
  box.replaceChildren(...(rows.length > 0 ? [make("h2", {}, "Saved sets"), make("ul", { class: "sets-list" }, ...rows)] : []));
}

/** Adds images from a search dialog. */
function add() {
  const input = make("input", { type: "search", placeholder: "Search prompts, models, tags", "aria-label": "Search", autocomplete: "off" });
  const results = make("div", { class: "picks", role: "group", "aria-label": "Results" });
  const said = make("p", { class: "muted", role: "status" }, "");
  const box = dialog("Add to compare", input, said, results);
  box.classList.add("adding");
  let asked = 0;
  const search = async () => {
    const mine = (asked += 1);
    try {
      const { content, headers } = await part(`/search/part?${new URLSearchParams({ q: input.value, typing: "1", status: "all" })}`);
      if (mine !== asked) return;
      said.textContent = `${headers.get("x-total")} found`;
      const picks = all(".card[data-reference]", content).filter((card) => one("img", card)).map((card) => {
        const { reference } = card.dataset;
        const held = references().includes(reference);
        const label = card.dataset.label ?? one(".name", card)?.textContent ?? reference;
        return make("button", {
          type: "button", class: "pick", disabled: held, "aria-label": `Add ${label}`,
          onclick: async (event) => {
            if (references().length >= 12) { say("At most 12 can be compared"); return; }
            event.currentTarget.disabled = true;
            await go([...references(), reference], { push: true });
            said.textContent = `“${label}” added`;
          },
        }, make("img", { src: one("img", card).getAttribute("src"), alt: "" }), make("span", { dir: "auto" }, label));
      });
      results.replaceChildren(...picks);
    } catch (error) { if (mine === asked) said.textContent = error.message; }
  };
  input.addEventListener("input", calmly(120, search));
  input.addEventListener("keydown", (event) => { if (event.key === "Enter") { event.preventDefault(); one(".pick:not([disabled])", results)?.focus(); } });
  search();
  input.focus();
}

function keys() {
  const inPair = () => view === "pair" && pair;
  const step = (by) => {
    if (items.length === 0) return false;
    if (inPair()) return pair.step(by);
    items[Math.min(items.length - 1, Math.max(0, items.some((item) => item.tile.contains(document.activeElement)) ? current() + by : 0))].tile.focus();
  };
  key(["ArrowLeft"], "Previous", (event) => (event.target.closest?.(".handle") ? pair.slide(event) : step(-1)), "Looking");
  key(["ArrowRight"], "Next", (event) => (event.target.closest?.(".handle") ? pair.slide(event) : step(1)), "Looking");
  key(["Home", "End", "PageUp", "PageDown"], null, (event) => (event.target.closest?.(".handle") ? pair.slide(event) : false));
  key(["ArrowUp"], "Promote: the candidate becomes A", () => { if (items.length === 0) return false; if (inPair()) pair.promote(); else promote(current()); }, "Comparing");
  key(["0", "1", "2", "3", "4", "5"], "Rate; 0 clears", (event) => { if (items.length === 0) return false; const at = inPair() ? pair.b : current(); const wanted = Number(event.key); if (wanted === Number(items[at].tile.dataset.rating)) return; judge(at, wanted); }, "Reviewing");
  key(["x", "Delete"], "Remove from the set", () => { if (items.length === 0) return false; drop(inPair() ? pair.b : current()); }, "Comparing");
  key(["<", ">"], "Move earlier, later", (event, usual) => { const from = current(); const to = from + (usual === "<" ? -1 : 1); if (!inPair() && items[to]) reorder(from, to); }, "Comparing");
  key(["Enter"], "Open in a pair with A", (event) => { const at = items.findIndex((item) => item.tile === event.target); if (at < 0) return false; pair.choose(0, at === 0 ? 1 : at); look("pair"); }, "Comparing");
  key(["v"], "Survey or pair", () => look(view === "pair" ? "survey" : "pair"), "Looking");
  key(["p"], "Pin B as A", () => inPair() && pair.pin(pair.b), "Comparing");
  key(["w"], "Swap A and B", () => inPair() && pair.swap(), "Comparing");
  for (const [name, mode, text] of [["s", "side", "Side by side"], ["l", "slider", "Swipe"], ["k", "onion", "Onion skin"], ["b", "blink", "Blink"], ["d", "difference", "Difference"], ["h", "heat", "Heat map"]]) {
    key([name], text, () => { if (items.length < 2) return; if (view !== "pair") look("pair"); pair.setMode(mode); }, "Comparing");
  }
  key(["o"], "Outline what changed", () => inPair() && pair.outline(), "Comparing");
  key([" "], "Flip A/B", (event) => (inPair() && !event.target.closest?.("button, summary, a") ? pair.flip() : false), "Comparing");
  key(["+", "="], "Zoom in", () => magnify("in"), "Looking");
  key(["-"], "Zoom out", () => magnify("out"), "Looking");
  key(["f"], "Fit", () => magnify("fit"), "Looking");
  key(["z"], "100 %", () => magnify("actual"), "Looking");
  key(["m"], "Only differences", () => { const box = one("#only"); if (box) { box.checked = !box.checked; matrix(); } }, "Looking");
  key(["u"], "Undo", undo, "Reviewing");
  key(["n"], "Add", () => { if (main.dataset.view) add(); }, "Comparing");
}

keys();
take();
addEventListener("resize", calmly(60, () => { if (items.length === 0) return; lay(); if (view === "pair") pair.refit(); }));

/** Refreshes ratings and other annotations that were changed elsewhere. */
export const heard = steadily(300, async (changes) => {
  const isShown = ({ kind, session }) => kind === "missed" || items.some((item) => item.reference.startsWith(`${session}#`));
  if (!changes.some(isShown)) return;
  try {
    for (const { reference, tile } of items) {
      const { annotations } = await ask("get-iteration", { reference: iterationOf(reference) });
      // What was decided here meanwhile is newer.
      if (pending(iterationOf(reference)) > 0) continue;
      const rating = imageRating(annotations, reference);
      tile.dataset.rating = rating;
      drawStars(one(".stars", tile), rating);
    }
  } catch { /* The next change tries again. */ }
});
