// Shared by the scripts: the browser, steps that print their name when they fail, and JSON requests to the server.

import { once } from "node:events";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";
import { join } from "node:path";

const { chromium } = await import(pathToFileURL(join(process.env.MODULES, "playwright-core/index.mjs")).href);
export const axePath = join(process.env.MODULES, "axe-core/axe.min.js");
export const [base, shots] = process.argv.slice(2);

const flags = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"];
/** How long a page may take to come to what a test expects: far longer than on the slowest machine, since only failures wait that long. */
const PATIENCE = Number(process.env.PATIENCE ?? 120000);
export const browser = await chromium.launch({ executablePath: process.env.CHROMIUM, args: flags, timeout: PATIENCE });

/** A window, in which any script error or blocked script fails the test. */
export async function open(options = {}) {
  const context = await browser.newContext({ viewport: { width: 1440, height: 900 }, ...options });
  context.setDefaultTimeout(PATIENCE);
  // Messages stay until the next one, however long a step takes.
  await context.addInitScript(() => {
    try { localStorage.setItem("retake-settings", JSON.stringify({ linger: true, ...JSON.parse(localStorage.getItem("retake-settings") ?? "{}") })); } catch { /* This page has no storage. */ }
  });
  // ASSETS=src/web/assets tries a change of styles or scripts without a build.
  if (process.env.ASSETS) await context.route("**/assets/**", (route) => route.fulfill({ path: join(process.env.ASSETS, route.request().url().split("/").pop()) }));
  const page = await context.newPage();
  page.waitForFunction = patiently(page.waitForFunction.bind(page));
  page.faults = [];
  page.on("pageerror", (error) => page.faults.push(error.message));
  page.on("console", (message) => {
    if (/Content Security Policy|TrustedHTML/.test(message.text())) page.faults.push(message.text());
  });
  page.on("dialog", (dialog) => { page.faults.push(`a dialog: ${dialog.message()}`); dialog.dismiss(); });
  return page;
}

/** Waits on when a condition cannot be read yet: a page that is being loaded or renewed lacks the element for a moment. */
const patiently = (wait) => async (condition, value, options) => {
  const end = Date.now() + PATIENCE;
  for (;;) {
    try { return await wait(condition, value, options); } catch (error) {
      if (!/TypeError|context was destroyed/.test(error.message) || Date.now() > end) throw error;
    }
    await new Promise((next) => setTimeout(next, 40));
  }
};

/** Goes there, and waits until the page's scripts have run. */
export async function go(page, path) {
  await page.goto(base + path);
  await page.waitForSelector("html[data-ready]");
}

export async function step(name, work) {
  try {
    await work();
    console.log(`ok ${name}`);
  } catch (error) {
    console.log(`FAILED ${name}\n${error.stack}`);
    await browser.close();
    process.exit(1);
  }
}

export function same(actual, wanted, what) {
  if (JSON.stringify(actual) !== JSON.stringify(wanted)) throw new Error(`${what}: ${JSON.stringify(actual)}, not ${JSON.stringify(wanted)}`);
}

/**
 * Waits until `read` gives what is wanted. Pages answer when they can, and replace elements meanwhile, so that a value which
 * is read once after an action says little on a slow machine.
 */
export async function until(read, wanted, what) {
  const end = Date.now() + PATIENCE;
  for (;;) {
    let actual;
    let problem = null;
    try { actual = await read(); } catch (error) { problem = error; }
    if (!problem && JSON.stringify(actual) === JSON.stringify(wanted)) return;
    if (Date.now() > end) {
      if (problem) throw problem;
      same(actual, wanted, what);
    }
    await new Promise((next) => setTimeout(next, 40));
  }
}

/** Returns where an element is, once it is there: a page that is being renewed replaces it, and then it has no place for a moment. */
export async function boxOf(locator) {
  let box;
  await until(async () => { box = await locator.boundingBox(); return box !== null; }, true, "an element with a place");
  return box;
}

/** Waits for what the address of the page should be. The browser tells it a moment after the page changes. */
export const addressed = (page, read, wanted, what) => until(async () => read(new URL(await page.evaluate(() => location.href))), wanted, what);

/** A verb of /api, asked as a program does. */
export async function ask(verb, request = {}) {
  const answer = await fetch(`${base}/api/${verb}`, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(request) });
  if (!answer.ok) throw new Error(`${verb}: ${answer.status} ${await answer.text()}`);
  return answer.json();
}

let answers;
/** Has the test that runs this script do something to the server, and waits until it is done. */
export async function tell(what) {
  answers ??= createInterface({ input: process.stdin });
  const answer = once(answers, "line");
  console.log(`tell ${what}`);
  same(await answer, ["done"], what);
}

export async function done(...pages) {
  answers?.close();
  for (const page of pages) same(page.faults, [], "what went wrong in the page");
  await browser.close();
}
