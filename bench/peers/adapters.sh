#!/usr/bin/env bash
# Training of low-rank adapters (rank 8 on queries, keys and values) over a model of GPT-2's size, 2 x 512 tokens: lithe over f32,
# bf16, 8 and 4 bits, and PEFT on PyTorch, in turns; at the end the medians and lithe's ratio to PyTorch's fastest mode.
#   bench/peers/adapters.sh TEXT [rounds] [precisions: f32 bf16] [threads]     TEXT: a file of 1 MB or more
# Needs build/release/bin/lithe, and PYTHON, a Python with torch 2, transformers and peft (default python3).
set -euo pipefail
text="$(realpath "${1:?adapters.sh TEXT}")"
cd "$(dirname "$0")/../.."
rounds="${2:-3}" precisions="${3:-f32 bf16}" threads="${4:-2}" steps=12
lithe="${LITHE_BINARY:-build/release/bin/lithe}"
. bench/peers/settings.sh
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
can "$torch" peft PEFT && peft=1 || peft=
cat > "$dir/base.yaml" <<END
model:
  vocab_size: 50257
  hidden_size: 768
  num_hidden_layers: 12
  max_position_embeddings: 1024
  position: learned
  norm: {type: layer, eps_mode: variance}
  mixer: {type: attention, num_attention_heads: 12, attention_bias: true, output_bias: true}
  ffn: {type: gelu, approximate: tanh, intermediate_size: 3072, bias: true}
data: {files: ["$text"], tokenizer: {type: bytes}, sequence_length: 512, cache_directory: "$dir/cache"}
train: {max_steps: 1, batch_tokens: 1024}
END
cat > "$dir/adapt.yaml" <<END
data: {files: ["$text"], sequence_length: 512, cache_directory: "$dir/cache"}
train: {max_steps: $steps, batch_tokens: 1024, eval_steps: 0, sample_steps: 0, logging_steps: 2,
        adapters: {type: lora, rank: 8, targets: ["*.mixer.heads.*.weight"]}}
END
"$lithe" init "$dir/base.yaml" --out "$dir/f32" > "$dir/log" 2>&1
for bits in int8 int4; do "$lithe" quantize "$dir/f32" --weights "$bits" --no-receipt --out "$dir/$bits" > "$dir/log" 2>&1; done
for round in $(seq "$rounds"); do
  for precision in $precisions; do
    for base in f32 int8 int4; do
      "$lithe" train "$dir/adapt.yaml" --out "$dir/run" --overwrite --threads "$threads" --set from_pretrained="$dir/$base" \
        --set train.precision="$precision" > "$dir/log" 2>&1
      # The median of the intervals behind the first.
      "$torch" - "$dir/run" "$threads" "$precision" "$base" <<'END'
import json, statistics, sys
rates = [json.loads(line)["tokens_per_second"] for line in open(sys.argv[1] + "/speed.jsonl")][1:]
peak = json.load(open(sys.argv[1] + "/memory.json"))["process"] / 1048576
mode = "" if sys.argv[4] == "f32" else f" mode={sys.argv[4]}"
print(f"lithe job=lora dtype={sys.argv[3]}{mode} threads={sys.argv[2]} tok/s={statistics.median(rates):.1f} peakRSS_MB={peak:.0f}")
END
    done
    [ -z "$peft" ] || for mode in eager compiled; do
      "$torch" bench/peers/torch_peft.py "$precision" "$mode" "$steps" "$threads" 2> "$dir/log" || { tail -3 "$dir/log" >&2; exit 1; }
    done
  done
done | tee "$dir/lines"
"$torch" bench/peers/ratios.py tok/s job dtype threads < "$dir/lines"
