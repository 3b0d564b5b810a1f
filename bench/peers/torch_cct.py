"""The model of recipes/vision/cifar10_cct.yaml in PyTorch, for bench/peers/vision.sh: pictures through two convolutions
3 x 3 (ReLU, largest of 3 x 3 at every second place), two pre-norm layers over 8 x 8 tokens, mean, ten classes. Trains with
AdamW and label smoothing on random pictures. Prints one line of key=value pairs.

  python3 bench/peers/torch_cct.py eager|compiled [steps] [pictures of a step] [threads]
"""
import statistics
import sys

import torch
from torch import nn

from torch_steps import peak_megabytes, timed


class Layer(nn.Module):
    def __init__(self, width, heads, inner, dropout):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, inner), nn.Linear(inner, width)
        self.heads, self.dropout = heads, nn.Dropout(dropout)

    def forward(self, x):
        batch, tokens, width = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(batch, tokens, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        mixed = nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(batch, tokens, width)
        x = x + self.dropout(self.out(mixed))
        return x + self.dropout(self.down(nn.functional.gelu(self.up(self.norm2(x)))))


class Cct(nn.Module):
    def __init__(self, width=128, channels=64, heads=2, inner=128, layers=2, side=32, classes=10, dropout=0.0):
        super().__init__()
        self.convolutions = nn.Sequential(
            nn.Conv2d(3, channels, 3, padding=1, bias=False), nn.ReLU(), nn.MaxPool2d(3, 2, 1),
            nn.Conv2d(channels, width, 3, padding=1, bias=False), nn.ReLU(), nn.MaxPool2d(3, 2, 1))
        self.positions = nn.Parameter(torch.randn((side // 4) ** 2, width) * 0.02)
        self.layers = nn.Sequential(*[Layer(width, heads, inner, dropout) for _ in range(layers)])
        self.norm, self.classify = nn.LayerNorm(width), nn.Linear(width, classes)

    def forward(self, pictures):
        x = self.convolutions(pictures).flatten(2).transpose(1, 2) + self.positions
        return self.classify(self.norm(self.layers(x)).mean(1))


def main():
    mode, steps, batch, threads = sys.argv[1:] + ["eager", "30", "128", "2"][len(sys.argv) - 1 :]
    steps, batch, threads = int(steps), int(batch), int(threads)
    torch.manual_seed(1)
    torch.set_num_threads(threads)
    # Channels last is what PyTorch advises for convolutions on processors.
    model = Cct().to(memory_format=torch.channels_last)
    pictures = torch.randn(batch, 3, 32, 32).to(memory_format=torch.channels_last)
    labels = torch.randint(10, (batch,))
    run = torch.compile(model, dynamic=False) if mode == "compiled" else model
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.05, fused=True)
    times, _ = timed(lambda: nn.functional.cross_entropy(run(pictures), labels, label_smoothing=0.1), optimizer, steps, warm=3)
    rate = batch / statistics.median(times)
    print(f"torch-{torch.__version__} job=train mode={mode} threads={threads} pictures/s={rate:.1f} peakRSS_MB={peak_megabytes():.0f}")


if __name__ == "__main__":
    main()
