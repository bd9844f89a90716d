// Runs on every page: the search box, keyboard shortcuts, change events, the tray, and the page's own script.

import { all, one, say, tellTimes } from "./kit.js";
import { key, labelShortcuts, showKeys } from "./keys.js";
import "./motion.js";
import { tray } from "./tray.js";

const pages = {
  sessions: () => import("./wall.js"),
  search: () => import("./wall.js"),
  session: () => import("./session.js"),
  grid: () => import("./grid.js"),
  story: () => import("./story.js"),
  tree: () => import("./tree.js"),
  compare: () => import("./compare.js"),
  audit: () => import("./provenance.js"),
  workspace: () => import("./provenance.js"),
};

const search = one("#search");
key(["/"], "Search", () => { search.focus(); search.select(); }, "Everywhere");
key(["?"], "Show the keys", showKeys, "Everywhere");
key(["g"], one("#crumb") ? "" : "All sessions", () => location.assign("/"), "Everywhere");
one("#keys")?.addEventListener("click", showKeys);

// Cycles through the themes: automatic, light, dark.
const THEMES = ["automatic", "light", "dark"];
const root = document.documentElement;
const showTheme = () => {
  const button = one("#theme");
  const label = `Theme: ${root.dataset.theme ?? "automatic"}`;
  button?.setAttribute("aria-label", label);
  if (button) button.title = label;
};
one("#theme")?.addEventListener("click", () => {
  const next = THEMES[(THEMES.indexOf(root.dataset.theme ?? "automatic") + 1) % THEMES.length];
  if (next === "automatic") delete root.dataset.theme; else root.dataset.theme = next;
  try {
    if (next === "automatic") localStorage.removeItem("retake-theme"); else localStorage.setItem("retake-theme", next);
  } catch { /* The theme then lasts until the page is left. */ }
  showTheme();
  say(`Theme: ${next}`);
});
showTheme();
// An empty search shows all sessions. The wall handles its own search while the user types.
search?.form.addEventListener("submit", (event) => {
  if (!one("#carried").dataset.emptied && search.value.trim() === "") { event.preventDefault(); location.assign("/"); }
});
// An image that fails to load keeps its space and shows a message; it is requested again when the server is back.
const failed = (image) => { if (image.tagName === "IMG") image.classList.add("failed"); };
document.addEventListener("error", (event) => failed(event.target), true);
document.addEventListener("load", (event) => event.target.classList?.remove("failed"), true);
all("img").filter((image) => image.complete && image.naturalWidth === 0 && image.currentSrc).forEach(failed);
const tryAgain = () => all("img.failed").forEach((image) => { const { src } = image; image.src = ""; image.src = src; });

/** Reports changes to the page's script: `change` with the session and the kind, `missed` if events may have been lost.
    */
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
      // The browser stops retrying after an error response; the server may have restarted or have capacity again.
      if (source.readyState === EventSource.CLOSED) setTimeout(() => { if (!document.hidden) open(); }, 3000);
    };
  };
  // A browser opens at most six connections per server across all tabs, so hidden tabs release theirs.
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
else listen(() => {});
labelShortcuts();
document.documentElement.dataset.ready = "yes";
addEventListener("unhandledrejection", (event) => {
  if (event.reason?.name === "AbortError") return;
  say(event.reason?.message ?? "Something went wrong");
});
