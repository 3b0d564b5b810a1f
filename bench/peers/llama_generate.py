"""The work of bench/generate_bench.cpp in llama.cpp, through llama-cpp-python's bindings, for bench/peers/generate.sh.
Weights as llama.cpp's own quantisation makes them of random f32; keys and values in its default, f16. Runs as turns.py asks.

  python3 bench/peers/llama_generate.py make F32_FILE
  python3 bench/peers/llama_generate.py quantize F32_FILE FILE bf16|int8|int4|int4-pure
  python3 bench/peers/llama_generate.py FILE NAME auto|off [BATCHES LENGTHS]

int8 is Q8_0, int4 is Q4_0 with the tied head in Q6_K, int4-pure is Q4_0 throughout. auto, off: flash attention. With BATCHES
and LENGTHS, numbers with commas, the cases are those that bench/generate_bench.cpp has then. LLAMA_REPACK=0: weights stay as
the file has them, for builds whose tiles end with an illegal instruction.
"""
import ctypes
import os
import sys
import time

import numpy

from generating import HEADS, LAYERS, POSITIONS, PREFILL, PROMPT, STEPS, VOCABULARY, WIDTH, generate_in_turns
from turns import take_turns


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
    def __init__(self, api, context, vocabulary=VOCABULARY):
        self.api, self.context, self.vocabulary = api, context, vocabulary
        api.llama_memory_clear(api.llama_get_memory(context), False)

    def next_after(self, ids):
        array = (ctypes.c_int32 * len(ids))(*ids)
        if self.api.llama_decode(self.context, self.api.llama_batch_get_one(array, len(ids))):
            sys.exit("llama_decode failed")
        return [self.best(-1)]

    def best(self, row):
        logits = self.api.llama_get_logits_ith(self.context, row)  # waits for them
        return int(numpy.ctypeslib.as_array(logits, (self.vocabulary,)).argmax())


class Texts(Sequence):
    """As many texts, `length` tokens each; the first is read, the others are copies of it in memory of their own."""
    def __init__(self, api, context, vocabulary, batch, length):
        super().__init__(api, context, vocabulary)
        self.size, self.length, memory = batch, length, api.llama_get_memory(context)
        ids = numpy.random.default_rng(1).integers(0, vocabulary, length).tolist()
        for at in range(0, length, PREFILL):
            self.next_after(ids[at:at + PREFILL])
        for other in range(1, batch):
            api.llama_memory_seq_cp(memory, 0, other, -1, -1)
        self.batch = api.llama_batch_init(batch, 0, 1)

    def decode(self, steps):
        batch, tokens = self.batch, [1] * self.size
        batch.n_tokens = self.size
        begin = time.perf_counter()
        for step in range(steps):
            for i, token in enumerate(tokens):
                batch.token[i], batch.pos[i], batch.n_seq_id[i], batch.logits[i] = token, self.length + step, 1, 1
                batch.seq_id[i][0] = i
            if self.api.llama_decode(self.context, batch):
                sys.exit("llama_decode failed")
            tokens = [self.best(i) for i in range(self.size)]
        seconds = time.perf_counter() - begin
        for i in range(self.size):
            self.api.llama_memory_seq_rm(self.api.llama_get_memory(self.context), i, self.length, -1)
        return seconds


def run_batches(api, model, settings, name, mode, batches, lengths):
    vocabulary = api.llama_vocab_n_tokens(api.llama_model_get_vocab(model))
    ids = numpy.random.default_rng(1).integers(0, vocabulary, PREFILL).tolist()
    now = [None, None]  # a case and its context: one at a time

    def of(case, tokens, batch, make):
        if now[0] != case:
            if now[1]:
                api.llama_free(now[1].context)
            settings.n_ctx, settings.n_seq_max, settings.kv_unified = (tokens + 255) // 256 * 256 * batch, batch, False
            now[:] = case, make(api.llama_init_from_model(model, settings))
        return now[1]

    def prefill():
        sequence = of("prefill", PREFILL, 1, lambda context: Sequence(api, context, vocabulary))
        api.llama_memory_clear(api.llama_get_memory(sequence.context), False)
        begin = time.perf_counter()
        sequence.next_after(ids)
        return time.perf_counter() - begin

    def decode(batch, length):
        return of((batch, length), length + STEPS, batch,
                  lambda context: Texts(api, context, vocabulary, batch, length)).decode(STEPS)

    cases = [(f"work=prefill texts=1 after=0 weights={name} mode={mode} count={PREFILL}", prefill)]
    for length in lengths:
        for batch in batches:
            cases.append((f"work=decode texts={batch} after={length} weights={name} mode={mode} count={batch * STEPS}",
                          lambda batch=batch, length=length: decode(batch, length)))
    take_turns(f"llama-cpp-python {api.__version__}", cases)


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
    options.use_extra_bufts = os.environ.get("LLAMA_REPACK", "1") != "0"
    model = llama_cpp.llama_model_load_from_file(file.encode(), options)
    settings = llama_cpp.llama_context_default_params()
    settings.n_ctx = settings.n_batch = settings.n_ubatch = PREFILL
    settings.n_threads = settings.n_threads_batch = 2
    settings.flash_attn_type = {"auto": -1, "off": 0}[flash]
    if len(sys.argv) > 5:
        batches, lengths = ([int(n) for n in text.split(",")] for text in sys.argv[4:6])
        name = "llama.cpp-repacked" if options.use_extra_bufts else "llama.cpp-as-in-file"
        return run_batches(llama_cpp, model, settings, weights, name, batches, lengths)
    context = llama_cpp.llama_init_from_model(model, settings)
    ids = numpy.random.default_rng(1).integers(0, VOCABULARY, PREFILL).tolist()
    generate_in_turns(f"llama-cpp-python {llama_cpp.__version__}", weights.split("-")[0], f"llama.cpp-{weights}-flash-{flash}",
                      lambda capacity: Sequence(llama_cpp, context), ids, ids[:PROMPT])


main()
