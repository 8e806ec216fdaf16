// The exchange, played: a scenario is run, and its film is shown in a frame of its own.
import { Asking, ask, byId, element, prefix, show } from "./common.js";

const form = byId("choice"), asking = new Asking("film", "status", "error");
const { scenarios } = await ask("scenarios", "");
const known = Object.fromEntries(scenarios.map((one) => [one.name, one]));

function told() {
  const { shows = "", text = "" } = known[byId("scenario").value] ?? {};
  show("shows", shows);
  show("file", text);
}

// Up and Down change a number by its step.
function stepped(event) {
  const { step, low, high } = event.target.dataset, up = { ArrowUp: 1, ArrowDown: -1 }[event.key];
  if (!step || !up || event.altKey || event.ctrlKey || event.metaKey) return;
  const text = event.target.value.trim(), value = text === "" ? Number(low) - up * step : Number(text);
  if (Number.isNaN(value)) return;
  event.preventDefault();
  const next = Math.min(Math.max(value + up * step, Number(low)), Number(high));
  event.target.value = String(Number(next.toPrecision(12)));
}

byId("scenario").append(...scenarios.map((one) => element("option", { value: one.name }, one.name)));
if ("quickstart" in known) byId("scenario").value = "quickstart";
for (const [name, text] of new URLSearchParams(location.hash.slice(1))) if (form.elements[name]) form.elements[name].value = text;
told();
byId("scenario").addEventListener("change", told);
form.addEventListener("keydown", stepped);
function play() {
  const query = new URLSearchParams([...new FormData(form)].filter(([, text]) => text.trim() !== ""));
  history.replaceState(null, "", `#${query}`);
  asking.of(query, (found) => {
    if (!found) return byId("film").replaceChildren();
    const frame = element("iframe", { src: `${prefix}/film/${found.film}`, title: `Film of the exchange: ${found.name}`, sandbox: "allow-scripts" });
    byId("film").replaceChildren(frame);
    frame.scrollIntoView({ block: "nearest" });
  });
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  play();
});
if (location.hash.length > 1) play();  // the film that was there before the page was loaded again
