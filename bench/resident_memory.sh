#!/usr/bin/env bash
# What the system sees of a process, beside what lithe planned: the largest resident set of every verb that makes, turns or runs
# weights, of Llama-shaped models.
#   bench/resident_memory.sh TEXT [SIZE ...]    TEXT: a text file of 100 kB or more; SIZE: 0.25 (default), 0.5, 1.1 (billions of parameters)
# OUT (runs/resident-memory), THREADS (2), TYPE (f32; bf16), STATES (f32; int8: of the optimiser), RECOMPUTE (false; true),
# IN_BACKWARD (false; true: train.optimizer_in_backward, without clipping),
# VERBS (all; train, turn, adapt: those alone that train, that make, turn and run weights, or that train adapters over 4 bits). Prints a table; MiB.
set -euo pipefail
cd "$(dirname "$0")/.."
text="$(realpath "${1:?resident_memory.sh TEXT [SIZE ...]}")"
shift
[ "$#" -gt 0 ] || set -- 0.25
lithe="${LITHE_BINARY:-build/release/bin/lithe}" out="${OUT:-runs/resident-memory}" threads="${THREADS:-2}" type="${TYPE:-f32}"
states="${STATES:-f32}" recompute="${RECOMPUTE:-false}" in_backward="${IN_BACKWARD:-false}" verbs="${VERBS:-all}"
norm=1
[ "$in_backward" = false ] || norm=0
mkdir -p "$out"
result=$(mktemp)
trap 'rm -f "$result" "$result.log"' EXIT

row() {  # row NAME PLANNED_MiB COMMAND...
  local name="$1" planned="$2"
  shift 2
  if ! /usr/bin/time -f '%M %e' -o "$result" "$lithe" "$@" --threads "$threads" > "$result.log" 2>&1; then
    tail -3 "$result.log" >&2
    echo "resident_memory: $name failed" >&2
    exit 1
  fi
  tail -n 1 "$result" | awk -v size="$size" -v name="$name" -v planned="$planned" \
    '{ printf "| %s | %s | %s | %d | %.0f |\n", size, name, planned, $1 / 1024, $2 }'
}
mib() { echo $(($(stat -c %s "$1") >> 20)); }
planned() { sed -n '/"planned"/,/}/s/.*"peak": \([0-9]*\).*/\1/p' "$1/memory.json" | awk '{ printf "%d", $1 / 1048576 }'; }

echo "| billions | verb | planned, or bytes of the weights | resident | seconds |"
echo "|---|---|---:|---:|---:|"
for size in "$@"; do
  case "$size" in
    0.25) layers=16 width=1024 heads=16 groups=16 inner=2816 ;;
    0.5) layers=24 width=1280 heads=20 groups=20 inner=3456 ;;
    1.1) layers=22 width=2048 heads=32 groups=4 inner=5632 ;;
    *) echo "resident_memory: '$size' is none of 0.25, 0.5 and 1.1" >&2; exit 2 ;;
  esac
  dir="$out/$size"
  rm -rf "$dir"
  mkdir -p "$dir"
  cat > "$dir/recipe.yaml" <<END
model:
  vocab_size: 32000
  hidden_size: $width
  num_hidden_layers: $layers
  tie_word_embeddings: true
  norm: {type: rms}
  position: {type: rotary}
  mixer: {type: attention, num_attention_heads: $heads, heads: {type: gqa, num_key_value_heads: $groups}}
  ffn: {type: swiglu, intermediate_size: $inner}
data: {files: ["$text"], tokenizer: {type: bytes}, sequence_length: 256, validation_fraction: 0.01, cache_directory: "$dir/cache"}
train: {max_steps: 1, batch_tokens: 512, precision: $type, optimizer_states: $states, gradient_checkpointing: $recompute, max_grad_norm: $norm,
  optimizer_in_backward: $in_backward}
END
  run="$dir/run"
  row init - init "$dir/recipe.yaml" --out "$run"
  weights=$(mib "$run/model.safetensors")
  if [ "$verbs" = all ] || [ "$verbs" = adapt ]; then
    "$lithe" quantize "$run" --out "$dir/int4" --weights int4 --no-receipt --threads "$threads" > "$result.log" 2>&1
    cat > "$dir/adapt.yaml" <<END
from_pretrained: $dir/int4
data: {files: ["$text"], sequence_length: 256, validation_fraction: 0.01, cache_directory: "$dir/cache"}
train: {max_steps: 1, batch_tokens: 512, precision: $type, adapters: {type: lora, rank: 8, targets: ["*.mixer.*.weight", "*.ffn.*"]}}
END
    "$lithe" plan "$dir/adapt.yaml" --json > "$dir/adapt.json"
    row "adapt int4" "$(awk -F'[:,]' '/"peak_bytes"/ { printf "%d", $2 / 1048576; exit }' "$dir/adapt.json")" \
      train "$dir/adapt.yaml" --out "$dir/adapted"
    rm -rf "$dir/int4" "$dir/adapted"
  fi
  if [ "$verbs" = all ] || [ "$verbs" = turn ]; then
    row generate "$weights" generate "$run" --prompt "In the beginning" --max-new-tokens 8
    row eval "$weights" eval "$run" --batch-tokens 512
    row export "$weights" export "$run" --out "$dir/hf"
    row import "$weights" import "$dir/hf" --out "$dir/imported"
    rm -rf "$dir/hf" "$dir/imported"
    row "quantize, no receipt" "$weights" quantize "$run" --out "$dir/int4" --weights int4 --no-receipt
    rm -rf "$dir/int4"
    row "quantize" "$weights" quantize "$run" --out "$dir/int4" --weights int4 --max-tokens 512
    row "generate int4" "$(mib "$dir/int4/model.safetensors")" generate "$dir/int4" --prompt "In the beginning" --max-new-tokens 8
    rm -rf "$dir/int4"
    row "convert, no receipt" "$weights" convert "$run" --set model.mixer.output.type=hadamard --out "$dir/converted" --no-receipt
    rm -rf "$dir/converted"
    row "convert" "$weights" convert "$run" --set model.mixer.output.type=hadamard --out "$dir/converted"
    rm -rf "$dir/converted"
  fi
  if [ "$verbs" = all ] || [ "$verbs" = train ]; then
    row train "$(planned "$run")" train "$dir/recipe.yaml" --out "$run" --resume
    row resume "$(planned "$run")" train "$dir/recipe.yaml" --out "$run" --resume --set train.max_steps=2
  fi
  rm -rf "$dir"
done
