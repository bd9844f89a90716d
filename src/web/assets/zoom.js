// Zooming into one image with wheel, pinch, drag, click and keys, never beyond its edges. Also swipes when not zoomed.

const MAX_PIXEL = 8;
const SWIPE = 48;

/**
 * Makes the image in `canvas` zoomable within `frame`. `shown(percent, fits)` is called after every change,
 * `turned(by)` after a swipe to the next (1) or previous (-1) image, `taken(transfer)` when it is dragged out of the window.
 */
export function zoomable(frame, canvas, { shown, turned, taken }) {
  let natural = { width: 1, height: 1 };
  let base = { width: 1, height: 1 };
  let scale = 1;
  let [x, y] = [0, 0];
  const pointers = new Map();
  let gesture = null;

  const dots = () => globalThis.devicePixelRatio || 1;
  /** Returns the scale at which one image pixel is one screen pixel. */
  const whole = () => natural.width / (base.width * dots());
  const most = () => Math.max(whole() * MAX_PIXEL, 2);

  function place() {
    const [width, height] = [base.width * scale, base.height * scale];
    const room = (size, space) => Math.max(0, (size - space) / 2);
    x = Math.min(room(width, frame.clientWidth), Math.max(-room(width, frame.clientWidth), x));
    y = Math.min(room(height, frame.clientHeight), Math.max(-room(height, frame.clientHeight), y));
    canvas.style.transform = `translate(${x}px, ${y}px) scale(${scale})`;
    frame.dataset.zoomed = scale > 1.001 ? "yes" : "no";
    canvas.classList.toggle("pixels", scale / whole() > 3);
    shown(Math.round((scale / whole()) * 100), scale <= 1.001);
  }

  /** Fits the image into the frame. Small images are enlarged at most four times. */
  function fit() {
    const space = { width: frame.clientWidth, height: frame.clientHeight };
    const by = Math.min(space.width / natural.width, space.height / natural.height, 4 * Math.max(1, 512 / Math.max(natural.width, natural.height)));
    base = { width: Math.max(1, natural.width * by), height: Math.max(1, natural.height * by) };
    canvas.style.width = `${base.width}px`;
    canvas.style.height = `${base.height}px`;
    place();
  }

  /** Zooms around a point of the window, or around its centre. */
  function zoom(to, at) {
    const box = frame.getBoundingClientRect();
    const [px, py] = at ? [at.x - box.left - box.width / 2, at.y - box.top - box.height / 2] : [0, 0];
    const next = Math.min(most(), Math.max(1, to));
    x = px - ((px - x) * next) / scale;
    y = py - ((py - y) * next) / scale;
    scale = next;
    if (scale <= 1.001) { scale = 1; x = 0; y = 0; }
    place();
  }

  const toggle = (at) => zoom(scale > 1.001 ? 1 : Math.max(whole(), 1.5), at);

  frame.addEventListener("wheel", (event) => {
    if (canvas.hidden) return;
    event.preventDefault();
    const lines = event.deltaMode === 1 ? 16 : 1;
    zoom(scale * Math.exp(-event.deltaY * lines * (event.ctrlKey ? 0.01 : 0.0022)), { x: event.clientX, y: event.clientY });
  }, { passive: false });

  const middle = () => {
    const [one, other] = [...pointers.values()];
    return { x: (one.x + other.x) / 2, y: (one.y + other.y) / 2, apart: Math.hypot(one.x - other.x, one.y - other.y) };
  };

  frame.addEventListener("pointerdown", (event) => {
    if (event.button !== 0 || canvas.hidden || event.target.closest("a, button, video")) return;
    pointers.set(event.pointerId, { x: event.clientX, y: event.clientY });
    frame.setPointerCapture(event.pointerId);
    gesture = pointers.size === 2
      ? { kind: "pinch", scale, ...middle() }
      : { kind: "drag", from: { x: event.clientX, y: event.clientY }, at: { x, y }, moved: false, type: event.pointerType };
  });

  frame.addEventListener("pointermove", (event) => {
    if (!pointers.has(event.pointerId) || !gesture) return;
    pointers.set(event.pointerId, { x: event.clientX, y: event.clientY });
    if (gesture.kind === "pinch" && pointers.size === 2) {
      const now = middle();
      zoom((gesture.scale * now.apart) / Math.max(1, gesture.apart), now);
    } else if (gesture.kind === "drag") {
      const [dx, dy] = [event.clientX - gesture.from.x, event.clientY - gesture.from.y];
      if (Math.hypot(dx, dy) > 4) gesture.moved = true;
      if (scale > 1.001) { x = gesture.at.x + dx; y = gesture.at.y + dy; place(); }
      else if (gesture.type === "touch" && Math.abs(dx) > Math.abs(dy)) canvas.style.transform = `translate(${dx * 0.6}px, 0)`;
    }
  });

  let tapped = 0;
  function lift(event) {
    if (!pointers.delete(event.pointerId)) return;
    const done = gesture;
    if (pointers.size > 0) { gesture = null; return; }
    gesture = null;
    if (!done || done.kind !== "drag" || event.type === "pointercancel") { place(); return; }
    const [dx, dy] = [event.clientX - done.from.x, event.clientY - done.from.y];
    if (done.moved) {
      if (scale <= 1.001 && done.type === "touch" && Math.abs(dx) > SWIPE && Math.abs(dx) > 1.5 * Math.abs(dy)) turned(dx < 0 ? 1 : -1);
      place();
      return;
    }
    const at = { x: event.clientX, y: event.clientY };
    if (done.type !== "touch") toggle(at);
    else if (event.timeStamp - tapped < 350) { tapped = 0; toggle(at); } else tapped = event.timeStamp;
  }
  frame.addEventListener("pointerup", lift);
  frame.addEventListener("pointercancel", lift);
  // A zoomed image is moved; one that fits is dragged out of the window, as a file.
  frame.addEventListener("dragstart", (event) => { if (scale > 1.001) event.preventDefault(); else taken(event.dataTransfer); });
  new ResizeObserver(() => fit()).observe(frame);

  return {
    /** Shows another image: fitted, unless it has the same size as the previous one, whose zoom is then kept. */
    show(width, height) {
      const alike = width === natural.width && height === natural.height;
      natural = { width: width || 1, height: height || 1 };
      if (!alike) { scale = 1; x = 0; y = 0; }
      fit();
    },
    by: (factor) => zoom(scale * factor),
    fit: () => zoom(1),
    toggle: () => toggle(),
    zoomed: () => scale > 1.001,
  };
}
