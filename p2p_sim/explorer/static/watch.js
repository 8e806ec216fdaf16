// A sweep while it runs: asks every second while something runs, every three seconds else; follows to a sweep that starts.
import { ask, byId, element, repeatedly, show } from "./common.js";

const STATES = { running: "It is running.", finished: "It is finished.", stopped: "It is not running: the same command goes on where it stopped." };
let key = new URLSearchParams(location.hash.slice(1)).get("results") ?? "", rounds = 0, known = "", running = null, rowsShown = "", failuresShown = "";

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
  const started = own.find((one) => one.running && running && !running.has(one.key) && one.key !== key);
  running = new Set(own.filter((one) => one.running).map((one) => one.key));
  if (started && byId("follow").checked) {
    turn(started.key);
    byId("results").value = key;
    show("followed", `${started.name} has started, and this page has turned to it.`);
  }
}

// Shows another directory from now on.
function turn(to) {
  key = to;
  history.replaceState(null, "", `#results=${key}`);
  rowsShown = failuresShown = "";
  byId("seen").hidden = true;
  byId("failures").replaceChildren();
}

function seen(found) {
  byId("seen").hidden = false;
  show("done", found.done.toLocaleString("en"));
  show("of", `of ${found.total.toLocaleString("en")} replicates (${found.points.toLocaleString("en")} points)`);
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
    if (rounds++ % 2 === 0 || !key) await directories();
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

byId("results").addEventListener("change", ({ target }) => {
  turn(target.value);
  show("followed", "");
  go();
});
byId("choice").addEventListener("submit", (event) => event.preventDefault());
const go = repeatedly(round);
