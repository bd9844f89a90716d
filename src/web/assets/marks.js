// Rating and tagging from a wall or a survey: bound to what was shown when the key was pressed, and taken back with Undo,
// which writes the value from before as an event of its own.

import { ask, make, one, say, sayWhy } from "./kit.js";

/** The iteration that an image belongs to: ratings and tags are of iterations. */
export const iterationOf = (reference) => reference.split("/")[0];

let gone;
/** Says what was done, with a way back for a while. */
export function offerUndo(text, undo) {
  one("#undo")?.remove();
  clearTimeout(gone);
  const close = () => one("#undo")?.remove();
  const back = make("button", { type: "button", onclick: async () => { close(); try { await undo(); say("Undone"); } catch (error) { sayWhy(error); } } }, "Undo");
  document.body.append(make("div", { id: "undo", class: "undo", role: "status" }, make("span", {}, text), back));
  gone = setTimeout(close, 8000);
}

export const stars = (rating) => (rating ? `${"★".repeat(rating)}` : "no rating");

/** Rates an iteration; 0 clears. */
export async function rate(reference, rating) {
  await ask("annotate-iteration", { reference: iterationOf(reference), rating: rating || null });
}

/** Draws a rating into a group of stars. */
export function drawStars(group, rating) {
  for (const star of group.querySelectorAll("[data-rate]")) {
    star.classList.toggle("on", Number(star.dataset.rate) <= rating);
    star.setAttribute("aria-pressed", Number(star.dataset.rate) === rating);
  }
}
