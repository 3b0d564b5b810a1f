"""The work of bench/generate_bench.cpp in llama.cpp, through llama-cpp-python's bindings, for bench/peers/generate.sh.
Weights as llama.cpp's own quantisation makes them of random f32; keys and values in its default, f16. Runs as turns.py asks.

  python3 bench/peers/llama_generate.py make F32_FILE
  python3 bench/peers/llama_generate.py quantize F32_FILE FILE bf16|int8|int4|int4-pure
  python3 bench/peers/llama_generate.py FILE NAME auto|off

int8 is Q8_0, int4 is Q4_0 with the tied head in Q6_K, int4-pure is Q4_0 throughout. auto, off: flash attention.
"""
import ctypes
import sys

import numpy

from generating import HEADS, LAYERS, POSITIONS, PREFILL, PROMPT, VOCABULARY, WIDTH, generate_in_turns


def make(file):
    import gguf
    random = numpy.random.default_rng(1)
    writer = gguf.GGUFWriter(file, "gpt2")
    writer.add_context_length(POSITIONS)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(4 * WIDTH)
    writer.add_head_count(HEADS)
    writer.add_layer_norm_eps(1e-5)
    writer.add_vocab_size(VOCABULARY)
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    writer.add_tokenizer_model("none")

    def matrix(name, *shape):
        writer.add_tensor(name + ".weight", random.standard_normal(shape, dtype=numpy.float32) * 0.02)

    def linear(name, outputs, inputs):
        matrix(name, outputs, inputs)
        writer.add_tensor(name + ".bias", numpy.zeros(outputs, numpy.float32))

    def norm(name):
        writer.add_tensor(name + ".weight", numpy.ones(WIDTH, numpy.float32))
        writer.add_tensor(name + ".bias", numpy.zeros(WIDTH, numpy.float32))

    matrix("token_embd", VOCABULARY, WIDTH)  # the head too
    matrix("position_embd", POSITIONS, WIDTH)
    for i in range(LAYERS):
        block = f"blk.{i}."
        norm(block + "attn_norm")
        linear(block + "attn_qkv", 3 * WIDTH, WIDTH)
        linear(block + "attn_output", WIDTH, WIDTH)
        norm(block + "ffn_norm")
        linear(block + "ffn_up", 4 * WIDTH, WIDTH)
        linear(block + "ffn_down", WIDTH, 4 * WIDTH)
    norm("output_norm")
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def quantize(source, file, weights):
    import llama_cpp
    options = llama_cpp.llama_model_quantize_default_params()
    options.ftype = {"bf16": llama_cpp.LLAMA_FTYPE_MOSTLY_BF16, "int8": llama_cpp.LLAMA_FTYPE_MOSTLY_Q8_0,
                     "int4": llama_cpp.LLAMA_FTYPE_MOSTLY_Q4_0}[weights.split("-")[0]]
    options.pure, options.nthread = weights.endswith("pure"), 2
    if llama_cpp.llama_model_quantize(source.encode(), file.encode(), ctypes.byref(options)):
        sys.exit(f"llama.cpp does not quantise {source}")


class Sequence:
    def __init__(self, api, context):
        self.api, self.context = api, context
        api.llama_memory_clear(api.llama_get_memory(context), False)

    def next_after(self, ids):
        array = (ctypes.c_int32 * len(ids))(*ids)
        if self.api.llama_decode(self.context, self.api.llama_batch_get_one(array, len(ids))):
            sys.exit("llama_decode failed")
        logits = self.api.llama_get_logits_ith(self.context, -1)  # waits for them
        return [int(numpy.ctypeslib.as_array(logits, (VOCABULARY,)).argmax())]


def main():
    if sys.argv[1] == "make":
        return make(sys.argv[2])
    if sys.argv[1] == "quantize":
        return quantize(*sys.argv[2:5])
    import llama_cpp
    file, weights, flash = sys.argv[1:4]
    silent = llama_cpp.llama_log_callback(lambda *_: None)
    llama_cpp.llama_log_set(silent, None)
    options = llama_cpp.llama_model_default_params()
    options.load_mode = llama_cpp.LLAMA_LOAD_MODE_NONE  # into memory that may be in huge pages
    model = llama_cpp.llama_model_load_from_file(file.encode(), options)
    settings = llama_cpp.llama_context_default_params()
    settings.n_ctx = settings.n_batch = settings.n_ubatch = PREFILL
    settings.n_threads = settings.n_threads_batch = 2
    settings.flash_attn_type = {"auto": -1, "off": 0}[flash]
    context = llama_cpp.llama_init_from_model(model, settings)
    ids = numpy.random.default_rng(1).integers(0, VOCABULARY, PREFILL).tolist()
    generate_in_turns(f"llama-cpp-python {llama_cpp.__version__}", weights.split("-")[0], f"llama.cpp-{weights}-flash-{flash}",
                      lambda capacity: Sequence(llama_cpp, context), ids, ids[:PROMPT])


main()
