// Videos in the loupe: loaded, played, searched, and stopped when another take is shown.

import { readFile } from "node:fs/promises";
import { ask, done, go, open, same, shots, step } from "./browser.mjs";
import { picture } from "./pictures.mjs";

const fixture = async (name) => (await readFile(new URL(`../../crates/retake-testutils/data/${name}`, import.meta.url))).toString("base64");
const { session } = await ask("record-iteration", { prompt: "a fox runs", title: "Running", images: [{ data: await fixture("fox.webm") }] });
await ask("record-iteration", { sessionId: session.id, prompt: "a fox rests", images: [picture(160, 120, 3)] });
await ask("record-iteration", { sessionId: session.id, prompt: "a fox leaps", images: [{ data: await fixture("fox.mp4") }] });
await ask("record-iteration", { prompt: "a fox alone", title: "Alone", images: [{ data: await fixture("fox.webm") }] });

const page = await open();
const loaded = (name) => page.waitForFunction((wanted) => {
  const video = document.querySelector("video.picture");
  return video && video.readyState > 0 && document.querySelector("#stage").dataset.shown === wanted && [video.videoWidth, video.videoHeight, Math.round(video.duration)].join() === "64,48,1";
}, name);

await step("a video loads its size and length", async () => {
  await go(page, `/sessions/${session.id}/0`);
  await loaded("0/0");
  await page.screenshot({ path: `${shots}/video-light-1440.png` });
});

await step("it plays, and the browser seeks in it", async () => {
  await page.evaluate(() => { const video = document.querySelector("video.picture"); video.muted = true; return video.play(); });
  await page.waitForFunction(() => document.querySelector("video.picture").currentTime > 0);
  await page.evaluate(() => { const video = document.querySelector("video.picture"); video.pause(); video.currentTime = 0.5; });
  await page.waitForFunction(() => { const video = document.querySelector("video.picture"); return !video.seeking && Math.abs(video.currentTime - 0.5) < 0.3; });
});

await step("another take replaces it and stops playback", async () => {
  await page.evaluate(() => { const video = document.querySelector("video.picture"); video.loop = true; globalThis.first = video; return video.play(); });
  await page.keyboard.press("ArrowRight");
  await page.waitForFunction(() => document.querySelector("#stage").dataset.shown === "1/0" && document.querySelector("img.picture")?.naturalWidth === 160);
  same(await page.locator("video").count(), 0, "videos in the page");
  await page.waitForFunction(() => globalThis.first.paused);
  await page.keyboard.press("ArrowRight");
  await loaded("2/0");
});

await step("a focused video handles its own keys", async () => {
  await page.locator("video.picture").focus();
  await page.keyboard.press("ArrowLeft");
  await page.keyboard.press("End");
  // A key of the page comes after them, so that what they did would be seen.
  await page.keyboard.press("4");
  await page.waitForFunction(() => document.querySelector("#stars").dataset.rating === "4");
  same(await page.locator("#stage").getAttribute("data-shown"), "2/0", "what is shown");
});

await step("the shelf and the grid show the poster and play on hover", async () => {
  for (const path of ["/", `/sessions/${session.id}/grid`]) {
    await go(page, path);
    const place = page.locator("[data-video]").first();
    await page.waitForFunction(() => { const image = document.querySelector("[data-video] img"); return image?.complete && image.naturalWidth > 0; });
    await place.hover();
    await page.waitForFunction(() => { const video = document.querySelector("[data-video] video"); return video && video.muted && video.currentTime > 0; });
    await page.mouse.move(2, 2);
    await page.waitForFunction(() => !document.querySelector("video"));
  }
});

await done(page);
