// A sweep while it runs: asks every second while something runs, every three seconds else.
import { ask, byId, element, show } from "./common.js";

const STATES = { running: "It is running.", finished: "It is finished.", stopped: "It is not running: the same command goes on where it stopped." };
let key = new URLSearchParams(location.hash.slice(1)).get("results") ?? "", rounds = 0, known = "", rowsShown = "", failuresShown = "";

function duration(seconds) {
  if (seconds < 90) return `${Math.max(1, Math.round(seconds))} seconds`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} minutes`;
  return `${(seconds / 3600).toFixed(1)} hours`;
}

async function directories() {
  const { results } = await ask("results", "");
  const own = results.filter((one) => !one.published);
  byId("none").hidden = own.length > 0;
  byId("choice").hidden = own.length === 0;
  const names = own.map((one) => one.key + one.label).join();
  if (names !== known) {
    known = names;
    byId("results").replaceChildren(...own.map((one) => element("option", { value: one.key }, one.label)));
    if (!own.some((one) => one.key === key)) key = (own.find((one) => one.running) ?? own[0])?.key ?? "";
    byId("results").value = key;
  }
}

function seen(found) {
  byId("seen").hidden = false;
  show("done", found.done.toLocaleString("en"));
  show("of", `of ${found.total.toLocaleString("en")} replicates${found.adaptive ? " or more" : ""} (${found.points.toLocaleString("en")} points)`);
  byId("bar").max = Math.max(found.total, 1);
  byId("bar").value = found.done;
  show("state", `${found.name}: ${STATES[found.state]}`);
  const left = found.left_s === null ? (found.state === "running" ? "Time left: not known yet." : "") : `Time left: about ${duration(found.left_s)}, by the speed of the last minute.`;
  show("more", [left, found.failed ? `${found.failed.toLocaleString("en")} replicates failed.` : ""].join(" ").trim());
  byId("no-failures").hidden = found.failures.length > 0;
  if (failuresShown !== (failuresShown = found.failures.join("\n")))
    byId("failures").replaceChildren(...found.failures.map((text) => element("li", {}, text)));
  byId("no-rows").hidden = found.rows.length > 0;
  const text = JSON.stringify([found.columns, found.rows]);
  if (text === rowsShown) return;
  rowsShown = text;
  byId("columns").replaceChildren(...found.columns.map((name) => element("th", { scope: "col" }, name)));
  byId("rows").replaceChildren(...found.rows.map((cells) => element("tr", {}, ...cells.map((cell) => element("td", {}, cell)))));
}

async function round() {
  let wait = 3000;
  try {
    if (rounds++ % 5 === 0 || !key) await directories();
    if (key) {
      const asked = key, found = await ask("watch", new URLSearchParams({ results: asked }));
      if (asked === key) seen(found);
      wait = found.state === "running" ? 1000 : 3000;
    }
    show("error", "");
    show("status", "");
  } catch (error) {
    show("error", error.message);
    known = "";
    rounds = 0;
  }
  return wait;
}

let timer = 0;
async function go() {
  clearTimeout(timer);
  const wait = await round();
  clearTimeout(timer);
  timer = setTimeout(go, wait);
}

byId("results").addEventListener("change", ({ target }) => {
  key = target.value;
  history.replaceState(null, "", `#results=${key}`);
  rowsShown = failuresShown = "";
  byId("seen").hidden = true;
  byId("failures").replaceChildren();
  go();
});
byId("choice").addEventListener("submit", (event) => event.preventDefault());
go();
