// A lens: one zoom level and one focal point for any number of images. Each image is in a frame of its own size, and
// all frames show the same point in their centre. No image can be moved out of its frame.

const MOST = 16;

export class Lens {
  /** `frames` returns the boxes with their images: `[{ box, image }]`; `changed` is called after every move. */
  constructor(frames, changed = () => {}) {
    this.frames = frames;
    this.changed = changed;
    this.zoom = 1;
    this.u = 0.5;
    this.v = 0.5;
  }

  /** Returns the scale at which an image fits its frame, and the sizes of both. */
  fitting({ box, image }) {
    const wide = box.clientWidth;
    const high = box.clientHeight;
    const width = Number(image.getAttribute("width")) || image.naturalWidth || wide;
    const height = Number(image.getAttribute("height")) || image.naturalHeight || high;
    return { wide, high, width, height, scale: Math.min(wide / width, high / height) || 1 };
  }

  /** Returns the current position of an image in its frame. */
  place(frame) {
    const { wide, high, width, height, scale } = this.fitting(frame);
    const [drawnWide, drawnHigh] = [width * scale * this.zoom, height * scale * this.zoom];
    const within = (middle, size, drawn) => (drawn <= size ? (size - drawn) / 2 : Math.min(0, Math.max(size - drawn, size / 2 - middle * drawn)));
    return { left: within(this.u, wide, drawnWide), top: within(this.v, high, drawnHigh), width: width * scale, height: height * scale, wide, high, drawnWide, drawnHigh, scale: scale * this.zoom };
  }

  apply() {
    for (const frame of this.frames()) {
      const { left, top, width, height, scale } = this.place(frame);
      const { style } = frame.image;
      style.width = `${width}px`;
      style.height = `${height}px`;
      style.transform = `translate(${left}px, ${top}px) scale(${this.zoom})`;
      frame.image.classList.toggle("pixels", scale >= 2);
    }
    this.changed();
  }

  /** Returns the largest frame, whose image is the one being looked at. */
  main() {
    return this.frames()[0];
  }

  /** The size of the first image on the screen, in percent of its actual size. */
  get percent() {
    const frame = this.main();
    return frame ? Math.round(this.place(frame).scale * 100) : 100;
  }

  get fits() {
    return Math.abs(this.zoom - 1) < 0.001;
  }

  /** Zooms around the pointer, or around the centre if there is none. */
  by(factor, frame = this.main(), at = null) {
    if (!frame) return;
    const { scale } = this.fitting(frame);
    const before = this.place(frame);
    const x = at ? at.x : before.wide / 2;
    const y = at ? at.y : before.high / 2;
    const [px, py] = [(x - before.left) / before.drawnWide, (y - before.top) / before.drawnHigh];
    const least = Math.min(1, 1 / scale);
    this.zoom = Math.min(Math.max(MOST / scale, 8), Math.max(least, this.zoom * factor));
    if (Math.abs(this.zoom - 1) < 0.02) this.zoom = 1;
    const { width, height } = this.place(frame);
    const [drawnWide, drawnHigh] = [width * this.zoom, height * this.zoom];
    this.look(frame, x - px * drawnWide, y - py * drawnHigh);
  }

  /** Pans the view. */
  move(dx, dy, frame = this.main()) {
    const { left, top } = this.place(frame);
    this.look(frame, left + dx, top + dy);
  }

  /** Moves the corner of an image to a position in its frame, within bounds. */
  look(frame, left, top) {
    const { wide, high, drawnWide, drawnHigh } = this.place(frame);
    const middle = (corner, size, drawn) => (drawn <= size ? 0.5 : Math.min(1 - size / 2 / drawn, Math.max(size / 2 / drawn, (size / 2 - corner) / drawn)));
    this.u = middle(left, wide, drawnWide);
    this.v = middle(top, high, drawnHigh);
    this.apply();
  }

  fit() {
    this.zoom = 1;
    this.u = 0.5;
    this.v = 0.5;
    this.apply();
  }

  /** Toggles between one image pixel per screen pixel and the whole image. */
  actual(frame = this.main(), at = null) {
    if (!frame) return;
    if (Math.abs(this.place(frame).scale - 1) < 0.01) { this.fit(); return; }
    this.by(1 / this.fitting(frame).scale / this.zoom, frame, at);
  }
}

/**
 * Handles wheel, drag, pinch and double click on `surface`. `frameOf` returns the frame of an event; `grab` may take
 * over a drag by returning a function that receives its moves; `tap` is called for presses that were not drags.
 */
export function hands(surface, lens, frameOf, { grab = () => null, tap = () => {} } = {}) {
  const points = new Map();
  let taken = null;
  let moved = 0;
  const at = (frame, event) => { const box = frame.box.getBoundingClientRect(); return { x: event.clientX - box.left, y: event.clientY - box.top }; };
  surface.addEventListener("wheel", (event) => {
    const frame = frameOf(event);
    if (!frame) return;
    event.preventDefault();
    lens.by(Math.exp(-event.deltaY / 300), frame, at(frame, event));
  }, { passive: false });
  surface.addEventListener("dblclick", (event) => {
    const frame = frameOf(event);
    if (!frame) return;
    if (lens.fits) lens.by(Math.max(2, 1 / lens.fitting(frame).scale), frame, at(frame, event)); else lens.fit();
  });
  surface.addEventListener("pointerdown", (event) => {
    const frame = frameOf(event);
    if (!frame || event.button > 0) return;
    surface.setPointerCapture(event.pointerId);
    points.set(event.pointerId, { x: event.clientX, y: event.clientY, frame });
    moved = 0;
    taken = points.size === 1 ? grab(event, frame) : null;
    surface.classList.add("dragging");
  });
  surface.addEventListener("pointermove", (event) => {
    const before = points.get(event.pointerId);
    if (!before) return;
    const [dx, dy] = [event.clientX - before.x, event.clientY - before.y];
    moved += Math.abs(dx) + Math.abs(dy);
    if (taken) taken(event);
    else if (points.size === 2) {
      const other = [...points.entries()].find(([id]) => id !== event.pointerId)[1];
      const far = (x, y) => Math.max(1, Math.hypot(x - other.x, y - other.y));
      const middle = { clientX: (event.clientX + other.x) / 2, clientY: (event.clientY + other.y) / 2 };
      lens.by(far(event.clientX, event.clientY) / far(before.x, before.y), before.frame, at(before.frame, middle));
      lens.move(dx / 2, dy / 2, before.frame);
    } else lens.move(dx, dy, before.frame);
    points.set(event.pointerId, { ...before, x: event.clientX, y: event.clientY });
  });
  for (const name of ["pointerup", "pointercancel"]) {
    surface.addEventListener(name, (event) => {
      const before = points.get(event.pointerId);
      if (!before) return;
      points.delete(event.pointerId);
      if (points.size === 0) { surface.classList.remove("dragging"); if (name === "pointerup" && moved < 5) tap(event, before.frame); taken = null; }
    });
  }
}
