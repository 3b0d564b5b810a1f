"""The work of bench/generate_bench.cpp in PyTorch, for bench/peers/generate.sh, with caches of keys and values that are
written in place. Prints a line of key=value pairs for each work.

  python3 bench/peers/torch_generate.py f32|bf16 sdpa|explicit [repeats]
"""
import resource
import statistics
import sys
import time

import torch

from torch_gpt import Gpt

LAYERS, WIDTH, HEADS, VOCABULARY, POSITIONS = 12, 768, 12, 50257, 1024
PREFILL, PROMPT, NEW = 512, 16, 128


@torch.inference_mode()
def main():
    weights, mode = sys.argv[1:3]
    repeats = int(sys.argv[3]) if len(sys.argv) > 3 else 3
    torch.manual_seed(1)
    torch.set_num_threads(2)
    dtype = {"f32": torch.float32, "bf16": torch.bfloat16}[weights]
    model = Gpt(LAYERS, WIDTH, HEADS, VOCABULARY, POSITIONS, mode == "explicit").eval().to(dtype)
    ids = torch.randint(VOCABULARY, (1, PREFILL))
    caches = lambda tokens: [torch.zeros(2, 1, HEADS, tokens, WIDTH // HEADS, dtype=dtype) for _ in range(LAYERS)]
    prefill, decode = [], []
    for repeat in range(repeats + 1):
        cache = caches(PREFILL)
        start = time.perf_counter()
        model.next_after(ids, cache, 0).item()
        prefill.append(time.perf_counter() - start)
        cache = caches(PROMPT + NEW)
        token = model.next_after(ids[:, :PROMPT], cache, 0)
        start = time.perf_counter()
        for i in range(NEW):
            token = model.next_after(token, cache, PROMPT + i)
        decode.append(time.perf_counter() - start)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    for work, tokens, times in (("prefill", PREFILL, prefill[1:]), ("decode", NEW, decode[1:])):
        middle = statistics.median(times)
        print(f"torch {torch.__version__} work={work} weights={weights} mode=torch-{mode} tok/s={tokens / middle:.1f} "
              f"ms={1e3 * middle:.1f} min={1e3 * min(times):.1f} max={1e3 * max(times):.1f} peakRSS_MB={peak:.0f}")


main()
