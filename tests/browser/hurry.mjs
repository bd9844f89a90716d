// Quick hands, slow servers and changes from elsewhere: no key and no click is lost, and nothing that was chosen is dropped.

import { ask, done, go, open, step, until } from "./browser.mjs";
import { picture } from "./pictures.mjs";

const { session: { id } } = await ask("record-iteration", { prompt: "a heron, first", title: "Heron", images: [picture(96, 64, 1)] });
for (let at = 1; at < 5; at += 1) await ask("record-iteration", { prompt: `a heron, take ${at}`, sessionId: id, images: [picture(96, 64, at + 1)] });
await ask("record-iteration", { prompt: "a stork", title: "Stork", images: [picture(64, 96, 9)] });
const annotations = async (at) => (await ask("get-iteration", { reference: `${id}#${at}` })).annotations ?? {};
const stars = (page) => page.locator("#stars").getAttribute("data-rating");
const page = await open();

/** Lets requests for these addresses wait until the returned function is called. */
async function held(where, pattern) {
  let release;
  const open = new Promise((done) => { release = done; });
  await where.route(pattern, async (route) => { await open; await route.continue().catch(() => {}); });
  return async () => { release(); await where.unroute(pattern); };
}

await step("what is typed right after n is the note, however slow the server is", async () => {
  await ask("annotate-iteration", { reference: `${id}#1`, note: "wings" });
  await go(page, `/sessions/${id}/1`);
  await page.waitForSelector("html[data-live]");
  const release = await held(page, /\/part$/);
  // Rated elsewhere: what is known of it is out of date, and is asked for again.
  const asked = page.waitForRequest(/\/1\/part$/);
  await ask("annotate-iteration", { reference: `${id}#1`, rating: 2 });
  await asked;
  await page.keyboard.press("n");
  await page.keyboard.type("x5 beak");
  await until(() => page.locator("dialog[open] textarea").inputValue(), "x5 beak", "all of it");
  await release();
  await until(() => page.locator("dialog[open] textarea").inputValue(), "wings\nx5 beak", "what was there stays");
  await page.keyboard.press("Control+Enter");
  await until(async () => (await annotations(1)).note, "wings\nx5 beak", "the note");
  await until(async () => (await annotations(1)).rating, 2, "no other key was meant");
});

await step("Escape right after n closes the dialog, and the page stays", async () => {
  await go(page, `/sessions/${id}/1`);
  await page.waitForSelector("html[data-live]");
  const release = await held(page, /\/part$/);
  const asked = page.waitForRequest(/\/1\/part$/);
  await ask("annotate-iteration", { reference: `${id}#1`, rating: 3 });
  await asked;
  await page.keyboard.press("n");
  await page.keyboard.press("Escape");
  await page.waitForSelector("dialog", { state: "detached" });
  await release();
  await until(() => stars(page), "3", "the session is still shown");
});

await step("a note that is saved as the page is left is not a draft any longer", async () => {
  await go(page, `/sessions/${id}/4`);
  // The server saves it; its response never arrives.
  await page.route(/annotate-iteration$/, async (route) => { await route.fetch(); });
  await page.keyboard.press("n");
  await page.keyboard.type("tail\nfeathers");
  await page.keyboard.press("Control+Enter");
  await until(async () => (await annotations(4)).note, "tail\nfeathers", "the note");
  await go(page, `/sessions/${id}/4`);
  await page.unroute(/annotate-iteration$/);
  await until(() => page.locator("#facts [data-do=note]").textContent(), "Edit note", "no draft");
  await page.keyboard.press("n");
  await page.keyboard.press("Escape");
  await page.waitForSelector("dialog", { state: "detached" });
});

await step("a key that needs the facts waits for them", async () => {
  await go(page, `/sessions/${id}/0`);
  const release = await held(page, /\/part$/);
  await page.keyboard.press("End");
  await page.keyboard.press("p");
  await release();
  await page.waitForURL("**/compare?refs=**");
});

await step("steps to the variation are as quick as the keys", async () => {
  await go(page, `/sessions/${id}/0`);
  const release = await held(page, /\/part$/);
  for (let times = 0; times < 3; times += 1) await page.keyboard.press("ArrowDown");
  await until(() => page.locator("#stage").getAttribute("data-shown"), "3/0", "three steps");
  await release();
});

await step("a click is not lost because the page is renewed while the button is down", async () => {
  await go(page, `/sessions/${id}/2`);
  await page.waitForSelector("html[data-live]");
  await page.getByRole("button", { name: "Rate 4 of 5" }).hover();
  const release = await held(page, /\/part$/);
  const asked = page.waitForRequest(/\/2\/part$/);
  await ask("annotate-iteration", { reference: `${id}#2`, note: "written meanwhile" });
  await asked;
  // The response comes while the button is down.
  const came = page.waitForResponse(/\/2\/part$/).then((response) => response.finished());
  await page.mouse.down();
  await release();
  await came;
  await page.evaluate(() => new Promise((next) => { requestAnimationFrame(() => requestAnimationFrame(next)); }));
  await page.mouse.up();
  await until(async () => (await annotations(2)).rating, 4, "the rating");
  await until(() => page.locator("[data-note]").textContent(), "written meanwhile", "and what came meanwhile");
});

await step("several changes from elsewhere at once all arrive", async () => {
  await go(page, `/sessions/${id}/4`);
  await page.waitForSelector("html[data-live]");
  await Promise.all([0, 3, 4].map((at) => ask("annotate-iteration", { reference: `${id}#${at}`, rating: 5 })));
  for (const at of [0, 3, 4]) await until(() => page.locator(`.take[data-index="${at}"]`).getAttribute("data-rating"), "5", `#${at}`);
});

await step("after a failure, changes from elsewhere are shown again", async () => {
  await go(page, `/sessions/${id}/4`);
  await page.waitForSelector("html[data-live]");
  await page.route("**/api/annotate-iteration", (route) => route.abort());
  await page.keyboard.press("1");
  await page.waitForFunction(() => document.querySelector("#toast").textContent === "Connection lost. Your change was not saved.");
  await until(() => stars(page), "5", "as before");
  await page.unroute("**/api/annotate-iteration");
  await ask("annotate-iteration", { reference: `${id}#4`, rating: 2 });
  await until(() => stars(page), "2", "what another process wrote");
});

await step("a cover is changed completely, though the page is left at once", async () => {
  await ask("annotate-iteration", { reference: `${id}#0`, addTags: ["cover"] });
  await go(page, `/sessions/${id}/3`);
  await page.keyboard.press("v");
  await go(page, "/");
  await until(async () => (await annotations(0)).tags ?? [], [], "no longer the first");
  await until(async () => (await annotations(3)).tags, ["cover"], "the chosen one");
});

await step("the selection, the focus and an open menu outlive what others record", async () => {
  await go(page, "/search?q=heron");
  await page.waitForSelector("html[data-live]");
  for (const at of [0, 1]) { await page.locator("#wall .card").nth(at).focus(); await page.keyboard.press("s"); }
  const label = await page.locator("#wall .card").nth(1).getAttribute("data-label");
  const found = await page.locator("#wall .card").count();
  await ask("record-iteration", { prompt: "a heron, meanwhile", sessionId: id, images: [picture(96, 64, 20)] });
  await until(() => page.locator("#wall .card").count(), found + 1, "the new one");
  await until(() => page.locator("#chosen .number").textContent(), "2 selected", "the selection");
  await until(() => page.locator("#wall .item[data-chosen]").count(), 2, "and its marks");
  await until(() => page.evaluate(() => document.activeElement.dataset.label), label, "the focus");
  await page.locator("details.saved summary").click();
  await ask("record-iteration", { prompt: "a heron, later", sessionId: id, images: [picture(96, 64, 21)] });
  await until(() => page.locator("#wall .card").count(), found + 2, "another new one");
  await until(() => page.locator("details.saved").getAttribute("open"), "", "the menu is open");
});

await done(page);
