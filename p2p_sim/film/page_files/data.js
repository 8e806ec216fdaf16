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
