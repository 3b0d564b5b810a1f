"""Writes a GGUF file of a Llama with random integer weights, for bench/peers/large.sh: blocks of random bits with small scales.

  python3 make_llama.py FILE SIZE TYPE

SIZE: 1.1, 3 or 7 billion parameters (22 x 2048 with 4 key-value heads, 28 x 3072 with 8, 32 x 4096), vocabulary 32000, head not
tied. TYPE as llama.cpp's programs name it: Q8_0, Q4_0, IQ4_NL, Q6_K, Q4_K_M, Q5_K_M. As there, the head has Q6_K beside 4 and 5
bits, and of Q4_K_M and Q5_K_M half of the values' and the last projections, too.
"""
import sys

import gguf
import numpy
from gguf import GGMLQuantizationType as Types

SHAPES = {"1.1": (22, 2048, 32, 4, 5632), "3": (28, 3072, 24, 8, 8192), "7": (32, 4096, 32, 32, 11008)}
VOCABULARY, POSITIONS = 32000, 4096
# Where the f16 numbers of a block lie, and how large they are: weights have a deviation of some 0.02.
SCALES = {Types.Q8_0: [(0, 3e-4)], Types.Q4_0: [(0, 4e-3)], Types.IQ4_NL: [(0, 3e-4)], Types.Q6_K: [(208, 1.5e-5)],
          Types.Q4_K: [(0, 6e-5), (2, 4e-4)], Types.Q5_K: [(0, 3e-5), (2, 4e-4)]}


def main():
    file, size, kind = sys.argv[1:4]
    layers, width, heads, groups, inner = SHAPES[size]
    base = Types[kind.removesuffix("_M")]
    mixed, small = kind.endswith("_M"), base not in (Types.Q8_0, Types.Q6_K)
    random = numpy.random.default_rng(1)
    writer = gguf.GGUFWriter(file, "llama")
    writer.add_context_length(POSITIONS)
    writer.add_embedding_length(width)
    writer.add_block_count(layers)
    writer.add_feed_forward_length(inner)
    writer.add_head_count(heads)
    writer.add_head_count_kv(groups)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(width // heads)
    writer.add_vocab_size(VOCABULARY)
    writer.add_file_type(gguf.LlamaFileType[f"MOSTLY_{kind}"])
    writer.add_tokenizer_model("none")

    def matrix(name, outputs, inputs, more_bits=False):
        type = Types.Q6_K if more_bits and small else base
        per, bytes_of_block = gguf.GGML_QUANT_SIZES[type]
        blocks = random.integers(0, 256, (outputs * inputs // per, bytes_of_block), numpy.uint8)
        for at, scale in SCALES[type]:
            blocks[:, at:at + 2] = numpy.array([scale], numpy.float16).view(numpy.uint8)
        if type == Types.Q6_K:
            blocks[:, 192:208] = random.integers(16, 64, (len(blocks), 16), numpy.uint8)  # scales with a sign
        writer.add_tensor(name + ".weight", blocks.reshape(outputs, -1), raw_dtype=type)

    def norm(name):
        writer.add_tensor(name + ".weight", numpy.ones(width, numpy.float32))

    matrix("token_embd", VOCABULARY, width)
    matrix("output", VOCABULARY, width, more_bits=True)
    norm("output_norm")
    for i in range(layers):
        block, eighth = f"blk.{i}.", layers // 8
        more_bits = mixed and (i < eighth or i >= 7 * eighth or (i - eighth) % 3 == 2)
        norm(block + "attn_norm")
        norm(block + "ffn_norm")
        matrix(block + "attn_q", width, width)
        matrix(block + "attn_k", width // heads * groups, width)
        matrix(block + "attn_v", width // heads * groups, width, more_bits)
        matrix(block + "attn_output", width, width)
        matrix(block + "ffn_gate", inner, width)
        matrix(block + "ffn_up", inner, width)
        matrix(block + "ffn_down", width, inner, more_bits)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


main()
