// The tray: iterations collected to compare, across sessions and windows. Kept by the browser.

import { all, key, make, one, say } from "./kit.js";

const NAME = "retake-tray";
const MOST = 12;

/** What is in it: `{ reference, image }`. */
function read() {
  try {
    const kept = JSON.parse(localStorage.getItem(NAME) ?? "[]");
    return kept.filter((item) => typeof item?.reference === "string").slice(0, MOST);
  } catch {
    return [];
  }
}

function write(items) {
  try {
    localStorage.setItem(NAME, JSON.stringify(items));
  } catch {
    say("This browser keeps nothing: the tray is gone when the page is");
  }
  show();
}

/** Where to compare these. */
export const compareAddress = (references) => `/compare?refs=${references.map((it) => encodeURIComponent(it)).join(",")}`;

function show() {
  const items = read();
  const box = one("#tray");
  box.hidden = items.length === 0;
  const rows = items.map((item) =>
    make(
      "li",
      {},
      make("a", { href: `/sessions/${item.reference.replace("#", "/")}`, title: item.reference, "aria-label": item.reference },
        item.image ? make("img", { src: `/thumbs/${item.image}`, alt: "" }) : make("span", { class: "none" })),
      make("button", { type: "button", "aria-label": `Take ${item.reference} out`, onclick: () => tray.remove(item.reference) }, "×"),
    ),
  );
  box.replaceChildren(
    make("ol", {}, ...rows),
    make("button", { type: "button", class: "quiet", onclick: () => write([]) }, "Clear"),
    make("button", { type: "button", class: "primary", disabled: items.length < 2, onclick: () => tray.compare() }, `Compare ${items.length}`),
  );
  for (const button of all("[data-tray]")) {
    const held = items.some((item) => item.reference === button.dataset.tray);
    button.setAttribute("aria-pressed", held);
    button.textContent = held ? "In the tray" : "Add to compare";
  }
}

export const tray = {
  start() {
    show();
    addEventListener("storage", (event) => { if (event.key === NAME) show(); });
    document.addEventListener("click", (event) => {
      const button = event.target.closest("[data-tray]");
      if (button) tray.toggle(button.dataset.tray, button.dataset.image);
    });
    key(["C"], "Compare what is in the tray", () => tray.compare());
  },
  show,
  items: read,
  toggle(reference, image) {
    const items = read();
    if (items.some((item) => item.reference === reference)) return tray.remove(reference);
    if (items.length >= MOST) return say(`At most ${MOST} can be compared`);
    write([...items, { reference, image }]);
    say(`${reference} is in the tray`);
  },
  remove(reference) {
    write(read().filter((item) => item.reference !== reference));
  },
  compare() {
    const items = read();
    if (items.length < 2) return say("Collect at least two with c");
    location.assign(compareAddress(items.map((item) => item.reference)));
  },
};
