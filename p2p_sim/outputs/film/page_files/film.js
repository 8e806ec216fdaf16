// Play, pause, and everything that follows from the time that is shown.
const by = (id) => document.getElementById(id);
const slider = by("slider"), play = by("play"), speed = by("speed"), view = by("view"), chooser = by("user");
const WHOLE_MS = 24000; // the whole run at speed 1
let tick = film.still, playing = false, touched = false, last = 0, chosen = -1, marked = -2;
const rate = () => film.end / WHOLE_MS * Number(speed.value); // ticks in a millisecond
const show = () => {
  drawUsers(view.value, chosen, tick);
  document.body.dataset.flying = drawMessages(tick, chosen, Math.max(450 * rate(), 1));
  const counts = counted(tick);
  for (const name of Object.keys(counts)) by("now-" + name).textContent = number(counts[name]);
  slider.value = String(Math.round(1000 * tick / film.end));
  slider.setAttribute("aria-valuetext", shownTime(tick));
  by("now").textContent = shownTime(tick);
  const begun = lines.filter(([at]) => at <= tick).length;
  if (begun !== marked) { marked = begun; markLine(tick); }
};
const frame = (time) => {
  if (!playing) return;
  tick = Math.min(tick + rate() * Math.min(time - last, 100), film.end);
  last = time;
  show();
  if (tick >= film.end) stop(); else requestAnimationFrame(frame);
};
const stop = () => { playing = false; play.textContent = "Play"; };
const start = () => {
  if (!touched || tick >= film.end) tick = 0;
  playing = touched = true;
  play.textContent = "Pause";
  last = performance.now();
  requestAnimationFrame(frame);
};
const jump = (to) => { stop(); touched = true; tick = Math.min(Math.max(to, 0), film.end); show(); };
const pace = () => {
  by("pace").textContent = "One second on the screen is " + Number((seconds(rate()) * 1000).toPrecision(2)) + " s of the run. Click a user, or choose her in the list; among the users in the picture the arrow keys move and Enter chooses.";
};
const choose = (user) => {
  if (chosen >= 0) { shapes[chosen].classList.remove("chosen"); shapes[chosen].setAttribute("aria-pressed", "false"); }
  chosen = user;
  marked = -2;
  chooser.value = String(user);
  if (user >= 0) { shapes[user].classList.add("chosen"); shapes[user].setAttribute("aria-pressed", "true"); rove(user, false); }
  showUser(user, jump);
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
play.addEventListener("click", () => playing ? stop() : start());
slider.addEventListener("input", () => jump(Number(slider.value) / 1000 * film.end));
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
by("controls").hidden = by("pace").hidden = by("worst").hidden = false;
document.querySelectorAll(".js").forEach((cell) => { cell.hidden = false; });
colours(); resize(); pace(); drawKey("did"); show();
