// The opening: one user's label, step by step, drawn over the crowd; and what the learner believes at the end.
const tale = film.story, scene = document.getElementById("story"), caption = document.getElementById("caption");
const captions = [...document.querySelectorAll("#steps li")].map((line) => line.innerHTML);
const CROWD = tale.steps.findIndex(([name]) => name === "crowd");
const begins = tale.steps.map((_, step) => tale.steps.slice(0, step).reduce((sum, [, length]) => sum + length, 0));
const OPENING = begins[CROWD], ZOOMED = OPENING + tale.steps[CROWD][1]; // ms at speed 1
const part = (name) => document.getElementById("story-" + name);
const SPOT = { true: [305, 130], noisy: [305, 330], got: [305, 440], peer: [480, 240], other: [480, 450], learner: [835, 205], second: [835, 465] };
const LANDS = { alpha: 0.62, asks: 0.45, theta: 0.6 }; // when the second half of a caption is told
const within = (share, from, to) => Math.min(Math.max((share - from) / (to - from), 0), 1);
const eased = (share) => share * share * (3 - 2 * share);
const between = (a, b, share) => [a[0] + (b[0] - a[0]) * eased(share), a[1] + (b[1] - a[1]) * eased(share)];
const put = (element, [x, y], wide = 1) => element.setAttribute("transform", `translate(${x} ${y}) scale(${wide} 1)`);
const visible = (element, is) => element.setAttribute("visibility", is ? "inherit" : "hidden");
const look = (element, label) => { // a card shows a label
  const name = label < 0 ? "lx" : "l" + label;
  element.setAttribute("class", "c-" + name);
  element.querySelector("use").setAttribute("href", "#" + name);
};
const spin = (name, share, face) => { // a coin turns, and lies on one side
  const turning = share < 1;
  put(part(name), [110, name === "alpha" ? 225 : 545], turning ? Math.max(Math.abs(Math.cos(share * 5 * Math.PI)), 0.08) : 1);
  part(name).querySelector("text").textContent = turning ? "?" : face;
  part(name).classList.toggle("landed", !turning);
};
const drawScene = (step, share) => {
  const at = (name) => { // how far a scene has come: 0 before it, 1 after it
    const found = tale.steps.findIndex(([other]) => other === name);
    return found < 0 || found > step ? 0 : found < step ? 1 : share;
  };
  const alpha = at("alpha"), asks = at("asks"), reply = at("reply"), theta = at("theta"), gives = at("submits"), hers = at("hers");
  const flips = tale.noisy >= 0 && tale.noisy !== tale.true, turned = within(alpha, 0.62, 0.82);
  // the label is copied, and the coin α turns the copy over
  for (const [name, share] of [["row-alpha", alpha], ["coin-alpha", alpha], ["peers", asks], ["row-reply", Math.max(reply, theta)], ["coin-theta", theta], ["learner", theta]]) part(name).setAttribute("opacity", within(share, 0, 0.08));
  spin("alpha", within(alpha, 0.05, 0.4), tale.noisy < 0 ? "noise" : flips ? "flip" : "keep");
  visible(part("noisy"), alpha > 0.42);
  look(part("noisy"), tale.noisy < 0 ? (turned > 0.5 ? -1 : tale.true) : turned > 0.5 ? tale.noisy : tale.true);
  put(part("noisy"), between(SPOT.true, SPOT.noisy, within(alpha, 0.42, 0.6)), flips || tale.noisy < 0 ? Math.max(Math.abs(Math.cos(turned * Math.PI)), 0.05) : 1);
  // one of the others is drawn
  const wheel = within(asks, 0.05, 0.45), chosen = wheel === 0 ? -1 : wheel < 1 ? Math.floor(wheel * 11) % 5 : 1;
  document.querySelectorAll("#story .peer").forEach((peer, k) => peer.classList.toggle("drawn", k === chosen || (k === 3 && hers > 0)));
  part("ben").textContent = wheel < 1 ? "?" : tale.peer;
  visible(part("ask"), asks > 0.45 && (asks < 1 || !tale.answered));
  const asked = within(asks, 0.48, 0.95);
  put(part("ask"), between(SPOT.got, SPOT.peer, tale.answered ? asked : Math.min(asked, 0.6)));
  visible(part("lost"), !tale.answered && asked > 0.6);
  if (!tale.answered) put(part("lost"), between(SPOT.got, SPOT.peer, 0.6));
  // the reply, and the coin θ
  const own = reply === 0 && theta > 0;
  visible(part("got"), reply > 0.12 || own);
  put(part("got"), own ? SPOT.got : between(SPOT.peer, SPOT.got, within(reply, 0.2, 0.85)));
  spin("theta", within(theta, 0.1, 0.6), tale.passes ? "pass" : "stop");
  // what the learner gets
  const come = within(gives, 0.1, 0.75), fails = gives > 0 && !tale.taken;
  visible(part("sent"), gives > 0);
  put(part("sent"), between(SPOT.got, SPOT.learner, fails ? Math.min(come, 0.55) : come));
  if (fails && come > 0.55) { visible(part("lost"), true); put(part("lost"), between(SPOT.got, SPOT.learner, 0.55)); }
  visible(part("from"), gives > 0.75 && tale.taken);
  visible(part("hers"), hers > 0);
  put(part("hers"), hers < 0.45 ? between(SPOT.noisy, SPOT.other, within(hers, 0.05, 0.42)) : between(SPOT.other, SPOT.second, within(hers, 0.5, 0.85)));
  visible(part("other"), hers > 0.42);
  visible(part("from2"), hers > 0.85);
};
for (const [name, label] of [["true", tale.true], ["got", tale.got], ["sent", tale.got], ["hers", tale.noisy]]) look(part(name), label);
put(part("true"), SPOT.true);
const drawStory = (clock) => {
  const step = Math.min(begins.filter((begin) => begin <= clock).length - 1, CROWD - 1);
  const zoom = within(clock, OPENING, ZOOMED), [x, y] = place(tale.place), scale = 1 - 0.98 * eased(zoom);
  visible(scene, zoom < 1);
  if (zoom >= 1) { caption.classList.remove("waiting"); return; }
  caption.classList.toggle("waiting", zoom === 0 && (clock - begins[step]) / tale.steps[step][1] < LANDS[tale.steps[step][0]]);
  drawScene(step, zoom > 0 ? 1 : (clock - begins[step]) / tale.steps[step][1]);
  scene.setAttribute("transform", `translate(${x * (1 - scale)} ${y * (1 - scale)}) scale(${scale})`);
};
const say = (html) => { if (caption.dataset.said !== html) { caption.dataset.said = html; caption.innerHTML = html; } };
