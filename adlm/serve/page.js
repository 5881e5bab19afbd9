"use strict";
const $ = id => document.getElementById(id);
const panes = [new Pane($("panes")), new Pane($("panes"))];
let models = [], now = 0, timer = null, running = null;

// ---- the server ----
const fragment = new URLSearchParams(location.hash.slice(1));
if (fragment.get("token")) {
  sessionStorage.setItem("token", fragment.get("token"));
  history.replaceState(null, "", location.pathname);
}
function ask(path, body, signal) {
  const token = sessionStorage.getItem("token");
  const headers = { "Content-Type": "application/json" };
  if (token) headers.Authorization = `Bearer ${token}`;
  return fetch(path, body === undefined ? { headers, signal }
    : { method: "POST", headers, signal, body: JSON.stringify(body) });
}
async function checked(answer) {
  if (answer.ok) return answer;
  throw new Error((await answer.json()).error.message);
}
async function* eventsOf(answer) {
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  for (let rest = "";;) {
    const { value, done } = await reader.read();
    if (done) return;
    const parts = (rest + value).split("\n\n");
    rest = parts.pop();
    for (const part of parts) {
      const [, name, data] = part.match(/^event: (\w+)\ndata: (.*)$/s);
      yield [name, JSON.parse(data)];
    }
  }
}
function say(text, wrong = false) {
  $("said").textContent = text;
  $("said").classList.toggle("wrong", wrong);
}

// ---- controls ----
const modelOf = id => models.find(m => m.id === id);
function options(select, names, chosen) {
  select.replaceChildren(...names.map(([value, text]) => new Option(text, value)));
  select.value = chosen;
}
function pickModel() {
  const model = modelOf($("model").value), had = $("sampler").value;
  const kept = model.samplers.some(s => s.name === had) ? had : model.usual;
  options($("sampler"), model.samplers.map(s => [s.name, s.name]), kept);
  const cache = model.caches.includes($("cache").value) ? $("cache").value : "none";
  options($("cache"), model.caches.map(c => [c, c]), cache);
  $("cache-means").textContent = model.cache || "what is kept between steps: none is exact, others are faster";
  pickSampler();
}
function pickSampler() {
  const sampler = modelOf($("model").value).samplers.find(s => s.name === $("sampler").value);
  $("sampler-means").textContent = sampler.meaning;
  $("policy").replaceChildren(...Object.entries(sampler.options).map(([name, value]) => {
    const label = document.createElement("label"), input = document.createElement("input");
    input.type = typeof value === "boolean" ? "checkbox" : typeof value === "number" ? "number" : "text";
    input.step = "any";
    if (input.type === "checkbox") input.checked = value; else input.value = value;
    input.dataset.option = name;
    input.dataset.default = JSON.stringify(value);
    label.append(`${sampler.name}: ${name}`, input);
    return label;
  }));
}
function policy() {
  const found = {};
  for (const input of $("policy").querySelectorAll("input")) {
    const usual = JSON.parse(input.dataset.default);
    const value = typeof usual === "boolean" ? input.checked : typeof usual === "number" ? +input.value : input.value;
    if (value !== usual) found[input.dataset.option] = value;
  }
  return found;
}
const whole = id => $(id).value === "" ? null : Math.trunc(+$(id).value);
function manner(id) {
  const has = modelOf(id).samplers.some(s => s.name === $("sampler").value);
  return { model: id, seed: whole("seed"), temperature: +$("temperature").value,
    top_p: +$("nucleus").value, steps: whole("steps"),
    cache: modelOf(id).caches.includes($("cache").value) ? $("cache").value : "none",
    sampler: has ? $("sampler").value : null, policy: has ? policy() : null };
}
function outputs() {
  for (const id of ["temperature", "nucleus"]) $(`${id}-is`).textContent = (+$(id).value).toFixed(2);
}
function makeHole() {
  const box = $("text"), chosen = box.value.slice(box.selectionStart, box.selectionEnd);
  const words = chosen.trim().split(/\s+/).filter(Boolean).length;
  const inside = chosen.match(/^(\s*)[^]*?(\s*)$/);
  const hole = `${inside[1]}[MASK${words > 1 ? ":" + words : ""}]${inside[2]}`;
  box.setRangeText(hole, box.selectionStart, box.selectionEnd, "end");
  box.focus();
}
function layout() {
  const two = $("other").value !== "";
  panes[1].box.hidden = !two;
  $("panes").classList.toggle("two", two);
  return two ? panes : [panes[0]];
}

// ---- the player ----
const last = () => Math.max(0, ...layout().map(p => p.last));
const live = () => running !== null;
function show(step) {
  now = Math.max(0, Math.min(last(), step));
  for (const pane of layout()) if (!pane.scores) pane.show(Math.min(now, pane.last));
  $("scrub").max = last();
  $("scrub").value = now;
  $("where").textContent = `step ${now} of ${last()}`;
}
function pause() { clearInterval(timer); timer = null; $("play").textContent = "▶"; }
function play() {
  if (timer) return pause();
  if (!live() && now >= last()) show(0);
  unscore();
  $("play").textContent = "❚❚";
  timer = setInterval(() => { show(now + 1); if (!live() && now >= last()) pause(); }, 1000 / $("speed").value);
}
function unscore() {
  for (const pane of layout()) if (pane.scores && pane.trace) {
    pane.scores = null;
    pane.build(pane.trace.template.length);
    pane.head.textContent = pane.trace.about;
  }
}
function go(step) { pause(); unscore(); show(step); }

// ---- runs ----
async function run(pane, body, from) {
  pane.chain = from === null ? [{ body, from }] : [...pane.chain, { body, from }];
  const answer = await checked(await ask("trace", body, running.signal));
  for await (const [name, data] of eventsOf(answer)) {
    if (name === "start") pane.start(data, from);
    else if (name === "step") pane.step(data);
    else if (name === "end") pane.end(data);
    else throw new Error(data.error.message);
    if (name !== "step" || !timer) show(now);
  }
  $("kind").textContent = coloured(pane.trace);
  $("rule").textContent = pane.trace.rule.replace(/^[a-z]+: /, "");
}
async function together(task, from = 0) {
  if (running) running.abort();
  const mine = running = new AbortController();
  pause();
  now = from;
  $("stop").disabled = false;
  say("writing …");
  play();
  try {
    await Promise.all(layout().map(task));
    say("done");
  } catch (error) {
    if (error.name !== "AbortError") { say(error.message, true); pause(); }
    else if (running === mine) say("stopped");
    mine.abort();
  }
  if (running === mine) {
    running = null;
    $("stop").disabled = true;
    if (!timer) show(now);
  }
}
const idOf = pane => pane === panes[0] ? $("model").value : $("other").value;
function fill() {
  return together(pane => {
    const body = manner(idOf(pane)), text = $("text").value;
    pane.clear(body.model);
    if (/\[MASK(:\d+)?\]/.test(text)) body.text = text;
    else Object.assign(body, { prompt: text, max_tokens: whole("tokens") });
    return run(pane, body, null);
  });
}
function another() { $("seed").value = (whole("seed") + 1) % 2147483648; }
function ready() {
  const ok = layout().every(p => p.trace);
  if (!ok) say("fill a text first", true);
  else unscore();
  return ok;
}
function again() {
  if (!ready()) return;
  const from = now;
  if (layout().every(p => !p.template(Math.min(from, p.last), () => true).includes(null))) {
    return say("nothing is open at this step: go back some steps", true);
  }
  another();
  return together(pane => {
    const at = Math.min(from, pane.last), template = pane.template(at, () => true);
    if (!template.includes(null)) return null;
    const steps = whole("steps") && Math.max(1, pane.last - at);
    return run(pane, { ...manner(pane.model), template, steps }, at);
  }, from);
}
function redraw() {
  if (!ready()) return;
  another();
  return together(pane => {
    const keep = l => pane.first[l] || pane.frozen.has(l);
    return run(pane, { ...manner(pane.model), template: pane.template(pane.last, keep) }, null);
  });
}
async function score() {
  if (layout().some(p => p.scores)) { unscore(); return show(now); }
  pause();
  try {
    await Promise.all(layout().map(async pane => {
      const text = pane.done ? pane.whole() : $("text").value;
      const told = await (await checked(await ask("nll", { model: idOf(pane), text, draws: 64 }))).json();
      pane.model = told.model;
      pane.heat(told.texts[0], told.exact);
    }));
    say("the redder, the less expected");
  } catch (error) { say(error.message, true); }
}

// ---- hands ----
function tokenOf(target) {
  const span = target.closest && target.closest("article .t");
  return span ? [panes.find(p => p.box.contains(span)), +span.dataset.at, span] : null;
}
function tell(event) {
  const found = tokenOf(event.target), tip = $("tip");
  tip.hidden = !found;
  if (!found) return;
  const [pane, l, span] = found, box = span.getClientRects()[0] || span.getBoundingClientRect();
  tip.textContent = pane.lines(l, Math.min(now, pane.last)).join("\n");
  const below = box.bottom + tip.offsetHeight + 12 < innerHeight;
  tip.style.left = `${Math.max(8, Math.min(innerWidth - tip.offsetWidth - 8, box.left))}px`;
  tip.style.top = `${below ? box.bottom + 6 : box.top - tip.offsetHeight - 6}px`;
}
function freeze(target) {
  const found = tokenOf(target);
  if (!found) return;
  found[0].toggle(found[1]);
  show(now);
}
const KEYS = { " ": play, ArrowLeft: () => go(now - 1), ArrowRight: () => go(now + 1),
  Home: () => go(0), End: () => go(last()), r: again, d: redraw, p: score, l: share, s: save,
  f: event => freeze(event.target) };
document.addEventListener("keydown", event => {
  if (event.ctrlKey && event.key === "Enter") return void fill();
  if (event.altKey && event.key.toLowerCase() === "m") { event.preventDefault(); return makeHole(); }
  if (event.key === "Escape" && running) return running.abort();
  if (event.ctrlKey || event.altKey || event.metaKey) return;
  if (/^(TEXTAREA|INPUT|SELECT)$/.test(event.target.tagName)) return;
  if (event.target.tagName === "BUTTON" && event.key === " ") return;
  const hand = KEYS[event.key];
  if (hand) { event.preventDefault(); hand(event); }
});
for (const kind of ["mouseover", "focusin"]) document.addEventListener(kind, tell);
$("panes").addEventListener("click", event => { freeze(event.target); tell(event); });
const CLICKS = { hole: makeHole, fill, stop: () => running && running.abort(), score, play,
  first: () => go(0), less: () => go(now - 1), more: () => go(now + 1), again, redraw, share, save };
for (const [id, hand] of Object.entries(CLICKS)) $(id).onclick = () => void hand();
$("scrub").oninput = () => go(+$("scrub").value);
$("speed").onchange = () => { if (timer) { pause(); play(); } };
$("model").onchange = pickModel;
$("other").onchange = () => { layout(); show(now); };
$("sampler").onchange = pickSampler;
for (const id of ["temperature", "nucleus"]) $(id).oninput = outputs;

async function begin() {
  outputs();
  models = (await (await checked(await ask("v1/models"))).json()).data;
  const names = models.map(m => [m.id, m.id]);
  options($("model"), names, models[0].id);
  options($("other"), [["", "none"], ...names], "");
  pickModel();
  layout();
  if (fragment.get("s")) await restore(fragment.get("s"));
}
begin().catch(error => say(error.message, true));
