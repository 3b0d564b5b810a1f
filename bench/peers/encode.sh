#!/usr/bin/env bash
# Encoding throughput of lithe and PyTorch on the same work, program after program in each round, so that a machine whose
# speed changes is fair to both; at the end, of each case, the medians over rounds and lithe's ratio to PyTorch's fastest
# mode. Needs `ninja -C build/release benchmarks` and a python3 with torch (PYTHON=...).
#   bench/peers/encode.sh [rounds] [repeats] [PyTorch's modes: fast,sdpa]
set -euo pipefail
cd "$(dirname "$0")/../.."
rounds="${1:-3}" repeats="${2:-3}" modes="${3:-fast,sdpa}" python="${PYTHON:-python3}"
# glibc keeps its pages: without this PyTorch maps and zeroes every large tensor anew.
export GLIBC_TUNABLES=glibc.malloc.mmap_threshold=4294967296:glibc.malloc.trim_threshold=8589934592:glibc.malloc.hugetlb=1
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-2}"
for round in $(seq "$rounds"); do
  build/release/bench/encoder_bench "$repeats"
  "$python" bench/peers/torch_encode.py "$repeats" "$modes"
done | tee >(cat >&2) | "$python" -c '
import re, statistics, sys
rates = {}  # (dtype, batch) -> program and mode -> sequences/s of each round
for line in sys.stdin:
    value = dict(re.findall(r"(\S+)=(\S+)", line))
    programs = rates.setdefault((value["dtype"], value["batch"]), {})
    programs.setdefault(value.get("mode", "lithe"), []).append(float(value["seq/s"]))
for (dtype, batch), programs in rates.items():
    lithe = statistics.median(programs.pop("lithe"))
    mode, peer = max(((m, statistics.median(r)) for m, r in programs.items()), key=lambda x: x[1])
    print(f"{dtype} batch {batch}: lithe {lithe:.2f} seq/s, PyTorch {peer:.2f} ({mode}), ratio {lithe / peer:.2f}")
'
