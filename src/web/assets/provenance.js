// The provenance and workspace pages: local times, the full check, and recovery reports.

import { all, one, say, sayWhy } from "./kit.js";

const exact = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });
for (const time of all("time[data-exact]")) {
  const at = new Date(time.dateTime);
  if (!Number.isNaN(at.getTime())) time.textContent = exact.format(at);
}
for (const select of all(".filters select")) select.addEventListener("change", () => select.form.requestSubmit());

const post = async (path) => {
  const answer = await fetch(path, { method: "POST", headers: { "content-type": "application/json" }, body: "{}" });
  const said = await answer.json();
  if (!answer.ok) throw Object.assign(new Error(said.error?.message ?? "That did not work"), { hint: said.error?.hint });
  return said;
};

for (const button of all("[data-read]")) {
  button.hidden = false;
  button.addEventListener("click", async () => {
    try { await post("/workspace/read"); button.closest(".row")?.querySelector(".muted")?.remove(); button.remove(); say("Marked as read"); } catch (error) { sayWhy(error); }
  });
}

const start = one("[data-check]");
if (start) {
  start.hidden = false;
  const [said, meter, list] = [one("#checked"), one("#checking"), one("#found")];
  const show = (state) => {
    start.disabled = state.running;
    meter.hidden = !state.running;
    if (state.running) {
      if (state.total > 0) { meter.max = state.total; meter.value = state.done; } else meter.removeAttribute("value");
      said.textContent = `${state.what[0]?.toUpperCase() ?? ""}${state.what.slice(1)}…`;
    } else if (state.verdict) {
      said.textContent = `${state.verdict} ${exact.format(new Date(state.finishedAt))}`;
      list.hidden = state.problems.length === 0;
      list.replaceChildren(...state.problems.map((problem) => Object.assign(document.createElement("li"), { textContent: problem })));
    }
  };
  const follow = async () => {
    try {
      const state = await (await fetch("/workspace/check")).json();
      show(state);
      if (state.running) setTimeout(follow, 400);
    } catch { setTimeout(follow, 2000); }
  };
  start.addEventListener("click", async () => { try { show(await post("/workspace/check")); follow(); } catch (error) { sayWhy(error); } });
  follow();
}
