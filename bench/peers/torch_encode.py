"""The work of bench/encoder_bench.cpp in PyTorch, for bench/peers/encode.sh: a BERT-base without head on sequences of
128 tokens, batch 1 and 16, f32 and bf16 (weights too), in three modes, as turns.py asks.

  fast      nn.TransformerEncoder in eval mode, whose layers run fused ("fast path")
  sdpa      plain modules around scaled_dot_product_attention, queries, keys and values from one product
  compiled  the same under torch.compile, each shape for itself

  python3 bench/peers/torch_encode.py [modes]
"""
import sys

import torch
import torch.nn.functional as F
from torch import nn

from encoding import BATCHES, TOKENS, encoding
from turns import take_turns

LAYERS, WIDTH, HEADS, HIDDEN, VOCABULARY = 12, 768, 12, 3072, 30522


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, HIDDEN), nn.Linear(HIDDEN, WIDTH)
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)

    def forward(self, x):
        batch, tokens, _ = x.shape
        q, k, v = self.qkv(x).view(batch, tokens, 3, HEADS, -1).permute(2, 0, 3, 1, 4).unbind()
        y = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(batch, tokens, WIDTH)
        x = self.norm1(x + self.out(y))
        return self.norm2(x + self.down(F.gelu(self.up(x))))


class Bert(nn.Module):
    def __init__(self, mode):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(512, WIDTH)
        self.norm = nn.LayerNorm(WIDTH)
        if mode == "fast":
            layer = nn.TransformerEncoderLayer(WIDTH, HEADS, HIDDEN, 0.1, "gelu", batch_first=True)
            self.layers = nn.TransformerEncoder(layer, LAYERS, enable_nested_tensor=False)
        else:
            self.layers = nn.Sequential(*(Layer() for _ in range(LAYERS)))

    def forward(self, ids):
        return self.layers(self.norm(self.tokens(ids) + self.positions.weight[: ids.shape[1]]))


@torch.inference_mode()
def main():
    modes = sys.argv[1].split(",") if len(sys.argv) > 1 else ["fast", "sdpa", "compiled"]
    cases = []
    for mode in modes:
        for dtype, name in ((torch.float32, "f32"), (torch.bfloat16, "bf16")):
            torch.manual_seed(1)
            model = Bert(mode).eval().to(dtype)
            for batch in BATCHES:
                ids = torch.randint(VOCABULARY, (batch, TOKENS))
                run = torch.compile(model, dynamic=False) if mode == "compiled" else model
                cases.append(encoding(mode, name, batch, lambda run=run, ids=ids: run(ids)))
    take_turns(f"torch {torch.__version__}", cases)


main()
