"""What bench/encoder_bench.cpp does with BERT-base, for the peers of bench/peers/encode.sh."""
import resource
import statistics
import time

TOKENS, BATCHES = 128, (1, 16)


def measure_encoding(program, runs, repeats):
    """A line of key=value pairs for each of `runs`, (mode, type, batch): what encodes a batch, medians after one round
    that does not count; the cases take turns."""
    times = {case: [] for case in runs}
    for repeat in range(repeats + 1):
        for (mode, dtype, batch), run in runs.items():
            for _ in range(5 if batch == 1 else 1):
                start = time.perf_counter()
                run()
                if repeat:
                    times[mode, dtype, batch].append(time.perf_counter() - start)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    for (mode, dtype, batch), of in times.items():
        middle = statistics.median(of)
        print(f"{program} mode={mode} dtype={dtype} batch={batch} seq/s={batch / middle:.2f} ms={1e3 * middle:.1f} "
              f"min={1e3 * min(of):.1f} max={1e3 * max(of):.1f} peakRSS_MB={peak:.0f}")
