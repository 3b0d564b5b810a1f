#!/usr/bin/env bash
# What drafted tokens are worth: a model of 124 million parameters alone and with a drafter of 11.5 million, in turns. Both learn
# a page of text by heart, the drafter with every EVERY-th line backwards, so that there it is wrong.
#   bench/drafting.sh TEXT [EVERY ...]        TEXT: a file with lines of some 100 characters, for example runs/corpus/bible.txt;
#                                             EVERY: default 0 8 4 (0: the drafter is always right)
# ROUNDS (3), TOKENS (300), OUT (runs/drafting). Prints, of each EVERY, the drafted tokens that were right, and the medians.
set -euo pipefail
cd "$(dirname "$0")/.."
text="${1:?drafting.sh TEXT [EVERY ...]}"
shift
[ "$#" -gt 0 ] || set -- 0 8 4
lithe=build/release/bin/lithe out="${OUT:-runs/drafting}"
mkdir -p "$out"
awk 'length > 80 && length < 160 && ++n <= 16' "$text" > "$out/page.txt"
prompt="$(head -n 1 "$out/page.txt" | cut -d ' ' -f 1-4)"
learn() {  # learn RUN TEXT TOKENIZER LAYERS WIDTH HEADS STEPS RATE
  [ -e "$1/model.safetensors" ] && return
  cat > "$out/recipe.yaml" <<END
model:
  vocab_size: 50257
  hidden_size: $5
  num_hidden_layers: $4
  position: {type: rotary}
  mixer: {type: attention, num_attention_heads: $6}
  ffn: {type: gelu, intermediate_size: $(($5 * 4))}
  tie_word_embeddings: true
data: {files: [$2], documents: file, tokenizer: $3, sequence_length: 1024}
train: {max_steps: $7, batch_tokens: 1024, learning_rate: $8, warmup_steps: 10, precision: bf16, eval_steps: 0, sample_steps: 0}
generate: {prompt: "$prompt"}
END
  $lithe train "$out/recipe.yaml" --out "$1" --overwrite > "$1.log" 2>&1
}
learn "$out/large" "$out/page.txt" '{type: bpe, vocab_size: 800}' 12 768 12 100 4.0e-4
speed() { $lithe generate "$out/large" --prompt "$prompt" --max-new-tokens "${TOKENS:-300}" --greedy --json --times "$@" 2> /dev/null; }
speed > "$out/alone.json"
for every in "$@"; do
  awk -v every="$every" 'every && NR % every == 0 { for (i = NF; i; --i) printf "%s%s", $i, (i > 1 ? " " : "\n"); next } 1' \
    "$out/page.txt" > "$out/page-$every.txt"
  learn "$out/small-$every" "$out/page-$every.txt" "{type: file, file: $out/large/tokenizer.json}" 4 192 4 300 3.0e-3
  for ((round = 0; round < ${ROUNDS:-3}; ++round)); do
    speed > "$out/alone-$round.json"
    speed --draft "$out/small-$every" > "$out/drafted-$round.json"
  done
  python3 - "$out" "$every" "${ROUNDS:-3}" <<'END'
import json, statistics, sys

out, every, rounds = sys.argv[1], sys.argv[2], int(sys.argv[3])
read = lambda name: [json.loads(line) for line in open(f"{out}/{name}.json")]
alone, drafted = ([read(f"{kind}-{i}") for i in range(rounds)] for kind in ("alone", "drafted"))
assert all(run[0]["text"] == alone[0][0]["text"] for run in alone + drafted), "the texts differ"
rate = lambda runs: statistics.median(run[1]["times"]["tokens_per_second"] for run in runs)
t = drafted[0][1]["times"]
print(f"every={every} drafted={t['drafted']} taken={t['taken']} acceptance={t['acceptance']:.2f} "
      f"alone={rate(alone):.1f} with_drafter={rate(drafted):.1f} ratio={rate(drafted) / rate(alone):.2f}")
END
done
