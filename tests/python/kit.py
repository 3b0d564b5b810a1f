"""What the tests of the Python module share: one small trained run, made once a process."""

import atexit
import functools
import hashlib
import os
import pathlib
import shutil
import subprocess
import tempfile

import lithe

lithe.set_log_level("warning")
lithe.set_threads(1)

LITHE = os.environ.get("LITHE_BINARY", "lithe")
WORK = pathlib.Path(tempfile.mkdtemp(prefix="lithe-python-"))
atexit.register(shutil.rmtree, WORK, ignore_errors=True)

TEXT = WORK / "text.txt"
TEXT.write_text("".join(
    f"And it came to pass in the days of king number {i} that the people of the valley went up to the hill, "
    f"and found there {i * 7 % 13} wells of water.\n" + ("\n" if i % 40 == 0 else "")
    for i in range(1, 301)))


def recipe(**train):
    """A decoder of a few thousand numbers over bytes."""
    return {
        "model": {
            "architecture": "decoder",
            "hidden_size": 32,
            "num_hidden_layers": 2,
            "position": {"type": "rotary"},
            "mixer": {"type": "attention", "num_attention_heads": 4, "heads": {"type": "mha"}},
            "ffn": {"type": "swiglu", "intermediate_size": 64},
            "norm": {"type": "rms"},
            "residual": {"type": "pre"},
        },
        "data": {
            "files": [str(TEXT)],
            "documents": "paragraph",
            "validation_fraction": 0.1,
            "tokenizer": {"type": "bpe", "vocab_size": 400},
            "sequence_length": 64,
            "cache_directory": str(WORK / "cache"),
        },
        "train": {"max_steps": 30, "batch_tokens": 512, "learning_rate": 4e-3, "eval_steps": 10, "save_steps": 10,
                  "seed": 1} | train,
        "generate": {"prompt": "And it came", "max_new_tokens": 12},
    }


def write_recipe(path, recipe):
    import json

    path.write_text(json.dumps(recipe, indent=2))
    return path


def run_lithe(*arguments):
    """Standard output of the program, with the threads of these tests."""
    done = subprocess.run([LITHE, *map(str, arguments), "--threads", "1"], capture_output=True, text=True,
                          env=os.environ | {"LITHE_LOG": "warning"})
    if done.returncode:
        raise AssertionError(f"lithe {arguments[0]} ends with {done.returncode}: {done.stderr}")
    return done.stdout


def sha256(file):
    return hashlib.sha256(pathlib.Path(file).read_bytes()).hexdigest()


@functools.cache
def run():
    """A trained run."""
    lithe.train(recipe(), WORK / "run")
    return WORK / "run"


@functools.cache
def model():
    return lithe.load(run())
