"""Exports of lithe, as transformers and sentence-transformers of today read them.

    pip install torch transformers safetensors sentence-transformers
    python3 tools/oracles/check_transformers.py LITHE [CASE ...]

Each golden model of tests/golden/transformers is imported, exported and loaded by transformers, which must give the
golden numbers; keys that are missing or left over fail. Encoders are also loaded by sentence-transformers, whose rows must
be those of `lithe encode`. (Made with torch 2.15.0, transformers 5.24.0 and sentence-transformers 6.2.0.)
"""
import json
import pathlib
import subprocess
import sys
import tempfile

import torch
import transformers as t
from safetensors.torch import load_file
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

import make_transformers_golden as golden_kit

GOLDEN = pathlib.Path(__file__).parents[2] / "tests/golden/transformers"


def byte_tokenizer(directory):
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={letter: i for i, letter in enumerate(letters)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken("<end>", special=True)])
    tokenizer.save(str(directory / "tokenizer.json"))
    (directory / "tokenizer_config.json").write_text(json.dumps({"eos_token": "<end>", "tokenizer_class": "PreTrainedTokenizerFast"}))


def lithe(*words):
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr.strip())


def check(binary, golden):
    with tempfile.TemporaryDirectory() as place:
        place = pathlib.Path(place)
        model, run, out = place / "model", place / "run", place / "out"
        model.mkdir()
        (model / "config.json").write_text(json.dumps(golden["config"]))
        golden_kit.fill(model, golden["tensors"])
        byte_tokenizer(model)
        longer = ["--context-length", str(golden["context_length"])] if "context_length" in golden else []
        lithe(binary, "import", str(model), "--out", str(run), *longer)
        lithe(binary, "export", str(run), "--out", str(out))
        config = json.loads((out / "config.json").read_text())
        kind = getattr(t, config["architectures"][0])
        with torch.no_grad():
            loaded, info = kind.from_pretrained(out, attn_implementation="eager", dtype=torch.float32, output_loading_info=True)
            kept, rows = golden_kit.kept_of(golden_kit.runner(loaded.eval())(golden["ids"]))
        expected = torch.tensor(golden[kept])
        apart = float((torch.tensor(rows) - expected).abs().max() / expected.abs().max())
        # What no result depends on: the pooler, and the first name of a bias that an untied head has under another.
        unused = ("pooler.dense.", "cls.predictions.bias", "lm_head.bias")
        missing = [key for key in info["missing_keys"] if not any(name in key for name in unused)]
        sentences = sentence_difference(binary, run, out, place) if (out / "modules.json").exists() else 0
        return config["model_type"], apart, sentences, [*missing, *info["unexpected_keys"], *info["mismatched_keys"]]


def sentence_difference(binary, run, out, place):
    from sentence_transformers import SentenceTransformer
    texts = ["one", "and another text"]
    (place / "lines.txt").write_text("\n".join(texts) + "\n")
    lithe(binary, "encode", str(run), str(place / "lines.txt"), "--out", str(place / "rows.safetensors"))
    ours = load_file(place / "rows.safetensors")["rows"]
    theirs = torch.tensor(SentenceTransformer(str(out), device="cpu").encode(texts))
    return float((ours - theirs).abs().max() / theirs.abs().max())


if __name__ == "__main__":
    failed = 0
    for path in sorted(GOLDEN.glob("*.json")):
        if len(sys.argv) > 2 and path.stem not in sys.argv[2:]:
            continue
        try:
            kind, apart, sentences, keys = check(sys.argv[1], json.loads(path.read_text()))
            good = apart < 1e-5 and sentences < 1e-5 and not keys
            print(f"{path.stem:22} {kind:12} {apart:.1e} {sentences:.1e} {'' if good else 'WRONG'} {keys or ''}", flush=True)
        except Exception as error:
            good = False
            print(f"{path.stem:22} FAILED {type(error).__name__}: {str(error)[:300]}", flush=True)
        failed += not good
    sys.exit(failed > 0)
