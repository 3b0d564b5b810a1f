#include "lithe/serve/page.h"

namespace lithe {

const std::string& page_script() {
  static const std::string script = R"page("use strict";
const $ = id => document.getElementById(id);
let models = [], panes = [], control = null;

// ---- the server

const key = () => localStorage.getItem("lithe-key") || "";
const headers = () => Object.assign({"Content-Type": "application/json"}, key() ? {Authorization: "Bearer " + key()} : {});
async function failure(r) {
  try { return new Error((await r.json()).error.message); } catch { return new Error("status " + r.status); }
}
async function* events(path, body, signal) {
  const r = await fetch(path, {method: "POST", headers: headers(), body: JSON.stringify(body), signal});
  if (!r.ok) throw await failure(r);
  const reader = r.body.getReader(), decoder = new TextDecoder();
  let rest = "";
  for (let part; !(part = await reader.read()).done;) {
    rest += decoder.decode(part.value, {stream: true});
    const all = rest.split("\n\n");
    rest = all.pop();
    for (const e of all) {
      if (!e.startsWith("data: ") || e === "data: [DONE]") continue;
      const data = JSON.parse(e.slice(6));
      if (data.error) throw new Error(data.error.message);
      yield data;
    }
  }
}
// Requests under way, and bytes, of all models.
async function show_load() {
  try {
    const text = await (await fetch("metrics", {headers: headers()})).text(), sum = {};
    for (const [, name, value] of text.matchAll(/^lithe_(\w+)\{[^}]*\} (\S+)$/gm)) sum[name] = (sum[name] || 0) + +value;
    const mib = x => (x / 1048576).toFixed(1) + " MiB";
    $("load").textContent = `server: ${sum.requests_processing} under way, ${sum.requests_deferred} waiting, ` +
      `decode state at most ${mib(sum.decode_state_bytes_peak)}, kept prompts ${mib(sum.prefix_cache_bytes)}`;
  } catch { $("load").textContent = ""; }
}

// ---- a pane: what one model said

function make_pane() {
  const section = document.createElement("section"), title = document.createElement("h2"),
        out = document.createElement("div"), speed = document.createElement("div");
  section.className = "pane", out.className = "out", speed.className = "speed";
  section.append(title, out, speed);
  out.onkeydown = walk;
  $("panes").append(section);
  return {section, title, out, speed, messages: [], words: []};
}
function say(pane, text) {
  const span = document.createElement("span");
  span.className = "me";
  span.textContent = text;
  pane.out.append(span);
}
const percent = logprob => (100 * Math.exp(logprob)).toFixed(1) + " %";
// One token of a pane is a stop of the Tab key; the arrows lead from there to the others.
function add_token(pane, text, logprob, top) {
  const span = document.createElement("span");
  span.className = "token";
  span.tabIndex = pane.out.querySelector(".token") ? -1 : 0;
  span.textContent = text;
  span.style.background = `rgba(42, 111, 176, ${(0.45 * (1 - Math.exp(logprob))).toFixed(3)})`;
  const best = top.map(t => `${JSON.stringify(t[0])} ${percent(t[1])}`).join("   ");
  span.dataset.why = `${pane.title.textContent} ${JSON.stringify(text)} ${percent(logprob)}  |  ${best}`.trim();
  span.onmouseenter = span.onfocus = () => { $("why").textContent = span.dataset.why; };
  pane.out.append(span);
  pane.words.push(logprob);
}
function walk(event) {
  const at = event.target;
  if (!at.classList.contains("token")) return;
  const all = [...event.currentTarget.querySelectorAll(".token")], i = all.indexOf(at);
  const to = {ArrowRight: all[i + 1], ArrowLeft: all[i - 1], Home: all[0], End: all[all.length - 1]}[event.key];
  if (!to) return;
  event.preventDefault();
  at.tabIndex = -1;
  to.tabIndex = 0;
  to.focus();
}
function show(pane, choice) {
  if (choice.delta) {
    for (const s of (choice.logprobs && choice.logprobs.content) || [])
      add_token(pane, s.token, s.logprob, s.top_logprobs.map(t => [t.token, t.logprob]));
    return choice.delta.content || "";
  }
  const l = choice.logprobs;
  if (l) l.tokens.forEach((t, i) => add_token(pane, t, l.token_logprobs[i], Object.entries(l.top_logprobs[i])));
  return choice.text;
}
function show_speed(pane, begin, first) {
  const n = pane.words.length, now = performance.now();
  if (!n) return;
  const mean = pane.words.reduce((a, b) => a + b, 0) / n;
  const rate = n > 1 && now > first ? `${(1000 * (n - 1) / (now - first)).toFixed(1)} tokens/s, ` : "";
  pane.speed.textContent = `${n} tokens, ${rate}first after ${(first - begin).toFixed(0)} ms, ` +
    `mean probability ${percent(mean)}`;
}
async function ask(pane, model, body, text) {
  const chat = $("mode").value === "chat";
  pane.words = [];
  if (chat) {
    pane.messages.push({role: "user", content: text});
    Object.assign(body, {messages: pane.messages, logprobs: true, top_logprobs: 5});
    say(pane, "\n" + text + "\n");
  } else {
    pane.out.textContent = "";
    Object.assign(body, {prompt: text, logprobs: 5});
    say(pane, text);
  }
  const begin = performance.now();
  let answer = "", first = 0;
  try {
    for await (const data of events(chat ? "v1/chat/completions" : "v1/completions", {...body, model}, control.signal)) {
      for (const c of data.choices) answer += show(pane, c);
      if (!first && pane.words.length) first = performance.now();
      show_speed(pane, begin, first);
    }
  } catch (error) {
    if (error.name !== "AbortError") say(pane, "\n" + error.message + "\n");
  }
  if (chat) pane.messages.push({role: "assistant", content: answer});
}

// ---- the form

const chosen = () => [$("model").value, $("beside").value].filter(x => x);
function choose() {
  const names = chosen();
  const chats = names.every(n => (models.find(m => m.id === n) || {}).chat);
  $("mode").options[1].disabled = !chats;
  if (!chats) $("mode").value = "text";
  document.body.classList.toggle("two", names.length > 1);
  while (panes.length > names.length) panes.pop().section.remove();
  while (panes.length < names.length) panes.push(make_pane());
  panes.forEach((pane, i) => {
    pane.title.textContent = names.length > 1 ? names[i] : "";
    pane.section.setAttribute("aria-label", names[i]);
  });
}
function clear() {
  for (const pane of panes) pane.section.remove();
  panes = [];
  $("why").textContent = "";
  choose();
}
async function send(event) {
  event.preventDefault();
  if (control) return;
  const text = $("prompt").value, chat = $("mode").value === "chat";
  if (chat && !text.trim()) return;
  control = new AbortController();
  $("send").disabled = true;
  $("stop").disabled = false;
  const names = chosen();
  const body = {stream: true, temperature: +$("temperature").value, max_tokens: +$("tokens").value, seed: +$("seed").value};
  const timer = setInterval(show_load, 1000);
  await Promise.all(panes.map((pane, i) => ask(pane, names[i], {...body}, text)));
  clearInterval(timer);
  if (chat) $("prompt").value = "";
  control = null;
  $("send").disabled = false;
  $("stop").disabled = true;
  show_load();
}
async function start() {
  let r = await fetch("v1/models", {headers: headers()});
  if (r.status === 401) {
    localStorage.setItem("lithe-key", prompt("Key of this server") || "");
    r = await fetch("v1/models", {headers: headers()});
  }
  if (!r.ok) {
    $("why").textContent = (await failure(r)).message;
    return;
  }
  models = ((await r.json()).data || []).filter(m => m.completions);
  for (const m of models) for (const id of ["model", "beside"]) $(id).append(new Option(m.id, m.id));
  const given = new URLSearchParams(location.search);  // ?prompt=...&tokens=...&beside=...&mode=chat&send=1
  for (const id of ["model", "beside", "prompt", "tokens", "seed", "temperature"])
    if (given.has(id)) $(id).value = given.get(id);
  choose();
  if (given.has("mode")) { $("mode").value = given.get("mode"); choose(); }
  if (given.has("send")) $("form").requestSubmit();
}
$("model").onchange = $("beside").onchange = clear;
$("form").onsubmit = send;
$("stop").onclick = () => control && control.abort();
$("clear").onclick = clear;
document.onkeydown = e => { if (e.key === "Escape" && control) control.abort(); };
$("prompt").onkeydown = e => { if (e.key === "Enter" && e.ctrlKey) send(e); };
start();
)page";
  return script;
}

}  // namespace lithe
