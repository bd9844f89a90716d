// The story of a session: rendered by the server, and reloaded when the session changes.

import { keepFocus, one, page, steadily, tellTimes } from "./kit.js";
import { refreshHead, session } from "./head.js";

const main = one("main");
const again = steadily(300, async () => {
  const fresh = one("main", await page(location.pathname + location.search));
  const open = [...main.querySelectorAll("details[open]")].length > 0;
  keepFocus(() => main.replaceChildren(...[...fresh.childNodes].map((node) => document.importNode(node, true))));
  if (open) for (const details of main.querySelectorAll("details")) details.open = true;
  tellTimes(main);
  await refreshHead();
});

export function heard(news) {
  if (news.kind === "missed" || news.session === session) again();
}
