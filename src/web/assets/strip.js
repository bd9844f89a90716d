// The filmstrip: one row in order of recording. Only the part near the viewport is in the DOM. Branches unfold into
// lanes. Iterations that do not match the filter are left out.

import { all, calmly, make, one, part, sayWhy } from "./kit.js";

const WIDE = 96;
const STEP = 108;
const ROW = 108;
const LEFT = 12;
const UP = 8;

/** The filters, as the marks that an iteration may have. */
export const filters = {
  takes: (mark) => mark !== "x",
  unreviewed: (mark) => mark === "0",
  liked: (mark) => mark === "4" || mark === "5",
  everything: () => true,
};

/** Creates the strip of a session. `grown(count, marks)` is called with the server's state of the whole session. */
export function filmstrip(strip, session, { grown }) {
  const reel = one(".reel", strip);
  const size = Number(strip.dataset.step);
  let lanes = Number(strip.dataset.lanes);
  let unfolded = false;
  let order = [];
  let slots = new Map();
  let current = -1;
  const takes = new Map();
  const asked = new Set([Math.floor(Number(strip.dataset.from) / size)]);
  const ghosts = new Map();
  for (const take of all(".take", reel)) takes.set(Number(take.dataset.index), take);
  strip.classList.add("live");

  const left = (slot) => LEFT + slot * STEP;
  const top = (take) => UP + (unfolded ? Number(take.dataset.lane) * ROW : 0);

  function place(take, slot) {
    take.style.left = `${left(slot)}px`;
    take.style.top = `${top(take)}px`;
    take.dataset.hue = String(Number(take.dataset.lane) % 5);
    if (take.parentElement !== reel) reel.append(take);
  }

  /** Inserts what is near the viewport, removes what is not, and requests missing parts. */
  function look() {
    const from = Math.max(0, Math.floor((strip.scrollLeft - strip.clientWidth) / STEP));
    const to = Math.min(order.length - 1, Math.ceil((strip.scrollLeft + 2 * strip.clientWidth) / STEP));
    const near = new Set(order.slice(from, to + 1));
    for (const [at, take] of takes) {
      if (near.has(at)) place(take, slots.get(at));
      else if (take.parentElement === reel && take !== document.activeElement) take.remove();
    }
    for (const [at, ghost] of ghosts) if (!near.has(at) || takes.has(at)) { ghost.remove(); ghosts.delete(at); }
    const wanted = new Set();
    for (const at of near) {
      if (takes.has(at)) continue;
      wanted.add(Math.floor(at / size));
      if (!ghosts.has(at)) ghosts.set(at, make("span", { class: "take ghost", "data-lane": 0 }, make("span", { class: "pic" })));
      place(ghosts.get(at), slots.get(at));
    }
    for (const chunk of wanted) if (!asked.has(chunk)) bring(chunk);
    draw();
    mark();
  }

  const inFlight = new Map();
  /** Requests a part of the strip; concurrent callers share the response. */
  function bring(chunk) {
    asked.add(chunk);
    if (!inFlight.has(chunk)) inFlight.set(chunk, fetched(chunk).finally(() => inFlight.delete(chunk)));
    return inFlight.get(chunk);
  }

  async function fetched(chunk) {
    try {
      const { content } = await part(`/sessions/${session}/strip?from=${chunk * size}&limit=${size}`);
      const fresh = one(".reel", content);
      for (const take of all(".take", fresh)) {
        const at = Number(take.dataset.index);
        const old = takes.get(at);
        const focused = old === document.activeElement;
        old?.remove();
        takes.set(at, take);
        if (focused) { place(take, slots.get(at) ?? 0); take.focus({ preventScroll: true }); }
      }
      lanes = Number(fresh.dataset.lanes);
      one("#lanes").hidden = lanes < 2;
      grown(Number(fresh.dataset.count), fresh.dataset.marks);
    } catch (error) {
      asked.delete(chunk);
      if (error.kind !== "offline") sayWhy(error);
    }
  }

  /** Draws a line from each iteration to its parent if branches are unfolded. */
  function draw() {
    one("svg", reel)?.remove();
    if (!unfolded) return;
    const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    svg.setAttribute("aria-hidden", "true");
    for (const [at, take] of takes) {
      const parent = Number(take.dataset.parent);
      if (!slots.has(at) || take.dataset.parent === undefined || !slots.has(parent) || take.parentElement !== reel) continue;
      const from = { x: left(slots.get(parent)) + WIDE, y: UP + Number(take.dataset.parentLane) * ROW + 32 };
      const to = { x: left(slots.get(at)), y: top(take) + 32 };
      const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
      path.setAttribute("d", from.y === to.y
        ? (slots.get(at) - slots.get(parent) === 1 ? `M${from.x} ${from.y}H${to.x}` : `M${from.x} ${from.y}h4V${from.y - 36}H${to.x - 4}V${to.y}H${to.x}`)
        : `M${from.x} ${from.y}h5V${to.y > from.y ? to.y - 36 : to.y + 36}H${to.x - 5}V${to.y}H${to.x}`);
      path.dataset.hue = take.dataset.hue;
      svg.append(path);
    }
    reel.prepend(svg);
  }

  /** Marks the selected iteration, which is the only tab stop. */
  function mark() {
    for (const [at, take] of takes) {
      if (take.parentElement !== reel) continue;
      take.tabIndex = at === current ? 0 : -1;
      if (at === current) take.setAttribute("aria-current", "true"); else take.removeAttribute("aria-current");
    }
  }

  function reveal() {
    const slot = slots.get(current);
    if (slot === undefined) return;
    const x = left(slot);
    if (x < strip.scrollLeft + 60 || x + WIDE > strip.scrollLeft + strip.clientWidth - 60) strip.scrollLeft = x - strip.clientWidth / 2 + WIDE / 2;
    const take = takes.get(current);
    if (unfolded && take) strip.scrollTop = Math.max(0, top(take) - UP);
  }

  strip.addEventListener("scroll", calmly(30, look), { passive: true });
  strip.addEventListener("wheel", (event) => {
    if (unfolded || event.ctrlKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) return;
    if (strip.scrollWidth <= strip.clientWidth) return;
    event.preventDefault();
    strip.scrollLeft += event.deltaY * (event.deltaMode === 1 ? 16 : 1);
  }, { passive: false });
  new ResizeObserver(() => { reveal(); look(); }).observe(strip);

  return {
    /** Lays out these iterations and marks the selected one. */
    layout(indexes, chosen) {
      order = indexes;
      slots = new Map(order.map((at, slot) => [at, slot]));
      current = chosen;
      reel.style.width = `${LEFT * 2 + order.length * STEP - (STEP - WIDE)}px`;
      reel.style.height = `${UP + (unfolded ? lanes : 1) * ROW}px`;
      reveal();
      look();
    },
    /** Selects another iteration, and moves the focus along if it is in the strip. */
    choose(chosen) {
      const focused = reel.contains(document.activeElement);
      current = chosen;
      reveal();
      look();
      if (focused) takes.get(current)?.focus({ preventScroll: true });
    },
    take: (at) => takes.get(at),
    /** Returns the first iteration that is based on this one, as far as is known. */
    child: (at) => Math.min(...[...takes].filter(([, take]) => take.dataset.parent === String(at)).map(([index]) => index)),
    /** Reloads the parts that contain these iterations. */
    async refresh(...indexes) {
      const chunks = new Set(indexes.map((at) => Math.floor(at / size)));
      // A response that is already on its way may be older than what made this necessary.
      await Promise.all([...chunks].map(async (chunk) => { await inFlight.get(chunk); await bring(chunk); }));
    },
    /** Drops cached parts that may have changed, except those in view. */
    async renew() {
      const seen = new Set([...takes].filter(([, take]) => take.parentElement === reel).map(([at]) => Math.floor(at / size)));
      for (const chunk of [...asked]) if (!seen.has(chunk)) asked.delete(chunk);
      for (const at of [...takes.keys()]) if (!seen.has(Math.floor(at / size))) takes.delete(at);
      await Promise.all([...seen].map(bring));
    },
    unfold(on) {
      unfolded = on;
      strip.classList.toggle("unfolded", on);
      reel.style.height = `${UP + (on ? lanes : 1) * ROW}px`;
      look();
      reveal();
    },
    unfolded: () => unfolded,
  };
}

/** Shows a rating over an image of the strip or the grid. */
export function showRating(element, rating, mark) {
  if (!element) return;
  element.dataset.mark = mark;
  if (rating) element.dataset.rating = rating; else delete element.dataset.rating;
  const stars = one(".rated", element);
  if (!stars) return;
  stars.textContent = "★".repeat(rating);
  if (rating) { stars.setAttribute("role", "img"); stars.setAttribute("aria-label", `${rating} of 5 stars`); } else { stars.removeAttribute("role"); stars.removeAttribute("aria-label"); }
}
