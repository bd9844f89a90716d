// Writes of user decisions: ratings, rejections, tags, notes, covers. Every write is bound to the image or iteration it
// was started for. The page shows it at once; writes are sent in order for each iteration; undo appends another event.

import { ask, drafts, say, sayWhy } from "./kit.js";

/** Returns the iteration of an image: tags and notes belong to iterations, ratings to images. */
export const iterationOf = (reference) => reference.split("/")[0];

/** Returns the image number in a reference. */
const imageOf = (reference) => Number(reference.split("/")[1] ?? 0);

/**
 * Returns the rating of an image from its iteration's annotations: a batch stores one per image as a tag such as
 * `image/1:4`.
 */
export function imageRating({ rating = 0, tags = [] } = {}, reference = "") {
  const own = tags.map((tag) => /^image\/(\d+):([1-5])$/.exec(tag)).filter(Boolean);
  if (own.length === 0) return rating;
  return Number(own.find(([, image]) => Number(image) === imageOf(reference))?.[2] ?? 0);
}

export const REJECTED = "rejected";

const queues = new Map();
const waiting = new Map();
const unsent = new Set();
const undos = [];

const fresh = () => globalThis.crypto?.randomUUID?.() ?? `${Date.now()}-${Math.random()}`;

/** Returns the number of writes in flight for an iteration. */
export const pending = (reference) => waiting.get(reference) ?? 0;

/** Sends a change after all earlier ones. */
function send(verb, about, request) {
  const before = queues.get(about) ?? Promise.resolve();
  const key = verb === "annotate-iteration" ? { idempotencyKey: fresh() } : {};
  waiting.set(about, pending(about) + 1);
  const change = [verb, { ...request, ...key }];
  unsent.add(change);
  const sent = before.catch(() => {}).then(() => { unsent.delete(change); return ask(...change); }).finally(() => {
    const left = pending(about) - 1;
    if (left > 0) waiting.set(about, left); else { waiting.delete(about); queues.delete(about); }
  });
  queues.set(about, sent);
  return sent;
}

/** Sends one or several requests. All are queued at once, so that leaving the page loses none. */
const sendAll = (verb, about, requests) =>
  Promise.all([requests].flat().map((request) => send(verb, request.reference ? iterationOf(request.reference) : about, request)));

/** Shows a message with an Undo button, which calls `run`. */
export function offerUndo(said, run) {
  const entry = { run: async () => {
    const at = undos.indexOf(entry);
    if (at >= 0) undos.splice(at, 1);
    try { await run(); say("Undone"); } catch (error) { sayWhy(error); }
  } };
  undos.push(entry);
  say(said, { name: "Undo", run: entry.run });
}

/**
 * Makes a change: shows it, sends it, and confirms it with an Undo button. On failure, the page is reverted. `change`
 * and `back` are one or more requests; `show` and `unshow` update the page; `after(saved)` is called at the end.
 */
export async function write({ about, verb = "annotate-iteration", change, back, show, unshow, said, after = () => {} }) {
  show();
  const entry = { run: async () => {
    const at = undos.indexOf(entry);
    if (at >= 0) undos.splice(at, 1);
    unshow();
    try {
      await sendAll(verb, about, back);
      say("Undone");
      after(true);
    } catch (error) { show(); sayWhy(error); after(false); }
  } };
  undos.push(entry);
  say(said, { name: "Undo", run: entry.run });
  try {
    await sendAll(verb, about, change);
    after(true);
    return true;
  } catch (error) {
    const at = undos.indexOf(entry);
    if (at >= 0) undos.splice(at, 1);
    unshow();
    sayWhy(error);
    after(false);
    return false;
  }
}

/** Undoes the last change made on this page. */
export function undo() {
  const last = undos.at(-1);
  if (last) last.run(); else say("Nothing to undo");
}

/** Sends the rating of an image without a notification; 0 clears it. */
export const sendRating = (reference, rating) => sendAll("annotate-iteration", iterationOf(reference), { reference, rating: rating || null });

/** Shows a rating in a group of stars. */
export function drawStars(group, rating) {
  for (const star of group.querySelectorAll("[data-rate]")) {
    star.classList.toggle("on", Number(star.dataset.rate) <= rating);
    star.setAttribute("aria-pressed", Number(star.dataset.rate) === rating);
  }
}

/** Rates an image, or an iteration without images; 0 clears the rating. */
export function rate({ reference, name, rating, before, show, after }) {
  if (rating === before) { say(rating ? `Already ${"★".repeat(rating)}` : "Not rated"); return; }
  write({
    about: iterationOf(reference),
    change: { reference, rating: rating || null },
    back: { reference, rating: before || null },
    show: () => show(rating),
    unshow: () => show(before),
    said: rating ? `${name} ${"★".repeat(rating)}${"☆".repeat(5 - rating)}` : `${name}: rating cleared`,
    after,
  });
}

/** Rejects an iteration, or reverts that. Nothing is deleted. */
export function reject({ reference, name, rejected, show, after }) {
  const [yes, no] = [{ reference, addTags: [REJECTED] }, { reference, removeTags: [REJECTED] }];
  write({
    about: reference,
    change: rejected ? yes : no,
    back: rejected ? no : yes,
    show: () => show(rejected),
    unshow: () => show(!rejected),
    said: rejected ? `${name} rejected` : `${name} is no longer rejected`,
    after,
  });
}

/** Changes the tags of an iteration. Sends only the differences, so that tags added elsewhere are kept. */
export function retag({ reference, name, tags, before, show, after }) {
  const addTags = tags.filter((tag) => !before.includes(tag));
  const removeTags = before.filter((tag) => !tags.includes(tag));
  if (addTags.length + removeTags.length === 0) return;
  const request = (add, remove) => ({ reference, ...(add.length ? { addTags: add } : {}), ...(remove.length ? { removeTags: remove } : {}) });
  write({
    about: reference,
    change: request(addTags, removeTags),
    back: request(removeTags, addTags),
    show: () => show(tags),
    unshow: () => show(before),
    said: `${name}: tags saved`,
    after,
  });
}

/** Edits the note of an iteration. Its draft is kept until it is saved. */
export async function annotate({ reference, name, note, before, show, after }) {
  if (note === before) { drafts.drop(reference); return; }
  const saved = await write({
    about: reference,
    change: { reference, note },
    back: { reference, note: before },
    show: () => show(note),
    unshow: () => show(before),
    said: note ? `${name}: note saved` : `${name}: note removed`,
    after,
  });
  // Another draft may have been started meanwhile.
  if (!saved) drafts.set(reference, note); else if (drafts.get(reference) === note) drafts.drop(reference);
}

// Send queued changes before the page is unloaded; requests in flight outlive it.
addEventListener("pagehide", () => { for (const change of unsent) ask(...change).catch(() => {}); });
