// The shelf: by keyboard, by mouse and by touch, on the sample history; and what can be done to several at once.

import { ask, axePath, base, boxOf, done, go, open, same, shots, step, until } from "./browser.mjs";

const page = await open();
const opened = [page];
const names = () => page.locator("#wall .name").allTextContents();
const listed = async () => (await ask("list-sessions", { status: "active" })).sessions;

await step("cards are uncropped stacks with a name, in rows of equal height", async () => {
  await go(page, "/");
  const cards = await page.locator("#wall .item").evaluateAll((items) => items.map((item) => ({
    name: item.querySelector(".name").textContent.trim(),
    box: item.querySelector(".cover").getBoundingClientRect().toJSON(),
    ratio: Number(item.dataset.ratio),
  })));
  same(cards.every((card) => card.name.length > 0), true, "never without a name");
  for (const { box, ratio } of cards.filter((card) => card.ratio)) same(Math.abs(box.width / box.height / ratio - 1) < 0.03, true, `its own shape: ${box.width} x ${box.height}, not ${ratio}`);
  for (const card of cards) {
    const row = cards.filter((other) => Math.abs(other.box.bottom - card.box.bottom) < 4);
    same(row.every((other) => Math.abs(other.box.height - card.box.height) < 2), true, "one height");
  }
  // The sample history may have been recorded before midnight.
  const day = (time) => new Date(time).setHours(0, 0, 0, 0);
  const isOfToday = day((await listed())[0].lastModifiedAt) === day(Date.now());
  await until(() => page.locator("#wall .day").first().textContent(), isOfToday ? "Today" : "Yesterday", "the day");
});

await step("the best take is the cover, and hovering flips through the others", async () => {
  const harbour = (await listed()).find((session) => session.title === "Harbour at dusk").id;
  const card = page.locator(`.card[data-session="${harbour}"]`);
  await until(() => card.getAttribute("data-reference"), `${harbour}#8`, "the best rated");
  await until(() => card.locator(".takes").textContent(), "9 iterations", "how many");
  const before = await card.locator("img").getAttribute("src");
  const box = await boxOf(card.locator(".cover"));
  await page.mouse.move(box.x + 6, box.y + box.height / 2);
  await page.waitForFunction(([session, src]) => document.querySelector(`.card[data-session="${session}"] img`).getAttribute("src") !== src, [harbour, before]);
  await until(() => card.getAttribute("href"), `/sessions/${harbour}/0`, "a click opens what is seen");
  await page.mouse.move(5, 5);
  await page.waitForFunction(([session, src]) => document.querySelector(`.card[data-session="${session}"] img`).getAttribute("src") === src, [harbour, before]);
});

await step("a cover can be chosen", async () => {
  const harbour = (await listed()).find((session) => session.title === "Harbour at dusk").id;
  await ask("annotate-iteration", { reference: `${harbour}#7`, addTags: ["cover"] });
  await go(page, "/");
  await until(() => page.locator(`.card[data-session="${harbour}"]`).getAttribute("data-reference"), `${harbour}#7`, "the chosen one");
  await ask("annotate-iteration", { reference: `${harbour}#7`, removeTags: ["cover"] });
});

await step("recent sessions to continue come first", async () => {
  await go(page, "/");
  await until(async () => await page.locator(".continue a").count() >= 2, true, "some to continue");
  await until(async () => (await page.locator(".continue strong").first().textContent()).length > 0, true, "with a name");
});

await step("sort orders, and a filter for ratings of 4 or 5", async () => {
  await page.locator("summary", { hasText: "Sort" }).click();
  await page.getByRole("link", { name: "Name", exact: true }).click();
  await page.waitForURL("**/?sort=name");
  await page.waitForSelector("html[data-ready]");
  const titled = (await listed()).map((session) => session.title).filter(Boolean);
  await until(async () => (await names()).slice(0, titled.length), titled.toSorted((a, b) => a.toLowerCase() < b.toLowerCase() ? -1 : 1), "by name");
  for (const sort of ["oldest", "cost", "nonsense"]) await until(async () => (await fetch(`${base}/?sort=${sort}`)).status, 200, sort);
  await go(page, "/");
  await page.getByRole("link", { name: "★ 4+" }).click();
  await page.waitForURL("**/search?q=rating**");
  await page.waitForSelector("html[data-ready]");
  await until(async () => await page.locator("#wall .rated").count() > 0, true, "only what is rated");
});

await step("sessions are sorted by their number of takes", async () => {
  await go(page, "/");
  await page.locator("summary", { hasText: "Sort" }).click();
  await page.getByRole("link", { name: "Most takes" }).click();
  await page.waitForURL("**/?sort=takes");
  await page.waitForSelector("html[data-ready]");
  const counts = (await listed()).map((session) => session.iterationCount).toSorted((a, b) => b - a);
  await until(() => page.locator("#wall .takes").evaluateAll((all) => all.map((it) => parseInt(it.textContent))), counts.filter((count) => count > 1), "the most first");
});

await step("ranges are chosen without writing a query", async () => {
  await go(page, "/search?q=lighthouse");
  const form = page.locator(".ranges");
  await form.getByLabel("Steps from").fill("20");
  await form.getByLabel("Steps to").fill("30");
  await form.getByRole("button", { name: "Apply" }).click();
  await until(() => page.locator("#search").inputValue(), "lighthouse steps:20..30", "it is a query");
  const { totalMatches } = await ask("search-iterations", { query: "lighthouse steps:20..30" });
  await until(() => page.locator("h1").textContent(), `${totalMatches} iteration${totalMatches === 1 ? "" : "s"}`, "what it finds");
  await until(() => form.getByLabel("Steps to").inputValue(), "30", "the form shows it");
  await form.getByLabel("Steps from").fill("");
  await form.getByLabel("Steps to").fill("");
  await form.getByLabel("from", { exact: true }).fill("2025-01-01");
  await page.keyboard.press("Enter");
  await until(() => page.locator("#search").inputValue(), "lighthouse since:2025-01-01", "another");
});

await step("few sessions fill a large window", async () => {
  const large = await open({ viewport: { width: 2560, height: 1440 } });
  opened.push(large);
  await go(large, "/");
  await until(() => large.locator("#wall .cover").first().evaluate((cover) => cover.getBoundingClientRect().height >= 360), true, "larger than usual");
  await until(() => large.evaluate(() => document.documentElement.scrollHeight <= innerHeight), true, "without scrolling");
});

await step("menus close on Escape and on a click elsewhere", async () => {
  await go(page, "/");
  const menu = page.locator("details.drop").first();
  await menu.locator("summary").click();
  await until(() => menu.getAttribute("open"), "", "open");
  await page.keyboard.press("Escape");
  await until(() => menu.getAttribute("open"), null, "closed by Escape");
  await until(async () => await page.evaluate(() => document.activeElement.tagName), "SUMMARY", "the focus stays");
  await menu.locator("summary").click();
  await page.mouse.click(700, 880);
  await until(() => menu.getAttribute("open"), null, "closed by a click");
});

await step("one tab stop for all cards, arrows go by rows, and back returns to the card", async () => {
  await go(page, "/");
  await until(() => page.locator('#wall .card[tabindex="0"]').count(), 1, "tab stops");
  await page.locator('#wall .card[tabindex="0"]').focus();
  await page.keyboard.press("ArrowRight");
  const label = await page.evaluate(() => document.activeElement.dataset.label);
  await page.keyboard.press("Enter");
  await page.waitForURL("**/sessions/**");
  await page.goBack();
  await page.waitForSelector("html[data-ready]");
  await page.waitForFunction((wanted) => document.activeElement?.dataset?.label === wanted, label);
});

await step("a digit rates the cover and can be undone", async () => {
  await page.locator("#wall .card").first().focus();
  const reference = await page.evaluate(() => document.activeElement.dataset.reference);
  const before = (await ask("get-iteration", { reference })).annotations?.rating ?? null;
  await page.keyboard.press(before === 3 ? "2" : "3");
  await page.locator("#toast button").waitFor();
  await until(async () => (await ask("get-iteration", { reference })).annotations.rating, before === 3 ? 2 : 3, "rated");
  await page.locator("#toast button").click();
  await page.waitForFunction(() => document.querySelector("#toast").textContent === "Undone");
  await until(async () => (await ask("get-iteration", { reference })).annotations?.rating ?? null, before, "taken back");
});

await step("the image size is kept", async () => {
  const height = () => page.locator("#wall .cover").first().evaluate((cover) => cover.getBoundingClientRect().height);
  const before = await height();
  await page.locator("#size").fill("320");
  await until(async () => await height() > before * 1.2, true, "larger");
  await page.reload();
  await page.waitForSelector("html[data-ready]");
  await until(async () => await height() > before * 1.2, true, "after a reload");
  await page.locator("#size").fill("220");
});

const selected = () => page.locator("#chosen .number").textContent();
await step("several sessions are selected with checkboxes, Shift and Control", async () => {
  await go(page, "/");
  await page.locator(".item").nth(0).hover();
  await page.locator(".item").nth(0).locator(".select").check();
  await until(() => selected(), "1 selected", "one");
  await page.locator(".item").nth(2).locator(".card").click({ modifiers: ["Shift"] });
  await until(() => selected(), "3 selected", "a range");
  await page.locator(".item").nth(4).locator(".card").click({ modifiers: ["Control"] });
  await until(() => selected(), "4 selected", "one more");
  await page.keyboard.press("Escape");
  await until(() => page.locator("#chosen").count(), 0, "none");
});

await step("keys select, and the bar tags, compares and exports", async () => {
  await page.locator("#wall .card").first().focus();
  await page.keyboard.press("s");
  await page.keyboard.press("ArrowRight");
  await page.keyboard.press("s");
  await until(() => selected(), "2 selected", "two");
  await page.getByRole("button", { name: "Tag…" }).click();
  await page.locator("dialog input").fill("round two");
  await page.locator("dialog button.primary").click();
  await page.locator("#toast button").waitFor();
  await until(async () => (await ask("search-iterations", { query: "tag:\"round two\"" })).totalMatches, 2, "both are tagged");
  await page.locator("#toast button").click();
  await page.waitForFunction(() => document.querySelector("#toast").textContent === "Undone");
  await until(async () => (await ask("search-iterations", { query: "tag:\"round two\"" })).totalMatches, 0, "and no longer");
  await page.locator("#chosen details summary").click();
  const [download] = await Promise.all([page.waitForEvent("download", { timeout: 240000 }), page.getByRole("link", { name: "Sessions as ZIP" }).click()]);
  same(download.suggestedFilename(), "retake-sessions.zip", "the file");
  await page.keyboard.press("Escape");
  await page.getByRole("button", { name: "Compare", exact: true }).click();
  await page.waitForURL("**/compare?refs=**");
  await page.waitForSelector("html[data-ready]");
  await until(() => page.locator(".tile").count(), 2, "compared");
});

await step("a card has its actions in a menu, for the mouse and by key", async () => {
  await page.evaluate(() => localStorage.clear());
  await go(page, "/");
  const card = page.locator("#wall .card").first();
  const [reference, session] = [await card.getAttribute("data-reference"), await card.getAttribute("data-session")];
  const rating = async () => (await ask("get-iteration", { reference })).annotations?.rating ?? null;
  const before = await rating();
  await card.hover();
  await page.getByRole("button", { name: /^Actions for/ }).first().click();
  await page.locator("#actions").getByRole("button", { name: `${before === 3 ? 2 : 3} of 5` }).click();
  await until(rating, before === 3 ? 2 : 3, "rated");
  await page.locator("#toast button").click();
  await until(rating, before, "undone");
  await card.focus();
  await page.keyboard.press("m");
  await until(() => page.evaluate(() => document.activeElement.closest("#actions") !== null), true, "the menu has the focus");
  await page.screenshot({ path: `${shots}/shelf-actions-light-1440.png` });
  for (let times = 0; times < 5; times += 1) await page.keyboard.press("ArrowDown");
  await until(() => page.evaluate(() => document.activeElement.textContent), "Add to compare", "the arrows move in it");
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => document.querySelector("#tray-count")?.textContent === "1");
  await until(() => page.evaluate(() => document.activeElement.dataset.session), session, "the focus returns to the card");
  await page.keyboard.press("c");
  await page.keyboard.press("m");
  await page.keyboard.press("Escape");
  await until(() => page.locator("#actions").count(), 0, "Escape closes it");
});

await step("a rubber band chooses what it touches, and adds with Shift", async () => {
  await go(page, "/");
  const box = (at) => boxOf(page.locator("#wall .item").nth(at).locator(".card"));
  const [first, second] = [await box(0), await box(1)];
  const main = await boxOf(page.locator("main"));
  const middle = first.y + first.height / 2;
  // From the margin beside the first card to the middle of the second.
  await page.mouse.move(main.x + 4, middle);
  await page.mouse.down();
  await page.mouse.move(second.x + second.width / 2, middle + 20, { steps: 6 });
  await until(() => page.locator(".band").count(), 1, "the band is drawn");
  await until(selected, "2 selected", "what it touches");
  await page.mouse.up();
  await until(() => page.locator(".band").count(), 0, "the band is gone");
  await until(selected, "2 selected", "what stays chosen");
  const last = (await page.locator("#wall .item").count()) - 1;
  await page.locator("#wall .item").nth(last).scrollIntoViewIfNeeded();
  const far = await box(last);
  await page.keyboard.down("Shift");
  await page.mouse.move(far.x + far.width + 20, far.y + far.height / 2);
  await page.mouse.down();
  await page.mouse.move(far.x + far.width - 10, far.y + far.height / 2 + 10, { steps: 4 });
  await until(selected, "3 selected", "one more");
  await page.mouse.up();
  await page.keyboard.up("Shift");
  await page.keyboard.press("Escape");
  await until(() => page.locator("#chosen").count(), 0, "none");
});

await step("tags are completed from those that exist, by key and by mouse", async () => {
  const [session] = await listed();
  await ask("annotate-iteration", { reference: `${session.id}#0`, addTags: ["for the printer"] });
  await go(page, "/");
  await page.locator("#wall .card").nth(1).focus();
  await page.keyboard.press("s");
  await page.getByRole("button", { name: "Tag…" }).click();
  await page.locator("dialog input").fill("");
  await page.keyboard.type("printe");
  await page.locator("#completion [role=option]", { hasText: "for the printer" }).waitFor();
  await page.keyboard.press("ArrowDown");
  await until(() => page.locator("#completion [aria-selected=true]").count(), 1, "one is marked");
  await page.keyboard.press("Enter");
  await until(() => page.locator("dialog input").inputValue(), "for the printer, ", "the whole tag");
  await page.locator("dialog input").fill("x, prin");
  await page.locator("#completion [role=option]", { hasText: "for the printer" }).click();
  await until(() => page.locator("dialog input").inputValue(), "x, for the printer, ", "by mouse");
  await page.keyboard.press("Escape");
  await page.getByRole("button", { name: "Discard" }).click();
  await until(() => page.locator("dialog[open]").count(), 0, "closed");
  await ask("annotate-iteration", { reference: `${session.id}#0`, removeTags: ["for the printer"] });
  await page.keyboard.press("Escape");
});

await step("filters accept values with quotes", async () => {
  const [session] = await listed();
  const tag = '6" print of "big" hands';
  await ask("annotate-iteration", { reference: `${session.id}#0`, addTags: [tag] });
  await go(page, "/search?status=all");
  const section = page.locator(".facets section", { has: page.locator("h2", { hasText: "Tag" }) });
  await section.locator(".value a", { hasText: tag }).first().click();
  await page.waitForURL("**tag**");
  await until(() => page.locator("h1").textContent(), "1 iteration", "as many as the facet says");
  await until(() => section.locator(".value a[aria-current]", { hasText: tag }).count(), 1, "it is chosen");
  await go(page, `/sessions/${session.id}/0`);
  await page.locator(".tags a", { hasText: tag }).click();
  await page.waitForURL("**tag**");
  await until(() => page.locator("h1").textContent(), "1 iteration", "from the tag itself");
  await ask("annotate-iteration", { reference: `${session.id}#0`, removeTags: [tag] });
});

await step("archiving takes a reason and can be undone", async () => {
  await go(page, "/");
  const before = (await listed()).length;
  await page.locator("#wall .card").last().focus();
  await page.keyboard.press("s");
  await page.getByRole("button", { name: "Archive…" }).click();
  await page.locator("dialog textarea").fill("done");
  await page.locator("dialog button.primary").click();
  await page.locator("#toast button").waitFor();
  await until(async () => (await listed()).length, before - 1, "archived");
  await page.locator("#toast button").click();
  await page.waitForFunction(() => document.querySelector("#toast").textContent === "Undone");
  await until(async () => (await listed()).length, before, "restored");
});

await step("moving several to a project can be undone", async () => {
  await go(page, "/");
  const project = async (id) => (await listed()).find((session) => session.id === id).project;
  const chosen = (await listed()).slice(0, 2);
  for (const session of chosen) { await page.locator(`.card[data-session="${session.id}"]`).focus(); await page.keyboard.press("s"); }
  await page.getByRole("button", { name: "Project…" }).click();
  await page.locator("dialog input").fill("Together");
  await page.locator("dialog button.primary").click();
  for (const session of chosen) await until(() => project(session.id), "Together", "moved");
  await page.locator("#toast button").click();
  for (const session of chosen) await until(() => project(session.id), session.project, "as before");
});

await step("an export can be opened elsewhere", async () => {
  const [session] = await listed();
  const file = async (form, of) => new Uint8Array(await (await fetch(`${base}/export/${form}?of=${encodeURIComponent(of)}`)).arrayBuffer());
  const text = (bytes, from, to) => new TextDecoder().decode(bytes.slice(from, to));
  const zip = await file("sessions.zip", session.id);
  same(text(zip, 0, 4), "PK\u0003\u0004", "a ZIP file");
  same(text(zip, 0, zip.length).includes("contact-sheet.png"), true, "with a sheet");
  const tar = await file("proof.tar", session.id);
  same(text(tar, 0, tar.length).includes("manifest.json"), true, "a bundle");
  const images = await file("images.zip", `${session.id}#0`);
  same(text(images, 0, 4), "PK\u0003\u0004", "originals");
  for (const bad of ["sessions.zip?of=", "sessions.zip?of=../../etc", "nothing?of=x"]) await until(async () => (await fetch(`${base}/export/${bad}`)).ok, false, bad);
});

await step("dropped files are imported once", async () => {
  await go(page, "/");
  const before = (await listed()).length;
  const pixels = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNgAAAAAgABSK+kcQAAAABJRU5ErkJggg==";
  const drop = () => page.evaluate((data) => {
    const bytes = Uint8Array.from(atob(data), (c) => c.charCodeAt(0));
    const transfer = new DataTransfer();
    transfer.items.add(new File([bytes], "dropped one.png", { type: "image/png", lastModified: Date.now() }));
    for (const name of ["dragenter", "dragover", "drop"]) window.dispatchEvent(new DragEvent(name, { dataTransfer: transfer, bubbles: true, cancelable: true }));
  }, pixels);
  await drop();
  await page.waitForFunction(() => document.querySelector("#intake")?.textContent.includes("1 imported"));
  await page.waitForFunction(() => [...document.querySelectorAll("#wall .name")].some((name) => name.textContent === "dropped one.png"));
  await until(async () => (await listed()).length, before + 1, "a session");
  await drop();
  await page.waitForFunction(() => document.querySelector("#intake")?.textContent.includes("1 already here"));
  await until(async () => (await listed()).length, before + 1, "no second one");
});

await step("an image on the clipboard is imported with Ctrl+V, but not into a text", async () => {
  await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
  await go(page, "/");
  const before = (await listed()).length;
  await page.evaluate(async () => {
    const canvas = Object.assign(document.createElement("canvas"), { width: 40, height: 30 });
    canvas.getContext("2d").fillRect(5, 5, 20, 10);
    const png = await new Promise((done) => { canvas.toBlob(done, "image/png"); });
    await navigator.clipboard.write([new ClipboardItem({ "image/png": png })]);
  });
  // A text field takes what is pasted into it.
  await page.locator("#search").focus();
  await page.keyboard.press("Control+v");
  await page.locator("#search").blur();
  await page.keyboard.press("Control+v");
  await page.waitForFunction(() => document.querySelector("#intake")?.textContent.includes("1 imported"));
  await until(async () => (await listed()).length, before + 1, "one session");
  const { images: [image] } = await ask("get-iteration", { reference: "latest" });
  same([image.width, image.height, image.mimeType], [40, 30, "image/png"], "the image");
  await page.waitForFunction((hash) => [...document.querySelectorAll("#wall .cover img")].some((it) => it.src.endsWith(hash)), image.hash);
  await page.keyboard.press("Control+v");
  await page.waitForFunction(() => document.querySelector("#intake")?.textContent.includes("1 already here"));
  await until(async () => (await listed()).length, before + 1, "no second one");
});

await step("an import request cannot name files of this machine", async () => {
  const post = (body, headers = {}) => fetch(`${base}/import`, { method: "POST", headers: { "content-type": "application/json", ...headers }, body: JSON.stringify(body) });
  await until(async () => (await post({ files: ["/etc/passwd"] })).ok, false, "a path");
  await until(async () => (await post({ files: [{ path: "/etc/passwd" }] })).ok, false, "a path in a field");
  await until(async () => (await post({ files: [] })).status, 400, "nothing");
  await until(async () => (await post({ files: [{ name: "a.png", data: "AAAA" }] }, { origin: "http://elsewhere.example" })).status, 403, "another site");
  const odd = await (await post({ files: [{ name: "../../../tmp/x.png", data: "!!" }] })).json();
  same(odd.problems.length, 1, "what cannot be read is named");
});

await step("Enter opens the results shown while typing", async () => {
  await go(page, "/");
  await page.locator("#search").focus();
  await page.keyboard.type("lighth");
  await page.waitForFunction(() => document.querySelector("h1").textContent === "2 sessions");
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => document.activeElement.classList.contains("card"));
  await until(() => page.locator("h1").textContent(), "2 sessions", "the same results");
});

await step("rejected images are hidden unless requested", async () => {
  await go(page, "/search");
  const count = async () => Number((await page.locator("h1").textContent()).replace(/\D/g, ""));
  await until(async () => await count() > 0, true, "some");
  const all = await count();
  const reference = (await page.locator("#wall .card").first().getAttribute("data-reference")).split("/")[0];
  await ask("annotate-iteration", { reference, addTags: ["rejected"] });
  await go(page, "/search");
  await until(count, all - 1, "one less");
  await page.getByRole("link", { name: "With rejected" }).click();
  await page.waitForURL("**rejected=shown**");
  await page.waitForSelector("html[data-ready]");
  await until(count, all, "with it");
  await go(page, "/search?q=tag%3Arejected");
  await until(count, 1, "asked for");
  await ask("annotate-iteration", { reference, removeTags: ["rejected"] });
});

await step("facets include and exclude values", async () => {
  await go(page, "/search");
  const section = page.locator(".facets section", { has: page.locator("h2", { hasText: "Project" }) });
  const count = async (at) => Number((await section.locator(".value").nth(at).locator("span").nth(1).textContent()).replace(/\D/g, ""));
  const [one, two] = [await count(0), await count(1)];
  await section.locator(".value a").first().click();
  await page.waitForURL("**project**");
  await page.waitForSelector("html[data-ready]");
  await until(() => page.locator("h1").textContent(), `${one} iteration${one === 1 ? "" : "s"}`, "one value");
  await section.locator(".value").nth(1).locator("a").first().click();
  await page.waitForURL("**OR**");
  await page.waitForSelector("html[data-ready]");
  await until(() => page.locator("h1").textContent(), `${one + two} iterations`, "any of two");
  await go(page, "/search");
  const all = Number((await page.locator("h1").textContent()).replace(/\D/g, ""));
  await section.locator(".value").first().hover();
  await section.locator(".value").first().locator(".not").click();
  await page.waitForURL("**-project**");
  await until(async () => Number((await page.locator("h1").textContent()).replace(/\D/g, "")), all - one, "all but one");
});

await step("a saved search can be opened again", async () => {
  await go(page, "/search?q=lighthouse");
  await page.locator(".saved summary").click();
  await page.getByRole("button", { name: "Save what is shown…" }).click();
  await page.locator("dialog input").fill("All lighthouses");
  await page.locator("dialog button.primary").click();
  await page.waitForFunction(() => document.querySelector("#toast").textContent === "Search “All lighthouses” saved");
  await go(page, "/");
  await page.locator(".saved summary").click();
  await page.getByRole("link", { name: "All lighthouses" }).click();
  await page.waitForURL("**/search?q=lighthouse");
});

await step("every image of a batch has a card", async () => {
  const image = (await ask("get-iteration", { reference: "latest", includeImage: false })).images[0];
  const bytes = Buffer.from(await (await fetch(`${base}/images/${image.hash}`)).arrayBuffer()).toString("base64");
  const { sessions } = await ask("list-sessions");
  const other = await ask("get-iteration", { reference: `${sessions.find((session) => session.title === "Harbour at dusk").id}#0` });
  const second = Buffer.from(await (await fetch(`${base}/images/${other.images[0].hash}`)).arrayBuffer()).toString("base64");
  const made = await ask("record-iteration", { prompt: "a batch of quokkas", images: [{ data: bytes }, { data: second }] });
  await go(page, "/search?q=quokkas");
  await until(async () => await page.locator("#wall .card").evaluateAll((cards) => cards.map((card) => card.dataset.reference)), [`${made.reference}/0`, `${made.reference}/1`], "both");
  await page.locator("#wall .card").nth(1).focus();
  await page.keyboard.press("s");
  await page.locator("#wall .card").nth(0).focus();
  await page.keyboard.press("s");
  await page.getByRole("button", { name: "Compare", exact: true }).click();
  await page.waitForURL("**/compare?refs=**");
  await page.waitForSelector("html[data-ready]");
  await until(() => page.locator(".tile").count(), 2, "both are compared");
});

await step("touch selects with a long press, then with taps", async () => {
  const phone = await open({ viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true });
  opened.push(phone);
  await go(phone, "/");
  await phone.locator("#wall .card").first().evaluate((card) => {
    const at = card.getBoundingClientRect();
    card.dispatchEvent(new PointerEvent("pointerdown", { bubbles: true, pointerType: "touch", clientX: at.x + 20, clientY: at.y + 20 }));
  });
  await phone.locator("#chosen").waitFor();
  await phone.evaluate(() => window.dispatchEvent(new PointerEvent("pointerup", { pointerType: "touch" })));
  await phone.locator("#wall .card").nth(1).tap();
  await until(() => phone.locator("#chosen .number").textContent(), "2 selected", "two");
});

await step("it works without scripts", async () => {
  const plain = await open({ javaScriptEnabled: false });
  await plain.goto(`${base}/?from=2`);
  await until(async () => await plain.locator(".card").count() > 0, true, "from any place");
  for (const odd of ["/?from=x", "/?skip=x&at=y", "/search?skip=x"]) await until(async () => (await fetch(`${base}${odd}`)).status, 200, odd);
});

for (const colorScheme of ["light", "dark"]) {
  for (const [width, height] of [[390, 844], [1440, 900], [2560, 1440]]) {
    const looked = await open({ colorScheme, bypassCSP: true, reducedMotion: "reduce", viewport: { width, height } });
    opened.push(looked);
    await looked.addInitScript({ path: axePath });
    const clean = async (name) => {
      await looked.screenshot({ path: `${shots}/${name}-${colorScheme}-${width}.png` });
      await until(async () => await looked.evaluate(() => document.documentElement.scrollWidth <= innerWidth), true, `${name} does not scroll sideways`);
      const found = await looked.evaluate(() => axe.run(document, { resultTypes: ["violations"] }));
      same(found.violations.map((it) => `${it.id}: ${it.nodes.map((node) => node.html.slice(0, 140)).slice(0, 3).join(" | ")}`), [], `axe on ${name}`);
    };
    const seen = () => looked.waitForFunction(() => [...document.images].every((image) => image.complete || image.loading === "lazy"));
    await step(`the shelf and its states in ${colorScheme} at ${width}`, async () => {
      for (const [name, path] of [["shelf", "/"], ["shelf-archived", "/?status=archived"], ["images", "/search"], ["found", "/search?q=lighthouse&by=session"]]) {
        await go(looked, path);
        await seen();
        await clean(name);
      }
      await go(looked, "/");
      await looked.locator("#wall .card").first().focus();
      await looked.keyboard.press("s");
      await looked.keyboard.press("ArrowRight");
      await looked.keyboard.press("s");
      await seen();
      await clean("shelf-selected");
      await looked.locator("#chosen details summary").click();
      await clean("shelf-export");
      await looked.keyboard.press("Escape");
      await looked.getByRole("button", { name: "Tag…" }).click();
      await clean("shelf-tag-dialog");
      await looked.keyboard.press("Escape");
      await looked.locator("summary", { hasText: "Sort" }).click();
      await clean("shelf-sort");
      await looked.keyboard.press("Escape");
      await looked.locator("#wall .card").first().focus();
      await looked.keyboard.press("m");
      await clean("shelf-actions");
    });
  }
}

await done(...opened);
