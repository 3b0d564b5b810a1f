#!/usr/bin/env bash
# Training of recipes/vision/cifar10_cct.yaml, 128 pictures a step, lithe and PyTorch in turns: lithe's whole steps (JPEG, crops
# and flips included), PyTorch's on pictures that are in memory already. At the end the medians and lithe's ratio.
#   bench/peers/vision.sh [rounds] [threads: "1 2"]
# Needs LITHE_DATA, build/release/bin/lithe, and PYTHON, a Python with torch 2 (default python3).
set -euo pipefail
cd "$(dirname "$0")/../.."
rounds="${1:-3}" counts="${2:-1 2}"
. bench/peers/settings.sh
run=$(mktemp -d)
trap 'rm -rf "$run"' EXIT
can "$torch" torch PyTorch && pytorch=1 || pytorch=
for round in $(seq "$rounds"); do
  for threads in $counts; do
    build/release/bin/lithe train recipes/vision/cifar10_cct.yaml --out "$run/run" --overwrite --threads "$threads" \
      --set train.max_steps=60 --set train.batch_tokens=8192 --set train.eval_steps=0 --set train.save_steps=0 --set train.logging_steps=20 >"$run/log" 2>&1
    # 64 tokens a picture; the last 20 of 60 steps.
    "$torch" - "$run/run" "$threads" <<'END'
import json, sys
rate = json.loads(open(sys.argv[1] + "/speed.jsonl").read().splitlines()[-1])["tokens_per_second"] / 64
peak = json.load(open(sys.argv[1] + "/memory.json"))["process"] / 1048576
print(f"lithe job=train mode=f32 threads={sys.argv[2]} pictures/s={rate:.1f} peakRSS_MB={peak:.0f}")
END
    [ -z "$pytorch" ] || for mode in eager compiled; do peer "$torch" bench/peers/torch_cct.py "$mode" 20 128 "$threads"; done
  done
done | tee "$run/lines"
"$torch" bench/peers/ratios.py pictures/s job threads <"$run/lines"
