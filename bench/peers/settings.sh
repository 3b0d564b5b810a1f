# What the scripts of this folder share; read by them, not run.
torch="${PYTHON:-python3}" peers="${PEERS_PYTHON:-python3}"
# glibc keeps its pages and has huge ones: without this PyTorch maps and zeroes every large tensor anew.
export GLIBC_TUNABLES=glibc.malloc.mmap_threshold=4294967296:glibc.malloc.trim_threshold=8589934592:glibc.malloc.hugetlb=1
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-2}"
# HOLD=avx2 or avxvnni: lithe and its peers run as on a processor that has no more. Settings of the peers' own libraries hold a
# part of a program only (OpenVINO's products in f32 come from two libraries). llama.cpp must be built for such a processor.
# lithe must be built with LITHE_INSTRUCTION_SETS=all.
held=
if [ -n "${HOLD:-}" ]; then
  export LITHE_ISA="$HOLD" HOLD_CPU="$HOLD" ATEN_CPU_CAPABILITY=avx2
  ! build/release/bin/lithe doctor | grep "scalar references" >&2 || exit 1
  held="$PWD/build/release/bench/hold_cpu.so"
  c++ -std=c++20 -O2 -shared -fPIC -o "$held" bench/peers/hold_cpu.cpp
fi
# can PYTHON MODULES PROGRAM: whether a peer is there; says so when not.
can() { "$1" -c "import $2" 2> /dev/null || { echo "left out: $3 ($1 cannot import $2)" >&2; return 1; }; }
# turn COMMAND...: a line for turns.py, with what holds peers; in_turns ROUNDS RATE CASE... < LINES runs them.
turn() { echo "env LD_PRELOAD=$held$(printf ' %q' "$@")"; }
in_turns() {
  local commands status=0
  commands="$(mktemp)"
  cat > "$commands"
  python3 bench/peers/turns.py "$1" "$commands" "${@:2}" || status=$?
  rm -f "$commands"
  return $status
}
# peer COMMAND...: runs a program that lithe is compared with. One that fails, or that the kernel ends for want of memory,
# is said and left out of the table. `cat` waits for a compiler's processes, which outlive the program and would slow down
# what comes next.
peer() { LD_PRELOAD="$held" "$@" | cat || echo "left out: $* (ended with $?)" >&2; }
