// The exchange, played: a scenario is run, and its film is shown in a frame of its own.
import { Asking, ask, byId, element, prefix, show } from "./common.js";

const form = byId("choice"), asking = new Asking("film", "status", "error");
const { scenarios } = await ask("scenarios", "");
const shows = Object.fromEntries(scenarios.map((one) => [one.name, one.shows]));

function told() {
  show("shows", shows[byId("scenario").value] ?? "");
}

byId("scenario").append(...scenarios.map((one) => element("option", { value: one.name }, one.name)));
if ("quickstart" in shows) byId("scenario").value = "quickstart";
for (const [name, text] of new URLSearchParams(location.hash.slice(1))) if (form.elements[name]) form.elements[name].value = text;
told();
byId("scenario").addEventListener("change", told);
form.addEventListener("submit", (event) => {
  event.preventDefault();
  const query = new URLSearchParams([...new FormData(form)].filter(([, text]) => text.trim() !== ""));
  history.replaceState(null, "", `#${query}`);
  asking.of(query, (found) => {
    if (!found) return byId("film").replaceChildren();
    const frame = element("iframe", { src: `${prefix}/film/${found.film}`, title: `Film of the exchange: ${found.name}`, sandbox: "allow-scripts" });
    byId("film").replaceChildren(frame);
    frame.scrollIntoView({ block: "nearest" });
  });
});
