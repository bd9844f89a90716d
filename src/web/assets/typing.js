// Search while typing: the page that the server renders for the current query replaces the content, and its URL
// replaces the current one, so that Back leads to the page before the search and a reload shows the same results.

import { workspace } from "/here.js";
import { all, askText, calmly, keepFocus, make, one, page, say, sayWhy, tellTimes } from "./kit.js";
import { tray } from "./tray.js";

/**
 * Milliseconds to wait after a keystroke: long enough for fast typists to finish some words, short enough to feel
 * instant.
 */
const PAUSE = 120;

/**
 * Makes the search box update the page while the user types; `shown(kept)` is called after new content is shown, with
 * `kept` if it answers the same query. Returns a function that reloads the current results.
 */
export function typing(shown) {
  const box = one("#search");
  const said = one("#asking");
  let asked;

  /**
   * Returns the URL for the current query. The last word counts as a prefix, even after Enter, so that Enter leads to
   * the results that are already shown.
   */
  const address = () => {
    if (box.value.trim() === "") return one("#carried").dataset.emptied;
    const query = new URLSearchParams(new FormData(box.form));
    query.set("typing", "1");
    return `/search?${query}`;
  };

  const whisper = (text, unfinished) => {
    said.textContent = text;
    said.classList.toggle("unfinished", unfinished);
    box.setAttribute("aria-invalid", unfinished);
  };

  /** Shows the results at a URL. A response that arrives after a newer request is dropped. */
  async function show(path, quiet = false) {
    asked?.abort();
    const mine = new AbortController();
    asked = mine;
    if (!quiet) document.body.setAttribute("data-asking", "");
    try {
      const found = await page(path, mine.signal);
      if (asked !== mine) return false;
      const main = one("main", found);
      const { unfinished, hint } = main.dataset;
      if (unfinished) { whisper(`${unfinished}: ${hint}`, true); return false; }
      keepPictures(main);
      tellTimes(main);
      if (quiet) keepOpen(main);
      keepFocus(() => one("main").replaceWith(main));
      one("#carried").replaceWith(one("#carried", found));
      document.title = found.title;
      document.body.dataset.page = found.body.dataset.page;
      history.replaceState(history.state, "", path);
      if (!quiet) { scrollTo(0, 0); whisper(one("#found")?.textContent ?? "", false); }
      shown(quiet);
      tray.show();
      return true;
    } catch (error) {
      if (error.name !== "AbortError") sayWhy(error);
      return false;
    } finally {
      if (asked === mine) { asked = null; document.body.removeAttribute("data-asking"); }
      if (!asked && again) { again = false; reload(); }
    }
  }

  /** Reloads the results; after the current request, whose response may be older than what made this necessary. */
  let again = false;
  async function reload() {
    if (asked) again = true; else await show(location.pathname + location.search, true);
  }

  const ask = calmly(PAUSE, () => show(address()));
  box.addEventListener("input", (event) => { if (!event.isComposing) ask(); });
  box.addEventListener("compositionend", ask);
  box.addEventListener("blur", () => { if (!said.classList.contains("unfinished")) whisper("", false); });
  box.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown") { event.preventDefault(); one("#wall .card")?.focus(); }
  });
  box.form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const here = location.pathname + location.search;
    if (here === address() || await show(address())) one("#wall .card")?.focus();
  });
  return reload;
}

/** Leaves the lists and filters open that are open now. */
function keepOpen(main) {
  const name = (details) => one("summary", details)?.textContent;
  const now = new Map(all("main details").map((details) => [name(details), details]));
  for (const details of all("details", main)) {
    const old = now.get(name(details));
    if (!old) continue;
    details.open = old.open;
    // What it loaded when it was opened.
    if (old.dataset.loaded) { details.dataset.loaded = "yes"; one("div", details).replaceChildren(...one("div", old).cloneNode(true).childNodes); }
  }
}

const SAVED = `retake-searches ${workspace}`;
const saved = () => { try { const kept = JSON.parse(localStorage.getItem(SAVED) ?? "[]"); return Array.isArray(kept) ? kept.filter((it) => typeof it?.name === "string" && typeof it?.address === "string" && it.address.startsWith("/")) : []; } catch { return []; } };
const keep = (searches) => { try { localStorage.setItem(SAVED, JSON.stringify(searches.slice(0, 40))); } catch { say("Storage is blocked: the search cannot be saved"); } };

/** Sets up the menu of searches saved in this browser. */
export function savedSearches() {
  const menu = one("details.saved");
  if (!menu) return;
  menu.hidden = false;
  const draw = () => {
    const here = new URL(location.href);
    here.searchParams.delete("typing");
    here.searchParams.delete("from");
    const now = `${here.pathname}${here.search}`;
    const rows = saved().map(({ name, address }) => make("li", {},
      make("a", { href: address, "aria-current": address === now ? "true" : null }, make("span", { dir: "auto" }, name)),
      make("button", { type: "button", class: "quiet", "aria-label": `Forget ${name}`, onclick: () => { keep(saved().filter((it) => it.name !== name)); draw(); one("summary", menu).focus(); } }, "×")));
    const add = make("button", { type: "button", onclick: async () => {
      const name = (await askText("Save this search", "Name", "Save", { value: one("#search").value.trim(), rows: 1 }))?.trim();
      if (!name) return;
      keep([{ name, address: now }, ...saved().filter((it) => it.name !== name)]);
      draw();
      say(`Search “${name}” saved`);
    } }, "Save what is shown…");
    one("#saved", menu).replaceChildren(make("ul", { class: "sets-list" }, ...rows), add);
  };
  draw();
}

/** Reuses the elements of unchanged cards, so that their images do not flicker. */
function keepPictures(main) {
  const old = new Map(all("#wall .cover > img").map((image) => [image.getAttribute("src"), image]));
  for (const image of all("#wall .cover > img", main)) {
    const same = old.get(image.getAttribute("src"));
    if (same) { old.delete(image.getAttribute("src")); image.replaceWith(same); }
  }
}
