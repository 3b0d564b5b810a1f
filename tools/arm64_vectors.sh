#!/usr/bin/env bash
# tools/arm64_vectors.sh BUILD: counts multiply-adds in the machine code of the matrix products, in vectors (fmla v.4s)
# and of single numbers (fmadd s); fails where a vector loop fell apart into single numbers.
set -euo pipefail
build="$1" bad=0
for source in cpu_blocked cpu_skinny; do
  object=$(find "$build" -path "*gemm/$source.cpp.o" | sort | sed -n 1p)
  [ -n "$object" ] || { echo "arm64: $build has no gemm/$source.cpp.o, build it first" >&2; exit 1; }
  code=$(aarch64-linux-gnu-objdump -d --no-show-raw-insn "$object")
  vectors=$(grep -cE '\bfmla\s+v[0-9]+\.4s' <<<"$code" || true)
  singles=$(grep -cE '\bfn?m(add|sub)\s+s[0-9]+' <<<"$code" || true)
  echo "arm64 gemm/$source: $vectors fmla v.4s, $singles fmadd of single numbers"
  if [ "$vectors" -lt 100 ] || [ "$singles" -gt 0 ]; then bad=1; fi
done
exit $bad
