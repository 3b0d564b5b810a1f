#!/usr/bin/env bash
# S+R pre-training (shuffle_random) [TH 2.3.6] of one small encoder with each kind of input: tools/hashformer_inputs.sh [LITHE].
# docs/results.md says what it is worth in a task. Some five minutes on two cores. LITHE_DATA must be set.
set -euo pipefail
cd "$(dirname "$0")/.."
lithe=${1:-build/release/bin/lithe}
pretrain() {  # NAME EMBEDDING TOKENIZER
  [ -e "runs/hashformer-inputs/$1/report.html" ] || "$lithe" train recipes/encoders/hashformer_small.yaml --out "runs/hashformer-inputs/$1" --overwrite \
    --set model.hidden_size=128 --set model.num_hidden_layers=2 --set data.sequence_length=64 --set train.max_tokens=1500000 \
    --set 'data.files=[$LITHE_DATA/lm/wikitext-2/train.txt]' --set train.eval_steps=0 --set train.save_steps=0 \
    --set "model.embedding=$2" --set "data.tokenizer=$3"
}
pretrain words '{type: lookup}' '{type: wordpiece, vocab_size: 20000}'
pretrain table '{type: hash_table, num_buckets: 20000}' '{type: words, hash: md5, code: bucket, num_buckets: 20000}'
pretrain table_small '{type: hash_table, num_buckets: 1000}' '{type: words, hash: md5, code: bucket, num_buckets: 1000}'
pretrain pool '{type: hash_pool}' '{type: words, hash: md5, code: bits}'
pretrain add '{type: hash_add}' '{type: words, hash: md5, code: bits}'
pretrain proj '{type: hash_proj}' '{type: words, hash: md5, code: bits}'
