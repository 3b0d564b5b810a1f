#!/usr/bin/env bash
# Makes the pictures of docs/gallery.md: small runs of every command that writes a page, and a screenshot of each page.
# Needs chromium, and ImageMagick to make the files small; the text is that of ./dev quickstart.
#   tools/gallery.sh PATH/TO/lithe runs/corpus/bible.txt docs/pictures
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
lithe=$(realpath "$1") text=$(realpath "$2")
mkdir -p "$3"
pictures=$(realpath "$3")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
ln -s "$root/recipes" recipes
head -4000 "$text" >my.txt
export XDG_CACHE_HOME="$work/cache" LITHE_LOG=warning

cat >model.yaml <<'YAML'
model:
  hidden_size: 96
  num_hidden_layers: 4
  position: rotary
  mixer: {type: attention, num_attention_heads: 4}
  ffn: {type: swiglu, intermediate_size: 256}
data: {files: [my.txt], validation_fraction: 0.05, documents: line, tokenizer: {type: bpe, vocab_size: 800}, sequence_length: 64}
train: {max_steps: 400, batch_tokens: 1024, learning_rate: 4.0e-3, warmup_steps: 20, eval_steps: 50}
generate: {prompt: "And the LORD "}
YAML
cat >variants.yaml <<'YAML'
recipe: model.yaml
set: {train.max_steps: 120, train.eval_steps: 0}
baseline: mha
variants:
  mha: {}
  mqa: {model.mixer.heads: mqa}
  mhe_mul: {model.mixer.heads: mhe_mul}
  linear: {model.mixer.type: linear_attention}
seeds: [1, 2, 3]
budget: {match: tokens}
measure: {repeats: 3}
YAML
cat >search.yaml <<'YAML'
recipe: model.yaml
set: {train.max_steps: 60, train.eval_steps: 0}
choices:
  model.hidden_size: [48, 64, 96]
  model.ffn.intermediate_size: [64, 128, 256]
  model.mixer.heads: [mha, mqa]
method: evolution
candidates: 10
population: 4
budget: {parameters: 300000}
YAML
sed 's/^model:/model:\n  stack: {type: early_exit, layers: [1, 2, 3]}/; s/max_steps: 400/max_steps: 200/' model.yaml >exits.yaml

"$lithe" train model.yaml --out run
"$lithe" inspect run --text "And the LORD said unto Moses, Stretch out thine hand" --length 24
"$lithe" prune run --to 0.7 --by gradient --out pruned
"$lithe" fit run --size 400KB --out fitted --trial-steps 30 --train-steps 60
"$lithe" compare variants.yaml --out compared
"$lithe" search search.yaml --out searched
"$lithe" train exits.yaml --out exits
"$lithe" eval exits --exits
"$lithe" probe run --task pos,deprel,heads --train recipes/head/trees.conllu --test recipes/head/trees.conllu --seeds 2 --random-models 2
"$lithe" bench run --rounds 3 --seconds 0.01 --out bench

# name of the picture, page, first pixel and pixels of its height, at a width of 1000
while read -r name page top height; do
  chromium --headless --no-sandbox --hide-scrollbars --window-size=1000,$((top + height)) --screenshot="$work/$name.png" "file://$work/$page" 2>/dev/null
  convert "$name.png" -crop "1000x$height+0+$top" +repage -resize 700x +dither -colors 96 -strip "PNG8:$pictures/$name.png"
done <<'PAGES'
report run/report.html 0 900
inspect run/inspect.html 0 1000
prune pruned/prune.html 0 900
receipt pruned/receipt.html 0 900
fit fitted/fit.html 0 1000
compare compared/comparison.html 0 1000
search searched/search.html 0 1000
exits exits/exits.html 0 900
probe run/probe.html 0 1000
bench bench/bench.html 0 1000
PAGES
ls -l "$pictures"
