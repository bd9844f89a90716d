// The gallery in a real browser: how long until something is seen, until the end of the wall is there after a jump to it,
// and from a key in the search box to what it finds. Prints one line of JSON with all the milliseconds.

import { browser, go, open } from "../../tests/browser/browser.mjs";

const ROUNDS = 7;
const TYPED = process.argv[4];
const figures = { painted: [], ready: [], end: [], typed: [] };

for (let round = 0; round < ROUNDS; round += 1) {
  // Nothing in its cache, as on the first visit.
  const page = await open();
  await go(page, "/");
  figures.painted.push(await page.evaluate(() => performance.getEntriesByName("first-contentful-paint")[0].startTime));
  figures.ready.push(await page.evaluate(() => performance.now()));
  figures.end.push(await page.evaluate(async () => {
    const wall = document.querySelector("#wall");
    const last = Math.ceil(Number(wall.dataset.total) / 60) - 1;
    const begun = performance.now();
    scrollTo(0, document.documentElement.scrollHeight);
    while (!document.querySelector(`.part[data-part="${last}"]`)) await new Promise(requestAnimationFrame);
    await new Promise(requestAnimationFrame);
    return performance.now() - begun;
  }));
  await page.evaluate(() => scrollTo(0, 0));
  await page.locator("#search").focus();
  for (let end = 1; end <= TYPED.length; end += 1) {
    figures.typed.push(await page.evaluate(async (text) => {
      const box = document.querySelector("#search");
      const begun = performance.now();
      box.value = text;
      box.dispatchEvent(new InputEvent("input"));
      while (new URL(location.href).searchParams.get("q") !== text) await new Promise(requestAnimationFrame);
      await new Promise(requestAnimationFrame);
      return performance.now() - begun;
    }, TYPED.slice(0, end)));
  }
  await page.context().close();
}
console.log(JSON.stringify(figures));
await browser.close();
