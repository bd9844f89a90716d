// The loupe, the grid and the story: by keyboard only, by mouse only, by touch only; how they look, and what screen readers hear.

import { addressed, ask, axePath, boxOf, done, go, open, same, shots, step, tell, until } from "./browser.mjs";
import { picture } from "./pictures.mjs";

const retake = (...args) => tell(`run ${JSON.stringify(args)}`);
const changes = [
  { prompt: "a harbour, morning light", steps: 20 },
  { prompt: "a harbour, at dusk", steps: 20 },
  { prompt: "a harbour, at dusk", steps: 28, cost: { amount: 0.04, currency: "USD" } },
  { prompt: "a harbour, at dusk, low mist", steps: 28, cost: { amount: 0.04, currency: "USD" } },
];
const first = await ask("record-iteration", { ...changes[0], title: "Harbour", project: "Postcards", images: [picture(768, 512, 1)] });
const id = first.session.id;
for (const [at, change] of changes.slice(1).entries()) {
  await ask("record-iteration", { ...change, sessionId: id, images: [picture(768, 512, at + 2)] });
}
// A batch of four, one attempt that failed, and a branch from the first.
await ask("record-iteration", { prompt: "a harbour, at dusk, gulls", sessionId: id, images: [5, 6, 7, 8].map((it) => picture(512, 512, it)) });
await ask("record-iteration", { prompt: "a harbour, on fire", sessionId: id, outcome: "failed", message: "out of memory" });
await ask("record-iteration", { prompt: "a harbour, morning light, snow", steps: 20, sessionId: id, parent: `${id}#0`, images: [picture(768, 512, 9)] });
const last = 6;
const graph = { 1: { class_type: "KSampler", inputs: { seed: 7, steps: 20 } } };
const comfy = await ask("record-iteration", { prompt: "قلعة قديمة (sharp focus:1.2), مساء", parameters: { prompt: graph }, images: [picture(64, 64, 3)] });
await ask("annotate-iteration", { reference: `${id}#3`, rating: 5, note: "the mist is right", tags: ["print"] });
const { images: batch } = await ask("get-iteration", { reference: `${id}#4` });

const shown = (page, at) => page.waitForFunction((wanted) => document.querySelector("#stage").dataset.shown === wanted, at);
const fresh = (page) => page.waitForFunction(() => !document.querySelector("#facts.stale"));
const collected = (page, many) => page.waitForFunction((wanted) => (document.querySelector("#tray-count") ?? document.querySelector("#compare-count")).textContent.replace(/\D/g, "") === wanted, many);
const at = shown;
const level = (page) => page.locator("#level").textContent();
const ready = (page) => page.waitForFunction(() => document.querySelector(".picture")?.complete);
const page = await open();

await step("the image takes most of the window", async () => {
  await go(page, `/sessions/${id}/3`);
  await ready(page);
  await until(() => page.evaluate(() => {
    const box = document.querySelector(".picture").getBoundingClientRect();
    return (box.width * box.height) / (innerWidth * innerHeight) >= 0.6;
  }), true, "60 % of the window");
});

await step("the strip is one row, captioned with what changed", async () => {
  const rows = () => page.locator(".take").evaluateAll((takes) => new Set(takes.map((take) => Math.round(take.getBoundingClientRect().top))).size);
  await until(rows, 1, "rows");
  const captions = await page.locator(".take .caption").evaluateAll((all) => all.map((it) => it.textContent.replace(/^#\d+, /, "")));
  same(captions[2], "steps 20→28", "a caption");
  same(captions[3], "+low mist", "another");
  same(captions[6], "⎇ #0 +snow", "a branch");
  await until(() => page.locator('.take[data-index="4"] .many').textContent(), "4 images", "a batch");
  await page.keyboard.press("b");
  await until(rows, 2, "rows when the branches are unfolded");
  await page.keyboard.press("b");
});

await step("by keyboard: steps, zoom, the parent, the images of a batch", async () => {
  const entries = await page.evaluate(() => history.length);
  await page.keyboard.press("ArrowRight");
  await shown(page, "4/0");
  await page.keyboard.press("]");
  await shown(page, "4/1");
  await page.waitForURL(`**/sessions/${id}/4/1`);
  await until(() => page.locator(".picture").getAttribute("src"), `/images/${batch[1].hash}`, "the second image");
  await fresh(page);
  await page.keyboard.press("c");
  await collected(page, "1");
  await until(() => page.locator("[data-tray]").getAttribute("data-tray"), `${id}#4/1`, "what is compared");
  await page.keyboard.press("c");
  await page.keyboard.press("[");
  await shown(page, "4/0");
  await page.keyboard.press("Home");
  await shown(page, "0/0");
  await page.keyboard.press("End");
  await shown(page, `${last}/0`);
  await page.keyboard.press("ArrowUp");
  await shown(page, "0/0");
  await fresh(page);
  await page.keyboard.press("ArrowDown");
  await shown(page, "1/0");
  await until(async () => await page.evaluate(() => history.length), entries, "entries of the history");
  await until(async () => (await level(page)).startsWith("Fit"), true, "fitted");
  await page.keyboard.press("z");
  await page.waitForFunction(() => document.querySelector(".frame").dataset.zoomed === "yes");
  await page.keyboard.press("Escape");
  await until(async () => (await level(page)).startsWith("Fit"), true, "Escape fits");
  await page.keyboard.down(" ");
  await page.waitForSelector(".before:visible");
  await until(() => page.locator("#corner").textContent(), "Parent #0", "the parent is named");
  await page.keyboard.up(" ");
  await page.waitForSelector(".before", { state: "hidden" });
  await page.keyboard.press("f");
  await page.waitForSelector("body[data-full]");
  await until(() => page.locator(".facts").isVisible(), false, "only the image");
  await page.keyboard.press("Escape");
  await page.waitForSelector("body:not([data-full])");
});

await step("the next image is shown without a request", async () => {
  await go(page, `/sessions/${id}/1`);
  await ready(page);
  // Its neighbours have been loaded: their facts and images.
  const has = (path) => page.waitForFunction((wanted) => performance.getEntriesByType("resource").some((it) => new URL(it.name).pathname === wanted && it.responseEnd > 0), path);
  await has(`/sessions/${id}/2/part`);
  await has(`/images/${(await ask("get-iteration", { reference: `${id}#2` })).images[0].hash}`);
  await page.route(/\/(images|part)/, (route) => route.abort());
  await page.keyboard.press("ArrowRight");
  await shown(page, "2/0");
  await until(async () => await page.locator(".picture").evaluate((it) => it.complete && it.naturalWidth), 768, "the image");
  await page.waitForFunction(() => !document.querySelector("#facts.stale") && document.querySelector("#facts").dataset.index === "2");
  await page.unroute(/\/(images|part)/);
});

await step("zooming has bounds", async () => {
  await go(page, `/sessions/${id}/1`);
  await ready(page);
  await page.locator("#frame").hover();
  for (let turn = 0; turn < 30; turn += 1) await page.mouse.wheel(0, -400);
  await page.waitForFunction(() => /^800 %/.test(document.querySelector("#level").textContent));
  const frame = await boxOf(page.locator("#frame"));
  await page.mouse.move(frame.x + 300, frame.y + 300);
  await page.mouse.down();
  await page.mouse.move(frame.x + 9000, frame.y + 9000, { steps: 5 });
  await page.mouse.up();
  await until(async () => { const box = await boxOf(page.locator(".canvas")); return Math.abs(box.x - frame.x) < 2 && Math.abs(box.y - frame.y) < 2; }, true, "its edge stays at the edge");
  await page.mouse.move(frame.x + 300, frame.y + 300);
  for (let turn = 0; turn < 40; turn += 1) await page.mouse.wheel(0, 400);
  await page.waitForFunction(() => document.querySelector("#level").textContent.startsWith("Fit"));
  await addressed(page, (url) => url.pathname, `/sessions/${id}/1`, "and one stays in the app");
});

/** Opens the session from the wall with a click; a card may lead to the take that it shows. */
async function opened() {
  await page.locator(`a.card[data-session="${id}"]`).first().click();
  await page.waitForURL((url) => url.pathname.startsWith(`/sessions/${id}`));
  await page.waitForSelector("html[data-ready]");
}

await step("by mouse only", async () => {
  await go(page, "/");
  await opened();
  await page.locator(`.take[data-index="${last}"]`).click();
  await shown(page, `${last}/0`);
  await page.locator('.take[data-index="3"]').click();
  await shown(page, "3/0");
  await page.locator("#stage").hover();
  await page.getByRole("button", { name: "Next", exact: true }).click();
  await shown(page, "4/0");
  await page.getByRole("button", { name: "Image 3 of 4" }).click();
  await shown(page, "4/2");
  await page.locator("#frame").click();
  await page.waitForFunction(() => document.querySelector(".frame").dataset.zoomed === "yes");
  await page.locator("#level").click();
  await page.waitForFunction(() => document.querySelector(".frame").dataset.zoomed === "no");
  await page.getByRole("button", { name: "Previous", exact: true }).click();
  await shown(page, "3/0");
  await fresh(page);
  const hold = await boxOf(page.locator("#hold"));
  await page.mouse.move(hold.x + 5, hold.y + 5);
  await page.mouse.down();
  await page.waitForSelector(".before:visible");
  await page.mouse.up();
  await page.waitForSelector(".before", { state: "hidden" });
  await page.getByRole("button", { name: "Rate 4 of 5" }).click();
  await page.waitForFunction(() => document.querySelectorAll("#stars .on").length === 4);
  await page.getByRole("button", { name: "Undo" }).click();
  await page.waitForFunction(() => document.querySelectorAll("#stars .on").length === 5);
  await page.getByRole("button", { name: "Add to compare" }).click();
  await collected(page, "1");
  await until(async () => await page.locator(".film").evaluate((film) => { const box = film.getBoundingClientRect(); return film.contains(document.elementFromPoint(box.left + 60, box.bottom - 30)); }), true, "nothing lies over the strip");
  await page.locator("[data-tray]").click();
  await page.locator("#more summary").click();
  await page.getByRole("button", { name: "Rename…" }).click();
  await page.locator(".renaming input").fill("Harbour at dusk");
  await page.getByRole("button", { name: "Save" }).click();
  await page.waitForFunction(() => document.querySelector("#about").dataset.title === "Harbour at dusk");
  await page.locator("#more summary").click();
  await page.locator("#stage").click({ position: { x: 20, y: 200 } });
  await until(() => page.locator("#more").getAttribute("open"), null, "a click elsewhere closes the menu");
  await page.locator("#crumb").click();
  await page.waitForURL("**/");
});

await step("Back leaves the loupe after six steps", async () => {
  await page.waitForSelector("html[data-ready]");
  await opened();
  await page.keyboard.press("End");
  for (let times = 0; times < 6; times += 1) await page.keyboard.press("ArrowLeft");
  await page.waitForURL(`**/sessions/${id}/0`);
  await page.goBack();
  await page.waitForURL((url) => url.pathname === "/");
});

await step("by touch only", async () => {
  const phone = await open({ viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true });
  await go(phone, `/sessions/${id}/2`);
  await ready(phone);
  const touch = await phone.context().newCDPSession(phone);
  const send = (type, ...points) => touch.send("Input.dispatchTouchEvent", { type, touchPoints: points.map(([x, y]) => ({ x, y })) });
  const box = await boxOf(phone.locator("#frame"));
  const [x, y] = [box.x + box.width / 2, box.y + box.height / 2];
  await send("touchStart", [x + 90, y]);
  for (let moved = 80; moved >= -90; moved -= 20) await send("touchMove", [x + moved, y]);
  await send("touchEnd");
  await shown(phone, "3/0");
  await send("touchStart", [x - 90, y]);
  for (let moved = -80; moved <= 90; moved += 20) await send("touchMove", [x + moved, y]);
  await send("touchEnd");
  await shown(phone, "2/0");
  await send("touchStart", [x - 20, y], [x + 20, y]);
  for (let apart = 30; apart <= 120; apart += 15) await send("touchMove", [x - apart, y], [x + apart, y]);
  await send("touchEnd");
  await phone.waitForFunction(() => document.querySelector(".frame").dataset.zoomed === "yes");
  await phone.locator("#level").tap();
  await phone.waitForFunction(() => document.querySelector(".frame").dataset.zoomed === "no");
  await phone.getByRole("button", { name: "Rate 3 of 5" }).tap();
  await phone.waitForFunction(() => document.querySelectorAll("#stars .on").length === 3);
  await phone.getByRole("button", { name: "Undo" }).tap();
  await phone.waitForFunction(() => document.querySelectorAll("#stars .on").length === 0);
  await phone.locator('.views a:has-text("Story")').tap();
  await phone.waitForURL("**/story");
  same(phone.faults, [], "what went wrong");
  await phone.close();
});

await step("rejected images are hidden but kept; auto-advance is optional", async () => {
  await go(page, `/sessions/${id}/1`);
  await page.locator("#more summary").click();
  await page.getByLabel("Go to the next after rating").check();
  await page.keyboard.press("Escape");
  await page.keyboard.press("x");
  await shown(page, "2/0");
  await page.waitForFunction(() => !document.querySelector('.take[data-index="1"]'));
  await page.keyboard.press("ArrowLeft");
  await shown(page, "0/0");
  await page.locator("#filter").selectOption("everything");
  await page.waitForSelector('.take[data-index="1"][data-mark="x"]');
  await page.locator("#filter").selectOption("unreviewed");
  await page.locator("#filter").blur();
  await until(async () => await page.locator(".take").evaluateAll((all) => all.map((it) => it.dataset.index)), ["0", "2", "4", "5", "6"], "the unreviewed");
  await page.keyboard.press("4");
  await shown(page, "2/0");
  await page.keyboard.press("4");
  await shown(page, "4/0");
  await page.waitForFunction(async (reference) => {
    const answer = await fetch(`/api/get-iteration?reference=${encodeURIComponent(reference)}`);
    return (await answer.json()).annotations.rating === 4;
  }, `${id}#2`);
  await until(async () => (await ask("get-iteration", { reference: `${id}#1` })).annotations.tags, ["rejected"], "the tag");
  await ask("annotate-iteration", { reference: `${id}#1`, removeTags: ["rejected"] });
  await page.locator("#more summary").click();
  await page.getByLabel("Go to the next after rating").uncheck();
});

await step("new iterations are followed on request", async () => {
  await go(page, `/sessions/${id}`);
  await page.waitForSelector("html[data-live]");
  await page.locator("#more summary").click();
  await page.getByLabel("Follow new iterations").check();
  await page.keyboard.press("Escape");
  await retake("record", "a harbour, followed", "--session", id);
  await shown(page, `${last + 1}/0`);
  await page.locator("#more summary").click();
  await page.getByLabel("Follow new iterations").uncheck();
});

await step("single-character shortcuts can be turned off", async () => {
  await go(page, `/sessions/${id}/2`);
  await page.keyboard.press("?");
  const groups = () => page.locator("dialog h2").allTextContents();
  await until(async () => { const shown = await groups(); return ["Everywhere", "Views", "Session", "Reviewing", "Looking"].filter((it) => !shown.includes(it)); }, [], "missing groups");
  await page.getByLabel("Use keys of a single character").uncheck();
  await page.keyboard.press("Escape");
  await page.waitForSelector("dialog", { state: "detached" });
  await page.keyboard.press("1");
  await page.keyboard.press("x");
  await page.keyboard.press("n");
  await page.keyboard.press("ArrowRight");
  await shown(page, "3/0");
  await until(() => page.locator("dialog").count(), 0, "no dialog");
  await until(async () => (await ask("get-iteration", { reference: `${id}#2` })).annotations.rating, 4, "the rating stays");
  await page.reload();
  await page.waitForSelector("html[data-ready]");
  await page.locator("#keys").click();
  await page.getByLabel("Use keys of a single character").check();
  await page.keyboard.press("Escape");
  await page.waitForSelector("dialog", { state: "detached" });
});

await step("another key is chosen for an action, and the two change places", async () => {
  await go(page, `/sessions/${id}/2`);
  await page.keyboard.press("?");
  const shown = (usual) => page.locator(`dialog [data-key="${usual}"]`).textContent();
  await page.locator('dialog [data-key="x"]').click();
  await page.keyboard.press("5");
  await until(() => page.locator("dialog [role=status]").textContent(), "Choose a letter or a sign", "digits are ratings");
  await page.keyboard.press("t");
  await until(async () => [await shown("x"), await shown("t")], ["t", "x"], "exchanged");
  await until(() => page.evaluate(() => document.activeElement.dataset.key), "x", "the focus stays");
  await page.keyboard.press("Escape");
  await page.waitForSelector("dialog", { state: "detached" });
  await page.reload();
  await page.waitForSelector("html[data-ready]");
  await page.keyboard.press("t");
  await until(() => page.locator("#reject").getAttribute("aria-pressed"), "true", "rejected with the new key");
  await page.keyboard.press("t");
  await until(() => page.locator("#reject").getAttribute("aria-pressed"), "false", "no longer");
  await page.keyboard.press("x");
  await until(async () => /^Tags of .* #2$/.test(await page.locator("dialog h1").textContent()), true, "the other one has its key");
  await page.keyboard.press("Escape");
  await page.waitForSelector("dialog", { state: "detached" });
  // The page names the keys as they are now, also where it is rendered anew.
  const told = (selector) => page.locator(selector).evaluate((it) => [it.title, it.getAttribute("aria-keyshortcuts")]);
  await until(() => told("#reject"), ["Reject: hidden, never deleted (t)", "t"], "in its tooltip and for screen readers");
  await until(() => told("[data-do='tag']"), ["Tags (x)", "x"], "the other one");
  await page.keyboard.press("ArrowRight");
  await at(page, "3/0");
  await fresh(page);
  await until(() => told("#reject"), ["Reject: hidden, never deleted (t)", "t"], "on the next image");
  await until(() => told("[data-view='tree']"), ["Tree (T)", "Shift+T"], "a key that was not exchanged");
  await page.keyboard.press("ArrowLeft");
  await at(page, "2/0");
  await page.keyboard.press("?");
  await page.getByRole("button", { name: "Reset keys" }).click();
  await until(async () => [await shown("x"), await shown("t")], ["x", "t"], "as usual");
  await until(() => told("#reject"), ["Reject: hidden, never deleted (x)", "x"], "at once");
  await page.getByLabel("Use keys of a single character").uncheck();
  await until(() => told("#reject"), ["Reject: hidden, never deleted", null], "no key that does not work");
  await until(() => told("[data-do='on']"), ["Next (→)", "ArrowRight"], "others stay");
  await page.getByLabel("Use keys of a single character").check();
  await page.keyboard.press("Escape");
  await page.waitForSelector("dialog", { state: "detached" });
});

await step("damaged settings leave the keys as they are", async () => {
  const damaged = [
    "no JSON", "null", "[]", "7", '"text"',
    '{"exchanged":null,"keys":null}', '{"exchanged":"xt","keys":0}', '{"exchanged":["x","t"],"keys":"no"}',
    // Two actions on one key, an action without a key, and keys that cannot be chosen.
    '{"exchanged":{"x":"t"}}', '{"exchanged":{"x":"t","t":"t"}}', '{"exchanged":{"x":5,"5":"x"}}', '{"exchanged":{"?":"x","x":"?"}}', '{"exchanged":{"Escape":"x","x":"Escape"}}',
  ];
  const usual = await page.evaluate(() => localStorage.getItem("retake-settings"));
  for (const value of damaged) {
    await page.evaluate((text) => localStorage.setItem("retake-settings", text), value);
    await go(page, `/sessions/${id}/2`);
    await page.keyboard.press("t");
    await until(async () => /^Tags of .* #2$/.test(await page.locator("dialog h1").textContent()), true, `t with ${value}`);
    await page.keyboard.press("Escape");
    await page.waitForSelector("dialog", { state: "detached" });
    await until(() => page.locator("#reject").getAttribute("aria-keyshortcuts"), "x", `the key of another with ${value}`);
    await page.keyboard.press("?");
    await page.waitForSelector("dialog");
    await until(() => page.getByLabel("Use keys of a single character").isChecked(), true, `the switch with ${value}`);
    await page.keyboard.press("Escape");
    await page.waitForSelector("dialog", { state: "detached" });
  }
  await page.evaluate((text) => localStorage.setItem("retake-settings", text), usual);
});

await step("an image that fits is dragged out of the window as its original", async () => {
  await go(page, `/sessions/${id}/3`);
  await ready(page);
  await fresh(page);
  const { images: [image] } = await ask("get-iteration", { reference: `${id}#3` });
  await page.evaluate(() => addEventListener("dragstart", (event) => { globalThis.dragged = event.defaultPrevented ? "nothing" : event.dataTransfer.getData("DownloadURL"); }));
  const box = await boxOf(page.locator("#frame"));
  const [x, y] = [box.x + box.width / 2, box.y + box.height / 2];
  const drag = async () => { await page.mouse.move(x, y); await page.mouse.down(); await page.mouse.move(x + 60, y + 30, { steps: 5 }); await page.mouse.up(); };
  await drag();
  await until(() => page.evaluate(() => globalThis.dragged?.replace(/http:\/\/[^/]+/, "")), `image/png:${id}-3.png:/images/${image.hash}`, "the file and its name");
  await page.keyboard.press("z");
  await page.waitForFunction(() => document.querySelector(".frame").dataset.zoomed === "yes");
  await drag();
  await until(() => page.evaluate(() => globalThis.dragged), "nothing", "a zoomed image is moved instead");
  await page.keyboard.press("Escape");
});

await step("the path of the file is copied at this machine", async () => {
  await page.locator('details[data-name="file"] summary').click();
  const { images: [image] } = await ask("get-iteration", { reference: `${id}#3` });
  await until(async () => (await page.getByRole("button", { name: "Copy path" }).getAttribute("data-text")).replaceAll("/", "").includes(image.hash.slice(2)), true, "the path");
});

await step("the theme is chosen in the header and kept", async () => {
  const paper = () => page.evaluate(() => getComputedStyle(document.documentElement).backgroundColor);
  const light = await paper();
  await page.locator("#theme").click();
  await page.locator("#theme").click();
  await until(() => page.locator("#theme").getAttribute("aria-label"), "Theme: dark", "the label");
  await until(async () => await paper() === light, false, "another colour");
  const dark = await paper();
  await page.reload();
  await until(async () => await paper(), dark, "after a reload");
  await page.waitForSelector("html[data-ready]");
  await page.locator("#theme").click();
  await until(async () => await paper(), light, "automatic again");
});

await step("a step is announced, and the strip is one tab stop", async () => {
  await go(page, `/sessions/${id}/2`);
  await page.keyboard.press("ArrowRight");
  await page.waitForFunction(() => document.querySelector("#announce").textContent === "#3 of 8, +low mist, 5 stars");
  await until(() => page.locator('.take[tabindex="0"]').count(), 1, "tab stops");
  await page.locator('.take[tabindex="0"]').focus();
  await page.keyboard.press("ArrowLeft");
  await page.waitForFunction(() => document.activeElement.dataset.index === "2");
});

await step("the grid shows every image of a batch, and rates the focused one", async () => {
  await page.keyboard.press("g");
  await page.waitForURL("**/grid");
  await page.waitForSelector("html[data-ready]");
  await until(() => page.locator('.tile[data-index="4"]').count(), 4, "the batch");
  await page.keyboard.press("ArrowRight");
  await page.keyboard.press("ArrowRight");
  await until(async () => await page.evaluate(() => document.activeElement.dataset.index), "1", "the focused one");
  await page.keyboard.press("2");
  await page.waitForFunction(() => document.querySelector('.tile[data-index="1"]').dataset.rating === "2");
  await page.keyboard.press("u");
  await page.waitForFunction(() => document.querySelector("#toast").textContent === "Undone");
  await page.locator("#filter").focus();
  await page.locator("#filter").selectOption("liked");
  await until(async () => await page.locator(".tile:visible").evaluateAll((all) => all.map((it) => it.dataset.index)), ["0", "2", "3"], "the liked ones");
  await page.locator("#filter").blur();
  await page.locator('.tile[data-index="3"]').click();
  await page.waitForURL(`**/sessions/${id}/3`);
});

await step("the story suggests what to do next", async () => {
  await page.waitForSelector("html[data-ready]");
  await page.keyboard.press("s");
  await page.waitForURL("**/story");
  await page.waitForSelector("html[data-ready]");
  const text = await page.locator("main").innerText();
  for (const said of ["How it came to be", "Liked", "the mist is right", "Open branches", "1 failed attempt", "0.08 USD"]) same(text.includes(said), true, `${said} in ${text}`);
  await until(async () => await page.locator(".command").textContent().then((it) => it.includes("--like") && it.includes("--parent")), true, "the command line");
  await page.locator('.cards a:has-text("#6")').or(page.locator('.story a.index:has-text("#6")')).first().waitFor();
  await retake("annotate", `${id}#0`, "--note", "written meanwhile");
  await page.waitForFunction(() => document.querySelector("main").innerText.includes("written meanwhile"));
  await go(page, `/sessions/${comfy.session.id}/story`);
  const [download] = await Promise.all([page.waitForEvent("download"), page.getByRole("link", { name: /ComfyUI workflow/ }).click()]);
  const chunks = [];
  for await (const chunk of await download.createReadStream()) chunks.push(chunk);
  same(JSON.parse(Buffer.concat(chunks).toString()), graph, "the workflow");
});

await step("a slideshow advances until a key stops it", async () => {
  await go(page, `/sessions/${id}/0`);
  await page.keyboard.press("w");
  await page.waitForSelector("body[data-full]");
  await page.waitForFunction(() => document.querySelector("#stage").dataset.shown !== "0/0");
  await page.keyboard.press("Escape");
  await page.waitForFunction(() => !document.body.hasAttribute("data-full"));
  const at = await page.locator("#stage").getAttribute("data-shown");
  await page.clock.install();
  await page.clock.runFor(20000);
  await until(() => page.locator("#stage").getAttribute("data-shown"), at, "it stopped");
});

await step("the tree shows every iteration and links to each", async () => {
  await go(page, `/sessions/${id}/3`);
  await page.keyboard.press("T");
  await page.waitForURL("**/tree");
  await page.waitForSelector("html[data-ready]");
  await until(() => page.locator("#drawing a").count(), 8, "iterations");
  await until(() => page.locator("#drawing .dot").count(), 1, "what failed");
  await until(() => page.locator("#drawing text", { hasText: "no image" }).count(), 1, "what has no image");
  await retake("record", "a harbour, drawn", "--session", id);
  await page.waitForFunction(() => document.querySelectorAll("#drawing a").length === 9);
  await page.setViewportSize({ width: 900, height: 700 });
  await page.reload();
  await page.waitForSelector("html[data-ready]");
  await until(() => page.locator("#drawing").evaluate((drawing) => drawing.getBoundingClientRect().width >= Number(drawing.getAttribute("viewBox").split(" ")[2])), true, "captions stay legible");
  await page.setViewportSize({ width: 1440, height: 900 });
  await page.locator('#drawing a[href$="/4"]').click();
  await page.waitForURL(`**/sessions/${id}/4`);
});

await step("broken links are explained", async () => {
  await go(page, "/sessions/session-2020-01-01-001");
  await until(() => page.locator("h1").textContent(), "No such session", "an unknown session");
  await go(page, `/sessions/${id}/99`);
  await until(() => page.locator("h1").textContent(), "No such iteration", "an unknown iteration");
  await page.getByRole("link", { name: "Go to the last one" }).click();
  await page.waitForURL(`**/sessions/${id}`);
  await go(page, "/sessions/nonsense/1");
  await until(() => page.locator("h1").textContent(), "Can't open this link", "no id at all");
});

await step("right-to-left text is laid out that way", async () => {
  await go(page, `/sessions/${comfy.session.id}`);
  // Asked of the document each time: the element is replaced when the page renders its part anew, and a detached one has no style.
  await page.waitForFunction(() => getComputedStyle(document.querySelector("#prompt")).direction === "rtl");
  await until(() => page.locator("h1").textContent(), "قلعة قديمة (sharp focus:1.2), مساء", "the name of a session without a title");
});

// How it looks, and what axe finds: on each page, with each dialog and state.
const states = {
  loupe: [`/sessions/${id}/3`],
  batch: [`/sessions/${id}/4/2`],
  failed: [`/sessions/${id}/5`],
  note: [`/sessions/${id}/3`, async (it) => { await it.locator("[data-do='note']").click(); await it.locator("dialog textarea").fill("other"); await it.keyboard.press("Escape"); }],
  tags: [`/sessions/${id}/3`, async (it) => { await it.locator("[data-do='tag']").click(); }],
  menu: [`/sessions/${id}/3`, async (it) => { await it.locator("#more summary").click(); }],
  keys: [`/sessions/${id}/3`, async (it) => { await it.keyboard.press("?"); }],
  rename: [`/sessions/${id}/3`, async (it) => { await it.keyboard.press("r"); }],
  undo: [`/sessions/${id}/3`, async (it) => { const pressed = (wanted) => it.waitForFunction((is) => document.querySelector("#reject").getAttribute("aria-pressed") === is, wanted); await it.keyboard.press("x"); await pressed("true"); await it.keyboard.press("x"); await pressed("false"); await it.locator("#toast button").waitFor(); }],
  branches: [`/sessions/${id}/3`, async (it) => { await it.keyboard.press("b"); }],
  full: [`/sessions/${id}/3`, async (it) => { await it.evaluate(() => { document.documentElement.requestFullscreen = undefined; }); await it.keyboard.press("f"); }],
  grid: [`/sessions/${id}/grid`],
  story: [`/sessions/${id}/story`],
  tree: [`/sessions/${id}/tree`],
  unknown: ["/sessions/session-2020-01-01-001"],
  rtl: [`/sessions/${comfy.session.id}`],
};
for (const colorScheme of ["light", "dark"]) {
  for (const [width, height] of [[390, 844], [1440, 900], [2560, 1440]]) {
    const touch = width < 900 ? { hasTouch: true } : {};
    const it = await open({ colorScheme, bypassCSP: true, reducedMotion: "reduce", viewport: { width, height }, ...touch });
    await it.addInitScript({ path: axePath });
    for (const [name, [path, act]] of Object.entries(states)) {
      await step(`${name} in ${colorScheme} at ${width}`, async () => {
        await go(it, path);
        await it.waitForFunction(() => [...document.images].every((image) => image.complete || image.loading === "lazy" || image.hidden));
        await act?.(it);
        await fresh(it).catch(() => {});
        await it.screenshot({ path: `${shots}/loupe-${name}-${colorScheme}-${width}.png` });
        await until(() => it.evaluate(() => document.documentElement.scrollWidth <= innerWidth), true, "it does not scroll sideways");
        const { violations } = await it.evaluate(() => axe.run(document, { resultTypes: ["violations"] }));
        same(violations.map((found) => `${found.impact} ${found.id}: ${found.nodes.map((node) => node.html.slice(0, 160)).slice(0, 3).join(" | ")}`), [], "axe");
      });
    }
    same(it.faults, [], "what went wrong");
    await it.close();
  }
}

await done(page);
