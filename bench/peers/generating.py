"""GPT-2 124M and what bench/generate_bench.cpp does with it, for the peers of bench/peers/generate.sh."""
import resource
import statistics
import time

LAYERS, WIDTH, HEADS, VOCABULARY, POSITIONS = 12, 768, 12, 50257, 1024
PREFILL, PROMPT, NEW = 512, 16, 128


def measure(program, weights, mode, start, text, prompt, repeats):
    """A line of key=value pairs for each work, medians after one round that does not count. start(capacity) gives an
    empty sequence, and its next_after(tokens) what follows them, as it takes it; text has PREFILL tokens, prompt PROMPT,
    or is None where nothing is decoded."""
    prefill, decode = [], []
    for _ in range(repeats + 1):
        sequence = start(PREFILL)
        begin = time.perf_counter()
        sequence.next_after(text)
        prefill.append(time.perf_counter() - begin)
        if prompt is None:
            continue
        sequence = start(PROMPT + NEW)
        token = sequence.next_after(prompt)
        begin = time.perf_counter()
        for _ in range(NEW):
            token = sequence.next_after(token)
        decode.append(time.perf_counter() - begin)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    for work, tokens, times in (("prefill", PREFILL, prefill[1:]), ("decode", NEW, decode[1:])):
        if not times:
            continue
        middle = statistics.median(times)
        print(f"{program} work={work} weights={weights} mode={mode} tok/s={tokens / middle:.1f} ms={1e3 * middle:.1f} "
              f"min={1e3 * min(times):.1f} max={1e3 * max(times):.1f} peakRSS_MB={peak:.0f}")
