"""Ids of lithe and of the reference libraries on the same lines: text, code, emoji and rare characters, random bytes.

    pip install tokenizers sentencepiece        (compared with tokenizers 0.22.2 and sentencepiece 0.2.3)
    LITHE_DATA=data python3 bench/peers/tokenizer_parity.py --megabytes 3
    LITHE_DATA=data python3 bench/peers/tokenizer_parity.py --megabytes 100

Each family is either a tokenizer of LITHE_DATA/tokenizers or one that the reference library trains here with the rules of
the family. Prints, a family a line, lines and bytes that were compared, lines that differ, and megabytes a second of both;
exits with 1 when a line differs, whose first few are shown. Bytes that are no UTF-8 become U+FFFD before both read them,
because the reference takes text alone.
"""
import argparse
import itertools
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import time

import sentencepiece
from sentencepiece import sentencepiece_model_pb2
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

ROOT = pathlib.Path(__file__).resolve().parents[2]
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
          r"|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")


def lines_of(data, megabytes, seed):
    """Lines without an end, of all kinds in turn."""
    rng = random.Random(seed)
    pools = {"text": [], "code": []}
    texts = [p for pattern in ("lm/**/*.txt", "lm/**/*.raw", "translation/**/*", "qa/**/*.json", "tokenizers/**/*.txt",
                               "tokenizers/parity/**/*.inp")
             for p in sorted(data.glob(pattern)) if p.is_file() and p.suffix not in (".gz", ".bz2", ".zip")]
    codes = [p for folder in (ROOT / "lithe", ROOT / "tools", ROOT / "bench", pathlib.Path(json.__file__).parents[1])
             for pattern in ("**/*.cpp", "**/*.h", "**/*.py") for p in sorted(folder.glob(pattern))]
    for name, files, most in (("text", texts, 40 << 20), ("code", codes, 40 << 20)):
        size = 0
        for file in files:
            text = file.read_bytes()[:8 << 20].decode("utf-8", "replace")
            pools[name] += [line for line in text.replace("\r", "").split("\n") if line]
            size += len(text)
            if size > most:
                break
        rng.shuffle(pools[name])
    emoji = [chr(c) for c in (*range(0x1F300, 0x1F650), *range(0x1F680, 0x1F700), *range(0x2600, 0x27C0))]
    joins = ["\u200d", "\ufe0f", "\u200d\u2640\ufe0f", "\U0001F3FD", "\u20e3", " ", ""]
    blocks = [(0x20, 0x7f), (0xa0, 0x250), (0x300, 0x370), (0x370, 0x530), (0x5d0, 0x700), (0x900, 0xe00), (0x1100, 0x1200),
              (0x1e00, 0x2070), (0x20a0, 0x2200), (0x3000, 0x3100), (0x4e00, 0x9fff), (0xac00, 0xd7a3), (0xf900, 0xfb00),
              (0xfe70, 0xfffd), (0x1d400, 0x1d7ff), (0x20000, 0x2a6d0)]

    def rare():
        out = []
        for _ in range(rng.randint(1, 40)):
            kind = rng.random()
            if kind < 0.4:
                out.append(rng.choice(emoji) + rng.choice(joins))
            elif kind < 0.8:
                low, high = rng.choice(blocks)
                out.append("".join(chr(rng.randrange(low, high)) for _ in range(rng.randint(1, 6))))
            else:
                out.append(rng.choice(["  ", "\t", "\u00a0", "\u3000", "\u2028", "'s", "'LL", "123456", "...", "\u0301", "\u200b"]))
        return "".join(out)

    total, at = 0, 0
    while total < megabytes * 1e6:
        kind = at % 8
        if kind < 4:
            line = pools["text"][(at // 8 * 4 + kind) % len(pools["text"])]
        elif kind < 6:
            line = pools["code"][(at // 8 * 2 + kind - 4) % len(pools["code"])]
        elif kind == 6:
            line = rare()
        else:
            line = rng.randbytes(rng.randint(1, 120)).decode("utf-8", "replace")
        at += 1
        line = line.replace("\n", " ").replace("\r", " ").replace("\0", " ")  # NUL is no text to lithe
        if not line.strip():
            continue
        total += len(line.encode())
        yield line


def trained(lines, path):
    """Tokenizers of families whose own files are not at hand."""
    sample = lines[:4000]

    def bpe(normalizer, pre, byte_level=True, **options):
        t = Tokenizer(models.BPE(**options))
        if normalizer:
            t.normalizer = normalizer
        t.pre_tokenizer = pre
        if byte_level:
            t.decoder = decoders.ByteLevel()
        else:
            t.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()])
        alphabet = pre_tokenizers.ByteLevel.alphabet() if byte_level else []
        special = ["<|endoftext|>"] if byte_level else ["<unk>", "<s>", "</s>", *(f"<0x{b:02X}>" for b in range(256))]
        t.train_from_iterator(sample, trainers.BpeTrainer(vocab_size=3000, special_tokens=special, initial_alphabet=alphabet,
                                                          show_progress=False))
        return t

    def cut(pattern):
        return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), "isolated"),
                                        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])

    def wordpiece(**options):
        t = Tokenizer(models.WordPiece(unk_token="[UNK]"))
        t.normalizer = normalizers.BertNormalizer(**options)
        t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        t.train_from_iterator(sample, trainers.WordPieceTrainer(
            vocab_size=3000, special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"], show_progress=False))
        return t

    def unigram(normalizer, pre):
        t = Tokenizer(models.Unigram())
        t.normalizer, t.pre_tokenizer = normalizer, pre
        # Every character of the sample needs a place in the vocabulary.
        plain = [line for line in sample if line.isascii()]
        t.train_from_iterator(plain, trainers.UnigramTrainer(vocab_size=3000, special_tokens=["<pad>", "</s>", "<unk>"],
                                                              unk_token="<unk>", show_progress=False))
        return t

    spaces = normalizers.Sequence([normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " ")])
    made = {
        "llama3": lambda: bpe(None, cut(LLAMA3), ignore_merges=True),
        "qwen2": lambda: bpe(normalizers.NFC(), cut(QWEN2)),
        "gpt_neox": lambda: bpe(normalizers.NFC(), pre_tokenizers.ByteLevel(add_prefix_space=False)),
        "roberta": lambda: bpe(None, pre_tokenizers.ByteLevel(add_prefix_space=True)),
        "smollm": lambda: bpe(None, pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True),
                                                             pre_tokenizers.ByteLevel(add_prefix_space=False)])),
        "gemma": lambda: bpe(normalizers.Replace(" ", "\u2581"), pre_tokenizers.Split(" ", "merged_with_previous"), False,
                             unk_token="<unk>", byte_fallback=True, fuse_unk=True),
        "llama2": lambda: bpe(normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")]),
                              pre_tokenizers.Split("\u2581", "merged_with_next"), False,
                              unk_token="<unk>", byte_fallback=True, fuse_unk=True),
        "bert_cased": lambda: wordpiece(lowercase=False),
        "bert_multilingual": lambda: wordpiece(lowercase=True, strip_accents=False, handle_chinese_chars=True),
        "t5_xlmr": lambda: unigram(spaces, pre_tokenizers.Metaspace()),
    }
    for name, make in made.items():
        t = make()
        folder = path / name
        folder.mkdir()
        t.save(str(folder / "tokenizer.json"))
        t.encode_special_tokens = True  # special tokens in a text are text, as lithe reads them
        yield name, folder, lambda line, t=t: t.encode(line, add_special_tokens=False).ids


def given(data, scratch):
    folder = data / "tokenizers"
    for file in [folder / "bert-base-uncased/tokenizer.json", *sorted((folder / "tokenizer-json").glob("*.json"))]:
        if file.exists():
            t = Tokenizer.from_file(str(file))
            t.no_truncation()
            t.no_padding()
            t.encode_special_tokens = True
            yield file.stem if file.stem != "tokenizer" else file.parent.name, file, \
                lambda line, t=t: t.encode(line, add_special_tokens=False).ids
    if (folder / "gpt2/vocab.json").exists():
        t = Tokenizer(models.BPE.from_file(str(folder / "gpt2/vocab.json"), str(folder / "gpt2/merges.txt")))
        t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        yield "gpt2", folder / "gpt2", lambda line, t=t: t.encode(line, add_special_tokens=False).ids
    for file in sorted((folder / "sentencepiece").glob("*.model")):  # the same as a tokenizer.json
        proto = sentencepiece_model_pb2.ModelProto()
        proto.ParseFromString(file.read_bytes())
        if proto.trainer_spec.model_type == proto.trainer_spec.UNIGRAM:
            t = Tokenizer(models.Unigram([(p.piece, p.score) for p in proto.pieces], proto.trainer_spec.unk_id))
            t.normalizer = normalizers.Sequence([
                *([normalizers.Precompiled(proto.normalizer_spec.precompiled_charsmap)]
                  if proto.normalizer_spec.precompiled_charsmap else []), normalizers.Replace(Regex(" {2,}"), " ")])
            t.pre_tokenizer = pre_tokenizers.Metaspace()
            t.decoder = decoders.Metaspace()
            written = scratch / f"{file.stem}.json"
            t.save(str(written))
            yield f"json of {file.stem}", written, lambda line, t=t: t.encode(line, add_special_tokens=False).ids
    for file in sorted((folder / "sentencepiece").glob("*.model")):
        s = sentencepiece.SentencePieceProcessor(model_file=str(file))
        yield "spm " + file.stem, file, s.encode


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--megabytes", type=float, default=3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="families whose name has this in it")
    parser.add_argument("--show", type=int, default=3)
    parser.add_argument("--lithe", default=str(ROOT / "build/release/bin/lithe"))
    o = parser.parse_args()
    data = pathlib.Path(os.environ.get("LITHE_DATA", ROOT / "data"))
    lines = list(lines_of(data, o.megabytes, o.seed))
    size = sum(len(line.encode()) for line in lines) / 1e6
    wrong = 0
    with tempfile.TemporaryDirectory() as scratch:
        text = pathlib.Path(scratch) / "text.txt"
        text.write_text("\n".join(lines) + "\n", encoding="utf-8", newline="\n")
        made = pathlib.Path(scratch)
        for name, place, encode in itertools.chain(given(data, made), trained(lines, made)):
            if o.only not in name:
                continue
            begin = time.time()
            ours = subprocess.run([o.lithe, "tokenize", str(place), str(text), "--ids"], capture_output=True, text=True)
            took = time.time() - begin
            if ours.returncode:
                print(f"{name:20} lithe: {ours.stderr.strip()}")
                wrong += 1
                continue
            got = [[int(i) for i in line.split()] for line in ours.stdout.split("\n")[:-1]]
            begin = time.time()
            want = [encode(line) for line in lines]
            reference = time.time() - begin
            different = [i for i in range(len(lines)) if i >= len(got) or got[i] != want[i]]
            wrong += len(different)
            print(f"{name:20} {len(lines)} lines, {size:.1f} MB: {len(different)} differ; "
                  f"lithe {size / took:.1f} MB/s, reference {size / reference:.1f} MB/s", flush=True)
            for i in different[:o.show]:
                mine = got[i] if i < len(got) else []
                at = next((k for k in range(max(len(mine), len(want[i]))) if mine[k:k + 1] != want[i][k:k + 1]), 0)
                print(f"  line {i}: {ascii(lines[i])[:300]}\n  from token {at}: lithe {mine[at:at + 8]}, "
                      f"reference {want[i][at:at + 8]}")
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
