// One user: what she did, who could see what, and her ε.
const one = document.getElementById("one");
const element = (name, content, className) => {
  const made = document.createElement(name);
  if (className) made.className = className;
  made.append(...[content].flat());
  return made;
};
const called = (user) => user === LEARNER ? "the learner" : user < LEARNER ? "a user who is not shown" : "user " + film.users.id[user];
const fate = (i) => m.how[i] === LOST ? "; it is lost" : m.how[i] === OFFLINE ? "; " + called(m.to[i]) + " is offline" : "";
const late = (i) => m.how[i] !== LATE ? "" : film.protocol && m.kind[i] === SUBMISSION ? ", which the learner does not take" : ", too late: it is dropped";
const labelOf = (id, user) => id === film.users.id[user] ? "her own noisy label" : "the noisy label of user " + id;
const logOf = (user) => { // [tick, text] in order of time
  const lines = [];
  for (const i of mine[user]) {
    const kind = m.kind[i], arrived = m.how[i] > OFFLINE, other = called(m.from[i] === user ? m.to[i] : m.from[i]);
    const request = m.attempt[i] < 0 ? "message" : "request", copy = m.copy[i] ? " (a copy made by the network)" : "";
    if (m.from[i] === user && kind === REQUEST) {
      const again = m.attempt[i] > 0 ? ", retry " + m.attempt[i] : "", asks = "asks " + other + (film.protocol ? " for a label" : " for her noisy label") + again;
      lines.push([m.sent[i], (m.forwarded[i] ? "forwards a request to " + other : m.attempt[i] < 0 ? "sends a message to " + other : asks) + copy + fate(i)]);
    } else if (m.from[i] === user && kind === REPLY) lines.push([m.sent[i], (film.protocol ? "replies to " : "sends her noisy label to ") + other + copy + fate(i)]);
    else if (m.from[i] === user) {
      lines.push([m.sent[i], "submits " + (film.protocol ? "a label" : labelOf(film.users.submits[user], user)) + copy + fate(i) + late(i)]);
    } else if (arrived && kind === REQUEST) lines.push([m.end[i], `gets a ${request} from ` + other]);
    else if (arrived && kind === REPLY) lines.push([m.end[i], `gets ${film.protocol ? "a reply from" : "the noisy label of"} ` + other + late(i)]);
    if (m.from[i] === user && m.to[i] === user && arrived) lines.push([m.end[i], "gets her own " + (kind === REQUEST ? request : film.protocol ? "reply" : "noisy label")]);
  }
  for (const tick of expired[user]) lines.push([tick, "her request expires", -1]);
  if (film.users.failed[user] >= 0) lines.push([film.users.failed[user], film.protocol ? "none of her questions got a label" : "gets no label, and gives up"]);
  for (const [from, to] of away[user]) {
    if (from > 0) lines.push([from, "goes offline"]);
    if (to < film.end) lines.push([to, "comes online"]);
  }
  if (film.users.submitted[user] >= 0) lines.push([film.users.submitted[user], "the learner takes her submission"]);
  return lines.sort((a, b) => a[0] - b[0] || (a[2] ?? 0) - (b[2] ?? 0)); // a request expires before the next is sent
};
const logs = () => film.users.id.flatMap((id, user) => logOf(user).map(([tick, text]) => [tick, "User " + id + ": " + text]));
const list = (users) => {
  const known = [...new Set(users)], names = known.filter((user) => user >= 0).map((user) => film.users.id[user]).sort((a, b) => a - b);
  const hidden = known.some((user) => user < LEARNER) ? " and users who are not shown" : "";
  return names.length ? (names.length > 1 ? "users " : "user ") + names.join(", ") + hidden : "users who are not shown";
};
const numbers = (ids, note = () => "") => (ids.length > 1 ? "users " : "user ") + ids.map((id) => id + note(id)).join(", ");
const watchedIn = (user) => { // the same in a protocol of its own, where a message may carry anybody's label
  const { received, held, member } = film.users, gone = mine[user].filter((i) => m.from[i] === user);
  const to = (kind) => gone.filter((i) => m.how[i] > OFFLINE && m.to[i] !== user && m.kind[i] === kind).map((i) => m.to[i]), requests = to(REQUEST);
  return [
    to(SUBMISSION).length ? "The learner: a submission from her. Whose label it holds is up to the protocol." : "The learner: no submission from her.",
    "A reply from her: " + (received[user].length ? numbers(received[user]) : "no other user") + ".",
    "A request or message from her: " + (requests.length ? list(requests) : "no other user") + ".",
    ...(film.coalition ? [member[user] ? "She is a member of the coalition: it sees all that she sees." : "The coalition: " + (held[user] ? "a reply from her, by a member who received it." : "no reply from her.")] : []),
    "An eavesdropper: every message that she sent, " + number(gone.filter((i) => !m.copy[i]).length) + " in all.",
  ];
};
const watched = (user) => { // who could see what in the whole run
  if (film.protocol) return watchedIn(user);
  const { submits, carried, dropped, received, held, member } = film.users, found = [];
  const gone = mine[user].filter((i) => m.from[i] === user), arrived = gone.filter((i) => m.how[i] > OFFLINE && m.to[i] !== user);
  const to = (kind) => arrived.filter((i) => m.kind[i] === kind).map((i) => m.to[i]);
  const late = (id) => dropped[user].includes(id) ? " (too late: it is dropped, but was seen)" : "";
  const own = film.users.id[user], others = carried[user].filter((id) => id !== own);
  const where = [...(others.length < carried[user].length ? ["her own submission" + late(own)] : []), ...(others.length ? ["the submission of " + numbers(others, late)] : [])];
  found.push(where.length
    ? "The learner: her noisy label, in " + where.join(" and ") + "; not that it is hers."
    : "The learner: not her noisy label; no submission that it got holds it.");
  found.push(to(SUBMISSION).length
    ? "The learner: a submission from her. It holds " + labelOf(submits[user], user) + ", and does not say so."
    : "The learner: no submission from her.");
  found.push(received[user].length ? "Her noisy label, and that it is hers: " + numbers(received[user]) + "." : "Her noisy label, as hers: no other user.");
  const requests = to(REQUEST);
  found.push(requests.length ? "Her request: " + list(requests) + "." : "Her request: no other user received one.");
  if (film.coalition) {
    found.push(member[user] ? "She is a member of the coalition: it sees all that she sees."
      : held[user] ? "The coalition: her noisy label, and that it is hers, by a member who received it."
      : carried[user].length ? "The coalition: her noisy label, as the learner has it; no member received it from her."
      : "The coalition: not her noisy label.");
  }
  const all = gone.filter((i) => !m.copy[i]).length;
  const label = gone.some((i) => m.kind[i] === REPLY || (m.kind[i] === SUBMISSION && submits[user] === film.users.id[user]));
  found.push("An eavesdropper: every message that she sent, " + number(all) + " in all" + (label ? ", her noisy label among them." : "; her noisy label is in none."));
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
  const log = logOf(user);
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
