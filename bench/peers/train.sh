#!/usr/bin/env bash
# Training throughput and peak memory of lithe and PyTorch on the same work, in turns of about a second, so that a
# machine whose speed changes is fair to all (turns.py); at the end the medians and lithe's ratio to PyTorch's fastest mode. A
# peer that is not installed is left out, and that is said. All modes are in memory at once, but those of b one by one.
#   bench/peers/train.sh [rounds] [configurations: c a b] [precisions: f32 bf16] [PyTorch's modes]
# Needs `ninja -C build/release benchmarks`, and for the peers PYTHON, a Python with torch 2 (default python3), and
# PYTHON113, one with Debian 12's 1.13: apt-get install python3-torch libblis4-openmp libopenblas0-openmp
# libtcmalloc-minimal4, then PYTHON113=/usr/bin/python3. That one runs in the settings that were fastest for it: BLIS with
# OpenMP in f32, OpenBLAS with OpenMP and AVX-512 kernels in bf16. BLIS 0.9 knows no processor after Zen 4 and takes its
# slowest kernels there: BLIS_ARCH_TYPE (default skx, for AVX-512) names others, zen3 those for AVX2. The modes for memory
# run with tcmalloc where it is.
set -euo pipefail
cd "$(dirname "$0")/../.."
rounds="${1:-5}" configurations="${2:-c a b}" precisions="${3:-f32 bf16}"
modes="${4:-sdpa explicit compiled compiled-explicit lean checkpoint}"
old="${PYTHON113:-}" libraries="/usr/lib/$(uname -m)-linux-gnu"
. bench/peers/settings.sh
can "$torch" torch PyTorch && pytorch=1 || pytorch=
[ -n "$old" ] && can "$old" torch "PyTorch 1.13" && pytorch113=1 || pytorch113=
[ -n "$old" ] || echo "left out: PyTorch 1.13 (PYTHON113 is not set)" >&2
tcmalloc="$libraries/libtcmalloc_minimal.so.4"
[ -e "$tcmalloc" ] || { echo "PyTorch's modes for memory run without tcmalloc ($tcmalloc is missing)" >&2; tcmalloc=; }

# run PYTHON CONFIGURATION PRECISION MODE, after what env sets: one case in its process.
run() {
  local held="$held"
  case "${*: -1}" in lean | checkpoint) held="$tcmalloc${held:+:$held}"; set -- GLIBC_TUNABLES= "$@" ;; esac
  turn "$@"
}
run113() {
  [ "$2" = bf16 ] && blas=openblas-openmp || blas=blis-openmp
  run BLIS_ARCH_TYPE="${BLIS_ARCH_TYPE:-skx}" ATEN_CPU_CAPABILITY="$([ "$2" = bf16 ] && echo avx512 || echo avx2)" \
    LD_LIBRARY_PATH="$libraries/$blas" "$old" bench/peers/torch_train.py "$@"
}
for configuration in $configurations; do
  for precision in $precisions; do
    [ "$configuration" = b ] && read -ra groups <<< "$modes" || groups=("$modes")
    for group in "${groups[@]}"; do
      {
        for mode in "" recompute; do held= turn build/release/bench/train_bench "$configuration" "$precision" turns $mode; done
        [ -z "$pytorch" ] || for mode in $group; do
          run "$torch" bench/peers/torch_train.py "$configuration" "$precision" "$mode"
        done
        [ -z "$pytorch113" ] || for mode in $group; do
          case "$mode" in compiled*) continue ;; esac
          run113 "$configuration" "$precision" "$mode"
        done
      } | in_turns "$rounds" tok/s cfg dtype
    done
  done
done | tee >(cat >&2) | python3 bench/peers/ratios.py tok/s cfg dtype
