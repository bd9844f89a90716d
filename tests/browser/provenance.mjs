// Provenance: the verdict, the trail as sentences, how an image was made, the proof; and the page of the workspace.

import { ask, axePath, base, done, go, open, same, shots, step, until } from "./browser.mjs";

const { sessions } = await ask("list-sessions");
const harbour = sessions.find((session) => session.title === "Harbour at dusk").id;
const page = await open();
const opened = [page];
const sentences = () => page.locator(".trail li p:first-child").allTextContents();

await step("the trail is written as sentences, newest first", async () => {
  await ask("annotate-iteration", { reference: `${harbour}#8`, rating: 3 });
  await ask("annotate-iteration", { reference: `${harbour}#8`, rating: 5 });
  await go(page, `/sessions/${harbour}/audit`);
  await until(() => page.locator(".verdict strong").textContent(), "Everything checks out", "the verdict");
  const [newest, before] = await sentences();
  same(newest.endsWith("rated #8 ★5, was ★3"), true, newest);
  same(before.endsWith("rated #8 ★3, was ★5"), true, before);
  await until(async () => (await sentences()).at(-1).includes("started “Harbour at dusk”"), true, "the oldest");
  await until(async () => await page.locator(".trail img").count() > 5, true, "with images");
  await until(() => page.locator(".trail details[open]").count(), 0, "hashes are folded away");
});

await step("filters narrow it down", async () => {
  await page.locator("select[name=kind]").selectOption("annotated");
  await page.waitForURL("**kind=annotated**");
  await page.waitForSelector("html[data-ready]");
  await until(async () => (await sentences()).every((text) => /rated|tagged|noted|cleared|took/.test(text)), true, "only judgements");
  await page.locator("input[name=image]").fill("8");
  await page.keyboard.press("Enter");
  await page.waitForURL("**image=8**");
  await until(async () => (await sentences()).every((text) => text.includes("#8")), true, "only of #8");
});

await step("an image's history is shown from its ancestors", async () => {
  await go(page, `/sessions/${harbour}/audit`);
  await page.getByRole("link", { name: "How #7 was made" }).first().click();
  await page.waitForURL("**of=7**");
  await until(() => page.locator(".made h2").textContent(), "How #7 was made", "the heading");
  await until(async () => (await page.locator(".made li strong").allTextContents()).at(-1).startsWith("#7"), true, "it ends with it");
  await until(async () => await page.locator(".made li").count() > 2, true, "with its ancestors");
});

await step("the audit bundle can be downloaded", async () => {
  const [download] = await Promise.all([page.waitForEvent("download", { timeout: 240000 }), page.getByRole("link", { name: "Download proof" }).click()]);
  same(download.suggestedFilename(), "retake-proof.tar", "the file");
});

await step("the header of a session has a verification badge", async () => {
  const text = await (await fetch(`${base}/sessions/${harbour}/verdict`)).text();
  same(text.includes("✓ verified") && text.includes("verdict-badge good"), true, text);
});

await step("everything is verified on demand", async () => {
  await go(page, "/workspace");
  await page.getByRole("button", { name: "Verify now" }).click();
  await page.waitForFunction(() => document.querySelector("#checked").textContent.startsWith("Everything checks out"));
  await until(async () => await page.locator(".chart, .projects").count() > 0, true, "what was made");
});

for (const colorScheme of ["light", "dark"]) {
  for (const [width, height] of [[390, 844], [1440, 900], [2560, 1440]]) {
    const looked = await open({ colorScheme, bypassCSP: true, reducedMotion: "reduce", viewport: { width, height } });
    opened.push(looked);
    await looked.addInitScript({ path: axePath });
    for (const [name, path] of [["provenance", `/sessions/${harbour}/audit`], ["workspace-page", "/workspace"], ["projects-page", "/projects"]]) {
      await step(`${name} in ${colorScheme} at ${width}`, async () => {
        await go(looked, path);
        await looked.screenshot({ path: `${shots}/${name}-${colorScheme}-${width}.png` });
        await until(async () => await looked.evaluate(() => document.documentElement.scrollWidth <= innerWidth), true, "it does not scroll sideways");
        const found = await looked.evaluate(() => axe.run(document, { resultTypes: ["violations"] }));
        same(found.violations.map((it) => `${it.id}: ${it.nodes.map((node) => node.html.slice(0, 120)).slice(0, 3).join(" | ")}`), [], "axe");
      });
    }
  }
}

await done(...opened);
