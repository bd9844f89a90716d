// Compare: the survey and the pair, by keyboard, mouse and touch, on the sample history.

import { addressed, ask, axePath, base, boxOf, done, go, open, same, shots, step, until } from "./browser.mjs";

const { sessions } = await ask("list-sessions");
const harbour = sessions.find((session) => session.title === "Harbour at dusk").id;
const refs = (...indexes) => indexes.map((index) => encodeURIComponent(`${harbour}#${index}`)).join(",");
const names = (page) => page.locator("#tiles .tile").evaluateAll((tiles) => tiles.map((tile) => tile.dataset.label));
const captions = (page) => page.locator("#tiles .what").allTextContents();
const page = await open();
const opened = [page];

await step("a survey shows all images with names, as large as possible", async () => {
  await go(page, `/compare?refs=${refs(3, 5, 7, 8)}`);
  await until(() => names(page), [3, 5, 7, 8].map((index) => `Harbour at dusk #${index}`), "names");
  await until(async () => (await captions(page)).slice(0, 2), ["#3", "#5 · +low mist over the water · cfg 6→8.5"], "what differs from the first is the caption");
  await until(() => page.locator(".cbar h1").textContent(), "Harbour at dusk", "the session they share");
  const boxes = () => page.locator(".tile .clip").evaluateAll((clips) => clips.map((clip) => clip.getBoundingClientRect()).map((box) => box.width * box.height));
  await until(async () => (await boxes()).reduce((sum, area) => sum + area, 0) / (1440 * 900) >= 0.6, true, "most of the window is image");
  await until(async () => { const areas = await boxes(); return Math.min(...areas) > 0.9 * Math.max(...areas); }, true, "none is much smaller");
});

await step("rows of different heights use the window for any number of images", async () => {
  await go(page, `/compare?refs=${refs(3, 5, 8)}`);
  const share = () => page.locator(".tile .clip").evaluateAll((clips) => clips.map((clip) => clip.getBoundingClientRect()).reduce((sum, box) => sum + box.width * box.height, 0) / (innerWidth * innerHeight));
  await until(async () => await share() > 0.6, true, "three");
  await until(() => page.locator(".tile .clip").evaluateAll((clips) => clips.every((clip) => clip.getBoundingClientRect().bottom < innerHeight)), true, "all in sight");
  await go(page, `/compare?refs=${refs(3, 5, 7, 8, 0)}`);
  await until(async () => await share() > 0.8, true, "five");
  await go(page, `/compare?refs=${refs(3, 8)}&view=survey`);
  // Two of this shape cover at most 53 % of the window side by side.
  await until(async () => await share() > 0.5, true, "two");
  await go(page, `/compare?refs=${refs(0, 1, 2, 3, 4, 5, 6, 7, 8)}`);
  await until(async () => await share() > 0.7, true, "nine");
  await go(page, `/compare?refs=${refs(3, 5, 7, 8)}`);
});

await step("the controls stay in one line, and the set below the pair in sight", async () => {
  for (const width of [1280, 1440]) {
    await page.setViewportSize({ width, height: 900 });
    for (const mode of ["onion", "difference", "heat"]) {
      await go(page, `/compare?refs=${refs(3, 5, 7, 8)}&view=pair&mode=${mode}`);
      await until(() => page.locator(".cbar").evaluate((bar) => bar.getBoundingClientRect().height < 60), true, `${mode} at ${width}`);
      await until(() => page.locator("#set .ref").first().evaluate((ref) => ref.getBoundingClientRect().bottom <= innerHeight), true, `names in ${mode} at ${width}`);
    }
  }
  await page.setViewportSize({ width: 1440, height: 900 });
  await go(page, `/compare?refs=${refs(3, 5, 7, 8)}`);
});

await step("keys rate, clear, undo, promote and remove the focused image", async () => {
  await page.keyboard.press("ArrowRight");
  await page.keyboard.press("ArrowRight");
  await until(async () => await page.evaluate(() => document.activeElement.dataset.label), "Harbour at dusk #5", "the focused tile");
  await page.keyboard.press("2");
  await page.locator("#toast button").waitFor();
  await until(async () => (await ask("get-iteration", { reference: `${harbour}#5` })).annotations.rating, 2, "the rating");
  await page.locator("#toast button").click();
  await page.waitForFunction(() => document.querySelector('.tile[data-label="Harbour at dusk #5"]').dataset.rating === "4");
  await until(async () => (await ask("get-iteration", { reference: `${harbour}#5` })).annotations.rating, 4, "the rating from before");
  await page.locator('.tile[data-label="Harbour at dusk #5"]').focus();
  await page.keyboard.press("ArrowUp");
  await page.waitForFunction(() => document.querySelector("#tiles .tile").dataset.label === "Harbour at dusk #5");
  await until(async () => await page.evaluate(() => document.activeElement.dataset.label), "Harbour at dusk #5", "the focus stays with it");
  await page.keyboard.press("x");
  await page.waitForFunction(() => document.querySelectorAll(".tile").length === 3);
  await until(() => names(page), [3, 7, 8].map((index) => `Harbour at dusk #${index}`), "what is left");
  await addressed(page, (url) => url.searchParams.get("refs"), [3, 7, 8].map((index) => `${harbour}#${index}`).join(","), "the address");
  await page.locator("#toast button").click();
  await page.waitForFunction(() => document.querySelectorAll(".tile").length === 4);
});

await step("the mouse rates, removes and reorders", async () => {
  await go(page, `/compare?refs=${refs(3, 5, 7)}`);
  // The controls of an image appear under the pointer.
  await page.locator(".tile").nth(2).hover();
  await page.locator(".tile").nth(2).getByRole("button", { name: "3 of 5" }).click();
  await page.waitForFunction(() => document.querySelectorAll(".tile")[2].dataset.rating === "3");
  await page.locator("#toast button").waitFor();
  await until(() => page.evaluate(() => {
    const message = document.querySelector("#toast").getBoundingClientRect();
    return [...document.querySelectorAll(".tile .caption")].some((it) => { const box = it.getBoundingClientRect(); return box.top < message.bottom && message.top < box.bottom && box.left < message.right && message.left < box.right; });
  }), false, "a message covers no caption");
  // A hand moves in many steps; a browser begins a drag with the first and drops where it has seen another one.
  const center = async (element) => { const box = await boxOf(element); return [box.x + box.width / 2, box.y + box.height / 2]; };
  const [from, to] = [await center(page.locator(".tile").nth(2).locator(".what")), await center(page.locator(".tile").nth(0))];
  await page.mouse.move(...from);
  await page.mouse.down();
  await page.mouse.move(...to, { steps: 10 });
  await page.mouse.up();
  await page.waitForFunction(() => document.querySelector("#tiles .tile").dataset.label === "Harbour at dusk #7");
  await page.locator(".tile").nth(1).hover();
  await page.locator(".tile").nth(1).getByRole("button", { name: /^Remove/ }).click();
  await page.waitForFunction(() => document.querySelectorAll(".tile").length === 2);
  await ask("annotate-iteration", { reference: `${harbour}#7`, rating: 4 });
});

await step("one zoom level for all, and no image leaves its frame", async () => {
  await go(page, `/compare?refs=${refs(3, 5, 7, 8)}`);
  const level = page.locator(".zoom .level");
  await page.waitForFunction(() => [...document.querySelectorAll(".tile img")].every((image) => image.complete || image.loading === "lazy") && document.querySelector(".zoom .level").textContent.startsWith("Fit "));
  const before = await level.textContent();
  const box = await boxOf(page.locator(".tile .clip").first());
  const middle = [box.x + box.width / 2, box.y + box.height / 2];
  const drag = async (dx, dy) => { await page.mouse.move(...middle); await page.mouse.down(); await page.mouse.move(middle[0] + dx, middle[1] + dy, { steps: 4 }); await page.mouse.up(); };
  const inside = () => page.locator(".tile .clip").evaluateAll((clips) => clips.every((clip) => {
    const [outer, inner] = [clip.getBoundingClientRect(), clip.querySelector("img").getBoundingClientRect()];
    return inner.left <= outer.left + 1 && inner.right >= outer.right - 1 && inner.top <= outer.top + 1 && inner.bottom >= outer.bottom - 1;
  }));
  await drag(300, 200);
  await until(() => inside(), true, "a drag does not move a whole image");
  await page.mouse.move(...middle);
  for (let turn = 0; turn < 6; turn += 1) await page.mouse.wheel(0, -200);
  await page.waitForFunction(() => !document.querySelector(".zoom .level").textContent.startsWith("Fit"));
  const scales = await page.locator(".tile img").evaluateAll((images) => images.map((image) => image.style.transform.split("scale")[1]));
  same(new Set(scales).size, 1, `one zoom: ${scales}`);
  for (let turn = 0; turn < 3; turn += 1) await drag(2000, 2000);
  await until(() => inside(), true, "pan has bounds");
  await page.getByRole("button", { name: "Fit", exact: true }).last().click();
  await until(() => level.textContent(), before, "and a way back");
});

await step("the matrix shows the differences, and the rest on demand", async () => {
  const head = await page.locator("#matrix thead th").allTextContents();
  same(head.map((text) => text.trim().slice(2)), ["#3", "#5", "#7", "#8"], "columns");
  const row = (name) => page.locator("#matrix tbody tr", { has: page.locator("th", { hasText: new RegExp(`^${name}$`) }) });
  await until(async () => (await row("steps").locator("td").allTextContents()).map((text) => text.trim()), ["28", "·", "·", "45"], "steps");
  await until(() => row("model").isVisible(), false, "what is the same is left out");
  await page.getByLabel("Only differences").uncheck();
  await until(() => row("model").isVisible(), true, "and shown on demand");
  await page.waitForFunction(() => [...document.querySelectorAll("[data-looks]")].every((cell) => cell.textContent.includes("changed")), undefined, { timeout: 240000 });
});

await step("white space in the prompt is kept", async () => {
  await go(page, `/compare?refs=${refs(0, 1)}`);
  await until(() => page.locator("#facts .prompt").textContent(), "a harbour with sail boats at dusk, morning golden light", "the two prompts in one");
});

await step("the description matches the numbers", async () => {
  await page.locator("#seen").waitFor({ timeout: 240000 });
  await until(async () => /changed/.test(await page.locator("#seen").textContent()), true, "it is measured");
  const shown = await page.locator("#seen").textContent();
  same(/Composition\s*same/.test(shown) && /strongly changed/.test(shown), true, shown);
  same(shown.includes("nearly the same"), false, "and says nothing else");
});

await step("every mode of the pair view", async () => {
  await go(page, `/compare?refs=${refs(3, 5, 8)}&view=pair`);
  for (const [key, mode] of [["l", "slider"], ["k", "onion"], ["b", "blink"], ["d", "difference"], ["h", "heat"], ["s", "side"]]) {
    await page.keyboard.press(key);
    await page.waitForSelector(`#desk[data-mode="${mode}"]`);
    await addressed(page, (url) => url.searchParams.get("mode"), mode, "the mode in the address");
    if (mode === "heat") {
      await page.waitForFunction(() => document.querySelector("img.heat").naturalWidth > 100 && !document.querySelector("[data-waiting]"));
      await until(() => page.locator(".legend").isVisible(), true, "the legend");
    }
  }
  await page.keyboard.press("d");
  await page.locator("#amount").fill("12");
  await until(async () => await page.locator("#desk").evaluate((desk) => desk.style.getPropertyValue("--gain")), "12", "the gain");
  await page.keyboard.press("l");
  const desk = await boxOf(page.locator("#desk"));
  await page.mouse.click(desk.x + desk.width * 0.25, desk.y + 200);
  await until(() => page.locator(".handle").getAttribute("aria-valuenow"), "25", "a click jumps");
  await page.mouse.move(desk.x + desk.width * 0.6, desk.y + 300);
  await page.mouse.down();
  await page.mouse.move(desk.x + desk.width * 0.8, desk.y + 300, { steps: 3 });
  await page.mouse.up();
  await until(() => page.locator(".handle").getAttribute("aria-valuenow"), "80", "a drag anywhere");
  await page.locator(".handle").focus();
  for (const [key, value] of [["ArrowRight", "82"], ["Home", "0"], ["End", "100"], ["PageDown", "90"]]) {
    await page.keyboard.press(key);
    await until(() => page.locator(".handle").getAttribute("aria-valuenow"), value, key);
  }
});

await step("the candidate is promoted, and a link shows the same", async () => {
  await page.keyboard.press("s");
  await page.locator("#desk").click({ position: { x: 5, y: 5 } });
  const shown = () => page.locator(".pane .label").allTextContents();
  await until(() => shown(), ["A · #3", "B · #5"], "before");
  await page.keyboard.press("ArrowUp");
  await until(() => shown(), ["A · #5", "B · #8"], "after");
  await page.waitForFunction(() => document.querySelector("#facts").textContent.includes("soft-light"));
  await page.reload();
  await page.waitForSelector("html[data-ready]");
  await until(() => shown(), ["A · #5", "B · #8"], "after a reload");
});

await step("missing images are skipped with a message and removed from the tray", async () => {
  await go(page, `/compare?refs=${refs(3)},session-1999-01-01-001%230,${refs(8)}`);
  await until(() => names(page), [3, 8].map((index) => `Harbour at dusk #${index}`), "the rest");
  await until(async () => await page.locator(".skipped summary").textContent().then((text) => text.trim()), "1 image of this link is missing and left out", "the message");
  for (const odd of ["?refs=x&a=-4&b=q", "?a=-1", "?refs=,,,"]) {
    const answer = await fetch(`${base}/compare${odd}`);
    same(answer.status, 200, `${odd} is a page`);
  }
});

await step("the menu opens the collected images", async () => {
  await go(page, "/compare");
  await page.evaluate(() => localStorage.clear());
  for (const index of [3, 8]) {
    await go(page, `/search?q=session:${harbour}`);
    await page.locator(`.card[data-reference="${harbour}#${index}"]`).focus();
    await page.keyboard.press("c");
    await page.waitForFunction((count) => document.querySelector("#tray-count")?.textContent === String(count), index === 3 ? 1 : 2);
  }
  await page.locator("#tray-count").click();
  await until(() => page.locator("#tray .named").allTextContents(), [3, 8].map((index) => `Harbour at dusk #${index}`), "the tray");
  await until(async () => (await page.locator("#tray").innerText()).split("\n").filter(Boolean), ["Compare", "Harbour at dusk #3", "×", "Harbour at dusk #8", "×", "Clear", "Compare 2"], "and nothing else");
  await page.keyboard.press("Escape");
  await until(() => page.locator("#tray").isVisible(), false, "it closes");
  await page.getByRole("link", { name: "Compare" }).click();
  await page.waitForURL("**/compare?refs=**");
  await page.waitForSelector("html[data-ready]");
  await until(() => page.locator(".pane .label").allTextContents(), ["A · #3", "B · #8"], "what was collected");
  await go(page, "/compare");
  await page.waitForFunction(() => document.querySelectorAll(".tile").length === 2);
});

await step("a named set can be opened again", async () => {
  await page.locator(".sets summary").click();
  await page.getByRole("button", { name: "Save this set…" }).click();
  await page.locator("dialog input").fill("Client round 2");
  await page.locator("dialog button.primary").click();
  await page.waitForFunction(() => document.querySelector("h1").textContent === "Client round 2");
  await addressed(page, (url) => url.searchParams.get("name"), "Client round 2", "the address");
  await page.evaluate(() => { for (const name of Object.keys(localStorage)) if (name.startsWith("retake-tray")) localStorage.removeItem(name); });
  await go(page, "/compare?refs=");
  await page.getByRole("link", { name: /Client round 2/ }).click();
  await page.waitForFunction(() => document.querySelector("h1").textContent === "Client round 2");
  await until(async () => await page.evaluate(() => Object.keys(localStorage).filter((name) => name.startsWith("retake-sets ")).length), 1, "kept for this workspace");
});

await step("images are added from a search dialog", async () => {
  await go(page, `/compare?refs=${refs(3, 8)}`);
  await page.getByRole("button", { name: "Add…" }).first().click();
  await page.waitForFunction(() => document.querySelectorAll(".pick").length > 10);
  await until(() => page.locator(".pick img").evaluateAll((images) => {
    const boxes = images.map((image) => image.getBoundingClientRect());
    return boxes.some((box, at) => boxes.some((other, to) => to !== at && box.left < other.right && other.left < box.right && box.top < other.bottom && other.top < box.bottom));
  }), false, "no image covers another");
  await page.getByRole("searchbox").last().fill("northern lights");
  await page.locator(".pick:not([disabled])").first().waitFor();
  await page.locator(".pick:not([disabled])").first().click();
  await page.waitForFunction(() => document.querySelectorAll(".tile").length === 3);
  await page.keyboard.press("Escape");
});

await step("a set is downloaded as one image", async () => {
  const answer = await fetch(`${base}/compare/sheet.png?refs=${refs(3, 5, 8)}`);
  same([answer.status, answer.headers.get("content-type")], [200, "image/png"], "a PNG file");
  await until(async () => (await answer.arrayBuffer()).byteLength > 20000, true, "with something in it");
});

await step("comparing by touch", async () => {
  const phone = await open({ viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true });
  opened.push(phone);
  await go(phone, `/compare?refs=${refs(3, 5, 7)}`);
  await phone.locator(".tile").nth(1).getByRole("button", { name: /^Remove/ }).tap();
  await phone.waitForFunction(() => document.querySelectorAll(".tile").length === 2);
  await phone.getByRole("button", { name: "Pair" }).tap();
  await phone.getByRole("button", { name: "Swipe" }).tap();
  await phone.waitForSelector('#desk[data-mode="slider"]');
  const desk = await boxOf(phone.locator("#desk"));
  await phone.touchscreen.tap(desk.x + desk.width * 0.75, desk.y + 120);
  await until(() => phone.locator(".handle").getAttribute("aria-valuenow"), "75", "a tap jumps");
});

for (const colorScheme of ["light", "dark"]) {
  for (const [width, height] of [[390, 844], [1440, 900], [2560, 1440]]) {
    const looked = await open({ colorScheme, bypassCSP: true, reducedMotion: "reduce", viewport: { width, height } });
    opened.push(looked);
    await looked.addInitScript({ path: axePath });
    const states = {
      survey: `/compare?refs=${refs(3, 5, 7, 8)}`,
      "survey-twelve": `/compare?refs=${refs(0, 1, 2, 3, 4, 5, 6, 7, 8)}`,
      pair: `/compare?refs=${refs(0, 1)}`,
      onion: `/compare?refs=${refs(3, 8)}&mode=onion`,
      heat: `/compare?refs=${refs(3, 8)}&mode=heat`,
      skipped: `/compare?refs=${refs(3, 8)},nothing`,
      alone: `/compare?refs=${refs(3)}`,
      difference: `/compare?refs=${refs(3, 8)}&mode=difference`,
      "pair-of-four": `/compare?refs=${refs(3, 5, 7, 8)}&view=pair`,
      add: [`/compare?refs=${refs(3, 8)}`, async (it) => { await it.getByRole("button", { name: "Add…" }).first().click(); await it.locator(".pick").first().waitFor(); }],
      keys: [`/compare?refs=${refs(3, 8)}`, async (it) => { await it.keyboard.press("?"); }],
      sets: [`/compare?refs=${refs(3, 8)}`, async (it) => { await it.locator(".sets summary").click(); }],
      tray: [`/sessions/${harbour}/8`, async (it) => { await it.keyboard.press("c"); await it.locator("#tray-count:not([hidden])").click(); await it.locator("#tray:popover-open").waitFor(); }],
    };
    for (const [name, [path, act]] of Object.entries(states).map(([called, state]) => [called, [state].flat()])) {
      await step(`${name} in ${colorScheme} at ${width}`, async () => {
        await go(looked, path);
        await looked.waitForFunction(() => [...document.images].every((image) => image.complete || image.loading === "lazy"));
        await looked.waitForFunction(() => !document.querySelector("[data-waiting]"));
        await act?.(looked);
        await looked.screenshot({ path: `${shots}/compare-${name}-${colorScheme}-${width}.png` });
        await until(async () => await looked.evaluate(() => document.documentElement.scrollWidth <= innerWidth), true, "it does not scroll sideways");
        const found = await looked.evaluate(() => axe.run(document, { resultTypes: ["violations"] }));
        same(found.violations.map((it) => `${it.id}: ${it.nodes.map((node) => node.html.slice(0, 120)).slice(0, 3).join(" | ")}`), [], "axe");
      });
    }
  }
}

await done(...opened);
