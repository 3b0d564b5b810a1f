#!/usr/bin/env bash
# Llamas of billions of parameters with random integer weights, in lithe and llama.cpp, which both compute in the integers of the
# same GGUF file: the first token of a process that starts, resident memory, a prompt of 512 tokens, and tokens for some texts at
# once that are so long. Case by case in turns of a second (turns.py); at the end the medians and lithe's ratio.
#   bench/peers/large.sh [rounds] [sizes: 1.1 3 7] [types] [batches] [lengths]
#   types: "Q4_K_M Q5_K_M Q6_K IQ4_NL Q4_0 Q8_0"; batches: 1,4,16; lengths: 128,2048
#   LLAMA_REPACK=0, 1: llama.cpp only with weights as the file has them, or packed anew
# Needs `ninja -C build/release benchmarks`, a python with gguf, numpy and llama_cpp (PEERS_PYTHON; generate.sh says how llama.cpp
# is built), LITHE_DATA for a tokenizer of 32,000 pieces, and 10 GB in a temporary directory or MODELS=DIRECTORY, which is kept.
set -euo pipefail
cd "$(dirname "$0")/../.."
rounds="${1:-5}" sizes="${2:-1.1 3 7}" types="${3:-Q4_K_M Q5_K_M Q6_K IQ4_NL Q4_0 Q8_0}" batches="${4:-1,4,16}" lengths="${5:-128,2048}"
models="${MODELS:-$(mktemp -d)}" lithe="${LITHE_BINARY:-build/release/bin/lithe}"
[ -n "${MODELS:-}" ] || trap 'rm -rf "$models"' EXIT
mkdir -p "$models"
. bench/peers/settings.sh
tokenizer="${LITHE_DATA:?large.sh needs LITHE_DATA}/tokenizers/sentencepiece/open_llama_3b.model"
can "$peers" gguf,llama_cpp llama.cpp && llama=1 || llama=
for size in $sizes; do
  for type in $types; do
    file="$models/$size-$type"
    [ -e "$file.gguf" ] || "$peers" bench/peers/make_llama.py "$file.gguf" "$size" "$type"
    [ -e "$file/config.json" ] || "$lithe" import "$file.gguf" --out "$file" --tokenizer "$tokenizer" > /dev/null
    for _ in $(seq 3); do
      /usr/bin/time -f "lithe work=first-token texts=1 after=1 weights=$size-$type seconds=%e peakRSS_KB=%M" \
        "$lithe" generate "$file" --prompt Hello --max-new-tokens 1 2>&1 > /dev/null | grep work= >&2
    done
    {
      for rows in f32 bf16; do
        held= turn build/release/bench/generate_bench "$file" "$rows" turns "$batches" "$lengths"
      done
      # Which is faster depends on the type and the rows: weights that llama.cpp packs anew, or as the file has them.
      for repack in ${LLAMA_REPACK:-0 1}; do
        [ -z "$llama" ] || turn env LLAMA_REPACK=$repack "$peers" bench/peers/llama_generate.py "$file.gguf" "$size-$type" auto "$batches" "$lengths"
      done
    } | in_turns "$rounds" tok/s work texts after weights
  done
done | tee >(cat >&2) | python3 bench/peers/ratios.py tok/s work texts after weights
