// Text that wants to be more than text, in every field that takes any: shown on every page, and never run.

import { ask, base, done, go, open, same, step } from "./browser.mjs";

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

const both = [first.reference, second.reference].map(encodeURIComponent).join(",");
const paths = [
  "/?status=all", `/?status=all&project=${encodeURIComponent(hostile)}`, `/sessions/${id}/0`, `/sessions/${id}/1`, `/sessions/${id}/audit`,
  `/compare?refs=${both}`, "/search?q=planted&archived=1", `/search?q=${encodeURIComponent(hostile)}`, `/compare?refs=${encodeURIComponent(hostile)}`,
  `/sessions/${encodeURIComponent(hostile)}`, `/?status=${encodeURIComponent(hostile)}`, "/workspace",
];
for (const path of paths) {
  await step(path.slice(0, 60), async () => {
    await go(page, path);
    same(await page.evaluate(() => window.planted ?? 0), 0, "a script was run");
    same(await page.evaluate(() => document.querySelectorAll("img[onerror], main script").length), 0, "planted elements");
  });
}
await step("it is shown, to the letter", async () => {
  await go(page, `/sessions/${id}/0`);
  same(await page.locator("#prompt").textContent(), hostile, "the prompt");
  same((await page.locator(".pairs").first().textContent()).includes(hostile), true, "the model");
  await page.keyboard.press("ArrowRight");
  await page.waitForFunction(() => document.querySelector(".step h2").textContent === "#1");
  same(await page.locator("[data-note]").textContent(), hostile, "the note");
});
await step("a script from anywhere else does not run", async () => {
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
