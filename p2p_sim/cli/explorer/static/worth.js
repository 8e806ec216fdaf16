// What is it worth? Results, axes and groups are chosen; the chart, the chosen point and a table follow.
import { Asking, ask, byId, copy, element, figure, lines, prefix, show } from "./common.js";
import { Chart } from "./chart.js";

const form = byId("choice");
const shown = new Asking("worth", "status", "error"), told = new Asking("point", "copied", "error");
const chart = new Chart(byId("chart"), "Points of the results; the table below has the same points", picked);
const chosen = { x: "", y: "", group: "", log_x: "", log_y: "" };
const answers = { limit: () => byId("limit").value.trim(), each: () => (byId("each").checked ? "yes" : "") };
let only = {}, drawn = null, latest = "", soon = 0;

function query() {
  const asked = new URLSearchParams();
  for (const box of form.querySelectorAll("[name=results]:checked")) asked.append("results", box.value);
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

function answered(found, message) {
  byId("chart").classList.toggle("busy", !found?.shown);
  if (!found) return nothing(message);
  show("error", found.error ?? "");
  const now = found.shown;
  options(byId("x"), found.columns, now?.x.column ?? chosen.x);
  options(byId("y"), found.numbers, now?.y.column ?? chosen.y);
  options(byId("group"), found.groups, chosen.group, "chosen for you");
  limits(found.axes);
  byId("downloads").hidden = !now;
  if (!now) return;
  drawn = now;
  byId("chart").dataset.query = query();
  byId("log_x").checked = now.x.log;
  byId("log_y").checked = now.y.log;
  show("chart-heading", now.title);
  show("caption", now.caption);
  chart.draw({ ...now, marked: true, ordered: true });
  for (const format of ["png", "svg", "csv"]) byId(format).href = `${prefix}/api/download?${query()}&format=${format}`;
  table();
}

function nothing() {
  byId("downloads").hidden = true;
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
  const found = drawn.lines.map((line) => line.points.filter((point) => drawn.x.names || !(point.x > limit)).map((point) => ({ ...point, line: line.label })).sort(better));
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
  if (!drawn) return;
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
      chart.choose(point.key);
      byId("point-heading").scrollIntoView({ block: "nearest" });
    });
    const interval = point.low === null ? "" : `${figure(point.low)} to ${figure(point.high)}`;
    const row = element("tr");
    row.append(element("td", {}, point.line || drawn.title), ...(trusted ? [element("td", {}, point.trust)] : []),
      element("td", { class: "number" }, point.x_text), element("td", { class: "number" }, point.y_text),
      element("td", { class: "number" }, interval), element("td", {}, button));
    return row;
  }));
}

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
    });
  }, 120);
}

function remember() {
  const asked = query();
  for (const name of ["limit", "each"]) if (answers[name]()) asked.set(name, answers[name]());
  history.replaceState(null, "", `#${asked}`);
}

function again() {
  const asked = query();
  remember();
  if (asked.has("results")) shown.of(asked, answered);
  else nothing();
}

form.addEventListener("change", ({ target }) => {
  if (target.name === "results") Object.assign(chosen, { x: "", y: "", group: "", log_x: "", log_y: "" }, (only = {}, {}));
  else if (target.dataset.only) only[target.dataset.only] = target.value;
  else if (target.type === "checkbox") chosen[target.name] = target.checked ? "yes" : "no";
  else if (target.name in chosen) {
    chosen[target.name] = target.value;
    if (target.name !== "group") chosen[`log_${target.name}`] = "";
  } else return;
  again();
});
byId("filter").addEventListener("input", ({ target }) => {
  for (const label of byId("results").querySelectorAll("label")) label.hidden = !label.textContent.toLowerCase().includes(target.value.toLowerCase());
});
form.addEventListener("submit", (event) => event.preventDefault());
byId("best").addEventListener("submit", (event) => event.preventDefault());
byId("best").addEventListener("input", () => {
  remember();
  table();
});
byId("copy-scenario").addEventListener("click", () => copy(latest, "copied", "The scenario is"));

const { results, left_out } = await ask("results", "");
const kept = new URLSearchParams(location.hash.slice(1)), before = new Set(kept.getAll("results"));
for (const [name, value] of kept) {
  if (name in chosen) chosen[name] = value;
  else if (name.startsWith("only.")) only[name.slice(5)] = value;
}
byId("limit").value = kept.get("limit") ?? "";
byId("each").checked = kept.get("each") === "yes";
const preferred = results.find((one) => !one.published && one.finished) ?? results.find((one) => !one.published) ?? results.find((one) => one.name === "comparison/adult") ?? results[0];
byId("none").hidden = results.length > 0;
function listed(one) {
  const box = element("input", { type: "checkbox", name: "results", value: one.key });
  box.checked = before.size ? before.has(one.key) : one === preferred;
  return element("label", { class: "choice" }, box, one.label);
}
const published = results.filter((one) => one.published);
byId("results").append(...results.filter((one) => !one.published).map(listed));
if (published.length) byId("results").append(element("p", { class: "tag" }, "Published studies"), ...published.map(listed));
byId("left-out").hidden = Object.keys(left_out).length === 0;
for (const [why, names] of Object.entries(left_out)) byId("left-out").append(element("p", { class: "help" }, `${why}: ${names.join(", ")}.`));
const first = byId("results").querySelector(":checked");
if (first) byId("results").scrollTop = first.offsetTop - byId("results").offsetTop - 90;
again();
