"""LoRA of GPT-2's size with PEFT on transformers, for bench/peers/adapters.sh: random weights, rank 8 on the projections of
queries, keys and values, one batch of random tokens, AdamW. Prints one line of key=value pairs.

  python3 bench/peers/torch_peft.py f32|bf16 eager|compiled [steps] [threads] [sequences] [tokens of a sequence]
"""
import statistics
import sys

import torch
from peft import LoraConfig, get_peft_model
from transformers import GPT2Config, GPT2LMHeadModel

from torch_steps import peak_megabytes, timed


def main():
    precision, mode, steps, threads, batch, context = sys.argv[1:] + ["f32", "eager", "8", "2", "2", "512"][len(sys.argv) - 1 :]
    steps, threads, batch, context = int(steps), int(threads), int(batch), int(context)
    torch.manual_seed(1)
    torch.set_num_threads(threads)
    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    # The base in the type that products read; adapters in f32, as PEFT makes them.
    base = GPT2LMHeadModel(GPT2Config(resid_pdrop=0, embd_pdrop=0, attn_pdrop=0, use_cache=False)).to(dtype)
    model = get_peft_model(base, LoraConfig(r=8, lora_alpha=16, target_modules=["c_attn"], fan_in_fan_out=True))
    run = torch.compile(model, dynamic=False) if mode == "compiled" else model
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=3e-4, fused=True)
    ids = torch.randint(50257, (batch, context))

    def loss_of():
        with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16"):
            return run(input_ids=ids, labels=ids).loss

    times, loss = timed(loss_of, optimizer, steps)
    print(f"torch {torch.__version__} job=lora dtype={precision} mode=peft-{mode} threads={threads} "
          f"tok/s={batch * context / statistics.median(times):.1f} peakRSS_MB={peak_megabytes():.0f} loss={loss:.3f}")


main()
