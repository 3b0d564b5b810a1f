"""The work of bench/linear_time_bench.cpp in PyTorch, for bench/peers/linear_time.sh: one layer of width 512, forward
and backward, on `tokens` tokens in sequences of T. Prints a line of key=value pairs a mode.

  python3 bench/peers/torch_linear_time.py CASE f32|bf16 T TOKENS [repeats]

CASE
  lstm, gru          torch.nn, which run oneDNN
  depthwise          conv1d of each channel with 4 taps, causal
  core:linear        sums of k v by chunks of 64 rows, divided by the sums of weights
  core:decay         the same without divisors, each head with a decay
  core:gated         the same with a decay of each token and head
The cores run as they are (mode=chunked) and under torch.compile where it works (mode=compiled). The chunked form is the
published one in plain PyTorch: products within a chunk, masked; the state between chunks.
"""
import resource
import statistics
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn

WIDTH, HEADS, CHUNK, TAPS = 512, 8, 64, 4


def chunked(q, k, v, log_decay, normalise):
    """q, k, v [B, T, H, D], log_decay [B, T, H] or None -> [B, T, H, D]"""
    B, T, H, D = q.shape
    cut = lambda x: x.view(B, T // CHUNK, CHUNK, H, -1).permute(0, 3, 1, 2, 4)  # [B, H, chunks, rows, D]
    q, k, v = cut(q), cut(k), cut(v)
    mask = torch.ones(CHUNK, CHUNK, dtype=torch.bool, device=q.device).tril()
    if normalise:
        v = torch.cat([v, torch.ones_like(v[..., :1])], -1)
    if log_decay is None:
        weights = (q @ k.transpose(-1, -2)).masked_fill(~mask, 0)
        sums = (k.transpose(-1, -2) @ v).cumsum(2)
        before = torch.cat([torch.zeros_like(sums[:, :, :1]), sums[:, :, :-1]], 2)
        out = weights @ v + q @ before
    else:
        g = log_decay.view(B, T // CHUNK, CHUNK, H).permute(0, 3, 1, 2).float().cumsum(-1)
        factors = (g[..., :, None] - g[..., None, :]).masked_fill(~mask, float("-inf")).exp().to(q.dtype)
        last = g[..., -1:]
        local = (k * (last - g).exp()[..., None].to(k.dtype)).transpose(-1, -2) @ v
        state, before = torch.zeros_like(local[:, :, 0]), []
        for c in range(local.shape[2]):
            before.append(state)
            state = state * last[:, :, c, :, None].exp().to(state.dtype) + local[:, :, c]
        out = ((q @ k.transpose(-1, -2)) * factors) @ v
        out = out + (q * g.exp()[..., None].to(q.dtype)) @ torch.stack(before, 2)
    if normalise:
        out = out[..., :-1] / out[..., -1:].clamp(min=1e-6)
    return out.permute(0, 2, 3, 1, 4).reshape(B, T, H * D)


class Recurrent(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.layer = kind(WIDTH, WIDTH, batch_first=True)

    def forward(self, x):
        return self.layer(x)[0]


class Depthwise(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Conv1d(WIDTH, WIDTH, TAPS, groups=WIDTH)

    def forward(self, x):
        return self.layer(F.pad(x.transpose(1, 2), (TAPS - 1, 0))).transpose(1, 2)


class Core(nn.Module):
    def __init__(self, kind, batch, length, dtype):
        super().__init__()
        shape = (batch, length, WIDTH)
        self.k, self.v = nn.Parameter(torch.rand(shape, dtype=dtype)), nn.Parameter(torch.rand(shape, dtype=dtype))
        self.kind = kind
        self.log_decay = None
        if kind == "decay":
            self.log_decay = nn.Parameter(torch.full((HEADS,), -0.1))
        if kind == "gated":
            self.log_decay = nn.Parameter(torch.full((batch, length, HEADS), -0.1))

    def forward(self, x):
        heads = lambda y: y.view(*y.shape[:2], HEADS, -1)
        decay = self.log_decay
        if decay is not None:
            decay = decay.expand(*x.shape[:2], HEADS)
        return chunked(heads(x), heads(self.k), heads(self.v), decay, self.kind == "linear")


def main():
    case, precision = sys.argv[1:3]
    length, tokens = int(sys.argv[3]), int(sys.argv[4])
    repeats = int(sys.argv[5]) if len(sys.argv) > 5 else 3
    dtype = {"f32": torch.float32, "bf16": torch.bfloat16}[precision]
    torch.manual_seed(1)
    if case.startswith("core:"):
        model, modes = Core(case[5:], tokens // length, length, dtype), ["chunked", "compiled"]
    else:
        model = {"lstm": lambda: Recurrent(nn.LSTM), "gru": lambda: Recurrent(nn.GRU), "depthwise": Depthwise}[case]()
        model, modes = model.to(dtype), ["nn"]
    x = torch.rand(tokens // length, length, WIDTH, dtype=dtype, requires_grad=True)
    dy = torch.rand(tokens // length, length, WIDTH, dtype=dtype)
    for mode in modes:
        run, times = model, []
        try:
            if mode == "compiled":
                run = torch.compile(model)
            for repeat in range(repeats + 2):
                x.grad = None
                model.zero_grad(set_to_none=True)
                start = time.perf_counter()
                run(x).backward(dy)
                if repeat >= 2:
                    times.append(time.perf_counter() - start)
        except Exception as error:  # no compiler, or a version without torch.compile
            print(f"left out: {case} mode={mode}: {str(error).splitlines()[0]}", file=sys.stderr)
            continue
        middle = statistics.median(times)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(f"torch {torch.__version__} case={case} mode={mode} dtype={precision} T={length} "
              f"threads={torch.get_num_threads()} tok/s={tokens / middle:.1f} ms={1e3 * middle:.2f} "
              f"min={1e3 * min(times):.2f} peakRSS_MB={peak:.0f}")


main()
