// The header shared by all views of a session: the back link, renaming, the project, archiving, the menu, copying, the
// number of images in the tray, and the shortcuts for the views.

import { all, ask, askText, copy, make, one, part, say, sayWhy, settings, swap, tellTimes } from "./kit.js";
import { key, withKey } from "./keys.js";
import { neighbours } from "./results.js";
import { tray } from "./tray.js";
import { undo, write } from "./writes.js";

const main = one("main");
export const session = main.dataset.session;
export const sessionName = () => main.dataset.name;

// Back to where the user came from: the wall in its previous state, or search results.
const crumb = one("#crumb");
const remembered = `retake-from:${session}`;
const isList = (address) => address.origin === location.origin && (address.pathname === "/" || address.pathname === "/search");
/** Whether the previous history entry is the list that the user came from. */
let justCame = false;
try {
  const before = document.referrer ? new URL(document.referrer) : null;
  if (before && isList(before)) { justCame = true; sessionStorage.setItem(remembered, before.pathname + before.search); }
  const from = sessionStorage.getItem(remembered);
  if (from) crumb.href = from;
  if (from?.startsWith("/search")) { crumb.title = "Back to the results"; crumb.setAttribute("aria-label", "Back to the results"); }
} catch {
  // Storage is blocked: the back link leads to all sessions.
}
/** Goes back in the browser history if possible, which restores the scroll position. */
function leave() {
  if (justCame && history.length > 1) history.back();
  else location.assign(crumb.href);
}
crumb.addEventListener("click", (event) => {
  if (event.metaKey || event.ctrlKey || event.shiftKey) return;
  event.preventDefault();
  leave();
});

/** Shows links to the results before and after, if the user came from a search. They replace each other in the history. */
function otherResults() {
  const from = crumb.getAttribute("href");
  const found = neighbours(from, location.pathname);
  if (!found) return;
  const link = (text, name, usual, to) => make("a", {
    href: to, title: name, "aria-label": name, "data-shortcut": usual,
    onclick: (event) => {
      if (event.metaKey || event.ctrlKey || event.shiftKey) return;
      event.preventDefault();
      try { sessionStorage.setItem(`retake-from:${to.split("/")[2]}`, from); } catch { /* Then its back link leads to all sessions. */ }
      location.replace(to);
    },
  }, text);
  const links = { before: found.before && link("←", "Previous result", ",", found.before), after: found.after && link("→", "Next result", ".", found.after) };
  crumb.after(make("span", { class: "results" }, links.before, links.after));
  for (const [name, usual, text] of [["before", ",", "Previous result"], ["after", ".", "Next result"]]) key([usual], text, () => { links[name]?.click(); }, "Views");
}
otherResults();

/** Reloads the header, unless the user is typing in it. */
export async function refreshHead() {
  const { headers, content } = await part(`/sessions/${session}/head`);
  const about = one("#about", content);
  main.dataset.name = decodeURIComponent(headers.get("x-name") ?? main.dataset.name);
  main.toggleAttribute("data-archived", about.hasAttribute("data-archived"));
  if (!one("#about form")) { tellTimes(about); swap(one("#about"), about); }
  const archive = one("#more [data-do='archive']");
  if (archive) archive.textContent = about.hasAttribute("data-archived") ? "Restore…" : "Archive…";
}

const archived = () => main.hasAttribute("data-archived");

/** Edits the title in place. Enter saves, Escape cancels. */
function rename() {
  one("#more").open = false;
  const about = one("#about");
  if (one("form", about)) return;
  const heading = one("h1", about);
  const before = about.dataset.title ?? "";
  const input = make("input", { type: "text", "aria-label": "Title", placeholder: sessionName(), maxlength: 300, dir: "auto" });
  input.value = before;
  const form = make("form", { class: "renaming" }, input, make("button", { type: "submit", class: "primary" }, "Save"));
  const done = () => { form.remove(); heading.classList.remove("sr"); one(".rename", about)?.focus(); };
  form.addEventListener("keydown", (event) => { if (event.key === "Escape") { event.preventDefault(); event.stopPropagation(); done(); } });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const title = input.value.trim();
    done();
    if (title !== before) retitle(title, before);
  });
  heading.classList.add("sr");
  heading.after(form);
  input.focus();
  input.select();
}

function retitle(title, before) {
  const show = (text) => { const heading = one("#about h1"); if (heading && text) heading.textContent = text; };
  write({
    about: session,
    verb: "update-session",
    change: { sessionId: session, title },
    back: { sessionId: session, title: before },
    show: () => show(title),
    unshow: () => show(before || sessionName()),
    said: title ? `Renamed to “${title}”` : "Title removed",
    after: (saved) => { if (saved) refreshHead().catch(sayWhy); },
  });
}

async function project() {
  one("#more").open = false;
  const before = one("#about").dataset.project ?? "";
  const text = await askText("Project", "Name; empty for none", "Save", { value: before, rows: 1 });
  if (text === null || text.trim() === before) return;
  const project = text.trim();
  write({
    about: session,
    verb: "update-session",
    change: { sessionId: session, project },
    back: { sessionId: session, project: before },
    show: () => {},
    unshow: () => {},
    said: project ? `Moved to “${project}”` : "Project removed",
    after: (saved) => { if (saved) refreshHead().catch(sayWhy); },
  });
}

async function putAway() {
  one("#more").open = false;
  const was = archived();
  const [verb, other] = was ? ["restore-session", "archive-session"] : ["archive-session", "restore-session"];
  const hint = was ? "Iterations can be added again." : "No iterations can be added until it is restored. Nothing is deleted.";
  const reason = await askText(was ? "Restore this session" : "Archive this session", "Reason (kept in the audit trail)", was ? "Restore" : "Archive", { hint, rows: 2 });
  if (reason === null) return;
  try {
    await ask(verb, { sessionId: session, reason });
    await refreshHead();
    say(was ? "Restored" : "Archived", { name: "Undo", run: async () => {
      try { await ask(other, { sessionId: session, reason: "undone" }); await refreshHead(); } catch (error) { sayWhy(error); }
    } });
  } catch (error) { sayWhy(error); }
}

document.addEventListener("click", async (event) => {
  const button = event.target.closest("button[data-do]");
  if (!button) return;
  const { do: what, from, text, path } = button.dataset;
  if (what === "rename") rename();
  if (what === "project") project();
  if (what === "archive") putAway();
  if (what === "copy") {
    try {
      const taken = path ? await (await fetch(path)).text() : (text ?? one(from)?.textContent ?? "");
      copy(taken, button.dataset.what);
    } catch (error) { sayWhy(error); }
  }
});

for (const box of all("[data-setting]")) {
  box.checked = settings.get(box.dataset.setting);
  box.addEventListener("change", () => settings.set(box.dataset.setting, box.checked));
}

// On these pages, the tray is only a number in the bar and never covers the image.
const count = () => {
  const { length } = tray.items();
  // The tray may add its own button with the count.
  one("#compare-count").textContent = length > 0 && !one("#tray-count") ? ` (${length})` : "";
  one("#compare-link").title = length > 1 ? withKey(`Compare ${length}`, "C") : "Compare";
};
new MutationObserver(count).observe(one("#tray"), { childList: true });
count();
one("#compare-link").addEventListener("click", (event) => {
  if (event.metaKey || event.ctrlKey || tray.items().length < 2) return;
  event.preventDefault();
  tray.compare();
});

const view = (name) => () => { one(`.views [data-view="${name}"]`).click(); };
key(["e"], "Loupe", view("session"), "Views");
key(["g"], "Grid", view("grid"), "Views");
key(["s"], "Story", view("story"), "Views");
key(["T"], "Tree", view("tree"), "Views");
key(["Escape"], "Back to all sessions or results", leave, "Views");
key(["r"], "Rename the session", rename, "Session");
key(["a"], "Archive or restore", putAway, "Session");
key(["u"], "Undo", undo, "Reviewing");
addEventListener("keydown", (event) => {
  if (event.key.toLowerCase() !== "z" || !(event.ctrlKey || event.metaKey) || event.shiftKey) return;
  if (event.target.closest?.("input, textarea") || one("dialog[open]")) return;
  event.preventDefault();
  undo();
});
