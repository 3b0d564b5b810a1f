"""The work of bench/train_bench.cpp in PyTorch, for bench/peers/train.sh: the same GPT, one batch of random tokens,
forward, cross-entropy, backward, AdamW, as turns.py asks.

  python3 bench/peers/torch_train.py a|b|c f32|bf16 MODE

MODE
  sdpa, explicit     attention by scaled_dot_product_attention, or by products and softmax
  compiled, compiled-explicit
                     the same two under torch.compile
  lean, checkpoint   sdpa with an optimiser that goes from tensor to tensor, and with the blocks' activations
                     computed again in the backward pass: less memory
"""
import sys

import torch

from torch_gpt import Gpt
from torch_steps import train_step
from turns import take_turns

CONFIGS = {  # layers, hidden, heads, vocabulary, context, batch
    "a": (6, 512, 8, 8192, 256, 8),
    "b": (12, 768, 12, 50257, 512, 2),
    "c": (4, 256, 8, 2048, 128, 16),
}


def adamw(parameters, lean):
    options = dict(lr=3e-4, betas=(0.9, 0.95), weight_decay=0.1)
    if lean:
        return torch.optim.AdamW(parameters, foreach=False, **options)
    try:
        return torch.optim.AdamW(parameters, fused=True, **options)
    except (TypeError, RuntimeError):  # 1.13
        return torch.optim.AdamW(parameters, foreach=True, **options)


def main():
    name, precision, mode = sys.argv[1:4]
    layers, width, heads, vocabulary, context, batch = CONFIGS[name]
    torch.manual_seed(1)
    torch.set_num_threads(2)
    model = Gpt(layers, width, heads, vocabulary, context, mode.endswith("explicit"), mode == "checkpoint")
    run = torch.compile(model, dynamic=False) if mode.startswith("compiled") else model
    optimizer = adamw(model.parameters(), mode in ("lean", "checkpoint"))
    ids, labels = torch.randint(vocabulary, (2, batch, context)).unbind()

    def loss_of():
        with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16"):
            return run(ids, labels)

    for _ in range(2):
        train_step(loss_of, optimizer)
    label = mode if torch.__version__ >= "2" else f"1.13-{mode}"
    take_turns(f"torch {torch.__version__}", [(f"cfg={name} dtype={precision} mode={label} count={batch * context}",
                                               lambda: train_step(loss_of, optimizer))])


if __name__ == "__main__":
    main()
