#!/usr/bin/env bash
# Builds the fuzzers of tests/fuzz with clang and runs each for some seconds: tools/fuzz.sh [seconds], default 20.
# What they find stays in build/fuzz/found; run one again with, for example,
#   build/fuzz/tests/fuzz/recipe_fuzz build/fuzz/found/recipe_fuzz-crash-...
set -euo pipefail
cd "$(dirname "$0")/.."
seconds="${1:-20}"
build=build/fuzz
compiler=$(command -v clang++ || command -v clang++-14 || true)
if [ -z "$compiler" ]; then
  echo "fuzz: clang++ is needed (apt-get install clang libomp-dev)" >&2
  exit 1
fi
mkdir -p "$build/found"
cmake -S . -B "$build" -G Ninja -DLITHE_FUZZ=ON -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_COMPILER="$compiler" >"$build/configure.log" 2>&1 || { cat "$build/configure.log" >&2; exit 1; }
targets=()
for source in tests/fuzz/*_fuzz.cpp; do targets+=("$(basename "$source" .cpp)"); done
nice ninja -C "$build" "${targets[@]}"
status=0
for target in "${targets[@]}"; do
  corpus="$build/corpus/$target"
  mkdir -p "$corpus"
  read_only=()
  if [ "$target" = recipe_fuzz ]; then read_only=(recipes); fi
  echo "fuzz: $target for $seconds s"
  "$build/tests/fuzz/$target" -max_total_time="$seconds" -max_len=20000 -timeout=10 -rss_limit_mb=4096 -print_final_stats=0 \
    -artifact_prefix="$build/found/$target-" "$corpus" "${read_only[@]}" >"$build/$target.log" 2>&1 || { tail -40 "$build/$target.log" >&2; status=1; }
done
exit $status
