"""The work of bench/generate_bench.cpp in PyTorch, for bench/peers/generate.sh, with caches of keys and values that are
written in place, as turns.py asks.

  python3 bench/peers/torch_generate.py f32|bf16 sdpa|explicit|compiled|compiled-explicit

compiled: prefill alone, under torch.compile; it would compile each decoding step anew.
"""
import sys

import torch

from generating import HEADS, LAYERS, POSITIONS, PREFILL, PROMPT, VOCABULARY, WIDTH, generate_in_turns
from torch_gpt import Gpt


class Sequence:
    def __init__(self, run, capacity, dtype):
        self.run, self.length = run, 0
        self.cache = [torch.zeros(2, 1, HEADS, capacity, WIDTH // HEADS, dtype=dtype) for _ in range(LAYERS)]

    def next_after(self, ids):
        token = self.run(ids, self.cache, self.length)
        self.length += ids.shape[1]
        return token


@torch.inference_mode()
def main():
    weights, mode = sys.argv[1:3]
    torch.manual_seed(1)
    torch.set_num_threads(2)
    dtype = {"f32": torch.float32, "bf16": torch.bfloat16}[weights]
    model = Gpt(LAYERS, WIDTH, HEADS, VOCABULARY, POSITIONS, mode.endswith("explicit")).eval().to(dtype)
    compiled = mode.startswith("compiled")
    run = torch.compile(model.next_after, dynamic=False) if compiled else model.next_after
    ids = torch.randint(VOCABULARY, (1, PREFILL))
    generate_in_turns(f"torch {torch.__version__}", weights, f"torch-{mode}", lambda capacity: Sequence(run, capacity, dtype), ids,
                      None if compiled else ids[:, :PROMPT])


main()
