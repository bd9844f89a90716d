// The loupe: one image of a session, large. Navigation uses what the strip already knows and is instant; the facts
// follow. Every key applies to the image shown at that moment.

import { all, askText, calmly, copiesImages, copyImage, drafts, make, one, part, sayWhy, settings, steadily, swap, tellTimes } from "./kit.js";
import { key } from "./keys.js";
import { refreshHead, session, sessionName } from "./head.js";
import { filmstrip, filters, showRating } from "./strip.js";
import { forgetTags, knownTags, withCompletion } from "./completion.js";
import { slideshow } from "./slideshow.js";
import { full, isFull, theStage } from "./stage.js";
import { compareAddress, tray } from "./tray.js";
import { REJECTED, annotate, pending, rate, reject, retag, write } from "./writes.js";

const main = one("main");
const frame = one("#frame");
const stage = one("#stage");
const dots = one("#dots") ?? make("span");
let count = Number(main.dataset.count);
let marks = [...main.dataset.marks];
let index = Number(main.dataset.index);
let image = Number(main.dataset.image);
/** What the page showed when it was loaded. */
const arrived = `${index}/${image}`;
/** The last iteration that has been seen; later ones are new. */
let seen = count;
let filter = "takes";
/** Local changes that the server may not have yet. They take precedence over its data. */
const ahead = new Map();

const reference = (at = index) => `${session}#${at}`;
const isBatch = (at = index) => imagesOf(at).length > 1;
/** Returns the reference of the image shown; a single image uses the reference of its iteration. */
const imageReference = (at = index, number = image) => (isBatch(at) ? `${reference(at)}/${number}` : reference(at));
const shortName = (at = index) => `#${at}`;
const imageName = (at = index, number = image) => (isBatch(at) ? `#${at} · image ${number + 1}` : `#${at}`);
const address = () => `/sessions/${session}/${index}${image > 0 ? `/${image}` : ""}`;

// What is known about an iteration before its facts arrive: from the strip, or from facts loaded earlier.

const parts = new Map();
const MAX_PARTS = 24;

function imagesOf(at) {
  const said = strip.take(at)?.dataset.images;
  if (!said) return [];
  return said.split(" ").map((text) => {
    const [hash, width, height, rating, kind] = text.split(":");
    return { hash, width: Number(width), height: Number(height), rating: Number(rating), file: kind !== undefined, video: kind === "v" };
  });
}

/** Returns the ratings of an iteration's images; without images, its own. */
function ratingsOf(at) {
  const images = imagesOf(at);
  return ahead.get(at)?.ratings ?? (images.length > 0 ? images.map(({ rating }) => rating) : [Number(strip.take(at)?.dataset.rating ?? 0)]);
}
const ratingOf = (at, number = at === index ? image : 0) => ratingsOf(at)[number] ?? 0;
const bestOf = (ratings) => Math.max(0, ...ratings);
const isRejected = (at) => marks[at] === "x";

/** Returns the facts of an iteration, requested once, and again after they change. */
function facts(at) {
  if (!parts.has(at)) {
    const asked = part(`/sessions/${session}/${at}/part`).then(({ content }) => ({ facts: one("#facts", content), gone: one(".gone", content) }));
    parts.set(at, asked);
    asked.catch(() => { if (parts.get(at) === asked) parts.delete(at); });
    if (parts.size > MAX_PARTS) parts.delete(parts.keys().next().value);
  }
  return parts.get(at);
}

// The stage.

const scene = theStage({
  turned: (by) => step(by),
  async failed() {
    const at = index;
    try { const { gone } = await facts(at); if (at === index) scene.explain(gone); } catch { /* The banner reports that the server is unreachable. */ }
  },
});
const { zoom } = scene;

/** Shows the selected image from what is known so far. */
function showImage() {
  const images = imagesOf(index);
  image = Math.min(image, Math.max(0, images.length - 1));
  stage.dataset.shown = `${index}/${image}`;
  const said = one(".no", strip.take(index) ?? frame)?.textContent;
  scene.show(images[image], (strip.take(index)?.title ?? "").replace(" · ", ": "), said ? `#${index}: ${said}` : "…");
  showDots(images.length);
  showHold();
  turns();
}

function showDots(many) {
  const buttons = many > 1 ? Array.from({ length: many }, (_, at) => make("button", { type: "button", "data-do": "image", "data-image": at, "aria-label": `Image ${at + 1} of ${many}`, "aria-pressed": String(at === image) })) : [];
  const focused = dots.contains(document.activeElement);
  dots.replaceChildren(...buttons);
  if (focused) buttons[image]?.focus();
}

function turns() {
  const back = one("[data-do='back']");
  const on = one("[data-do='on']");
  if (!back) return;
  const at = order.indexOf(index);
  back.disabled = at <= 0;
  on.disabled = at >= order.length - 1;
}

// Shows the parent while its key is held.

function parentImage() {
  const take = strip.take(index);
  const parent = take?.dataset.parent;
  if (parent !== undefined) {
    const hash = imagesOf(Number(parent))[0]?.hash;
    if (hash) return { hash, name: `#${parent}` };
  }
  const panel = one("#facts");
  if (panel?.dataset.index === String(index) && panel.dataset.parentImage) {
    const [of, at] = (panel.dataset.parent ?? "").split("#");
    return { hash: panel.dataset.parentImage, name: of === session ? `#${at}` : panel.dataset.parent };
  }
  return null;
}

function showHold() {
  const hold = one("#hold");
  if (hold) hold.hidden = !parentImage() || scene.isEmpty();
}

function hold(on) {
  const parent = on ? parentImage() : null;
  scene.hold(parent?.hash ?? null);
  showCorner(parent ? `Parent ${parent.name}` : "");
}

function showCorner(text) {
  const corner = one("#corner");
  if (corner) corner.textContent = text || (isRejected(index) ? "Rejected" : "");
}

key([" "], "See the parent while held", (event) => { if (!event.repeat) hold(true); }, "Looking");
addEventListener("keyup", (event) => { if (event.key === " ") hold(false); });
addEventListener("blur", () => hold(false));
for (const [name, on] of [["pointerdown", true], ["pointerup", false], ["pointerleave", false], ["pointercancel", false]]) one("#hold")?.addEventListener(name, () => hold(on));
one("#hold")?.addEventListener("keydown", (event) => { if (event.key === " " || event.key === "Enter") { event.preventDefault(); hold(true); } });
one("#hold")?.addEventListener("keyup", () => hold(false));
one("#hold")?.addEventListener("contextmenu", (event) => event.preventDefault());

// Navigation.

let order = [];
/** Computes which iterations are in the strip: those that pass the filter, and the one shown. */
function reorder() {
  const matches = filters[filter];
  order = marks.flatMap((mark, at) => (at === index || matches(mark) ? [at] : []));
  const shown = one("#shown-count");
  if (shown) shown.textContent = order.length === marks.length ? "" : `${order.length} of ${marks.length}`;
}

const strip = filmstrip(one("#strip"), session, {
  grown(now, text) {
    const more = now > count;
    count = Math.max(count, now);
    marks = [...text];
    // Local changes take precedence until the server has them.
    for (const [at, mine] of ahead) { marks[at] = mine.mark; showRating(strip.take(at), bestOf(mine.ratings), mine.mark); }
    reorder();
    strip.layout(order, index);
    turns();
    if (more) tellNew();
    if (scene.isEmpty() !== (imagesOf(index).length === 0)) showImage();
  },
});

/** Shows another iteration at once. Returns whether it exists. */
function choose(at, number = 0) {
  if (!Number.isInteger(at) || at < 0 || at >= count) return false;
  const filtered = index !== at && !filters[filter](marks[index]);
  index = at;
  image = number;
  if (at === count - 1) seen = count;
  if (filtered || !order.includes(at)) { reorder(); strip.layout(order, index); } else strip.choose(index);
  showImage();
  stale();
  showCorner("");
  tellNew();
  later();
  return true;
}

/** Moves by one step in the filtered strip. */
function step(by) {
  const at = order.indexOf(index);
  const next = order[at + by];
  if (next === undefined) { announce(by > 0 ? "The last one" : "The first one"); return false; }
  return choose(next);
}

/** Shows another image of the same iteration. */
function turnImage(by) {
  const { length } = imagesOf(index);
  const next = image + by;
  if (next < 0 || next >= length) return;
  showBatchImage(next);
}

function showBatchImage(number) {
  image = number;
  showImage();
  aboutImage();
  showStars();
  later();
}

/** While the facts of another iteration are loading, shows what is known and disables the rest. */
function stale() {
  const panel = one("#facts");
  const fresh = String(index);
  if (panel.dataset.index === fresh) { panel.classList.remove("stale"); return; }
  panel.classList.add("stale");
  panel.dataset.index = fresh;
  delete panel.dataset.parent;
  delete panel.dataset.parentImage;
  const heading = one(".step h2", panel);
  if (heading) heading.textContent = `#${index}`;
  for (const child of panel.children) child.inert = !child.matches(".step, .judge");
  showStars();
}

/**
 * Runs once the user pauses: loads the facts, updates the URL, preloads neighbours, and announces the image to screen
 * readers.
 */
const later = calmly(70, async () => {
  // A URL without an index means the last iteration, until the user navigates.
  if (stage.dataset.shown !== arrived) history.replaceState(null, "", address());
  document.title = `${sessionName()} #${index} · Retake`;
  for (const tab of all(".views a")) if (tab.dataset.view === "session") tab.href = address();
  announce();
  await showFacts();
  for (const near of [1, -1, 2, -2]) {
    const at = order[order.indexOf(index) + near];
    if (at === undefined) continue;
    const next = imagesOf(at)[0];
    if (next && !next.file) scene.prepare(next.hash);
    if (Math.abs(near) === 1) facts(at).catch(() => {});
  }
  for (const other of imagesOf(index)) if (!other.file && imagesOf(index).length <= 8) scene.prepare(other.hash);
});

async function showFacts() {
  const at = index;
  let got;
  try { got = await facts(at); } catch (error) { if (error.name !== "AbortError" && error.kind !== "offline") sayWhy(error); return; }
  if (at !== index) return;
  if (document.getSelection()?.toString() && one("#facts").contains(document.getSelection().anchorNode) && !one("#facts").classList.contains("stale")) return;
  const fresh = got.facts.cloneNode(true);
  for (const of of all(".step .of", fresh)) of.textContent = `of ${count}`;
  tellTimes(fresh);
  swap(one("#facts"), fresh);
  scene.explain(got.gone);
  aboutImage();
  showStars();
  showHold();
  showCorner(stage.hasAttribute("data-held") ? one("#corner").textContent : "");
  showDraft();
}

/** Offers to continue an unsaved note. One that was saved as the page was left is not a draft any longer. */
function showDraft() {
  const draft = drafts.get(reference());
  const button = one("#facts [data-do='note']");
  if (draft === null || !button) return;
  if (draft === noteIn(one("#facts"))) drafts.drop(reference()); else button.textContent = "Continue draft";
}

/** Updates what depends on the image within an iteration: compare, download, reference. */
function aboutImage() {
  const panel = one("#facts");
  const { hash } = imagesOf(index)[image] ?? {};
  const collect = one("[data-tray]", panel);
  if (collect) {
    collect.dataset.tray = imageReference();
    collect.dataset.label = `${sessionName()} #${index}${image > 0 ? `/${image}` : ""}`;
    if (hash) collect.dataset.image = hash;
  }
  const download = one("#download", panel);
  if (download && hash) {
    download.href = `/images/${hash}`;
    if (image > 0) download.setAttribute("download", download.getAttribute("download").replace(/(-\d+)?(\.\w+)$/, `-${image}$2`));
  }
  const copied = one("#copy-reference", panel);
  if (copied) copied.dataset.text = imageReference();
  const copies = one("#copy-image", panel);
  if (copies) copies.hidden = !copiesImages;
  one("#cover", panel)?.setAttribute("aria-pressed", String(isCover(index, image)));
  tray.show();
}

/** Shows the stars and the mark of the selected iteration, including local changes. */
function showStars() {
  const stars = one("#stars");
  if (!stars) return;
  const rating = ratingOf(index);
  stars.dataset.rating = rating;
  stars.setAttribute("aria-label", `Rating: ${rating} of 5`);
  for (const star of all("button", stars)) {
    star.classList.toggle("on", Number(star.dataset.rating) <= rating);
    star.setAttribute("aria-pressed", String(Number(star.dataset.rating) === rating));
  }
  const clear = one("#clear");
  if (clear === document.activeElement && rating === 0) one("button", stars).focus();
  clear.hidden = rating === 0;
  one("#reject").setAttribute("aria-pressed", String(isRejected(index)));
}

let spoken;
function announce(text) {
  clearTimeout(spoken);
  spoken = setTimeout(() => {
    const said = (one(".caption", strip.take(index) ?? main)?.textContent ?? "").replace(/^#\d+, /, "");
    const rating = ratingOf(index);
    const many = imagesOf(index).length;
    one("#announce").textContent = text ?? [`#${index} of ${count}`, many > 1 ? `image ${image + 1} of ${many}` : "", said, rating ? `${rating} star${rating > 1 ? "s" : ""}` : "", isRejected(index) ? "rejected" : ""].filter(Boolean).join(", ");
  }, 150);
}

// Ratings and rejections. `at` is the image shown when the key is pressed, whatever is shown when the write completes.

/** Shows a change on the page before the server confirms it. */
function decide(at, { number = 0, rating = ratingOf(at, number), rejected = isRejected(at) }) {
  const ratings = ratingsOf(at).with(number, rating);
  const best = bestOf(ratings);
  const mark = rejected ? "x" : String(best);
  ahead.set(at, { ratings, mark });
  marks[at] = mark;
  showRating(strip.take(at), best, mark);
  if (at === index) { showStars(); showCorner(""); }
}

/** The server has the change: use its data again. */
const settle = (at) => async () => {
  if (pending(reference(at)) > 0) return;
  parts.delete(at);
  await strip.refresh(at).catch(() => {});
  if (pending(reference(at)) > 0) return;
  ahead.delete(at);
  if (at === index) showFacts();
};

function advance() {
  if (settings.get("advance")) step(1);
}

function judge(rating) {
  const [at, number] = [index, image];
  const was = ratingOf(at, number);
  rate({ reference: imageReference(at, number), name: imageName(at, number), rating, before: was, show: (now) => decide(at, { number, rating: now }), after: settle(at) });
  if (rating !== was) advance();
}

function toss() {
  const at = index;
  const rejected = !isRejected(at);
  reject({ reference: reference(at), name: shortName(at), rejected, show: (now) => decide(at, { rejected: now }), after: settle(at) });
  if (rejected) advance();
}

// The session's cover: the iteration with the cover tag, which includes the image number unless it is the first of a
// batch.

let cover = main.dataset.cover ?? "";
const isCover = (at, number) => cover === `${at}/${number}`;
const coverTag = (number) => (number > 0 ? `cover/${number}` : "cover");

function chooseCover() {
  const [before, now] = [cover, isCover(index, image) ? "" : `${index}/${image}`];
  const requests = (from, to) => [[from, "removeTags"], [to, "addTags"]].filter(([which]) => which).map(([which, how]) => {
    const [at, number] = which.split("/").map(Number);
    return { reference: reference(at), [how]: [coverTag(number)] };
  });
  const touched = [before, now].filter(Boolean).map((which) => Number(which.split("/")[0]));
  const show = (which) => () => { cover = which; if (one("#facts")) aboutImage(); };
  write({
    about: reference(),
    change: requests(before, now),
    back: requests(now, before),
    show: show(now),
    unshow: show(before),
    said: now ? `${imageName()} is the cover` : "The best rated image is the cover",
    after: () => { for (const at of touched) settle(at)(); },
  });
}

const tagsIn = (panel) => all("[data-tag]", panel).map((it) => it.dataset.tag);
const noteIn = (panel) => one("[data-note]", panel)?.textContent ?? "";

/**
 * Asks for a text about an iteration. The dialog opens before its facts are known, since the next keys are meant for
 * it. Returns the text and what was there before; null if cancelled, or if the facts cannot be loaded.
 */
async function askAbout(at, read, title, field, options) {
  const known = facts(at).then((got) => read(got.facts));
  const shown = (was) => [was].flat().join(", ");
  const text = await askText(title, field, "Save", { value: known.then(shown, () => ""), ...options });
  if (text === null) return null;
  try {
    return { text, before: await known.catch(() => facts(at).then((got) => read(got.facts))) };
  } catch (error) {
    drafts.set(options.draft, text);
    sayWhy(error);
    return null;
  }
}

async function tag() {
  const at = index;
  const about = `${reference(at)} tags`;
  const asked = await askAbout(at, tagsIn, `Tags of “${sessionName()}” #${at}`, "Separated by commas", { rows: 1, draft: about, dress: (area) => withCompletion(area, knownTags) });
  if (!asked) return;
  const { text, before } = asked;
  drafts.drop(about);
  forgetTags();
  const tags = [...new Set(text.split(",").map((it) => it.trim()).filter(Boolean))];
  retag({ reference: reference(at), name: shortName(at), tags, before, show: (now) => decide(at, { rejected: now.includes(REJECTED) }), after: settle(at) });
}

async function note() {
  const at = index;
  const asked = await askAbout(at, noteIn, `Note on “${sessionName()}” #${at}`, "Note", { rows: 5, draft: reference(at) });
  if (!asked) { if (at === index) showFacts(); return; }
  annotate({ reference: reference(at), name: shortName(at), note: asked.text, before: asked.before, show: () => {}, after: settle(at) });
}

const playing = slideshow({ start: () => full(true), next: () => { if (index === order.at(-1)) choose(order[0]); else step(1); } });

// Click handlers.

document.addEventListener("click", (event) => {
  const button = event.target.closest("button[data-do]");
  if (button) {
    const { do: what } = button.dataset;
    if (what === "rate") { const rating = Number(button.dataset.rating); judge(rating === ratingOf(index) ? 0 : rating); }
    if (what === "reject") toss();
    if (what === "tag") tag();
    if (what === "note") note();
    if (what === "back") step(-1);
    if (what === "on") step(1);
    if (what === "image") showBatchImage(Number(button.dataset.image));
    if (what === "cover") chooseCover();
    if (what === "copy-image") copyImage(imagesOf(index)[image].hash);
    if (what === "closer") zoom.by(1.5);
    if (what === "farther") zoom.by(1 / 1.5);
    if (what === "level") zoom.toggle();
    if (what === "full") full(!isFull());
    if (what === "slideshow") { one("#more").open = false; playing.start(); }
    if (what === "compare-parent") location.assign(compareAddress([button.dataset.parent, imageReference()]));
    if (what === "diff") {
      const on = button.getAttribute("aria-pressed") !== "true";
      button.setAttribute("aria-pressed", String(on));
      one("#prompt-diff").hidden = !on;
      one("#prompt").hidden = on;
    }
    return;
  }
  if (event.metaKey || event.ctrlKey || event.shiftKey || event.button !== 0) return;
  const link = event.target.closest("a[data-index], a[data-image-link]");
  if (!link) return;
  event.preventDefault();
  if (link.dataset.imageLink !== undefined) showBatchImage(Number(link.dataset.imageLink)); else choose(Number(link.dataset.index));
});

one("#new").addEventListener("click", () => { if (!filters[filter](marks[count - 1])) { filter = "takes"; one("#filter").value = filter; reorder(); } choose(count - 1); });
one("#filter").addEventListener("change", (event) => {
  filter = event.target.value;
  // Chosen with the mouse: the next keys are for the image, not for the list.
  if (!event.target.matches(":focus-visible")) event.target.blur();
  reorder();
  strip.layout(order, index);
  turns();
});
const unfold = () => { const on = !strip.unfolded(); strip.unfold(on); one("#lanes").setAttribute("aria-pressed", String(on)); };
one("#lanes").addEventListener("click", unfold);

/** Presses a control of the facts, once they are those of the iteration shown. */
const onFacts = (selector) => async () => {
  const at = index;
  if (one("#facts.stale")) await showFacts();
  if (at === index) one(selector, one("#facts:not(.stale)") ?? make("div"))?.click();
};
key(["ArrowLeft"], "Previous", () => { step(-1); }, "Looking");
key(["ArrowRight"], "Next", () => { step(1); }, "Looking");
key(["Home"], "First", () => { choose(order[0]); }, "Looking");
key(["End"], "Last", () => { choose(order.at(-1)); }, "Looking");
key(["ArrowUp"], "Parent", () => {
  const parent = strip.take(index)?.dataset.parent;
  if (parent !== undefined) choose(Number(parent)); else onFacts("[data-parent-link]")();
}, "Looking");
key(["ArrowDown"], "First variation", () => {
  const child = strip.child(index);
  if (child < count) choose(child); else onFacts("[data-child-link]")();
}, "Looking");
key(["["], "Previous image of the batch", () => turnImage(-1), "Looking");
key(["]"], "Next image of the batch", () => turnImage(1), "Looking");
key(["z"], "Fit or 100 %", () => zoom.toggle(), "Looking");
key(["+", "="], "Zoom in", () => zoom.by(1.5), "Looking");
key(["-"], "Zoom out", () => zoom.by(1 / 1.5), "Looking");
key(["f"], "Full screen", () => full(!isFull()), "Looking");
key(["w"], "Slideshow", () => playing.start(), "Looking");
key(["b"], "Unfold the branches", () => { if (!one("#lanes").hidden) unfold(); }, "Looking");
key(["1", "2", "3", "4", "5"], "Rate", (event) => { judge(Number(event.key)); }, "Reviewing");
key(["0"], "Clear the rating", () => { judge(0); }, "Reviewing");
key(["x"], "Reject, or take that back", toss, "Reviewing");
key(["v"], "Use as the cover", chooseCover, "Reviewing");
key(["t"], "Tags", () => { tag(); }, "Reviewing");
key(["n"], "Note", () => { note(); }, "Reviewing");
key(["c"], "Add to compare, or remove", () => { if (one("[data-tray]")) { aboutImage(); one("[data-tray]").click(); } }, "Reviewing");
key(["p"], "Compare with the parent", onFacts("[data-do='compare-parent']"), "Reviewing");
key(["y"], "Copy the prompt", onFacts("[data-what='Prompt']"), "Reviewing");
key(["i"], "Copy the image", onFacts("#copy-image"), "Reviewing");
addEventListener("keydown", (event) => {
  if (event.key !== "Escape" || one("dialog[open]") || one("details.drop[open]") || event.target.closest?.("input, textarea, select")) return;
  // Close what is on top of the page first, then leave the page.
  if (isFull()) { event.preventDefault(); event.stopImmediatePropagation(); full(false); } else if (zoom.zoomed()) { event.preventDefault(); event.stopImmediatePropagation(); zoom.fit(); }
}, true);

// Changes from elsewhere.

/** Offers new iterations. They replace the one shown only if the user asked to follow. */
function tellNew() {
  const chip = one("#new");
  const fresh = count - seen;
  chip.hidden = fresh <= 0;
  chip.textContent = `${fresh} new →`;
  if (fresh > 0 && settings.get("follow") && !one("dialog[open]")) choose(count - 1);
}

const grew = steadily(100, async () => {
  await strip.refresh(count, Math.max(0, count - 1));
  for (const of of all(".step .of")) of.textContent = `of ${count}`;
  await refreshHead();
});

const changed = steadily(100, async (calls) => {
  const others = calls.filter((at) => pending(reference(at)) === 0);
  if (others.length === 0) return;
  await strip.refresh(...others);
  if (others.includes(index) && !ahead.has(index)) await showFacts();
});

export function heard(news) {
  if (news.kind === "missed") {
    parts.clear();
    scene.retry();
    strip.renew().then(() => Promise.all([showFacts(), refreshHead()])).catch(() => {});
    grew();
    return;
  }
  if (news.session !== session) {
    // Variations in other sessions are listed here too.
    if (news.kind === "recorded") parts.clear();
    return;
  }
  if (news.kind === "recorded") { parts.clear(); grew(); } else if (news.kind === "annotated") { parts.delete(news.index); changed(news.index); } else refreshHead().catch(() => {});
}

// The facts that came with the page are the first in the cache.
parts.set(index, Promise.resolve({ facts: one("#facts").cloneNode(true), gone: one(".gone", frame)?.cloneNode(true) ?? null }));
{
  const shown = imagesOf(index)[image];
  if (shown && !shown.file) scene.keep(shown.hash);
}
reorder();
strip.layout(order, index);
const gone = one(".gone", frame)?.cloneNode(true);
showImage();
if (gone) scene.explain(gone);
aboutImage();
showCorner("");
showDraft();
later();
addEventListener("pagehide", () => { if (stage.dataset.shown !== arrived) history.replaceState(null, "", address()); });
