// Shows the iterations of a session one after the other in full screen, until a key or the image is pressed.

import { say } from "./kit.js";

const EVERY = 4000;

/** `start` goes to full screen, `next` shows the next image. */
export function slideshow({ start, next }) {
  let timer = 0;
  const stop = () => {
    clearInterval(timer);
    for (const name of ["keydown", "pointerdown"]) removeEventListener(name, stop, true);
    document.removeEventListener("fullscreenchange", left);
  };
  const left = () => { if (!document.fullscreenElement) stop(); };
  return {
    start() {
      stop();
      start();
      say("Press any key to stop");
      timer = setInterval(next, EVERY);
      for (const name of ["keydown", "pointerdown"]) addEventListener(name, stop, true);
      document.addEventListener("fullscreenchange", left);
    },
  };
}
