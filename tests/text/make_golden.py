"""Writes golden_tokenizers.json: tokenizer files with the ids and texts that Hugging Face's `tokenizers` gives for them.

Run by hand: python3 -m venv V && V/bin/pip install tokenizers==0.23.3 && V/bin/python tests/text/make_golden.py
The texts and vocabularies are made here, so nothing is downloaded.
"""
import copy
import json
import pathlib
import random

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

random.seed(3)
CORPUS = ["the cat sat on the mat, and the other cat sat under it.", "In 1984 it wasn't 123456 or 42; they'll see!",
          "Ünïcödé straße ﬁne Ångström", "one two  three   four\n\nfive\tsix", "漢字 and 🦙 llamas; the end of the text."] * 3
ATOMS = list("abcdeht ,.!?'0129\n\t") + ["  ", "   ", "'s", "'LL", " the", " cat", "an", " 123", "é", "İ", "ß", "ſ", "ﬁ", "Å", "漢", "🦙",
         "\u00a0", "\u180e", "\u2003", "<t>", "[X]", " [X] ", "<|endoftext|>", "zun", "e\u0301"]
TEXTS = [""] + ["".join(random.choice(ATOMS) for _ in range(random.randrange(1, 24))) for _ in range(12)]


def byte_level(prefix=False, regex=True):
    return {"type": "ByteLevel", "add_prefix_space": prefix, "trim_offsets": True, "use_regex": regex}


def added(content, id, **flags):
    return {"id": id, "content": content, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True} | flags


def sequence(*steps):
    return {"type": "Sequence", "pretokenizers": list(steps)}


def split(pattern, behavior="Isolated", invert=False):
    return {"type": "Split", "pattern": pattern, "behavior": behavior, "invert": invert}


trained = Tokenizer(models.BPE())
trained.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
trained.decoder = decoders.ByteLevel()
trained.train_from_iterator(CORPUS, trainers.BpeTrainer(vocab_size=320, special_tokens=["<|endoftext|>"], show_progress=False,
                                                        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
base = json.loads(trained.to_str())
base["model"]["merges"] = [" ".join(m) for m in base["model"]["merges"]]

llama = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
llama.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
llama.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
llama.train_from_iterator((w for line in CORPUS[:2] for w in line.split(" ")), trainers.BpeTrainer(
    vocab_size=340, show_progress=False, special_tokens=["<unk>", "<s>", "</s>"] + ["<0x%02X>" % i for i in range(256)]))
llama_base = json.loads(llama.to_str())
llama_base["added_tokens"] = llama_base["added_tokens"][:3]

wordpiece = Tokenizer(models.WordPiece(unk_token="[UNK]", max_input_chars_per_word=12))
wordpiece.normalizer = normalizers.BertNormalizer()
wordpiece.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
wordpiece.decoder = decoders.WordPiece(cleanup=False)
wordpiece.train_from_iterator(CORPUS, trainers.WordPieceTrainer(vocab_size=120, show_progress=False,
                                                                special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]))
wordpiece_base = json.loads(wordpiece.to_str())

LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
cases = []


def case(name, base_name, patch, decode=True):
    file = copy.deepcopy({"byte_level": base, "llama": llama_base, "wordpiece": wordpiece_base}[base_name])
    file.update({k: v for k, v in patch.items() if k != "model"})
    file["model"].update(patch.get("model", {}))
    tokenizer = Tokenizer.from_str(json.dumps(file))
    ids = [tokenizer.encode(t, add_special_tokens=False).ids for t in TEXTS]
    entry = {"name": name, "base": base_name, "patch": patch, "ids": ids}
    if decode:
        entry["decoded"] = [tokenizer.decode(i, skip_special_tokens=False) for i in ids]
    cases.append(entry)


case("gpt2", "byte_level", {})
case("prefix space", "byte_level", {"pre_tokenizer": byte_level(True)})
case("whole text", "byte_level", {"pre_tokenizer": byte_level(False, False)})
case("ignore merges", "byte_level", {"model": {"ignore_merges": True}})
case("llama 3 expression", "byte_level", {"pre_tokenizer": sequence(split({"Regex": LLAMA3}), byte_level(False, False))})
case("digits", "byte_level", {"pre_tokenizer": sequence({"type": "Digits", "individual_digits": True}, byte_level())})
case("digit runs", "byte_level", {"pre_tokenizer": sequence({"type": "Digits", "individual_digits": False}, byte_level())})
case("punctuation", "byte_level", {"pre_tokenizer": sequence({"type": "Punctuation", "behavior": "Contiguous"}, byte_level())})
case("white space", "byte_level", {"pre_tokenizer": sequence({"type": "WhitespaceSplit"}, byte_level(True, False))})
for behavior in ["Isolated", "Removed", "MergedWithPrevious", "MergedWithNext", "Contiguous"]:
    for pattern in [{"Regex": "[th]"}, {"String": "an"}, {"Regex": "c*"}]:
        for invert in [False, True]:
            case(f"{behavior} {pattern} {invert}", "byte_level",
                 {"pre_tokenizer": sequence(split(pattern, behavior, invert), byte_level(False, False))}, decode=False)
for form in ["NFC", "NFD", "NFKC", "NFKD"]:
    case(form, "byte_level", {"normalizer": {"type": form}})
case("lower, strip", "byte_level", {"normalizer": {"type": "Sequence", "normalizers": [{"type": "NFD"}, {"type": "StripAccents"}, {"type": "Lowercase"}]}})
case("replace", "byte_level", {"normalizer": {"type": "Replace", "pattern": {"Regex": "\\s+"}, "content": "_"}})
for flag in ["single_word", "lstrip", "rstrip"]:
    case("added " + flag, "byte_level", {"added_tokens": base["added_tokens"] + [
        added("<t>", 320, **{flag: True}), added("[X]", 321, **{flag: True}), added("zun", 322, **{flag: True}), added("   ", 323, special=False)]})
case("added normalized", "byte_level", {"normalizer": {"type": "Lowercase"}, "added_tokens": base["added_tokens"] + [
    added("[X]", 320, normalized=True, special=False), added("<T>", 321, normalized=True, special=False)]}, decode=False)
case("llama 2", "llama", {})
case("llama 2 without bytes", "llama", {"model": {"byte_fallback": False}})
case("bert", "wordpiece", {})
case("bert cased", "wordpiece", {"normalizer": {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": False,
                                                "strip_accents": None, "lowercase": False}})

path = pathlib.Path(__file__).with_name("golden_tokenizers.json")
golden = {"bases": {"byte_level": base, "llama": llama_base, "wordpiece": wordpiece_base}, "texts": TEXTS}
text = json.dumps(golden, ensure_ascii=True, separators=(",", ":"))[:-1] + ',"cases":[\n'
text += ",\n".join(json.dumps(c, ensure_ascii=True, separators=(",", ":")) for c in cases) + "\n]}\n"
path.write_text(text)
print(len(cases), "cases", len(text), "bytes")
