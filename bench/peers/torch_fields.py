"""The work of `attention_bench field` and of a layer with a window in PyTorch, for bench/peers/fields.sh: one sequence
of T tokens, 8 heads of 64, each query with the last `window` keys. Prints a line of key=value pairs.

  python3 bench/peers/torch_fields.py CASE MODE train|forward f32|bf16 T WINDOW [repeats]

CASE MODE
  core sdpa          scaled_dot_product_attention with a mask [T, T]
  core flex          flex_attention with a block mask, compiled; on a CPU PyTorch 2.6 has its forward pass only
  layer sdpa         the same attention with maps of width 512 before and behind it
  layer longformer   transformers' LongformerSelfAttention, WINDOW tokens on each side (it is not causal)
  layer bigbird      transformers' BigBirdBlockSparseAttention, blocks as its configuration has them: 3 of 64 in the
                     window, 3 random ones and 2 for all (it is not causal)
train: forward and backward. grownRSS_MB: the peak less what the process held before its inputs were made and after a
run that is not timed; the mask is counted.
"""
import ctypes
import gc
import statistics
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn

WIDTH, HEADS = 512, 8


def memory(key):
    """A number of /proc/self/status in MB."""
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(key + ":"))


def sdpa(length, window):
    i = torch.arange(length)
    mask = (i[None, :] <= i[:, None]) & (i[None, :] > i[:, None] - window)
    return lambda q, k, v: F.scaled_dot_product_attention(q, k, v, attn_mask=mask), mask.nbytes


def flex(length, window):
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    mask = create_block_mask(lambda b, h, i, j: (j <= i) & (i - j < window), None, None, length, length, device="cpu")
    run = torch.compile(flex_attention)
    return lambda q, k, v: run(q, k, v, block_mask=mask), 0


class Projected(nn.Module):
    def __init__(self, core):
        super().__init__()
        self.core, self.qkv, self.out = core, nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        q, k, v = self.qkv(x).view(*x.shape[:2], 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        return self.out(self.core(q, k, v).transpose(1, 2).reshape(x.shape))


class Longformer(nn.Module):
    def __init__(self, length, window, dtype):
        super().__init__()
        from transformers import LongformerConfig
        from transformers.models.longformer.modeling_longformer import LongformerSelfAttention

        config = LongformerConfig(hidden_size=WIDTH, num_attention_heads=HEADS, num_hidden_layers=1,
                                  attention_window=[2 * window], attention_probs_dropout_prob=0.0)
        self.layer = LongformerSelfAttention(config, 0)
        self.mask, self.no = torch.zeros(1, length, dtype=dtype), torch.zeros(1, length, dtype=torch.bool)

    def forward(self, x):
        return self.layer(x, attention_mask=self.mask, is_index_masked=self.no, is_index_global_attn=self.no,
                          is_global_attn=False)[0]


class BigBird(nn.Module):
    def __init__(self, length, dtype):
        super().__init__()
        from transformers import BigBirdConfig
        from transformers.models.big_bird.modeling_big_bird import BigBirdBlockSparseAttention, BigBirdModel

        config = BigBirdConfig(hidden_size=WIDTH, num_attention_heads=HEADS, num_hidden_layers=1,
                               max_position_embeddings=length, attention_probs_dropout_prob=0.0)
        self.layer = BigBirdBlockSparseAttention(config, seed=0)
        self.masks = BigBirdModel.create_masks_for_block_sparse_attn(torch.ones(1, length, dtype=dtype),
                                                                     config.block_size)

    def forward(self, x):
        blocks, band, rows, columns = self.masks
        return self.layer(x, band_mask=band, from_mask=rows, to_mask=columns, from_blocked_mask=blocks,
                          to_blocked_mask=blocks)[0]


def main():
    case, mode, which, precision = sys.argv[1:5]
    length, window = int(sys.argv[5]), int(sys.argv[6])
    repeats = int(sys.argv[7]) if len(sys.argv) > 7 else 3
    dtype = {"f32": torch.float32, "bf16": torch.bfloat16}[precision]
    training = which == "train"
    torch.manual_seed(1)
    held = 0
    if case == "core":
        run, held = {"sdpa": sdpa, "flex": flex}[mode](length, window)
        shapes = [(1, HEADS, length, WIDTH // HEADS)] * 3
    else:
        if mode == "sdpa":
            core, held = sdpa(length, window)
            run = Projected(core)
        else:
            run = Longformer(length, window, dtype) if mode == "longformer" else BigBird(length, dtype)
        run, shapes = run.to(dtype), [(1, length, WIDTH)]

    def timed(count):
        given = [torch.randn(shape, dtype=dtype, requires_grad=training) for shape in shapes]
        dy = torch.randn(shapes[0], dtype=dtype)
        times = []
        for _ in range(count):
            for x in [*given, *(run.parameters() if case == "layer" else [])]:
                x.grad = None
            start = time.perf_counter()
            with torch.set_grad_enabled(training):
                out = run(*given)
            if training:
                out.backward(dy)
            times.append(time.perf_counter() - start)
            del out
        return times

    try:
        timed(1)
        gc.collect()
        ctypes.CDLL(None).malloc_trim(0)
        with open("/proc/self/clear_refs", "w") as peak:  # sets the peak back
            peak.write("5")
        before = memory("VmRSS")
        times = timed(repeats)
    except Exception as error:  # no backward pass, no compiler, a missing package
        lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
        reason = next((line for line in lines if "NotImplementedError" in line), " ".join(lines[:2]))
        print(f"left out: {case} mode={mode} pass={which} dtype={precision}: {reason}", file=sys.stderr)
        return
    middle, peak = statistics.median(times), memory("VmHWM")
    print(f"torch {torch.__version__} case={case} mode={mode} pass={which} dtype={precision} T={length} "
          f"window={window} threads={torch.get_num_threads()} tok/s={length / middle:.1f} ms={1e3 * middle:.2f} "
          f"min={1e3 * min(times):.2f} peakRSS_MB={peak:.0f} grownRSS_MB={peak - before + held / 2**20:.0f}")


main()
