// What is easily overlooked: where the next result is, how unusual takes are shown, and what stays where it was.

import { addressed, ask, base, boxOf, done, go, open, same, step, until } from "./browser.mjs";
import { picture, png } from "./pictures.mjs";

const { session: { id } } = await ask("record-iteration", { prompt: "a kite over dunes", title: "Kite", images: [picture(96, 64, 1)] });
for (let at = 1; at < 14; at += 1) await ask("record-iteration", { prompt: `a kite over dunes, take ${at}`, sessionId: id, images: [picture(96, 64, at + 1)] });
const refused = await ask("record-iteration", { prompt: "a kite on fire", title: "Refused", outcome: "refused", message: "not allowed by the provider" });
const imported = await fetch(`${base}/import`, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ files: [{ name: "IMG_0042.png", modified: 1770000000000, data: png(64, 64, 30) }] }) });
same((await imported.json()).iterations, 1, "an image without a prompt");
const putAway = await ask("record-iteration", { prompt: "a balloon over dunes", title: "Put away", images: [picture(64, 96, 40)] });
await ask("archive-session", { sessionId: putAway.session.id });
const shown = (page, at) => page.waitForFunction((wanted) => document.querySelector("#stage").dataset.shown === wanted, `${at}/0`);
const page = await open();

await step("from a search result, the next one is reached and Back leads to the results", async () => {
  await go(page, "/search?q=kite");
  const links = await page.locator("#wall .card").evaluateAll((cards) => cards.map((card) => card.getAttribute("href")));
  await page.locator("#wall .card").nth(3).click();
  await page.waitForURL(`**${links[3]}`);
  await page.waitForSelector("html[data-ready]");
  await page.getByRole("link", { name: "Next result" }).click();
  await page.waitForURL(`**${links[4]}`);
  await page.waitForSelector("html[data-ready]");
  await page.keyboard.press(".");
  await page.waitForURL(`**${links[5]}`);
  await page.waitForSelector("html[data-ready]");
  await page.keyboard.press(",");
  await page.waitForURL(`**${links[4]}`);
  await page.waitForSelector("html[data-ready]");
  await until(() => page.locator("#crumb").getAttribute("href"), "/search?q=kite", "the way back");
  await page.goBack();
  await page.waitForURL("**/search?q=kite");
  const other = await open();
  await go(other, `/sessions/${id}/3`);
  await until(() => other.getByRole("link", { name: "Next result" }).count(), 0, "none without results");
  await other.close();
});

await step("a session without title and prompt has a name", async () => {
  await go(page, "/");
  await until(() => page.locator(".name").evaluateAll((names) => names.every((name) => name.textContent.trim() !== "" && !name.textContent.includes("session-"))), true, "every card");
  const card = page.locator('.card:has-text("IMG_0042.png")');
  const address = `/sessions/${await card.getAttribute("data-session")}`;
  for (const view of ["", "/grid", "/story", "/tree"]) {
    await go(page, address + view);
    await until(() => page.locator("h1").first().textContent(), "IMG_0042.png", `the page ${view}`);
  }
});

await step("the wheel scrolls the strip, which is not loaded twice", async () => {
  const narrow = await open({ viewport: { width: 1000, height: 700 } });
  const asked = [];
  narrow.on("request", (request) => { if (/\/strip(\?|$)/.test(request.url())) asked.push(request.url()); });
  await go(narrow, `/sessions/${id}/0`);
  await narrow.waitForSelector("html[data-live]");
  same(asked, [], "requests for what came with the page");
  const film = narrow.locator(".film");
  await until(() => film.evaluate((it) => it.scrollLeft), 0, "at the start");
  const box = await boxOf(film);
  await narrow.mouse.move(box.x + 200, box.y + 40);
  await narrow.mouse.wheel(0, 300);
  await until(async () => await film.evaluate((it) => it.scrollLeft) > 100, true, "scrolled");
  same(narrow.faults, [], "no faults");
  await narrow.close();
});

await step("a refused attempt is explained once, with its stars in one line", async () => {
  await go(page, `/sessions/${refused.session.id}`);
  await until(async () => (await page.locator("main").innerText()).split("not allowed by the provider").length - 1, 1, "how often the message is shown");
  await until(() => page.locator("#stars button").evaluateAll((stars) => new Set(stars.map((star) => Math.round(star.getBoundingClientRect().top))).size), 1, "lines of stars");
});

await step("archived does not look like failed", async () => {
  const colours = (selector) => page.locator(selector).first().evaluate((it) => getComputedStyle(it).backgroundColor);
  await go(page, `/sessions/${refused.session.id}`);
  const bad = await colours(".outcome");
  await go(page, `/sessions/${putAway.session.id}`);
  await until(() => page.locator(".badge").textContent(), "Archived", "the badge");
  await until(async () => await colours(".badge") !== bad, true, "in another colour");
});

await step("messages on a phone cover neither the strip nor the rating", async () => {
  const phone = await open({ viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true });
  await go(phone, `/sessions/${id}/2`);
  await phone.getByRole("button", { name: "Rate 3 of 5" }).tap();
  await phone.locator("#toast.on").waitFor();
  await until(() => phone.evaluate(() => {
    const toast = document.querySelector("#toast").getBoundingClientRect();
    return [".strip", "#stars"].some((selector) => {
      const box = document.querySelector(selector).getBoundingClientRect();
      return box.top < toast.bottom && toast.top < box.bottom;
    });
  }), false, "what it covers");
  same(phone.faults, [], "no faults");
  await phone.close();
});

await step("the number of an iteration is its largest text on any screen", async () => {
  for (const [width, height] of [[1440, 900], [2560, 1440]]) {
    const large = await open({ viewport: { width, height } });
    await go(large, `/sessions/${id}/2`);
    await until(() => large.evaluate(() => {
      const size = (selector) => parseFloat(getComputedStyle(document.querySelector(selector)).fontSize);
      return size(".step h2") > Math.max(size(".step .of"), size(".step time"));
    }), true, `at ${width}`);
    await large.close();
  }
});

await step("the search box stays in place from page to page", async () => {
  const places = [];
  for (const path of ["/", "/search", "/workspace", "/?status=archived"]) {
    await go(page, path);
    const { x, width } = await boxOf(page.locator("#search"));
    places.push([Math.round(x), Math.round(width)]);
  }
  same(new Set(places.map(String)).size, 1, JSON.stringify(places));
});

await step("the outline of a focused card is in sight", async () => {
  await go(page, "/");
  await page.keyboard.press("ArrowRight");
  await until(() => page.evaluate(() => {
    const card = document.activeElement.closest(".card");
    const { outlineWidth, outlineOffset } = getComputedStyle(card);
    const { left } = card.getBoundingClientRect();
    return left - parseFloat(outlineWidth) - parseFloat(outlineOffset) >= 0;
  }), true, "left of it is room");
});

await step("large counts are grouped, also after an update", async () => {
  await page.route("**/sessions/part?**", async (route) => {
    const answer = await route.fetch();
    // The page may have asked again, which cancels this request.
    await route.fulfill({ response: answer, headers: { ...answer.headers(), "x-total": "10000" } }).catch(() => {});
  });
  await page.waitForSelector("html[data-live]");
  await ask("annotate-iteration", { reference: `${id}#0`, rating: 2 });
  await until(() => page.locator("#total").textContent(), "10\u202f000", "the count");
  await page.unrouteAll({ behavior: "ignoreErrors" });
});

await step("similar images come with the one they are like, most similar first", async () => {
  const { images: [image] } = await ask("get-iteration", { reference: `${id}#3` });
  await go(page, `/search?like=${encodeURIComponent(`${id}#3`)}`);
  await until(() => page.locator(".chip.like img").getAttribute("src"), `/thumbs/${image.hash}`, "its image");
  await until(async () => (await page.locator(".chip.like").innerText()).replace(/\s+/g, " ").trim(), "similar to Kite #3 ×", "its name");
  await until(() => page.locator("summary", { hasText: "Sort" }).count(), 0, "no other order");
  await page.locator(".chip.like").click();
  await page.waitForURL((url) => !url.searchParams.has("like"));
});

await step("a match is in sight on its card", async () => {
  await ask("record-iteration", { prompt: "storm clouds over a wide and empty sea, seen from the window of the last lighthouse", images: [picture(64, 96, 50)] });
  await go(page, "/search?q=lighthouse");
  await until(() => page.locator("mark").first().evaluate((mark) => {
    const [own, name] = [mark.getBoundingClientRect(), mark.closest(".name").getBoundingClientRect()];
    return own.left >= name.left && own.right <= name.right && mark.textContent === "lighthouse";
  }), true, "the whole word");
});

await step("a misspelt word is corrected on request", async () => {
  await go(page, "/search?q=lihgthouse%20sea");
  await until(() => page.locator("h2").first().textContent(), "Nothing matches “lihgthouse sea”", "nothing");
  await page.getByRole("link", { name: "lighthouse sea" }).click();
  await page.waitForURL("**/search?q=lighthouse%20sea");
  await until(() => page.locator("h1").textContent(), "1 iteration", "what was meant");
  await go(page, "/search?q=xyzzyplugh");
  await until(async () => (await page.locator("main").innerText()).includes("Did you mean"), false, "no guess for anything else");
});

await step("results are sorted by size and shuffled", async () => {
  await ask("record-iteration", { prompt: "a kite, huge", images: [picture(512, 512, 60)] });
  const order = () => page.locator("#wall .card").evaluateAll((cards) => cards.map((card) => card.dataset.reference));
  await go(page, "/search?q=kite");
  const newest = await order();
  const sort = async (name) => {
    await page.locator("summary", { hasText: "Sort" }).click();
    await page.getByRole("link", { name, exact: true }).click();
    await page.waitForSelector("html[data-ready]");
  };
  await sort("Largest");
  await page.waitForURL("**sort=largest**");
  await until(() => page.locator("#wall .card .name").first().textContent(), "a kite, huge", "the largest is the first");
  await sort("Random");
  await page.waitForURL("**sort=random**");
  const random = await order();
  same(random.toSorted(), newest.toSorted(), "the same images");
  await page.reload();
  await page.waitForSelector("html[data-ready]");
  await until(order, random, "in the same order after a reload");
  // Two orders of fifteen are hardly ever the same.
  const before = page.url();
  await sort("Shuffle again");
  await page.waitForFunction((url) => location.href !== url, before);
  await page.waitForSelector("html[data-ready]");
  await until(async () => JSON.stringify(await order()) !== JSON.stringify(random), true, "another order");
  await until(() => page.locator("summary", { hasText: "Sort: Random" }).count(), 1, "the menu shows it");
});

await step("sizes are chosen next to the results", async () => {
  await go(page, "/search?q=kite");
  const section = page.locator(".facets section", { has: page.locator("h2", { hasText: /^Size$/ }) });
  await section.locator(".value a", { hasText: "512x512" }).first().click();
  await page.waitForURL("**size**");
  await until(() => page.locator("h1").textContent(), "1 iteration", "only that");
});

/** Whether elements are within another one, horizontally. A few pixels of padding may reach into its margin. */
const within = (page, selector, box) => page.locator(selector).evaluateAll((found, outer) => found.length > 0 && found.every((it) => {
  const [own, limits] = [it.getBoundingClientRect(), it.closest(outer).getBoundingClientRect()];
  return own.width > 0 && own.left >= limits.left - 1 && own.right <= limits.right + 8;
}), box);

await step("long names are shortened where they are shown, and cover nothing", async () => {
  const long = "a-name-that-goes-on-and-on-and-does-not-break-anywhere_v17_pruned_emaonly_fp16.safetensors";
  const tags = Array.from({ length: 30 }, (_, number) => `${number} ${long}`);
  const { session: { id: study } } = await ask("record-iteration", { prompt: `a study of ${long}`, title: "Study", model: long, loras: [{ name: long, weight: 0.8 }], images: [picture(96, 64, 70)] });
  const { reference } = await ask("record-iteration", { prompt: `<lora:${long}:0.8>, another, ${"x".repeat(400)}`, sessionId: study, model: `${long}2`, images: [picture(96, 64, 71)] });
  await ask("annotate-iteration", { reference, rating: 5, tags, note: "a note on it ".repeat(40) });
  for (const viewport of [{ width: 1440, height: 900 }, { width: 390, height: 844 }]) {
    const other = await open({ viewport });
    await go(other, "/search?q=study%20OR%20another");
    if (viewport.width < 900) await other.locator(".facets summary").click();
    await until(() => within(other, ".facets .value > a:first-child span:last-child", ".facets"), true, "the counts of the filters");
    await go(other, "/workspace");
    await until(() => within(other, ".halves .projects a > span:last-child", ".block"), true, "the counts of the models");
    await go(other, `/sessions/${study}/story`);
    await until(() => within(other, ".story .changes > *, .story .said > *", ".story"), true, "the changes and tags of the story");
    await until(async () => (await other.locator(".said .chip").count()) <= 24, true, "not every tag");
    await go(other, `/sessions/${study}/1`);
    await until(() => other.evaluate(() => document.documentElement.scrollWidth <= innerWidth), true, "the loupe");
    await until(() => within(other, "#facts .heading button, #facts .tags a", ".facts"), true, "its buttons and tags");
    await other.close();
  }
});

await step("the letters of a survey are legible in any theme", async () => {
  for (const colorScheme of ["light", "dark"]) {
    const other = await open({ colorScheme });
    await go(other, `/compare?refs=${[1, 2, 3].map((at) => encodeURIComponent(`${id}#${at}`)).join(",")}`);
    // White on black that shines through a little; not on the light background of a button.
    const colours = () => other.locator(".tile .letter").nth(1).evaluate((letter) => [getComputedStyle(letter).color, getComputedStyle(letter).backgroundColor, getComputedStyle(letter.parentElement).backgroundColor]);
    await until(colours, ["rgb(255, 255, 255)", "rgba(255, 255, 255, 0.2)", "rgba(20, 19, 18, 0.85)"], colorScheme);
    await other.close();
  }
});

await step("a session in a grid fills the window if it has few images", async () => {
  const { session: { id: few } } = await ask("record-iteration", { prompt: "one of few", images: [picture(96, 64, 72), picture(96, 64, 73)] });
  const height = (page) => page.locator(".tile .pic").first().evaluate((tile) => tile.getBoundingClientRect().height);
  await go(page, `/sessions/${few}/grid`);
  await until(async () => await height(page) > 420, true, "large");
  await until(() => page.evaluate(() => document.documentElement.scrollHeight <= innerHeight), true, "without scrolling");
});

await step("focus stays in the tray while images are removed from it", async () => {
  for (const at of [1, 2, 3]) {
    await go(page, `/sessions/${id}/${at}`);
    await page.keyboard.press("c");
    await page.waitForSelector('[data-tray][aria-pressed="true"]');
  }
  await page.locator("#tray-count").click();
  await page.getByRole("button", { name: "Remove Kite #2" }).click();
  await until(() => page.evaluate(() => document.activeElement.getAttribute("aria-label")), "Remove Kite #3", "on the next one");
  await page.keyboard.press("Enter");
  await until(() => page.evaluate(() => document.activeElement.getAttribute("aria-label")), "Remove Kite #1", "on what is left");
  const entries = await page.evaluate(() => history.length);
  await page.keyboard.press("Escape");
  await until(() => page.locator("#tray").isVisible(), false, "Escape closes it");
  // A key after it reaches the page, which is still the same.
  await page.keyboard.press("ArrowLeft");
  await shown(page, 2);
  await addressed(page, (url) => url.pathname, `/sessions/${id}/2`, "its address");
  same(await page.evaluate(() => history.length), entries, "entries of the history");
});

await step("an attempt without an image is compared by its recipe", async () => {
  await go(page, `/compare?refs=${[`${id}#1`, refused.reference].map(encodeURIComponent).join(",")}`);
  const word = page.locator(".pane.b .none");
  await until(() => word.textContent(), "This attempt was refused", "the word");
  const inside = () => page.evaluate(() => {
    const [pane, text] = [document.querySelector(".pane.b").getBoundingClientRect(), document.querySelector(".pane.b .none").getBoundingClientRect()];
    return text.top >= pane.top && text.bottom <= pane.bottom && Math.abs((text.top + text.bottom) / 2 - (pane.top + pane.bottom) / 2) < 20;
  });
  await until(inside, true, "in the middle of its side");
  await until(() => page.locator("#facts").innerText().then((text) => text.includes("on fire")), true, "the prompts are compared");
});

await step("the image itself is copied to the clipboard", async () => {
  await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
  await go(page, `/sessions/${id}/3`);
  await page.getByRole("button", { name: "Copy image" }).click();
  await page.waitForFunction(() => document.querySelector("#toast").textContent === "Image copied");
  const copied = () => page.evaluate(async () => {
    const [item] = await navigator.clipboard.read();
    const bitmap = await createImageBitmap(await item.getType("image/png"));
    return [bitmap.width, bitmap.height];
  });
  await until(copied, [96, 64], "an image of its size");
});

await done(page);
