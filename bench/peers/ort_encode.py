"""The work of bench/encoder_bench.cpp in ONNX Runtime, for bench/peers/encode.sh: a BERT-base in fused operators on
sequences of 128 tokens, batch 1 and 16, inputs and outputs bound, as turns.py asks.

  python3 bench/peers/ort_encode.py f32|int8
"""
import sys

import numpy
import onnxruntime

import onnx_models
from encoding import BATCHES, TOKENS, encoding
from onnx_models import WIDTH
from turns import take_turns


def main():
    weights = sys.argv[1]
    session = onnx_models.session(onnx_models.bert(weights))
    cases = []
    for batch in BATCHES:
        value = onnxruntime.OrtValue.ortvalue_from_numpy
        x = numpy.random.default_rng(1).standard_normal((batch, TOKENS, WIDTH), dtype=numpy.float32)
        binding = session.io_binding()
        binding.bind_ortvalue_input("x", value(x))
        binding.bind_ortvalue_output("y", value(numpy.empty_like(x)))
        cases.append(encoding("ort", weights, batch, lambda binding=binding: session.run_with_iobinding(binding)))
    take_turns(f"onnxruntime {onnxruntime.__version__}", cases)


main()
