// A session: choosing an iteration without a new page, rating, tagging, noting, archiving, copying; the strip, of which
// only what is near the window is in the page; and what happens meanwhile.

import { all, ask, askText, calmly, copy, key, make, one, part, say, sayWhy, tellTimes } from "./kit.js";
import { compareAddress, tray } from "./tray.js";

const main = one("main");
const id = main.dataset.session;
let count = Number(main.dataset.count);
let index = Number(main.dataset.index);
const view = one("#view");
const strip = one("#strip");
const film = one(".film", strip);

const WIDE = 92;
const STEP = 112;
const LANE = 132;
const LEFT = 20;
const UP = 14;
const PART = 100;
let lanes = Number(strip.dataset.lanes);
const takes = new Map();
const asked = new Map();

const reference = (at = index) => `${id}#${at}`;
const address = (at) => `/sessions/${id}/${at}`;

// Choosing.

let choosing;
async function choose(at, { push = true, quiet = false } = {}) {
  if (at < 0 || at >= count) return;
  choosing?.abort();
  choosing = new AbortController();
  try {
    const { headers, content } = await part(`${address(at)}/part`, choosing.signal);
    index = at;
    const title = headers.get("x-title");
    if (title) document.title = decodeURIComponent(title);
    if (push) history.pushState({ index }, "", address(at));
    const open = all("details[open]", view).map((details) => details.dataset.name);
    const scrolled = one(".facts", view)?.scrollTop ?? 0;
    view.replaceChildren(content);
    for (const details of all("details", view)) details.open = open.includes(details.dataset.name);
    if (quiet) one(".facts", view).scrollTop = scrolled;
    tellTimes(view);
    tray.show();
    mark();
    nearby();
  } catch (error) {
    if (error.name !== "AbortError") sayWhy(error);
  }
}

addEventListener("popstate", () => {
  const at = Number(location.pathname.split("/")[3] ?? count - 1);
  if (Number.isInteger(at)) choose(at, { push: false });
});

document.addEventListener("click", (event) => {
  if (event.metaKey || event.ctrlKey || event.shiftKey || event.button !== 0) return;
  const link = event.target.closest("a[data-index]");
  if (link) { event.preventDefault(); choose(Number(link.dataset.index)); }
});

/** The pictures beside this one, so that the next step is there at once. */
function nearby() {
  for (const at of [index + 1, index - 1]) {
    const full = takes.get(at)?.dataset.image;
    if (full) new Image().src = `/images/${full}`;
  }
}

// The strip.

function spread() {
  strip.classList.add("live");
  film.style.width = `${LEFT * 2 + count * STEP - (STEP - WIDE)}px`;
  film.style.height = `${UP * 2 + lanes * LANE - (LANE - 112)}px`;
  all(".take", film).forEach(place);
}

function place(take) {
  const at = Number(take.dataset.index);
  takes.set(at, take);
  take.style.left = `${LEFT + at * STEP}px`;
  take.style.top = `${UP + Number(take.dataset.lane) * LANE}px`;
}

/** A line from each iteration to the one it came from, where that is not simply the one before. */
function draw() {
  one("svg", film)?.remove();
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("aria-hidden", "true");
  for (const [at, take] of takes) {
    const { parent, parentLane, lane } = take.dataset;
    if (parent === undefined || parentLane === undefined) continue;
    const from = { x: LEFT + Number(parent) * STEP + WIDE + 2, y: UP + Number(parentLane) * LANE + 46 };
    const to = { x: LEFT + at * STEP - 2, y: UP + Number(lane) * LANE + 46 };
    const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
    const turn = from.x + 8;
    const low = to.y > from.y ? to.y - 46 - 10 : to.y;
    path.setAttribute("d", from.y === to.y && at - Number(parent) === 1
      ? `M${from.x} ${from.y}H${to.x}`
      : from.y === to.y
        ? `M${from.x} ${from.y}h6V${UP - 7}H${to.x - 6}V${to.y}H${to.x}`
        : `M${from.x} ${from.y}H${turn}V${low}H${to.x - 7}V${to.y}H${to.x}`);
    svg.append(path);
  }
  film.prepend(svg);
}

/** Brings in what is near the window, and takes out what is far from it. */
async function look() {
  const from = Math.max(0, Math.floor((strip.scrollLeft - strip.clientWidth) / STEP));
  const to = Math.min(count - 1, Math.ceil((strip.scrollLeft + 2 * strip.clientWidth) / STEP));
  for (const [at, take] of takes) {
    const far = at < from - PART || at > to + PART;
    if (far) { take.remove(); takes.delete(at); asked.delete(Math.floor(at / PART)); }
  }
  const wanted = [];
  for (let chunk = Math.floor(from / PART); chunk <= Math.floor(to / PART); chunk += 1) {
    if (!asked.has(chunk)) wanted.push(chunk);
  }
  await Promise.all(wanted.map(bring));
  if (wanted.length > 0) { draw(); mark(false); }
}

async function bring(chunk) {
  asked.set(chunk, true);
  try {
    const { headers, content } = await part(`/sessions/${id}/strip?from=${chunk * PART}&limit=${PART}`);
    lanes = Number(headers.get("x-lanes") ?? lanes);
    count = Number(headers.get("x-count") ?? count);
    for (const take of all(".take", content)) {
      takes.get(Number(take.dataset.index))?.remove();
      film.append(take);
      place(take);
    }
    spread();
  } catch (error) {
    asked.delete(chunk);
    sayWhy(error);
  }
}

/** Shows in the strip which one is chosen. */
function mark(scroll = true) {
  for (const take of takes.values()) {
    if (Number(take.dataset.index) === index) take.setAttribute("aria-current", "true");
    else take.removeAttribute("aria-current");
  }
  if (!scroll) return;
  const x = LEFT + index * STEP;
  if (x < strip.scrollLeft + 40 || x + WIDE > strip.scrollLeft + strip.clientWidth - 40) {
    strip.scrollTo({ left: x - strip.clientWidth / 2 + WIDE / 2, behavior: "auto" });
  }
  const take = takes.get(index);
  if (take) {
    const y = Number(take.dataset.lane) * LANE;
    if (y < strip.scrollTop || y + 112 > strip.scrollTop + strip.clientHeight) strip.scrollTop = y;
  }
}

// Doing.

async function rate(rating) {
  try {
    await ask("annotate-iteration", { reference: reference(), rating });
    say(`${"★".repeat(rating)}${"☆".repeat(5 - rating)}`);
    await refresh();
  } catch (error) { sayWhy(error); }
}

async function tag() {
  const now = all("[data-tag]", view).map((it) => it.dataset.tag);
  const text = await askText("Tags", "Separated by commas", "Keep", { value: now.join(", "), rows: 2 });
  if (text === null) return;
  const tags = text.split(",").map((it) => it.trim()).filter(Boolean);
  try { await ask("annotate-iteration", { reference: reference(), tags }); await refresh(); } catch (error) { sayWhy(error); }
}

async function note() {
  const now = one("[data-note]", view)?.textContent ?? "";
  const text = await askText("Note", `On ${reference()}`, "Keep", { value: now, rows: 5 });
  if (text === null) return;
  try { await ask("annotate-iteration", { reference: reference(), note: text }); await refresh(); } catch (error) { sayWhy(error); }
}

async function putAway() {
  const archived = main.hasAttribute("data-archived");
  const verb = archived ? "restore-session" : "archive-session";
  const title = archived ? "Restore this session" : "Archive this session";
  const hint = archived ? "It takes iterations again." : "It takes no more iterations. Nothing is deleted.";
  const reason = await askText(title, "Why, for the audit trail", archived ? "Restore" : "Archive", { hint, rows: 2 });
  if (reason === null) return;
  try {
    await ask(verb, { sessionId: id, reason });
    location.reload();
  } catch (error) { sayWhy(error); }
}

document.addEventListener("click", async (event) => {
  const button = event.target.closest("button[data-do]");
  if (!button) return;
  const { do: what } = button.dataset;
  if (what === "rate") rate(Number(button.dataset.rating));
  if (what === "tag") tag();
  if (what === "note") note();
  if (what === "archive") putAway();
  if (what === "compare-parent") location.assign(compareAddress([button.dataset.parent, reference()]));
  if (what === "copy") {
    const { from, text, path } = button.dataset;
    try {
      const taken = path ? await (await fetch(path)).text() : (text ?? one(from, view)?.textContent ?? "");
      copy(taken, button.dataset.what);
    } catch (error) { sayWhy(error); }
  }
});

key(["1", "2", "3", "4", "5"], "Rate", (event) => { rate(Number(event.key)); });
key(["ArrowLeft"], "The iteration before", () => { choose(index - 1); });
key(["ArrowRight"], "The iteration after", () => { choose(index + 1); });
key(["ArrowUp"], "What it came from", () => { one("[data-parent-link]", view)?.click(); });
key(["ArrowDown"], "What came of it", () => { one("[data-child-link]", view)?.click(); });
key(["Home"], "The first", () => { choose(0); });
key(["End"], "The last", () => { choose(count - 1); });
key(["c"], "Add to the compare tray", () => { one("[data-tray]", view)?.click(); });
key(["p"], "Compare with what it came from", () => { one("[data-do='compare-parent']", view)?.click(); });
key(["t"], "Tags", tag);
key(["n"], "Note", note);
key(["a"], "Archive or restore, with a reason", putAway);
key(["y"], "Copy the prompt", () => { one("[data-what='Prompt']", view)?.click(); });

// What happens meanwhile.

async function refresh() {
  await choose(index, { push: false, quiet: true });
  const chunk = Math.floor(index / PART);
  asked.delete(chunk);
  await look();
}

const grown = calmly(150, async () => {
  const wasLast = index === count - 1;
  asked.clear();
  await bring(Math.floor(Math.max(0, count - 1) / PART));
  if (Math.floor((count - 1) / PART) > Math.floor(index / PART)) await bring(Math.floor((count - 1) / PART));
  draw();
  const shown = one("#count");
  if (shown) shown.textContent = `${count} iteration${count === 1 ? "" : "s"}`;
  if (wasLast) await choose(count - 1, { push: false });
  else { mark(false); say("A new iteration was recorded"); }
});

export function heard(news) {
  if (news.kind === "missed") { refresh(); grown(); return; }
  if (news.session !== id) return;
  if (news.kind === "recorded") grown();
  else if (news.kind === "annotated") { if (news.index === index) refresh(); else { asked.clear(); look(); } }
  else if (news.kind === "archived" || news.kind === "restored" || news.kind === "titled") location.reload();
}

spread();
draw();
mark();
look();
nearby();
strip.addEventListener("scroll", calmly(40, look), { passive: true });
addEventListener("resize", calmly(80, look));
