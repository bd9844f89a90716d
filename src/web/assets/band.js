// Rubber-band selection: dragging with the mouse from the space between cards selects the cards it touches. With Shift
// or Ctrl, it extends the selection. Near the edge of the window, the page scrolls along.

import { all, make, one } from "./kit.js";
import { selection } from "./select.js";

/** The distance in pixels at which a press becomes a drag. */
const SLACK = 6;
/** The distance in pixels from the window's edge at which the page scrolls. */
const EDGE = 40;

/** Enables rubber-band selection on the wall; `settled` is called while the page scrolls along. */
export function rubberBand({ settled }) {
  let from = null;
  let band = null;
  let before = new Set();
  let at = { x: 0, y: 0 };
  let frame = 0;

  function draw() {
    const to = { x: at.x + scrollX, y: at.y + scrollY };
    const box = { left: Math.min(from.x, to.x), top: Math.min(from.y, to.y), right: Math.max(from.x, to.x), bottom: Math.max(from.y, to.y) };
    Object.assign(band.style, { left: `${box.left}px`, top: `${box.top}px`, width: `${box.right - box.left}px`, height: `${box.bottom - box.top}px` });
    const touched = all("#wall > .part:not(.ghost) .card").filter((card) => {
      const of = card.getBoundingClientRect();
      return of.left + scrollX < box.right && of.right + scrollX > box.left && of.top + scrollY < box.bottom && of.bottom + scrollY > box.top;
    });
    selection.among(touched, before);
  }

  function scrollAlong() {
    frame = 0;
    if (!band) return;
    const by = at.y < EDGE + 57 ? -14 : at.y > innerHeight - EDGE ? 14 : 0;
    if (by === 0) return;
    scrollBy(0, by);
    settled();
    draw();
    frame = requestAnimationFrame(scrollAlong);
  }

  function end() {
    band?.remove();
    cancelAnimationFrame(frame);
    [from, band, frame] = [null, null, 0];
    document.body.removeAttribute("data-banding");
  }

  addEventListener("pointerdown", (event) => {
    if (event.pointerType !== "mouse" || event.button !== 0 || !one("#wall")) return;
    if (!event.target.closest?.("main") || event.target.closest("a, button, input, select, textarea, summary, label, details, nav, .bar, .facets, p, pre")) return;
    from = { x: event.clientX + scrollX, y: event.clientY + scrollY };
    before = event.shiftKey || event.ctrlKey || event.metaKey ? selection.keys() : new Set();
  });
  addEventListener("pointermove", (event) => {
    if (!from) return;
    // The button was released outside the page.
    if (event.buttons === 0) { end(); return; }
    at = { x: event.clientX, y: event.clientY };
    if (!band) {
      if (Math.hypot(at.x + scrollX - from.x, at.y + scrollY - from.y) < SLACK) return;
      band = make("div", { class: "band", "aria-hidden": "true" });
      document.body.append(band);
      document.body.setAttribute("data-banding", "");
    }
    event.preventDefault();
    draw();
    if (!frame) frame = requestAnimationFrame(scrollAlong);
  });
  addEventListener("pointerup", end);
  addEventListener("blur", end);
  addEventListener("keydown", (event) => { if (event.key === "Escape" && band) { selection.among([], before); end(); event.stopPropagation(); } }, true);
}
