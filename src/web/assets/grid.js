// The grid of a session: all images uncropped, in rows of equal height. Keyboard shortcuts rate, reject and collect the
// focused image.

import { all, one, page, say, sayWhy, settings, steadily } from "./kit.js";
import { key } from "./keys.js";
import { refreshHead, session, sessionName } from "./head.js";
import { filters, showRating } from "./strip.js";
import { tray } from "./tray.js";
import { rate, reject } from "./writes.js";

const tiles = one("#tiles");
const size = one("#size");
const filter = one("#filter");

/** Fills each row by letting tiles grow with their aspect ratio; the last row keeps the default height. */
function spread() {
  const height = Number(size.value);
  for (const tile of all(".tile", tiles)) {
    const picture = one("img", tile);
    const ratio = picture ? Math.min(3, Math.max(0.4, Number(picture.getAttribute("width")) / Number(picture.getAttribute("height")) || 1)) : 1;
    tile.style.flexGrow = ratio;
    tile.style.flexBasis = `${ratio * height}px`;
    tile.style.maxWidth = `min(100%, ${ratio * height * 1.6}px)`;
    one(".pic", tile).style.aspectRatio = String(ratio);
  }
}

const shown = () => all(".tile", tiles).filter((tile) => !tile.hidden);
function show() {
  for (const tile of all(".tile", tiles)) tile.hidden = !filters[filter.value](tile.dataset.mark) && tile !== document.activeElement;
  const left = shown();
  const every = all(".tile", tiles).length;
  one("#shown-count").textContent = left.length === every ? `${every} images` : `${left.length} of ${every} images`;
  one("#none").hidden = left.length > 0;
  for (const tile of all(".tile", tiles)) tile.tabIndex = -1;
  (left.find((tile) => tile === document.activeElement) ?? left[0])?.setAttribute("tabindex", "0");
}

filter.addEventListener("change", () => {
  show();
  // Chosen with the mouse: the next keys are for the images, not for the list.
  if (!filter.matches(":focus-visible")) filter.blur();
});
/** Returns the largest height at which all images are in sight: few images fill a large window. */
function filling(usual) {
  if (document.documentElement.clientWidth < 700 || one("#next")) return usual;
  for (let height = Number(size.max); height > usual; height -= Number(size.step)) {
    size.value = height;
    spread();
    if (tiles.getBoundingClientRect().bottom + scrollY + 24 < innerHeight) return height;
  }
  return usual;
}
size.value = settings.get("tile") ?? filling(document.documentElement.clientWidth < 700 ? 160 : 240);
size.addEventListener("input", () => { settings.set("tile", Number(size.value)); spread(); });

const focused = () => document.activeElement?.closest?.(".tile") ?? null;
tiles.addEventListener("focusin", () => { for (const tile of all(".tile", tiles)) tile.tabIndex = tile === focused() ? 0 : -1; });

/** Moves the focus: sideways to the neighbour, up and down to the nearest in the next row. */
function move(by, rows = 0) {
  const list = shown();
  const from = focused();
  if (!from) { list[0]?.focus(); return; }
  if (!rows) { list[list.indexOf(from) + by]?.focus(); return; }
  const here = from.getBoundingClientRect();
  const middle = here.left + here.width / 2;
  const apart = (tile) => { const box = tile.getBoundingClientRect(); return Math.abs(box.left + box.width / 2 - middle); };
  const other = list.filter((tile) => (rows > 0 ? tile.getBoundingClientRect().top > here.top + 4 : tile.getBoundingClientRect().top < here.top - 4));
  const row = rows > 0 ? Math.min(...other.map((tile) => tile.getBoundingClientRect().top)) : Math.max(...other.map((tile) => tile.getBoundingClientRect().top));
  other.filter((tile) => Math.abs(tile.getBoundingClientRect().top - row) < 4).sort((one, two) => apart(one) - apart(two))[0]?.focus();
}

const same = (tile) => all(`.tile[data-index="${tile.dataset.index}"]`, tiles);
const about = (tile) => ({ reference: `${session}#${tile.dataset.index}`, name: `#${tile.dataset.index}` });
const ratingOf = (tile) => Number(tile.dataset.rating ?? 0);

/** Returns the image of a tile; a single image uses the reference of its iteration. */
function aboutImage(tile) {
  if (same(tile).length === 1) return about(tile);
  const number = Number(tile.dataset.image);
  return { reference: `${about(tile).reference}/${number}`, name: `${about(tile).name} · image ${number + 1}` };
}

function judge(rating) {
  const tile = focused();
  if (!tile) return say("Choose an image with the arrow keys first");
  const rejected = tile.dataset.mark === "x";
  rate({ ...aboutImage(tile), rating, before: ratingOf(tile), show: (now) => showRating(tile, now, rejected ? "x" : String(now)) });
  if (settings.get("advance")) move(1);
}

function toss() {
  const tile = focused();
  if (!tile) return say("Choose an image with the arrow keys first");
  const rejected = tile.dataset.mark !== "x";
  reject({ ...about(tile), rejected, show: (now) => { for (const it of same(tile)) showRating(it, ratingOf(it), now ? "x" : String(ratingOf(it))); } });
  if (rejected) move(1);
  show();
}

key(["ArrowLeft"], "Previous", () => move(-1), "Looking");
key(["ArrowRight"], "Next", () => move(1), "Looking");
key(["ArrowUp"], "Row above", () => move(0, -1), "Looking");
key(["ArrowDown"], "Row below", () => move(0, 1), "Looking");
key(["1", "2", "3", "4", "5"], "Rate", (event) => { judge(Number(event.key)); }, "Reviewing");
key(["0"], "Clear the rating", () => { judge(0); }, "Reviewing");
key(["x"], "Reject, or take that back", toss, "Reviewing");
key(["c"], "Add to compare, or remove", () => {
  const tile = focused();
  if (!tile) return say("Choose an image with the arrow keys first");
  const { reference, name } = aboutImage(tile);
  tray.toggle(reference, tile.dataset.hash, `${sessionName()} ${name}`);
}, "Reviewing");

/** Loads the next page of a long session when its end is near. */
function more() {
  const next = one("#next");
  if (!next) return;
  const seen = new IntersectionObserver(async ([entry]) => {
    if (!entry.isIntersecting) return;
    seen.disconnect();
    try {
      const fresh = await page(next.getAttribute("href"));
      tiles.append(...all("#tiles > .tile", fresh).map((tile) => document.importNode(tile, true)));
      const following = one("#next", fresh);
      if (following) next.setAttribute("href", following.getAttribute("href")); else next.parentElement.remove();
      spread();
      show();
      more();
    } catch (error) { sayWhy(error); }
  }, { rootMargin: "800px" });
  seen.observe(next);
}

const renew = steadily(250, async () => {
  const at = focused()?.getAttribute("href");
  const fresh = await page(location.pathname);
  const known = new Map(all(".tile", tiles).map((tile) => [tile.getAttribute("href"), tile]));
  for (const tile of all("#tiles > .tile", fresh)) {
    const old = known.get(tile.getAttribute("href"));
    const copy = document.importNode(tile, true);
    if (!old) tiles.append(copy); else if (old.dataset.mark !== copy.dataset.mark || old.dataset.rating !== copy.dataset.rating) showRating(old, Number(copy.dataset.rating ?? 0), copy.dataset.mark);
  }
  spread();
  show();
  if (at) one(`.tile[href="${at}"]`, tiles)?.focus({ preventScroll: true });
  await refreshHead();
});

export function heard(news) {
  if (news.kind === "missed" || news.session === session) renew();
}


spread();
show();
more();
