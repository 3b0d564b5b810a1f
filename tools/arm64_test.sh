#!/usr/bin/env bash
# tools/arm64_test.sh BUILD: passes the tests of the core in a cross-built tree under user emulation, and looks at the
# machine code of the matrix products. LITHE_ARM64_TESTS names other test programs.
set -uo pipefail
build="$1" failed=0 passed=0
sysroot=$(sed -n 's/^CMAKE_SYSROOT:[A-Z]*=//p' "$build/CMakeCache.txt")
# Emulation takes some 20 times as long: the largest shapes and whole trainings are left to a real processor.
filter() {
  case "$1" in
    base) echo '-Node.HostileTextsAreBoundedInMemoryAndTime' ;;  # seconds of a real processor
    conformance) echo '*fnet*:*mixer_mha*:*rmsnorm*:*swiglu*' ;;
    *) echo '*' ;;
  esac
}
for name in ${LITHE_ARM64_TESTS:-base tensor kernels ops conformance}; do
  start=$SECONDS
  log="$build/test_$name.log"
  OMP_NUM_THREADS=2 LITHE_BINARY="$build/bin/lithe" qemu-aarch64 -L "${sysroot:-$build/sysroot}" "$build/tests/test_$name" \
    --gtest_brief=1 --gtest_filter="${LITHE_ARM64_FILTER:-$(filter "$name")}" >"$log" 2>&1
  status=$?
  # A filter that fits nothing passes nothing.
  ran=$(sed -nE 's/^\[==========\] ([0-9]+) tests? from .* ran\..*/\1/p' "$log")
  if [ $status -eq 0 ] && [ "${ran:-0}" -gt 0 ]; then
    passed=$((passed + 1))
    echo "arm64 $name: $ran tests, $((SECONDS - start)) s"
  else
    failed=$((failed + 1))
    tail -n 40 "$log"
    echo "arm64 $name: FAILED (exit $status, ${ran:-0} tests ran); all of it in $log"
  fi
done
if tools/arm64_vectors.sh "$build"; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
