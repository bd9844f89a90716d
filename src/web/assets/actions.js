// The actions of one card: a button that appears on it under the pointer, and the menu that it or a key opens.

import { all, copiesImages, copy, copyImage, make, one } from "./kit.js";
import { imageOf, selection } from "./select.js";
import { tray } from "./tray.js";
import { drawStars, iterationOf, rate } from "./writes.js";

/** Rates the image on a card; 0 clears the rating. */
export function rateCard(card, rating) {
  const { reference, label } = card.dataset;
  // The card may have been replaced by a fresh copy.
  const show = (now) => { for (const it of all(`#wall .card[data-reference="${CSS.escape(reference)}"]`)) it.dataset.rating = now; };
  rate({ reference, name: `“${label}”`, rating, before: Number(card.dataset.rating), show });
}

/** Adds the button to a card. */
export function withActions(item, card) {
  if (!card.dataset.reference || one(".card-menu", item)) return;
  item.append(make("button", { type: "button", class: "card-menu", tabindex: -1, "aria-haspopup": "true", "aria-label": `Actions for ${card.dataset.label}` }, "⋯"));
}

document.addEventListener("click", (event) => {
  const button = event.target.closest?.("#wall .card-menu");
  if (button) openActions(one(".card", button.parentElement), button);
});

/** Opens the menu of a card next to `place`. */
export function openActions(card, place = one(".cover", card)) {
  one("#actions")?.remove();
  const { reference, session, label } = card.dataset;
  const id = session ?? reference.split("#")[0];
  const hash = imageOf(card);
  // The card may be replaced while the menu is open, and a session may have another cover then.
  const here = () => one(session ? `#wall .card[data-session="${CSS.escape(session)}"]` : `#wall .card[data-reference="${CSS.escape(reference)}"]`) ?? card;
  const done = (act) => () => { box.hidePopover(); act(); };
  const stars = make("span", { class: "stars", role: "group", "aria-label": "Rating" },
    ...[1, 2, 3, 4, 5].map((value) => make("button", { type: "button", "data-rate": value, "aria-label": `${value} of 5`, onclick: done(() => rateCard(card, value === Number(card.dataset.rating) ? 0 : value)) }, "★")));
  drawStars(stars, Number(card.dataset.rating));
  const action = (text, act) => make("button", { type: "button", onclick: done(act) }, text);
  const link = (text, href, more = {}) => make("a", { href, onclick: () => box.hidePopover(), ...more }, text);
  const box = make("div", { id: "actions", class: "actions", popover: "", role: "region", "aria-label": `Actions for ${label}` },
    stars,
    action(tray.has(reference) ? "Remove from compare" : "Add to compare", () => tray.toggle(reference, hash, label)),
    action("Select", () => selection.toggle(here(), true)),
    hash ? link("Similar", `/search?like=${encodeURIComponent(iterationOf(reference))}`) : null,
    link("Story", `/sessions/${id}/story`),
    link("Provenance", `/sessions/${id}/audit?of=${iterationOf(reference).split("#")[1]}`),
    hash ? link("Download", `/images/${hash}`, { download: "" }) : null,
    hash && copiesImages ? action("Copy image", () => copyImage(hash)) : null,
    action("Copy reference", () => copy(reference, "Reference")));
  // The focus returns to the card, from which the arrow keys go on.
  box.addEventListener("toggle", (event) => {
    if (event.newState === "open") return;
    const isInside = box.contains(document.activeElement) || document.activeElement === document.body;
    box.remove();
    if (isInside) here().focus({ preventScroll: true });
  });
  box.addEventListener("keydown", (event) => {
    const by = { ArrowDown: 1, ArrowUp: -1, ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!by && event.key !== "Escape") return;
    event.stopPropagation();
    if (!by) return;
    event.preventDefault();
    const items = all("button, a", box);
    items.at((items.indexOf(document.activeElement) + by) % items.length).focus();
  });
  document.body.append(box);
  box.showPopover();
  const at = place.getBoundingClientRect();
  box.style.left = `${Math.max(8, Math.min(at.left, innerWidth - box.offsetWidth - 8))}px`;
  box.style.top = `${Math.max(8, Math.min(at.bottom + 4, innerHeight - box.offsetHeight - 8))}px`;
  one("button", box).focus();
}
