#!/usr/bin/env bash
# Attention to a causal window in lithe, PyTorch and transformers, one sequence, 8 heads of 64, program after program in
# each round, so that a machine whose speed changes is fair to all; at the end the medians, the memory that a run adds,
# and lithe's ratio to the others' fastest. Each line has a process of its own, so that its peak memory is its own.
#   bench/peers/fields.sh [rounds] [T ...] [precisions] [window] [repeats] [cases] [passes]
#   bench/peers/fields.sh 3 "8192 32768" "f32 bf16"
# Cases: core (queries, keys and values are given), layer (width 512, with its maps). Passes: train (forward and
# backward), forward. Longformer and BigBird look to both sides: about twice the pairs. PyTorch with a mask needs
# some 10 bytes a pair of tokens: modes that run out of memory are left out. PYTHON: a Python with torch 2.5 and transformers.
# Needs `ninja -C build/release attention_bench linear_time_bench`.
set -euo pipefail
cd "$(dirname "$0")/../.."
rounds="${1:-3}" lengths="${2:-8192}" precisions="${3:-f32 bf16}" window="${4:-256}" repeats="${5:-3}"
cases="${6:-core layer}" passes="${7:-train forward}"
. bench/peers/settings.sh
can "$torch" torch PyTorch && pytorch=1 || pytorch=
[ -n "$pytorch" ] && can "$torch" transformers transformers && layers="longformer bigbird" || layers=
for round in $(seq "$rounds"); do
  for length in $lengths; do
    for precision in $precisions; do
      for pass in $passes; do
        for case in $cases; do
          if [ "$case" = core ]; then
            build/release/bench/attention_bench "$repeats" field "$pass" "$precision" "$length" "$window"
            modes="sdpa flex"
          elif [ "$pass" = train ]; then
            layer="attention: {num_attention_heads: 8, field: {type: local, window: $window}}"
            build/release/bench/linear_time_bench train "$precision" "$length" "$length" "$repeats" "$layer" |
              sed -n "s/^lithe case=attention/lithe case=layer pass=train/p"
            modes="sdpa $layers"
          else
            continue # the layers are compared where they are trained
          fi
          [ -z "$pytorch" ] || for mode in $modes; do
            peer "$torch" bench/peers/torch_fields.py "$case" "$mode" "$pass" "$precision" "$length" "$window" "$repeats"
          done
        done
      done
    done
  done
done | tee >(cat >&2) | python3 bench/peers/ratios.py tok/s case pass dtype T
