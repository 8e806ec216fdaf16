// What is it worth? Runs, axes and groups are chosen; the chart, the chosen point and a table of points follow.
import { Asking, byId, copy, element, figure, lines, prefix, show } from "./common.js";
import { Chart } from "./chart.js";
import { Runs } from "./runs.js";

const form = byId("choice");
const shown = new Asking("worth", "status", "error"), told = new Asking("point", "copied", "error");
const chart = new Chart(byId("chart"), "Points of the results; the table below has the same points", picked);
const NOTHING = { x: "", y: "", group: "", facet: "", heat: "", log_x: "", log_y: "" };
const chosen = { ...NOTHING };
const runs = new Runs(() => again());
const answers = { limit: () => byId("limit").value.trim(), each: () => (byId("each").checked ? "yes" : "") };
let only = {}, drawn = null, latest = "", soon = 0, before = null;

function query() {
  const asked = new URLSearchParams();
  for (const key of runs.chosen) asked.append("results", key);
  for (const [name, value] of Object.entries(chosen)) if (value) asked.set(name, value);
  for (const [key, value] of Object.entries(only)) if (value) asked.set(`only.${key}`, value);
  return asked;
}

function options(select, choices, value, none) {
  const found = Object.entries(choices).map(([column, name]) => element("option", { value: column }, name === column ? column : `${name} (${column})`));
  if (none) found.unshift(element("option", { value: "" }, none));
  select.replaceChildren(...found);
  select.value = value;
}

function limits(axes) {
  const focused = document.activeElement?.dataset.only;
  byId("only").replaceChildren(...axes.map((axis) => {
    const id = `only-${axis.key.replaceAll(/[^a-z0-9]/gi, "-")}`, select = element("select", { id, "data-only": axis.key });
    select.append(element("option", { value: "" }, "all"), ...axis.values.map(({ value, text }) => element("option", { value }, text)));
    select.value = only[axis.key] ?? "";
    return element("div", { class: "field" }, element("label", { for: id }, `Only ${axis.label}`), select);
  }));
  if (focused) byId("only").querySelector(`[data-only="${CSS.escape(focused)}"]`)?.focus();
}

// The command names its options; here the fields have labels.
function plain(message) {
  const fields = { "--x": "x", "--y": "y", "--group": "group", "--facet": "facet", "--heat": "heat" };
  return message.replaceAll(/--(?:x|y|group|facet|heat)\b/g, (option) => `“${document.querySelector(`label[for=${fields[option]}]`).textContent}”`);
}

function answered(found, message) {
  byId("chart").classList.toggle("busy", !found?.shown);
  if (!found) return nothing(message);
  show("error", plain(found.error ?? ""));
  const now = found.shown;
  options(byId("x"), found.columns, now?.x.column ?? chosen.x);
  options(byId("y"), chosen.heat ? found.columns : found.numbers, now?.y.column ?? chosen.y);
  options(byId("group"), found.groups, chosen.group, "chosen for you");
  options(byId("facet"), found.facets, chosen.facet, "one panel for all");
  options(byId("heat"), found.numbers, chosen.heat, "none: lines");
  byId("suggested").replaceChildren(...(found.suggested ?? []).map(({ text, ...columns }) => {
    const button = element("button", { type: "button" }, text);
    button.addEventListener("click", () => {
      Object.assign(chosen, columns);
      again();
    });
    return button;
  }));
  limits(found.axes);
  byId("downloads").hidden = !now;
  byId("ranked").hidden = Boolean(now?.heat);
  if (!now) return;
  drawn = now;
  byId("chart").dataset.query = query();
  if (!now.heat && !now.lines.some((line) => line.points.some((point) => point.key === chart.chosen))) close();
  byId("log_x").checked = now.x.log;
  byId("log_y").checked = now.y.log;
  show("chart-heading", now.title);
  show("caption", now.caption);
  chart.draw({ ...now, marked: true });
  for (const format of ["png", "svg", "csv"]) byId(format).href = `${prefix}/api/download?${query()}&format=${format}`;
  table();
}

function nothing() {
  byId("downloads").hidden = true;
  byId("suggested").replaceChildren();
  close();
  byId("chart").replaceChildren();
  byId("table").replaceChildren();
  show("caption", "");
  show("chart-heading", "Figure");
}

const falling = (column) => /error|risk|epsilon|advantage|damage/.test(column);

// The points of the table, best first: those with x up to the limit, and if asked for, the best one of each line.
function bestFirst() {
  const limit = byId("limit").value.trim() === "" ? Infinity : Number(byId("limit").value);
  const better = (a, b) => (falling(drawn.y.column) ? a.y - b.y : b.y - a.y);
  const found = drawn.lines.map((line) => line.points.filter((point) => drawn.x.names || !(point.x > limit)).map((point) => ({ ...point, line: [drawn.panels[point.panel], line.label].filter(Boolean).join(", ") })).sort(better));
  return found.flatMap((points) => (byId("each").checked ? points.slice(0, 1) : points)).sort(better);
}

// What a table of one point for each line says of the first two.
function lead(kept) {
  const [first, second] = kept;
  if (!second || new Set(kept.map((point) => point.line)).size < kept.length || first.low === null || second.low === null) return "";
  const apart = first.low > second.high || first.high < second.low;
  return `The 95% intervals of ${first.line} and ${second.line} (${first.replicates} and ${second.replicates} replicates) `
    + (apart ? "do not overlap." : "overlap, so that it is open which is better.");
}

function table() {
  if (!drawn || drawn.heat) return;
  show("limit-label", `Only with ${drawn.x.name} at most`);
  byId("limited").hidden = Boolean(drawn.x.names);
  show("head-x", drawn.x.name);
  show("head-y", drawn.y.name);
  const kept = bestFirst();
  show("lead", lead(kept));
  const trusted = kept.some((point) => point.trust);
  byId("head-trust").hidden = !trusted;
  byId("table").replaceChildren(...kept.map((point) => {
    const button = element("button", { type: "button", class: "link" }, "show");
    button.setAttribute("aria-label", `Show the point ${point.said}`);
    button.addEventListener("click", () => {
      chart.mark(point.key)?.node.focus();
      byId("stage").scrollIntoView({ block: "nearest" });
    });
    const interval = point.low === null ? "" : `${figure(point.low)} to ${figure(point.high)}`;
    const row = element("tr");
    row.append(element("td", {}, point.line || drawn.title), ...(trusted ? [element("td", {}, point.trust)] : []),
      element("td", { class: "number" }, point.x_text), element("td", { class: "number" }, point.y_text),
      element("td", { class: "number" }, interval), element("td", {}, button));
    return row;
  }));
}

// The point's figures and its scenario, beside it: on the side of the figure where there is more room.
function picked(key) {
  clearTimeout(soon);
  soon = setTimeout(() => {
    const asked = query();
    asked.set("point", key);
    told.of(asked, (found) => {
      if (!found) return;
      latest = found.scenario;
      show("point-name", found.name);
      byId("point").hidden = false;
      lines("point-lines", found.lines);
      show("point-scenario", found.scenario);
      beside(key);
    });
  }, 120);
}

function beside(key) {
  if (getComputedStyle(byId("point")).position !== "absolute") return;  // on a phone it stands below
  const card = byId("point"), stage = byId("stage").getBoundingClientRect(), mark = chart.mark(key)?.node.getBoundingClientRect();
  if (!mark) return;
  card.style.maxHeight = `${stage.height}px`;
  const x = (mark.left + mark.right) / 2 - stage.left, right = x < stage.width / 2;
  card.style.left = right ? `${Math.min(mark.right - stage.left + 8, stage.width - card.offsetWidth)}px` : "auto";
  card.style.right = right ? "auto" : `${Math.min(stage.right - mark.left + 8, stage.width - card.offsetWidth)}px`;
  card.style.top = `${Math.max(0, Math.min((mark.top + mark.bottom) / 2 - stage.top - 60, stage.height - card.offsetHeight))}px`;
}

function close() {
  clearTimeout(soon);
  byId("point").hidden = true;
}

function remember() {
  const asked = query();
  for (const name of ["limit", "each"]) if (answers[name]()) asked.set(name, answers[name]());
  runs.remember(asked);
  history.replaceState(null, "", `#${asked}`);
}

function again() {
  const now = [...runs.chosen].sort().join();
  if (now !== before && before !== null) Object.assign(chosen, NOTHING, (only = {}, {}));  // other runs have other columns
  before = now;
  const asked = query();
  remember();
  if (asked.has("results")) shown.of(asked, answered);
  else nothing();
}

form.addEventListener("change", ({ target }) => {
  if (target.dataset.only) only[target.dataset.only] = target.value;
  else if (target.type === "checkbox") chosen[target.name] = target.checked ? "yes" : "no";
  else if (target.name in chosen) {
    chosen[target.name] = target.value;
    if (target.name === "heat") Object.assign(chosen, { x: "", y: "", group: "", facet: "" });
    else if (target.name === "x" || target.name === "y") chosen[`log_${target.name}`] = "";
  } else return;
  again();
});
form.addEventListener("submit", (event) => event.preventDefault());
byId("best").addEventListener("submit", (event) => event.preventDefault());
byId("best").addEventListener("input", () => {
  remember();
  table();
});
byId("close").addEventListener("click", () => {
  close();
  chart.mark(chart.chosen)?.node.focus();
  close();
});
document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape" || byId("point").hidden) return;
  const inside = byId("point").contains(document.activeElement);
  if (inside) chart.mark(chart.chosen)?.node.focus();
  close();
});
byId("copy-scenario").addEventListener("click", () => copy(latest, "copied", "The scenario is"));

const kept = new URLSearchParams(location.hash.slice(1));
for (const [name, value] of kept) {
  if (name in chosen) chosen[name] = value;
  else if (name.startsWith("only.")) only[name.slice(5)] = value;
}
byId("limit").value = kept.get("limit") ?? "";
byId("each").checked = kept.get("each") === "yes";
runs.restore(kept);
await runs.follow();
runs.onremember = remember;
again();
