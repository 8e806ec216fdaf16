// Play, pause, step, and everything that follows from the time that is shown.
const by = (id) => document.getElementById(id);
const slider = by("slider"), play = by("play"), speed = by("speed"), view = by("view"), chooser = by("user");
const RUN_MS = 24000, END = ZOOMED + RUN_MS; // the whole run at speed 1, and the end of the film
let clock = 0, playing = false, last = 0, chosen = -1, marked = -2; // clock: ms of the film at speed 1
const tickAt = (ms) => film.end * Math.min(Math.max((ms - ZOOMED) / RUN_MS, 0), 1);
const clockAt = (tick) => ZOOMED + RUN_MS * tick / film.end;
let events = null;
const happened = () => events ??= logs().sort((a, b) => a[0] - b[0]); // [tick, text], of all users
const stops = () => { // where steps lead to: the opening's steps when they are done, then each event, then the end
  const ends = begins.slice(2, CROWD + 1).map((begin) => begin - 1);
  return [...new Set([0, ...ends, ZOOMED, ...happened().map(([tick]) => clockAt(tick)), END])];
};
const step = (way) => {
  const all = stops(), next = way > 0 ? all.find((stop) => stop > clock + 1e-6) : all.findLast((stop) => stop < clock - 1e-6);
  if (next !== undefined) jump(next);
};
const narrate = (tick, doing) => {
  const now = begins.filter((begin) => begin <= clock).length - 1;
  if (clock < ZOOMED) return say(captions[Math.min(now, CROWD)]);
  if (clock >= END) return say(captions[CROWD + 1]);
  const here = playing ? [] : happened().filter(([at]) => Math.abs(clockAt(at) - clock) < 1e-6);
  if (here.length) return say(here.map(([, text]) => text).join("; ") + ".");
  const [idle, wait, hold, passed, failed] = doing.map(number);
  if (film.protocol) return say(`All users, ${tale.name} too: ${idle} have not asked, ${wait} wait, ${hold} got a label, ${failed} got none; from ${passed} the learner took one.`);
  say(`All users, ${tale.name} too: ${idle} have not begun, ${wait} wait, ${hold} keep a label, ${passed} passed one on, ${failed} got none.`);
};
const show = () => {
  const tick = tickAt(clock);
  const doing = drawUsers(view.value, chosen, tick);
  document.body.dataset.flying = drawMessages(clock < ZOOMED ? -1 : clock < END ? tick : Infinity, chosen, Math.max(450 * film.end / RUN_MS, 1));
  drawLearner(tick);
  drawStory(clock);
  narrate(tick, doing);
  const counts = counted(tick);
  for (const name of Object.keys(counts)) by("now-" + name).textContent = number(counts[name]);
  slider.value = String(Math.round(1000 * clock / END));
  const now = clock < ZOOMED ? `${tale.name}’s story` : shownTime(tick);
  slider.setAttribute("aria-valuetext", now);
  by("now").textContent = now;
  by("beliefs").setAttribute("visibility", clock >= END && tale.beliefs.length ? "visible" : "hidden");
  const begun = lines.filter(([at]) => at <= tick).length;
  if (begun !== marked) { marked = begun; markLine(tick); }
};
const frame = (time) => {
  if (!playing) return;
  clock = Math.min(clock + Number(speed.value) * Math.min(Math.max(time - last, 0), 100), END);
  last = time;
  if (clock >= END) stop();
  show();
  if (playing) requestAnimationFrame(frame);
};
const stop = () => { playing = false; play.textContent = "Play"; caption.setAttribute("aria-live", "polite"); };
const start = () => {
  if (clock >= END) clock = 0;
  playing = true;
  play.textContent = "Pause";
  caption.setAttribute("aria-live", "off");
  last = performance.now();
  requestAnimationFrame(frame);
};
const jump = (to) => { stop(); clock = Math.min(Math.max(to, 0), END); show(); };
const pace = () => {
  by("pace").textContent = "One second on the screen is " + Number((seconds(film.end) / RUN_MS * 1000 * Number(speed.value)).toPrecision(2)) + " s of the run. ← and → go step by step. Click a user, or choose her in the list; among the users in the picture the arrow keys move and Enter chooses.";
};
const choose = (user) => {
  if (chosen >= 0) { shapes[chosen].classList.remove("chosen"); shapes[chosen].setAttribute("aria-pressed", "false"); }
  chosen = user;
  marked = -2;
  chooser.value = String(user);
  if (user >= 0) { shapes[user].classList.add("chosen"); shapes[user].setAttribute("aria-pressed", "true"); rove(user, false); }
  showUser(user, (tick) => jump(clockAt(tick)));
  show();
};
let reached = 0;
const rove = (user, focus) => {
  shapes[reached].tabIndex = -1;
  reached = user;
  shapes[user].tabIndex = 0;
  if (focus) shapes[user].focus();
};
const towards = (dx, dy) => { // the nearest user in a direction
  const [x, y] = place(reached);
  let best = -1, least = Infinity;
  for (let user = 0; user < people; user++) {
    const ahead = (film.users.x[user] - x) * dx + (film.users.y[user] - y) * dy;
    const aside = Math.abs((film.users.x[user] - x) * dy) + Math.abs((film.users.y[user] - y) * dx);
    if (user !== reached && ahead > 0.5 && ahead + 2 * aside < least) { least = ahead + 2 * aside; best = user; }
  }
  return best;
};
const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
by("picture").setAttribute("role", "group");
shapes.forEach((shape, user) => {
  shape.setAttribute("role", "button");
  shape.setAttribute("aria-pressed", "false");
  shape.setAttribute("aria-label", "user " + film.users.id[user] + ", cluster " + film.users.cluster[user]);
  shape.tabIndex = user ? -1 : 0;
  shape.addEventListener("focus", () => { if (clock < ZOOMED) jump(ZOOMED); }); // the opening hides the crowd
  shape.addEventListener("click", () => choose(user === chosen ? -1 : user));
  shape.addEventListener("keydown", (event) => {
    if (event.key === "Enter" || event.key === " ") { event.preventDefault(); choose(user === chosen ? -1 : user); }
    if (event.key === "Escape") choose(-1);
    if (ARROWS[event.key]) {
      event.preventDefault();
      const next = towards(...ARROWS[event.key]);
      if (next >= 0) rove(next, true);
    }
  });
});
chooser.append(...film.users.id.map((id, user) => new Option("user " + id + ", cluster " + film.users.cluster[user], user)));
play.addEventListener("click", () => playing ? stop() : start());
by("back").addEventListener("click", () => step(-1));
by("forward").addEventListener("click", () => step(1));
by("skip").addEventListener("click", () => { clock = ZOOMED; show(); if (!playing) start(); });
document.addEventListener("keydown", (event) => {
  if (event.target.closest("input, select, .user, ol") || event.altKey || event.ctrlKey || event.metaKey) return;
  if (event.key === "ArrowRight") step(1); else if (event.key === "ArrowLeft") step(-1); else return;
  event.preventDefault();
});
slider.addEventListener("input", () => jump(Number(slider.value) / 1000 * END));
speed.addEventListener("change", () => { pace(); show(); });
view.addEventListener("change", () => {
  drawKey(view.value);
  if (view.value === "peer" && chosen < 0) choose(reached); else show();
});
chooser.addEventListener("change", () => choose(Number(chooser.value)));
by("worst").addEventListener("click", () => choose(Number(by("worst").value)));
window.addEventListener("resize", () => { resize(); show(); });
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { colours(); show(); });
by("still").remove();
by("steps").hidden = true;
document.querySelectorAll(".scripted").forEach((element) => element.removeAttribute("hidden"));
colours(); resize(); pace(); drawKey("did"); show();
if (!matchMedia("(prefers-reduced-motion: reduce)").matches) start();
