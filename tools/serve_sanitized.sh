#!/usr/bin/env bash
# A minute of load on `lithe serve` of a build with a sanitizer: 200 streams, of which some leave early and some are nonsense. Fails where
# an answer is lost or mixed, and where the sanitizer reports something or the server does not end in order.
#   tools/serve_sanitized.sh LITHE [SECONDS] [STREAMS]
set -euo pipefail
cd "$(dirname "$0")/.."
lithe=${1:?serve_sanitized.sh LITHE} seconds=${2:-60} streams=${3:-200}
dir=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill -KILL "$server" 2>/dev/null || true; rm -rf "$dir"' EXIT
cat docs/*.md >"$dir/text.txt"
cat >"$dir/recipe.yaml" <<RECIPE
model: {hidden_size: 32, num_hidden_layers: 2, mixer: {type: attention, num_attention_heads: 2}}
data: {files: [$dir/text.txt], validation_fraction: 0.02, sequence_length: 512, cache_directory: $dir/cache, tokenizer: {type: bytes}}
train: {max_steps: 20, batch_tokens: 1024, eval_steps: 0, sample_steps: 0}
RECIPE
"$lithe" train "$dir/recipe.yaml" --out "$dir/run" --threads 2 >"$dir/train.log" 2>&1 || { tail -n 20 "$dir/train.log" >&2; exit 1; }
"$lithe" serve "$dir/run" --port 0 --threads 2 --queue 1000 --connections $((2 * streams)) >"$dir/stdout" 2>"$dir/stderr" &
server=$!
for _ in $(seq 600); do
  port=$(sed -n 's/.*:\([0-9]*\)$/\1/p' "$dir/stdout")
  [ -z "$port" ] || break
  sleep 0.1
done
[ -n "$port" ] || { echo "serve_sanitized: the server does not listen" >&2; tail -n 20 "$dir/stderr" >&2; exit 1; }
python3 bench/serve_load.py "$port" --streams "$streams" --seconds "$seconds"
kill -TERM "$server"
wait "$server" || { echo "serve_sanitized: the server ends with exit code $?" >&2; grep -a -A30 Sanitizer "$dir/stderr" | head -n 60 >&2; exit 1; }
server=
if grep -aq Sanitizer "$dir/stderr"; then
  grep -a -A30 Sanitizer "$dir/stderr" | head -n 60 >&2
  exit 1
fi
