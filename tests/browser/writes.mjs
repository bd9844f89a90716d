// What people decide in the loupe reaches the iteration they were looking at: however fast they type, however far away the
// server is, and whatever other processes do meanwhile.

import { ask, base, done, go, open, same, step, tell, until } from "./browser.mjs";
import { faraway, picture } from "./pictures.mjs";

/** Runs the program beside the server, as another process would. */
const retake = (...args) => tell(`run ${JSON.stringify(args)}`);
const ratings = async (session) => {
  const { iterations } = await ask("list-iterations", { sessionId: session, limit: 200 });
  return iterations.map((it) => it.rating ?? 0);
};
const annotations = async (session, index) => (await ask("get-iteration", { reference: `${session}#${index}` })).annotations;
const settled = (page) => page.waitForFunction(() => !document.querySelector("#facts.stale"));
const shown = (page, at) => page.waitForFunction((wanted) => document.querySelector("#stage").dataset.shown === wanted, `${at}/0`);

async function made(title, many) {
  const first = await ask("record-iteration", { prompt: "step 0", title, images: [picture(96, 64, 0)] });
  for (let at = 1; at < many; at += 1) {
    await ask("record-iteration", { prompt: `step ${at}`, sessionId: first.session.id, images: [picture(96, 64, at)] });
  }
  return first.session.id;
}

const page = await open();
const session = await made("Writing", 45);
const small = await made("Small", 3);

await step("a note goes to its iteration although a new one is recorded meanwhile", async () => {
  await go(page, `/sessions/${small}`);
  await page.waitForSelector("html[data-live]");
  await page.keyboard.press("n");
  await until(() => page.locator("dialog h1").textContent(), "Note on “Small” #2", "which one the dialog names");
  await page.keyboard.type("the boats stand well");
  await retake("record", "recorded meanwhile", "--session", small);
  await page.locator("#new").waitFor({ state: "visible" });
  await until(() => page.locator("#new").textContent(), "1 new →", "the new one is offered");
  await until(() => page.locator("#stage").getAttribute("data-shown"), "2/0", "and does not take the place of the image");
  await page.keyboard.press("Control+Enter");
  await page.waitForFunction(() => document.querySelector("[data-note]")?.textContent === "the boats stand well");
  await until(async () => (await annotations(small, 2)).note, "the boats stand well", "the note");
  await until(async () => (await annotations(small, 3)).note, undefined, "nothing on the new one");
  await page.locator("#new").click();
  await shown(page, 3);
  await until(() => page.locator("#new").isVisible(), false, "nothing is new any more");
});

await step("an unfinished note survives archiving, renaming and a reload", async () => {
  await go(page, `/sessions/${small}/2`);
  await page.waitForSelector("html[data-live]");
  await page.keyboard.press("n");
  await page.locator("dialog textarea").fill("half of a");
  await retake("archive", small, "--reason", "elsewhere");
  await page.waitForSelector("main[data-archived]");
  await until(() => page.locator("dialog textarea").inputValue(), "half of a", "the text after archiving");
  await until(() => page.locator(".badge").textContent(), "Archived", "the header says it");
  await retake("restore", small);
  await page.waitForSelector("main:not([data-archived])");
  await page.reload();
  await page.waitForSelector("html[data-ready]");
  await page.getByRole("button", { name: "Continue draft" }).click();
  await until(() => page.locator("dialog textarea").inputValue(), "half of a", "the text after a reload");
  await page.keyboard.press("Escape");
  await until(() => page.locator(".question").isVisible(), true, "Escape asks");
  await page.keyboard.press("Escape");
  await until(() => page.locator("dialog textarea").inputValue(), "half of a", "a second one keeps editing");
  await page.locator("dialog textarea").fill("half of a thought");
  await page.keyboard.press("Control+Enter");
  await page.waitForFunction(() => document.querySelector("[data-note]")?.textContent === "half of a thought");
  await page.keyboard.press("n");
  await page.keyboard.press("Escape");
  await page.waitForSelector("dialog", { state: "detached" });
});

await step("a rating is cleared with 0 and with the star it has, and not written twice", async () => {
  await go(page, `/sessions/${small}/1`);
  const events = async () => (await ask("audit-session", { sessionId: small, limit: 200 })).events.length;
  const before = await events();
  for (let times = 0; times < 5; times += 1) await page.keyboard.press("3");
  await page.waitForFunction(() => document.querySelectorAll("#stars .on").length === 3);
  await page.keyboard.press("0");
  await page.waitForFunction(() => document.querySelectorAll("#stars .on").length === 0);
  await page.getByRole("button", { name: "Rate 4 of 5" }).click();
  await page.getByRole("button", { name: "Rate 4 of 5" }).click();
  await page.waitForFunction(() => document.querySelectorAll("#stars .on").length === 0);
  await page.waitForFunction(async ([id, wanted]) => {
    const answer = await fetch("/api/audit-session", { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ sessionId: id, limit: 200 }) });
    return (await answer.json()).events.length === wanted;
  }, [small, before + 4]);
  await until(async () => (await annotations(small, 1)).rating, undefined, "the rating is gone");
});

await step("every change can be undone, by button and by key", async () => {
  await go(page, `/sessions/${small}/0`);
  await page.keyboard.press("5");
  await page.locator("#toast button", { hasText: "Undo" }).click();
  await page.waitForFunction(() => document.querySelectorAll("#stars .on").length === 0);
  await page.waitForFunction(() => document.querySelector("#toast").textContent === "Undone");
  await until(async () => (await annotations(small, 0)).rating, undefined, "the rating");
  await page.keyboard.press("x");
  await page.waitForFunction(() => document.querySelector("#reject").getAttribute("aria-pressed") === "true");
  await page.keyboard.press("u");
  await page.waitForFunction(() => document.querySelector("#toast").textContent === "Undone");
  await until(async () => (await annotations(small, 0)).tags ?? [], [], "the rejection");
  await page.keyboard.press("t");
  await page.locator("dialog input").fill("one, two");
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => document.querySelectorAll("[data-tag]").length === 2);
  await page.keyboard.press("Control+z");
  await page.waitForFunction(() => document.querySelectorAll("[data-tag]").length === 0);
});

await step("the focus is kept", async () => {
  const focus = () => page.evaluate(() => document.activeElement.dataset.rating ?? document.activeElement.dataset.do ?? document.activeElement.tagName);
  await page.getByRole("button", { name: "Rate 2 of 5" }).click();
  await page.waitForFunction(() => document.querySelectorAll("#stars .on").length === 2);
  await settled(page);
  await until(async () => await focus(), "2", "on the star that was clicked");
  await page.getByRole("button", { name: "Edit tags" }).or(page.getByRole("button", { name: "Add tag" })).click();
  await page.locator("dialog input").fill("kept");
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => document.querySelectorAll("[data-tag]").length === 1);
  await until(async () => await focus(), "tag", "on the button that opened the dialog");
});

/** Forty keys, ten milliseconds apart: each rating must reach the image that was on screen. */
async function quickly(at, session) {
  await at.goto(`${at.base ?? base}/sessions/${session}/0`);
  await at.waitForSelector("html[data-ready]");
  const wanted = Array.from({ length: 45 }, () => 0);
  for (let pressed = 0, index = 0; pressed < 40; pressed += 2, index += 1) {
    const rating = (index % 5) + 1;
    await at.keyboard.press(String(rating));
    wanted[index] = rating;
    await at.waitForTimeout(10);
    await at.keyboard.press("ArrowRight");
    await at.waitForTimeout(10);
  }
  await until(async () => await at.locator("#stage").getAttribute("data-shown"), "20/0", "the image that is shown");
  await at.waitForFunction(() => document.querySelector("#prompt")?.textContent === "step 20" && !document.querySelector("#facts.stale"));
  await until(async () => await at.evaluate(() => location.pathname.endsWith("/20")), true, "the address");
  for (let tries = 0; tries < 100; tries += 1) {
    if (JSON.stringify(await ratings(session)) === JSON.stringify(wanted)) break;
    await at.waitForTimeout(100);
  }
  await until(async () => await ratings(session), wanted, "the ratings");
  // Clear the ratings for the next step.
  for (let index = 0; index < 20; index += 1) await ask("annotate-iteration", { reference: `${session}#${index}`, rating: null });
}

await step("forty keys in four tenths of a second reach the right images", () => quickly(page, session));

await step("forty keys reach the right images on a server 200 ms away", async () => {
  const far = await faraway(base, 200);
  const remote = await open();
  remote.base = far.url;
  await quickly(remote, session);
  same(remote.faults, [], "what went wrong in the page");
  await remote.close();
  far.end();
});

await step("forty steps arrive while other processes record, archive and rename", async () => {
  await go(page, `/sessions/${session}/0`);
  await page.waitForSelector("html[data-live]");
  const meanwhile = (async () => {
    await retake("record", "step 45", "--session", session);
    await retake("annotate", `${session}#44`, "--note", "by another");
    await retake("archive", session);
    await retake("restore", session);
  })();
  for (let pressed = 0; pressed < 40; pressed += 1) { await page.keyboard.press("ArrowRight"); await page.waitForTimeout(10); }
  await meanwhile;
  await shown(page, 40);
  await page.waitForFunction(() => document.querySelector("#prompt")?.textContent === "step 40" && !document.querySelector("#facts.stale"));
  await until(async () => await page.locator(".picture").evaluate((it) => it.complete && it.naturalWidth), 96, "the image is there");
  await page.waitForFunction(() => document.querySelector("#count").textContent === "46 iterations");
});

await step("an unresponsive server changes nothing, and an error is shown", async () => {
  await go(page, `/sessions/${small}/1`);
  await page.route("**/api/annotate-iteration", (route) => route.abort());
  await page.keyboard.press("5");
  await page.waitForFunction(() => document.querySelector("#toast").textContent === "Connection lost. Your change was not saved.");
  await until(() => page.locator("#stars .on").count(), 0, "the stars are as before");
  await page.keyboard.press("n");
  await page.locator("dialog textarea").fill("not lost");
  const refused = page.waitForEvent("requestfailed", (request) => request.url().endsWith("/api/annotate-iteration"));
  await page.keyboard.press("Control+Enter");
  await refused;
  await page.waitForFunction(() => document.querySelector("#toast").textContent.startsWith("Connection lost"));
  await page.unroute("**/api/annotate-iteration");
  await page.keyboard.press("n");
  await until(() => page.locator("dialog textarea").inputValue(), "not lost", "the text is still there");
  await page.keyboard.press("Control+Enter");
  await page.waitForFunction(() => document.querySelector("[data-note]")?.textContent === "not lost");
});

await step("a key pressed right after a dialog closes reaches the page", async () => {
  await go(page, `/sessions/${small}/1`);
  await page.keyboard.press("n");
  await page.locator("dialog textarea").fill("again");
  // Both keys in one task: the field has the focus until the page is drawn again.
  await page.evaluate(() => {
    const field = document.activeElement;
    field.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", ctrlKey: true, bubbles: true, cancelable: true }));
    field.dispatchEvent(new KeyboardEvent("keydown", { key: "n", bubbles: true, cancelable: true }));
  });
  await until(() => page.locator("dialog[open] textarea").inputValue(), "again", "the second dialog is open");
  await page.keyboard.press("Control+Enter");
  await page.waitForFunction(() => document.querySelector("[data-note]")?.textContent === "again");
});

await step("the title is edited in place, and changes by other processes appear", async () => {
  await go(page, `/sessions/${small}/1`);
  await page.waitForSelector("html[data-live]");
  await page.keyboard.press("r");
  await page.locator(".renaming input").fill("Renamed here");
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => document.querySelector("#about h1").textContent === "Renamed here");
  await page.waitForFunction(() => document.querySelector("#toast button")?.textContent === "Undo");
  await page.waitForFunction(() => document.querySelector("#about").dataset.title === "Renamed here");
  await retake("rename", small, "Renamed elsewhere");
  await page.waitForFunction(() => document.querySelector("#about h1").textContent === "Renamed elsewhere");
});

await done(page);
