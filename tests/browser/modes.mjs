// How people set their systems: colours they force, less motion, text four times as large. A screenshot of each page, and what
// must still be told apart.

import { ask, axePath, done, go, open, same, shots, step, until } from "./browser.mjs";

const { sessions } = await ask("list-sessions");
const harbour = sessions.find((session) => session.title === "Harbour at dusk").id;
const set = [3, 5, 7, 8].map((index) => encodeURIComponent(`${harbour}#${index}`)).join(",");
const pages = {
  shelf: "/",
  images: "/search?q=rating:%3E%3D4",
  loupe: `/sessions/${harbour}/8`,
  grid: `/sessions/${harbour}/grid`,
  story: `/sessions/${harbour}/story`,
  tree: `/sessions/${harbour}/tree`,
  survey: `/compare?refs=${set}`,
  audit: `/sessions/${harbour}/audit`,
  workspace: "/workspace",
};
const opened = [];
const still = (page) => page.waitForFunction(() => [...document.images].every((image) => image.complete || image.loading === "lazy"));
const style = (page, selector, ...names) => page.locator(selector).first().evaluate((element, wanted) => wanted.map((name) => getComputedStyle(element)[name]), names);

for (const colorScheme of ["light", "dark"]) {
  const page = await open({ colorScheme, forcedColors: "active", bypassCSP: true });
  opened.push(page);
  await page.addInitScript({ path: axePath });
  for (const [name, path] of Object.entries(pages)) {
    await step(`${name} in forced colours, ${colorScheme}`, async () => {
      await go(page, path);
      await still(page);
      await page.screenshot({ path: `${shots}/forced-${name}-${colorScheme}.png` });
      // Forced colours are the reader's own: contrast is not ours to judge.
      const found = await page.evaluate(() => axe.run(document, { resultTypes: ["violations"], rules: { "color-contrast": { enabled: false } } }));
      same(found.violations.map((it) => `${it.id}: ${it.nodes.map((node) => node.html.slice(0, 120)).slice(0, 3).join(" | ")}`), [], "axe");
    });
  }
  await step(`states differ in forced colours, ${colorScheme}`, async () => {
    const differ = async (one, other, ...names) => until(async () => JSON.stringify(await style(page, one, ...names)) !== JSON.stringify(await style(page, other, ...names)), true, `${one} and ${other}`);
    await go(page, `/sessions/${harbour}/5`);
    await differ("#stars button.on", "#stars button:not(.on)", "color");
    await differ(".views a[aria-current]", ".views a:not([aria-current])", "outlineStyle", "borderBottomColor");
    await differ('.take[aria-current] .pic', '.take:not([aria-current]) .pic', "outlineColor", "outlineStyle");
    await page.keyboard.press("x");
    await until(() => page.locator("#reject").getAttribute("aria-pressed"), "true", "rejected");
    await differ("#reject", "#clear", "outlineStyle", "backgroundColor");
    await page.keyboard.press("x");
    await until(() => page.locator("#reject").getAttribute("aria-pressed"), "false", "no longer rejected");
    await go(page, "/");
    await differ(".choice a[aria-current]", ".choice a:not([aria-current])", "outlineStyle");
    await page.locator("#wall .card").first().focus();
    await page.keyboard.press("s");
    await differ("#wall .item[data-chosen] .cover", "#wall .item:not([data-chosen]) .cover", "outlineStyle", "outlineColor");
    await go(page, `/compare?refs=${set}`);
    await differ(".tile .stars button.on", ".tile .stars button:not(.on)", "color");
    await differ('[data-view-choice][aria-pressed="true"]', '[data-view-choice][aria-pressed="false"]', "outlineStyle");
  });
}

await step("with reduced motion, nothing moves by itself", async () => {
  const page = await open({ reducedMotion: "reduce" });
  opened.push(page);
  for (const path of Object.values(pages)) {
    await go(page, path);
    await until(() => page.evaluate(() => document.getAnimations().filter((it) => it.playState === "running").length), 0, path);
  }
  await go(page, `/compare?refs=${set}&view=pair&mode=blink`);
  await page.waitForSelector('#desk[data-mode="blink"]');
  await until(() => page.evaluate(() => document.getAnimations().length), 0, "blinking waits");
  await until(async () => /Space/.test(await page.locator("main").textContent()), true, "and says how");
});

// 1280 × 1024 at 400 % is what 320 × 256 is at 100 %.
await step("at 400 % everything is reachable by scrolling in one direction", async () => {
  const page = await open({ viewport: { width: 320, height: 256 }, deviceScaleFactor: 4 });
  opened.push(page);
  for (const [name, path] of Object.entries(pages)) {
    await go(page, path);
    await still(page);
    await page.screenshot({ path: `${shots}/zoomed-${name}.png` });
    await until(() => page.evaluate(() => document.documentElement.scrollWidth - innerWidth), 0, `${name} does not scroll sideways`);
    // What stays in place when one scrolls leaves most of the window to the content.
    const fixed = await page.evaluate(() => {
      scrollTo(0, 400);
      const boxes = [...document.querySelectorAll("body *")].filter((it) => ["fixed", "sticky"].includes(getComputedStyle(it).position) && getComputedStyle(it).visibility !== "hidden")
        .map((it) => it.getBoundingClientRect()).filter((box) => box.height > 0 && box.width > 160 && box.bottom > 0 && box.top < innerHeight);
      return boxes.reduce((sum, box) => sum + Math.min(box.bottom, innerHeight) - Math.max(box.top, 0), 0) / innerHeight;
    });
    same(fixed <= 0.34, true, `${name}: ${fixed} of the window stays in place`);
  }
});

await done(...opened);
