// Imports files that are dropped on the page, pasted or chosen. Their bytes are sent a few files at a time and imported
// by the rules of `retake import`, which reads their recipes and recognises what is already there.

import { all, make, one, say } from "./kit.js";

const MAX_BYTES = 24 * 1024 * 1024;
const MAX_FILES = 16;

export function intake({ done }) {
  let inside = 0;
  const holds = (event) => event.dataTransfer?.types.includes("Files");
  addEventListener("dragenter", (event) => { if (!holds(event)) return; inside += 1; document.body.dataset.dropping = "yes"; });
  addEventListener("dragleave", (event) => { if (!holds(event)) return; inside -= 1; if (inside <= 0) delete document.body.dataset.dropping; });
  addEventListener("dragover", (event) => { if (holds(event)) event.preventDefault(); });
  addEventListener("drop", (event) => {
    if (!holds(event)) return;
    event.preventDefault();
    inside = 0;
    delete document.body.dataset.dropping;
    bring([...event.dataTransfer.files], done);
  });
  addEventListener("paste", (event) => {
    if (event.target.closest?.("input, textarea")) return;
    const files = [...(event.clipboardData?.files ?? [])];
    if (files.length > 0) { event.preventDefault(); bring(files, done); }
  });
  const choose = () => {
    const input = make("input", { type: "file", multiple: true, accept: "image/*,video/*", "aria-label": "Files to import" });
    input.addEventListener("change", () => bring([...input.files], done));
    input.click();
  };
  document.addEventListener("click", (event) => { if (event.target.closest?.("[data-import]")) choose(); });
  for (const hint of all(".needs-scripts")) hint.hidden = false;
  const bar = one("main .bar");
  if (bar && !one("[data-import]")) one(".size", bar)?.before(make("button", { type: "button", class: "quiet", "data-import": "" }, "Import…"));
}

/** Uploads files, and shows the progress and the result. */
async function bring(files, done) {
  const images = files.filter((file) => /^(image|video)\//.test(file.type) || /\.(png|jpe?g|webp|gif|avif|heic|jxl|tiff?|bmp|mp4|m4v|mov|webm|mkv)$/i.test(file.name));
  if (images.length === 0) { say("These files are neither images nor videos"); return; }
  one("#intake")?.remove();
  const meter = make("progress", { max: images.length, value: 0, "aria-label": "Files imported" });
  const said = make("span", { role: "status" }, `Importing ${images.length} ${images.length === 1 ? "file" : "files"}…`);
  const box = make("div", { id: "intake", class: "intake" }, said, meter);
  document.body.append(box);
  const sum = { iterations: 0, skipped: 0, problems: [] };
  let sent = 0;
  while (sent < images.length) {
    const batch = [];
    let bytes = 0;
    while (sent < images.length && batch.length < MAX_FILES && (batch.length === 0 || bytes + images[sent].size <= MAX_BYTES)) {
      const file = images[sent];
      sent += 1;
      if (file.size > MAX_BYTES + 8 * 1024 * 1024) { sum.problems.push({ file: file.name, reason: "larger than 32 MB: use retake import" }); continue; }
      bytes += file.size;
      batch.push({ name: file.name || "pasted.png", modified: file.lastModified, data: await encoded(file) });
    }
    if (batch.length === 0) continue;
    try {
      const answer = await fetch("/import", { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ files: batch }) });
      const found = await answer.json();
      if (!answer.ok) throw new Error(found.error?.message ?? "The import failed");
      sum.iterations += found.iterations;
      sum.skipped += found.skipped;
      sum.problems.push(...found.problems);
    } catch (error) { sum.problems.push(...batch.map((file) => ({ file: file.name, reason: error.message }))); }
    meter.value = sent;
    said.textContent = `Importing ${sent} of ${images.length}…`;
  }
  meter.remove();
  const parts = [`${sum.iterations} imported`];
  if (sum.skipped > 0) parts.push(`${sum.skipped} already here`);
  if (sum.problems.length > 0) parts.push(`${sum.problems.length} left out`);
  said.textContent = parts.join(", ");
  if (sum.problems.length > 0) {
    box.append(make("details", {}, make("summary", {}, "Why"), make("ul", {}, ...sum.problems.slice(0, 20).map(({ file, reason }) => make("li", {}, `${file}: ${reason}`)))));
  }
  box.append(make("button", { type: "button", class: "quiet", "aria-label": "Close", onclick: () => box.remove() }, "×"));
  if (sum.problems.length === 0) setTimeout(() => box.remove(), 8000);
  done();
}

function encoded(file) {
  return new Promise((answer, fail) => {
    const reader = new FileReader();
    reader.onload = () => answer(String(reader.result).split(",")[1] ?? "");
    reader.onerror = () => fail(new Error(`${file.name} cannot be read`));
    reader.readAsDataURL(file);
  });
}
