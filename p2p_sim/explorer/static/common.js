// What all pages share: questions to the explorer, texts, copying.
import { element, figure } from "./chart.js";
export { element, figure };
export const prefix = document.body.dataset.prefix;
export const byId = (id) => document.getElementById(id);

export function show(id, text) {
  const node = byId(id);
  if (node.textContent !== text) node.textContent = text;
}

// Pairs as rows of a table with headings at the left.
export function lines(id, pairs) {
  byId(id).replaceChildren(...pairs.map(([name, text]) => {
    const row = element("tr");
    row.append(element("th", { scope: "row" }, name), element("td", {}, text));
    return row;
  }));
}

// What the explorer answers, or an error in words: it may have ended, or have been restarted with a new address.
export async function ask(path, query, signal, options = {}) {
  const answer = await fetch(`${prefix}/api/${path}?${query}`, { signal, ...options }).catch((error) => {
    if (error.name === "AbortError") throw error;
    throw new Error("The explorer does not answer. If it was restarted: open its new address, which its terminal shows.");
  });
  if (answer.status === 403) throw Object.assign(new Error("The explorer was restarted: open its new address."), { status: 403 });
  const content = await answer.json().catch((error) => {
    if (error.name === "AbortError") throw error;
    throw new Error(`The explorer's answer cannot be read (status ${answer.status}). Ask again in a moment.`);
  });
  if (!answer.ok) throw Object.assign(new Error(content.error ?? "the explorer failed"), { status: answer.status });
  return content;
}

// Asks one kind of question; only the newest answer counts. `said` and `failed` are where work and errors are shown.
export class Asking {
  constructor(path, said, failed) {
    Object.assign(this, { path, said, failed, controller: null });
  }

  async of(query, use) {
    this.controller?.abort();
    const controller = (this.controller = new AbortController());
    const sign = setTimeout(() => show(this.said, "Working …"), 250);
    try {
      const found = await this.patiently(query, controller.signal);
      if (controller !== this.controller) return;
      show(this.failed, "");
      use(found);
    } catch (error) {
      if (controller !== this.controller || error.name === "AbortError") return;
      show(this.failed, error.message);
      use(null, error.message);
    } finally {
      clearTimeout(sign);
      if (controller === this.controller) show(this.said, "");
    }
  }

  // Another window may have asked in between: ask again.
  async patiently(query, signal) {
    for (let tries = 0; ; tries++) {
      try {
        return await ask(this.path, query, signal);
      } catch (error) {
        if (error.status !== 409 || tries > 20) throw error;
        await new Promise((wake) => setTimeout(wake, 300));
        if (signal.aborted) throw error;
      }
    }
  }
}

export async function copy(text, said, what) {
  try {
    await navigator.clipboard.writeText(text);
    show(said, `${what} copied.`);
  } catch {
    show(said, "The browser did not allow copying; select the text instead.");
  }
  setTimeout(() => show(said, ""), 4000);
}

// What is asked for again and again: at once, and then after each answer as long as `use` says, in milliseconds.
export function repeatedly(use) {
  let timer = 0;
  const go = async () => {
    clearTimeout(timer);
    const wait = await use();
    clearTimeout(timer);
    timer = setTimeout(go, wait);
  };
  go();
  return go;
}
