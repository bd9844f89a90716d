// Going to a date: the months beside the shelf, by mouse, by keyboard, by touch, and as links.

import { ask, boxOf, done, go, open, same, step, until } from "./browser.mjs";

// 150 sessions in five months, so that a month is never in the first part alone.
const MONTHS = ["2025-03", "2025-04", "2025-06", "2025-11", "2026-01"];
for (const month of MONTHS) {
  for (let day = 1; day <= 28; day += 1) {
    const createdAt = `${month}-${String(day).padStart(2, "0")}T12:00:00Z`;
    await ask("record-iteration", { prompt: `a study of ${month}`, createdAt });
  }
}
const page = await open();
const link = (where, name) => where.locator("#scrubber a", { hasText: name }).first();
/** The date of the first card below the header. */
const top = (where) => where.evaluate(() => [...document.querySelectorAll("#wall > .part:not(.ghost) .item")]
  .map((item) => ({ at: item.dataset.at, top: item.getBoundingClientRect().top })).filter((item) => item.top >= 40).sort((a, b) => a.top - b.top)[0]?.at.slice(0, 7));

await step("every month is listed, newest first", async () => {
  await go(page, "/");
  await until(() => page.locator("#scrubber a").allTextContents(), ["Jan 2026", "Nov 2025", "Jun", "Apr", "Mar"], "the months");
  await until(() => page.locator("#scrubber a[aria-current]").allTextContents(), ["Jan 2026"], "where one is");
});

await step("a click jumps to a month", async () => {
  await link(page, "Apr").click();
  await until(() => top(page), "2025-04", "what is on top");
  await until(() => page.locator("#scrubber a[aria-current]").allTextContents(), ["Apr"], "where one is");
});

await step("arrow keys and Enter jump to a month, with one tab stop", async () => {
  await go(page, "/");
  await until(() => page.locator('#scrubber a[tabindex="0"]').count(), 1, "tab stops");
  await link(page, "Jan 2026").focus();
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("ArrowDown");
  await until(() => page.evaluate(() => document.activeElement.textContent), "Jun", "the focus");
  await page.keyboard.press("Enter");
  await until(() => top(page), "2025-06", "what is on top");
});

await step("dragging moves through the months", async () => {
  await go(page, "/");
  const [from, to] = [await boxOf(link(page, "Jan 2026")), await boxOf(link(page, "Apr"))];
  await page.mouse.move(from.x + from.width / 2, from.y + from.height / 2);
  await page.mouse.down();
  await page.mouse.move(to.x + to.width / 2, to.y + to.height / 2, { steps: 8 });
  await page.mouse.up();
  await until(() => top(page), "2025-04", "where the mouse was released");
});

await step("sorting by oldest reverses the months", async () => {
  await go(page, "/?sort=oldest");
  await until(() => page.locator("#scrubber a").allTextContents(), ["Mar 2025", "Apr", "Jun", "Nov", "Jan 2026"], "the months");
  await link(page, "Nov").click();
  await until(() => top(page), "2025-11", "what is on top");
});

await step("a month is a link that can be opened elsewhere", async () => {
  await go(page, "/");
  const address = await link(page, "Jun").getAttribute("href");
  same(address.includes("from=56"), true, address);
  await go(page, address);
  await until(() => page.locator("#wall .item").first().getAttribute("data-at").then((at) => at.slice(0, 7)), "2025-06", "the first card");
});

await step("a tap jumps to a month", async () => {
  const phone = await open({ viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true });
  await go(phone, "/");
  await link(phone, "Apr").tap();
  await until(() => top(phone), "2025-04", "what is on top");
  same(phone.faults, [], "no faults");
});

await done(page);
