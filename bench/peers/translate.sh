#!/usr/bin/env bash
# Sentences a second of lithe and CTranslate2 with the same weights on the same sentences, program after program in each
# round, so that a machine whose speed changes is fair to both; at the end the medians over rounds and the ratios.
# Needs `ninja -C build/release benchmarks` and a python3 with ctranslate2, numpy and safetensors (PYTHON=...).
#   bench/peers/translate.sh RUN FILE [rounds] [lines at batch 32] [lines at batch 1] [8-bit RUN of lithe quantize]
set -euo pipefail
run="$1" file="$2" rounds="${3:-3}" many="${4:-1000}" few="${5:-100}" quantized="${6:-}"
cd "$(dirname "$0")/../.."
. bench/peers/settings.sh
python="$torch"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
"$python" bench/peers/ct2_translate.py convert "$run" "$work/ct2"
build/release/bench/translate_bench "$run" "$file" ids > "$work/ids"
# One batch on two threads, on one, and (where there are several) two batches on one thread each: the best counts.
ct2() {
  for mode in 1x2 1x1 $([ "$batch" = 1 ] || echo 2x1); do
    CT2_WORKERS="${mode%x*}" CT2_THREADS="${mode#*x}" OMP_NUM_THREADS="${mode#*x}" LD_PRELOAD="$held" \
      "$python" bench/peers/ct2_translate.py "$run" "$work/ct2" "$work/ids" "$batch" "$beams" "$1" "$lines"
  done
}
for round in $(seq "$rounds"); do
  for batch in 1 32; do
    lines=$([ "$batch" = 1 ] && echo "$few" || echo "$many")
    for beams in 1 4; do
      build/release/bench/translate_bench "$run" "$file" "$batch" "$beams" f32 "$lines"
      ct2 float32
      if [ -n "$quantized" ]; then
        build/release/bench/translate_bench "$quantized" "$file" "$batch" "$beams" f32 "$lines" | sed 's/precision=f32/precision=int8/'
        ct2 int8
      fi
    done
  done
done | tee >(cat >&2) | "$python" -c '
import re, statistics, sys
rates = {}
for line in sys.stdin:
    v = dict(re.findall(r"(\S+)=(\S+)", line))
    kind = "int8" if v["precision"] == "int8" else "f32"
    rates.setdefault((kind, int(v["batch"]), int(v["beams"])), {}).setdefault(v["program"], []).append(float(v["sentences/s"]))
for (kind, batch, beams), r in sorted(rates.items()):
    a = statistics.median(r.pop("lithe"))
    mode, b = max(((m, statistics.median(x)) for m, x in r.items()), key=lambda x: x[1])
    print(f"{kind} batch {batch} beams {beams}: lithe {a:.1f} sentences/s, CTranslate2 {b:.1f} ({mode}), ratio {a / b:.2f}")
'
