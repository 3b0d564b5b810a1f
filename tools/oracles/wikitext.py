"""The recipe "WikiText-2 small" in PyTorch: the reference for recipes/wikitext2.yaml.

Trains the decoder of decoder.py with the recipe's hyperparameters on the tokens of a given tokenizer.json and prints
the validation perplexity per token and per word. Needs torch and tokenizers (numpy comes with them).

    python tools/oracles/wikitext.py --bf16 --tokenizer runs/wikitext2/tokenizer.json --data $LITHE_DATA/lm/wikitext-2
    python tools/oracles/wikitext.py --train-tokenizer /tmp/tokenizer.json --data ...   # make one of 8192 first

The defaults of all options are the recipe's; --bf16 is its precision. For PyTorch at its fastest keep glibc from returning memory:
GLIBC_TUNABLES=glibc.malloc.mmap_threshold=4294967296:glibc.malloc.trim_threshold=8589934592:glibc.malloc.hugetlb=1

Data as in lithe: a file is one document t1 ... tn, its rows are E t1 ... tn with labels t1 ... tn E (E =
<|endoftext|>), cut into sequences of 256 rows. Training takes whole sequences, in an order shuffled anew each epoch;
sequences that do not fill a batch wait for another epoch. Validation takes every row once, each sequence on its own.

A line per evaluation: step, training loss since the last line, validation perplexity per token and per word (a line
end counts as a word, as in published WikiText perplexities), tokens per second of training. The last line is JSON.
"""
import argparse
import json
import math
import os
import sys
import time
from pathlib import Path

os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")
import torch
import torch.nn.functional as F
from tokenizers import Tokenizer

sys.path.insert(0, str(Path(__file__).parent))
import decoder

END = "<|endoftext|>"


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--data", type=Path, required=True, help="directory with train.txt and valid.txt")
    p.add_argument("--tokenizer", type=Path, help="tokenizer.json")
    p.add_argument("--train-tokenizer", type=Path, metavar="FILE", help="train a byte-level BPE, write it here and use it")
    p.add_argument("--vocab-size", type=int, default=8192, help="of --train-tokenizer")
    p.add_argument("--hidden-size", type=int, default=256)
    p.add_argument("--layers", type=int, default=4)
    p.add_argument("--heads", type=int, default=8)
    p.add_argument("--intermediate-size", type=int, default=688)
    p.add_argument("--sequence-length", type=int, default=256)
    p.add_argument("--batch-tokens", type=int, default=2048)
    p.add_argument("--steps", type=int, default=1200)
    p.add_argument("--lr", type=float, default=2e-3, help="peak learning rate")
    p.add_argument("--min-lr-ratio", type=float, default=0.1, help="end of the cosine, as a part of the peak")
    p.add_argument("--warmup", type=int, default=120, help="steps")
    p.add_argument("--beta2", type=float, default=0.95)
    p.add_argument("--weight-decay", type=float, default=0.1)
    p.add_argument("--clip", type=float, default=1.0)
    p.add_argument("--dropout", type=float, default=0.0, help="on embeddings and on the output of each sub-layer")
    p.add_argument("--init-std", type=float, default=0.02)
    p.add_argument("--eval-steps", type=int, default=300)
    p.add_argument("--bf16", action="store_true", help="autocast to bfloat16")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--threads", type=int, default=0, help="0: PyTorch's choice")
    p.add_argument("--device", default="cpu")
    return p.parse_args()


def train_tokenizer(corpus, vocab_size, path):
    from tokenizers import decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=vocab_size, special_tokens=[END], show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train([str(corpus)], trainer)
    tokenizer.save(str(path))


def rows(tokenizer, path):
    """Inputs and labels [n + 1] of a file, and its number of words with line ends."""
    text = path.read_text(encoding="utf-8")
    ids = tokenizer.encode(text.rstrip("\n"), add_special_tokens=False).ids
    end = tokenizer.token_to_id(END)
    string = torch.tensor([end, *ids, end])
    return string[:-1], string[1:], len(text.split()) + text.count("\n")


def config(a, vocab_size):
    return {
        "hidden_size": a.hidden_size,
        "num_hidden_layers": a.layers,
        "vocab_size": vocab_size,
        "position": {"type": "rotary"},
        "mixer": {"num_attention_heads": a.heads, "heads": {"type": "mha"}},
        "ffn": {"type": "swiglu", "intermediate_size": a.intermediate_size},
        "norm": {"type": "rms", "eps": 1e-5},
        "residual": {"type": "pre"},
        "tie_word_embeddings": True,
    }


def initialise(model, std, generator):
    """Normal(0, std) for matrices and embedding, output projections of both sub-layers divided by sqrt(2 L); norms 1."""
    output_std = std / math.sqrt(2 * model.options["L"])
    for name, p in model.parameters.items():
        if not decoder.decayed(name):
            p.fill_(1.0)
        else:
            into_residual = name.endswith(("mixer.output.weight", "ffn.down.weight"))
            p.normal_(0, output_std if into_residual else std, generator=generator)
        p.requires_grad_()


def attend_equal_lengths(q, k, v, offsets):
    """decoder.attend for sequences of one length, by PyTorch's fused attention."""
    batch, length = len(offsets) - 1, offsets[1] - offsets[0]
    q, k, v = (t.unflatten(0, (batch, length)).transpose(1, 2) for t in (q, k, v))  # [B, heads, T, dh]
    return F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2).flatten(0, 1)


def learning_rate(step, a):
    """Of a step, counted from 1: up in a line to the peak at `warmup`, down in half a cosine to its end at the last step."""
    if step <= a.warmup:
        return a.lr * step / a.warmup
    progress = (step - a.warmup) / max(1, a.steps - a.warmup)
    return a.lr * (a.min_lr_ratio + (1 - a.min_lr_ratio) * 0.5 * (1 + math.cos(math.pi * progress)))


def batches(n, size, generator):
    """Index sets of `size` out of n sequences, epoch after epoch."""
    while True:
        order = torch.randperm(n, generator=generator)
        yield from order[: n - n % size].split(size)


@torch.no_grad()
def validate(model, inputs, labels, length, autocast, device):
    """Sum of the negative log-likelihood of all labels (nats)."""
    model.training = False
    total = 0.0
    step = 32 * length
    for begin in range(0, len(inputs), step):
        end = min(begin + step, len(inputs))
        full = (end - begin) // length * length  # sequences of full length, then the rest
        for first, last in ((begin, begin + full), (begin + full, end)):
            if first == last:
                continue
            offsets = list(range(0, last - first, length)) + [last - first]
            with autocast():
                logits = model(inputs[first:last].to(device), offsets)
            total += F.cross_entropy(logits.float(), labels[first:last].to(device), reduction="sum").item()
    model.training = True
    return total


def main():
    a = arguments()
    if a.threads:
        torch.set_num_threads(a.threads)
    torch.manual_seed(a.seed)
    generator = torch.Generator().manual_seed(a.seed)

    if a.train_tokenizer:
        train_tokenizer(a.data / "train.txt", a.vocab_size, a.train_tokenizer)
    elif not a.tokenizer:
        sys.exit("wikitext.py: give --tokenizer or --train-tokenizer")
    tokenizer = Tokenizer.from_file(str(a.train_tokenizer or a.tokenizer))
    train_inputs, train_labels, _ = rows(tokenizer, a.data / "train.txt")
    valid_inputs, valid_labels, valid_words = rows(tokenizer, a.data / "valid.txt")

    T = a.sequence_length
    n = len(train_inputs) // T
    sequences, targets = train_inputs[: n * T].view(n, T), train_labels[: n * T].view(n, T)
    size = a.batch_tokens // T
    model = decoder.Decoder(config(a, tokenizer.get_vocab_size()), torch.float32, a.dropout)
    model.attend = attend_equal_lengths
    initialise(model, a.init_std, generator)
    for name, p in model.parameters.items():
        model.parameters[name] = p.detach().to(a.device).requires_grad_()
    parameters = model.parameters
    groups = [{"params": [p for m, p in parameters.items() if decoder.decayed(m) == d], "weight_decay": a.weight_decay * d}
              for d in (True, False)]
    optimiser = torch.optim.AdamW(groups, lr=a.lr, betas=(0.9, a.beta2), eps=1e-8, fused=True)

    def autocast():
        return torch.autocast(a.device, torch.bfloat16, enabled=a.bf16)

    print(f"{sum(p.numel() for p in parameters.values())} parameters, {len(train_inputs)} training tokens "
          f"({n // size} batches an epoch), {len(valid_inputs)} validation tokens, {valid_words} words, "
          f"{torch.get_num_threads()} threads, torch {torch.__version__}", flush=True)
    offsets = list(range(0, a.batch_tokens + 1, T))
    curve, losses, seconds, best = [], 0.0, 0.0, math.inf
    order = batches(n, size, generator)
    for step in range(a.steps):
        start = time.perf_counter()
        chosen = next(order)
        x, y = sequences[chosen].flatten().to(a.device), targets[chosen].flatten().to(a.device)
        with autocast():
            logits = model(x, offsets)
        loss = F.cross_entropy(logits.float(), y)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters.values(), a.clip)
        for group in optimiser.param_groups:
            group["lr"] = learning_rate(step + 1, a)
        optimiser.step()
        optimiser.zero_grad()
        losses += loss.item()
        seconds += time.perf_counter() - start
        if (step + 1) % a.eval_steps == 0 or step + 1 == a.steps:
            since = (step % a.eval_steps) + 1
            nll = validate(model, valid_inputs, valid_labels, T, autocast, a.device)
            token, word = math.exp(nll / len(valid_labels)), math.exp(nll / valid_words)
            best = min(best, token)
            curve.append([step + 1, round(losses / since, 4), round(token, 3), round(word, 3)])
            print(f"step {step + 1:5d}  loss {losses / since:.4f}  valid perplexity {token:.3f} per token, "
                  f"{word:.2f} per word  {a.batch_tokens * (step + 1) / seconds:.0f} tokens/s", flush=True)
            losses = 0.0
    options = {k: str(v) if isinstance(v, Path) else v for k, v in vars(a).items()}
    print(json.dumps({"options": options, "curve": curve, "token_perplexity": token, "word_perplexity": word,
                      "best_token_perplexity": best, "tokens_per_second": a.batch_tokens * a.steps / seconds}))


if __name__ == "__main__":
    main()
