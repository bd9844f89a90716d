// Every image of a batch is rated, found, compared and chosen as the cover on its own: in the loupe, the grid, the search, the
// survey, and at the command line.

import { ask, done, go, open, same, step, tell, until } from "./browser.mjs";
import { picture } from "./pictures.mjs";

const retake = (...args) => tell(`run ${JSON.stringify(args)}`);
const { session: { id } } = await ask("record-iteration", { prompt: "a lynx, first try", title: "Lynx", images: [picture(96, 64, 1)] });
await ask("record-iteration", { prompt: "a lynx, in a batch", sessionId: id, images: [2, 3, 4].map((it) => picture(96, 64, it)) });
const { images } = await ask("get-iteration", { reference: `${id}#1` });
const annotations = async () => (await ask("get-iteration", { reference: `${id}#1` })).annotations ?? {};
const shown = (page, at) => page.waitForFunction((wanted) => document.querySelector("#stage").dataset.shown === wanted, at);
const stars = (page) => page.locator("#stars").getAttribute("data-rating");
const page = await open();

await step("a digit rates only the image shown", async () => {
  await go(page, `/sessions/${id}/1`);
  await page.keyboard.press("]");
  await shown(page, "1/1");
  await page.keyboard.press("5");
  await until(() => stars(page), "5", "its stars");
  await until(async () => (await annotations()).rating, 5, "the iteration has the best rating");
  await page.keyboard.press("[");
  await shown(page, "1/0");
  await until(() => stars(page), "0", "the first is not rated");
  await page.keyboard.press("2");
  await until(async () => (await annotations()).tags, ["image/0:2", "image/1:5"], "both are kept");
  await until(() => page.locator(".tags").count(), 0, "ratings are not shown as tags");
});

await step("the ratings survive a reload and are shown in the strip", async () => {
  await go(page, `/sessions/${id}/1/1`);
  await until(() => stars(page), "5", "the second");
  await go(page, `/sessions/${id}/1`);
  await until(() => stars(page), "2", "the first");
  await until(() => page.locator('.take[data-index="1"]').getAttribute("data-rating"), "5", "the strip has the best");
});

await step("undo restores the previous rating", async () => {
  await page.keyboard.press("3");
  await until(async () => (await annotations()).tags, ["image/0:3", "image/1:5"], "rated");
  await page.keyboard.press("u");
  await until(async () => (await annotations()).tags, ["image/0:2", "image/1:5"], "undone");
});

await step("a rating from the command line appears on the page", async () => {
  await go(page, `/sessions/${id}/1/2`);
  await page.waitForSelector("html[data-live]");
  await retake("annotate", `${id}#1/2`, "--rating", "4");
  await until(() => stars(page), "4", "the third");
  same((await annotations()).tags, ["image/0:2", "image/1:5", "image/2:4"], "three ratings");
});

await step("tags and image ratings are independent", async () => {
  await ask("annotate-iteration", { reference: `${id}#1`, tags: ["wild"] });
  same((await annotations()).tags, ["wild", "image/0:2", "image/1:5", "image/2:4"], "replacing tags keeps the ratings");
});

await step("the grid shows, filters and rates each image", async () => {
  await go(page, `/sessions/${id}/grid`);
  const ratings = () => page.locator('.tile[data-index="1"]').evaluateAll((tiles) => tiles.map((tile) => tile.dataset.rating));
  await until(ratings, ["2", "5", "4"], "three ratings");
  await page.locator("#filter").selectOption("liked");
  await until(() => page.locator(".tile:visible").evaluateAll((tiles) => tiles.map((tile) => tile.dataset.image)), ["1", "2"], "only those");
  await page.locator("#filter").selectOption("takes");
  await page.locator('.tile[data-index="1"][data-image="0"]').focus();
  await page.keyboard.press("1");
  await until(ratings, ["1", "5", "4"], "one changed");
  await until(async () => (await annotations()).tags.includes("image/0:1"), true, "and is kept");
});

await step("a search by rating shows the images that have it", async () => {
  const found = () => page.locator("#wall .card").evaluateAll((cards) => cards.map((card) => card.dataset.reference));
  await go(page, "/search?q=rating:5");
  await until(found, [`${id}#1/1`], "the second image alone");
  await go(page, "/search?q=rating:%3E%3D4");
  await until(found, [`${id}#1/1`, `${id}#1/2`], "two of three");
  await go(page, "/search?q=batch");
  await until(found, [0, 1, 2].map((number) => `${id}#1/${number}`), "all without a filter");
  same((await ask("search-iterations", { query: "rating:5" })).iterations.map((it) => it.reference), [`${id}#1`], "the iteration is found by its best image");
});

await step("the best image is the cover unless another is chosen", async () => {
  const cover = async () => { await go(page, "/"); return (await page.locator(`.card[data-session="${id}"] img`).getAttribute("src")).split("/").pop(); };
  await until(cover, images[1].hash, "the best");
  await go(page, `/sessions/${id}/1/2`);
  await page.getByRole("button", { name: "Use as cover" }).click();
  await until(() => page.locator("#cover").getAttribute("aria-pressed"), "true", "pressed");
  await until(async () => (await annotations()).tags.includes("cover/2"), true, "kept");
  await until(cover, images[2].hash, "the chosen one");
  await go(page, `/sessions/${id}/0`);
  await page.keyboard.press("v");
  await until(async () => (await annotations()).tags.includes("cover/2"), false, "there is one cover");
  const first = await ask("get-iteration", { reference: `${id}#0` });
  await until(cover, first.images[0].hash, "chosen by key");
  await go(page, `/sessions/${id}/0`);
  await until(() => page.locator("#cover").getAttribute("aria-pressed"), "true", "it is known after a reload");
  await page.locator("#cover").click();
  await until(cover, images[1].hash, "the best again");
});

await step("the survey rates one of several from the same batch", async () => {
  await go(page, `/compare?refs=${[0, 1, 2].map((number) => encodeURIComponent(`${id}#1/${number}`)).join(",")}`);
  const ratings = () => page.locator(".tile").evaluateAll((tiles) => tiles.map((tile) => tile.dataset.rating));
  await until(ratings, ["1", "5", "4"], "three ratings");
  await page.locator(".tile").nth(0).hover();
  await page.locator(".tile").nth(0).getByRole("button", { name: "3 of 5" }).click();
  await until(ratings, ["3", "5", "4"], "one changed");
  await until(async () => (await annotations()).tags.includes("image/0:3"), true, "and is kept");
});

await step("the trail names the image", async () => {
  await go(page, `/sessions/${id}/audit`);
  await until(async () => (await page.locator("main").textContent()).includes("rated image 1 of #1 ★3, was ★1"), true, "a sentence");
});

await step("rating the iteration rates all of its images", async () => {
  await ask("annotate-iteration", { reference: `${id}#1`, rating: 3 });
  same(await annotations(), { rating: 3, tags: ["wild"] }, "one rating");
  await go(page, `/sessions/${id}/1/2`);
  await until(() => stars(page), "3", "each has it");
});

await step("rating and choosing by touch", async () => {
  const phone = await open({ viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true });
  await go(phone, `/sessions/${id}/1/1`);
  await phone.getByRole("button", { name: "Rate 4 of 5" }).tap();
  await until(async () => (await annotations()).tags.includes("image/1:4"), true, "rated");
  await phone.getByRole("button", { name: "Use as cover" }).tap();
  await until(async () => (await annotations()).tags.includes("cover/1"), true, "the cover");
  same(phone.faults, [], "no faults");
});

await done(page);
