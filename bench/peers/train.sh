#!/usr/bin/env bash
# Training throughput of lithe and PyTorch on the same work, program after program in each round, so that a machine whose
# speed changes is fair to both. Needs `ninja -C build/release benchmarks` and a python3 with torch (PYTHON=...).
#   bench/peers/train.sh [rounds] [configurations] [precisions]
set -euo pipefail
cd "$(dirname "$0")/../.."
rounds="${1:-3}" configurations="${2:-c a b}" precisions="${3:-f32 bf16}" python="${PYTHON:-python3}"
# glibc keeps its pages: without this PyTorch maps and zeroes every large tensor anew.
export GLIBC_TUNABLES=glibc.malloc.mmap_threshold=4294967296:glibc.malloc.trim_threshold=8589934592:glibc.malloc.hugetlb=1
for round in $(seq "$rounds"); do
  for configuration in $configurations; do
    for precision in $precisions; do
      build/release/bench/train_bench "$configuration" "$precision"
      for attention in sdpa explicit; do "$python" bench/peers/torch_train.py "$configuration" "$precision" "$attention"; done
    done
  done
done
