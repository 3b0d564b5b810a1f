"""The work of bench/train_bench.cpp in PyTorch, for bench/peers/train.sh: the same GPT, one batch of random tokens,
forward, cross-entropy, backward, AdamW. Prints one line of key=value pairs.

  python3 bench/peers/torch_train.py a|b|c f32|bf16 sdpa|explicit [steps]
"""
import resource
import statistics
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn

CONFIGS = {  # layers, hidden, heads, vocabulary, context, batch
    "a": (6, 512, 8, 8192, 256, 8),
    "b": (12, 768, 12, 50257, 512, 2),
    "c": (4, 256, 8, 2048, 128, 16),
}


class Block(nn.Module):
    def __init__(self, width, heads, context, explicit):
        super().__init__()
        self.heads, self.explicit = heads, explicit
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        hidden = torch.full((context, context), float("-inf")).triu(1)
        self.register_buffer("mask", hidden, persistent=False)

    def attend(self, x):
        batch, tokens, width = x.shape
        q, k, v = (t.view(batch, tokens, self.heads, -1).transpose(1, 2) for t in self.qkv(x).split(width, 2))
        if self.explicit:
            logits = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5 + self.mask.to(q.dtype)
            y = logits.softmax(-1) @ v
        else:
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(batch, tokens, width))

    def forward(self, x):
        x = x + self.attend(self.norm1(x))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Gpt(nn.Module):
    def __init__(self, layers, width, heads, vocabulary, context, explicit):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
        self.blocks = nn.ModuleList(Block(width, heads, context, explicit) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.normal_(p, std=0.02)
        self.head.weight = self.tokens.weight

    def forward(self, ids, labels):
        x = self.tokens(ids) + self.positions.weight
        for block in self.blocks:
            x = block(x)
        return F.cross_entropy(self.head(self.norm(x)).float().flatten(0, 1), labels.flatten())


def main():
    name, precision, attention = sys.argv[1:4]
    steps = int(sys.argv[4]) if len(sys.argv) > 4 else 8
    layers, width, heads, vocabulary, context, batch = CONFIGS[name]
    torch.manual_seed(1)
    model = Gpt(layers, width, heads, vocabulary, context, attention == "explicit")
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
    ids, labels = torch.randint(vocabulary, (2, batch, context)).unbind()
    times = []
    for step in range(steps + 2):
        start = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16"):
            loss = model(ids, labels)
        loss.backward()
        optimizer.step()
        if step >= 2:
            times.append(time.perf_counter() - start)
    middle = statistics.median(times)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"torch {torch.__version__} cfg={name} dtype={precision} attention={attention} threads={torch.get_num_threads()} "
          f"tok/s={batch * context / middle:.1f} step_ms={1e3 * middle:.0f} min={1e3 * min(times):.0f} "
          f"max={1e3 * max(times):.0f} peakRSS_MB={peak:.0f} loss={loss.item():.3f}")


main()
