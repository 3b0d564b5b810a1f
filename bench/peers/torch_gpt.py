"""A GPT in plain PyTorch, 1.13 or later, for torch_train.py and torch_generate.py."""
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

try:
    from torch.nn.functional import scaled_dot_product_attention
except ImportError:  # 1.13
    def scaled_dot_product_attention(q, k, v, is_causal):
        return F._scaled_dot_product_attention(q, k, v, None, 0.0, False, is_causal)[0]


class Block(nn.Module):
    def __init__(self, width, heads, context, explicit):
        super().__init__()
        self.heads, self.explicit = heads, explicit
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        if explicit:
            hidden = torch.full((context, context), float("-inf")).triu(1)
            self.register_buffer("mask", hidden, persistent=False)

    def attend(self, x, cache, begin):
        batch, tokens, width = x.shape
        q, k, v = (t.view(batch, tokens, self.heads, -1).transpose(1, 2) for t in self.qkv(x).split(width, 2))
        end = begin + tokens
        if cache is not None:
            cache[0, :, :, begin:end], cache[1, :, :, begin:end] = k, v
            k, v = cache[:, :, :, :end].unbind()
        if self.explicit:
            logits = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
            if tokens > 1:
                logits = logits + self.mask[begin:end, :end].to(q.dtype)
            y = logits.softmax(-1) @ v
        else:
            y = scaled_dot_product_attention(q, k, v, is_causal=tokens > 1)
        return self.out(y.transpose(1, 2).reshape(batch, tokens, width))

    def forward(self, x, cache=None, begin=0):
        x = x + self.attend(self.norm1(x), cache, begin)
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Gpt(nn.Module):
    def __init__(self, layers, width, heads, vocabulary, context, explicit, recompute=False):
        super().__init__()
        self.recompute = recompute
        self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
        self.blocks = nn.ModuleList(Block(width, heads, context, explicit) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.normal_(p, std=0.02)
        self.head.weight = self.tokens.weight

    def rows(self, ids, caches=None, begin=0):
        x = self.tokens(ids) + self.positions.weight[begin : begin + ids.shape[1]]
        for i, block in enumerate(self.blocks):
            x = checkpoint(block, x, use_reentrant=False) if self.recompute else block(x, caches[i] if caches else None, begin)
        return x

    def forward(self, ids, labels):
        """The mean cross-entropy."""
        return F.cross_entropy(self.head(self.norm(self.rows(ids))).float().flatten(0, 1), labels.flatten())

    def next_after(self, ids, caches, begin):
        """The most likely token after ids, which follow `begin` earlier ones in the caches."""
        return self.head(self.norm(self.rows(ids, caches, begin)[:, -1:])).argmax(-1)
