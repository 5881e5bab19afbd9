"use strict";
// Links and files: a state as an address, a record as a page of its own.
const FIELDS = ["model", "other", "text", "steps", "temperature", "nucleus", "seed", "tokens"];
function link() {
  const state = { fields: Object.fromEntries(FIELDS.map(f => [f, $(f).value])), step: now,
    sampler: $("sampler").value, cache: $("cache").value, policy: policy(),
    panes: layout().map(p => ({ chain: p.chain, frozen: [...p.frozen], first: p.first })) };
  const bytes = new TextEncoder().encode(JSON.stringify(state));
  const code = btoa(Array.from(bytes, b => String.fromCharCode(b)).join(""));
  return `#s=${code.replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "")}`;
}
async function share() {
  history.replaceState(null, "", link());
  try { await navigator.clipboard.writeText(location.href); say("the link is in the clipboard"); }
  catch { say("the link is in the address bar"); }
}
async function restore(code) {
  const plain = atob(code.replaceAll("-", "+").replaceAll("_", "/"));
  const state = JSON.parse(new TextDecoder().decode(Uint8Array.from(plain, c => c.charCodeAt(0))));
  for (const field of FIELDS) $(field).value = state.fields[field];
  if (!modelOf($("model").value)) throw new Error("the link's model is not served here");
  pickModel();
  $("sampler").value = state.sampler;
  $("cache").value = state.cache;
  pickSampler();
  for (const input of $("policy").querySelectorAll("input")) {
    const value = state.policy[input.dataset.option];
    if (value !== undefined) { if (input.type === "checkbox") input.checked = value; else input.value = value; }
  }
  outputs();
  await together(async pane => {
    const kept = state.panes[panes.indexOf(pane)];
    pane.clear(idOf(pane));
    pane.first = kept.first;
    for (const { body, from } of kept.chain) await run(pane, body, from);
    pane.frozen = new Set(kept.frozen);
  });
  go(state.step);
}
async function save() {
  if (!ready()) return;
  const page = await (await checked(await ask("replay.html"))).text();
  for (const pane of layout()) {
    const data = JSON.stringify(pane.trace).replaceAll("<", "\\u003c");
    const file = document.createElement("a");
    file.href = URL.createObjectURL(new Blob([page.replace("TRACE", () => data)], { type: "text/html" }));
    file.download = `replay-${pane.model}.html`;
    file.click();
    setTimeout(() => URL.revokeObjectURL(file.href), 10000);
  }
}
