"""The work of bench/generate_bench.cpp in ONNX Runtime, for bench/peers/generate.sh. The cache of keys and values is
bound once and grows in place; the next token is chosen in the graph. Prints a line of key=value pairs for each work.

  python3 bench/peers/ort_generate.py make FILE f32|int8|int4
  python3 bench/peers/ort_generate.py FILE f32|int8|int4 [repeats]
"""
import resource
import statistics
import sys
import time

import numpy
import onnxruntime

import onnx_models
from onnx_models import HEADS, LAYERS, VOCABULARY, WIDTH

PREFILL, PROMPT, NEW = 512, 16, 128


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
    repeats = int(sys.argv[3]) if len(sys.argv) > 3 else 3
    session = onnx_models.session(file)
    ids = numpy.random.default_rng(1).integers(0, VOCABULARY, (1, PREFILL))
    prefill, decode = [], []
    for repeat in range(repeats + 1):
        sequence = Sequence(session, PREFILL)
        start = time.perf_counter()
        sequence.next_after(ids)
        prefill.append(time.perf_counter() - start)
        sequence = Sequence(session, PROMPT + NEW)
        token = sequence.next_after(ids[:, :PROMPT])
        start = time.perf_counter()
        for _ in range(NEW):
            token = sequence.next_after(token)
        decode.append(time.perf_counter() - start)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    for work, tokens, times in (("prefill", PREFILL, prefill[1:]), ("decode", NEW, decode[1:])):
        middle = statistics.median(times)
        print(f"onnxruntime {onnxruntime.__version__} work={work} weights={weights} mode=ort tok/s={tokens / middle:.1f} "
              f"ms={1e3 * middle:.1f} min={1e3 * min(times):.1f} max={1e3 * max(times):.1f} peakRSS_MB={peak:.0f}")


main()
