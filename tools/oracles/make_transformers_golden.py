"""Golden values of the architectures that `lithe import` reads: small models of transformers with weights by a formula.

    pip install torch transformers safetensors        (made with torch 2.6.0 and transformers 4.57.1)
    python3 tools/oracles/make_transformers_golden.py tests/golden/transformers

A file holds config.json as transformers writes it, names, shapes and types of the saved tensors, ids of a text, every
13th column of its logits (or of its last rows), and the ids that greedy decoding goes on with. The number i of a tensor
is s = sin(linear i + square i i + name (crc32(name) mod 1000)) times matrix, or for vectors 1 + norm s where they are
norms' weights and bias s where they are not.
"""
import json
import math
import pathlib
import sys
import tempfile
import zlib

import torch
import transformers as t
from safetensors import safe_open

FORMULA = {"linear": 0.37, "square": 0.01, "name": 0.011, "matrix": 0.25, "norm": 0.05, "bias": 0.05}
IDS = [3, 17, 250, 8, 8, 91, 144, 3, 60, 201, 5, 77]
SOURCE = [31, 5, 5, 199, 240, 12, 66, 7, 101, 2]
VOCABULARY, STRIDE = 260, 13


def values(name, shape):
    count = math.prod(shape)
    i = torch.arange(count, dtype=torch.float64)
    s = torch.sin(FORMULA["linear"] * i + FORMULA["square"] * (i * i) + FORMULA["name"] * (zlib.crc32(name.encode()) % 1000))
    if len(shape) > 1:
        out = FORMULA["matrix"] * s
    else:
        out = FORMULA["bias"] * s if name.endswith("bias") else 1 + FORMULA["norm"] * s
    return out.reshape(shape)


DECODER = dict(vocab_size=VOCABULARY, hidden_size=24, num_hidden_layers=2, num_attention_heads=4, intermediate_size=40,
               max_position_embeddings=64, bos_token_id=1, eos_token_id=2, pad_token_id=0)
ENCODER = dict(DECODER, type_vocab_size=2)
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 16}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16}
LONG = {"type": "longrope", "short_factor": [1.0, 1.5, 2.5], "long_factor": [1.0, 3.0, 9.0]}
MODERN = dict(DECODER, num_hidden_layers=4, global_attn_every_n_layers=3, local_attention=6, sep_token_id=2,
              cls_token_id=1, attn_implementation="eager", reference_compile=False)
T5 = dict(vocab_size=VOCABULARY, d_model=24, d_kv=8, d_ff=40, num_layers=2, num_decoder_layers=3, num_heads=3,
          relative_attention_num_buckets=8, relative_attention_max_distance=20, pad_token_id=0, eos_token_id=2,
          decoder_start_token_id=0)
BART = dict(vocab_size=VOCABULARY, d_model=24, encoder_layers=2, decoder_layers=3, encoder_attention_heads=4,
            decoder_attention_heads=3, encoder_ffn_dim=40, decoder_ffn_dim=32, max_position_embeddings=64, pad_token_id=1,
            bos_token_id=0, eos_token_id=2, decoder_start_token_id=2)
CASES = {
    "llama2": (t.LlamaConfig(**DECODER), t.LlamaForCausalLM),
    "llama3": (t.LlamaConfig(**DECODER, num_key_value_heads=2, rope_theta=500000.0, rope_scaling=LLAMA3,
                             attention_bias=True, mlp_bias=True), t.LlamaForCausalLM),
    "llama_linear": (t.LlamaConfig(**DECODER, rope_scaling={"rope_type": "linear", "factor": 2.0}), t.LlamaForCausalLM),
    "llama_yarn": (t.LlamaConfig(**DECODER, rope_scaling=YARN), t.LlamaForCausalLM),
    "smollm": (t.LlamaConfig(**DECODER, num_key_value_heads=1, tie_word_embeddings=True, head_dim=8), t.LlamaForCausalLM),
    "mistral": (t.MistralConfig(**DECODER, num_key_value_heads=2, sliding_window=5), t.MistralForCausalLM),
    "qwen2": (t.Qwen2Config(**DECODER, num_key_value_heads=2, tie_word_embeddings=True), t.Qwen2ForCausalLM),
    "qwen2_window": (t.Qwen2Config(**dict(DECODER, num_hidden_layers=3), num_key_value_heads=4, use_sliding_window=True, sliding_window=4,
                                   max_window_layers=1), t.Qwen2ForCausalLM),
    "qwen3": (t.Qwen3Config(**DECODER, num_key_value_heads=2, head_dim=10), t.Qwen3ForCausalLM),
    "olmo2": (t.Olmo2Config(**DECODER, num_key_value_heads=2), t.Olmo2ForCausalLM),
    "phi3": (t.Phi3Config(**DECODER, num_key_value_heads=2), t.Phi3ForCausalLM),
    "gemma": (t.GemmaConfig(**DECODER, num_key_value_heads=1, head_dim=8), t.GemmaForCausalLM),
    "gemma3": (t.Gemma3TextConfig(**dict(DECODER, num_hidden_layers=3), num_key_value_heads=2, head_dim=8,
                                  query_pre_attn_scalar=12, sliding_window=4,
                                  layer_types=["sliding_attention", "full_attention", "sliding_attention"]),
               t.Gemma3ForCausalLM),
    "gemma2": (t.Gemma2Config(**dict(DECODER, num_hidden_layers=3), num_key_value_heads=2, head_dim=8, query_pre_attn_scalar=12,
                              sliding_window=4, attn_logit_softcapping=2.0, final_logit_softcapping=3.0),
               t.Gemma2ForCausalLM),
    "olmo": (t.OlmoConfig(**DECODER, num_key_value_heads=2, clip_qkv=0.4), t.OlmoForCausalLM),
    "phi3_long": (t.Phi3Config(**DECODER, num_key_value_heads=2, original_max_position_embeddings=24, rope_scaling=LONG),
                  t.Phi3ForCausalLM),
    "phi3_longer": (t.Phi3Config(**DECODER, num_key_value_heads=2, original_max_position_embeddings=8, rope_scaling=LONG),
                    t.Phi3ForCausalLM),
    "llama_dynamic": (t.LlamaConfig(**DECODER, rope_scaling={"rope_type": "dynamic", "factor": 2.0}), t.LlamaForCausalLM),
    "llama_yarn_mscale": (t.LlamaConfig(**DECODER, rope_scaling=dict(YARN, mscale=0.7, mscale_all_dim=1.0, truncate=False)),
                          t.LlamaForCausalLM),
    "gpt2": (t.GPT2Config(vocab_size=VOCABULARY, n_embd=24, n_layer=2, n_head=4, n_positions=64), t.GPT2LMHeadModel),
    "gpt_neox": (t.GPTNeoXConfig(**dict(DECODER, hidden_size=32), rotary_pct=0.25), t.GPTNeoXForCausalLM),
    "gpt_neox_serial": (t.GPTNeoXConfig(**dict(DECODER, hidden_size=32), rotary_pct=0.5, use_parallel_residual=False),
                        t.GPTNeoXForCausalLM),
    "phi": (t.PhiConfig(**dict(DECODER, hidden_size=32), partial_rotary_factor=0.5), t.PhiForCausalLM),
    "bert": (t.BertConfig(**ENCODER), t.BertModel),
    "bert_words": (t.BertConfig(**ENCODER), t.BertForMaskedLM),
    "bert_texts": (t.BertConfig(**ENCODER, id2label={0: "a", 1: "b", 2: "c"}, label2id={"a": 0, "b": 1, "c": 2}),
                   t.BertForSequenceClassification),
    "bert_tokens": (t.BertConfig(**ENCODER, num_labels=4), t.BertForTokenClassification),
    "roberta": (t.RobertaConfig(**dict(ENCODER, type_vocab_size=1, pad_token_id=1)), t.RobertaModel),
    "roberta_words": (t.RobertaConfig(**dict(ENCODER, type_vocab_size=1, pad_token_id=1)), t.RobertaForMaskedLM),
    "modernbert": (t.ModernBertConfig(**MODERN), t.ModernBertModel),
    "modernbert_words": (t.ModernBertConfig(**MODERN), t.ModernBertForMaskedLM),
    "modernbert_texts": (t.ModernBertConfig(**MODERN, num_labels=3, classifier_pooling="mean"),
                         t.ModernBertForSequenceClassification),
    "t5": (t.T5Config(**T5), t.T5ForConditionalGeneration),
    "t5_v1_1": (t.T5Config(**T5, feed_forward_proj="gated-gelu", tie_word_embeddings=False), t.T5ForConditionalGeneration),
    "bart": (t.BartConfig(**BART), t.BartForConditionalGeneration),
    "marian": (t.MarianConfig(**dict(BART, pad_token_id=256, eos_token_id=0, decoder_start_token_id=256), scale_embedding=True,
                              activation_function="swish"), t.MarianMTModel),
    "distilbert_words": (t.DistilBertConfig(vocab_size=VOCABULARY, dim=24, n_layers=2, n_heads=4, hidden_dim=40,
                                            max_position_embeddings=64), t.DistilBertForMaskedLM),
    "distilbert_texts": (t.DistilBertConfig(vocab_size=VOCABULARY, dim=24, n_layers=2, n_heads=4, hidden_dim=40,
                                            max_position_embeddings=64, num_labels=2),
                         t.DistilBertForSequenceClassification),
}


def make(name, config, kind, out):
    config._attn_implementation = "eager"
    model = kind(config).eval()
    with tempfile.TemporaryDirectory() as directory:
        model.save_pretrained(directory)
        written = json.loads((pathlib.Path(directory) / "config.json").read_text())
        with safe_open(pathlib.Path(directory) / "model.safetensors", "pt") as file:
            tensors = {key: [str(file.get_slice(key).get_dtype()), list(file.get_slice(key).get_shape())] for key in file.keys()}
    state = model.state_dict()
    with torch.no_grad():
        for key, (dtype, shape) in tensors.items():
            if dtype == "F32":
                state[key].copy_(values(key, shape))
        # Of an encoder-decoder the ids are the target's, after the token that starts it; the source is SOURCE.
        both = {"input_ids": torch.tensor([SOURCE])} if config.is_encoder_decoder else {}

        def run(ids):
            return model(**both, **{"decoder_input_ids" if both else "input_ids": torch.tensor([ids])})

        result = run(IDS)
        rows = result.logits if hasattr(result, "logits") else result.last_hidden_state
        golden = {"name": name, "config": written, "tensors": tensors, "formula": FORMULA, "ids": IDS, "stride": STRIDE}
        rows = rows.reshape(-1, rows.shape[-1])
        golden["logits" if hasattr(result, "logits") else "rows"] = [
            [float(f"{v:.8g}") for v in (row[::STRIDE] if rows.shape[1] > 30 else row).tolist()] for row in rows]
        if both:
            golden["source"] = SOURCE
        if name.endswith("_longer"):
            golden["context_length"] = config.max_position_embeddings
        if both or "ForCausalLM" in kind.__name__ or "LMHead" in kind.__name__:
            ids = list(IDS)
            for _ in range(8):
                ids.append(int(run(ids).logits[0, -1].argmax()))
            golden["greedy"] = ids[len(IDS):]
    text = json.dumps(golden, separators=(",", ":"))
    (out / f"{name}.json").write_text(text + "\n")
    print(name, len(text))


if __name__ == "__main__":
    target = pathlib.Path(sys.argv[1])
    target.mkdir(parents=True, exist_ok=True)
    for case, (config, kind) in CASES.items():
        if len(sys.argv) < 3 or case in sys.argv[2:]:
            make(case, config, kind, target)
