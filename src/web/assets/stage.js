// The stage of the loupe: the image or video that is shown, its preview while it loads, its parent while held, and full
// screen. What is shown next is loaded ahead.

import { make, one } from "./kit.js";
import { zoomable } from "./zoom.js";

const MAX_POOL = 9;
/** The media types of file names, for files that are dragged out of the window. */
const TYPES = { png: "image/png", jpg: "image/jpeg", jpeg: "image/jpeg", webp: "image/webp", gif: "image/gif" };

/**
 * Gives what is dragged out of the window the name of the original file. Its bytes are the original's, so that other
 * programs find the recipe in it.
 */
function taken(transfer) {
  const download = one("#facts:not(.stale) #download");
  const name = download?.getAttribute("download");
  const type = TYPES[name?.split(".").at(-1).toLowerCase()];
  if (!type) return;
  transfer.setData("DownloadURL", `${type}:${name.replaceAll(":", "-")}:${download.href}`);
  transfer.effectAllowed = "copy";
}

/**
 * Sets up the stage. `turned(by)` is called after a swipe, `failed()` if the image cannot be loaded.
 */
export function theStage({ turned, failed }) {
  const stage = one("#stage");
  const frame = one("#frame");
  const canvas = one(".canvas", frame) ?? make("figure", { class: "canvas" });
  const preview = make("img", { class: "preview", alt: "" });
  const before = make("img", { class: "before", alt: "", hidden: true });
  let picture = one(".picture", canvas);
  const pool = new Map();
  if (canvas.parentElement !== frame) frame.prepend(canvas);

  const zoom = zoomable(frame, canvas, {
    shown(percent, fits) {
      const level = one("#level");
      if (level) { level.textContent = fits ? `Fit · ${percent} %` : `${percent} %`; level.setAttribute("aria-label", `Zoom: ${fits ? "fit, " : ""}${percent} %`); }
    },
    turned,
    taken,
  });

  /** Returns a cached image, so that it appears at once when shown again. */
  function pooled(hash) {
    let kept = pool.get(hash);
    if (!kept) {
      kept = make("img", { class: "picture", alt: "" });
      kept.src = `/images/${hash}`;
    }
    pool.delete(hash);
    pool.set(hash, kept);
    if (pool.size > MAX_POOL) pool.delete(pool.keys().next().value);
    return kept;
  }

  /** Returns the video player; one that is already shown is not loaded again. */
  function player(hash) {
    const source = `/images/${hash}`;
    if (picture?.matches(`video[src="${source}"]`)) return picture;
    return make("video", { class: "picture", src: source, poster: `/thumbs/${hash}`, controls: true, preload: "metadata", playsinline: true });
  }

  /** Returns the element for a file: an image, a video, or an empty placeholder over the preview. */
  function pictured(shown) {
    if (shown.video) return player(shown.hash);
    return shown.file ? make("img", { class: "picture", alt: "" }) : pooled(shown.hash);
  }

  /** Shows an image: `{ hash, width, height, file, video }`; without one, the text `none`. */
  function show(shown, caption, none) {
    const old = picture;
    one(".gone", frame)?.remove();
    canvas.hidden = !shown;
    before.hidden = true;
    delete frame.dataset.bare;
    if (shown) {
      preview.src = `/thumbs/${shown.hash}`;
      preview.hidden = false;
      picture = pictured(shown);
      const mine = picture;
      if (shown.video) picture.setAttribute("aria-label", caption); else picture.alt = caption;
      // Leave elements that are already in the page: a video that is moved stops playing.
      if (picture.parentElement === canvas) { for (const other of [...canvas.children]) if (other !== picture) other.remove(); canvas.prepend(preview); canvas.append(before); } else canvas.replaceChildren(preview, picture, before);
      const size = () => {
        const [width, height] = [shown.width || mine.naturalWidth || mine.videoWidth || preview.naturalWidth, shown.height || mine.naturalHeight || mine.videoHeight || preview.naturalHeight];
        if (width && height) stage.style.setProperty("--ratio", width / height);
        zoom.show(width, height);
      };
      size();
      // An image that failed has no size; once a transparent image is loaded, the preview must not show through it.
      if ((mine.complete && mine.naturalWidth > 0) || mine.readyState > 0) preview.hidden = true;
      else {
        mine.addEventListener(shown.video ? "loadedmetadata" : "load", () => { if (mine === picture) { preview.hidden = true; size(); } }, { once: true });
        preview.addEventListener("load", () => { if (mine === picture && !shown.width) size(); }, { once: true });
      }
    } else {
      canvas.replaceChildren();
      frame.append(make("div", { class: "gone" }, make("strong", {}, none)));
    }
    // A video that was removed from the page would keep playing.
    if (old !== picture || !shown) old?.pause?.();
  }

  /** Shows the server's explanation in place of a missing image. */
  function explain(gone) {
    one(".gone", frame)?.remove();
    if (!gone) return;
    const copy = gone.cloneNode(true);
    const isBroken = picture?.classList.contains("failed") || (picture?.complete && picture.naturalWidth === 0 && picture.hasAttribute("src"));
    if (copy.classList.contains("note")) copy.hidden = copy.dataset.when === "failed" && !isBroken;
    frame.append(copy);
  }

  // If an image fails to load, the preview stays, with a message.
  frame.addEventListener("error", (event) => {
    if (event.target === preview) frame.dataset.bare = "yes";
    if (event.target !== picture) return;
    picture.classList.add("failed");
    failed();
  }, true);

  return {
    show,
    explain,
    zoom,
    isEmpty: () => canvas.hidden,
    /** Loads an image ahead, so that it appears at once. */
    prepare: pooled,
    /** Keeps the image that came with the page. */
    keep(hash) { if (picture && !picture.classList.contains("stand-in")) pool.set(hash, picture); },
    /** Shows the parent's image in place of the current one; null ends that. */
    hold(hash) {
      stage.toggleAttribute("data-held", hash !== null);
      before.hidden = hash === null;
      if (hash === null) return;
      before.src = `/images/${hash}`;
      before.onerror = () => { if (!before.src.includes("/thumbs/")) before.src = `/thumbs/${hash}`; };
    },
    /** Forgets images that could not be loaded, to try again. */
    retry() { for (const [hash, kept] of pool) if (kept !== picture && kept.complete && kept.naturalWidth === 0) pool.delete(hash); },
  };
}

// Full screen: only the image. Without browser support, it fills the window.

export const isFull = () => document.body.hasAttribute("data-full");
export function full(on) {
  document.body.toggleAttribute("data-full", on);
  if (on) document.documentElement.requestFullscreen?.().catch(() => {});
  else if (document.fullscreenElement) document.exitFullscreen().catch(() => {});
}
document.addEventListener("fullscreenchange", () => { if (!document.fullscreenElement && isFull()) full(false); });
