#!/usr/bin/env bash
# Prefill of 512 tokens and decoding of 128 by lithe and llama.cpp on the same GGUF files, in the integers that the files hold:
# program after program in each round; at the end the medians and lithe's ratio. The model is GPT-2 124M with random weights.
#   bench/peers/gguf.sh LLAMA_DIR [rounds] [types]      types: "Q4_K_M Q5_K_M Q6_K IQ4_NL Q4_0 Q8_0"
# LLAMA_DIR holds llama.cpp's programs llama-quantize and llama-bench. Needs `ninja -C build/release benchmarks`, a python3 with gguf
# and numpy (PYTHON=...), and LITHE_DATA for GPT-2's tokenizer. MODELS=DIRECTORY keeps the files.
set -euo pipefail
cd "$(dirname "$0")/../.."
llama="${1:?gguf.sh LLAMA_DIR [rounds] [types]}" rounds="${2:-3}" types="${3:-Q4_K_M Q5_K_M Q6_K IQ4_NL Q4_0 Q8_0}"
models="${MODELS:-$(mktemp -d)}" lithe="${LITHE_BINARY:-build/release/bin/lithe}"
[ -n "${MODELS:-}" ] || trap 'rm -rf "$models"' EXIT
mkdir -p "$models"
. bench/peers/settings.sh
[ -e "$models/f32.gguf" ] || "$torch" bench/peers/llama_generate.py make "$models/f32.gguf"
for type in $types; do
  [ -e "$models/$type.gguf" ] || "$llama/llama-quantize" "$models/f32.gguf" "$models/$type.gguf" "$type" "$OMP_NUM_THREADS" > /dev/null 2>&1
  [ -e "$models/$type/config.json" ] ||
    "$lithe" import "$models/$type.gguf" --out "$models/$type" --tokenizer "$LITHE_DATA/tokenizers/gpt2" > /dev/null
done
for round in $(seq "$rounds"); do
  for type in $types; do
    build/release/bench/generate_bench "$models/$type" f32 3 | sed "s/weights=[^ ]*/weights=$type/"
    "$llama/llama-bench" -m "$models/$type.gguf" -t "$OMP_NUM_THREADS" -p 512 -n 128 -r 3 -o json 2> /dev/null |
      python3 -c '
import json, sys
for test in json.load(sys.stdin):
    print("llama.cpp work={} weights={} tok/s={:.2f}".format("decode" if test["n_gen"] else "prefill", sys.argv[1], test["avg_ts"]))' "$type"
  done
done | tee >(cat >&2) | python3 bench/peers/ratios.py tok/s work weights
