// Charts: the values of a figure, by pointer and by keys; without this script the picture stands alone.
const NS = document.querySelector("figure svg")?.namespaceURI; // a chart stands beside a picture
const SHAPES = ["M-5 0a5 5 0 1 0 10 0a5 5 0 1 0 -10 0", "M-4.5 -4.5h9v9h-9z", "M0 -5.5l5.5 10h-11z", "M0 -6l6 6l-6 6l-6 -6z",
  "M0 5.5l5.5 -10h-11z", "M-2 -5.5h4v3.5h3.5v4h-3.5v3.5h-4v-3.5h-3.5v-4h3.5z", "M-5.5 -3l2.5 -2.5l3 3l3 -3l2.5 2.5l-3 3l3 3l-2.5 2.5l-3 -3l-3 3l-2.5 -2.5l3 -3z"];
const DASHES = ["", "7 4", "2 4"];
function make(parent, name, attributes = {}, text = "") {
  const html = ["div", "p", "button", "label", "select", "option", "span"].includes(name);
  const element = html ? document.createElement(name) : document.createElementNS(NS, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text) element.textContent = text;
  parent.append(element);
  return element;
}
function tidy(value) {
  const size = Math.abs(value);
  return size && (size >= 1e6 || size < 1e-4) ? value.toExponential(0).replace("e+", "e") : String(Number(value.toPrecision(6)));
}
// Ticks of a range in the axis's own units: of a logarithmic axis these are powers of ten.
function ticksOf(low, high, log, most) {
  if (log && high - low >= 0.5) {
    for (const steps of [[1, 2, 5], [1, 3], [1]]) {
      const found = [];
      for (let power = Math.floor(low); power <= high; power++)
        for (const step of steps) {
          const at = power + Math.log10(step);
          if (at >= low && at <= high) found.push([at, tidy(step * 10 ** power)]);
        }
      if (found.length > 1 && (found.length <= most || steps.length === 1)) {
        const every = Math.ceil(found.length / most);
        return found.filter((_, index) => index % every === 0);
      }
    }
  }
  const [from, to] = log ? [10 ** low, 10 ** high] : [low, high];
  const rough = (to - from) / most;
  const scale = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].find((factor) => factor * scale >= rough) * scale;
  const found = [];
  for (let number = Math.ceil(from / step); number * step <= to * (1 + 1e-12) + 1e-300; number++)
    found.push([log ? Math.log10(number * step) : number * step, tidy(number * step)]);
  return found;
}
function startChart(box) {
  const data = JSON.parse(box.dataset.chart);
  const [logX, logY] = data.logs;
  const figure = box.closest("figure");
  const which = figure.id.replace("figure-", "");
  const hidden = new Set();
  let panel = 0, view = null, chosen = null, drag = null, shownMarks = [], frame = null;
  const toX = (x) => (logX ? Math.log10(x) : x);
  const toY = (y) => (logY ? Math.log10(y) : y);
  const usable = ([x, y]) => x !== null && y !== null && (!logX || x > 0) && (!logY || y > 0);
  const groups = data.groups.map((group) => ({ ...group, points: group.points.filter((point) => usable(point.at)) }));
  const tools = make(box, "div", { class: "tools", role: "group", "aria-label": `Figure ${which}: tools` });
  const button = (text, click) => {
    const found = make(tools, "button", { type: "button" }, text);
    found.addEventListener("click", click);
    return found;
  };
  const zoomers = [["Zoom in", 0.5], ["Zoom out", 2]].map(([text, factor]) => button(text, () => zoom(factor)));
  zoomers.push(button("Show all", () => { view = null; draw(); }));
  const swap = button("Picture", () => { setPicture(swap.getAttribute("aria-pressed") !== "true"); });
  swap.setAttribute("aria-pressed", "false");
  const body = make(box, "div", { class: "chart-body" });
  if (data.panels.length > 1) {
    const label = make(body, "label", { class: "panel" }, "Panel ");
    const select = make(label, "select");
    data.panels.forEach((name, index) => make(select, "option", { value: index }, name));
    select.addEventListener("change", () => { panel = Number(select.value); chosen = null; say(); draw(); });
  }
  make(body, "p", { class: "axis" }, `↑ ${data.y}${logY ? ", log scale" : ""}`);
  const plot = make(body, "svg", { role: "group", "aria-label": `Figure ${which}, points: arrow keys go from point to point, plus and minus zoom, 0 shows all` });
  make(body, "p", { class: "axis right" }, `${data.x}${logX ? ", log scale" : ""} →`);
  const values = make(body, "p", { class: "values" });
  const legend = make(body, "div", { class: "legend", role: "group", "aria-label": `Figure ${which}: show or hide` });
  make(body, "p", { class: "axis" }, data.note);
  const entry = (key, text, paint) => {
    const found = make(legend, "button", { type: "button", "aria-pressed": "true" });
    paint(make(found, "svg", { viewBox: "-16 -8 32 16", width: 32, height: 16, "aria-hidden": "true" }));
    make(found, "span", {}, text);
    found.addEventListener("click", () => {
      const off = !hidden.delete(key);
      if (off) hidden.add(key);
      found.setAttribute("aria-pressed", String(!off));
      if (chosen && hidden.has(`g${chosen.group}`)) { chosen = null; say(); }
      draw();
    });
  };
  // The eighth line has the first colour and shape again, but hollow; the fifteenth is hollow with a broken rim.
  const rim = (look) => (look < 7 ? { fill: hue(look) } : { fill: "var(--paper)", stroke: hue(look), "stroke-width": 2, "stroke-dasharray": look < 14 ? "" : "2 2" });
  const hue = (look) => `var(--c${look % SHAPES.length})`;
  groups.forEach((group, index) => entry(`g${index}`, group.label, (swatch) => {
    make(swatch, "path", { d: "M-16 0h32", class: "swatch", stroke: hue(group.look), "stroke-width": 1.8, "stroke-dasharray": DASHES[Math.floor(group.look / 7) % 3] });
    make(swatch, "path", { d: SHAPES[group.look % 7], ...rim(group.look) });
  }));
  data.levels.forEach((level, index) => entry(`l${index}`, level.label, (swatch) =>
    make(swatch, "path", { d: "M-16 0h32", class: "level", "stroke-dasharray": level.dash })));
  const pieces = () => data.levels.flatMap((level, index) => hidden.has(`l${index}`) ? [] :
    level.pieces.filter((piece) => piece.panel === panel).map((piece) => ({ ...piece, dash: level.dash })));
  const here = (index) => hidden.has(`g${index}`) ? [] : groups[index].points.filter((point) => point.panel === panel);
  const lineOf = (index) => here(index).map((point, place) => ({ ...point, group: index, place }));
  function extent() {
    const xs = [], ys = [];
    const all = groups.some((_, index) => here(index).length) ? groups.map((_, index) => here(index)) : groups.map((group) => group.points);
    for (const point of all.flat()) {
      xs.push(toX(point.at[0]));
      ys.push(...point.at.slice(1).filter((y) => y !== null && (!logY || y > point.at[1] / 10)).map(toY));
    }
    for (const piece of pieces()) ys.push(...piece.points.map((point) => point[1]).filter((y) => y !== null && (!logY || y > 0)).map(toY));
    const room = (numbers, least) => {
      const low = Math.min(...numbers), high = Math.max(...numbers);
      const more = (high - low) * 0.06 || least;
      return [low - more, high + more];
    };
    const across = data.places ? [-0.5, data.places.length - 0.5] : room(xs, logX ? 0.3 : Math.abs(xs[0]) * 0.1 || 1);
    return [...across, ...room(ys, logY ? 0.3 : Math.abs(ys[0]) * 0.1 || 1)];
  }
  function zoom(factor) {
    const [x0, x1, y0, y1] = view || extent();
    const far = ({ x, y }) => (x - (frame.left + frame.right) / 2) ** 2 + (y - (frame.top + frame.bottom) / 2) ** 2;
    const near = chosen || shownMarks.reduce((best, shown) => (best && far(best) <= far(shown) ? best : shown), null)?.point;
    const centre = near ? [toX(near.at[0]), toY(near.at[1])] : [(x0 + x1) / 2, (y0 + y1) / 2];
    const [w, h] = [(x1 - x0) * factor / 2, (y1 - y0) * factor / 2];
    const [e0, e1, f0, f1] = extent();
    view = 2 * w >= e1 - e0 && 2 * h >= f1 - f0 ? null : [centre[0] - w, centre[0] + w, centre[1] - h, centre[1] + h];
    draw();
  }
  function say() {
    values.textContent = chosen ? `${chosen.said.join("; ")}.`
      : "Point at a marker, or reach the chart with Tab and use the arrow keys: its values stand here.";
  }
  function choose(point, focus) {
    chosen = point;
    say();
    const [x, y] = [toX(point.at[0]), toY(point.at[1])];
    if (focus && view && (x < view[0] || x > view[1] || y < view[2] || y > view[3])) {
      const [w, h] = [(view[1] - view[0]) / 2, (view[3] - view[2]) / 2];
      view = [x - w, x + w, y - h, y + h];
      draw();
    }
    mark();
    if (focus) (shownMarks.find(({ point: other }) => same(other, chosen)) || { node: plot }).node.focus();
  }
  const same = (one, other) => one && other && one.group === other.group && one.place === other.place;
  function mark() {
    for (const { node, point } of shownMarks) {
      const on = same(point, chosen);
      node.classList.toggle("chosen", on);
      node.setAttribute("tabindex", on || (!chosen && point === shownMarks[0].point) ? 0 : -1);
    }
    if (!plot.querySelector("[tabindex='0']") && shownMarks.length) shownMarks[0].node.setAttribute("tabindex", 0);
    guides.replaceChildren();
    const found = shownMarks.find(({ point }) => same(point, chosen));
    if (found) make(guides, "path", { d: `M${frame.left} ${found.y}H${found.x}V${frame.bottom}`, class: "guide" });
  }
  let guides = null;
  function draw() {
    const focused = plot.contains(document.activeElement);
    const width = Math.max(260, Math.round(body.clientWidth) || 600);
    const height = Math.round(Math.min(460, Math.max(280, width * 0.5)));
    const [x0, x1, y0, y1] = view || extent();
    const yTicks = ticksOf(y0, y1, logY, 7);
    const left = 14 + 8 * Math.max(2, ...yTicks.map(([, text]) => text.length));
    frame = { left, right: width - 14, top: 10, bottom: height - (data.places ? 46 : 26) };
    const px = (x) => frame.left + (x - x0) / (x1 - x0) * (frame.right - frame.left);
    const py = (y) => frame.bottom - (y - y0) / (y1 - y0) * (frame.bottom - frame.top);
    frame.back = (x, y) => [x0 + (x - frame.left) / (frame.right - frame.left) * (x1 - x0), y0 + (frame.bottom - y) / (frame.bottom - frame.top) * (y1 - y0)];
    plot.replaceChildren();
    plot.setAttribute("viewBox", `0 0 ${width} ${height}`);
    const axes = make(plot, "g", { class: "axes", "aria-hidden": "true" });
    for (const [at, text] of yTicks) {
      make(axes, "path", { d: `M${frame.left} ${py(at)}H${frame.right}` });
      make(axes, "text", { x: frame.left - 8, y: py(at) + 4, "text-anchor": "end" }, text);
    }
    const most = Math.max(2, Math.floor((frame.right - frame.left) / 60));
    const xTicks = data.places ? data.places.map((name, place) => [place, name]).filter(([at]) => at >= x0 && at <= x1) : ticksOf(x0, x1, logX, most);
    xTicks.forEach(([at, text], index) => {
      make(axes, "path", { d: `M${px(at)} ${frame.top}V${frame.bottom}` });
      const beside = Math.min((frame.right - frame.left) / xTicks.length, px(at), width - px(at));
      const room = data.places ? Math.max(5, Math.floor(2 * beside / 7)) : 99;
      const label = text.length > room ? `${text.slice(0, room - 1)}…` : text;
      make(axes, "text", { x: px(at), y: frame.bottom + (data.places && index % 2 ? 36 : 18), "text-anchor": "middle" }, label);
    });
    make(axes, "path", { d: `M${frame.left} ${frame.top}V${frame.bottom}H${frame.right}`, class: "edge" });
    const [w, h] = [frame.right - frame.left, frame.bottom - frame.top];  // an inner <svg> cuts off what lies beyond the axes
    const inner = make(plot, "svg", { x: frame.left, y: frame.top, viewBox: `${frame.left} ${frame.top} ${w} ${h}`, width: w, height: h, "aria-hidden": "true" });
    const [bands, inside] = [0, 1].map(() => make(inner, "g"));
    const faint = Math.min(0.16, 0.5 / groups.length).toFixed(2);
    const path = (points) => points.map(([x, y], index) => `${index ? "L" : "M"}${px(x).toFixed(1)} ${py(y).toFixed(1)}`).join("");
    const floor = (y, middle) => (logY && y <= 0 ? Math.min(y0, toY(middle)) - 1 : toY(y));
    const band = (points, colour) => {
      const ends = points.filter((point) => point[2] !== null && point[3] !== null);
      if (ends.length > 1) make(bands, "path", { class: "band", fill: colour, opacity: faint,
        d: `${path([...ends.map((p) => [p[0], toY(p[3])]), ...ends.reverse().map((p) => [p[0], floor(p[2], p[1])])])}Z` });
    };
    for (const piece of pieces()) {
      const across = piece.points.flatMap((p) => p[0] === null ? [[x0, ...p.slice(1)], [x1, ...p.slice(1)]] : [[toX(p[0]), ...p.slice(1)]])
        .filter((p) => p[1] !== null && (!logY || p[1] > 0));
      band(across, "var(--soft)");
      make(inside, "path", { class: "level", "stroke-dasharray": piece.dash, d: path(across.map((p) => [p[0], toY(p[1])])) });
    }
    guides = make(plot, "g", { "aria-hidden": "true" });
    shownMarks = [];
    const marks = [];
    groups.forEach((group, index) => {
      const line = lineOf(index), colour = hue(group.look);
      const at = line.map((point) => [toX(point.at[0]), toY(point.at[1])]);
      const rising = at.every(([x], place) => !place || x >= at[place - 1][0]);
      if (data.joined && rising && line.length > 2) band(line.map((point, place) => [at[place][0], ...point.at.slice(1)]), colour);
      else for (const [place, point] of line.entries()) if (point.at[2] !== null) make(inside, "path", { class: "bar", stroke: colour,
        d: `M${px(at[place][0])} ${py(floor(point.at[2], point.at[1]))}V${py(toY(point.at[3]))}` });
      if (data.joined && line.length > 1) make(inside, "path", { class: "line", stroke: colour, d: path(at), "stroke-dasharray": DASHES[Math.floor(group.look / 7) % 3] });
      line.forEach((point, place) => marks.push({ point, look: group.look, shape: SHAPES[group.look % 7], x: px(at[place][0]), y: py(at[place][1]) }));
    });
    for (const { point, look, shape, x, y } of marks) {
      if (x < frame.left - 6 || x > frame.right + 6 || y < frame.top - 6 || y > frame.bottom + 6) continue;
      const node = make(plot, "g", { class: "mark", role: "img", tabindex: -1, "aria-label": point.said.join("; "), transform: `translate(${x.toFixed(1)} ${y.toFixed(1)})` });
      make(node, "circle", { r: 10, class: "ring" });
      make(node, "path", { d: shape, ...rim(look) });
      node.addEventListener("focus", () => { if (!same(point, chosen)) choose(point, false); });
      shownMarks.push({ node, point, x, y });
    }
    if (!marks.length) make(plot, "text", { x: (frame.left + frame.right) / 2, y: height / 2, "text-anchor": "middle", class: "empty" }, "All groups are hidden.");
    if (shownMarks.length) plot.removeAttribute("tabindex");
    else plot.setAttribute("tabindex", 0);  // keys still work where no point is in sight
    mark();
    if (focused) (shownMarks.find(({ point }) => same(point, chosen)) || shownMarks[0] || { node: plot }).node.focus();
  }
  const placeOf = (event) => {
    const area = plot.getBoundingClientRect(), scale = plot.viewBox.baseVal.width / area.width;
    return [(event.clientX - area.left) * scale, (event.clientY - area.top) * scale];
  };
  plot.addEventListener("pointermove", (event) => {
    const [x, y] = placeOf(event);
    if (drag) {
      if (!drag.rect) drag.rect = make(plot, "rect", { class: "drag" });
      const [fx, fy] = drag.from;
      for (const [key, value] of Object.entries({ x: Math.min(x, fx), y: Math.min(y, fy), width: Math.abs(x - fx), height: Math.abs(y - fy) })) drag.rect.setAttribute(key, value);
      drag.to = [x, y];
      return;
    }
    pick(x, y);
  });
  function pick(x, y) {
    let best = null, least = 30 ** 2;
    for (const shown of shownMarks) {
      const far = (shown.x - x) ** 2 + (shown.y - y) ** 2;
      if (far < least) { least = far; best = shown; }
    }
    if (best && !same(best.point, chosen)) choose(best.point, false);
  }
  plot.addEventListener("pointerdown", (event) => {
    pick(...placeOf(event));
    if (event.pointerType === "touch" || event.button !== 0) return;
    event.preventDefault();
    drag = { from: placeOf(event) };
    plot.setPointerCapture(event.pointerId);
  });
  const drop = () => {
    const done = drag;
    drag = null;
    if (!done || !done.to) return;
    const [[ax, ay], [bx, by]] = [done.from, done.to];
    if (Math.abs(ax - bx) > 8 && Math.abs(ay - by) > 8) {
      const low = frame.back(Math.min(ax, bx), Math.max(ay, by)), high = frame.back(Math.max(ax, bx), Math.min(ay, by));
      view = [low[0], high[0], low[1], high[1]];
    }
    draw();
  };
  plot.addEventListener("pointerup", drop);
  plot.addEventListener("pointercancel", () => { drag = null; draw(); });
  plot.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const lines = groups.map((_, index) => lineOf(index)).filter((line) => line.length);
    const row = Math.max(0, lines.findIndex((line) => chosen && line[0].group === chosen.group));
    const line = lines[row], at = chosen ? chosen.place : 0;
    const beside = (step) => {
      const other = lines[(row + step + lines.length) % lines.length];
      const far = (point) => Math.abs(toX(point.at[0]) - toX(line[at].at[0]));
      return other.reduce((best, point) => (far(point) < far(best) ? point : best));
    };
    const moves = {
      ArrowRight: () => line[Math.min(at + 1, line.length - 1)], ArrowLeft: () => line[Math.max(at - 1, 0)],
      ArrowDown: () => beside(1), ArrowUp: () => beside(-1), Home: () => line[0], End: () => line[line.length - 1],
    };
    const zooms = { "+": () => zoom(0.5), "=": () => zoom(0.5), "-": () => zoom(2), 0: () => { view = null; draw(); } };
    if (moves[event.key] && line) choose(moves[event.key](), true);
    else if (zooms[event.key]) zooms[event.key]();
    else return;
    event.preventDefault();
  });
  function setPicture(on) {
    swap.setAttribute("aria-pressed", String(on));
    figure.classList.toggle("live", !on);
    body.hidden = on;
    for (const zoomer of zoomers) zoomer.hidden = on;
    if (!on) draw();
  }
  box.hidden = false;
  say();
  setPicture(false);
  let known = window.innerWidth;
  window.addEventListener("resize", () => { if (known !== window.innerWidth && !body.hidden) { known = window.innerWidth; draw(); } });
}
document.querySelectorAll(".chart").forEach(startChart);
