"""Golden values of the architectures that `lithe import` reads: small models of transformers with weights by a formula.

    pip install torch transformers safetensors
    python3 tools/oracles/make_transformers_golden.py tests/golden/transformers [CASE ...]
    python3 tools/oracles/make_transformers_golden.py tests/golden/transformers --saved-again tests/golden/transformers_5.json

Made with torch 2.6.0 and transformers 4.57.1, the cases of FIVE with torch 2.15.0 and transformers 5.24.0. The second
form loads each golden model with version 5 of transformers, which must give the same numbers, saves it, and writes what
config.json and the tensors are called then.

A file holds config.json as transformers writes it, names, shapes and types of the saved tensors, ids of a text, every
13th column of its logits (or of its last rows), and the ids that greedy decoding goes on with. The number i of a tensor
is s = sin(linear i + square i i + name (crc32(name) mod 1000)) times matrix, or for vectors 1 + norm s where they are
norms' weights and bias s where they are not. Number i of a sound's frames is sin(linear i + square i i) / 2.

Of Whisper there are also the rows of its encoder, and what it writes of a sound under its rules (`heard`), by the
processors of the library.
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
from safetensors.torch import save_file
from transformers.generation import logits_process

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
# Bytes, then <|endoftext|> <|startoftranscript|> <|en|> <|de|> <|fr|> <|translate|> <|transcribe|> <|startoflm|>
# <|startofprev|> <|nospeech|> <|notimestamps|>, and times.
END, BEGIN, LANGUAGES, TASKS, NO_TIMES = 256, 257, {"<|en|>": 258, "<|de|>": 259, "<|fr|>": 260}, \
    {"translate": 261, "transcribe": 262}, 266
WHISPER = dict(vocab_size=280, num_mel_bins=10, d_model=24, encoder_layers=2, decoder_layers=3, encoder_attention_heads=4,
               decoder_attention_heads=3, encoder_ffn_dim=40, decoder_ffn_dim=32, max_source_positions=12,
               max_target_positions=48, pad_token_id=END, bos_token_id=END, eos_token_id=END,
               decoder_start_token_id=BEGIN)
WHISPER_GENERATION = {"is_multilingual": True, "lang_to_id": LANGUAGES, "task_to_id": TASKS,
                      "no_timestamps_token_id": NO_TIMES, "max_initial_timestamp_index": 5, "decoder_start_token_id": BEGIN,
                      "eos_token_id": END, "begin_suppress_tokens": [32, END],
                      "suppress_tokens": [1, 2, 7, 60, BEGIN, 261, 262, 263, 264, 265]}
ANSWERS = dict(vocab_size=VOCABULARY, dim=24, n_layers=2, n_heads=4, hidden_dim=40, max_position_embeddings=64)


# Made with version 5.
def five():
    def rope(share):
        return {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": share}

    wide = dict(DECODER, hidden_size=32)
    return {
        "gpt_neox_whole": (t.GPTNeoXConfig(**wide, rope_parameters=rope(1.0)), t.GPTNeoXForCausalLM),
        "phi_whole": (t.PhiConfig(**wide, rope_parameters=rope(1.0)), t.PhiForCausalLM),
        "phi3_part": (t.Phi3Config(**wide, num_key_value_heads=2, rope_parameters=rope(0.5)), t.Phi3ForCausalLM),
        "bert_words_untied": (t.BertConfig(**ENCODER, tie_word_embeddings=False), t.BertForMaskedLM),
        "roberta_words_untied": (t.RobertaConfig(**dict(ENCODER, type_vocab_size=1, pad_token_id=1),
                                                 tie_word_embeddings=False), t.RobertaForMaskedLM),
        "bert_answers": (t.BertConfig(**ENCODER), t.BertForQuestionAnswering),
        "distilbert_answers": (t.DistilBertConfig(**ANSWERS), t.DistilBertForQuestionAnswering),
        "t5_unscaled": (t.T5Config(**T5, feed_forward_proj="gated-gelu", tie_word_embeddings=False),
                        t.T5ForConditionalGeneration),
        "mt5_tied": (t.MT5Config(**T5), t.MT5ForConditionalGeneration),
        "whisper": (t.WhisperConfig(**WHISPER), t.WhisperForConditionalGeneration),
        "whisper_untied": (t.WhisperConfig(**dict(WHISPER, num_mel_bins=128, d_model=16, encoder_layers=1,
                                                  decoder_layers=1, encoder_attention_heads=2, decoder_attention_heads=4,
                                                  max_source_positions=7,
                                                  activation_function="relu", tie_word_embeddings=False)),
                           t.WhisperForConditionalGeneration),
        "modernbert_types": (t.ModernBertConfig(**dict(MODERN, layer_types=["sliding_attention", "full_attention",
                                                                           "sliding_attention", "full_attention"])),
                             t.ModernBertForMaskedLM),
    }


FIVE = five() if int(t.__version__.split(".")[0]) >= 5 else {}


def saved(directory):
    """config.json, and type and shape of each tensor."""
    config = json.loads((pathlib.Path(directory) / "config.json").read_text())
    with safe_open(pathlib.Path(directory) / "model.safetensors", "pt") as file:
        shapes = {key: [str(file.get_slice(key).get_dtype()), list(file.get_slice(key).get_shape())] for key in file.keys()}
    return config, shapes


def fill(directory, shapes):
    tensors = {key: values(key, shape).float() if dtype == "F32" else torch.zeros(shape, dtype=torch.int64)
               for key, (dtype, shape) in shapes.items()}
    save_file(tensors, pathlib.Path(directory) / "model.safetensors", {"format": "pt"})


def frames_of(config):
    i = torch.arange(2 * config.max_source_positions * config.num_mel_bins, dtype=torch.float64)
    frames = torch.sin(FORMULA["linear"] * i + FORMULA["square"] * (i * i)) / 2
    return frames.reshape(1, -1, config.num_mel_bins).transpose(1, 2).float()


def heard_of(model, language, task, times, most=20):
    """The ids behind BEGIN that the library's processors let greedy decoding choose."""
    run = runner(model)
    ids = [BEGIN]
    if language is None:
        logits = run(ids).logits[0, -1]
        language = max(LANGUAGES, key=lambda name: float(logits[LANGUAGES[name]]))
    ids += [LANGUAGES[language], TASKS[task]] + ([] if times else [NO_TIMES])
    settings = t.GenerationConfig(**WHISPER_GENERATION)
    chain = [logits_process.SuppressTokensAtBeginLogitsProcessor(settings.begin_suppress_tokens, len(ids)),
             logits_process.SuppressTokensLogitsProcessor(settings.suppress_tokens)]
    if times:
        chain.append(logits_process.WhisperTimeStampLogitsProcessor(settings, begin_index=len(ids)))
    for _ in range(most):
        scores = run(ids).logits[:, -1].float()
        for processor in chain:
            scores = processor(torch.tensor([ids]), scores)
        ids.append(int(scores[0].argmax()))
        if ids[-1] == END:
            break
    return {"language": language, "task": task, "times": times, "ids": ids[1:]}


def runner(model):
    """Of an encoder-decoder the ids are the target's, after the token that starts it; the source is SOURCE."""
    both = {"input_ids": torch.tensor([SOURCE])} if model.config.is_encoder_decoder else {}
    if model.config.model_type == "whisper":
        both = {"input_features": frames_of(model.config)}
    return lambda ids: model(**both, **{"decoder_input_ids" if both else "input_ids": torch.tensor([ids])})


def kept_of(result):
    """What a golden file holds of a result, and its name."""
    if hasattr(result, "start_logits"):
        rows = torch.stack([result.start_logits[0], result.end_logits[0]], -1)
    else:
        rows = result.logits if hasattr(result, "logits") else result.last_hidden_state
    rows = rows.reshape(-1, rows.shape[-1])
    name = "logits" if hasattr(result, "logits") or hasattr(result, "start_logits") else "rows"
    return name, [[float(f"{v:.8g}") for v in (row[::STRIDE] if rows.shape[1] > 30 else row).tolist()] for row in rows]


def make(name, config, kind, out):
    config._attn_implementation = "eager"
    with tempfile.TemporaryDirectory() as directory, torch.no_grad():
        kind(config).save_pretrained(directory)
        written, shapes = saved(directory)
        fill(directory, shapes)
        model = kind.from_pretrained(directory, attn_implementation="eager", dtype=torch.float32).eval()
        run = runner(model)
        kept, rows = kept_of(run(IDS))
        golden = {"name": name, "config": written, "tensors": shapes, "formula": FORMULA, "ids": IDS, "stride": STRIDE,
                  kept: rows}
        if config.model_type == "whisper":
            golden["generation_config"] = WHISPER_GENERATION
            golden["encoder"] = kept_of(model.model.encoder(frames_of(config)))[1]
            golden["heard"] = [heard_of(model, language, task, times) for language, task, times in (
                (None, "transcribe", False), ("<|de|>", "translate", False), (None, "transcribe", True),
                ("<|en|>", "transcribe", True))]
        elif model.config.is_encoder_decoder:
            golden["source"] = SOURCE
        if name.endswith("_longer"):
            golden["context_length"] = config.max_position_embeddings
        if "source" in golden or "heard" in golden or "ForCausalLM" in kind.__name__ or "LMHead" in kind.__name__:
            ids = list(IDS)
            for _ in range(8):
                ids.append(int(run(ids).logits[0, -1].argmax()))
            golden["greedy"] = ids[len(IDS):]
    text = json.dumps(golden, separators=(",", ":"))
    (out / f"{name}.json").write_text(text + "\n")
    print(name, len(text))


def saved_again(golden):
    kind = getattr(t, golden["config"]["architectures"][0])
    with tempfile.TemporaryDirectory() as directory, tempfile.TemporaryDirectory() as second, torch.no_grad():
        (pathlib.Path(directory) / "config.json").write_text(json.dumps(golden["config"]))
        fill(directory, golden["tensors"])
        model = kind.from_pretrained(directory, attn_implementation="eager", dtype=torch.float32).eval()
        kept, rows = kept_of(runner(model)(golden["ids"]))
        expected = torch.tensor(golden[kept])
        apart = float((torch.tensor(rows) - expected).abs().max() / expected.abs().max())
        model.save_pretrained(second)
        config, shapes = saved(second)
        with safe_open(pathlib.Path(second) / "model.safetensors", "pt") as file:
            kept_values = all(torch.equal(file.get_tensor(key), values(key, shape).float())
                              for key, (_, shape) in shapes.items() if key in golden["tensors"])
        generation = pathlib.Path(second) / "generation_config.json"
        out = {"config": config}
        if shapes != golden["tensors"]:
            out["tensors"] = shapes
        if generation.exists() and (config.get("eos_token_id") or 0) < VOCABULARY:
            out["generation_config"] = json.loads(generation.read_text())
        return out, apart, kept_values


if __name__ == "__main__":
    target = pathlib.Path(sys.argv[1])
    if "--saved-again" in sys.argv:
        files = {}
        for path in sorted(target.glob("*.json")):
            golden = json.loads(path.read_text())
            if golden["config"]["transformers_version"].startswith("4."):
                files[path.stem], apart, same = saved_again(golden)
                print(f"{path.stem}: {apart:.1e}", "" if same else "OTHER VALUES")
                if apart > 1e-5 or not same:
                    del files[path.stem]
        pathlib.Path(sys.argv[3]).write_text(json.dumps(files, separators=(",", ":")).replace('}},"', '}},\n"') + "\n")
        sys.exit()
    target.mkdir(parents=True, exist_ok=True)
    for case, (config, kind) in (CASES | FIVE).items():
        if case in sys.argv[2:] or (len(sys.argv) < 3 and not (target / f"{case}.json").exists()):
            make(case, config, kind, target)
