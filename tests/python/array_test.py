"""Arrays share the model's memory: buffers, DLPack, rows of layers, attention maps, weights."""

import gc
import json
import math
import struct
import unittest

import kit
import lithe

try:
    import numpy
except ImportError:
    numpy = None
try:
    import torch
except ImportError:
    torch = None


def address(array):
    """Where the numbers of a buffer stand."""
    import ctypes

    view = memoryview(array)
    if view.readonly:
        class Buffer(ctypes.Structure):
            _fields_ = [("buf", ctypes.c_void_p), ("obj", ctypes.py_object), ("len", ctypes.c_ssize_t),
                        ("itemsize", ctypes.c_ssize_t), ("readonly", ctypes.c_int), ("ndim", ctypes.c_int),
                        ("format", ctypes.c_char_p), ("shape", ctypes.c_void_p), ("strides", ctypes.c_void_p),
                        ("suboffsets", ctypes.c_void_p), ("internal", ctypes.c_void_p)]
        buffer = Buffer()
        ctypes.pythonapi.PyObject_GetBuffer(ctypes.py_object(array), ctypes.byref(buffer), 0)
        at = buffer.buf
        ctypes.pythonapi.PyBuffer_Release(ctypes.byref(buffer))
        return at
    return ctypes.addressof(ctypes.c_char.from_buffer(view.cast("B")))


class Forward(unittest.TestCase):
    text = "And it came to pass in the days"

    def test_rows_of_layers_and_maps(self):
        model = kit.model()
        result = model.forward(self.text, hidden=True, attention=True)
        ids = model.tokenizer.encode(self.text)
        self.assertEqual(result.ids, [model.tokenizer.bos_token_id] + ids)
        length = len(result.ids)
        self.assertEqual(len(result.tokens), length)
        self.assertEqual([h.shape for h in result.hidden], [(length, 32)] * 2)
        self.assertEqual([a.shape for a in result.attention], [(4, length, length)] * 2)
        self.assertEqual(result.rows.shape, (length, 32))
        self.assertEqual(result.logits.shape, (length, model.config["vocab_size"]))
        for layer in result.attention:
            for head in layer.tolist():
                for i, row in enumerate(head):
                    self.assertAlmostEqual(sum(row), 1, places=5)
                    self.assertEqual(sum(row[i + 1:]), 0)  # causal
        # The logits say what score() says.
        scores = model.score(self.text)
        for row, token, expected in zip(result.logits.tolist(), scores.tokens, scores.log_probabilities):
            best = max(row)
            self.assertEqual(row[token] - best - math.log(sum(math.exp(x - best) for x in row)), expected)
        self.assertEqual(model.forward(result.ids).logits.tolist(), result.logits.tolist())
        self.assertEqual(len(model.forward(self.text, max_length=4).ids), 4)
        bare = model.forward(self.text, logits=False)
        self.assertIsNone(bare.logits)
        self.assertEqual((bare.hidden, bare.attention), ([], []))
        self.assertEqual(bare.rows.tolist(), result.rows.tolist())

    def test_maps_are_those_of_inspect(self):
        page = kit.WORK / "inspect.html"
        shown = json.loads(kit.run_lithe("inspect", kit.run(), "--text", self.text, "--heads", "1,2,3,4", "--json",
                                         "--out", page))
        got = kit.model().forward(self.text, attention=True).attention

        def maps(value):
            if isinstance(value, dict) and "weights" in value:
                yield value["weights"]
            elif isinstance(value, (list, dict)):
                for item in value.values() if isinstance(value, dict) else value:
                    yield from maps(item)

        expected = [[x for row in head for x in row] for layer in got for head in layer.tolist()]
        self.assertEqual(list(maps(shown)), expected)

    def test_encoded_texts(self):
        model = kit.model()
        many = model.encode(["And it came to pass", "the hill"], pooling="mean", normalize=True)
        self.assertEqual((many.shape, many.dtype), ((2, 32), "f32"))
        for row in many.tolist():
            self.assertAlmostEqual(sum(x * x for x in row), 1, places=5)
        self.assertEqual(model.encode("the hill", normalize=True).tolist(), many.tolist()[1])
        out = kit.WORK / "rows.safetensors"
        lines = kit.WORK / "lines.txt"
        lines.write_text("And it came to pass\nthe hill\n")
        kit.run_lithe("encode", kit.run(), lines, "--out", out)
        raw = out.read_bytes()
        begin = 8 + struct.unpack("<Q", raw[:8])[0]
        expected = struct.unpack("<64f", raw[begin:begin + 256])
        self.assertEqual([x for row in model.encode(["And it came to pass", "the hill"]).tolist() for x in row],
                         list(expected))


class Arrays(unittest.TestCase):
    def test_a_buffer_is_the_memory_itself(self):
        rows = kit.model().forward("And it came").rows
        view = memoryview(rows)
        self.assertEqual((view.format, view.shape, view.readonly), ("f", rows.shape, False))
        self.assertEqual(address(rows), address(rows))
        before = view[0, 0]
        view[0, 0] = before + 1
        self.assertEqual(rows.tolist()[0][0], memoryview(rows)[0, 0])
        self.assertNotEqual(rows.tolist()[0][0], before)
        del rows
        gc.collect()
        self.assertIsInstance(view[0, 1], float)  # the view keeps it alive

    def test_weights_are_shared_and_read_only(self):
        with self.assertRaisesRegex(lithe.Error, "packed=False"):
            kit.model().parameters
        model = lithe.load(kit.run(), packed=False)
        weights = model.parameters
        self.assertEqual(sum(math.prod(w.shape) for w in weights.values()), model.num_parameters)
        name = next(name for name in weights if len(weights[name].shape) == 2)
        self.assertTrue(weights[name].readonly)
        self.assertEqual(address(weights[name]), address(model.parameters[name]))
        with self.assertRaises(TypeError):
            memoryview(weights[name])[0, 0] = 1
        kept = weights[name].tolist()[0][0]
        weight = weights[name]
        del model, weights
        gc.collect()
        self.assertEqual(weight.tolist()[0][0], kept)
        # The same texts as with packed weights.
        self.assertEqual(lithe.load(kit.run(), packed=False).generate("And it", greedy=True).text,
                         kit.model().generate("And it", greedy=True).text)

    def test_bf16(self):
        rows = lithe.load(kit.run(), precision="bf16").forward("And it came").rows
        self.assertEqual(rows.dtype, "bf16")
        with self.assertRaisesRegex(BufferError, "bf16"):
            memoryview(rows)
        wide = rows.to("f32")
        self.assertEqual(wide.dtype, "f32")
        self.assertEqual(rows.tolist(), wide.tolist())
        with self.assertRaisesRegex(lithe.Error, "f32, bf16 or f64"):
            rows.to("f16")

    def test_dlpack_capsules_are_dropped_once(self):
        rows = kit.model().forward("And it came").rows
        self.assertEqual(rows.__dlpack_device__(), (1, 0))
        for _ in range(100):
            self.assertIn("dltensor", repr(rows.__dlpack__()))
        rows.__dlpack__(max_version=(1, 0), dl_device=(1, 0), copy=True)
        with self.assertRaises(BufferError):
            rows.__dlpack__(stream=1)
        with self.assertRaises(BufferError):
            rows.__dlpack__(dl_device=(2, 0))

    @unittest.skipIf(numpy is None, "needs numpy")
    def test_numpy(self):
        rows = kit.model().forward("And it came").rows
        for made in (numpy.asarray(rows), rows.numpy(), numpy.from_dlpack(rows)):
            self.assertEqual((made.dtype, made.shape), (numpy.float32, rows.shape))
            self.assertEqual(made.__array_interface__["data"][0], address(rows))
        wide = numpy.asarray(lithe.load(kit.run(), precision="bf16").forward("And it came").rows)
        self.assertEqual(wide.dtype, numpy.float32)

    @unittest.skipIf(torch is None, "needs torch")
    def test_torch(self):
        for precision, dtype in (("f32", torch.float32), ("bf16", torch.bfloat16), ("f64", torch.float64)):
            rows = lithe.load(kit.run(), precision=precision).forward("And it came").rows
            made = torch.from_dlpack(rows)
            self.assertEqual((made.dtype, tuple(made.shape)), (dtype, rows.shape))
            self.assertEqual(made.to(torch.float64).tolist(), rows.to("f64").tolist())
            del rows
            gc.collect()
            made += 1


if __name__ == "__main__":
    unittest.main()
