"""Efficient Transformers on CPUs: train, measure and run them.

    import lithe

    model = lithe.load("runs/first")
    print(model.generate("In the beginning", max_new_tokens=40))

Results are the bits of the command line. docs/python.md is the tutorial; help(lithe.Model) lists what a model does.
"""

from ._lithe import (
    Array,
    Error,
    Forward,
    Generation,
    Model,
    Piece,
    Scores,
    Stream,
    Tokenizer,
    TrainStep,
    Translation,
    __version__,
    compare,
    load,
    load_tokenizer,
    plan,
    set_log_level,
    set_threads,
    threads,
    train,
)

__all__ = [
    "Array",
    "Error",
    "Forward",
    "Generation",
    "Model",
    "Piece",
    "Scores",
    "Stream",
    "Tokenizer",
    "TrainStep",
    "Translation",
    "__version__",
    "compare",
    "load",
    "load_tokenizer",
    "plan",
    "set_log_level",
    "set_threads",
    "threads",
    "train",
]
