"""Writes golden_tokenizers.json: tokenizer files with the ids and texts that Hugging Face's `tokenizers` gives for them.

Run by hand: python3 -m venv V && V/bin/pip install tokenizers==0.23.3 && V/bin/python tests/text/make_golden.py
The texts and vocabularies are made here, so nothing is downloaded.
"""
import base64
import copy
import json
import pathlib
import random

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

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

unigram = Tokenizer(models.Unigram())
unigram.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " ")])
unigram.pre_tokenizer = pre_tokenizers.Metaspace()
unigram.decoder = decoders.Metaspace()
unigram.train_from_iterator(CORPUS, trainers.UnigramTrainer(vocab_size=90, show_progress=False, unk_token="<unk>",
                                                            special_tokens=["<pad>", "</s>", "<unk>"]))
unigram_base = json.loads(unigram.to_str())
for entry in unigram_base["model"]["vocab"]:
    entry[1] = round(entry[1], 6)

words = Tokenizer(models.WordLevel(unk_token="[UNK]"))
words.pre_tokenizer = pre_tokenizers.Whitespace()
words.train_from_iterator(CORPUS, trainers.WordLevelTrainer(vocab_size=40, show_progress=False, special_tokens=["[UNK]"]))
words_base = json.loads(words.to_str())

suffixed = Tokenizer(models.BPE(unk_token="<unk>", end_of_word_suffix="</w>"))
suffixed.pre_tokenizer = pre_tokenizers.Whitespace()
suffixed.decoder = decoders.BPEDecoder()
suffixed.train_from_iterator(CORPUS, trainers.BpeTrainer(vocab_size=150, show_progress=False, special_tokens=["<unk>"],
                                                         end_of_word_suffix="</w>"))
suffixed_base = json.loads(suffixed.to_str())

prefixed = Tokenizer(models.BPE(unk_token="<unk>", continuing_subword_prefix="##"))
prefixed.pre_tokenizer = pre_tokenizers.Whitespace()
prefixed.decoder = decoders.WordPiece(cleanup=False)
prefixed.train_from_iterator(CORPUS, trainers.BpeTrainer(vocab_size=150, show_progress=False, special_tokens=["<unk>"],
                                                         continuing_subword_prefix="##"))
prefixed_base = json.loads(prefixed.to_str())

LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
BASES = {"byte_level": base, "llama": llama_base, "wordpiece": wordpiece_base, "unigram": unigram_base, "words": words_base,
         "suffixed": suffixed_base, "prefixed": prefixed_base}
cases = []


def case(name, base_name, patch, decode=True):
    file = copy.deepcopy(BASES[base_name])
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

def metaspace(scheme, split=True):
    return {"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": split}


def charsmap(rules):
    """The compiled rules of SentencePiece: strings (latin letters here) and what replaces them, as a double array."""
    texts, at = b"", {}
    for key, value in rules.items():
        at[key.encode()] = len(texts)
        texts += value.encode() + b"\0"
    units, used, bases = {0: 0}, {0}, set()  # two nodes with one base would have each other's children

    def place(prefix, node):
        children = sorted({k[len(prefix)] for k in at if k.startswith(prefix) and len(k) > len(prefix)})
        here = children + ([0] if prefix in at else [])
        if not here:
            return
        offset = next(o for o in range(1, 1 << 20)
                      if (node ^ o) not in bases and all((node ^ o ^ c) not in used for c in here) and o < 1 << 21)
        bases.add(node ^ offset)
        units[node] |= offset << 10 | (1 << 8 if prefix in at else 0)
        for c in here:
            used.add(node ^ offset ^ c)
            units[node ^ offset ^ c] = c if c else 1 << 31 | at[prefix]
        for c in children:
            place(prefix + bytes([c]), node ^ offset ^ c)

    place(b"", 0)
    trie = b"".join(units.get(i, 0).to_bytes(4, "little") for i in range(max(units) + 256))
    return base64.b64encode(len(trie).to_bytes(4, "little") + trie + texts).decode()


RULES = {"ﬁ": "fi", "\u00a0": " ", "\t": " ", "\n": " ", "İ": "i", "e\u0301": "é", "é": "e", "ſ": "s", "\u2003": " ", "漢": "han"}
case("unigram", "unigram", {})
for scheme in ["first", "never"]:
    case("metaspace " + scheme, "unigram", {"pre_tokenizer": metaspace(scheme), "decoder": metaspace(scheme)})
case("metaspace whole", "unigram", {"pre_tokenizer": metaspace("always", False)})
case("metaspace after white space", "unigram", {"pre_tokenizer": sequence({"type": "WhitespaceSplit"}, metaspace("always"))})
case("metaspace of old files", "unigram", {"pre_tokenizer": {"type": "Metaspace", "replacement": "▁", "add_prefix_space": True}})
bytes_of_unigram = [["<0x%02X>" % b, -20.0 - b / 1000] for b in range(256)]
case("unigram with bytes", "unigram", {"model": {"byte_fallback": True, "vocab": unigram_base["model"]["vocab"] + bytes_of_unigram},
     "decoder": {"type": "Sequence", "decoders": [{"type": "ByteFallback"}, metaspace("always")]}}, decode=False)
for name, step in {"precompiled": {"type": "Precompiled", "precompiled_charsmap": charsmap(RULES)}, "nmt": {"type": "Nmt"},
                   "strip": {"type": "Strip", "strip_left": True, "strip_right": False},
                   "strip both": {"type": "Strip", "strip_left": True, "strip_right": True}}.items():
    case(name, "unigram", {"normalizer": step})
case("words", "words", {})
case("words cut at spaces", "words", {"pre_tokenizer": {"type": "CharDelimiterSplit", "delimiter": " "}})
case("fixed lengths", "words", {"pre_tokenizer": {"type": "FixedLength", "length": 3}})
case("scripts", "byte_level", {"pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "UnicodeScripts"}, byte_level(False, False)]}})
case("suffix", "suffixed", {})
case("suffix, fused", "suffixed", {"model": {"fuse_unk": True}})
case("ctc", "suffixed", {"decoder": {"type": "CTC", "pad_token": "t", "word_delimiter_token": "e", "cleanup": False}})
case("ctc, cleaned", "suffixed", {"decoder": {"type": "CTC", "pad_token": "t", "word_delimiter_token": "e", "cleanup": True}})
case("prefix", "prefixed", {})
case("bytes of normalizers", "byte_level", {"normalizer": {"type": "ByteLevel"}, "pre_tokenizer": None})
case("strip of marks", "byte_level", {"normalizer": {"type": "StripAccents"}})

path = pathlib.Path(__file__).with_name("golden_tokenizers.json")
golden = {"bases": BASES, "texts": TEXTS}
text = json.dumps(golden, ensure_ascii=True, separators=(",", ":"))[:-1] + ',"cases":[\n'
text += ",\n".join(json.dumps(c, ensure_ascii=True, separators=(",", ":")) for c in cases) + "\n]}\n"
path.write_text(text)
print(len(cases), "cases", len(text), "bytes")
