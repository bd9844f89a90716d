// Compare: A is pinned, B steps through the rest with the arrow keys. Zoom and pan are one for both. The mode, and which
// two, are in the address, so that a link shows the same.

import { all, calmly, key, one, page, part, sayWhy, tellTimes } from "./kit.js";

const main = one("main");
const desk = one("#desk");
const items = all("#set [data-reference]").map((button) => ({ reference: button.dataset.reference, image: button.dataset.image, button }));
const MODES = ["side", "slider", "blink", "difference", "heat"];

const where = new URL(location.href);
let a = Number(where.searchParams.get("a") ?? 0);
let b = Number(where.searchParams.get("b") ?? 1);
let mode = where.searchParams.get("mode") ?? "side";
let zoom = 1;
let x = 0;
let y = 0;
let split = 0.5;
let blinking;
let outlined = false;
/** What differs to the eye, by address: looking takes a while, and stepping back should not. */
const looked = new Map();

if (desk) start();

function start() {
  if (!MODES.includes(mode)) mode = "side";
  const inside = (value, fallback) => (Number.isInteger(value) && value >= 0 && value < items.length ? value : fallback);
  a = inside(a, 0);
  b = inside(b, Math.min(1, items.length - 1));
  for (const { button } of items) {
    button.addEventListener("click", (event) => {
      const at = items.findIndex((item) => item.button === button);
      if (event.shiftKey) pin(at); else step(at);
    });
  }
  for (const button of all("[data-mode-choice]")) button.addEventListener("click", () => setMode(button.dataset.modeChoice));
  keysOfTheDesk();
  addEventListener("resize", calmly(60, move));
  hands();
  show({ facts: false });
  see();
}

/** Both sides, the marks, the address; and what differs, from the server. */
async function show({ facts = true } = {}) {
  for (const [side, at] of [["a", a], ["b", b]]) {
    const pane = one(`.pane.${side}`, desk);
    const image = one("img.whole", pane);
    const { reference, image: hash } = items[at];
    one(".label", pane).textContent = `${side.toUpperCase()} · ${reference}`;
    image.hidden = !hash;
    one(".gone", pane).hidden = Boolean(hash);
    image.alt = `${side.toUpperCase()}: ${reference}`;
    if (hash && !image.src.endsWith(hash)) image.src = `/images/${hash}`;
  }
  items.forEach(({ button }, at) => {
    const side = one(".side", button);
    side.textContent = [at === a ? "A" : "", at === b ? "B" : ""].join("");
    side.hidden = at !== a && at !== b;
    if (at === b) button.setAttribute("aria-current", "true"); else button.removeAttribute("aria-current");
  });
  const heat = one("img.heat", desk);
  const map = mode === "heat" && items[a].image && items[b].image ? `/heat/${items[a].image}/${items[b].image}` : "";
  heat.hidden = !map;
  if (map && heat.getAttribute("src") !== map) {
    desk.dataset.waiting = "yes";
    heat.src = map;
    heat.decode().catch(() => {}).finally(() => { if (heat.getAttribute("src") === map) delete desk.dataset.waiting; });
  }
  desk.dataset.mode = mode;
  for (const button of all("[data-mode-choice]")) button.setAttribute("aria-pressed", button.dataset.modeChoice === mode);
  move();
  blink();
  where.searchParams.set("a", a);
  where.searchParams.set("b", b);
  where.searchParams.set("mode", mode);
  // URLSearchParams would write the commas and marks of the references in full.
  history.replaceState(null, "", `${where.pathname}?refs=${items.map((it) => encodeURIComponent(it.reference)).join(",")}&a=${a}&b=${b}&mode=${mode}`);
  // Only the row of pictures moves, and not the page.
  const [shelf, chosen] = [one("#set"), items[b].button.parentElement];
  if (chosen.offsetLeft < shelf.scrollLeft || chosen.offsetLeft + chosen.offsetWidth > shelf.scrollLeft + shelf.clientWidth) shelf.scrollLeft = chosen.offsetLeft - shelf.clientWidth / 2;
  if (facts) differ();
}

const differ = calmly(60, async () => {
  try {
    const pair = [items[a].reference, items[b].reference].map((it) => encodeURIComponent(it)).join(",");
    const { content } = await part(`/compare/part?refs=${pair}`);
    one("#facts").replaceChildren(content);
    tellTimes(one("#facts"));
    see();
  } catch (error) {
    if (error.name !== "AbortError") sayWhy(error);
  }
});

/** Puts in the numbers of how much the two differ to the eye, when they come. */
async function see() {
  const place = one("[data-seen]");
  if (!place) { move(); return; }
  const address = place.dataset.seen;
  try {
    if (!looked.has(address)) {
      place.textContent = "Looking…";
      looked.set(address, page(address).then((found) => one("#seen", found)));
    }
    const seen = await looked.get(address);
    if (one("[data-seen]")?.dataset.seen !== address) return;
    one("[data-seen]").replaceChildren(seen.cloneNode(true));
  } catch (error) {
    looked.delete(address);
    place.textContent = error.message;
  }
  move();
}

/** A frame around all that changed, on both pictures. */
function outline() {
  const { box, size } = one("#seen")?.dataset ?? {};
  for (const frame of all(".outline", desk)) {
    frame.hidden = !(outlined && box && mode !== "heat");
    if (frame.hidden) continue;
    const [left, up, wide, high] = box.split(" ").map(Number);
    const [width, height] = size.split(" ").map(Number);
    const pane = frame.parentElement.getBoundingClientRect();
    const scale = Math.min(pane.width / width, pane.height / height);
    const [offX, offY] = [(pane.width - width * scale) / 2, (pane.height - height * scale) / 2];
    frame.style.left = `${x + zoom * (offX + left * scale)}px`;
    frame.style.top = `${y + zoom * (offY + up * scale)}px`;
    frame.style.width = `${zoom * wide * scale}px`;
    frame.style.height = `${zoom * high * scale}px`;
  }
}

function step(at) {
  if (items.length < 2) return;
  b = at;
  show();
}

function pin(at) {
  a = at;
  if (a === b) b = (a + 1) % items.length;
  show();
}

function setMode(next) {
  mode = next;
  show({ facts: false });
}

function move() {
  for (const image of all(".pane img", desk)) image.style.transform = `translate(${x}px, ${y}px) scale(${zoom})`;
  const clip = one(".pane.b .clip", desk);
  clip.style.clipPath = mode === "slider" ? `inset(0 0 0 ${split * 100}%)` : "";
  const handle = one(".handle", desk);
  handle.style.left = `${split * 100}%`;
  handle.setAttribute("aria-valuenow", Math.round(split * 100));
  outline();
}

function blink() {
  clearInterval(blinking);
  const pane = one(".pane.b", desk);
  pane.classList.remove("off");
  if (mode !== "blink") return;
  if (matchMedia("(prefers-reduced-motion: reduce)").matches) return;
  blinking = setInterval(() => pane.classList.toggle("off"), 700);
}

/** Zooms so that what is under the pointer stays there. */
function zoomAt(factor, px, py) {
  const next = Math.min(32, Math.max(1, zoom * factor));
  x = px - ((px - x) * next) / zoom;
  y = py - ((py - y) * next) / zoom;
  zoom = next;
  if (zoom === 1) { x = 0; y = 0; }
  move();
}

function hands() {
  const paneOf = (event) => (event.target.closest(".pane") ?? one(".pane", desk)).getBoundingClientRect();
  desk.addEventListener("wheel", (event) => {
    event.preventDefault();
    const box = paneOf(event);
    zoomAt(Math.exp(-event.deltaY / 300), event.clientX - box.left, event.clientY - box.top);
  }, { passive: false });
  desk.addEventListener("dblclick", (event) => {
    const box = paneOf(event);
    if (zoom > 1) { zoom = 1; x = 0; y = 0; move(); } else zoomAt(3, event.clientX - box.left, event.clientY - box.top);
  });
  const touches = new Map();
  let sliding = false;
  desk.addEventListener("pointerdown", (event) => {
    desk.setPointerCapture(event.pointerId);
    touches.set(event.pointerId, event);
    sliding = mode === "slider" && Boolean(event.target.closest(".handle"));
    desk.classList.add("dragging");
    if (sliding) one(".handle", desk).focus();
  });
  desk.addEventListener("pointermove", (event) => {
    const before = touches.get(event.pointerId);
    if (!before) return;
    const box = desk.getBoundingClientRect();
    if (sliding) {
      split = Math.min(1, Math.max(0, (event.clientX - box.left) / box.width));
    } else if (touches.size === 2) {
      const other = [...touches.values()].find((it) => it.pointerId !== event.pointerId);
      const distance = (it) => Math.hypot(it.clientX - other.clientX, it.clientY - other.clientY);
      zoomAt(distance(event) / Math.max(1, distance(before)), (event.clientX + other.clientX) / 2 - box.left, (event.clientY + other.clientY) / 2 - box.top);
    } else {
      x += event.clientX - before.clientX;
      y += event.clientY - before.clientY;
    }
    touches.set(event.pointerId, event);
    move();
  });
  for (const name of ["pointerup", "pointercancel"]) {
    desk.addEventListener(name, (event) => {
      touches.delete(event.pointerId);
      sliding = false;
      desk.classList.remove("dragging");
    });
  }
}

function keysOfTheDesk() {
  const next = (by) => {
    let at = b;
    do at = (at + by + items.length) % items.length; while (at === a && items.length > 2);
    step(at);
  };
  key(["ArrowLeft"], "B: the one before", (event) => { if (slid(event, -0.02)) return; next(-1); });
  key(["ArrowRight"], "B: the one after", (event) => { if (slid(event, 0.02)) return; next(1); });
  key(["p"], "Pin B as A", () => pin(b));
  key(["x"], "Swap A and B", () => { [a, b] = [b, a]; show(); });
  key(["s"], "Side by side", () => setMode("side"));
  key(["l"], "Slider", () => setMode("slider"));
  key(["b"], "Blink", () => setMode("blink"));
  key(["d"], "Difference", () => setMode("difference"));
  key(["h"], "Heat map", () => setMode("heat"));
  key(["o"], "Outline what changed", () => { outlined = !outlined; move(); });
  key([" "], "Blink by hand", () => { clearInterval(blinking); if (mode !== "blink") setMode("blink"); clearInterval(blinking); one(".pane.b", desk).classList.toggle("off"); });
  key(["+", "="], "Closer", () => { const box = one(".pane", desk).getBoundingClientRect(); zoomAt(1.5, box.width / 2, box.height / 2); });
  key(["-"], "Farther", () => { const box = one(".pane", desk).getBoundingClientRect(); zoomAt(1 / 1.5, box.width / 2, box.height / 2); });
  key(["0"], "Whole picture", () => { zoom = 1; x = 0; y = 0; move(); });
}

/** The arrow keys move the slider while it has the focus. */
function slid(event, by) {
  if (!event.target.closest?.(".handle")) return false;
  split = Math.min(1, Math.max(0, split + by));
  move();
  return true;
}

export function heard() {
  if (main.dataset.refs) differ();
}
