// Writing what people decide: ratings, rejections, tags, notes, covers. Every write names the image or iteration it was
// started for. The page shows it at once; it is sent in order, one after the other for each iteration; it can be undone, by
// a further event.

import { ask, drafts, say, sayWhy } from "./kit.js";

/** The iteration that an image belongs to: tags and notes are of iterations, ratings of images. */
export const iterationOf = (reference) => reference.split("/")[0];

/** The number of an image that a reference names. */
const imageOf = (reference) => Number(reference.split("/")[1] ?? 0);

/** The rating of an image, from the annotations of its iteration: a batch keeps one for each image as `image/1:4`. */
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

/** How many writes of an iteration are on their way. */
export const pending = (reference) => waiting.get(reference) ?? 0;

/** Sends a change after those that were made before it. */
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

/** Sends one request, or several one after the other. */
async function sendAll(verb, about, requests) {
  for (const request of [requests].flat()) await send(verb, request.reference ? iterationOf(request.reference) : about, request);
}

/** Says what was done, with a way back: `run` undoes it. */
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
 * Makes a change: shows it, sends it, and says so with Undo. When it cannot be sent, the page shows what was before.
 * `change` and `back` are requests, or several; `show` and `unshow` put them on the page.
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
      after();
    } catch (error) { show(); sayWhy(error); }
  } };
  undos.push(entry);
  say(said, { name: "Undo", run: entry.run });
  try {
    await sendAll(verb, about, change);
    after();
    return true;
  } catch (error) {
    const at = undos.indexOf(entry);
    if (at >= 0) undos.splice(at, 1);
    unshow();
    sayWhy(error);
    return false;
  }
}

/** Undoes the last change that was made here. */
export function undo() {
  const last = undos.at(-1);
  if (last) last.run(); else say("Nothing to undo");
}

/** Sends a rating of an image, without a word; 0 clears it. */
export const sendRating = (reference, rating) => sendAll("annotate-iteration", iterationOf(reference), { reference, rating: rating || null });

/** Draws a rating into a group of stars. */
export function drawStars(group, rating) {
  for (const star of group.querySelectorAll("[data-rate]")) {
    star.classList.toggle("on", Number(star.dataset.rate) <= rating);
    star.setAttribute("aria-pressed", Number(star.dataset.rate) === rating);
  }
}

/** A rating of an image, or of an iteration without one; 0 clears it. */
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

/** Rejects an iteration, or takes that back. Nothing is deleted. */
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

/** Tags of an iteration: only what differs is sent, so that tags added elsewhere meanwhile stay. */
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

/** A note on an iteration. Its draft is kept until it is saved. */
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
  if (saved) drafts.drop(reference); else drafts.set(reference, note);
}

// What waits for its turn goes out before the page does; what is sent outlives it.
addEventListener("pagehide", () => { for (const change of unsent) ask(...change).catch(() => {}); });
