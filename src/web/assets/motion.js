// Videos on the shelf and in the grid: played muted while hovered or focused.

import { make, one } from "./kit.js";

const calm = matchMedia("(prefers-reduced-motion: reduce)");
let playing = null;

function stop() {
  playing?.pause();
  playing?.remove();
  playing = null;
}

function start(place) {
  if (calm.matches || playing?.parentElement === place) return;
  stop();
  const video = make("video", { class: "motion", src: `/images/${place.dataset.video}`, loop: true, playsinline: true, "aria-hidden": "true", tabindex: "-1" });
  video.muted = true;
  // If the browser does not support the codec, the poster stays.
  video.addEventListener("error", () => video.remove(), { once: true });
  playing = video;
  place.append(video);
  video.play().catch(() => {});
}

const follow = (place) => { if (place) start(place); else stop(); };
document.addEventListener("pointerover", (event) => follow(event.target.closest?.("[data-video]")));
document.addEventListener("focusin", (event) => follow(event.target.matches?.("a") ? one("[data-video]", event.target) : null));
