"""The work of bench/generate_bench.cpp in ONNX Runtime, for bench/peers/generate.sh. The cache of keys and values is
bound once and grows in place; the next token is chosen in the graph. Runs as turns.py asks.

  python3 bench/peers/ort_generate.py make FILE f32|int8|int4
  python3 bench/peers/ort_generate.py FILE f32|int8|int4
"""
import sys

import numpy
import onnxruntime

import onnx_models
from generating import HEADS, LAYERS, PREFILL, PROMPT, VOCABULARY, WIDTH, generate_in_turns


class Sequence:
    def __init__(self, session, capacity):
        self.session, self.length = session, 0
        value = onnxruntime.OrtValue.ortvalue_from_numpy
        self.token = value(numpy.zeros((1, 1), numpy.int64))
        self.binding = session.io_binding()
        for i in range(LAYERS):
            for kind in "kv":
                cache = value(numpy.zeros((1, HEADS, capacity, WIDTH // HEADS), numpy.float32))
                self.binding.bind_ortvalue_input(f"{kind}{i}", cache)
                self.binding.bind_ortvalue_output(f"new_{kind}{i}", cache)
        self.binding.bind_ortvalue_output("next", self.token)

    def next_after(self, ids):
        end = self.length + ids.shape[1]
        for name, array in (("ids", ids), ("positions", numpy.arange(self.length, end)[None]),
                            ("past", numpy.array([end - 1], numpy.int32)), ("total", numpy.array([end], numpy.int32))):
            self.binding.bind_cpu_input(name, array)
        self.session.run_with_iobinding(self.binding)
        self.length = end
        return self.token.numpy()


def main():
    if sys.argv[1] == "make":
        return onnx_models.save(onnx_models.gpt2(sys.argv[3]), sys.argv[2])
    file, weights = sys.argv[1:3]
    session = onnx_models.session(file)
    ids = numpy.random.default_rng(1).integers(0, VOCABULARY, (1, PREFILL))
    generate_in_turns(f"onnxruntime {onnxruntime.__version__}", weights, "ort", lambda capacity: Sequence(session, capacity), ids,
                      ids[:, :PROMPT])


main()
