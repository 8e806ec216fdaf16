// A chart as SVG, as wide as its container: panels of lines with bands or bars, or colours over two axes; marks that take
// the focus; a legend that hides lines.
import { element, figure } from "./common.js";

const WIDEST = 960, LETTER = 7.3, LINE = 15;  // pixels: of a chart, of a letter and of a line of text
const TARGET = 12;  // half of what a finger needs
const SHAPES = [
  "M-5 0a5 5 0 1 0 10 0a5 5 0 1 0 -10 0Z", "M-4.6-4.6H4.6V4.6H-4.6Z", "M0-5.8L5.6 4.6H-5.6Z", "M0-6.2L6.2 0L0 6.2L-6.2 0Z",
  "M0 5.8L5.6-4.6H-5.6Z", "M-2-5.8H2V-2H5.8V2H2V5.8H-2V2H-5.8V-2H-2Z", "M-5.6-3.4L-3.4-5.6L0-2.2L3.4-5.6L5.6-3.4L2.2 0L5.6 3.4L3.4 5.6L0 2.2L-3.4 5.6L-5.6 3.4L-2.2 0Z",
];

function svg(name, attributes = {}, ...children) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...children);
  return node;
}

function linearTicks(low, high) {
  const rough = (high - low) / 6, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((n) => n * power).find((n) => n >= rough);
  const found = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + step * 1e-9; k++) found.push(Number((k * step).toPrecision(12)));
  return found;
}

function logTicks(low, high) {
  const decades = Math.log10(high / low), found = [];
  const steps = decades > 3 ? [1] : decades > 2 ? [1, 2, 5] : decades > 1.2 ? [1, 2, 3, 4, 6, 8] : [1, 1.5, 2, 3, 4, 5, 6, 8];
  const every = Math.max(1, Math.ceil(decades / 8));
  for (let e = Math.floor(Math.log10(low)); e <= Math.ceil(Math.log10(high)); e++)
    if (e % every === 0) for (const step of steps) found.push(Number((step * 10 ** e).toPrecision(3)));
  return found.filter((tick) => tick >= low * 0.999 && tick <= high * 1.001);
}

// A scale from values to pixels, with its ticks; of numbers no more than there is room for.
function scale(values, axis, from, to) {
  if (axis.names) {
    const count = axis.names.length;
    const at = (value) => from + ((value + 0.5) / count) * (to - from);
    return { at, ticks: axis.names.map((name, place) => [place, name]) };
  }
  const usable = values.filter((value) => Number.isFinite(value) && (!axis.log || value > 0));
  let low = Math.min(...usable), high = Math.max(...usable);
  if (axis.range) [low, high] = axis.range;
  if (!usable.length) [low, high] = axis.log ? [0.1, 1] : [0, 1];
  if (low === high) [low, high] = axis.log ? [low / 2, high * 2] : [low - Math.abs(low || 1) / 4, high + Math.abs(high || 1) / 4];
  const f = axis.log ? Math.log : (value) => value;
  const margin = axis.range ? 0 : 0.04 * (f(high) - f(low));
  const [begin, end] = [f(low) - margin, f(high) + margin];
  const at = (value) => from + ((f(value) - begin) / (end - begin)) * (to - from);
  const inside = (tick) => f(tick) >= begin - 1e-9 && f(tick) <= end + 1e-9;
  const back = axis.log ? Math.exp : (value) => value;
  const all = (axis.log ? logTicks : linearTicks)(back(begin), back(end)).filter(inside).map((tick) => [tick, figure(tick)]);
  const longest = Math.max(...all.map(([, name]) => name.length), 1), room = to > from ? LETTER * longest + 10 : LINE + 4;
  const every = Math.ceil((all.length * room) / Math.abs(to - from));
  return { at, ticks: all.filter((_, place) => place % every === 0) };
}

function wrapped(text, width) {
  const parts = [""];
  for (const word of text.split(" ")) {
    if (parts.at(-1) && (parts.at(-1) + " " + word).length > width) parts.push("");
    parts.push((parts.pop() + " " + word).trim());
  }
  return parts;
}

function text(content, x, y, width, attributes = {}) {
  const node = svg("text", { x, y, "text-anchor": "middle", ...attributes });
  wrapped(content, width).forEach((part, line) => node.append(svg("tspan", { x, dy: line ? LINE : 0 }, part)));
  return node;
}

const marked = (place) => (Math.floor(place / 7) % 2 ? "hollow" : "fill");
const look = (place) => `p${place % 7} d${Math.floor(place / 7) % 3}`;

// Colours from low to high, told apart by lightness alone; the first and the last are ink and paper of the text on them.
const COLOURS = [[0, 32, 76], [42, 63, 109], [87, 92, 109], [124, 123, 120], [165, 156, 116], [210, 193, 95], [255, 233, 69]];
function colour(share) {
  const at = share * (COLOURS.length - 1), low = Math.min(Math.floor(at), COLOURS.length - 2);
  return `rgb(${COLOURS[low].map((part, place) => Math.round(part + (at - low) * (COLOURS[low + 1][place] - part))).join(" ")})`;
}

// spec: x and y with label, log, names or range; panels, their names; lines with label, place and points {panel, x, y,
// low, high, key, said}, joined by lines unless it is said; reference; or heat with label, log and cells {x, y, value, text, key, said}.
export class Chart {
  constructor(container, label, pick = () => {}) {
    Object.assign(this, { container, label, pick, hidden: new Set(), chosen: null, spec: null, width: 0 });
    container.addEventListener("keydown", (event) => this.move(event));
    new ResizeObserver(() => {
      if (this.spec && this.room() !== this.width) this.draw(this.spec);
    }).observe(container);
  }

  room() {
    return Math.min(WIDEST, Math.max(240, Math.floor(this.container.clientWidth)));
  }

  draw(spec) {
    const focused = this.container.contains(document.activeElement) && document.activeElement.dataset.key;
    this.spec = spec;
    this.width = this.room();
    this.marks = [];
    const lines = spec.lines.filter((line) => !this.hidden.has(line.label)), panels = spec.panels ?? [""];
    const columns = panels.length === 1 ? 1 : Math.max(1, Math.min(panels.length === 4 ? 2 : 3, Math.floor(this.width / 270)));
    const width = Math.floor((this.width - 8 * (columns - 1)) / columns);
    const grid = element("div", { class: "panels" });
    grid.style.gridTemplateColumns = `repeat(${columns}, minmax(0, 1fr))`;
    grid.append(...panels.map((name, panel) => this.panel(lines, name, panel, width, columns > 1)));
    const first = this.marks.flat().find((mark) => mark.dataset.key === this.chosen) ?? this.marks.flat()[0];
    first?.setAttribute("tabindex", "0");
    this.container.replaceChildren(grid, ...(spec.heat ? [this.ramp()] : this.legend()));
    this.quiet = true;  // to draw again is no choice
    if (focused) this.mark(focused)?.focus();
    this.quiet = false;
  }

  mark(key) {
    return this.marks.flat().find((mark) => mark.dataset.key === key);
  }

  panel(lines, name, panel, width, small) {
    const { spec } = this, height = Math.round(Math.min(480, Math.max(small ? 220 : 280, 0.6 * width)));
    const label = name ? `${this.label}, ${name}` : this.label;
    const root = svg("svg", { class: "chart", viewBox: `0 0 ${width} ${height}`, role: spec.marked ? "group" : "img", "aria-label": label });
    if (spec.marked) root.addEventListener("click", (event) => this.clicked(event, root));
    const points = lines.flatMap((line) => line.points);
    const ends = points.flatMap((point) => [point.y, point.low, point.high]).concat(spec.reference ? [spec.reference.y] : []);
    const xs = points.map((point) => point.x), ys = ends.filter((end) => end !== null && end !== undefined);
    const box = this.box(width, height, scale(ys, spec.y, height - 40, 20), Boolean(name));
    const x = scale(xs, spec.x, box.left, box.right), y = scale(ys, spec.y, box.bottom, box.top);
    this.frame(root, x, y, box);
    if (name) root.append(svg("text", { class: "name", x: (box.left + box.right) / 2, y: LINE, "text-anchor": "middle" }, name));
    if (spec.heat) return this.cells(root, x, y, box), root;
    const clip = `clip-${Math.random().toString(36).slice(2)}`, size = { x: box.left, y: box.top, width: box.right - box.left, height: box.bottom - box.top };
    const inside = svg("g", { "clip-path": `url(#${clip})` });
    root.append(svg("clipPath", { id: clip }, svg("rect", size)), inside);
    if (spec.reference) this.reference(inside, y, box);
    const here = lines.map((line) => ({ ...line, points: line.points.filter((point) => (point.panel ?? 0) === panel) })).filter((line) => line.points.length);
    for (const line of here) this.line(inside, line, x, y);
    if (spec.marked) for (const line of here) this.marks.push(this.line_marks(root, line, x, y));
    return root;
  }

  // The room for marks between the texts of the axes; names along x that are too long for their place are turned.
  box(width, height, y, named) {
    const { spec } = this, longest = (names) => Math.max(0, ...names.map((name) => name.length));
    const yNames = y.ticks.map(([, name]) => name), widest = spec.y.names ? Math.min(0.3 * width, LETTER * longest(yNames)) : LETTER * longest(yNames);
    const logged = (axis) => axis.label + (axis.log ? " (log scale)" : "");
    const yText = wrapped(logged(spec.y), (height - 60) / LETTER), left = Math.ceil(widest + 16 + LINE * yText.length), right = width - 14;
    const xText = wrapped(logged(spec.x), (width - 10) / LETTER);
    const slot = (right - left) / (spec.x.names?.length ?? 1);
    const turned = Boolean(spec.x.names) && longest(spec.x.names.flatMap((name) => name.split(" "))) * LETTER > slot;
    const lines = spec.x.names && !turned ? Math.max(...spec.x.names.map((name) => wrapped(name, slot / LETTER).length)) : 1;
    const below = turned ? Math.min(120, 12 + 0.7 * LETTER * longest(spec.x.names)) : 8 + LINE * lines;
    return { left, right, top: named ? 24 : 12, bottom: Math.round(height - below - 8 - LINE * xText.length), width, height, xText, yText, turned, slot, widest };
  }

  frame(root, x, y, box) {
    for (const [tick, name] of y.ticks) {
      root.append(svg("line", { class: "grid", x1: box.left, x2: box.right, y1: y.at(tick), y2: y.at(tick) }));
      const most = Math.floor(box.widest / LETTER);
      root.append(svg("text", { x: box.left - 8, y: y.at(tick) + 4, "text-anchor": "end" }, name.length > most ? `${name.slice(0, most - 1)}…` : name));
    }
    const every = box.turned ? Math.ceil((LINE + 1) / box.slot) : 1;
    for (const [tick, name] of x.ticks.filter((_, place) => place % every === 0)) {
      const at = x.at(tick), short = name.length > 22 ? `${name.slice(0, 21)}…` : name;
      root.append(svg("line", { class: "grid", x1: at, x2: at, y1: box.top, y2: box.bottom }));
      if (box.turned) root.append(svg("text", { x: at + 4, y: box.bottom + 14, "text-anchor": "end", transform: `rotate(-40 ${at + 4} ${box.bottom + 14})` }, short));
      else root.append(text(name, at, box.bottom + 18, this.spec.x.names ? box.slot / LETTER : 20));
    }
    root.append(svg("line", { class: "axis", x1: box.left, x2: box.right, y1: box.bottom, y2: box.bottom }));
    root.append(svg("line", { class: "axis", x1: box.left, x2: box.left, y1: box.top, y2: box.bottom }));
    const middle = (box.top + box.bottom) / 2, across = (box.left + box.right) / 2;
    root.append(text(box.xText.join(" "), Math.max(across, box.width / 2), box.height - 4 - LINE * (box.xText.length - 1), (box.width - 10) / LETTER));
    root.append(text(box.yText.join(" "), LINE - 2, middle, (box.height - 60) / LETTER, { transform: `rotate(-90 ${LINE - 2} ${middle})` }));
  }

  // A cell for each pair of values; it holds its figure where there is room.
  cells(root, x, y, box) {
    const { heat, x: across, y: up } = this.spec, f = heat.log ? Math.log : (value) => value;
    const values = heat.cells.map((cell) => f(cell.value)), low = Math.min(...values), high = Math.max(...values);
    const width = (box.right - box.left) / across.names.length, height = (box.bottom - box.top) / up.names.length;
    for (const row of up.names.keys()) {
      const marks = heat.cells.filter((cell) => cell.y === row).sort((a, b) => a.x - b.x).map((cell) => {
        const share = high > low ? (f(cell.value) - low) / (high - low) : 0.5, [left, top] = [x.at(cell.x) - width / 2, y.at(cell.y) - height / 2];
        const mark = this.target(cell, cell.said, `cell ${share < 0.46 ? "dark" : "light"}`, svg("rect", { x: left + 0.5, y: top + 0.5, width: width - 1, height: height - 1, fill: colour(share) }));
        if (cell.text.length * LETTER + 4 < width && height > LINE) mark.append(svg("text", { x: x.at(cell.x), y: y.at(cell.y) + 4, "text-anchor": "middle", "aria-hidden": "true" }, cell.text));
        root.append(mark);
        return mark;
      });
      if (marks.length) this.marks.push(marks);
    }
  }

  ramp() {
    const { heat } = this.spec, sorted = heat.cells.toSorted((a, b) => a.value - b.value);
    const bar = svg("svg", { class: "ramp", viewBox: "0 0 160 14", "aria-hidden": "true" }, ...Array.from({ length: 40 }, (_, k) => svg("rect", { x: 4 * k, y: 0, width: 4.2, height: 14, fill: colour(k / 39) })));
    return element("p", { class: "legend" }, `${heat.label}${heat.log ? " (log scale)" : ""}: ${sorted[0]?.text ?? ""} `, bar, ` ${sorted.at(-1)?.text ?? ""}`);
  }

  reference(root, y, box) {
    const { reference } = this.spec;
    if (reference.ends) {
      const [low, high] = reference.ends.map((end) => y.at(end));
      root.append(svg("rect", { class: "reference-band", x: box.left, width: box.right - box.left, y: high, height: Math.max(0, low - high) }));
    }
    root.append(svg("line", { class: "reference", x1: box.left, x2: box.right, y1: y.at(reference.y), y2: y.at(reference.y) }));
  }

  line(root, line, x, y) {
    const at = (key) => (point) => `${x.at(point.x).toFixed(1)},${y.at(point[key]).toFixed(1)}`;
    const named = Boolean(this.spec.x.names);
    const known = line.points.filter((point) => point.low !== null && point.low !== undefined && (!this.spec.y.log || point.low > 0));
    const joined = !named && this.spec.joined !== false, band = joined && known.length > 2;
    if (band) root.append(svg("polygon", { class: `band fill ${look(line.place)}`, points: [...known.map(at("low")), ...known.toReversed().map(at("high"))].join(" ") }));
    else for (const point of known) root.append(svg("path", { class: `bar stroke ${look(line.place)}`, d: `M${at("low")(point)}L${at("high")(point)}` }));
    if (joined) root.append(svg("polyline", { class: `line stroke ${look(line.place)}`, points: line.points.map(at("y")).join(" ") }));
  }

  line_marks(root, line, x, y) {
    return line.points.map((point) => {
      const said = line.label && !point.said.includes(line.label) ? `${line.label}: ${point.said}` : point.said;
      const mark = this.target(point, said, "", svg("circle", { class: "reach", r: TARGET }),
        svg("path", { class: `dot ${marked(line.place)} ${look(line.place)}`, d: SHAPES[line.place % 7] }));
      mark.setAttribute("transform", `translate(${x.at(point.x)} ${y.at(point.y)})`);
      root.append(mark);
      return mark;
    });
  }

  // What takes the focus and shows its values; a click on it is a choice.
  target(point, said, kind, ...parts) {
    const mark = svg("g", { class: `mark ${kind}`, tabindex: "-1", role: "button", "aria-label": said, "data-key": point.key }, svg("title", {}, said), ...parts);
    mark.classList.toggle("chosen", point.key === this.chosen);
    mark.addEventListener("focus", () => this.choose(point.key));
    return mark;
  }

  // A click is for the nearest mark that a finger may have meant.
  clicked(event, root) {
    const far = (mark) => {
      const { left, right, top, bottom } = mark.getBoundingClientRect();
      return Math.hypot((left + right) / 2 - event.clientX, (top + bottom) / 2 - event.clientY);
    };
    const marks = [...root.querySelectorAll(".mark:not(.cell)")].sort((a, b) => far(a) - far(b));
    const mark = event.target.closest(".cell") ?? (marks.length && far(marks[0]) <= 2 * TARGET ? marks[0] : null);
    if (mark === document.activeElement) this.choose(mark.dataset.key);
    else mark?.focus();
  }

  choose(key) {
    this.chosen = key;
    for (const mark of this.marks.flat()) {
      mark.classList.toggle("chosen", mark.dataset.key === key);
      mark.setAttribute("tabindex", mark.dataset.key === key ? "0" : "-1");
    }
    if (!this.quiet) this.pick(key);
  }

  // Left and right along a line, up and down between lines.
  move(event) {
    const along = { ArrowLeft: -1, ArrowRight: 1 }[event.key], across = { ArrowUp: -1, ArrowDown: 1 }[event.key];
    const line = this.marks.findIndex((marks) => marks.includes(document.activeElement));
    if (line >= 0 && (event.key === "Enter" || event.key === " ")) {
      event.preventDefault();
      this.choose(document.activeElement.dataset.key);
    }
    if (line < 0 || (!along && !across)) return;
    event.preventDefault();
    const place = this.marks[line].indexOf(document.activeElement);
    const next = across ? this.marks[(line + across + this.marks.length) % this.marks.length] : this.marks[line];
    next[Math.min(Math.max(place + (along ?? 0), 0), next.length - 1)]?.focus();
  }

  legend() {
    const { lines, reference } = this.spec, named = lines.filter((line) => line.label);
    const items = named.map((line) => {
      const box = element("input", { type: "checkbox" });
      box.checked = !this.hidden.has(line.label);
      box.addEventListener("change", () => {
        this.hidden[box.checked ? "delete" : "add"](line.label);
        this.draw(this.spec);
        [...this.container.querySelectorAll(".legend input")].find((other) => other.dataset.label === line.label)?.focus();
      });
      box.dataset.label = line.label;
      const sample = svg("svg", { class: "chart", viewBox: "-15 -7 30 14", "aria-hidden": "true" },
        svg("line", { class: `line stroke ${look(line.place)}`, x1: -15, x2: 15, y1: 0, y2: 0 }));
      if (this.spec.marked) sample.append(svg("path", { class: `${marked(line.place)} ${look(line.place)}`, d: SHAPES[line.place % 7] }));
      return element("li", {}, element("label", {}, box, sample, ` ${line.label}`));
    });
    if (reference) {
      const sample = svg("svg", { class: "chart", viewBox: "-15 -7 30 14", "aria-hidden": "true" }, svg("line", { class: "reference", x1: -15, x2: 15, y1: 0, y2: 0 }));
      items.push(element("li", {}, sample, ` ${reference.label}`));
    }
    return items.length ? [element("ul", { class: "legend", "aria-label": "Lines; a box hides or shows one" }, ...items)] : [];
  }
}
