#include "lithe/serve/page.h"

namespace lithe {

const std::string& page() {
  static const std::string html = R"page(<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>lithe</title>
<style>
:root { color-scheme: light dark; --line: #8884; --accent: #2a6fb0; }
* { box-sizing: border-box; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 46rem; margin: 0 auto; padding: 1rem; }
h1 { font-size: 1.2rem; margin: 0 0 .5rem; }
form, .row { display: flex; gap: .5rem; flex-wrap: wrap; align-items: center; }
textarea { width: 100%; min-height: 5rem; font: inherit; padding: .5rem; border: 1px solid var(--line); border-radius: .4rem; }
input, select, button { font: inherit; padding: .3rem .5rem; border: 1px solid var(--line); border-radius: .4rem; }
input[type=number] { width: 6rem; }
button { background: var(--accent); color: #fff; border: 0; cursor: pointer; }
button:disabled { opacity: .5; }
#out { white-space: pre-wrap; border: 1px solid var(--line); border-radius: .4rem; padding: .6rem; min-height: 6rem; margin: .8rem 0; overflow-wrap: anywhere; }
#out .token { border-radius: .15rem; cursor: help; }
#out .token:focus { outline: 2px solid var(--accent); }
.me { font-weight: 600; }
#why { min-height: 1.6rem; font-size: .85rem; font-family: ui-monospace, monospace; overflow-wrap: anywhere; }
#load { font-size: .85rem; opacity: .8; }
</style>
</head>
<body>
<h1>lithe</h1>
<form id="form">
  <label>Model <select id="model"></select></label>
  <label>Mode <select id="mode"><option value="text">completion</option><option value="chat">chat</option></select></label>
  <label>Temperature <input id="temperature" type="number" min="0" max="5" step="0.1" value="0.8"></label>
  <label>Tokens <input id="tokens" type="number" min="1" value="100"></label>
  <label>Seed <input id="seed" type="number" min="0" value="1"></label>
  <textarea id="prompt" aria-label="Prompt" placeholder="Write here. Ctrl+Enter sends."></textarea>
  <button id="send">Send</button>
  <button id="stop" type="button" disabled>Stop</button>
  <button id="clear" type="button">Clear</button>
</form>
<div id="out" aria-live="polite"></div>
<div id="why"></div>
<div id="load"></div>
<script>
const $ = id => document.getElementById(id);
let models = [], messages = [], control = null;
const escape_key = () => localStorage.getItem("lithe-key") || "";
const headers = () => Object.assign({"Content-Type": "application/json"}, escape_key() ? {Authorization: "Bearer " + escape_key()} : {});
async function start() {
  let r = await fetch("v1/models", {headers: headers()});
  if (r.status === 401) {
    localStorage.setItem("lithe-key", prompt("Key of this server") || "");
    r = await fetch("v1/models", {headers: headers()});
  }
  models = (await r.json()).data || [];
  for (const m of models) $("model").append(new Option(m.id, m.id));
  const given = new URLSearchParams(location.search);  // ?prompt=...&tokens=...&seed=...&mode=chat&send=1
  for (const id of ["model", "prompt", "tokens", "seed", "temperature", "mode"])
    if (given.has(id)) $(id).value = given.get(id);
  choose();
  if (given.has("send")) $("form").requestSubmit();
}
function choose() {
  const m = models.find(x => x.id === $("model").value);
  $("mode").options[1].disabled = !(m && m.chat);
  if (m && !m.chat) $("mode").value = "text";
}
$("model").onchange = choose;
function say(text, kind) {
  const span = document.createElement("span");
  span.className = kind;
  span.textContent = text;
  $("out").append(span);
}
function token(text, score) {
  const span = document.createElement("span");
  span.className = "token";
  span.tabIndex = 0;
  span.textContent = text;
  if (score) {
    const p = Math.exp(score.logprob);
    span.style.background = `rgba(42, 111, 176, ${(0.45 * (1 - p)).toFixed(3)})`;
    const best = score.top.map(t => `${JSON.stringify(t[0])} ${(100 * Math.exp(t[1])).toFixed(1)} %`).join("   ");
    span.onmouseenter = span.onfocus = () => { $("why").textContent = `${JSON.stringify(text)} ${(100 * p).toFixed(1)} %  |  ${best}`; };
  }
  $("out").append(span);
}
function show(choice, chat) {
  if (chat) {
    const scores = choice.logprobs && choice.logprobs.content;
    if (scores && scores.length) for (const s of scores) token(s.token, {logprob: s.logprob, top: s.top_logprobs.map(t => [t.token, t.logprob])});
    return choice.delta.content || "";
  }
  const l = choice.logprobs;
  if (l && l.tokens.length) l.tokens.forEach((t, i) => token(t, {logprob: l.token_logprobs[i], top: Object.entries(l.top_logprobs[i])}));
  return choice.text;
}
async function send(event) {
  event.preventDefault();
  const text = $("prompt").value, chat = $("mode").value === "chat";
  if (chat && !text.trim()) return;
  const body = {model: $("model").value, stream: true, temperature: +$("temperature").value, max_tokens: +$("tokens").value, seed: +$("seed").value};
  if (chat) {
    messages.push({role: "user", content: text});
    Object.assign(body, {messages, logprobs: true, top_logprobs: 5});
    say("\n" + text + "\n", "me");
  } else {
    $("out").textContent = "";
    Object.assign(body, {prompt: text, logprobs: 5});
    say(text, "me");
  }
  control = new AbortController();
  $("send").disabled = true;
  $("stop").disabled = false;
  let answer = "", count = 0;
  const begin = performance.now();
  try {
    const r = await fetch(chat ? "v1/chat/completions" : "v1/completions", {method: "POST", headers: headers(), body: JSON.stringify(body), signal: control.signal});
    if (!r.ok) throw new Error((await r.json()).error.message);
    const reader = r.body.getReader(), decoder = new TextDecoder();
    let rest = "";
    for (let part; !(part = await reader.read()).done;) {
      rest += decoder.decode(part.value, {stream: true});
      const events = rest.split("\n\n");
      rest = events.pop();
      for (const e of events) {
        if (!e.startsWith("data: ") || e === "data: [DONE]") continue;
        const data = JSON.parse(e.slice(6));
        if (data.error) throw new Error(data.error.message);
        for (const c of data.choices) { answer += show(c, chat); ++count; }
      }
      $("load").textContent = `${(1000 * count / (performance.now() - begin)).toFixed(1)} pieces a second`;
    }
  } catch (error) {
    if (error.name !== "AbortError") say("\n" + error.message + "\n", "me");
  }
  if (chat) { messages.push({role: "assistant", content: answer}); $("prompt").value = ""; }
  $("send").disabled = false;
  $("stop").disabled = true;
}
$("form").onsubmit = send;
$("stop").onclick = () => control && control.abort();
$("clear").onclick = () => { messages = []; $("out").textContent = ""; $("why").textContent = ""; };
$("prompt").onkeydown = e => { if (e.key === "Enter" && e.ctrlKey) send(e); };
start();
</script>
</body>
</html>
)page";
  return html;
}

}  // namespace lithe
