#!/usr/bin/env bash
# Sentences a second of lithe and CTranslate2 with the same weights on the same sentences, case by case in turns of about a second
# (turns.py); at the end the medians and lithe's ratio to the fastest mode of CTranslate2.
# Needs `ninja -C build/release benchmarks` and a python3 with ctranslate2, numpy and safetensors (PYTHON=...).
#   bench/peers/translate.sh RUN FILE [rounds] [lines at batch 32] [lines at batch 1] [8-bit RUN of lithe quantize]
set -euo pipefail
run="$(realpath "$1")" file="$(realpath "$2")" rounds="${3:-5}" many="${4:-1000}" few="${5:-100}" quantized="${6:+$(realpath "$6")}"
cd "$(dirname "$0")/../.."
. bench/peers/settings.sh
can "$torch" ctranslate2 CTranslate2 || exit 1
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
"$torch" bench/peers/ct2_translate.py convert "$run" "$work/ct2"
build/release/bench/translate_bench "$run" "$file" ids > "$work/ids"
for weights in f32 ${quantized:+int8}; do
  {
    held= turn build/release/bench/translate_bench "$([ "$weights" = f32 ] && echo "$run" || echo "$quantized")" "$file" "$few" "$many" "$weights"
    # One batch on two threads, on one, and (where there are several) two batches on one thread each: the best counts.
    for mode in 1x2 1x1 2x1; do
      turn env CT2_WORKERS="${mode%x*}" CT2_THREADS="${mode#*x}" OMP_NUM_THREADS="${mode#*x}" \
        "$torch" bench/peers/ct2_translate.py "$work/ct2" "$work/ids" "$weights" "$few" "$many"
    done
  } | in_turns "$rounds" sentences/s weights batch beams
done | tee >(cat >&2) | python3 bench/peers/ratios.py sentences/s weights batch beams
