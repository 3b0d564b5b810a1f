#!/usr/bin/env bash
# Halves a small model of WikiText-2 and rounds it to few bits, by every method that lithe has: tools/smaller_wikitext2.sh [LITHE] [SEED ...].
# docs/results.md says what came out. Some 20 minutes of one thread a seed; a stopped call goes on. LITHE_DATA must be set.
set -euo pipefail
cd "$(dirname "$0")/.."
lithe=${1:-build/release/bin/lithe}
shift || true
steps=500
once() {  # OUT COMMAND... : nothing where the command has ended before
  local out=$1
  shift
  [ -e "$out.done" ] || { "$@" --out "$out" --overwrite --threads 1 >"$out.log" 2>&1 && touch "$out.done"; }
}
score() {  # RUN: one line of JSON with the loss of the whole validation text
  [ -e "$1.json" ] || "$lithe" eval "$1" --json --threads 1 >"$1.json.part"
  [ ! -e "$1.json.part" ] || mv "$1.json.part" "$1.json"
}
for seed in "${@:-1}"; do
  at=runs/smaller-wikitext2/seed-$seed
  mkdir -p "$at"
  teach=(--set train.max_steps=$steps --set train.warmup_steps=50 --set train.eval_steps=0 --set train.save_steps=0 --set "train.seed=$seed")
  once "$at/teacher" "$lithe" train recipes/wikitext2.yaml "${teach[@]}" --set model.hidden_size=128 --set model.mixer.num_attention_heads=4 \
    --set model.ffn.intermediate_size=344 --set data.tokenizer.vocab_size=4096

  # Half of the parameters. All students learn for as many steps; `scratch_twice` for as many as teacher and student together.
  half=("$lithe" prune "$at/teacher" --to 0.5 --multiple 8 --train-steps $steps --learning-rate 1e-3 --seed "$seed")
  all=(--units heads,ffn,hidden)
  for by in norm gradient activation random; do once "$at/pruned_$by" "${half[@]}" "${all[@]}" --by $by --distill; done
  once "$at/pruned_alone" "${half[@]}" "${all[@]}" --by gradient
  for by in gradient gates; do once "$at/inner_$by" "${half[@]}" --by $by --distill; done  # channels of the rows have no gates
  shape=$at/pruned_gradient/resolved_recipe.yaml
  once "$at/scratch" "$lithe" train "$shape" "${teach[@]}" --set from_pretrained=null
  once "$at/scratch_twice" "$lithe" train "$shape" "${teach[@]}" --set from_pretrained=null --set train.max_steps=$((2 * steps))
  once "$at/distilled" "$lithe" distill "$shape" --teacher "$at/teacher" --mixing 0.5 "${teach[@]}" --set from_pretrained=null
  for model in teacher pruned_norm pruned_gradient pruned_activation pruned_random pruned_alone inner_gradient inner_gates scratch scratch_twice distilled; do
    score "$at/$model"
  done

  # Few bits, after the training and in it.
  for bits in int8 int4 int2 ternary; do
    for method in nearest gptq awq; do
      once "$at/${bits}_$method" "$lithe" quantize "$at/teacher" --weights $bits --method $method
      score "$at/${bits}_$method"
    done
  done
  more=("${teach[@]}" --set "from_pretrained=$at/teacher" --set train.max_steps=200 --set train.warmup_steps=20 --set train.learning_rate=5e-4
    --set train.min_learning_rate=5e-5)
  once "$at/more" "$lithe" train "$at/teacher/resolved_recipe.yaml" "${more[@]}"
  score "$at/more"
  for bits in int4 int2 ternary; do
    once "$at/trained_$bits-floats" "$lithe" train "$at/teacher/resolved_recipe.yaml" "${more[@]}" --set "train.rounding.weights=$bits"
    once "$at/trained_$bits" "$lithe" quantize "$at/trained_$bits-floats" --weights $bits
    score "$at/trained_$bits"
    for method in nearest gptq; do
      once "$at/more_${bits}_$method" "$lithe" quantize "$at/more" --weights $bits --method $method
      score "$at/more_${bits}_$method"
    done
  done
done
