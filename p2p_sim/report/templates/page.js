// Tables sort by a click on a heading; without this script they are read in the order of the axes.
for (const table of document.querySelectorAll("table.sortable")) {
  const headings = [...table.tHead.rows[0].cells];
  const body = table.tBodies[0];
  const sort = (column, ascending) => {
    const numeric = headings[column].classList.contains("number");
    const keyed = [...body.rows].map((row) => {
      const text = row.cells[column].dataset.v;
      return { row, empty: text === "", key: numeric ? Number(text) : text };
    });
    const compare = (a, b) => (numeric ? (a < b ? -1 : a > b ? 1 : 0) : a.localeCompare(b, "en", { numeric: true }));
    keyed.sort((a, b) => (a.empty || b.empty ? a.empty - b.empty : (ascending ? 1 : -1) * compare(a.key, b.key)));
    body.append(...keyed.map((entry) => entry.row));
    headings.forEach((heading, index) =>
      index === column ? heading.setAttribute("aria-sort", ascending ? "ascending" : "descending") : heading.removeAttribute("aria-sort"));
    table.dataset.sorted = column + (ascending ? " ascending" : " descending");
  };
  if (body.rows.length > 1) {
    headings.forEach((heading, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...heading.childNodes);
      button.addEventListener("click", () => sort(column, heading.getAttribute("aria-sort") !== "ascending"));
      heading.append(button);
    });
  }
}
// Tables of more than 50 lines are folded, except in print.
const MOST_LINES = 50;
for (const table of document.querySelectorAll("main table")) {
  const size = table.tBodies[0].rows.length;
  if (size <= MOST_LINES) continue;
  const button = document.createElement("button");
  button.type = "button";
  button.className = "unfold";
  const fold = (folded) => {
    table.classList.toggle("folded", folded);
    button.setAttribute("aria-expanded", String(!folded));
    button.textContent = folded ? `Show all ${size} lines` : `Show the first ${MOST_LINES} lines`;
  };
  button.addEventListener("click", () => fold(!table.classList.contains("folded")));
  fold(true);
  table.closest(".scroll").after(button);
}
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && document.querySelector("figure:target")) location.hash = "#figures";
});
// The values of a figure, by pointer and by keys; without this script the picture stands alone.
class FigureChart extends Chart {
  constructor(box) {
    const data = JSON.parse(box.dataset.chart), figure = box.closest("figure"), which = figure.id.replace("figure-", "");
    const plot = element("div"), values = element("p", { class: "values" }), body = element("div", { class: "chart-body" }, plot, values, element("p", { class: "note" }, data.note));
    super(plot, `Figure ${which}, points: arrow keys go from point to point, plus and minus zoom, 0 shows all`, () => this.say(), "img");
    const button = (text, click) => {
      const made = element("button", { type: "button" }, text);
      made.addEventListener("click", click);
      return made;
    };
    const zooms = [button("Zoom in", () => this.zoom(0.5)), button("Zoom out", () => this.zoom(2)), button("Show all", () => this.show(null))];
    const swap = button("Picture", () => picture(swap.getAttribute("aria-pressed") !== "true"));
    const picture = (on) => {
      swap.setAttribute("aria-pressed", String(on));
      figure.classList.toggle("live", !on);
      for (const part of [...zooms, body]) part.hidden = on;
    };
    box.append(element("div", { class: "tools", role: "group", "aria-label": `Figure ${which}: tools` }, ...zooms, swap), body);
    box.hidden = false;
    picture(false);
    Object.assign(this, { values, drag: null });
    for (const kind of ["pointermove", "pointerdown"]) plot.addEventListener(kind, (event) => this.pointed(event));
    for (const kind of ["pointerup", "pointercancel"]) plot.addEventListener(kind, (event) => this.dropped(event.type === "pointerup"));
    const lines = data.groups.map(({ label, look, points }, group) => ({ label, place: look,
      points: points.map(({ panel, at: [x, y, low, high], said }, place) => ({ panel, x, y, low, high, key: `${group}.${place}`, said: said.join("; ") })) }));
    const [x, y] = [data.x, data.y].map((label, axis) => ({ label, log: data.logs[axis] }));
    this.draw({ ...data, x: { ...x, names: data.places }, y, lines, marked: true });
  }

  draw(spec) {
    super.draw(spec);
    if (!this.rows.flat().some((point) => point.key === this.chosen)) this.chosen = null;
    this.say();
  }

  // The values of the chosen point, and guides from it to the axes.
  say() {
    const point = this.rows.flat().find(({ key }) => key === this.chosen), mark = this.mark(this.chosen), { box } = this.drawn;
    this.values.textContent = point ? `${point.said}.` : "Point at a marker, or reach the chart with Tab and use the arrow keys: its values stand here.";
    this.container.querySelector(".guide")?.remove();
    if (mark) mark.root.querySelector(".mark").before(svg("path", { class: "guide", d: `M${box.left} ${mark.point.top}H${mark.point.left}V${box.bottom}` }));
  }

  show(view) {
    this.view = view;
    this.draw(this.spec);
  }

  // A part of the axes around a point.
  around(point, factor) {
    const part = (axis, value) => [-0.5, 0.5].map((side) => axis.f(value) + side * factor * (axis.ends[1] - axis.ends[0]));
    return { x: part(this.drawn.x, point.x), y: part(this.drawn.y, point.y) };
  }

  zoom(factor) {
    const { x, y, box } = this.drawn, middle = [(box.left + box.right) / 2, (box.top + box.bottom) / 2];
    const near = this.mark(this.chosen) ?? this.nearest(this.container.querySelector(".panels > svg"), middle, Infinity);
    if (!near) return this.show(null);
    const view = this.around(near.point, factor), covers = ([begin, end], { whole }) => end - begin >= whole[1] - whole[0];
    this.show(covers(view.x, x) && covers(view.y, y) ? null : view);
  }

  reveal(point) {
    if (!this.mark(point.key)) this.show(this.around(point, 1));
    super.reveal(point);
  }

  move(event) {
    const zoom = { "+": () => this.zoom(0.5), "=": () => this.zoom(0.5), "-": () => this.zoom(2), 0: () => this.show(null) }[event.key];
    if (!zoom || event.ctrlKey || event.metaKey || event.altKey || !event.target.closest(".panels")) return super.move(event);
    event.preventDefault();
    zoom();
  }

  pointed(event) {
    const root = event.target.closest(".panels > svg");
    if (!root) return;
    const spot = this.spot(event, root), near = this.nearest(root, spot, 30);
    if (this.drag) {
      const [x, y] = [0, 1].map((axis) => [this.drag.from[axis], spot[axis]].sort((a, b) => a - b));
      this.drag.rect?.remove();
      Object.assign(this.drag, { x, y, rect: svg("rect", { class: "drag", x: x[0], y: y[0], width: x[1] - x[0], height: y[1] - y[0] }) });
      root.append(this.drag.rect);
      return;
    }
    if (near && near.point.key !== this.chosen) this.choose(near.point.key);
    if (event.type !== "pointerdown" || event.pointerType === "touch" || event.button !== 0) return;
    event.preventDefault();
    this.drag = { from: spot };
    root.setPointerCapture(event.pointerId);
  }

  dropped(whole) {
    const { x, y, rect } = this.drag ?? {}, { box } = this.drawn;
    this.drag = null;
    rect?.remove();
    if (!whole || !rect || x[1] - x[0] <= 8 || y[1] - y[0] <= 8) return;
    const value = ([begin, end], from, to) => (pixel) => begin + ((pixel - from) / (to - from)) * (end - begin);
    this.show({ x: x.map(value(this.drawn.x.ends, box.left, box.right)), y: y.toReversed().map(value(this.drawn.y.ends, box.bottom, box.top)) });
  }
}
document.querySelectorAll("div.chart").forEach((box) => new FigureChart(box));
