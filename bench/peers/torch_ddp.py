"""Data parallel training in PyTorch (DistributedDataParallel over gloo), for bench/peers/ranks.sh: configuration a of
torch_train.py, each process one thread and its share of the 2,048 tokens of a step. Rank 0 prints the line.

  torchrun --nproc_per_node 2 bench/peers/torch_ddp.py f32|bf16 MODE [steps]      MODE: eager or compiled
"""
import statistics
import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from torch_gpt import Gpt
from torch_steps import peak_megabytes, timed
from torch_train import CONFIGS, adamw


def main():
    precision, mode = sys.argv[1:3]
    steps = int(sys.argv[3]) if len(sys.argv) > 3 else 8
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(1)
    layers, width, heads, vocabulary, context, batch = CONFIGS["a"]
    model = DistributedDataParallel(Gpt(layers, width, heads, vocabulary, context, False))
    run = torch.compile(model, dynamic=False) if mode == "compiled" else model
    optimizer = adamw(model.parameters(), lean=False)
    torch.manual_seed(rank)
    ids, labels = torch.randint(vocabulary, (2, batch // ranks, context)).unbind()

    def loss_of():
        with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16"):
            return run(ids, labels)

    times, loss = timed(loss_of, optimizer, steps)
    if rank == 0:
        print(f"torch {torch.__version__} cfg=a dtype={precision} link=none mode=ddp-{mode} ranks={ranks} "
              f"tok/s={batch * context / statistics.median(times):.1f} peakRSS_MB={peak_megabytes():.0f} loss={loss:.3f}", flush=True)
    dist.destroy_process_group()


main()
