"use strict";
// The run: who sent what when, and what became of it.
const film = JSON.parse(document.getElementById("data").textContent);
const REQUEST = 1, REPLY = 2, SUBMISSION = 3, LEARNER = -1, HIDDEN_MEMBER = -3, LOST = 0, OFFLINE = 1, LATE = 3;
const m = film.messages, size = m.kind.length, people = film.users.id.length;
for (let i = 0; i < size; i++) { // written as differences
  if (i) m.sent[i] += m.sent[i - 1];
  m.end[i] = m.end[i] < 0 ? -1 : m.sent[i] + m.end[i];
}
const seconds = (tick) => tick * film.tick_s;
const shownTime = (tick) => seconds(tick).toFixed(film.digits) + " s";
const number = (value) => value.toLocaleString("en-US");
const upTo = (sorted, value) => { // how many entries are at most the value
  let low = 0, high = sorted.length;
  while (low < high) { const middle = (low + high) >> 1; if (sorted[middle] <= value) low = middle + 1; else high = middle; }
  return low;
};
const sorted = (values) => values.slice().sort((a, b) => a - b);
const rows = (test) => [...m.kind.keys()].filter(test);
const tallies = {
  sent: rows((i) => !m.copy[i]).map((i) => m.sent[i]),
  duplicated: rows((i) => m.copy[i]).map((i) => m.sent[i]),
  lost: rows((i) => m.how[i] === LOST).map((i) => m.sent[i]),
  undelivered: sorted(rows((i) => m.how[i] === OFFLINE).map((i) => m.end[i])),
  delivered: sorted(rows((i) => m.how[i] > OFFLINE).map((i) => m.end[i])),
  ...film.ends,
};
const counted = (tick) => {
  const line = film.timeline, found = {};
  const step = line ? Math.max(upTo(line.at, tick) - 1, 0) : 0;
  for (const name of Object.keys(film.run)) found[name] = line ? line[name][step] : upTo(tallies[name], tick);
  return found;
};

const mine = Array.from({ length: people }, () => []); // a user's messages, in order
for (let i = 0; i < size; i++) {
  if (m.from[i] >= 0) mine[m.from[i]].push(i);
  if (m.to[i] >= 0 && m.to[i] !== m.from[i]) mine[m.to[i]].push(i);
}
const expired = Array.from({ length: people }, () => []);
film.expired.user.forEach((user, k) => expired[user].push(film.expired.at[k]));
const away = Array.from({ length: people }, () => []); // periods in which a user is offline
film.offline.user.forEach((user, k) => away[user].push([film.offline.from[k], film.offline.to[k]]));
const offline = (user, tick) => away[user].some(([from, to]) => from <= tick && tick < to);

// What a user did: 0 not begun, 1 waits, 2 holds a label, 3 the learner took hers, 4 got no label.
const did = (user, tick) => {
  const by = (name) => film.users[name][user] >= 0 && film.users[name][user] <= tick;
  return by("submitted") ? 3 : by("answered") ? 2 : by("failed") ? 4 : by("asked") ? 1 : 0;
};

// What observers have seen of each user: 0 nothing, 1 a request, 2 her noisy label, 3 a submission, 5 it is herself.
const seenBy = (view, chosen, tick) => {
  const found = new Array(people).fill(0);
  const inside = (user) => user >= 0 && (view === "peer" ? user === chosen : film.users.member[user]) || (view === "coalition" && user === HIDDEN_MEMBER);
  const note = (user, what) => { const rank = [0, 1, 3, 2]; if (rank[what] > rank[found[user]]) found[user] = what; };
  for (let i = 0; i < size && m.sent[i] <= tick; i++) {
    if (m.how[i] <= OFFLINE || m.end[i] > tick || m.from[i] < 0) continue;
    if (m.kind[i] === SUBMISSION) { if (view !== "peer") note(m.from[i], 3); } 
    else if (view !== "learner" && inside(m.to[i])) note(m.from[i], m.kind[i]);
  }
  if (view !== "learner") found.forEach((_, user) => { if (inside(user)) found[user] = 5; });
  return found;
};
// The stage: users as shapes of the picture, messages on a canvas above it.
const stage = document.getElementById("stage"), canvas = document.getElementById("canvas"), pen = canvas.getContext("2d");
const shapes = [...document.querySelectorAll("#users .user")];
[film.users.x, film.users.y] = [0, 1].map((k) => shapes.map((shape) => Number(shape.getAttribute("transform").match(/[\d.]+/g)[k])));
for (const shape of shapes) { // what is clicked is larger than what is seen
  const hit = document.createElementNS("http://www.w3.org/2000/svg", "circle");
  hit.setAttribute("class", "hit");
  hit.setAttribute("r", 12.5 + 20 / film.radius);
  shape.prepend(hit);
}
const KEYS = {
  did: film.protocol?.map((text, state) => [state, text]) ?? [[0, "has not begun"], [1, "waits for a reply"], [2, "has a noisy label, and keeps it"], [3, "passed it on: the learner has it"], [4, "got no label: her request failed"]],
  learner: [[0, "no submission from her"], [3, "a submission from her; not whose label it holds"]],
  peer: [[5, "the chosen user"], [0, "nothing"], [1, film.protocol ? "a request or message from her" : "her request"], [2, film.protocol ? "a reply from her" : "her noisy label"]],
  coalition: [[5, "a member of the coalition"], [0, "no message from her"], [1, film.protocol ? "a request or message from her" : "her request"], [2, film.protocol ? "a reply from her" : "her noisy label, known to be hers"], [3, "her submission"]],
};
let palette = {}, scale = 1;
const place = (user) => user === LEARNER ? film.learner : [film.users.x[user], film.users.y[user]];
const colours = () => {
  const style = getComputedStyle(document.documentElement);
  for (const name of ["bad", "ask", "idle", "submit", "ink", "paper", "l0", "l1", "l2", "l3", "l4", "l5", "l6", "l7"]) palette[name] = style.getPropertyValue("--" + name).trim();
};
const LABELS = 24, TONES = 8; // labels that look different, and their colours
const tone = (label) => label < 0 ? film.protocol ? palette.idle : palette.ask : palette["l" + label % LABELS % TONES];
const outlines = new Map(); // the shapes of labels, from their symbols
const outline = (label) => {
  const name = label < 0 ? "lx" : "l" + label % LABELS;
  if (!outlines.has(name)) outlines.set(name, new Path2D(document.querySelector("#" + name + " path").getAttribute("d")));
  return outlines.get(name);
};
const figureOf = (user, state, prefix) => { // the label that a user is drawn with, or null; in a protocol of its own a reply may hold any
  if (prefix === "did") return state === 2 ? film.users.got[user] : state === 3 ? film.users.gave[user] : null;
  return state !== 2 ? null : film.protocol ? -1 : film.users.noisy[user];
};
const resize = () => {
  const ratio = Math.min(window.devicePixelRatio || 1, 2);
  canvas.width = Math.round(stage.clientWidth * ratio);
  canvas.height = Math.round(stage.clientHeight * ratio);
  scale = canvas.width / 1000;
};

const was = new Array(people).fill(null);
const paint = (user, state, off, prefix) => {
  const key = prefix + state + off;
  if (was[user] === key) return;
  was[user] = key;
  const shape = shapes[user], [use, slash] = shape.querySelectorAll("use");
  shape.classList.remove("off", ...[0, 1, 2, 3, 4, 5].flatMap((k) => ["did" + k, "seen" + k]));
  const label = figureOf(user, state, prefix), drawn = label === null ? "k" + state : label < 0 ? "lx" : "l" + label % LABELS;
  shape.setAttribute("class", shape.getAttribute("class").replace(/ c-l\w+/g, "") + (label === null ? "" : " c-" + drawn));
  shape.classList.add(prefix + state);
  use.setAttribute("href", "#" + drawn);
  if (off) shape.classList.add("off");
  if (off && !slash) {
    const line = use.cloneNode();
    line.setAttribute("href", "#off"); line.setAttribute("class", "slash");
    shape.append(line);
  } else if (!off && slash) slash.remove();
};

const figure = (i, x, y, r) => { // a request is a ring, full if she asks again; a reply its label, a submission its label in a ring
  if (m.kind[i] !== REPLY) {
    pen.beginPath(); pen.arc(x, y, m.kind[i] === REQUEST ? 0.8 * r : 1.7 * r, 0, 7);
    pen.fillStyle = m.kind[i] === REQUEST && m.attempt[i] > 0 ? palette.ask : palette.paper; pen.strokeStyle = m.kind[i] === REQUEST ? palette.ask : palette.submit; pen.lineWidth = 2;
    pen.fill(); pen.stroke();
  }
  if (m.kind[i] === REQUEST) return;
  pen.save(); pen.translate(x, y); pen.scale(r / 9, r / 9);
  pen.fillStyle = tone(m.label[i]);
  pen.fill(outline(m.label[i]));
  pen.restore();
};
const cross = (x, y, r) => {
  pen.beginPath(); pen.moveTo(x - r, y - r); pen.lineTo(x + r, y + r); pen.moveTo(x + r, y - r); pen.lineTo(x - r, y + r); pen.stroke();
};

// Messages bend a little to the right of their way, so that a reply does not hide its request.
const bend = (a, b, share) => {
  const dx = b[0] - a[0], dy = b[1] - a[1], side = 0.14 * 4 * share * (1 - share) / 2;
  return [a[0] + dx * share - dy * side, a[1] + dy * share + dx * side];
};
const trail = (a, b, from, to) => {
  pen.beginPath();
  for (let k = 0; k <= 8; k++) { const p = bend(a, b, from + (to - from) * k / 8); if (k) pen.lineTo(p[0], p[1]); else pen.moveTo(p[0], p[1]); }
  pen.stroke();
};
const girth = Math.max(4.6, 0.75 * film.radius); // half the size of a message
const rim = ([x, y]) => { // where a message to the learner ends: before its name
  const [a, b] = film.learner, reach = (film.learner_radius + 1.7 * girth + 4) / Math.max(Math.hypot(x - a, y - b), 1);
  return [a + (x - a) * reach, b + (y - b) * reach];
};
const drawMessages = (tick, chosen, linger) => {
  pen.setTransform(scale, 0, 0, scale, 0, 0);
  pen.clearRect(0, 0, 1000, 640);
  const r = girth;
  let flying = 0;
  for (let i = 0; i < size && m.sent[i] <= tick; i++) {
    const never = m.how[i] === LOST, end = never ? m.sent[i] + linger : m.end[i];
    if (tick > end + linger || m.from[i] < LEARNER || m.to[i] < LEARNER) continue;
    const a = place(m.from[i]), b = m.to[i] === LEARNER ? rim(a) : place(m.to[i]), of = m.from[i] === chosen || m.to[i] === chosen;
    const share = Math.min((tick - m.sent[i]) / Math.max(end - m.sent[i], 1), 1);
    const reach = never ? 0.5 * share : share, fade = tick > end ? 1 - (tick - end) / linger : 1;
    const failed = m.how[i] <= OFFLINE && share === 1, tail = Math.max(0, reach - 0.45) + (reach - Math.max(0, reach - 0.45)) * (1 - fade);
    if (share < 1) flying++;
    pen.globalAlpha = (chosen < 0 || of ? 0.75 : 0.2) * fade;
    pen.strokeStyle = failed ? palette.bad : m.kind[i] === REQUEST ? palette.ask : m.kind[i] === REPLY ? tone(m.label[i]) : palette.submit; pen.lineWidth = of ? 3 : 1.5;
    trail(a, b, tail, reach);
    pen.globalAlpha = (chosen < 0 || of ? 1 : 0.35) * fade;
    const p = bend(a, b, reach);
    if (failed) { pen.lineWidth = 2.6; cross(p[0], p[1], r); } 
    else if (share < 1) figure(i, p[0], p[1], of ? 1.3 * r : r);
  }
  pen.globalAlpha = 1;
  return flying;
};

const keyList = document.getElementById("users-key");
const KEYED = { did: (k) => "did" + k, other: (k) => "seen" + k };
const drawKey = (view) => {
  const lines = [...KEYS[view]];
  if (film.offline.user.length) lines.push(["off", "offline now"]);
  const shaped = view === "did" || !film.protocol, given = [...film.users.got, ...film.users.gave];
  keyList.replaceChildren(...lines.map(([state, text]) => {
    const line = document.createElement("li"), svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    svg.setAttribute("viewBox", "-11 -11 22 22"); svg.setAttribute("aria-hidden", "true");
    svg.setAttribute("class", state === "off" ? "did6" : (view === "did" ? KEYED.did : KEYED.other)(state));
    const use = document.createElementNS("http://www.w3.org/2000/svg", "use");
    use.setAttribute("href", state === "off" ? "#off" : state === 2 || (view === "did" && state === 3) ? "#" + (shaped && given.some((label) => label >= 0) ? "l0" : "lx") : "#k" + state);
    svg.append(use);
    const words = document.createElement("span"), count = document.createElement("b");
    count.dataset.state = state;
    words.append(text + ": ", count);
    line.append(svg, words);
    return line;
  }));
};
const drawUsers = (view, chosen, tick) => {
  const counts = { off: 0 }, doing = [0, 0, 0, 0, 0];
  const seen = view === "did" ? null : seenBy(view, chosen, tick);
  for (let user = 0; user < people; user++) {
    const now = did(user, tick), state = seen ? seen[user] : now, off = offline(user, tick);
    counts[state] = (counts[state] || 0) + 1;
    doing[now]++;
    if (off) counts.off++;
    paint(user, state, off, seen ? "seen" : "did");
  }
  for (const cell of keyList.querySelectorAll("b")) cell.textContent = number(counts[cell.dataset.state] || 0);
  return doing;
};
const basket = [...document.querySelectorAll("#basket text")], gained = basket.map((_, label) => sorted(
  film.users.submitted.filter((tick, user) => tick >= 0 && film.users.gave[user] === label)));
const drawLearner = (tick) => basket.forEach((text, label) => { text.textContent = number(upTo(gained[label], tick)); });
