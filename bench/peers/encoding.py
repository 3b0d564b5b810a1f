"""What bench/encoder_bench.cpp does with BERT-base, for the peers of bench/peers/encode.sh."""
import statistics
import sys
import time

TOKENS, BATCHES = 128, (1, 16)


def take_turns(program, runs):
    """Prints the cases of `runs`, (mode, type, batch): what encodes a batch; then times each as turns.py asks."""
    for mode, dtype, batch in runs:
        print(f"{program} mode={mode} dtype={dtype} batch={batch}")
    print(flush=True)
    cases = list(runs.values())
    for line in sys.stdin:
        index, repeats = map(int, line.split())
        times = []
        for _ in range(repeats):
            start = time.perf_counter()
            cases[index]()
            times.append(time.perf_counter() - start)
        print(f"{statistics.median(times):.6f}", flush=True)
