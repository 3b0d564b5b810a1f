"""Perplexity of an exported GGUF by llama.cpp and by lithe, on the same windows of the same ids.

    CMAKE_ARGS=-DGGML_NATIVE=ON pip install --no-binary llama-cpp-python llama-cpp-python
    python3 bench/peers/llama_perplexity.py RUN TEXT [--types f32,bf16,q8_0,q4_0] [--context 256]

For each type of weights: `lithe export RUN --format gguf --type T`, which llama.cpp reads and `lithe import` reads back. A
window of N tokens is predicted from the token before it and its own but the last. Ends with 1 where the perplexities differ by
more than 0.1 %.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
from llama_cpp import Llama

LITHE = str(pathlib.Path(__file__).resolve().parents[2] / "build/release/bin/lithe")


def lithe(*words):
    return subprocess.run([LITHE, *map(str, words)], check=True, capture_output=True, text=True).stdout


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("run")
    parser.add_argument("text")
    parser.add_argument("--types", default="f32,bf16,q8_0,q4_0")
    parser.add_argument("--context", type=int, default=256)
    o = parser.parse_args()
    different = 0
    with tempfile.TemporaryDirectory() as made:
        scratch = pathlib.Path(made)
        for kind in o.types.split(","):
            file = scratch / f"{kind}.gguf"
            lithe("export", o.run, "--format", "gguf", "--type", kind, "--out", file)
            lithe("import", file, "--out", scratch / kind)
            result = json.loads(lithe("eval", scratch / kind, o.text, "--context-length", o.context, "--stride", o.context,
                                      "--per-token", scratch / "tokens", "--json"))
            tokens = [json.loads(line) for line in (scratch / "tokens").read_text().splitlines()]
            assert len({t["document"] for t in tokens}) == 1, "one document, please"
            model = Llama(str(file), n_ctx=o.context, n_batch=o.context, logits_all=True, verbose=False)
            ids = [model.token_bos(), *(t["id"] for t in tokens)]
            total = 0.0
            for at in range(0, len(ids) - 1, o.context):
                inputs = ids[at:at + o.context]
                targets = ids[at + 1:at + 1 + len(inputs)]
                model.reset()
                model.eval(inputs[:len(targets)])
                logits = np.array(model.scores[:len(targets)], np.float64)
                logits -= logits.max(1, keepdims=True)
                total += (np.log(np.exp(logits).sum(1)) - logits[np.arange(len(targets)), targets]).sum()
            theirs, ours = np.exp(total / len(tokens)), result["token_perplexity"]
            apart = abs(theirs / ours - 1)
            different += apart > 1e-3
            print(f"{kind:5} {len(tokens)} tokens: lithe {ours:.4f}, llama.cpp {theirs:.4f}, {100 * apart:.4f} % apart", flush=True)
    sys.exit(different > 0)


if __name__ == "__main__":
    main()
