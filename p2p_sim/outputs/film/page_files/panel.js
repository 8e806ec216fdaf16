// One user: what she did, who could see what, and her ε.
const one = document.getElementById("one");
const element = (name, content, className) => {
  const made = document.createElement(name);
  if (className) made.className = className;
  made.append(...[content].flat());
  return made;
};
const called = (user) => user === LEARNER ? "the learner" : user === -2 ? "a user who is not shown" : "user " + film.users.id[user];
const fate = (i) => m.how[i] === LOST ? "; it is lost" : m.how[i] === OFFLINE ? "; " + called(m.to[i]) + " is offline" : "";
const late = (i) => m.how[i] === LATE ? ", too late: it is dropped" : "";
const told = (user) => { // [tick, text] in order of time
  const lines = [];
  for (const i of mine[user]) {
    const kind = m.kind[i], arrived = m.how[i] > OFFLINE, other = called(m.from[i] === user ? m.to[i] : m.from[i]);
    const copy = m.copy[i] ? " (a copy made by the network)" : "";
    if (m.from[i] === user && kind === REQUEST) {
      const again = m.attempt[i] ? ", retry " + m.attempt[i] : "";
      lines.push([m.sent[i], (!m.forwarded[i] ? "asks " + other + " for her noisy label" + again : "forwards a request to " + other) + copy + fate(i)]);
    } else if (m.from[i] === user && kind === REPLY) lines.push([m.sent[i], "sends her noisy label to " + other + copy + fate(i)]);
    else if (m.from[i] === user) {
      lines.push([m.sent[i], (film.users.own[user] ? "submits her own noisy label" : "submits the noisy label that she fetched") + copy + fate(i) + late(i)]);
    } else if (arrived && kind === REQUEST) lines.push([m.end[i], "gets a request from " + other]);
    else if (arrived && kind === REPLY) lines.push([m.end[i], "gets the noisy label of " + other + late(i)]);
    if (m.from[i] === user && m.to[i] === user && arrived) lines.push([m.end[i], kind === REQUEST ? "gets her own request" : "gets her own noisy label"]);
  }
  for (const tick of expired[user]) lines.push([tick, "her request expires", -1]);
  for (const [from, to] of away[user]) {
    if (from > 0) lines.push([from, "goes offline"]);
    if (to < film.end) lines.push([to, "comes online"]);
  }
  if (film.users.submitted[user] >= 0) lines.push([film.users.submitted[user], "the learner takes her submission"]);
  return lines.sort((a, b) => a[0] - b[0] || (a[2] ?? 0) - (b[2] ?? 0)); // a request expires before the next is sent
};
const list = (users) => {
  const known = [...new Set(users)], names = known.filter((user) => user >= 0).map((user) => film.users.id[user]).sort((a, b) => a - b);
  const hidden = known.includes(-2) ? " and users who are not shown" : "";
  return names.length ? (names.length > 1 ? "users " : "user ") + names.join(", ") + hidden : "users who are not shown";
};
const watched = (user) => { // who could see what in the whole run
  const arrived = mine[user].filter((i) => m.from[i] === user && m.how[i] > OFFLINE && m.to[i] !== user);
  const to = (kind) => arrived.filter((i) => m.kind[i] === kind).map((i) => m.to[i]);
  const labels = to(REPLY), requests = to(REQUEST), found = [];
  const carried = film.users.carried[user]; // numbers of users, of all users of the run
  found.push(carried.length
    ? "The learner: her noisy label, in the submission of " + (carried.length > 1 ? "users " : "user ") + carried.join(", ") + "; not that it is hers."
    : "The learner: not her noisy label, which no submission holds.");
  found.push(to(SUBMISSION).length ? "The learner: a submission from her; not whose label it holds." : "The learner: no submission from her.");
  found.push(labels.length ? "Her noisy label, and that it is hers: " + list(labels) + "." : "Her noisy label: no other user.");
  found.push(requests.length ? "Her request: " + list(requests) + "." : "Her request: no other user.");
  if (film.users.member.some(Boolean)) {
    const member = labels.filter((other) => other >= 0 && film.users.member[other]);
    found.push(film.users.member[user] ? "She is a member of the coalition: it sees all that she sees." : member.length
      ? "The coalition: her noisy label, by " + list(member) + "." : "The coalition: no shown member received her noisy label.");
  }
  const all = mine[user].filter((i) => m.from[i] === user && !m.copy[i]).length;
  found.push("An eavesdropper: every message that she sent, " + number(all) + " in all.");
  return found;
};
let lines = [];
const showUser = (user, jump) => {
  lines = [];
  if (user < 0) { one.replaceChildren(element("p", film.nobody)); return; }
  const facts = [
    ["user", film.users.id[user] + " of cluster " + film.users.cluster[user] + (film.users.member[user] ? ", member of the coalition" : "")],
    ["her ε", "at most " + film.users.epsilon[user] + ", against a learner who sees the set of submissions, at δ = " + film.delta + "; under the conditions below"],
    ["ε₀", "at most " + film.epsilon_local + ", against a peer who received her noisy label, or an eavesdropper"],
  ];
  const story = element("ol", []);
  story.tabIndex = -1;
  const log = told(user);
  for (const [tick, text] of log) {
    const button = element("button", [element("time", shownTime(tick)), element("span", text)]);
    button.type = "button";
    button.addEventListener("click", () => jump(tick));
    const line = element("li", button);
    lines.push([tick, line]);
    story.append(line);
  }
  const parts = [element("dl", facts.flatMap(([name, value]) => [element("dt", name), element("dd", value)])),
    element("h3", "Who could see what"), element("ul", watched(user).map((text) => element("li", text))),
    element("h3", "What she did (choose a line to go to its time)"),
    log.length ? story : element("p", "Nothing: she never took part.")];
  one.replaceChildren(...parts);
};
const markLine = (tick) => {
  let last = null;
  for (const [at, line] of lines) { line.classList.remove("now"); if (at <= tick) last = line; }
  if (last) { last.classList.add("now"); last.parentNode.scrollTop = last.offsetTop - last.parentNode.offsetTop - 90; }
};
