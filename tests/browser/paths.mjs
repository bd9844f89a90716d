// The main paths through the gallery, by keyboard and by mouse, on the sample history.

import { ask, done, go, open, step, until } from "./browser.mjs";

const page = await open();
const { sessions } = await ask("list-sessions");
const harbour = sessions.find((session) => session.title === "Harbour at dusk").id;

await step("the wall shows active sessions, newest first", async () => {
  await go(page, "/");
  await until(() => page.locator(".card").count(), 6, "cards");
  await until(async () => await page.locator(".card .flag", { hasText: "archived" }).count(), 0, "archived cards");
  await page.getByRole("link", { name: "Archived" }).click();
  await page.waitForURL("**/?status=archived");
  await until(() => page.locator(".card .name").allTextContents(), ["First sketches"], "archived sessions");
  await page.goBack();
  await page.waitForSelector("html[data-ready]");
});

await step("arrow keys and Enter open a session", async () => {
  await page.keyboard.press("ArrowRight");
  await page.keyboard.press("ArrowRight");
  await page.keyboard.press("ArrowRight");
  await until(async () => await page.evaluate(() => document.activeElement.querySelector(".name").textContent), "Harbour at dusk", "the focused card");
  await page.keyboard.press("Enter");
  await page.waitForURL(`**/sessions/${harbour}`);
  await page.waitForSelector("html[data-ready]");
  await until(() => page.locator(".step h2").textContent(), "#8", "the last iteration");
  await until(() => page.locator(".take").count(), 9, "the strip");
});

await step("the strip branches where the work did", async () => {
  await until(() => page.locator(".take").evaluateAll((takes) => takes.map((take) => Number(take.dataset.lane))), [0, 0, 0, 0, 0, 0, 1, 1, 0], "lanes");
});

await step("arrow keys step", async () => {
  await page.keyboard.press("ArrowLeft");
  await page.waitForURL(`**/sessions/${harbour}/7`);
  await until(() => page.locator(".step h2").textContent(), "#7", "one before");
  await page.keyboard.press("ArrowUp");
  await page.waitForURL(`**/sessions/${harbour}/6`);
  await page.keyboard.press("ArrowUp");
  await page.waitForURL(`**/sessions/${harbour}/3`);
  await page.locator('.take[data-index="4"]').click();
  await page.waitForFunction(() => document.querySelector(".step h2").textContent === "#4");
  await page.waitForSelector('.take[data-index="4"][aria-current]');
});

await step("a digit rates", async () => {
  await page.keyboard.press("2");
  await page.waitForFunction(() => document.querySelectorAll(".stars .on").length === 2);
  await until(async () => (await ask("get-iteration", { reference: `${harbour}#4` })).annotations.rating, 2, "the rating");
  await page.waitForFunction(() => document.querySelector('.take[data-index="4"] .rated')?.textContent === "★★");
});

await step("a note and tags are kept", async () => {
  await page.keyboard.press("n");
  await page.locator("dialog textarea").fill("softer");
  await page.locator("dialog button.primary").click();
  await page.waitForFunction(() => document.querySelector("[data-note]")?.textContent === "softer");
  await page.keyboard.press("t");
  await page.locator("dialog input").fill("one, two");
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => document.querySelectorAll("[data-tag]").length === 2);
});

await step("iterations recorded elsewhere appear", async () => {
  await go(page, `/sessions/${harbour}`);
  await page.waitForSelector("html[data-live]");
  await ask("record-iteration", { prompt: "recorded elsewhere", sessionId: harbour });
  await page.getByRole("button", { name: "1 new" }).click();
  await page.waitForFunction(() => document.querySelector("#prompt").textContent === "recorded elsewhere");
  await until(() => page.locator(".step h2").textContent(), "#9", "the new one");
  await page.waitForFunction(() => document.querySelector("#count").textContent === "10 iterations");
});

await step("c adds to the tray, C compares", async () => {
  await go(page, `/sessions/${harbour}/3`);
  for (const index of [3, 5, 8]) {
    if (index !== 3) await page.locator(`.take[data-index="${index}"]`).click();
    await page.waitForFunction((wanted) => document.querySelector(".step h2").textContent === wanted, `#${index}`);
    await page.keyboard.press("c");
    await page.waitForSelector('[data-tray][aria-pressed="true"]');
  }
  await page.keyboard.press("C");
  await page.waitForURL("**/compare?refs=*");
  await page.waitForSelector("html[data-ready]");
  await until(() => page.locator(".tile").count(), 3, "compared");
});

await step("a archives with a reason, and restores", async () => {
  await go(page, `/sessions/${harbour}`);
  await page.keyboard.press("a");
  await page.locator("dialog textarea").fill("delivered");
  await page.locator("dialog button.primary").click();
  await page.waitForSelector("main[data-archived]");
  await go(page, `/sessions/${harbour}/audit`);
  await until(() => page.locator(".verdict strong").textContent(), "Everything checks out", "the verdict");
  await until(async () => await page.locator(".trail li").first().textContent().then((text) => text.includes("delivered")), true, "the reason");
  await go(page, `/sessions/${harbour}`);
  await page.locator("#more summary").click();
  await page.getByRole("button", { name: "Restore…" }).click();
  await page.locator("dialog button.primary").click();
  await page.waitForSelector("main:not([data-archived])");
});

await step("/ searches, and facets narrow down", async () => {
  await page.keyboard.press("/");
  await page.keyboard.type("lighthouse");
  await page.keyboard.press("Enter");
  await page.waitForURL("**/search?q=lighthouse");
  await page.waitForSelector("html[data-ready]");
  await until(() => page.locator("h1").textContent(), "10 iterations", "found");
  await page.locator('.facets a:has-text("hero")').click();
  await page.waitForURL("**tag*");
  await until(() => page.locator(".card").count(), 1, "narrowed down");
  await go(page, "/search?q=rating:");
  await until(() => page.locator("h1").textContent(), "Can't read this search", "a wrong query");
});

await step("? shows the keys", async () => {
  await go(page, "/");
  await page.keyboard.press("?");
  await until(() => page.locator("dialog h1").textContent(), "Keys", "the dialog");
  await page.keyboard.press("Escape");
  await page.waitForSelector("dialog", { state: "detached" });
});

await done(page);
