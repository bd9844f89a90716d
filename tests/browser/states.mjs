// Unusual states: an empty workspace, damage, a server that is away for a while.

import { ask, axePath, done, go, open, same, shots, step, tell, until } from "./browser.mjs";
import { png } from "./pictures.mjs";

const opened = [];
/** The page in light and dark, narrow and wide: a screenshot each, and no finding of axe. */
async function look(name, path, ready = async () => {}) {
  for (const colorScheme of ["light", "dark"]) {
    for (const width of [360, 1440]) {
      const page = await open({ colorScheme, bypassCSP: true, reducedMotion: "reduce", viewport: { width, height: 800 } });
      await page.addInitScript({ path: axePath });
      await go(page, path);
      await ready(page);
      await page.screenshot({ path: `${shots}/${name}-${colorScheme}-${width}.png` });
      await until(() => page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), true, "it does not scroll sideways");
      const found = await page.evaluate(() => axe.run(document, { resultTypes: ["violations"] }));
      same(found.violations.map((it) => `${it.impact} ${it.id}: ${it.nodes.map((node) => node.html).slice(0, 3).join(" | ")}`), [], "axe");
      opened.push(page);
    }
  }
}

const page = await open();
opened.push(page);

await step("an empty workspace", async () => {
  await look("empty", "/");
  await look("empty-archived", "/?status=archived");
  await look("empty-search", "/search?q=nothing");
  await look("empty-compare", "/compare");
  await go(page, "/");
  await until(() => page.locator(".empty h2").textContent(), "No sessions yet", "the heading");
});

await step("the first session appears without a reload", async () => {
  await page.waitForSelector("html[data-live]");
  await ask("record-iteration", { prompt: "the first", title: "The first" });
  await page.waitForSelector('.card:has-text("The first")');
});

// The test that runs this script damages the workspace while the server is stopped, and starts it again.
const picture = await ask("record-iteration", { prompt: "a picture that will be gone", title: "Gone", images: [{ data: pixel(), mimeType: "image/png" }] });
const garbled = await ask("record-iteration", { prompt: "half a picture", title: "Garbled", images: [{ data: Buffer.from(pixel(), "base64").subarray(0, 40).toString("base64"), mimeType: "image/png" }] });
const sessionOf = (recorded) => `/sessions/${recorded.reference.replace("#", "/")}`;

await step("a lost connection is shown and restored", async () => {
  await go(page, sessionOf(picture));
  await page.waitForSelector("html[data-live]");
  await tell("stop");
  await page.locator("#offline").waitFor({ state: "visible" });
  await page.screenshot({ path: `${shots}/offline-light-1440.png` });
  // Requests meanwhile report the failure and leave the page as it is.
  await page.keyboard.press("4");
  await page.waitForFunction(() => document.querySelector("#toast.on")?.textContent.startsWith("Connection lost"));
  await until(() => page.locator(".step h2").textContent(), "#0", "the page stays");
  await tell("start");
  await page.locator("#offline").waitFor({ state: "hidden" });
  await page.waitForSelector("html[data-live]");
  await page.keyboard.press("4");
  await page.waitForFunction(() => document.querySelectorAll(".stars .on").length === 4);
});

await step("changes made meanwhile are shown", async () => {
  await go(page, "/");
  await page.waitForSelector("html[data-live]");
  await tell("stop");
  await page.locator("#offline").waitFor({ state: "visible" });
  await tell("start with more");
  await page.waitForSelector('.card:has-text("recorded meanwhile")');
  await until(() => page.locator("#offline").isVisible(), false, "the banner is gone");
});

await step("damage is shown and affects only the damaged iterations", async () => {
  await tell(`damage ${(await ask("get-iteration", { reference: picture.reference })).images[0].hash}`);
  await look("damaged", "/", (page) => page.waitForSelector("img.failed", { state: "attached" }));
  await go(page, "/");
  await until(async () => (await page.locator(".notice h2").textContent()).startsWith("Damage was found and repaired"), true, "the notice");
  await look("damaged-workspace", "/workspace");
  await look("missing-picture", sessionOf(picture));
  await go(page, sessionOf(picture));
  await until(() => page.locator(".gone:visible strong").textContent(), "Original missing", "what is missing");
  await until(() => page.locator("#prompt").textContent(), "a picture that will be gone", "the recipe stays");
  await look("garbled-picture", sessionOf(garbled), (page) => page.locator(".gone.note").waitFor());
  await go(page, sessionOf(garbled));
  await page.locator(".gone.note").waitFor();
  await until(() => page.locator(".gone:visible strong").textContent(), "Image damaged or missing", "what it is");
  await look("damaged-audit", `/sessions/${picture.session.id}/audit`);
  await go(page, `/sessions/${picture.session.id}/audit`);
  await until(() => page.locator(".verdict.bad strong").textContent(), "1 of 1 image missing or altered", "the verdict");
  await go(page, "/workspace");
  await page.getByRole("button", { name: "Mark as read" }).click();
  await page.waitForFunction(() => document.querySelector("#toast").textContent === "Marked as read");
  await go(page, "/");
  await until(() => page.locator(".notice").count(), 0, "the notice is gone");
});

await step("an image without its original is compared by its thumbnail, and one without any is named", async () => {
  await go(page, `/compare?refs=${[picture, garbled].map(({ reference }) => encodeURIComponent(reference)).join(",")}`);
  await until(() => page.locator(".pane.a .flag").textContent(), "original missing", "what is missing");
  // Neither the browser's icon for a broken image nor its text over the label.
  await until(() => page.locator(".pane img.whole").evaluateAll((images) => images.every((image) => (image.complete && image.naturalWidth > 0) || getComputedStyle(image).opacity === "0")), true, "no broken images");
  await until(() => page.evaluate(() => {
    const [label, flag] = [".pane.a .label", ".pane.a .flag"].map((selector) => document.querySelector(selector).getBoundingClientRect());
    return label.right <= flag.left || flag.right <= label.left || label.bottom <= flag.top || flag.bottom <= label.top;
  }), true, "the two labels lie side by side");
});

await step("a missing original is shown by its thumbnail among the results", async () => {
  const made = await ask("record-iteration", { prompt: "a thumbnail stays", title: "Thumbnail", images: [{ data: png(96, 64, 5), mimeType: "image/png" }] });
  await go(page, "/search?q=thumbnail");
  await page.waitForFunction(() => document.querySelector("#wall .cover img").naturalWidth > 0);
  await tell(`remove ${(await ask("get-iteration", { reference: made.reference })).images[0].hash}`);
  await go(page, "/search?q=thumbnail");
  await until(() => page.locator("#wall .cover img").evaluate((image) => image.complete && image.naturalWidth), 96, "the thumbnail");
  await until(() => page.locator("#wall .flag.bad").textContent(), "original missing", "what is missing");
  await go(page, sessionOf(made));
  await until(() => page.locator(".gone:visible strong").textContent(), "Original missing", "in the loupe");
  await until(() => page.locator(".canvas img").evaluateAll((images) => images.some((image) => image.naturalWidth === 96 && image.checkVisibility({ visibilityProperty: true }))), true, "with the thumbnail");
});

await step("a lost iteration has a place in the strip and a page", async () => {
  const { session: { id } } = await ask("record-iteration", { prompt: "kept before", title: "Incomplete" });
  await ask("record-iteration", { prompt: "this one is lost", sessionId: id });
  await ask("record-iteration", { prompt: "kept after", sessionId: id });
  await tell("lose this one is lost");
  await look("lost", "/");
  await go(page, "/");
  const notice = page.locator(".notice");
  await until(async () => (await notice.locator("h2").textContent()).startsWith("Damage was found and repaired."), true, "a sentence");
  await until(async () => /\d{4}-\d\d-\d\dT|Some\(|backtrace/.test(await notice.innerText()), false, "no times and nothing technical");
  await until(() => page.locator('.card:has-text("Incomplete") .flag.bad').textContent(), "damaged: 1 lost", "the card says it");
  await look("lost-iteration", `/sessions/${id}/1`);
  await go(page, `/sessions/${id}/2`);
  await until(() => page.locator('.take[data-index="1"] .no').textContent(), "lost", "in the strip");
  await page.locator('.take[data-index="1"]').click();
  await page.waitForURL(`**/sessions/${id}/1`);
  await go(page, `/sessions/${id}/1`);
  await until(() => page.locator(".gone strong").textContent(), "#1 was lost to damage", "its page");
  await page.getByRole("link", { name: "Nearest iteration that is left" }).click();
  await page.waitForFunction(() => /^[02]\/0$/.test(document.querySelector("#stage").dataset.shown));
  await go(page, "/");
  await notice.getByRole("button", { name: "Mark as read" }).click();
  await until(() => notice.count(), 0, "it can be dismissed");
});

await step("a loading page shows placeholders", async () => {
  const slow = await open({ viewport: { width: 1440, height: 800 } });
  await go(slow, "/");
  await slow.route("**/thumbs/**", () => {});
  await slow.reload({ waitUntil: "commit" });
  await slow.waitForSelector(".card");
  await slow.screenshot({ path: `${shots}/loading-light-1440.png` });
  const covers = await slow.locator(".cover").evaluateAll((all) => all.map((cover) => cover.getBoundingClientRect()).map(({ height, bottom }) => ({ height, bottom })));
  const like = (one) => covers.filter((other) => Math.abs(other.bottom - one.bottom) < 4);
  same(covers.every((cover) => cover.height > 100 && like(cover).every((other) => Math.abs(other.height - cover.height) < 2)), true, "places for what comes");
});

await step("what is collected belongs to the workspace, not to the address", async () => {
  await go(page, sessionOf(garbled));
  await page.keyboard.press("c");
  await page.waitForFunction(() => document.querySelector("#tray-count")?.textContent === "1");
  await tell("start another");
  await go(page, "/");
  await until(() => page.locator("h2").first().textContent(), "No sessions yet", "another workspace");
  await until(() => page.locator("#tray-count").isVisible(), false, "with nothing collected");
  await tell("start");
  await go(page, "/");
  await until(() => page.locator("#tray-count").textContent(), "1", "still there");
});

await done(...opened);

function pixel() {
  return "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNgAAAAAgABSK+kcQAAAABJRU5ErkJggg==";
}
