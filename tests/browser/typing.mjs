// Search as you type, by keyboard: on the wall of sessions and on results.

import { addressed, ask, base, done, go, open, shots, step, until } from "./browser.mjs";

const page = await open();
const heading = (text) => page.waitForFunction((text) => document.querySelector("h1")?.textContent === text, text);
const names = () => page.locator(".card .name").allTextContents();

await step("the wall shows the matches while typing, and the URL follows", async () => {
  await go(page, "/workspace");
  await go(page, "/");
  await page.keyboard.press("/");
  await page.keyboard.type("lightho");
  await heading("2 sessions");
  await addressed(page, (url) => url.search, "?q=lightho&by=session&typing=1", "the address");
  await until(() => page.title(), "lightho · Search · Retake", "the title");
  await until(async () => await page.evaluate(() => document.activeElement.id), "search", "the focus stays");
  await until(async () => (await names()).includes("Harbour at dusk"), true, "the harbour is found");
  await until(async () => await page.locator(".facets a").count() > 3, true, "what they have in common");
  await until(() => page.locator("#asking").textContent(), "2 sessions", "what a screen reader hears");
});

await step("a reload shows the same, and Back leads to the previous page", async () => {
  await page.reload();
  await page.waitForSelector("html[data-ready]");
  await until(() => page.locator("h1").textContent(), "2 sessions", "after a reload");
  await page.goBack();
  await page.waitForURL("**/workspace");
  await page.goForward();
  await heading("2 sessions");
  await page.waitForSelector("html[data-ready]");
});

await step("more letters narrow the results, fewer widen them, none shows the wall", async () => {
  await page.locator("#search").focus();
  await page.keyboard.press("End");
  await page.keyboard.type("use dusk");
  await heading("1 session");
  for (let at = 0; at < "lighthouse dusk".length; at += 1) await page.keyboard.press("Backspace");
  await heading("Sessions");
  await addressed(page, (url) => url.pathname + url.search, "/", "the address");
  await until(() => page.locator(".card").count(), 6, "all of them");
});

await step("an incomplete query is marked and keeps the previous results", async () => {
  await page.keyboard.type("lighthouse");
  await heading("2 sessions");
  const before = await names();
  // Filled at once: typed slowly, `lighthouse m` finds nothing on the way.
  for (const [typed, said] of [["lighthouse model:", "`model:` has no value"], ["lighthouse model:\"", "unclosed quote"]]) {
    await page.locator("#search").fill(typed);
    await page.waitForFunction((said) => document.querySelector("#asking.unfinished")?.textContent.includes(said), said);
    await until(() => page.locator("#asking").isVisible(), true, "it is seen");
    await until(async () => /at character|colon: write/.test(await page.locator("#asking").textContent()), false, "in words for people");
    await page.screenshot({ path: `${shots}/unfinished-light-1440.png` });
    await until(() => page.locator("h1").textContent(), "2 sessions", "no page of errors");
    await until(() => names(), before, "what was found stays");
  }
  await page.locator("#search").fill("lighthouse model:\"landscape-xl-1.2\"");
  await page.waitForFunction(() => !document.querySelector("#asking.unfinished"));
  await heading("2 sessions");
});

await step("Enter moves to the results, and arrow keys move within them", async () => {
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => document.activeElement.classList.contains("card"));
  await until(() => page.locator("h1").textContent(), "2 sessions", "the same results");
  await page.keyboard.press("ArrowRight");
  await until(async () => await page.evaluate(() => [...document.querySelectorAll(".card")].indexOf(document.activeElement)), 1, "the second card");
  await page.keyboard.press("Enter");
  await page.waitForURL("**/sessions/**");
  await page.goBack();
  await heading("2 sessions");
  await page.waitForSelector("html[data-ready]");
});

await step("switching between iterations and sessions keeps the query", async () => {
  await page.locator('nav[aria-label="What to show"]').getByRole("link", { name: "Images" }).click();
  await page.waitForFunction(() => document.querySelector("h1").textContent.endsWith("iterations"));
  await page.waitForSelector("html[data-ready]");
  await page.locator("#search").fill("lighthouse");
  await heading("10 iterations");
  await addressed(page, (url) => url.searchParams.get("by"), null, "still iterations");
  await page.locator('.facets a:has-text("hero")').click();
  await heading("1 iteration");
});

await step("a late response is dropped", async () => {
  await go(page, "/");
  let release;
  const held = new Promise((done) => { release = done; });
  const isSlow = (request) => request.url().includes("q=fores&");
  await page.route("**/search?q=fores&**", async (route) => { await held; await route.continue().catch(() => {}); });
  const asked = page.waitForEvent("request", isSlow);
  const over = Promise.race(["requestfinished", "requestfailed"].map((event) => page.waitForEvent(event, isSlow)));
  await page.locator("#search").fill("fores");
  await asked;
  await page.locator("#search").fill("dune");
  await page.waitForFunction(() => new URL(location.href).searchParams.get("q") === "dune");
  const shown = await names();
  release();
  await over;
  // A late answer would be shown within a few frames.
  await page.evaluate(async () => { for (let at = 0; at < 20; at += 1) await new Promise(requestAnimationFrame); });
  await addressed(page, (url) => url.searchParams.get("q"), "dune", "the newest question");
  await until(() => names(), shown, "and its answer");
  await page.unroute("**/search?q=fores&**");
});

await step("iterations recorded elsewhere appear in the results", async () => {
  await page.waitForSelector("html[data-live]");
  const before = await page.locator(".card").count();
  await ask("record-iteration", { prompt: "dunes, recorded elsewhere" });
  await page.waitForFunction((count) => document.querySelectorAll(".card").length === count, before + 1);
});

await step("projects are listed with their counts", async () => {
  await go(page, "/");
  await page.locator(".drop[data-load] summary").focus();
  await page.keyboard.press("Enter");
  const first = page.locator(".projects a").nth(1);
  await first.waitFor();
  const [name, count] = await first.locator("> span").allTextContents();
  await first.click();
  await page.waitForURL("**/?project=*");
  await until(() => page.locator("h1").textContent(), name, "the project");
  await until(async () => `${await page.locator(".card").count()} sessions`, count, "as many as were said");
});

await step("it works without scripts", async () => {
  const plain = await open({ javaScriptEnabled: false });
  await plain.goto(`${base}/`);
  await plain.locator("#search").fill("lighthouse");
  await plain.keyboard.press("Enter");
  await plain.waitForURL("**/search?q=lighthouse&by=session");
  await until(async () => await plain.locator("h1").textContent(), "2 sessions", "found");
  await plain.locator('nav[aria-label="What to show"]').getByRole("link", { name: "Images" }).click();
  await until(async () => await plain.locator("h1").textContent(), "10 iterations", "found");
  await plain.goto(`${base}/projects`);
  await until(async () => await plain.locator(".projects a").count() > 1, true, "projects");
});

await done(page);
