// Every page: the search box, the keys, news from the server, the tray; and the script of the page itself.

import { all, calmly, key, one, say, showKeys, tellTimes } from "./kit.js";
import { tray } from "./tray.js";

const pages = {
  sessions: () => import("./wall.js"),
  search: () => import("./wall.js"),
  session: () => import("./session.js"),
  compare: () => import("./compare.js"),
};

const search = one("#search");
key(["/"], "Search", () => { search.focus(); search.select(); });
key(["?"], "Show the keys", showKeys);
key(["g"], "All sessions", () => location.assign("/"));
one("#keys")?.addEventListener("click", showKeys);
// An empty search is all sessions. The wall answers by itself, while one types.
search?.form.addEventListener("submit", (event) => {
  if (!one("#carried").dataset.emptied && search.value.trim() === "") { event.preventDefault(); location.assign("/"); }
});
// A picture that does not come leaves its place, and a word there; it is asked for again when the server is back.
const failed = (image) => { if (image.tagName === "IMG") image.classList.add("failed"); };
document.addEventListener("error", (event) => failed(event.target), true);
document.addEventListener("load", (event) => event.target.classList?.remove("failed"), true);
all("img").filter((image) => image.complete && image.naturalWidth === 0 && image.currentSrc).forEach(failed);
const tryAgain = () => all("img.failed").forEach((image) => { const { src } = image; image.src = ""; image.src = src; });

/** Tells the page's script what happens: `change` with the session and what, `missed` when something may be missing. */
function listen(heard) {
  let source;
  let gap = false;
  const offline = one("#offline");
  const open = () => {
    source = new EventSource("/events");
    source.addEventListener("ready", () => {
      offline.hidden = true;
      document.documentElement.dataset.live = "yes";
      if (gap) { tryAgain(); heard({ kind: "missed" }); }
      gap = false;
    });
    source.addEventListener("change", (event) => heard(JSON.parse(event.data)));
    source.addEventListener("missed", () => heard({ kind: "missed" }));
    source.onerror = () => {
      gap = true;
      delete document.documentElement.dataset.live;
      offline.hidden = false;
      // The browser gives up when the server says no; it may have restarted with room.
      if (source.readyState === EventSource.CLOSED) setTimeout(() => { if (!document.hidden) open(); }, 3000);
    };
  };
  // A browser opens six connections to a server, for all its windows together: those nobody looks at give theirs back.
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) { source?.close(); gap = true; } else if (!source || source.readyState === EventSource.CLOSED) open();
  });
  addEventListener("pagehide", () => { source?.close(); gap = true; });
  addEventListener("pageshow", (event) => { if (event.persisted) open(); });
  if (!document.hidden) open();
}

tellTimes();
setInterval(() => { all("time[title]").forEach((time) => time.removeAttribute("title")); tellTimes(); }, 60000);
tray.start();

const page = await pages[document.body.dataset.page]?.();
const news = page?.heard;
if (news) listen(news);
else listen(calmly(500, () => {}));
document.documentElement.dataset.ready = "yes";
addEventListener("unhandledrejection", (event) => {
  if (event.reason?.name === "AbortError") return;
  say(event.reason?.message ?? "Something went wrong");
});
