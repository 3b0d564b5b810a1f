#!/usr/bin/env bash
# Training, decoding, the kernels and a server under load, under the thread sanitizer, with two threads. Built by clang: its OpenMP runtime
# tells the sanitizer where threads wait for each other (libarcher), which gcc's does not. Of the instruction sets only this machine's best.
set -euo pipefail
cd "$(dirname "$0")/.."
build=build/tsan
compiler=$(command -v clang++ || command -v clang++-14 || true)
[ -n "$compiler" ] || { echo "thread_sanitizer: clang++ is needed (apt-get install clang libomp-dev)" >&2; exit 1; }
folders=(base tensor kernels train infer)
mkdir -p "$build"
cmake --preset tsan -DCMAKE_CXX_COMPILER="$compiler" >"$build/configure.log" 2>&1 || { cat "$build/configure.log" >&2; exit 1; }
nice ninja -C "$build" lithe "${folders[@]/#/test_}"
# The OpenMP runtime is not instrumented.
export OMP_NUM_THREADS=2 TSAN_OPTIONS=ignore_noninstrumented_modules=1:halt_on_error=1
# libarcher dies (reads address 0) where a league of teams begins, and LLVM's OpenMP runtime where files may not grow.
export GTEST_FILTER='-*FewerThreads:FullDisk.*'
pattern=$(IFS='|'; echo "${folders[*]}")
ctest --test-dir "$build" --output-on-failure --no-tests=error -R "^($pattern)$"
tools/serve_sanitized.sh "$build/bin/lithe"
