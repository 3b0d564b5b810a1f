"""Blocks of GGUF's types and the numbers that the package gguf makes of them: tests/golden/gguf_blocks.json.

    pip install gguf numpy        (made with gguf 0.19.0)
    python3 tools/oracles/make_gguf_golden.py tests/golden/gguf_blocks.json
"""
import json
import sys

import numpy
from gguf import GGMLQuantizationType as T
from gguf import quants

rng = numpy.random.default_rng(1)
numbers = rng.normal(size=256).astype(numpy.float32)
out = {"numbers": [float(f"{v:.9g}") for v in numbers.tolist()], "types": {}}
for kind in (T.Q4_0, T.Q8_0, T.BF16, T.F16):
    blocks = quants.quantize(numbers, kind)
    out["types"][kind.name] = {"bytes": blocks.tobytes().hex(),
                               "values": [float(f"{v:.9g}") for v in quants.dequantize(blocks, kind).tolist()]}
for kind, size, scales in ((T.Q4_K, 144, (0, 2)), (T.Q6_K, 210, (208,)), (T.Q5_K, 176, (0, 2)), (T.IQ4_NL, 18, (0,))):
    blocks = rng.integers(0, 256, size=(1, size), dtype=numpy.uint8)
    for at in scales:  # halves that are numbers
        blocks[:, at:at + 2] = numpy.array([-0.0123], dtype=numpy.float16).view(numpy.uint8)
    out["types"][kind.name] = {"bytes": blocks.tobytes().hex(),
                               "values": [float(f"{v:.9g}") for v in quants.dequantize(blocks.reshape(-1), kind).tolist()]}
with open(sys.argv[1], "w") as file:
    file.write(json.dumps(out, separators=(",", ":")) + "\n")
