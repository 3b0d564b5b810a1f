#!/usr/bin/env bash
# Mixers in linear time of lithe and PyTorch on the same work, width 512, 8 heads, forward and backward, program after
# program in each round, so that a machine whose speed changes is fair to all; at the end the medians, peak memory and
# lithe's ratio to PyTorch's fastest mode. Each case has a process of its own, so that its peak memory is its own.
#   bench/peers/linear_time.sh [rounds] [cases] [precisions] [T] [tokens a step] [repeats]
# Cases: lstm gru depthwise core:linear core:decay core:gated. PYTHON: a Python with torch 2 (pip install torch; a
# compiler makes torch.compile possible). Needs `ninja -C build/release linear_time_bench`.
set -euo pipefail
cd "$(dirname "$0")/../.."
rounds="${1:-3}" cases="${2:-lstm gru depthwise core:linear core:decay core:gated}" precisions="${3:-f32 bf16}"
length="${4:-1024}" tokens="${5:-8192}" repeats="${6:-3}"
. bench/peers/settings.sh
can "$torch" torch PyTorch && pytorch=1 || pytorch=
for round in $(seq "$rounds"); do
  for case in $cases; do
    for precision in $precisions; do
      layer="$case"
      [ "$case" != depthwise ] || layer="convolution: {kernel_size: 4}"
      build/release/bench/linear_time_bench train "$precision" "$length" "$tokens" "$repeats" "$layer" |
        sed -n "s/^lithe case=convolution/lithe case=depthwise/; /^lithe/p"
      [ -z "$pytorch" ] || peer "$torch" bench/peers/torch_linear_time.py "$case" "$precision" "$length" "$tokens" "$repeats"
    done
  done
done | tee >(cat >&2) | python3 bench/peers/ratios.py tok/s case dtype T
