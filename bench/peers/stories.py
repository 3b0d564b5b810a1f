"""stories260K, a small Llama's real weights: the text that each program tells, and how fast, in turns.

    CMAKE_ARGS=-DGGML_NATIVE=ON pip install --no-binary llama-cpp-python llama-cpp-python
    pip install torch transformers gguf onnx onnxscript onnxruntime
    LITHE_DATA=data python3 bench/peers/stories.py [--rounds 5] [--threads 1] [--tokens 500]

llama2.c's file becomes a GGUF of f32, which lithe imports and llama.cpp reads; lithe exports it for transformers, whose
weights ONNX Runtime has, too (a step of decoding with its cache). Each goes on greedily from the token that begins a text,
with keys and values of f32; the fastest of the rounds counts. Prints tokens a second, and ends with 1 where a text is
another than lithe's. A library that is not installed is left out, and that is said.
"""
import argparse
import ctypes
import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import time

os.environ["HF_HUB_OFFLINE"] = "1"
import numpy as np

LITHE = str(pathlib.Path(__file__).resolve().parents[2] / "build/release/bin/lithe")


def lithe(*words):
    return subprocess.run([LITHE, *map(str, words)], check=True, capture_output=True, text=True).stdout


def write_gguf(home, path):
    """llama2.c's weights and words as GGUF. Returns the model's sizes."""
    import gguf
    data = (home / "stories260K.bin").read_bytes()
    dim, hidden, layers, heads, kv, vocabulary, length = struct.unpack_from("<7i", data)
    numbers = np.frombuffer(data, np.float32, offset=28)
    at = 0

    def take(*shape):
        nonlocal at
        at += int(np.prod(shape))
        return numbers[at - int(np.prod(shape)):at].reshape(shape)

    out = gguf.GGUFWriter(path, "llama")
    out.add_context_length(length)
    out.add_embedding_length(dim)
    out.add_block_count(layers)
    out.add_feed_forward_length(hidden)
    out.add_head_count(heads)
    out.add_head_count_kv(kv)
    out.add_layer_norm_rms_eps(1e-5)
    out.add_file_type(gguf.LlamaFileType.ALL_F32)
    out.add_tensor("token_embd.weight", take(vocabulary, dim))
    width = dim // heads * kv
    for name, shape in [("attn_norm", [dim]), ("attn_q", [dim, dim]), ("attn_k", [width, dim]), ("attn_v", [width, dim]),
                        ("attn_output", [dim, dim]), ("ffn_norm", [dim]), ("ffn_gate", [hidden, dim]), ("ffn_down", [dim, hidden]),
                        ("ffn_up", [hidden, dim])]:
        for layer in range(layers):
            out.add_tensor(f"blk.{layer}.{name}.weight", take(*shape))
    out.add_tensor("output_norm.weight", take(dim))
    words = (home / "tok512.bin").read_bytes()
    at_word, tokens, scores = 4, [], []
    for token in range(vocabulary):
        score, size = struct.unpack_from("<fi", words, at_word)
        tokens.append(words[at_word + 8:at_word + 8 + size].replace(b" ", "\u2581".encode()))
        scores.append(score)
        at_word += 8 + size
    tokens[:3] = [b"<unk>", b"<s>", b"</s>"]
    out.add_tokenizer_model("llama")
    out.add_token_list(tokens)
    out.add_token_scores(scores)
    out.add_token_types([2, 3, 3] + [6] * 256 + [1] * (vocabulary - 259))
    out.add_bos_token_id(1)
    out.add_eos_token_id(2)
    out.add_unk_token_id(0)
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()


class Lithe:
    name = "lithe"

    def __init__(self, scratch, o):
        self.scratch, self.o = scratch, o

    def __call__(self):
        """Greedy ids, and seconds of all steps but the first."""
        lines = lithe("generate", self.scratch / "run", "--prompt", "", "--greedy", "--max-new-tokens", self.o.tokens, "--threads",
                      self.o.threads, "--json", "--times").splitlines()
        self.text = json.loads(lines[0])["text"]
        return json.loads(lines[-1])["times"]["tokens_per_second"]


class Stepwise:
    """A library that is asked for one token after another."""

    def __call__(self):
        self.start()
        ids, token = [], self.next_after(1)
        began = time.perf_counter()
        while len(ids) < self.o.tokens - 1 and token != 2:
            ids.append(token)
            token = self.next_after(token)
        rate = len(ids) / (time.perf_counter() - began)
        self.text = self.decode(ids if token == 2 else [*ids, token])
        return rate


class LlamaCpp(Stepwise):
    name = "llama.cpp"

    def __init__(self, scratch, o):
        import llama_cpp
        self.o, self.api, self.at = o, llama_cpp, 0
        self.model = llama_cpp.Llama(str(scratch / "stories.gguf"), n_ctx=512, n_threads=o.threads, n_threads_batch=o.threads,
                                     type_k=llama_cpp.GGML_TYPE_F32, type_v=llama_cpp.GGML_TYPE_F32, verbose=False)
        self.words = self.model.n_vocab()

    def start(self):
        self.api.llama_memory_clear(self.api.llama_get_memory(self.model.ctx), False)

    def next_after(self, token):
        if self.api.llama_decode(self.model.ctx, self.api.llama_batch_get_one((ctypes.c_int32 * 1)(token), 1)):
            sys.exit("llama_decode failed")
        logits = self.api.llama_get_logits_ith(self.model.ctx, -1)
        return int(np.ctypeslib.as_array(logits, (self.words,)).argmax())

    def decode(self, ids):
        return self.model.detokenize([1, *ids]).decode()


class Transformers(Stepwise):
    name = "transformers"

    def __init__(self, scratch, o):
        import torch
        import transformers
        torch.set_num_threads(o.threads)
        self.o, self.torch, self.cache = o, torch, transformers.DynamicCache
        self.model = transformers.AutoModelForCausalLM.from_pretrained(scratch / "hf", dtype=torch.float32).eval()
        self.tokenizer = transformers.AutoTokenizer.from_pretrained(scratch / "hf")

    def start(self):
        self.past = self.cache()

    def next_after(self, token):
        with self.torch.inference_mode():
            out = self.model(input_ids=self.torch.tensor([[token]]), past_key_values=self.past, use_cache=True)
        return int(out.logits[0, -1].argmax())

    def decode(self, ids):
        return self.tokenizer.decode(ids)


class OnnxRuntime(Stepwise):
    name = "ONNX Runtime"

    def __init__(self, scratch, o):
        import onnxruntime
        import torch
        import transformers
        model = transformers.AutoModelForCausalLM.from_pretrained(scratch / "hf", dtype=torch.float32).eval()
        self.o, self.tokenizer = o, transformers.AutoTokenizer.from_pretrained(scratch / "hf")
        c, weights = model.config, model.model
        self.layers, heads, kv, size = c.num_hidden_layers, c.num_attention_heads, c.num_key_value_heads, c.hidden_size // c.num_attention_heads
        frequencies = weights.rotary_emb.inv_freq

        class Step(torch.nn.Module):
            """One token behind the keys and values [layers, kv, past, size]."""

            def __init__(self):
                super().__init__()
                self.model = model

            def forward(self, ids, keys, values):
                x = weights.embed_tokens(ids)
                angle = keys.shape[2] * torch.cat([frequencies, frequencies])
                cosine, sine = angle.cos(), angle.sin()
                turned = lambda y: y * cosine + torch.cat([-y[..., size // 2:], y[..., :size // 2]], -1) * sine
                new_keys, new_values = [], []
                for i, layer in enumerate(weights.layers):
                    h, a = layer.input_layernorm(x), layer.self_attn
                    q = turned(a.q_proj(h).view(heads, 1, size)).view(kv, heads // kv, size)
                    k = torch.cat([keys[i], turned(a.k_proj(h).view(kv, 1, size))], 1)
                    v = torch.cat([values[i], a.v_proj(h).view(kv, 1, size)], 1)
                    new_keys.append(k)
                    new_values.append(v)
                    seen = (q @ k.transpose(1, 2) * size**-0.5).softmax(-1) @ v
                    x = x + a.o_proj(seen.reshape(1, heads * size))
                    x = x + layer.mlp(layer.post_attention_layernorm(x))
                return model.lm_head(weights.norm(x)), torch.stack(new_keys), torch.stack(new_values)

        empty = torch.zeros(self.layers, kv, 3, size)
        torch.onnx.export(Step(), (torch.tensor([1]), empty, empty), scratch / "step.onnx", input_names=["ids", "keys", "values"],
                          output_names=["logits", "new_keys", "new_values"], dynamo=False,
                          dynamic_axes={n: {2: "past"} for n in ["keys", "values", "new_keys", "new_values"]})
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = o.threads
        self.session = onnxruntime.InferenceSession(str(scratch / "step.onnx"), options, providers=["CPUExecutionProvider"])
        self.empty = empty.numpy()[:, :, :0]

    def start(self):
        self.keys = self.values = self.empty

    def next_after(self, token):
        logits, self.keys, self.values = self.session.run(None, {"ids": np.array([token]), "keys": self.keys, "values": self.values})
        return int(logits[0].argmax())

    def decode(self, ids):
        return self.tokenizer.decode(ids)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--tokens", type=int, default=500)
    o = parser.parse_args()
    home = pathlib.Path(os.environ["LITHE_DATA"]) / "models/stories260K"
    with tempfile.TemporaryDirectory() as made:
        scratch = pathlib.Path(made)
        write_gguf(home, scratch / "stories.gguf")
        lithe("import", scratch / "stories.gguf", "--out", scratch / "run")
        lithe("export", scratch / "run", "--out", scratch / "hf")
        programs = []
        for kind in [Lithe, LlamaCpp, Transformers, OnnxRuntime]:
            try:
                programs.append(kind(scratch, o))
            except ImportError as error:
                print(f"left out: {kind.name} ({error})", file=sys.stderr)
        best = {p.name: 0.0 for p in programs}
        for _ in range(o.rounds):
            for program in programs:
                best[program.name] = max(best[program.name], program())
        words = lambda text: text.replace("<s>", " ").split()  # llama.cpp does not print it
        told = words(programs[0].text)
        different = 0
        for p in programs:
            same = words(p.text) == told
            different += not same
            print(f"{p.name:13} {best[p.name]:8.0f} tokens/s  {'the same text' if same else 'ANOTHER TEXT'}")
            if not same:
                print(repr(p.text), repr(programs[0].text), file=sys.stderr)
        peers = [best[p.name] for p in programs[1:]]
        if peers:
            print(f"lithe / fastest other: {best['lithe'] / max(peers):.2f}")
    sys.exit(different > 0)


if __name__ == "__main__":
    main()
