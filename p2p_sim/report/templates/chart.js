// A chart as SVG, as wide as its container: panels of lines with bands or bars, or colours over two axes; marks that take
// the focus; a legend that hides lines.
const WIDEST = 960, LETTER = 7.3, LINE = 15;  // pixels: of a chart, of a letter and of a line of text
const SVG = Object.assign(document.createElement("div"), { innerHTML: "<svg></svg>" }).firstChild.namespaceURI;
const TARGET = 12;  // half of what a finger needs
const SHAPES = [
  "M-5 0a5 5 0 1 0 10 0a5 5 0 1 0 -10 0Z", "M-4.6-4.6H4.6V4.6H-4.6Z", "M0-5.8L5.6 4.6H-5.6Z", "M0-6.2L6.2 0L0 6.2L-6.2 0Z",
  "M0 5.8L5.6-4.6H-5.6Z", "M-2-5.8H2V-2H5.8V2H2V5.8H-2V2H-5.8V-2H-2Z", "M-5.6-3.4L-3.4-5.6L0-2.2L3.4-5.6L5.6-3.4L2.2 0L5.6 3.4L3.4 5.6L0 2.2L-3.4 5.6L-5.6 3.4L-2.2 0Z",
];

export function element(name, attributes = {}, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...children);
  return node;
}

function svg(name, attributes = {}, ...children) {
  const node = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...children);
  return node;
}

export function figure(number, digits = 4) {
  if (number === 0) return "0";
  const size = Math.abs(number);
  return size >= 1e5 || size < 1e-4 ? number.toExponential(2).replace("e+", "e") : String(Number(number.toPrecision(digits)));
}

function linearTicks(low, high) {
  const rough = (high - low) / 6, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((n) => n * power).find((n) => n >= rough);
  const ticks = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + step * 1e-9; k++) ticks.push(Number((k * step).toPrecision(12)));
  return ticks;
}

function logTicks(low, high) {
  const decades = Math.log10(high / low), ticks = [];
  const steps = decades > 3 ? [1] : decades > 2 ? [1, 2, 5] : decades > 1.2 ? [1, 2, 3, 4, 6, 8] : [1, 1.5, 2, 3, 4, 5, 6, 8];
  const every = Math.max(1, Math.ceil(decades / 8));
  for (let e = Math.floor(Math.log10(low)); e <= Math.ceil(Math.log10(high)); e++)
    if (e % every === 0) for (const step of steps) ticks.push(Number((step * 10 ** e).toPrecision(3)));
  return ticks.filter((tick) => tick >= low * 0.999 && tick <= high * 1.001);
}

// A scale from values to pixels, with its ticks; of numbers no more than there is room for. Its ends are logarithms where
// the axis is logarithmic; `view` are those of a part that is looked at.
function scale(values, axis, from, to, view = axis.range) {
  const f = axis.log ? (value) => Math.log10(Math.max(value, 1e-300)) : (value) => value, back = axis.log ? (end) => 10 ** end : (end) => end;
  const usable = values.filter((value) => Number.isFinite(value) && (!axis.log || value > 0));
  let low = Math.min(...usable), high = Math.max(...usable);
  if (axis.names) [low, high] = [-0.5, axis.names.length - 0.5];
  else if (!usable.length) [low, high] = axis.log ? [0.1, 1] : [0, 1];
  if (low === high) [low, high] = axis.log ? [low / 2, high * 2] : [low - Math.abs(low || 1) / 4, high + Math.abs(high || 1) / 4];
  const margin = axis.names ? 0 : 0.04 * (f(high) - f(low)), whole = [f(low) - margin, f(high) + margin];
  const [begin, end] = view ?? whole;
  const at = (value) => from + ((f(value) - begin) / (end - begin)) * (to - from);
  const inside = ([tick]) => f(tick) >= begin - 1e-9 && f(tick) <= end + 1e-9;
  if (axis.names) return { at, f, whole, ends: [begin, end], ticks: axis.names.map((name, place) => [place, name]).filter(inside) };
  const ticks = (axis.log && end - begin > 0.5 ? logTicks : linearTicks)(back(begin), back(end)).map((tick) => [tick, figure(tick, 6)]).filter(inside);
  const longest = Math.max(...ticks.map(([, name]) => name.length), 1), room = to > from ? LETTER * longest + 10 : LINE + 4;
  const every = Math.ceil((ticks.length * room) / Math.abs(to - from));
  return { at, f, whole, ends: [begin, end], ticks: ticks.filter((_, place) => place % every === 0) };
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

// A band between the ends of points [pixels from the left, y, low, high].
function band(points, y, look) {
  const path = (ends, key) => ends.map((point) => `${point[0].toFixed(1)},${y.at(point[key]).toFixed(1)}`);
  return svg("polygon", { class: `band ${look}`, points: [...path(points, 2), ...path(points.toReversed(), 3)].join(" ") });
}

const joining = (points, y) => points.map((point) => `${point[0].toFixed(1)},${y.at(point[1]).toFixed(1)}`).join(" ");

// spec: x and y with label, log, names or range; panels, their names; lines with label, place and points {panel, x, y,
// low, high, key, said}, joined by lines unless it is said; levels with label, dash and pieces {panel, points of x, y, low
// and high}, of all panels or all x where these are not said; or heat with label, log and cells {x, y, value, text, key, said}.
export class Chart {
  constructor(container, label, pick = () => {}, role = "button") {
    Object.assign(this, { container, label, pick, role, hidden: new Set(), chosen: null, spec: null, width: 0, view: null, rows: [], marks: [] });
    container.addEventListener("keydown", (event) => this.move(event));
    container.addEventListener("click", (event) => this.clicked(event));
    new ResizeObserver(() => {
      if (this.spec && this.room() !== this.width) this.draw(this.spec);
    }).observe(container);
  }

  room() {
    return Math.min(WIDEST, Math.max(240, Math.floor(this.container.clientWidth)));
  }

  draw(spec) {
    const focused = document.activeElement.closest(".panels") && this.container.contains(document.activeElement), { key } = document.activeElement.dataset;
    this.spec = spec;
    this.width = this.room();
    [this.marks, this.rows] = [[], []];
    const panels = spec.panels ?? [""];
    const columns = panels.length === 1 ? 1 : Math.max(1, Math.min(panels.length === 4 ? 2 : 3, Math.floor(this.width / 270)));
    const width = Math.floor((this.width - 8 * (columns - 1)) / columns);
    const grid = element("div", { class: "panels" });
    grid.style.gridTemplateColumns = `repeat(${columns}, minmax(0, 1fr))`;
    grid.append(...panels.map((name, panel) => this.panel(name, panel, width, columns > 1)));
    (this.mark(this.chosen) ?? this.marks[0])?.node.setAttribute("tabindex", "0");
    if (spec.marked && !this.marks.length) grid.firstChild.setAttribute("tabindex", "0");  // keys work where no point is in sight
    this.container.replaceChildren(grid, ...(spec.heat ? [this.ramp()] : this.legend()));
    this.quiet = true;  // to draw again is no choice
    if (focused) ((this.mark(key) ?? this.marks[0])?.node ?? grid.firstChild).focus();
    this.quiet = false;
  }

  mark(key) {
    return this.marks.find(({ point }) => point.key === key);
  }

  panel(name, panel, width, small) {
    const { spec, view } = this, height = Math.round(Math.min(480, Math.max(small ? 220 : 280, 0.6 * width)));
    const shown = ({ label }) => !this.hidden.has(label), lines = spec.lines.filter(shown), levels = (spec.levels ?? []).filter(shown);
    const label = name ? `${this.label}, ${name}` : this.label;
    const root = svg("svg", { class: "chart", viewBox: `0 0 ${width} ${height}`, role: spec.marked ? "group" : "img", "aria-label": label });
    const points = (lines.length ? lines : spec.lines).flatMap((line) => line.points), pieces = levels.flatMap((level) => level.pieces.map((piece) => ({ ...piece, dash: level.dash })));
    const low = (point) => (!spec.y.log || point.low > point.y / 10 ? [point.low] : []);  // a logarithmic axis has no room for all
    const ends = [...points.flatMap((point) => [point.y, point.high, ...low(point)]), ...pieces.flatMap((piece) => piece.points.map((point) => point[1]))].filter((end) => end !== null && end !== undefined);
    const box = this.box(width, height, scale(ends, spec.y, height - 40, 20, view?.y), Boolean(name));
    const x = scale(points.map((point) => point.x), spec.x, box.left, box.right, view?.x), y = scale(ends, spec.y, box.bottom, box.top, view?.y);
    this.drawn = { x, y, box };
    this.frame(root, x, y, box);
    if (name) root.append(svg("text", { class: "name", x: (box.left + box.right) / 2, y: LINE, "text-anchor": "middle" }, name));
    if (spec.heat) return this.cells(root, x, y, box), root;
    if (!lines.length) root.append(svg("text", { class: "empty", x: (box.left + box.right) / 2, y: height / 2, "text-anchor": "middle" }, "All lines are hidden."));
    const size = { width: box.right - box.left, height: box.bottom - box.top };
    const inside = svg("svg", { x: box.left, y: box.top, ...size, viewBox: `${box.left} ${box.top} ${size.width} ${size.height}`, "aria-hidden": "true" });
    root.append(inside);  // it cuts off what lies beyond the axes
    for (const piece of pieces.filter((each) => (each.panel ?? panel) === panel)) this.level(inside, piece, x, y, box);
    const here = lines.map((line) => ({ ...line, points: line.points.filter((point) => (point.panel ?? 0) === panel) })).filter((line) => line.points.length);
    for (const line of here) this.line(inside, line, x, y);
    if (spec.marked) for (const line of here) this.line_marks(root, line, x, y, box);
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
    const axes = svg("g", { class: "axes" });
    root.append(axes);
    for (const [tick, name] of y.ticks) {
      axes.append(svg("line", { class: "grid", x1: box.left, x2: box.right, y1: y.at(tick), y2: y.at(tick) }));
      const most = Math.floor(box.widest / LETTER);
      axes.append(svg("text", { x: box.left - 8, y: y.at(tick) + 4, "text-anchor": "end" }, name.length > most ? `${name.slice(0, most - 1)}…` : name));
    }
    const every = box.turned ? Math.ceil((LINE + 1) / box.slot) : 1;
    for (const [tick, name] of x.ticks.filter((_, place) => place % every === 0)) {
      const at = x.at(tick), short = name.length > 22 ? `${name.slice(0, 21)}…` : name;
      axes.append(svg("line", { class: "grid", x1: at, x2: at, y1: box.top, y2: box.bottom }));
      if (box.turned) axes.append(svg("text", { x: at + 4, y: box.bottom + 14, "text-anchor": "end", transform: `rotate(-40 ${at + 4} ${box.bottom + 14})` }, short));
      else axes.append(text(name, at, box.bottom + 18, this.spec.x.names ? box.slot / LETTER : 20));
    }
    axes.append(svg("line", { class: "axis", x1: box.left, x2: box.right, y1: box.bottom, y2: box.bottom }));
    axes.append(svg("line", { class: "axis", x1: box.left, x2: box.left, y1: box.top, y2: box.bottom }));
    const middle = (box.top + box.bottom) / 2, across = (box.left + box.right) / 2;
    axes.append(text(box.xText.join(" "), Math.max(across, box.width / 2), box.height - 4 - LINE * (box.xText.length - 1), (box.width - 10) / LETTER));
    axes.append(text(box.yText.join(" "), LINE - 2, middle, (box.height - 60) / LETTER, { transform: `rotate(-90 ${LINE - 2} ${middle})` }));
  }

  // A cell for each pair of values; it holds its figure where there is room.
  cells(root, x, y, box) {
    const { heat, x: across, y: up } = this.spec, f = heat.log ? Math.log : (value) => value;
    const values = heat.cells.map((cell) => f(cell.value)), low = Math.min(...values), high = Math.max(...values);
    const width = (box.right - box.left) / across.names.length, height = (box.bottom - box.top) / up.names.length;
    this.rows = [...up.names.keys()].map((row) => heat.cells.filter((cell) => cell.y === row).sort((a, b) => a.x - b.x)).filter((row) => row.length);
    for (const cell of this.rows.flat()) {
      const share = high > low ? (f(cell.value) - low) / (high - low) : 0.5, [left, top] = [x.at(cell.x) - width / 2, y.at(cell.y) - height / 2];
      const node = this.target(root, cell, cell.said, `cell ${share < 0.46 ? "dark" : "light"}`, svg("rect", { x: left + 0.5, y: top + 0.5, width: width - 1, height: height - 1, fill: colour(share) }));
      if (cell.text.length * LETTER + 4 < width && height > LINE) node.append(svg("text", { x: x.at(cell.x), y: y.at(cell.y) + 4, "text-anchor": "middle", "aria-hidden": "true" }, cell.text));
    }
  }

  ramp() {
    const { heat } = this.spec, sorted = heat.cells.toSorted((a, b) => a.value - b.value);
    const bar = svg("svg", { class: "ramp", viewBox: "0 0 160 14", "aria-hidden": "true" }, ...Array.from({ length: 40 }, (_, k) => svg("rect", { x: 4 * k, y: 0, width: 4.2, height: 14, fill: colour(k / 39) })));
    return element("p", { class: "legend" }, `${heat.label}${heat.log ? " (log scale)" : ""}: ${sorted[0]?.text ?? ""} `, bar, ` ${sorted.at(-1)?.text ?? ""}`);
  }

  level(root, piece, x, y, box) {
    const points = piece.points.flatMap(([at, ...ends]) => (at === null ? [box.left, box.right] : [x.at(at)]).map((left) => [left, ...ends])).filter((point) => point[1] !== null);
    const known = points.filter((point) => point[2] !== null);
    if (known.length > 1) root.append(band(known, y, "reference-band"));
    root.append(svg("polyline", { class: "reference", "stroke-dasharray": piece.dash, points: joining(points, y) }));
  }

  // A line with a band where x rises, else with bars.
  line(root, line, x, y) {
    const points = line.points.map((point) => [x.at(point.x), point.y, point.low ?? null, point.high ?? null]);
    const known = points.filter((point) => point[2] !== null), joined = !this.spec.x.names && this.spec.joined !== false;
    if (joined && known.length > 2 && points.every(([left], place) => !place || left >= points[place - 1][0])) root.append(band(known, y, `fill ${look(line.place)}`));
    else for (const [left, , low, high] of known) root.append(svg("path", { class: `bar stroke ${look(line.place)}`, d: `M${left.toFixed(1)} ${y.at(low).toFixed(1)}V${y.at(high).toFixed(1)}` }));
    if (joined) root.append(svg("polyline", { class: `line stroke ${look(line.place)}`, points: joining(points, y) }));
  }

  line_marks(root, line, x, y, box) {
    this.rows.push(line.points);
    for (const point of line.points) {
      const [left, top] = [x.at(point.x), y.at(point.y)];
      if (left < box.left - 6 || left > box.right + 6 || top < box.top - 6 || top > box.bottom + 6) continue;
      const said = line.label && !point.said.includes(line.label) ? `${line.label}: ${point.said}` : point.said;
      const node = this.target(root, { ...point, left, top }, said, "", svg("circle", { class: "reach", r: TARGET }),
        svg("path", { class: `dot ${marked(line.place)} ${look(line.place)}`, d: SHAPES[line.place % 7] }));
      node.setAttribute("transform", `translate(${left} ${top})`);
    }
  }

  // What takes the focus and shows its values; a click on it is a choice.
  target(root, point, said, kind, ...parts) {
    const node = svg("g", { class: `mark ${kind}`, tabindex: "-1", role: this.role, "aria-label": said, "data-key": point.key }, ...parts);
    if (this.role === "button") node.prepend(svg("title", {}, said));
    node.classList.toggle("chosen", point.key === this.chosen);
    node.addEventListener("focus", () => this.choose(point.key));
    this.marks.push({ node, point, root });
    root.append(node);
    return node;
  }

  // Where an event is, in the pixels of a panel, and the mark nearest to it.
  spot(event, root) {
    const area = root.getBoundingClientRect(), ratio = root.viewBox.baseVal.width / area.width;
    return [(event.clientX - area.left) * ratio, (event.clientY - area.top) * ratio];
  }

  nearest(root, [x, y], reach) {
    const far = ({ point }) => Math.hypot(point.left - x, point.top - y);
    const best = this.marks.filter((mark) => mark.root === root).reduce((near, mark) => (near && far(near) <= far(mark) ? near : mark), null);
    return best && far(best) <= reach ? best : null;
  }

  // A click is for the nearest mark that a finger may have meant.
  clicked(event) {
    const root = event.target.closest(".panels > svg");
    const node = root && (event.target.closest(".cell") ?? this.nearest(root, this.spot(event, root), 2 * TARGET)?.node);
    if (node && node === document.activeElement) this.choose(node.dataset.key);
    else node?.focus();
  }

  choose(key) {
    this.chosen = key;
    for (const { node, point } of this.marks) {
      node.classList.toggle("chosen", point.key === key);
      node.setAttribute("tabindex", point.key === key ? "0" : "-1");
    }
    if (!this.quiet) this.pick(key);
  }

  // Left and right along a line, up and down between lines.
  move(event) {
    if (!event.target.closest(".panels") || event.ctrlKey || event.metaKey || event.altKey) return;
    const row = this.rows.find((points) => points.some((point) => point.key === this.chosen)) ?? this.rows[0];
    const at = Math.max(0, row?.findIndex((point) => point.key === this.chosen) ?? 0);
    const beside = (step) => {
      const far = (point) => Math.abs(this.drawn.x.f(point.x) - this.drawn.x.f(row[at].x));
      return this.rows[(this.rows.indexOf(row) + step + this.rows.length) % this.rows.length].reduce((best, point) => (far(point) < far(best) ? point : best));
    };
    const moves = {
      ArrowRight: () => row[Math.min(at + 1, row.length - 1)], ArrowLeft: () => row[Math.max(at - 1, 0)],
      ArrowDown: () => beside(1), ArrowUp: () => beside(-1), Home: () => row[0], End: () => row.at(-1),
    };
    if (event.key === "Enter" || event.key === " ") this.choose(event.target.dataset.key);
    else if (moves[event.key] && row) this.reveal(moves[event.key]());
    else return;
    event.preventDefault();
  }

  reveal(point) {
    this.mark(point.key)?.node.focus();
  }

  legend() {
    const items = [...this.spec.lines.filter((line) => line.label), ...(this.spec.levels ?? [])].map(({ label, place, dash }) => {
      const box = element("input", { type: "checkbox", "data-label": label });
      box.checked = !this.hidden.has(label);
      box.addEventListener("change", () => {
        this.hidden[box.checked ? "delete" : "add"](label);
        this.draw(this.spec);
        [...this.container.querySelectorAll(".legend input")].find((other) => other.dataset.label === label)?.focus();
      });
      const kind = dash ? { class: "reference", "stroke-dasharray": dash } : { class: `line stroke ${look(place)}` };
      const sample = svg("svg", { class: "chart", viewBox: "-15 -7 30 14", "aria-hidden": "true" }, svg("line", { ...kind, x1: -15, x2: 15, y1: 0, y2: 0 }));
      if (this.spec.marked && !dash) sample.append(svg("path", { class: `${marked(place)} ${look(place)}`, d: SHAPES[place % 7] }));
      return element("li", {}, element("label", {}, box, sample, ` ${label}`));
    });
    return items.length ? [element("ul", { class: "legend", "aria-label": "Lines; a box hides or shows one" }, ...items)] : [];
  }
}
