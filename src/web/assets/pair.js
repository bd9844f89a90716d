// The pair view: A is pinned, B steps through the rest. Six ways to overlay the two, with one shared lens.

import { all, calmly, one, part, sayWhy, tellTimes } from "./kit.js";
import { Lens, hands } from "./lens.js";

const MODES = ["side", "slider", "onion", "blink", "difference", "heat"];
/** The control of each mode: its label, its range and its initial value. */
const AMOUNTS = { onion: ["Opacity of B", 0, 100, 50], difference: ["Gain", 1, 16, 3], slider: ["Split", 0, 100, 50] };
const still = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

/** Creates the pair view of a set. `seen` measures how two images differ; `moved` is called whenever the view changes.
    */
export function pairing({ main, items, seen, moved }) {
  const desk = one("#desk", main);
  const facts = one("#facts", main);
  const amount = one("#amount", main);
  const asked = new URL(location.href).searchParams.get("mode");
  let mode = MODES.includes(asked) ? asked : "side";
  let [a, b] = [Number(main.dataset.a), Number(main.dataset.b)];
  let blinking;
  let outlined = false;
  let bound = false;
  const amounts = Object.fromEntries(Object.entries(AMOUNTS).map(([name, [, , , start]]) => [name, start]));

  const panes = () => all(".pane", desk);
  const lens = new Lens(() => panes().flatMap((pane) => all("img:not([hidden])", pane).filter((image) => image.closest(".pane").offsetParent !== null).map((image) => ({ box: one(".clip", pane), image }))), () => { trace(); moved(); });

  /** Updates both sides, the marks and the URL, and requests the differences from the server. */
  function show({ facts: anew = true } = {}) {
    for (const [side, at] of [["a", a], ["b", b]]) {
      const pane = one(`.pane.${side}`, desk);
      const { tile, short } = items[at];
      one(".label", pane).textContent = `${side.toUpperCase()} · ${short}`;
      if (pane.dataset.shown === items[at].reference) continue;
      pane.dataset.shown = items[at].reference;
      const clip = one(".clip", pane);
      for (const old of all("img.whole, p.none, .flag", clip)) old.remove();
      for (const copied of all(".clip > *", tile)) {
        const clone = copied.cloneNode(true);
        clone.removeAttribute("style");
        // A sharpened tile already has its original.
        clip.prepend(clone);
      }
      for (const image of all("img.whole", clip)) image.addEventListener("load", () => lens.apply());
    }
    for (const button of all("[data-pick]", main)) {
      const at = Number(button.dataset.pick);
      const mark = one(".side", button);
      mark.textContent = [at === a ? "A" : "", at === b ? "B" : ""].join("");
      mark.hidden = at !== a && at !== b;
      if (at === b) button.setAttribute("aria-current", "true"); else button.removeAttribute("aria-current");
    }
    heat();
    desk.dataset.mode = mode;
    arrange();
    for (const button of all("[data-mode-choice]", main)) button.setAttribute("aria-pressed", button.dataset.modeChoice === mode);
    one(".legend", desk).hidden = mode !== "heat";
    adjust();
    blink();
    lens.apply();
    const row = one("#set", main);
    const chosen = all("li", row)[b];
    if (chosen && (chosen.offsetLeft < row.scrollLeft || chosen.offsetLeft + chosen.offsetWidth > row.scrollLeft + row.clientWidth)) row.scrollLeft = chosen.offsetLeft - row.clientWidth / 2;
    sharpen();
    if (anew || !one("[data-seen], section", facts)) differ(); else measure();
  }

  /** Places the images side by side or one above the other, whichever shows them larger. */
  function arrange() {
    const [wide, high] = [desk.clientWidth, desk.clientHeight];
    const ratio = Number(items[a].tile.dataset.ratio) || 1;
    const area = (w, h) => Math.min(w, h * ratio) * Math.min(h, w / ratio);
    desk.toggleAttribute("data-over", mode === "side" && area(wide, high / 2) > area(wide / 2, high));
  }

  function heat() {
    const image = one("img.heat", desk);
    const [one_, other] = [items[a].image, items[b].image];
    const map = mode === "heat" && one_ && other ? `/heat/${one_}/${other}` : "";
    image.hidden = !map;
    if (!map || image.getAttribute("src") === map) return;
    desk.dataset.waiting = "yes";
    image.src = map;
    image.decode().catch(() => {}).finally(() => { if (image.getAttribute("src") === map) { delete desk.dataset.waiting; lens.apply(); } });
  }

  function sharpen() {
    for (const image of all("img.whole[data-full]", desk)) {
      const source = image.dataset.full;
      delete image.dataset.full;
      const full = new Image();
      full.src = source;
      full.decode().then(() => { image.src = source; }, () => {});
    }
  }

  /** Shows the control of the current mode. */
  function adjust() {
    const label = amount.closest("label");
    const known = AMOUNTS[mode];
    label.hidden = !known || mode === "slider";
    if (known) {
      [one("span", label).textContent, amount.min, amount.max] = known;
      amount.value = amounts[mode];
    }
    desk.style.setProperty("--opacity", amounts.onion / 100);
    desk.style.setProperty("--gain", amounts.difference);
    one(".pane.b .clip", desk).style.clipPath = mode === "slider" ? `inset(0 0 0 ${amounts.slider}%)` : "";
    const handle = one(".handle", desk);
    handle.style.left = `${amounts.slider}%`;
    handle.setAttribute("aria-valuenow", Math.round(amounts.slider));
  }

  const differ = calmly(60, async () => {
    try {
      const pair = [a, b].map((at) => encodeURIComponent(items[at].reference)).join(",");
      const { content } = await part(`/compare/part?refs=${pair}`);
      facts.replaceChildren(content);
      tellTimes(facts);
      measure();
    } catch (error) {
      if (error.name !== "AbortError") sayWhy(error);
    }
  });

  /** Shows how much the two differ, once it is known. */
  async function measure() {
    const place = one("[data-seen]", facts);
    if (!place) { trace(); return; }
    const address = place.dataset.seen;
    try {
      if (!one("#seen", place)) place.textContent = "Measuring…";
      const found = await seen(address);
      if (!place.isConnected) return;
      place.replaceChildren(found.cloneNode(true));
      one("[data-outline]", place)?.addEventListener("click", outline);
    } catch (error) {
      if (place.isConnected) place.textContent = error.message;
    }
    trace();
  }

  /** Draws a frame around the changed region on both images. */
  function trace() {
    const { box, size } = one("#seen", facts)?.dataset ?? {};
    one("[data-outline]", facts)?.setAttribute("aria-pressed", outlined);
    for (const frame of all(".outline", desk)) {
      const clip = frame.parentElement;
      const image = one("img.whole", clip);
      frame.hidden = !(outlined && box && image && mode !== "heat");
      if (frame.hidden) continue;
      const [left, up, wide, high] = box.split(" ").map(Number);
      const [width, height] = size.split(" ").map(Number);
      const drawn = lens.place({ box: clip, image });
      const [x, y] = [drawn.drawnWide / width, drawn.drawnHigh / height];
      frame.style.left = `${drawn.left + left * x}px`;
      frame.style.top = `${drawn.top + up * y}px`;
      frame.style.width = `${wide * x}px`;
      frame.style.height = `${high * y}px`;
    }
  }

  function outline() {
    outlined = !outlined;
    trace();
  }

  function blink() {
    clearInterval(blinking);
    const pane = one(".pane.b", desk);
    pane.classList.remove("off");
    one(".flip", desk).hidden = !(mode === "blink" && still());
    if (mode === "blink" && !still()) blinking = setInterval(() => pane.classList.toggle("off"), 700);
  }

  function flip() {
    if (mode !== "blink") setMode("blink");
    clearInterval(blinking);
    one(".pane.b", desk).classList.toggle("off");
  }

  function choose(first, second) {
    [a, b] = [first, second];
    show();
  }

  function step(by) {
    if (items.length < 3) return;
    let at = b;
    do at = (at + by + items.length) % items.length; while (at === a);
    choose(a, at);
  }

  function pin(at) {
    choose(at, at === b ? (a === at ? (at + 1) % items.length : a) : b);
  }

  /** Makes B the new A and compares it with the next image. */
  function promote() {
    const winner = b;
    let next = (b + 1) % items.length;
    if (next === winner || (items.length > 2 && next === a)) next = (next + 1) % items.length;
    choose(winner, items.length === 2 ? a : next);
  }

  function setMode(next) {
    mode = next;
    show({ facts: false });
  }

  function split(value) {
    amounts.slider = Math.min(100, Math.max(0, value));
    adjust();
  }

  /** Handles keys while a slider has the focus. */
  function slide(event) {
    const by = { ArrowLeft: -2, ArrowRight: 2, PageUp: 10, PageDown: -10 }[event.key];
    split(event.key === "Home" ? 0 : event.key === "End" ? 100 : amounts.slider + by);
  }

  function start() {
    if (!bound) {
      bound = true;
      for (const button of all("[data-mode-choice]", main)) button.addEventListener("click", () => setMode(button.dataset.modeChoice));
      for (const button of all("[data-pick]", main)) {
        button.addEventListener("click", (event) => { const at = Number(button.dataset.pick); if (event.shiftKey) pin(at); else if (at === a) choose(b, a); else choose(a, at); });
      }
      amount.addEventListener("input", () => { amounts[mode] = Number(amount.value); adjust(); });
      const at = (event) => { const box = desk.getBoundingClientRect(); return ((event.clientX - box.left) / box.width) * 100; };
      hands(desk, lens, (event) => {
        const pane = event.target.closest?.(".pane") ?? one(".pane.b", desk);
        const image = one("img:not([hidden])", pane) ?? one(".pane img:not([hidden])", desk);
        return image ? { box: image.closest(".clip"), image } : null;
      }, {
        grab: (event) => {
          const onHandle = Boolean(event.target.closest?.(".handle"));
          if (mode !== "slider" || !(onHandle || lens.fits)) return null;
          if (onHandle) one(".handle", desk).focus();
          return (move) => split(at(move));
        },
        tap: (event) => { if (mode === "slider" && !event.target.closest?.(".handle")) split(at(event)); },
      });
    }
    show({ facts: false });
  }

  return {
    lens, start, stop: () => clearInterval(blinking), step, pin, promote, choose, setMode, outline, flip, slide,
    swap: () => choose(b, a),
    refit: () => { arrange(); lens.apply(); },
    get a() { return a; },
    get b() { return b; },
    get mode() { return mode; },
  };
}
