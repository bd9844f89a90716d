// A gallery with a token: the page that asks for it, by keyboard, and everything that works after it.

import { axePath, base, done, open, same, shots, step, until } from "./browser.mjs";

const TOKEN = "open sesame+ forty";
const opened = [];
const heading = (page) => page.locator("h1").textContent();

await step("people without the token are asked for it, and told if it is another", async () => {
  const page = await open();
  opened.push(page);
  await page.goto(`${base}/sessions/session-2025-12-11-001/3`);
  await until(() => heading(page), "This gallery asks for a token", "the page");
  await until(() => page.evaluate(() => document.activeElement.name), "token", "the field has the focus");
  await page.keyboard.type("open sesame");
  await page.keyboard.press("Enter");
  await page.getByRole("alert").waitFor();
  await until(() => page.getByRole("alert").textContent(), "This is not the gallery's token.", "the message");
  await page.keyboard.type(TOKEN);
  await page.keyboard.press("Enter");
  await page.waitForSelector("html[data-live]");
  await until(() => page.locator("h2").first().textContent(), "No sessions yet", "the shelf");
  same(new URL(page.url()).search, "", "the token does not stay in the address");
});

await step("after it, files are imported and changes appear", async () => {
  const [page] = opened;
  await page.evaluate(() => {
    const pixels = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNgAAAAAgABSK+kcQAAAABJRU5ErkJggg==";
    const transfer = new DataTransfer();
    transfer.items.add(new File([Uint8Array.from(atob(pixels), (c) => c.charCodeAt(0))], "with a token.png", { type: "image/png" }));
    for (const name of ["dragenter", "dragover", "drop"]) window.dispatchEvent(new DragEvent(name, { dataTransfer: transfer, bubbles: true, cancelable: true }));
  });
  await page.locator('.card:has-text("with a token")').click();
  await page.waitForSelector("html[data-ready]");
  await page.keyboard.press("4");
  await page.waitForFunction(() => document.querySelectorAll("#stars .on").length === 4);
  await until(() => page.locator(".picture").evaluate((it) => it.complete && it.naturalWidth), 1, "its image");
});

await step("the address that the server printed opens it at once", async () => {
  const page = await open();
  opened.push(page);
  await page.goto(`${base}/?token=${encodeURIComponent(TOKEN)}&status=all`);
  await page.waitForSelector("html[data-ready]");
  same(new URL(page.url()).search, "?status=all", "what else it says stays");
});

for (const colorScheme of ["light", "dark"]) {
  for (const [width, height] of [[390, 844], [1440, 900], [2560, 1440]]) {
    for (const [name, path] of [["token", "/"], ["token-wrong", "/?token=guess"]]) {
      await step(`${name} in ${colorScheme} at ${width}`, async () => {
        const page = await open({ colorScheme, bypassCSP: true, viewport: { width, height } });
        opened.push(page);
        await page.addInitScript({ path: axePath });
        await page.goto(base + path);
        await until(() => heading(page), "This gallery asks for a token", "the page");
        await page.screenshot({ path: `${shots}/${name}-${colorScheme}-${width}.png` });
        await until(() => page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), true, "it does not scroll sideways");
        const { violations } = await page.evaluate(() => axe.run(document, { resultTypes: ["violations"] }));
        same(violations.map((found) => `${found.impact} ${found.id}: ${found.nodes.map((node) => node.html.slice(0, 160)).join(" | ")}`), [], "axe");
      });
    }
  }
}

await done(...opened);
