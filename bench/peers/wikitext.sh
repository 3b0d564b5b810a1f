#!/usr/bin/env bash
# Time to a perplexity on WikiText-2: recipes/wikitext2.yaml by lithe (bf16 with f32 weights, as the recipe says) and by
# PyTorch in f32 (tools/oracles/wikitext.py: fused attention, fused AdamW), one after the other, each over the recipe's
# own schedule of that many steps. Prints, of each program and evaluation, the seconds of training so far (validation not
# counted) and the perplexity, then how much sooner lithe was at PyTorch's last perplexity or below.
# Needs `./dev build` and a python3 with torch and tokenizers (PYTHON=...).
#   bench/peers/wikitext.sh [steps] [PyTorch's precision: f32|bf16] [further --set of lithe...]
set -euo pipefail
cd "$(dirname "$0")/../.."
steps="${1:-1200}" precision="${2:-f32}"
. bench/peers/settings.sh
shift $(($# < 2 ? $# : 2))
data="${DATA:-${LITHE_DATA:-data}/lm/wikitext-2}" every=$((steps / 3))
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
set_keys=(--set "data.files=[$data/train.txt]" --set "data.validation_files=[$data/valid.txt]" --set "train.max_steps=$steps"
  --set "train.warmup_steps=$((steps / 10))" --set "train.eval_steps=$every" --set "train.save_steps=$steps")
for key in "$@"; do set_keys+=(--set "$key"); done
build/release/bin/lithe train recipes/wikitext2.yaml "${set_keys[@]}" --out "$work/run" >"$work/lithe.log" 2>&1 || { tail -3 "$work/lithe.log"; exit 1; }
[ "$precision" = bf16 ] && bf16=--bf16 || bf16=
"$torch" tools/oracles/wikitext.py --data "$data" --tokenizer "$work/run/tokenizer.json" --steps "$steps" --warmup $((steps / 10)) \
  --eval-steps "$every" $bf16 >"$work/torch.log"
python3 - "$work" <<'PYTHON'
import json, re, sys
work = sys.argv[1]
rows = [json.loads(line) for line in open(f"{work}/run/metrics.jsonl")]
speed = {r["step"]: r["step_seconds"] for r in map(json.loads, open(f"{work}/run/speed.jsonl"))}
logged = sorted(speed)  # mean seconds of the steps since the row before
seconds = lambda step: sum(speed[s] * (s - before) for before, s in zip([0] + logged, logged) if s <= step)
curves = {"lithe": [(r["step"], seconds(r["step"]), r["eval_perplexity"]) for r in rows if "eval_perplexity" in r],
          "PyTorch": [(int(s), int(s) * 2048 / float(rate), float(p)) for s, p, rate in
                      re.findall(r"^step +(\d+).*valid perplexity ([\d.]+).* (\d+) tokens/s$", open(f"{work}/torch.log").read(), re.M)]}
for program, curve in curves.items():
    for step, at, perplexity in curve:
        print(f"program={program} step={step} seconds={at:.1f} perplexity={perplexity:.2f}")
_, peer, goal = curves["PyTorch"][-1]
reached = [at for _, at, perplexity in curves["lithe"] if perplexity <= goal]
if reached:
    print(f"perplexity {goal:.2f}: lithe {reached[0]:.0f} s, PyTorch {peer:.0f} s, {peer / reached[0]:.2f} times sooner")
else:
    print(f"perplexity {goal:.2f} (PyTorch, {peer:.0f} s): not reached by lithe")
PYTHON
