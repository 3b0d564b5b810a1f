#!/usr/bin/env bash
# Trains the parser whose trees docs/results.md ("Syntax") uses, in runs/ewt-parser: smaller than recipes/tasks/ewt_parser.yaml,
# a few minutes on one core. Does nothing where it is finished. Needs LITHE_DATA.
#   tools/small_parser.sh build/release/bin/lithe [seed] [DIR]
set -euo pipefail
cd "$(dirname "$0")/.."
lithe=${1:-build/release/bin/lithe} seed=${2:-1} out=${3:-runs/ewt-parser}
[ -e "$out/report.html" ] || "$lithe" train recipes/tasks/ewt_parser.yaml --out "$out" --threads 1 --resume auto \
  --set model.hidden_size=128 --set model.num_hidden_layers=3 --set model.mixer.num_attention_heads=4 \
  --set model.ffn.intermediate_size=384 --set train.num_train_epochs=10 --set train.learning_rate=2.0e-3 --set train.seed="$seed"
