// Takes the screenshots of the README: node pictures.mjs URL DIRECTORY, with MODULES naming a node_modules that has
// playwright-core. Run by pictures.sh.
import { createRequire } from "node:module";

const [url, directory] = process.argv.slice(2);
const { chromium } = createRequire(`${process.env.MODULES}/`)("playwright-core");
const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"],
});
const base = url.replace(/\/$/, "");
const { sessions } = await (await fetch(`${base}/api/list-sessions`)).json();
const titled = (title) => sessions.find((it) => it.title === title);
const harbour = titled("Harbour at dusk");
const last = harbour.currentIterationIndex;
const refs = (...indexes) => indexes.map((index) => encodeURIComponent(`${harbour.id}#${index}`)).join(",");
const pages = {
  shelf: ["/", "light"],
  loupe: [`/sessions/${harbour.id}/${last}`, "dark"],
  story: [`/sessions/${harbour.id}/story`, "light"],
  survey: [`/compare?refs=${refs(3, 5, 7, last)}`, "dark"],
  pair: [`/compare?refs=${refs(0, last)}&mode=heat`, "dark"],
  provenance: [`/sessions/${harbour.id}/audit`, "light"],
};
for (const [name, [path, colorScheme]] of Object.entries(pages)) {
  const page = await browser.newPage({ viewport: { width: 1440, height: 900 }, colorScheme });
  await page.goto(base + path);
  await page.waitForLoadState("networkidle");
  await page.waitForFunction(() => !document.querySelector("[data-waiting]"));
  await page.waitForFunction(() => [...document.images].every((image) => image.complete || image.loading === "lazy"));
  await page.screenshot({ path: `${directory}/${name}.jpg`, type: "jpeg", quality: 84 });
  await page.close();
}
await browser.close();
