// The main paths through the gallery, by keyboard and by mouse, on the sample history.

import { ask, done, go, open, same, step } from "./browser.mjs";

const page = await open();
const { sessions } = await ask("list-sessions");
const harbour = sessions.find((session) => session.title === "Harbour at dusk").id;

await step("the wall shows active sessions, newest first", async () => {
  await go(page, "/");
  same(await page.locator(".card").count(), 6, "cards");
  same(await page.locator(".card .flag").count(), 0, "archived cards");
  await page.getByRole("link", { name: "Archived" }).click();
  await page.waitForURL("**/?status=archived");
  same(await page.locator(".card .name").allTextContents(), ["First sketches"], "archived sessions");
  await page.goBack();
  await page.waitForSelector("html[data-ready]");
});

await step("arrow keys and Enter open a session", async () => {
  await page.keyboard.press("ArrowRight");
  await page.keyboard.press("ArrowRight");
  await page.keyboard.press("ArrowRight");
  same(await page.evaluate(() => document.activeElement.querySelector(".name").textContent), "Harbour at dusk", "the focused card");
  await page.keyboard.press("Enter");
  await page.waitForURL(`**/sessions/${harbour}`);
  await page.waitForSelector("html[data-ready]");
  same(await page.locator(".step h2").textContent(), "#8", "the last iteration");
  same(await page.locator(".take").count(), 9, "the strip");
});

await step("the strip branches where the work did", async () => {
  const lanes = await page.locator(".take").evaluateAll((takes) => takes.map((take) => Number(take.dataset.lane)));
  same(lanes, [0, 0, 0, 0, 0, 0, 1, 1, 0], "lanes");
});

await step("arrow keys step, and back goes back", async () => {
  await page.keyboard.press("ArrowLeft");
  await page.waitForURL(`**/sessions/${harbour}/7`);
  same(await page.locator(".step h2").textContent(), "#7", "one before");
  await page.keyboard.press("ArrowUp");
  await page.waitForURL(`**/sessions/${harbour}/6`);
  await page.keyboard.press("ArrowUp");
  await page.waitForURL(`**/sessions/${harbour}/3`);
  await page.goBack();
  await page.waitForURL(`**/sessions/${harbour}/6`);
  await page.waitForFunction(() => document.querySelector(".step h2").textContent === "#6");
  await page.locator('.take[data-index="4"]').click();
  await page.waitForFunction(() => document.querySelector(".step h2").textContent === "#4");
  await page.waitForSelector('.take[data-index="4"][aria-current]');
});

await step("a number rates", async () => {
  await page.keyboard.press("2");
  await page.waitForFunction(() => document.querySelectorAll(".stars .on").length === 2);
  const now = await ask("get-iteration", { reference: `${harbour}#4` });
  same(now.annotations.rating, 2, "the rating");
  await page.waitForFunction(() => document.querySelector('.take[data-index="4"] .rated')?.textContent === "★★");
});

await step("a note and tags are kept", async () => {
  await page.keyboard.press("n");
  await page.locator("dialog textarea").fill("softer");
  await page.locator("dialog button.primary").click();
  await page.waitForFunction(() => document.querySelector("[data-note]")?.textContent === "softer");
  await page.keyboard.press("t");
  await page.locator("dialog textarea").fill("one, two");
  await page.keyboard.press("Control+Enter");
  await page.waitForFunction(() => document.querySelectorAll("[data-tag]").length === 2);
});

await step("what others record appears while one looks", async () => {
  await go(page, `/sessions/${harbour}`);
  await page.waitForSelector("html[data-live]");
  await ask("record-iteration", { prompt: "recorded elsewhere", sessionId: harbour });
  await page.waitForFunction(() => document.querySelector(".step h2").textContent === "#9");
  same(await page.locator("#prompt").textContent(), "recorded elsewhere", "the new one");
  same(await page.locator("#count").textContent(), "10 iterations", "the count");
});

await step("c collects, C compares, and every way of comparing shows", async () => {
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
  same(await page.locator("#set li").count(), 3, "compared");
  same(await page.locator("ins").allTextContents().then((all) => all.join("").includes("low mist")), true, "what is new in the prompt");
  await page.keyboard.press("ArrowRight");
  await page.waitForFunction(() => document.querySelector(".pane.b .label").textContent.endsWith("#8"));
  await page.waitForFunction(() => document.querySelector("#facts").textContent.includes("soft-light"));
  for (const [key, mode] of [["l", "slider"], ["b", "blink"], ["d", "difference"], ["h", "heat"], ["s", "side"]]) {
    await page.keyboard.press(key);
    await page.waitForSelector(`#desk[data-mode="${mode}"]`);
    same(new URL(page.url()).searchParams.get("mode"), mode, "the mode in the address");
    if (mode === "heat") await page.waitForFunction(() => document.querySelector("img.heat").naturalWidth > 100 && !document.querySelector("[data-waiting]"));
  }
  await page.keyboard.press("+");
  const moved = await page.locator(".pane img").evaluateAll((images) => images.map((image) => image.style.transform));
  same(moved[0] === moved[1] && moved[0].includes("scale(1.5)"), true, `one zoom for both: ${moved}`);
  await page.keyboard.press("l");
  await page.locator(".handle").focus();
  await page.keyboard.press("ArrowRight");
  same(await page.locator(".handle").getAttribute("aria-valuenow"), "52", "the slider");
  await page.reload();
  await page.waitForSelector('#desk[data-mode="slider"]');
  same(await page.locator(".pane.b .label").textContent().then((text) => text.endsWith("#8")), true, "a link shows the same");
});

await step("how much two pictures differ is said in numbers, and outlined", async () => {
  await go(page, `/compare?refs=${[3, 8].map((index) => encodeURIComponent(`${harbour}#${index}`)).join(",")}`);
  await page.locator("#seen").waitFor();
  const told = await ask("compare-iterations", { references: [`${harbour}#3`, `${harbour}#8`], render: "none" });
  const { perceptualDistance, ssim, changedArea, changedBox } = told.differences[0].visual;
  const shown = await page.locator("#seen").textContent();
  for (const said of [`${perceptualDistance} of 128`, String(ssim), `${(changedArea * 100).toFixed(1)} %`]) {
    same(shown.includes(said), true, `${said} in ${shown}`);
  }
  same(await page.locator(".outline:visible").count(), 0, "no outline yet");
  await page.keyboard.press("o");
  same(await page.locator(".outline:visible").count(), 2, "an outline on both");
  // The frame lies where the box is in the image: 768 pixels wide there, and as wide as the pane here.
  const [frame, pane] = await Promise.all([".pane.a .outline", ".pane.a .clip"].map((it) => page.locator(it).boundingBox()));
  same(Math.round(frame.width / pane.width * 768), changedBox.width, "its width");
  same(Math.round((frame.x - pane.x) / pane.width * 768), changedBox.x, "its place");
});

await step("a archives with a reason, and restores", async () => {
  await go(page, `/sessions/${harbour}`);
  await page.keyboard.press("a");
  await page.locator("dialog textarea").fill("delivered");
  await page.locator("dialog button.primary").click();
  await page.waitForSelector("main[data-archived]");
  await go(page, `/sessions/${harbour}/audit`);
  same(await page.locator(".verdict strong").textContent(), "Everything checks out", "the verdict");
  same(await page.locator(".events li").last().textContent().then((text) => text.includes("delivered")), true, "the reason");
  await go(page, `/sessions/${harbour}`);
  await page.getByRole("button", { name: "Restore" }).click();
  await page.locator("dialog button.primary").click();
  await page.waitForSelector("main:not([data-archived])");
});

await step("/ searches, and facets narrow down", async () => {
  await page.keyboard.press("/");
  await page.keyboard.type("lighthouse");
  await page.keyboard.press("Enter");
  await page.waitForURL("**/search?q=lighthouse");
  await page.waitForSelector("html[data-ready]");
  same(await page.locator("h1").textContent(), "10 iterations", "found");
  await page.locator('.facets a:has-text("hero")').click();
  await page.waitForURL("**tag*");
  same(await page.locator(".card").count(), 1, "narrowed down");
  await go(page, "/search?q=rating:");
  same(await page.locator("h1").textContent(), "This search is not understood", "a wrong query");
});

await step("? shows the keys", async () => {
  await go(page, "/");
  await page.keyboard.press("?");
  same(await page.locator("dialog h1").textContent(), "Keys", "the dialog");
  await page.keyboard.press("Escape");
  await page.waitForSelector("dialog", { state: "detached" });
});

await done(page);
