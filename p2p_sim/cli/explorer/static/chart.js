// A chart as SVG: lines with bands or bars, marks that take the focus, a legend that hides lines.
import { element, figure } from "./common.js";

const WIDTH = 800, HEIGHT = 480, LEFT = 74, RIGHT = 18, TOP = 14, BOTTOM = 62;
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

// A scale from values to pixels, with its ticks.
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
  const ticks = (axis.log ? logTicks : linearTicks)(back(begin), back(end)).filter(inside).map((tick) => [tick, figure(tick)]);
  return { at, ticks };
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
  wrapped(content, width).forEach((part, line) => node.append(svg("tspan", { x, dy: line ? "1.15em" : 0 }, part)));
  return node;
}

const marked = (place) => (Math.floor(place / 7) % 2 ? "hollow" : "fill");
const look = (place) => `p${place % 7} d${Math.floor(place / 7) % 3}`;

// spec: x and y with label, log, names or range; lines with label, place, points {x, y, low, high, key, said}; reference.
export class Chart {
  constructor(container, label, pick = () => {}) {
    Object.assign(this, { container, label, pick, hidden: new Set(), chosen: null });
  }

  draw(spec) {
    this.spec = spec;
    const root = svg("svg", { class: "chart", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: spec.marked ? "group" : "img", "aria-label": this.label });
    const lines = spec.lines.filter((line) => !this.hidden.has(line.label));
    const points = lines.flatMap((line) => line.points);
    const ends = points.flatMap((point) => [point.y, point.low, point.high]).concat(spec.reference ? [spec.reference.y] : []);
    const x = scale(points.map((point) => point.x), spec.x, LEFT, WIDTH - RIGHT);
    const y = scale(ends.filter((end) => end !== null && end !== undefined), spec.y, HEIGHT - BOTTOM, TOP);
    this.frame(root, x, y);
    const clip = `clip-${Math.random().toString(36).slice(2)}`;
    root.append(svg("clipPath", { id: clip }, svg("rect", { x: LEFT, y: TOP, width: WIDTH - LEFT - RIGHT, height: HEIGHT - TOP - BOTTOM })));
    const inside = svg("g", { "clip-path": `url(#${clip})` });
    root.append(inside);
    if (spec.reference) this.reference(inside, y);
    for (const line of lines) this.line(inside, line, x, y);
    this.marks = [];
    if (spec.marked) for (const line of lines) this.marks.push(this.line_marks(root, line, x, y));
    root.addEventListener("keydown", (event) => this.move(event));
    const first = this.marks.flat().find((mark) => mark.dataset.key === this.chosen) ?? this.marks.flat()[0];
    first?.setAttribute("tabindex", "0");
    this.container.replaceChildren(root, ...this.legend());
  }

  frame(root, x, y) {
    const { spec } = this, bottom = HEIGHT - BOTTOM;
    for (const [tick, name] of y.ticks) {
      root.append(svg("line", { class: "grid", x1: LEFT, x2: WIDTH - RIGHT, y1: y.at(tick), y2: y.at(tick) }));
      root.append(svg("text", { x: LEFT - 8, y: y.at(tick) + 4, "text-anchor": "end" }, name));
    }
    const room = spec.x.names ? Math.max(8, 104 / x.ticks.length) : 20;
    for (const [tick, name] of x.ticks) {
      root.append(svg("line", { class: "grid", x1: x.at(tick), x2: x.at(tick), y1: TOP, y2: bottom }));
      root.append(text(name, x.at(tick), bottom + 18, room));
    }
    root.append(svg("line", { class: "axis", x1: LEFT, x2: WIDTH - RIGHT, y1: bottom, y2: bottom }));
    root.append(svg("line", { class: "axis", x1: LEFT, x2: LEFT, y1: TOP, y2: bottom }));
    const middle = (TOP + bottom) / 2, logged = (axis) => axis.label + (axis.log ? " (log scale)" : "");
    root.append(text(logged(spec.x), (LEFT + WIDTH - RIGHT) / 2, HEIGHT - 12, 110));
    root.append(text(logged(spec.y), 18, middle, 60, { transform: `rotate(-90 18 ${middle})` }));
  }

  reference(root, y) {
    const { reference } = this.spec;
    if (reference.ends) {
      const [low, high] = reference.ends.map((end) => y.at(end));
      root.append(svg("rect", { class: "reference-band", x: LEFT, width: WIDTH - LEFT - RIGHT, y: high, height: Math.max(0, low - high) }));
    }
    root.append(svg("line", { class: "reference", x1: LEFT, x2: WIDTH - RIGHT, y1: y.at(reference.y), y2: y.at(reference.y) }));
  }

  line(root, line, x, y) {
    const at = (key) => (point) => `${x.at(point.x).toFixed(1)},${y.at(point[key]).toFixed(1)}`;
    const named = Boolean(this.spec.x.names);
    const known = line.points.filter((point) => point.low !== null && point.low !== undefined && (!this.spec.y.log || point.low > 0));
    const band = !named && known.length > 2 && this.spec.ordered !== false;
    if (band) root.append(svg("polygon", { class: `band fill ${look(line.place)}`, points: [...known.map(at("low")), ...known.toReversed().map(at("high"))].join(" ") }));
    else for (const point of known) root.append(svg("path", { class: `bar stroke ${look(line.place)}`, d: `M${at("low")(point)}L${at("high")(point)}` }));
    if (!named) root.append(svg("polyline", { class: `line stroke ${look(line.place)}`, points: line.points.map(at("y")).join(" ") }));
  }

  line_marks(root, line, x, y) {
    return line.points.map((point) => {
      const said = line.label && !point.said.includes(line.label) ? `${line.label}: ${point.said}` : point.said;
      const mark = svg("path", {
        class: `mark ${marked(line.place)} ${look(line.place)}`, d: SHAPES[line.place % 7], transform: `translate(${x.at(point.x)} ${y.at(point.y)})`,
        tabindex: "-1", role: "button", "aria-label": said, "data-key": point.key,
      }, svg("title", {}, said));
      mark.classList.toggle("chosen", point.key === this.chosen);
      mark.addEventListener("focus", () => this.choose(point.key));
      mark.addEventListener("click", () => mark.focus());
      root.append(mark);
      return mark;
    });
  }

  choose(key) {
    this.chosen = key;
    for (const mark of this.marks.flat()) {
      mark.classList.toggle("chosen", mark.dataset.key === key);
      mark.setAttribute("tabindex", mark.dataset.key === key ? "0" : "-1");
    }
    this.pick(key);
  }

  // Left and right along a line, up and down between lines.
  move(event) {
    const along = { ArrowLeft: -1, ArrowRight: 1 }[event.key], across = { ArrowUp: -1, ArrowDown: 1 }[event.key];
    const line = this.marks.findIndex((marks) => marks.includes(document.activeElement));
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
