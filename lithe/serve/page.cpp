#include "lithe/serve/page.h"

namespace lithe {

const std::string& page() {
  static const std::string html = std::string(R"page(<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>lithe</title>
<style>
:root { color-scheme: light dark; --line: #8886; --accent: #2a6fb0; }
* { box-sizing: border-box; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 46rem; margin: 0 auto; padding: 1rem; background: Canvas; color: CanvasText; }
body.two { max-width: 92rem; }
h1 { font-size: 1.2rem; margin: 0 0 .5rem; }
h2 { font-size: 1rem; margin: 0; overflow-wrap: anywhere; }
form { display: flex; gap: .5rem; flex-wrap: wrap; align-items: center; }
label { max-width: 100%; }
textarea { width: 100%; min-height: 5rem; font: inherit; padding: .5rem; border: 1px solid var(--line); border-radius: .4rem; }
input, select, button { font: inherit; max-width: 100%; padding: .3rem .5rem; border: 1px solid var(--line); border-radius: .4rem; }
input[type=number] { width: 6rem; }
button { background: var(--accent); color: #fff; border: 0; cursor: pointer; }
button:disabled { opacity: .5; cursor: default; }
:focus-visible { outline: 2px solid var(--accent); outline-offset: 1px; }
#panes { display: grid; grid-template-columns: minmax(0, 1fr); gap: .8rem; margin: .8rem 0; }
@media (min-width: 44rem) { .two #panes { grid-template-columns: minmax(0, 1fr) minmax(0, 1fr); } }
.pane { border: 1px solid var(--line); border-radius: .4rem; padding: .6rem; }
.pane h2:empty { display: none; }
.out { white-space: pre-wrap; min-height: 5rem; overflow-wrap: anywhere; }
.token { border-radius: .15rem; cursor: help; }
.me { font-weight: 600; }
.speed, #load { font-size: .85rem; opacity: .85; font-variant-numeric: tabular-nums; }
#why { min-height: 1.6rem; font-size: .85rem; font-family: ui-monospace, monospace; overflow-wrap: anywhere; }
</style>
</head>
<body>
<h1>lithe</h1>
<form id="form">
  <label>Model <select id="model"></select></label>
  <label>Beside <select id="beside"><option value="">none</option></select></label>
  <label>Mode <select id="mode"><option value="text">completion</option><option value="chat">chat</option></select></label>
  <label>Temperature <input id="temperature" type="number" min="0" max="5" step="0.1" value="0.8"></label>
  <label>Tokens <input id="tokens" type="number" min="1" value="100"></label>
  <label>Seed <input id="seed" type="number" min="0" value="1"></label>
  <textarea id="prompt" aria-label="Prompt" placeholder="Write here. Ctrl+Enter sends, Escape stops."></textarea>
  <button id="send">Send</button>
  <button id="stop" type="button" disabled>Stop</button>
  <button id="clear" type="button">Clear</button>
</form>
<div id="panes"></div>
<div id="why" aria-live="polite"></div>
<div id="load"></div>
<script>
)page") + page_script() + "</script>\n</body>\n</html>\n";
  return html;
}

}  // namespace lithe
