// Hostile text in every field that takes text: shown on every page, and never run.

import { crc32 } from "node:zlib";

import { ask, base, done, go, open, same, step, until } from "./browser.mjs";

const hostile = `<img src=x onerror="window.planted=1">"'><script>window.planted=1</script>javascript:alert(1)\${7*7}{{7*7}}`;
const page = await open();
const first = await ask("record-iteration", {
  prompt: hostile, promptSent: hostile, negativePrompt: hostile, model: hostile, modelHash: hostile, sampler: hostile, scheduler: hostile,
  provider: hostile, title: hostile, project: hostile, loras: [{ name: hostile, weight: 1 }], parameters: { [hostile]: hostile },
  outcome: "failed", message: hostile, cost: { amount: 1, currency: hostile },
});
const id = first.session.id;
const second = await ask("record-iteration", { prompt: `${hostile} two`, sessionId: id, model: `${hostile} two` });
await ask("annotate-iteration", { reference: second.reference, tags: [hostile.replaceAll(",", "")], note: hostile });
await ask("archive-session", { sessionId: id, reason: hostile });

// An image with hostile texts under every key that a metadata reader knows, and one with a hostile file name, which the
// test recorded before.
const texts = ["parameters", "prompt", "workflow", "Comment", "Description", "invokeai_metadata", "sd-metadata", hostile.slice(0, 79)];
const told = await ask("record-iteration", { prompt: "told by its file", images: [{ data: pictureWith(texts).toString("base64"), mimeType: "image/png" }] });
const { sessions: [named] } = await ask("list-sessions", { query: "named by its file" });

const both = [first.reference, second.reference].map(encodeURIComponent).join(",");
const paths = [
  "/?status=all", `/?status=all&project=${encodeURIComponent(hostile)}`, `/sessions/${id}/0`, `/sessions/${id}/1`, `/sessions/${id}/audit`, `/sessions/${id}/grid`, `/sessions/${id}/story`, `/sessions/${id}/head`, `/sessions/${id}/strip`,
  `/compare?refs=${both}`, "/search?q=planted&status=all", `/search?q=${encodeURIComponent(hostile)}`, `/compare?refs=${encodeURIComponent(hostile)}`,
  `/search?q=planted&by=session&status=all`, `/search?q=${encodeURIComponent(hostile)}&typing=1`, "/projects?status=all", `/projects?project=${encodeURIComponent(hostile)}`,
  `/compare/seen?refs=${both}`, `/sessions/${told.reference.replace("#", "/")}/raw`, `/sessions/${id}/0/recipe`, `/sessions/${id}/0/a1111`,
  `/sessions/${encodeURIComponent(hostile)}`, `/?status=${encodeURIComponent(hostile)}`, "/workspace",
];
for (const path of paths) {
  await step(path.slice(0, 60), async () => {
    await page.goto(base + path);
    // Fragments and plain text have no scripts to wait for.
    if (await page.evaluate(() => document.querySelector("script[src]"))) await page.waitForSelector("html[data-ready]");
    await until(async () => await page.evaluate(() => window.planted ?? 0), 0, "a script was run");
    await until(async () => await page.evaluate(() => document.querySelectorAll("img[onerror], main script").length), 0, "planted elements");
  });
}
await step("hostile text is shown literally", async () => {
  await go(page, `/sessions/${id}/0`);
  await until(() => page.locator("#prompt").textContent(), hostile, "the prompt");
  await until(async () => (await page.locator(".pairs").first().textContent()).includes(hostile), true, "the model");
  await page.keyboard.press("ArrowRight");
  await page.waitForFunction(() => document.querySelector(".step h2").textContent === "#1");
  await until(() => page.locator("[data-note]").textContent(), hostile, "the note");
});
await step("metadata of a file is shown as text", async () => {
  await go(page, `/sessions/${told.reference.replace("#", "/")}`);
  await page.locator('details[data-name="raw"] summary').click();
  await page.waitForFunction(() => document.querySelectorAll('details[data-name="raw"] pre').length >= 8);
  const shown = await page.locator('details[data-name="raw"] pre').allTextContents();
  same(shown.every((text) => text.includes(hostile)), true, `every text, to the letter: ${shown}`);
  await go(page, `/sessions/${named.id}`);
  await page.locator('details[data-name="file"] summary').click();
  await until(async () => (await page.locator('details[data-name="file"]').textContent()).includes("<img src=x onerror=window.planted=1>.png"), true, "the name of the file");
  await until(async () => await page.evaluate(() => window.planted ?? 0), 0, "a script was run");
  await until(async () => await page.evaluate(() => document.querySelectorAll("img[onerror], main script").length), 0, "planted elements");
});
await step("typed text is shown as text", async () => {
  await go(page, "/");
  await page.locator("#search").fill(hostile);
  await page.waitForFunction(() => document.querySelector("#asking").textContent !== "" || new URL(location.href).searchParams.has("q"));
  await until(async () => await page.evaluate(() => window.planted ?? 0), 0, "a script was run");
});
await step("scripts from other origins do not run", async () => {
  const ran = await page.evaluate(() => new Promise((done) => {
    const script = document.createElement("script");
    try { script.textContent = "window.planted = 2"; } catch { done("refused"); return; }
    document.body.append(script);
    setTimeout(() => done(window.planted ?? "refused"), 0);
  }));
  same(ran, "refused", "an inline script");
  page.faults.length = 0;
  const answer = await fetch(`${base}/`);
  same(answer.headers.get("content-security-policy").includes("unsafe"), false, "the policy");
});
await done(page);

/** One pixel, with these texts in its file, each of which says what is hostile. */
function pictureWith(names) {
  const chunk = (type, data) => {
    const body = Buffer.concat([Buffer.from(type), data]);
    const ends = Buffer.alloc(8);
    ends.writeUInt32BE(data.length, 0);
    ends.writeUInt32BE(crc32(body), 4);
    return Buffer.concat([ends.subarray(0, 4), body, ends.subarray(4)]);
  };
  const pixel = Buffer.from("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNgAAAAAgABSK+kcQAAAABJRU5ErkJggg==", "base64");
  const header = 8 + 25;
  const told = names.map((name) => chunk("tEXt", Buffer.from(`${name}\0${hostile}`, "latin1")));
  return Buffer.concat([pixel.subarray(0, header), ...told, pixel.subarray(header)]);
}
