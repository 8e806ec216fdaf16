// How private? Fields and sliders ask for a statement, a trade-off curve, and the flip probability for a target.
import { Asking, byId, copy, element, lines, show } from "./common.js";
import { Chart } from "./chart.js";

const form = byId("question");
const two = (value) => Number(value.toPrecision(2));
const short = (value) => String(value).includes("e") || value >= 0.01 ? String(two(value)) : two(value).toExponential().replace("e+", "e");
const SLIDERS = {
  cluster_size: { low: 2, high: 100000, log: true, text: (value) => String(value < 100 ? Math.round(value) : two(value)) },
  flip_prob: { low: 0, high: 0.5, text: (value) => String(Number(value.toFixed(4))) },
  sampling_rate: { low: 0.01, high: 1, text: (value) => String(Number(value.toFixed(3))) },
  delta: { low: 1e-12, high: 0.1, log: true, text: short },
  epsilon: { low: 0.01, high: 20, log: true, text: (value) => String(two(value)) },
};
const told = new Asking("told", "status", "error");
const curved = new Asking("curve", "curve-status", "curve-error");
const sought = new Asking("needed", "needed-status", "needed-error");
const chart = new Chart(byId("curve"), "Trade-off curve: least share of misses against the share of false alarms. The sentences below say the same.");
let latest = null, waiting = 0, drawing = 0, typing = 0, neededFor = "";

function fields() {
  const data = new FormData(form);
  const given = data.get("given");
  data.delete(given === "delta" ? "epsilon" : "delta");
  data.delete("given");
  if (data.get("observer") !== "coalition") data.delete("members");
  return new URLSearchParams([...data].filter(([, text]) => text.trim() !== ""));
}

function place(name) {
  const { low, high, log } = SLIDERS[name];
  const value = Number(byId(name).value), f = log ? Math.log : (v) => v;
  const slider = form.querySelector(`[data-for=${name}]`);
  if (Number.isFinite(value) && (!log || value > 0)) slider.value = Math.round((1000 * (f(value) - f(low))) / (f(high) - f(low)));
  slider.setAttribute("aria-valuetext", byId(name).value);
}

function slid(slider, towards = 0) {
  const name = slider.dataset.for, { low, high, log, text } = SLIDERS[name], before = byId(name).value;
  const shown = () => {
    const share = Number(slider.value) / 1000;
    return text(log ? low * (high / low) ** share : low + share * (high - low));
  };
  for (let tries = 0; towards && shown() === before && tries < 1000; tries++) slider.value = Number(slider.value) + towards;
  byId(name).value = shown();
  slider.setAttribute("aria-valuetext", byId(name).value);
}

const STEPS = { ArrowUp: 1, ArrowRight: 1, ArrowDown: -1, ArrowLeft: -1 };

// A key changes the printed number: a slider goes on until it does, and Up and Down work in the fields too.
function stepped(event) {
  const { target } = event, towards = STEPS[event.key], slider = target.type === "range";
  if (!towards || event.altKey || event.ctrlKey || event.metaKey || !(slider || /^Arrow(Up|Down)$/.test(event.key))) return;
  const name = slider ? target.dataset.for : target.name;
  if (name in SLIDERS) slid(form.querySelector(`[data-for=${name}]`), towards);
  else if (target.inputMode === "numeric") target.value = Math.max(1, Number(target.value) + towards);
  else return;
  event.preventDefault();
  soon();
}

function arrange() {
  const coalition = byId("observer").value === "coalition", delta = form.elements.given.value === "delta";
  byId("only-coalition").hidden = !coalition;
  byId("given-delta").hidden = !delta;
  byId("given-epsilon").hidden = delta;
}

function blame(message) {
  const named = message?.match(/^--([a-z-]+)/)?.[1].replaceAll("-", "_");
  for (const input of form.querySelectorAll("input:not([type=range])")) {
    if (input.name === named) input.setAttribute("aria-invalid", "true");
    else input.removeAttribute("aria-invalid");
  }
}

// What the answer "which α" depends on: everything but α itself.
function setting() {
  const query = fields();
  for (const name of ["flip_prob", "rounds", "fresh"]) query.delete(name);
  query.set("delta", byId("delta").value);
  query.set("target", byId("target").value);
  return String(query);
}

function outdated() {
  if (byId("needed-answer").hidden || setting() === neededFor) return;
  byId("needed-answer").hidden = true;
  show("needed-status", "The question has changed: find α again.");
}

// A command whose lines end between options.
function unbroken(text) {
  return text.split(/ (?=--)/).flatMap((part, place) => [place ? " " : "", element("span", { class: "whole" }, part)]);
}

// The command names its option; here the field has a label.
function plain(message) {
  const [, option, rest] = message?.match(/^--([a-z-]+)([^]*)$/) ?? [];
  const label = option && form.querySelector(`label[for=${option.replaceAll("-", "_")}]`);
  if (!label) return message ?? "";
  return `${label.textContent}${rest}${/^ \d+,\d/.test(rest) ? "; use a point, not a comma" : ""}.`;
}

function answered(found, message, query) {
  blame(message);
  show("error", plain(message));
  byId("answer").classList.toggle("busy", !found);
  byId("glance").classList.toggle("busy", !found);
  if (!found) return;
  latest = found;
  byId("answer").dataset.query = query;
  byId("answer").hidden = false;
  const [name, value] = found.lines[2];
  show("big-name", `${name}:`);
  show("big", value);
  show("glance-name", `${name}:`);
  show("glance-value", value);
  const { figures } = found, asked = found.figures.delta_upper === null ? "epsilon" : "delta";
  show("digits", `All digits: at most ${figures[`${asked}_upper`]}, at least ${figures[`${asked}_lower`]}`);
  show("beware", found.beware);
  lines("lines", found.lines);
  show("protects", found.protects);
  byId("conditions").replaceChildren(...found.conditions.map((text) => element("li", {}, text)));
  byId("command").replaceChildren(...unbroken(found.command));
  byId("copy-scenario").disabled = !found.scenario;
  show("copies", found.scenario ? `The rows of the scenario have this observer's ε as ${found.column}.`
    : "A scenario is offered for two classes, one round, and the learner, a coalition or an eavesdropper: the rows of others have no such ε.");
}

function drawn(found) {
  byId("curve").classList.toggle("busy", !found);
  if (!found) return show("curve-words", ""), show("gain", "");
  show("gain", found.gain);
  const points = found.type_one.map((x, index) => ({ x, y: found.type_two[index] }));
  const chance = [{ x: 0, y: 1 }, { x: 1, y: 0 }];
  chart.draw({
    x: { label: "false alarms: share of users with one label whom the test gives the other", range: [0, 1] },
    y: { label: "misses: share of users with the other label whom the test gives the first, at least", range: [0, 1] },
    lines: [{ label: "this observer", place: 0, points }, { label: "nothing learned", place: 13, points: chance }],
  });
  const missed = (share) => Math.floor(1000 * found.type_two[Math.round(share * (points.length - 1))] + 1e-6) / 10;
  show("curve-words", `A test with 5% false alarms misses at least ${missed(0.05)}% of the labels that it looks for; a test that learned nothing misses 95%. `
    + `With 50% false alarms it misses at least ${missed(0.5)}%; a test that learned nothing misses 50%.`);
}

const PATIENCE_MS = 400, TYPING_MS = 300;
let begun = 0, behind = false, curveOf = "";

// The newest question is asked at once; while an answer is on its way, it waits for a moment.
async function ask() {
  clearTimeout(waiting);
  const age = performance.now() - begun;
  behind = begun > 0 && age < PATIENCE_MS;
  if (behind) {
    waiting = setTimeout(ask, PATIENCE_MS - age + 1);
    return;
  }
  const query = fields(), mine = (begun = performance.now());
  history.replaceState(null, "", `#${query}`);
  clearTimeout(drawing);
  if (String(query) !== curveOf) byId("curve").classList.add("busy"), show("curve-words", ""), show("gain", "");
  drawing = setTimeout(() => curved.of(query, (found) => { drawn(found); curveOf = String(query); }), 600);
  await told.of(query, (found, message) => answered(found, message, query));
  if (mine !== begun) return;
  begun = 0;
  if (behind) ask();
}

function soon(wait = 0) {
  arrange();
  outdated();
  clearTimeout(typing);
  if (wait) typing = setTimeout(ask, wait); else ask();
}

function restored() {
  const kept = new URLSearchParams(location.hash.slice(1));
  for (const [name, text] of kept) {
    const control = form.elements[name];
    if (name === "fresh") control.checked = text === "1";
    else if (control) control.value = text;
  }
  if (kept.has("epsilon") && !kept.has("delta")) form.elements.given.value = "epsilon";
}

form.addEventListener("input", (event) => {
  if (event.target.type === "range") slid(event.target);
  else if (event.target.name in SLIDERS) place(event.target.name);
  soon(event.target.matches("input:not([type=range], [type=radio], [type=checkbox])") ? TYPING_MS : 0);
});
form.addEventListener("submit", (event) => event.preventDefault());
form.addEventListener("keydown", stepped);
byId("needed").addEventListener("submit", (event) => {
  event.preventDefault();
  const query = fields();
  query.set("delta", byId("delta").value);
  query.set("epsilon", byId("target").value);
  const asked = setting();
  sought.of(query, (found, message) => {
    byId("needed-answer").hidden = !found;
    show("needed-error", plain(message));
    if (!found) return;
    neededFor = asked;
    show("needed-asked", found.asked);
    byId("needed-command").replaceChildren(...unbroken(found.command));
    show("needed-alpha", String(found.flip_prob));
    lines("needed-lines", found.lines);
    show("needed-note", found.note);
  });
});
byId("use").addEventListener("click", () => {
  byId("flip_prob").value = byId("needed-alpha").textContent;
  place("flip_prob");
  soon();
  byId("flip_prob").focus();
});
byId("target").addEventListener("input", outdated);
byId("copy-needed").addEventListener("click", () => copy(byId("needed-command").textContent, "needed-copied", "The command is"));
byId("copy-command").addEventListener("click", () => copy(latest.command, "copied", "The command is"));
byId("copy-scenario").addEventListener("click", () => copy(latest.scenario, "copied", "A scenario of one such cluster is"));
restored();
for (const name of Object.keys(SLIDERS)) place(name);
arrange();
ask();
