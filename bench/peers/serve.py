#!/usr/bin/env python3
"""`lithe serve` beside llama.cpp's server: the same random GPT-2 124M in both, 1, 4 and 16 streams, in turns.

  bench/peers/serve.py LLAMA_DIR [--weights f32,bf16,int8] [--streams 1,4,16] [--rounds 5] [--threads 2] [--models DIR]
      Each stream asks for 128 tokens, greedy and never the end, after its own prompt of 128 random ids, all at once, as
      server-sent events.
      For each case the medians over rounds: tokens/s of all streams, milliseconds to the first token and between tokens
      (means over the streams of a round), and lithe's ratio to llama.cpp. Then, of lithe alone, what HTTP costs: the time
      between tokens of one stream at its client, beyond what the server's loop of decoding takes for them (/metrics); and
      the time to the first token of a prompt of 1,040 ids whose first 1,024 the server has read before, against that of a
      new one.

LLAMA_DIR has llama-server and llama-quantize, built on this machine (-DGGML_NATIVE=ON). Weights: bf16 and int8 compute with
rows in bf16; llama.cpp's int8 is Q8_0, its keys and values are f16. Python 3 alone is needed, and the tokenizer
of GPT-2 below LITHE_DATA (docs/data.md); LITHE_BINARY: the program.
"""
import argparse
import asyncio
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from serve_load import metric

PROMPT, NEW, PREFIX = 128, 128, 1024
LITHE = os.environ.get("LITHE_BINARY", "build/release/bin/lithe")
RECIPE = """model: {hidden_size: 768, num_hidden_layers: 12, vocab_size: 50257, max_position_embeddings: 2048, position: learned,
  mixer: {type: attention, num_attention_heads: 12, attention_bias: true, output_bias: true},
  ffn: {type: gelu, approximate: tanh, bias: true}, norm: {type: layer, eps_mode: variance}}
data: {files: [README.md], tokenizer: {type: file, file: $LITHE_DATA/tokenizers/gpt2}, sequence_length: 2048}
train: {max_steps: 1}
"""


def made(file, *command):
    if not os.path.exists(file):
        done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        if done.returncode:
            sys.exit(f"{' '.join(command)}: {done.stderr}")
    return file


def ids_of(seed, count):
    return random.Random(seed).choices(range(300, 900), k=count)


async def ask(port, ids, new):
    """Seconds from the request to the first and to the last event with text, of `new` tokens."""
    body = json.dumps({"prompt": ids, "max_tokens": new, "temperature": 0, "stream": True, "logit_bias": {"50256": -100},
                       "stream_options": {"include_usage": True}})
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    begin = time.perf_counter()
    writer.write(f"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n"
                 f"Content-Length: {len(body)}\r\n\r\n{body}".encode())
    first = last = tokens = None
    text = b""
    while line := await reader.readline():
        text += line
        if line.startswith(b"data: {"):
            event = json.loads(line[6:])
            if event.get("choices"):
                last = time.perf_counter() - begin
                first = first or last
            tokens = (event.get("usage") or {}).get("completion_tokens", tokens)
        if line.startswith(b"data: [DONE]"):
            break
    writer.close()
    if tokens != new:
        sys.exit(f"port {port} answered {tokens} tokens in place of {new}: {text[-400:]}")
    return first, last


async def together(port, streams, seed):
    begin = time.perf_counter()
    times = await asyncio.gather(*(ask(port, ids_of(seed * 100 + i, PROMPT), NEW) for i in range(streams)))
    end = time.perf_counter() - begin
    return {"tok/s": streams * NEW / end, "first_ms": 1e3 * statistics.mean(first for first, _ in times),
            "between_ms": 1e3 * statistics.mean((last - first) / (NEW - 1) for first, last in times)}


class Server:
    def __init__(self, port, command):
        self.port, self.log = port, tempfile.TemporaryFile()
        self.process = subprocess.Popen(command, stdout=self.log, stderr=self.log)

    def __enter__(self):
        for _ in range(600):
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/health"):
                    return self
            except OSError:
                if self.process.poll() is not None:
                    self.log.seek(0)
                    sys.exit(self.log.read().decode(errors="replace")[-2000:])
                time.sleep(0.1)
        sys.exit(f"no server at port {self.port} after a minute")

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()


def lithe_server(port, model, weights, threads, *options):
    return Server(port, [LITHE, "serve", model, "--port", str(port), "--threads", str(threads), "--precision",
                         "f32" if weights == "f32" else "bf16", *options])


def llama_server(port, args, file):
    return Server(port, [os.path.join(args.llama, "llama-server"), "-m", file, "--port", str(port), "--host", "127.0.0.1",
                         "-t", str(args.threads), "-tb", str(args.threads), "-np", "16", "-c", str(16 * 512), "-fa", "on"])


def median(rounds, key):
    return statistics.median(r[key] for r in rounds)


def compare(args, weights, model, file):
    with lithe_server(18101, model, weights, args.threads) as ours, llama_server(18102, args, file) as theirs:
        for streams in args.streams:
            rounds = {"lithe": [], "llama.cpp": []}
            for number in range(args.rounds + 1):  # the first does not count
                for name, server in (("lithe", ours), ("llama.cpp", theirs)):
                    rounds[name].append(asyncio.run(together(server.port, streams, 1000 * streams + number)))
            for name, all_rounds in rounds.items():
                rates = [r["tok/s"] for r in all_rounds[1:]]
                print(f"{name} weights={weights} streams={streams} tok/s={statistics.median(rates):.1f} ({min(rates):.1f} to "
                      f"{max(rates):.1f}) first_ms={median(all_rounds[1:], 'first_ms'):.1f} "
                      f"between_ms={median(all_rounds[1:], 'between_ms'):.2f}")
            ratio = [a["tok/s"] / b["tok/s"] for a, b in zip(rounds["lithe"][1:], rounds["llama.cpp"][1:])]
            print(f"  ratio {statistics.median(ratio):.2f} ({min(ratio):.2f} to {max(ratio):.2f})", flush=True)


async def decoded(port):
    """Seconds of decoding, and tokens, since the server began."""
    return [await metric(port, f"lithe_generated_{what}_total") for what in ("seconds", "tokens")]


def cost_of_http(args, weights, model):
    shares = []
    with lithe_server(18101, model, weights, args.threads) as server:
        for number in range(args.rounds + 1):
            before = asyncio.run(decoded(server.port))
            first, last = asyncio.run(ask(server.port, ids_of(number, 16), NEW + 1))
            seconds, tokens = (now - then for now, then in zip(asyncio.run(decoded(server.port)), before))
            shares.append((last - first) / NEW / (seconds / (tokens - 1)) - 1)  # the first token comes with the prompt
    print(f"lithe weights={weights} a token over HTTP takes {100 * statistics.median(shares[1:]):+.1f} % "
          f"({100 * min(shares[1:]):+.1f} to {100 * max(shares[1:]):+.1f}) more than in the loop", flush=True)


def kept_prefix(args, weights, model):
    ratios = []
    with lithe_server(18101, model, weights, args.threads, "--prefix-cache", "1GiB") as server:
        for number in range(args.rounds + 1):
            prefix = ids_of(-1 - number, PREFIX)
            first = asyncio.run(ask(server.port, prefix + ids_of(2 * number, 16), 2))[0]
            second = asyncio.run(ask(server.port, prefix + ids_of(2 * number + 1, 16), 2))[0]
            ratios.append((first / second, first, second))
    first, second = (1e3 * statistics.median(r[i] for r in ratios[1:]) for i in (1, 2))
    print(f"lithe weights={weights} first token after {PREFIX + 16} new tokens {first:.1f} ms, with {PREFIX} of them kept "
          f"{second:.1f} ms: {statistics.median(r[0] for r in ratios[1:]):.1f} times sooner", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("llama")
    parser.add_argument("--weights", default="f32,bf16,int8")
    parser.add_argument("--streams", type=lambda s: [int(n) for n in s.split(",")], default=[1, 4, 16])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--models")
    args = parser.parse_args()
    if "LITHE_DATA" not in os.environ:
        sys.exit("the tokenizer of GPT-2 is among the data sets of docs/data.md; set LITHE_DATA")
    with tempfile.TemporaryDirectory() as temporary:
        models = args.models or temporary
        os.makedirs(models, exist_ok=True)
        with open(os.path.join(models, "gpt2.yaml"), "w") as recipe:
            recipe.write(RECIPE.replace("$LITHE_DATA", os.environ["LITHE_DATA"]).replace("README.md", os.path.abspath("README.md")))
        run, gguf = os.path.join(models, "f32"), os.path.join(models, "f32.gguf")
        made(run, LITHE, "init", recipe.name, "--out", run)
        made(gguf, LITHE, "export", run, "--format", "gguf", "--out", gguf)
        for weights in args.weights.split(","):
            model, file = run, gguf
            if weights == "int8":
                model = made(os.path.join(models, "int8"), LITHE, "quantize", run, "--weights", "int8", "--out",
                             os.path.join(models, "int8"))
            if weights != "f32":
                file = os.path.join(models, weights + ".gguf")
                made(file, os.path.join(args.llama, "llama-quantize"), gguf, file, {"bf16": "BF16", "int8": "Q8_0"}[weights])
            compare(args, weights, model, file)
            cost_of_http(args, weights, model)
            kept_prefix(args, weights, model)


if __name__ == "__main__":
    main()
