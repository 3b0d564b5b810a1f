"""The work of bench/encoder_bench.cpp in ONNX Runtime, for bench/peers/encode.sh: a BERT-base in fused operators on
sequences of 128 tokens, batch 1 and 16, inputs and outputs bound. Prints a line of key=value pairs a case.

  python3 bench/peers/ort_encode.py f32|int8 [repeats]
"""
import resource
import statistics
import sys
import time

import numpy
import onnxruntime

import onnx_models
from onnx_models import WIDTH

TOKENS = 128


def main():
    weights = sys.argv[1]
    repeats = int(sys.argv[2]) if len(sys.argv) > 2 else 3
    session = onnx_models.session(onnx_models.bert(weights))
    cases = {}
    for batch in (1, 16):
        value = onnxruntime.OrtValue.ortvalue_from_numpy
        x = numpy.random.default_rng(1).standard_normal((batch, TOKENS, WIDTH), dtype=numpy.float32)
        binding = session.io_binding()
        binding.bind_ortvalue_input("x", value(x))
        binding.bind_ortvalue_output("y", value(numpy.empty_like(x)))
        cases[batch] = (binding, [])
    for repeat in range(repeats + 1):
        for batch, (binding, times) in cases.items():
            for _ in range(5 if batch == 1 else 1):
                start = time.perf_counter()
                session.run_with_iobinding(binding)
                if repeat:
                    times.append(time.perf_counter() - start)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    for batch, (_, times) in cases.items():
        middle = statistics.median(times)
        print(f"onnxruntime {onnxruntime.__version__} mode=ort dtype={weights} batch={batch} seq/s={batch / middle:.2f} "
              f"ms={1e3 * middle:.1f} min={1e3 * min(times):.1f} max={1e3 * max(times):.1f} peakRSS_MB={peak:.0f}")


main()
