// Drives the host: records a few images through the server, shows the pages of two tools, and uses them as people do.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { deflateSync, crc32 } from "node:zlib";
import { Client } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { getToolUiResourceUri } from "@modelcontextprotocol/ext-apps/app-bridge";
import { chromium } from "playwright-core";

const [bundle, command, ...args] = process.argv.slice(2);
const same = (actual, wanted, what) => {
  if (JSON.stringify(actual) !== JSON.stringify(wanted)) throw new Error(`${what}: ${JSON.stringify(actual)}, not ${JSON.stringify(wanted)}`);
};
const holds = (value, what) => { if (!value) throw new Error(what); };
/** How long anything may take: only failures wait that long. */
const PATIENCE = 120000;
/** Waits until something holds: pages and hosts tell each other what they did in messages. */
async function eventually(read, what) {
  for (const end = Date.now() + PATIENCE; !(await read()); await new Promise((next) => setTimeout(next, 40))) holds(Date.now() < end, typeof what === "string" ? what : await what());
}

/** A PNG: a sky over a sea, with a disc. */
function png(width, height, sky, sea, disc) {
  const rows = Buffer.alloc((width * 3 + 1) * height);
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      const within = (x - disc.x) ** 2 + (y - disc.y) ** 2 < disc.r ** 2;
      const ground = y < height * 0.6 ? sky : sea;
      const colour = within ? disc.colour : ground.map((c) => Math.min(255, c + Math.round((40 * y) / height)));
      rows.set(colour, y * (width * 3 + 1) + 1 + x * 3);
    }
  }
  const chunk = (kind, data) => {
    const body = Buffer.concat([Buffer.from(kind), data]), length = Buffer.alloc(4), sum = Buffer.alloc(4);
    length.writeUInt32BE(data.length);
    sum.writeUInt32BE(crc32(body));
    return Buffer.concat([length, body, sum]);
  };
  const head = Buffer.alloc(13);
  head.writeUInt32BE(width, 0);
  head.writeUInt32BE(height, 4);
  head.set([8, 2, 0, 0, 0], 8);
  return Buffer.concat([Buffer.from("89504e470d0a1a0a", "hex"), chunk("IHDR", head), chunk("IDAT", deflateSync(rows)), chunk("IEND", Buffer.alloc(0))]);
}

const client = new Client({ name: "apps-judge", version: "1" }, { capabilities: { extensions: { "io.modelcontextprotocol/ui": { mimeTypes: ["text/html;profile=mcp-app"] } } } });
await client.connect(new StdioClientTransport({ command, args }));
const capabilities = client.getServerCapabilities();
same(capabilities.extensions?.["io.modelcontextprotocol/ui"], { mimeTypes: ["text/html;profile=mcp-app"] }, "the extension");
const call = async (name, values) => {
  const result = await client.callTool({ name, arguments: values });
  if (result.isError) throw new Error(`${name}: ${JSON.stringify(result.structuredContent)}`);
  return result;
};
const disc = { x: 440, y: 150, r: 60, colour: [250, 210, 90] };
const takes = [
  { prompt: "harbour at dawn, calm sea, <b>bold</b>", image: png(640, 400, [90, 140, 200], [20, 60, 110], disc) },
  { prompt: "harbour at dusk, calm sea, lighthouse", image: png(640, 400, [220, 120, 60], [90, 40, 60], disc) },
  { prompt: "harbour at dusk, calm sea, lighthouse, gulls", image: png(640, 400, [220, 120, 60], [90, 40, 60], { ...disc, x: 200 }) },
];
let session;
for (const [at, { prompt, image }] of takes.entries()) {
  const images = [{ data: image.toString("base64"), mimeType: "image/png" }];
  const answer = await call("record-iteration", { prompt, images, seed: String(40 + at), steps: 20 + 5 * at, model: "sdxl", ...(session ? { sessionId: session } : { title: "Harbour" }) });
  session = answer.structuredContent.session.id;
}
await call("record-iteration", { prompt: "harbour, nude", outcome: "refused", message: "safety filter", sessionId: session });

const { tools } = await client.listTools();
const page = async (name) => {
  const uri = getToolUiResourceUri(tools.find((tool) => tool.name === name));
  holds(uri?.startsWith("ui://"), `${name} names no page`);
  const { contents } = await client.readResource({ uri });
  same(contents[0].mimeType, "text/html;profile=mcp-app", "the type of the page");
  return contents[0].text;
};

const browser = await chromium.launch({ executablePath: process.env.CHROMIUM, args: ["--no-sandbox", "--disable-gpu"], timeout: PATIENCE });
const faults = [];
async function show(name, values, { resources = true, theme = "light", size = { width: 900, height: 900 } } = {}) {
  const window = await browser.newPage({ viewport: size });
  window.setDefaultTimeout(PATIENCE);
  window.on("pageerror", (error) => faults.push(error.message));
  window.on("console", (message) => { if (/Content Security Policy|Refused/.test(message.text())) faults.push(message.text()); });
  window.on("request", (request) => { if (!/^(about|data|blob):/.test(request.url())) faults.push(`asked for ${request.url()}`); });
  await window.exposeFunction("callTool", (params) => client.callTool(params));
  await window.exposeFunction("readResource", (params) => client.readResource(params));
  await window.setContent("<!doctype html><html><body style='margin:0;height:100vh'></body></html>");
  await window.evaluate((theme) => { globalThis.theme = theme; }, theme);
  await window.addScriptTag({ path: bundle });
  const [html, result] = [await page(name), await call(name, values)];
  await window.evaluate((given) => globalThis.host.open(given), { html, input: values, result, resources });
  return { window, app: window.frameLocator("iframe"), log: () => window.evaluate(() => globalThis.host.log) };
}
const loaded = (images) => images.evaluateAll((all) => Promise.all(all.map((image) => new Promise((done) => {
  const check = () => (image.complete && image.naturalWidth > 0 ? done(image.naturalWidth) : setTimeout(check, 20));
  check();
}))));
const shot = (window, name) => window.screenshot({ path: join(process.env.SCREENSHOTS, `app-${name}.png`) });
async function step(name, work) {
  try { await work(); console.log(`ok ${name}`); } catch (error) { console.log(`FAILED ${name}\n${error.stack}`); process.exitCode = 1; }
}

const references = [0, 1, 2, 3].map((index) => `${session}#${index}`);
await step("a comparison shows both images in full", async () => {
  const { window, app, log } = await show("compare-iterations", { references, render: "none" });
  await app.locator(".stage img").first().waitFor();
  await eventually(async () => JSON.stringify(await loaded(app.locator(".stage img"))) === "[640,640]", "both images in full");
  await eventually(async () => (await log()).some(([method]) => method === "size"), "the host was not told the size");
  await eventually(async () => (await app.locator(".verdict").innerText()).startsWith("Composition: same · Colour: strongly changed"), () => app.locator(".verdict").innerText());
  await shot(window, "compare-side");
  await app.getByRole("button", { name: "Slider" }).click();
  await app.getByLabel("How much of B").fill("30");
  await eventually(async () => await app.locator(".frame img").nth(1).evaluate((image) => image.style.clipPath) === "inset(0px 0px 0px 70%)", "the slider");
  await shot(window, "compare-slider");
  await app.getByRole("button", { name: "Difference" }).click();
  await eventually(async () => await app.locator(".stage.difference .frame img").count() === 2, "the images of the difference");
  await shot(window, "compare-difference");
  await app.getByRole("button", { name: "Matrix" }).click();
  await eventually(async () => (await app.locator("table").innerText()).includes("steps"), "the matrix has no steps");
  await eventually(async () => (await app.locator("table").innerText()).includes("<b>bold</b>"), "recorded text became markup");
  await shot(window, "compare-matrix");
  await app.getByRole("button", { name: "Side by side" }).click();
  await app.locator(".strip button").nth(3).click();
  await app.getByText("refused", { exact: true }).first().waitFor();
  await app.locator(".strip button").nth(2).click();
  await app.getByRole("button", { name: "Pick B" }).click();
  await app.getByText(/Picked/).waitFor();
  const rating = async (at) => (await call("get-iteration", { reference: references[at] })).structuredContent.annotations?.rating;
  await eventually(async () => await rating(2) === 5, "the rating after a pick");
  await eventually(async () => (await log()).some(([method, params]) => method === "context" && params.content[0].text.includes(references[2])), "the model was not told");
  await window.evaluate(() => globalThis.host.close());
  await window.close();
});
await step("stars rate the iteration that is shown", async () => {
  const { window, app } = await show("compare-iterations", { references: references.slice(0, 2), render: "none" }, { theme: "dark", size: { width: 420, height: 900 } });
  await app.getByRole("group", { name: /Rating of .*#1/ }).getByRole("button", { name: "3 of 5" }).click();
  await app.getByText(/Rated .*#1 3 of 5/).waitFor();
  await eventually(async () => (await call("get-iteration", { reference: references[1] })).structuredContent.annotations?.rating === 3, "the rating");
  await loaded(app.locator(".stage img"));
  await shot(window, "compare-phone-dark");
  await window.close();
});
await step("a host without resources gets thumbnails", async () => {
  const { window, app, log } = await show("compare-iterations", { references: references.slice(0, 2), render: "none" }, { resources: false });
  await app.locator(".stage img").first().waitFor();
  await eventually(async () => (await loaded(app.locator(".stage img"))).length === 2, "the images");
  holds((await log()).every(([method]) => method !== "resources/read"), "a resource was read");
  await window.close();
});
await step("a story leads to its steps, to a comparison and on", async () => {
  const { window, app, log } = await show("resume-session", { reference: references[2] }, { theme: "dark" });
  await app.getByRole("heading", { name: "Harbour" }).waitFor();
  await loaded(app.locator(".frame img"));
  await shot(window, "story-dark");
  await app.locator(".story button").first().click();
  await loaded(app.locator(".frame img"));
  await app.getByRole("button", { name: "Compare with the last" }).click();
  await app.getByRole("heading", { name: "Compare 2 iterations" }).waitFor();
  await app.getByRole("button", { name: "Back" }).click();
  await app.getByRole("button", { name: "Continue from here" }).click();
  await app.getByText("Asked to continue.").waitFor();
  await eventually(async () => (await log()).some(([method, params]) => method === "message" && params.content[0].text.includes("#2")), "the host got no message");
  await window.close();
});
await step("nothing but the host was contacted", async () => same(faults, [], "faults"));
await browser.close();
await client.close();
console.log(process.exitCode ? "FAILED" : "PASSED");
process.exit();
