// The tree of a session: drawn by the server, scaled here, and reloaded when the session changes.

import { keepFocus, one, page, settings, steadily } from "./kit.js";
import { refreshHead, session } from "./head.js";

const graph = one("#graph");
const size = one("#size");

/** Scales the drawing. */
function scale() {
  const drawing = one("#drawing");
  const [, , width, height] = drawing.getAttribute("viewBox").split(" ").map(Number);
  drawing.setAttribute("width", (width * size.value) / 100);
  drawing.setAttribute("height", (height * size.value) / 100);
}

/** Returns the scale in percent at which the whole drawing fits. */
function fitting() {
  const [, , width, height] = one("#drawing").getAttribute("viewBox").split(" ").map(Number);
  return Math.min(graph.clientWidth / width, graph.clientHeight / height) * 100;
}

// Captions stay legible: a drawing that does not fit is scrolled.
size.value = settings.get("tree") ?? Math.max(100, Math.min(200, fitting()));
size.addEventListener("input", () => { settings.set("tree", Number(size.value)); scale(); });
graph.addEventListener("wheel", (event) => {
  if (event.ctrlKey) {
    event.preventDefault();
    size.value = Number(size.value) - Math.sign(event.deltaY) * 10;
    size.dispatchEvent(new Event("input"));
  } else if (graph.scrollHeight <= graph.clientHeight && Math.abs(event.deltaY) > Math.abs(event.deltaX)) {
    event.preventDefault();
    graph.scrollLeft += event.deltaY * (event.deltaMode === 1 ? 16 : 1);
  }
}, { passive: false });

const again = steadily(300, async () => {
  const fresh = one("#drawing", await page(location.pathname));
  keepFocus(() => one("#drawing").replaceWith(document.importNode(fresh, true)));
  scale();
  await refreshHead();
});

export function heard(news) {
  if (news.kind === "missed" || news.session === session) again();
}

scale();
// Start at the newest iteration.
graph.scrollLeft = graph.scrollWidth;
