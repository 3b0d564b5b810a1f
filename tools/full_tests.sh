#!/usr/bin/env bash
# The slow tests: address and undefined-behaviour sanitizers over the engine and the readers of files, the thread sanitizer over what
# runs on several threads, then the fuzzers.
set -euo pipefail
cd "$(dirname "$0")/.."
folders=(base tensor report text data kernels ops model train compare cli fuzz)
cmake --preset asan >/dev/null
targets=()
for folder in "${folders[@]}"; do [ -d "tests/$folder" ] && targets+=("test_$folder"); done
nice ninja -C build/asan lithe "${targets[@]}"
# OpenMP keeps memory until the end of the process. detect_stack_use_after_return stays off: gcc 12 then gives
# vectors of 64 bytes stacks aligned to 32, and they fault.
export ASAN_OPTIONS=detect_leaks=0:detect_odr_violation=0 UBSAN_OPTIONS=print_stacktrace=1
pattern=$(IFS='|'; echo "${folders[*]}")
ctest --test-dir build/asan --output-on-failure --no-tests=error -R "^($pattern)$"
ASAN_OPTIONS+=:quarantine_size_mb=16 tools/serve_sanitized.sh build/asan/bin/lithe
# Recipes that nobody would write, each planned or refused within two seconds and a gigabyte.
nice ninja -C build/release lithe test_cli
LITHE_BINARY="$PWD/build/release/bin/lithe" LITHE_RANDOM_RECIPES=2000 build/release/tests/test_cli --gtest_filter='RandomRecipes.*'
# Damaged requests, each of which gets an answer or an error as JSON.
nice ninja -C build/release test_fuzz
LITHE_RANDOM_REQUESTS=1000000 build/release/tests/test_fuzz --gtest_filter='HttpRequests.*'
tools/thread_sanitizer.sh
tools/fuzz.sh "${FUZZ_SECONDS:-20}"
# The packages, where a Debian root can be made.
if [ "$(id -u)" -eq 0 ] && command -v debootstrap >/dev/null; then tools/package_test.sh; else echo "not root, or no debootstrap: packages are not tested"; fi
