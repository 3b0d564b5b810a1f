"""ONNX graphs with random weights in ONNX Runtime's fused operators, as its transformer optimiser would write them.

  bert(weights)  BERT-base without embeddings and head, weights f32 or int8
  gpt2(weights)  GPT-2 124M with a cache of keys and values, weights f32, int8 or int4

int8: dynamically quantised products, a step for each output. int4: blocks of 32 inputs, activations in 8 bits.
"""
import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper

from generating import HEADS, LAYERS, POSITIONS, VOCABULARY, WIDTH

HIDDEN = 3072
FUSED = "com.microsoft"


class Graph:
    def __init__(self, weights):
        self.weights, self.random = weights, numpy.random.default_rng(1)
        self.nodes, self.constants, self.inputs, self.outputs = [], [], [], []

    def name(self):
        return f"n{len(self.nodes)}_{len(self.constants)}"

    def constant(self, value):
        name = self.name()
        self.constants.append(numpy_helper.from_array(numpy.ascontiguousarray(value), name))
        return name

    def ones(self, n):
        return self.constant(numpy.ones(n, numpy.float32))

    def zeros(self, n):
        return self.constant(numpy.zeros(n, numpy.float32))

    def normal(self, *shape):
        return self.constant(self.random.standard_normal(shape, dtype=numpy.float32) * 0.02)

    def integers(self, low, high, shape, dtype):
        return self.constant(self.random.integers(low, high, shape).astype(dtype))

    def node(self, operator, inputs, outputs=1, domain="", **attributes):
        names = [f"{self.name()}_{i}" for i in range(outputs)] if isinstance(outputs, int) else outputs
        self.nodes.append(helper.make_node(operator, inputs, names, domain=domain, **attributes))
        return names[0] if len(names) == 1 else names

    def fused(self, operator, inputs, outputs=1, **attributes):
        return self.node(operator, inputs, outputs, FUSED, **attributes)

    def linear(self, x, n_in, n_out, bias=True):
        if self.weights == "int8":
            steps = self.constant(numpy.full(n_out, 0.001, numpy.float32))
            zero_points = self.constant(numpy.zeros(n_out, numpy.int8))
            return self.fused("DynamicQuantizeMatMul", [x, self.integers(-127, 127, (n_in, n_out), numpy.int8), steps,
                                                        zero_points] + ([self.zeros(n_out)] if bias else []))
        if self.weights == "int4":
            steps = self.constant(numpy.full(n_out * n_in // 32, 0.001, numpy.float32))
            y = self.fused("MatMulNBits", [x, self.integers(0, 255, (n_out, n_in // 32, 16), numpy.uint8), steps],
                           K=n_in, N=n_out, bits=4, block_size=32, accuracy_level=4)
        else:
            y = self.node("MatMul", [x, self.normal(n_in, n_out)])
        return self.node("Add", [y, self.zeros(n_out)]) if bias else y

    def feed_forward(self, x):
        y = self.linear(x, WIDTH, HIDDEN, bias=False)
        return self.linear(self.fused("BiasGelu", [y, self.zeros(HIDDEN)]), HIDDEN, WIDTH)

    def norm(self, x):
        return self.node("LayerNormalization", [x, self.ones(WIDTH), self.zeros(WIDTH)], axis=-1, epsilon=1e-5)

    def add_norm(self, x, y):
        return self.fused("SkipLayerNormalization", [x, y, self.ones(WIDTH), self.zeros(WIDTH)], epsilon=1e-12)

    def input(self, name, dtype, shape):
        self.inputs.append(helper.make_tensor_value_info(name, dtype, shape))

    def output(self, name, dtype, shape):
        self.outputs.append(helper.make_tensor_value_info(name, dtype, shape))

    def bytes(self):
        graph = helper.make_graph(self.nodes, "graph", self.inputs, self.outputs, self.constants)
        opsets = [helper.make_opsetid("", 17), helper.make_opsetid(FUSED, 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()


def bert(weights):
    g = Graph(weights)
    g.input("x", TensorProto.FLOAT, ["B", "T", WIDTH])
    x = "x"
    for _ in range(LAYERS):
        if weights == "f32":
            y = g.fused("Attention", [x, g.normal(WIDTH, 3 * WIDTH), g.zeros(3 * WIDTH)], num_heads=HEADS)
        else:
            rounded, step, zero = g.node("DynamicQuantizeLinear", [x], 3)
            w = g.integers(-127, 127, (WIDTH, 3 * WIDTH), numpy.int8)
            one_step, one_zero = g.constant(numpy.array(0.001, numpy.float32)), g.constant(numpy.array(0, numpy.int8))
            y = g.fused("QAttention", [rounded, w, g.zeros(3 * WIDTH), step, one_step, "", zero, one_zero],
                        num_heads=HEADS)
        x = g.add_norm(x, g.linear(y, WIDTH, WIDTH))
        x = g.add_norm(x, g.feed_forward(x))
    g.node("Identity", [x], ["y"])
    g.output("y", TensorProto.FLOAT, ["B", "T", WIDTH])
    return g.bytes()


def gpt2(weights):
    """ids and positions [1, T], past = tokens so far + T - 1 and total = past + 1 of the caches
    [1, heads, capacity, 64], which may be the same memory as the new ones -> the most likely next token."""
    g = Graph(weights)
    g.input("ids", TensorProto.INT64, [1, "T"])
    g.input("positions", TensorProto.INT64, [1, "T"])
    g.input("past", TensorProto.INT32, [1])
    g.input("total", TensorProto.INT32, [1])
    x = g.node("Add", [g.node("Gather", [g.normal(VOCABULARY, WIDTH), "ids"]),
                       g.node("Gather", [g.normal(POSITIONS, WIDTH), "positions"])])
    for i in range(LAYERS):
        for kind in "kv":
            g.input(f"{kind}{i}", TensorProto.FLOAT, [1, HEADS, "capacity", WIDTH // HEADS])
            g.output(f"new_{kind}{i}", TensorProto.FLOAT, [1, HEADS, "capacity", WIDTH // HEADS])
        qkv = g.linear(g.norm(x), WIDTH, 3 * WIDTH)
        y, _, _ = g.fused("GroupQueryAttention", [qkv, "", "", f"k{i}", f"v{i}", "past", "total"],
                          [f"attention{i}", f"new_k{i}", f"new_v{i}"], num_heads=HEADS, kv_num_heads=HEADS)
        x = g.node("Add", [x, g.linear(y, WIDTH, WIDTH)])
        x = g.node("Add", [x, g.feed_forward(g.norm(x))])
    last = [g.constant(numpy.array([value])) for value in (-1, 2**31, 1)]
    logits = g.linear(g.norm(g.node("Slice", [x] + last)), WIDTH, VOCABULARY, bias=False)
    g.node("ArgMax", [logits], ["next"], axis=-1, keepdims=0)
    g.output("next", TensorProto.INT64, [1, 1])
    return g.bytes()


def session(model):
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 2
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def save(model, file):
    with open(file, "wb") as out:
        out.write(model)
