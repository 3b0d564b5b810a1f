#!/usr/bin/env bash
# The evaluation harness on an exported run, through transformers, and `lithe eval --tasks` on the run itself: the same
# tasks, and whether their results are the same to the digit.
#   LITHE_DATA=... bench/peers/harness.sh RUN [TASK.yaml ...]
# Without tasks: those of recipes/zero_shot with JSON lines under LITHE_DATA. PYTHON: a Python with torch, transformers, lm_eval
# and accelerate. Ends with 1 where a result differs. Rolling perplexities need HARNESS_ARGS=add_bos_token=False: the harness would
# otherwise predict the bos that the exported tokenizer begins each text with, too.
set -euo pipefail
cd "$(dirname "$0")/../.."
LITHE_DATA="$(cd "${LITHE_DATA:?the data of the tasks}" && pwd)"
export LITHE_DATA
run="${1:?harness.sh RUN [TASK.yaml ...]}"
shift
[ "$#" -gt 0 ] || set -- recipes/zero_shot/{arc_easy,boolq,copa,lambada,openbook_qa,piqa}.yaml
scratch="$(mktemp -d)"
trap 'rm -rf "$scratch"' EXIT
. bench/peers/harness_tasks.sh
harness_tasks "$scratch/tasks" "$@"
build/release/bin/lithe export "$run" --out "$scratch/exported" >&2
build/release/bin/lithe eval "$run" "${own[@]}" --json > "$scratch/lithe.json"
(cd "$LITHE_DATA" && HF_HUB_OFFLINE=1 HF_DATASETS_OFFLINE=1 "${PYTHON:-python3}" -m lm_eval --model hf \
  --model_args "pretrained=$scratch/exported,dtype=float32${HARNESS_ARGS:+,$HARNESS_ARGS}" --device cpu --batch_size 16 --include_path "$scratch/tasks" \
  --tasks "$(IFS=,; echo "${names[*]}")" --output_path "$scratch/theirs" >&2)
python3 bench/peers/harness.py "$scratch/lithe.json" "$scratch"/theirs/*/results_*.json
