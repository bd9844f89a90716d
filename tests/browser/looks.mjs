// Every page in light and dark, on a desktop and on a phone: a screenshot each, and no finding of axe.

import { ask, axePath, done, go, open, same, shots, step, until } from "./browser.mjs";

const { sessions } = await ask("list-sessions");
const named = (title) => sessions.find((session) => session.title === title).id;
const harbour = named("Harbour at dusk");
const both = [3, 8].map((index) => encodeURIComponent(`${harbour}#${index}`)).join(",");
const pages = {
  sessions: "/",
  archived: "/?status=archived",
  session: `/sessions/${harbour}/8`,
  grid: `/sessions/${harbour}/grid`,
  story: `/sessions/${harbour}/story`,
  failed: `/sessions/${named("Northern lights")}/2`,
  compare: `/compare?refs=${both}`,
  slider: `/compare?refs=${both}&mode=slider`,
  difference: `/compare?refs=${both}&mode=difference`,
  heat: `/compare?refs=${both}&mode=heat`,
  search: "/search?q=lighthouse",
  "search-sessions": "/search?q=lighth&by=session&typing=1",
  "search-nothing": "/search?q=unheard-of",
  "search-wrong": "/search?q=rating:",
  projects: "/projects",
  audit: `/sessions/${harbour}/audit`,
  workspace: "/workspace",
  "not-here": "/nothing",
};

const opened = [];
for (const colorScheme of ["light", "dark"]) {
  // A phone, a desktop, a large and the largest screen, on which only pages with images change further.
  for (const [width, height] of [[360, 800], [1440, 900], [2560, 1440], [3840, 2160]]) {
    const page = await open({ colorScheme, bypassCSP: true, reducedMotion: "reduce", viewport: { width, height } });
    opened.push(page);
    await page.addInitScript({ path: axePath });
    const looked = Object.entries(pages).filter(([name]) => width < 3840 || ["sessions", "session", "compare", "search"].includes(name));
    for (const [name, path] of looked) {
      await step(`${name} in ${colorScheme} at ${width}`, async () => {
        await go(page, path);
        await page.waitForFunction(() => [...document.images].every((image) => image.complete || image.loading === "lazy"));
        await page.waitForFunction(() => !document.querySelector("[data-seen]:not(:has(#seen)), [data-waiting]"));
        await page.screenshot({ path: `${shots}/${name}-${colorScheme}-${width}.png` });
        await until(() => page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), true, "it does not scroll sideways");
        const found = await page.evaluate(() => axe.run(document, { resultTypes: ["violations"] }));
        same(found.violations.map((it) => `${it.impact} ${it.id}: ${it.nodes.map((node) => node.html).slice(0, 3).join(" | ")}`), [], "axe");
      });
    }
  }
}

await step("a page without images is smaller than 100 kB", async () => {
  const page = await open();
  opened.push(page);
  const sizes = [];
  page.on("response", (response) => {
    if (/\/(images|thumbs|events)/.test(response.url())) return;
    // As it was sent: pages, styles and scripts are compressed.
    sizes.push(response.finished().then(() => response.request().sizes()).then((it) => it.responseBodySize, () => 0));
  });
  await go(page, pages.session);
  const bytes = (await Promise.all(sizes)).reduce((sum, size) => sum + size, 0);
  same(bytes > 20000 && bytes < 100000, true, `${bytes} bytes`);
});

await done(...opened);
