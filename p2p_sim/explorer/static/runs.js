// The table of runs: it sorts, searches, filters, and draws the lines in sight alone, so that thousands stay smooth.
import { ask, byId, element, repeatedly, show } from "./common.js";

const ROW = 32, SPARE = 8;  // pixels of a line; lines drawn out of sight
const FIXED = [
  { key: "name", name: "Run", about: "name of the results directory" },
  { key: "state", name: "status", about: "running, finished, incomplete, damaged; or published" },
];
const PROGRESS = [
  { key: "done", name: "replicates", about: "replicates that are on disk, of those that were asked for" },
];
const STATES = ["running", "finished", "incomplete", "damaged", "published"];
const COMPARE = { "<": (a, b) => a < b, ">": (a, b) => a > b, "<=": (a, b) => a <= b, ">=": (a, b) => a >= b, "=": (a, b) => String(a) === String(b) };

const stateOf = (run) => (run.published && run.state === "finished" ? "published" : run.state);

// What a cell shows, and what it is sorted and compared by; null where a run has no such figure.
function cell(run, key) {
  if (key === "name") return [run.name, run.name];
  if (key === "state") return [stateOf(run), stateOf(run)];
  if (key === "done") return [`${run.done.toLocaleString("en")} of ${run.total.toLocaleString("en")}${run.failed ? `, ${run.failed} failed` : ""}`, run.done];
  return run.cells[key] ?? null;
}

export class Runs {
  // changed: is called when other runs are chosen, or a chosen one has new rows.
  constructor(changed) {
    Object.assign(this, { changed, all: [], listed: [], columns: [], version: "", chosen: new Set(), shown: null, sort: ["", true], at: [-1, 0] });
    this.box = byId("runs");
    this.box.addEventListener("scroll", () => this.draw(), { passive: true });
    this.box.addEventListener("keydown", (event) => this.move(event));
    new ResizeObserver(() => this.draw()).observe(this.box);
    byId("state").append(element("option", { value: "" }, "all"), ...STATES.map((name) => element("option", { value: name }, name)));
    for (const id of ["find", "state"]) byId(id).addEventListener("input", () => this.list());
    byId("all").addEventListener("click", () => this.choose(this.listed.filter((run) => run.done).map((run) => run.key)));
    byId("clear").addEventListener("click", () => this.choose([]));
  }

  // Whatever was kept in the address.
  restore(kept) {
    this.chosen = new Set(kept.getAll("results"));
    for (const id of ["find", "state"]) byId(id).value = kept.get(id) ?? "";
    if (kept.has("columns")) this.shown = kept.get("columns").split(",").filter(Boolean);
    if (kept.has("sort")) this.sort = [kept.get("sort").replace(/^-/, ""), !kept.get("sort").startsWith("-")];
  }

  remember(query) {
    for (const id of ["find", "state"]) if (byId(id).value.trim()) query.set(id, byId(id).value.trim());
    if (this.shown) query.set("columns", this.shown.join());
    if (this.sort[0]) query.set("sort", (this.sort[1] ? "" : "-") + this.sort[0]);
  }

  follow() {
    return new Promise((there) => repeatedly(async () => {
      try {
        const found = await ask("runs", new URLSearchParams({ since: this.version }));
        show("runs-error", "");
        if (found.runs) this.use(found);
        there();
      } catch (error) {
        show("runs-error", error instanceof TypeError ? "The explorer does not answer; is it still running in the terminal?" : error.message);
      }
      return this.all.some((run) => run.state === "running") ? 2000 : 6000;
    }));
  }

  use({ version, runs, columns, figures, left_out }) {
    const before = new Map(this.all.map((run) => [run.key, run.done])), first = !this.version;
    Object.assign(this, { version, all: runs, columns: [...FIXED, ...columns.slice(0, figures), ...PROGRESS, ...columns.slice(figures)] });
    this.shown ??= ["state", "accuracy", "excess_risk", "epsilon_upper", "done"];
    byId("none").hidden = runs.length > 0;
    byId("left-out").hidden = Object.keys(left_out).length === 0;
    byId("left-out").replaceChildren(byId("left-out").firstElementChild, ...Object.entries(left_out).map(([why, names]) => element("p", { class: "help" }, `${why}: ${names.join(", ")}.`)));
    if (first && !this.all.some((run) => this.chosen.has(run.key))) {
      const usual = runs.find((run) => !run.published && run.done) ?? runs.find((run) => run.name === "comparison/adult") ?? runs.find((run) => run.done);
      this.chosen = new Set(usual ? [usual.key] : []);
    }
    this.offer();
    this.list();
    if (!first && runs.some((run) => this.chosen.has(run.key) && before.get(run.key) !== run.done)) this.changed();
  }

  // The columns that may be shown.
  offer() {
    const known = this.columns.map((column) => column.key).join();
    if (known === this.offered) return;
    this.offered = known;
    byId("offered").replaceChildren(...this.columns.slice(1).map(({ key, name, about }) => {
      const box = element("input", { type: "checkbox", value: key });
      box.checked = this.shown.includes(key);
      box.addEventListener("change", () => {
        this.shown = this.columns.map((column) => column.key).filter((other) => (other === key ? box.checked : this.shown.includes(other)));
        this.list();
      });
      return element("label", { class: "choice", title: `${about} (${key})` }, box, name);
    }));
  }

  // Tests of a text: words, and columns with a sign and a value.
  tests() {
    const wrong = [], tests = byId("find").value.trim().split(/\s+/).filter(Boolean).map((part) => {
      const [, left, sign, right] = part.match(/^([^<>=]+)(<=|>=|<|>|=)(.+)$/) ?? [];
      if (!left) return (run) => this.text(run).includes(part.toLowerCase());
      const column = this.columns.find(({ key, name }) => [key, name, key.split(".").at(-1)].some((text) => text.toLowerCase().replaceAll(" ", "_") === left.toLowerCase()));
      if (!column) return wrong.push(left), () => true;
      return (run) => {
        const [text, by] = cell(run, column.key) ?? [];
        return by !== undefined && COMPARE[sign](sign === "=" && typeof by !== "number" ? text : by, typeof by === "number" ? Number(right) : right);
      };
    });
    show("runs-error", wrong.length ? `There is no column ${wrong.join(", ")}.` : "");
    return tests;
  }

  text(run) {
    return (run.words ??= [run.name, stateOf(run), run.why, ...Object.values(run.cells).map(([text]) => text)].join(" ").toLowerCase());
  }

  // Which runs are listed, in which order.
  list() {
    const tests = this.tests(), state = byId("state").value, [key, up] = this.sort;
    this.listed = this.all.filter((run) => (!state || stateOf(run) === state) && tests.every((test) => test(run)));
    if (key) {
      const by = (run) => cell(run, key)?.[1] ?? null, order = (a, b) => (typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), "en", { numeric: true }));
      const keyed = this.listed.map((run) => [by(run), run]);
      keyed.sort(([a], [b]) => (a === null || b === null ? (a === null) - (b === null) : (up ? 1 : -1) * order(a, b)));
      this.listed = keyed.map(([, run]) => run);
    }
    this.head();
    this.draw();
    const chosen = this.all.filter((run) => this.chosen.has(run.key)).length;
    show("counted", `${this.listed.length.toLocaleString("en")} of ${this.all.length.toLocaleString("en")} listed, ${chosen.toLocaleString("en")} chosen`);
    this.onremember?.();
  }

  get visible() {
    return this.columns.filter(({ key }) => key === "name" || this.shown.includes(key));
  }

  head() {
    const focused = byId("heads").contains(document.activeElement), [key, up] = this.sort;
    byId("heads").replaceChildren(...this.visible.map((column, place) => {
      const button = element("button", { type: "button", tabindex: "-1" }, column.name + (column.key === key ? (up ? " ↑" : " ↓") : ""));
      button.addEventListener("click", () => {
        this.at = [-1, place];
        this.sort = [column.key, column.key === this.sort[0] ? !this.sort[1] : true];
        this.box.scrollTop = 0;
        this.list();
      });
      const head = element("th", { scope: "col", title: `${column.about} (${column.key})` }, button);
      if (column.key === key) head.setAttribute("aria-sort", up ? "ascending" : "descending");
      return head;
    }));
    this.roving(focused);
  }

  // The lines in sight, between two gaps as high as those that are not.
  draw() {
    const focused = byId("lines").contains(document.activeElement), total = this.listed.length;
    const first = Math.max(0, Math.floor(this.box.scrollTop / ROW) - SPARE), last = Math.min(total, first + Math.ceil(this.box.clientHeight / ROW) + 2 * SPARE);
    const gap = (lines) => {
      const cell = element("td");
      cell.style.height = `${lines * ROW}px`;
      return lines > 0 ? [element("tr", { class: "gap", "aria-hidden": "true" }, cell)] : [];
    };
    const table = byId("lines").parentElement;
    table.setAttribute("aria-rowcount", total + 1);
    byId("lines").replaceChildren(...gap(first), ...this.listed.slice(first, last).map((run, place) => this.line(run, first + place)), ...gap(total - last));
    this.roving(focused);
  }

  line(run, place) {
    const box = element("input", { type: "checkbox", name: "results", value: run.key, tabindex: "-1" });
    box.checked = this.chosen.has(run.key);
    if (!run.done) {  // it takes the focus, and says why it has nothing to show
      box.setAttribute("aria-disabled", "true");
      box.addEventListener("click", (event) => event.preventDefault());
    }
    box.addEventListener("change", () => {
      this.at = [place, 0];
      if (box.checked) this.chosen.add(run.key);
      else this.chosen.delete(run.key);
      this.choose(this.chosen);
    });
    const cells = this.visible.slice(1).map(({ key }) => {
      const text = cell(run, key)?.[0] ?? "";
      return element("td", { title: key === "state" && run.why ? run.why : text }, key === "state" && run.why ? run.why : text);
    });
    return element("tr", { "aria-rowindex": place + 2, ...(box.checked ? { class: "on" } : {}) }, element("th", { scope: "row", title: run.name }, element("label", {}, box, run.name)), ...cells);
  }

  choose(keys) {
    this.chosen = new Set(keys);
    this.list();
    this.changed();
  }

  // One stop of the Tab key: the heading or the line that was reached last.
  roving(focus) {
    const [row, column] = this.at, heads = [...byId("heads").querySelectorAll("button")];
    const box = row < 0 ? heads[Math.min(column, heads.length - 1)] : byId("lines").querySelector(`tr[aria-rowindex="${row + 2}"] input`);
    for (const other of this.box.querySelectorAll("button, input")) other.setAttribute("tabindex", other === (box ?? heads[0]) ? "0" : "-1");
    if (focus) (box ?? heads[0])?.focus({ preventScroll: true });
  }

  move(event) {
    let [row, column] = this.at;
    const page = Math.max(1, Math.floor(this.box.clientHeight / ROW) - 2), steps = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page };
    if (event.key in steps) row = Math.min(Math.max(row + steps[event.key], event.key === "ArrowUp" ? -1 : 0), this.listed.length - 1);
    else if (event.key === "Home" || event.key === "End") row = event.key === "Home" ? 0 : this.listed.length - 1;
    else if (row < 0 && (event.key === "ArrowLeft" || event.key === "ArrowRight")) column = Math.min(Math.max(column + (event.key === "ArrowLeft" ? -1 : 1), 0), this.visible.length - 1);
    else return;
    event.preventDefault();
    this.at = [row, column];
    if (row >= 0) {
      const top = row * ROW, head = byId("heads").offsetHeight, { scrollTop, clientHeight } = this.box;
      if (top < scrollTop) this.box.scrollTop = top;
      else if (top + ROW + head > scrollTop + clientHeight) this.box.scrollTop = top + ROW + head - clientHeight;
      this.draw();
    }
    this.roving(true);
    if (row < 0) document.activeElement.scrollIntoView({ block: "nearest", inline: "nearest" });
  }
}
