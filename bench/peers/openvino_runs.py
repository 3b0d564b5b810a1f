"""BERT-base on sequences of 128 tokens, for encode.sh, and GPT-2's prefill of 512, for generate.sh, in OpenVINO: graphs of its
own operators with random weights, two threads. Runs as turns.py asks.

  python3 bench/peers/openvino_runs.py encode|prefill f32|bf16|int8

int8: weights and rows of products quantised by NNCF from two random batches, everything else in bf16.
"""
import sys

import numpy
import openvino
import openvino.opset13 as op

from encoding import BATCHES, TOKENS, encoding
from generating import HEADS, LAYERS, POSITIONS, PREFILL, VOCABULARY, WIDTH, generate_in_turns
from turns import take_turns

HIDDEN, NAME = 4 * WIDTH, f"openvino {openvino.__version__.split('-')[0]}"


class Graph:
    """The operators of a Transformer over rows [batch, tokens, WIDTH]."""

    def __init__(self, batch, tokens):
        self.batch, self.tokens, self.random = batch, tokens, numpy.random.default_rng(1)

    def normal(self, *shape):
        return op.constant(self.random.standard_normal(shape, dtype=numpy.float32) * 0.02)

    def linear(self, x, n_in, n_out):
        return op.add(op.matmul(x, self.normal(n_in, n_out), False, False), op.constant(numpy.zeros(n_out, numpy.float32)))

    def norm(self, x):
        y = op.mvn(x, op.constant(numpy.array([-1])), True, 1e-5, "inside_sqrt")
        return op.add(op.multiply(y, op.constant(numpy.ones(WIDTH, numpy.float32))),
                      op.constant(numpy.zeros(WIDTH, numpy.float32)))

    def reshape(self, x, *shape):
        return op.reshape(x, op.constant(numpy.array(shape)), False)

    def attention(self, x, causal):
        swap = numpy.array([0, 2, 1, 3])
        q, k, v = (op.transpose(self.reshape(self.linear(x, WIDTH, WIDTH), self.batch, self.tokens, HEADS, WIDTH // HEADS), swap)
                   for _ in range(3))
        y = op.transpose(op.scaled_dot_product_attention(q, k, v, causal=causal), swap)
        return self.linear(self.reshape(y, self.batch, self.tokens, WIDTH), WIDTH, WIDTH)

    def feed_forward(self, x):
        return self.linear(op.gelu(self.linear(x, WIDTH, HIDDEN), "erf"), HIDDEN, WIDTH)


def bert(batch):
    g, x = Graph(batch, TOKENS), op.parameter([batch, TOKENS, WIDTH], numpy.float32, name="x")
    y = x
    for _ in range(LAYERS):
        y = g.norm(op.add(y, g.attention(y, False)))
        y = g.norm(op.add(y, g.feed_forward(y)))
    return openvino.Model([op.result(y)], [x], "bert")


def gpt2():
    g, ids = Graph(1, PREFILL), op.parameter([1, PREFILL], numpy.int64, name="ids")
    table, zero = g.normal(VOCABULARY, WIDTH), op.constant(numpy.array(0))
    y = op.add(op.gather(table, ids, zero), op.constant(g.normal(POSITIONS, WIDTH).data[:PREFILL]))
    for _ in range(LAYERS):
        y = op.add(y, g.attention(g.norm(y), True))
        y = op.add(y, g.feed_forward(g.norm(y)))
    last = op.gather(g.norm(y), op.constant(numpy.array([PREFILL - 1])), op.constant(numpy.array(1)))
    logits = op.matmul(last, g.normal(WIDTH, VOCABULARY), False, False)
    best = op.topk(logits, op.constant(numpy.array(1)), 2, "max", "none")
    return openvino.Model([op.result(best.output(1))], [ids], "gpt2")


def compiled(model, precision, samples):
    if precision == "int8":
        import nncf
        model = nncf.quantize(model, nncf.Dataset(samples), model_type=nncf.ModelType.TRANSFORMER, subset_size=len(samples))
    settings = {"INFERENCE_NUM_THREADS": 2, "PERFORMANCE_HINT": "LATENCY",
                "INFERENCE_PRECISION_HINT": "f32" if precision == "f32" else "bf16"}
    return openvino.Core().compile_model(model, "CPU", settings).create_infer_request()


class Sequence:
    def __init__(self, request):
        self.request = request

    def next_after(self, ids):
        return self.request.infer({0: ids})[0]


def main():
    work, precision = sys.argv[1:3]
    random = numpy.random.default_rng(1)
    if work == "prefill":
        ids = [random.integers(0, VOCABULARY, (1, PREFILL)) for _ in range(2)]
        request = compiled(gpt2(), precision, ids)
        return generate_in_turns(NAME, precision, "openvino", lambda _: Sequence(request), ids[0], None)
    cases = []
    for batch in BATCHES:
        rows = [random.standard_normal((batch, TOKENS, WIDTH), dtype=numpy.float32) for _ in range(2)]
        request = compiled(bert(batch), precision, rows)
        request.set_input_tensor(openvino.Tensor(rows[0]))
        cases.append(encoding("openvino", precision, batch, request.infer))
    take_turns(NAME, cases)


main()
