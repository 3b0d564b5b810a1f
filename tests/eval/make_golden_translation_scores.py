"""Writes golden_translation_scores.json: what sacreBLEU makes of texts.

Run by hand from the root of the repository, with LITHE_DATA set (docs/data.md):
python3 -m venv V && V/bin/pip install sacrebleu==2.5.1 && V/bin/python tests/eval/make_golden_translation_scores.py
Of Multi30k only scores are written, no text.
"""
import gzip
import json
import os
import pathlib
import random

from sacrebleu.metrics import BLEU, CHRF, TER
from sacrebleu.significance import PairedTest
from sacrebleu.version import __version__

random.seed(7)
ATOMS = (["the", "cat", "sat", "on", "mat", "The", "Cat", "3.14", "1,000", "2-3", "x-y", "-", ".", ",", "...", "!", "?!", "'s", "(hi)", "[a]",
          "&quot;", "&amp;", "&lt;", "&gt;", "&amp;lt;", "<skipped>", "$5", "50%", "a.b", "5.", ".5", "a,b", "€", "„x“", "«", "»", "–", "—", "…",
          "½", "²", "Ⅳ", "٣", "漢字", "仮名", "。", "、", "，", "한국어", "Ünïcödé", "straße", "İ", "ÀÉ", "e\u0301", "🦙", "+", "±", "©", "_", "~", "`", "a/b",
          "Я", "дом"])
SPACES = [" ", " ", " ", "", "  ", "\t", "\u00a0", "\u3000", "\u2003", "\u0085", "\x1c", "\u200b"]


def text(length):
    return "".join(random.choice(ATOMS) + random.choice(SPACES) for _ in range(length))


def near(line):
    words = line.split(" ")
    return " ".join(w if random.random() < 0.8 else random.choice(ATOMS) for w in words if random.random() < 0.9)


def score(kind, options, hypotheses, references, sentence=False):
    metric = {"bleu": BLEU, "chrf": CHRF}[kind](**options)
    result = metric.sentence_score(hypotheses[0], [r[0] for r in references]) if sentence else metric.corpus_score(hypotheses, references)
    entry = {"options": options, "sentence": sentence, "score": result.score, "signature": metric.get_signature().format()}
    if kind == "bleu":
        entry["line"] = result.format(width=1)
    else:
        entry["name"] = result.name
    return entry


BLEU_OPTIONS = ([{}] + [{"tokenize": t} for t in ("intl", "char", "none")] + [{"lowercase": True}, {"lowercase": True, "tokenize": "intl"}]
                + [{"smooth_method": "none"}, {"smooth_method": "floor"}, {"smooth_method": "floor", "smooth_value": 0.01}]
                + [{"smooth_method": "add-k"}, {"smooth_method": "add-k", "smooth_value": 0.5}, {"effective_order": True}])
CHRF_OPTIONS = [{}, {"word_order": 2}, {"lowercase": True, "word_order": 1}, {"char_order": 3, "beta": 1}, {"char_order": 0, "word_order": 2, "beta": 3}]


def ter(hypotheses, references):
    metric = TER()
    return {"score": metric.corpus_score(hypotheses, references).score, "signature": metric.get_signature().format()}


def moves():
    """Texts whose words change places: TER takes them for moves, within its limits of length, distance and number."""
    rng = random.Random(11)
    out = []
    for length, words in [(6, 4), (12, 6), (12, 30), (30, 9), (40, 100), (70, 70), (120, 400)]:
        lines = [[f"{rng.choice('Ab')}{rng.randrange(words)}" for _ in range(length)] for _ in range(4)]
        changed = []
        for line in lines:
            line = list(line)
            for _ in range(3):
                at, size = rng.randrange(length), rng.randrange(1, 13)
                block, rest = line[at:at + size], line[:at] + line[at + size:]
                to = rng.randrange(len(rest) + 1)
                line = rest[:to] + block + rest[to:]
            changed.append([w for w in line if rng.random() < 0.9])
        hypotheses, references = [" ".join(line) for line in changed], [[" ".join(line) for line in lines]]
        out.append({"name": f"{length} words of {words}", "hypotheses": hypotheses, "references": references, "ter": ter(hypotheses, references)})
    return out


def case(name, hypotheses, references):
    entry = {"name": name, "hypotheses": hypotheses, "references": references,
             "bleu": [score("bleu", o, hypotheses, references) for o in BLEU_OPTIONS],
             "chrf": [score("chrf", o, hypotheses, references) for o in CHRF_OPTIONS], "ter": ter(hypotheses, references)}
    for o in BLEU_OPTIONS:
        entry["bleu"].append(score("bleu", {**o, "effective_order": True}, hypotheses, references, sentence=True))
    entry["chrf"].append(score("chrf", {"word_order": 2}, hypotheses, references, sentence=True))
    return entry


cases = [
    case("equal", ["The cat sat on the mat."], [["The cat sat on the mat."]]),
    case("empty hypothesis", [""], [["The cat sat."]]),
    case("empty reference", ["The cat sat."], [[""]]),
    case("both empty", [""], [[""]]),
    case("one word", ["cat"], [["cat"]]),
    case("three words", ["the cat sat"], [["the cat ran"]]),
    case("nothing in common", ["a b c d e"], [["v w x y z"]]),
    case("clipped counts", ["the the the the the the the"], [["the cat is on the mat"], ["there is a cat on the mat"]]),
    case("nearest of two lengths", ["a b c d"], [["a b c d e f"], ["a b"]]),
    case("entities", ["&quot;Tom &amp; Jerry&quot; &lt;b&gt;"], [['"Tom & Jerry" <b>']]),
    case("numbers", ["It costs $1,000.50, i.e. 3.14-fold in 1999-2000."], [["It costs $1,000.5, i.e. 3.1-fold in 1999 - 2000."]]),
    case("Chinese", ["我们在北京大学学习。", "今天天气很好！"], [["我们在北京学习。", "今天天气非常好。"]]),
    case("one empty of three", ["", "the cat sat on it", "a b c d"], [["x y z", "the cat sat on a mat", "a b c d e"]]),
]
for i in range(6):
    lines = [text(random.randrange(0, 16)) for _ in range(8)]
    cases.append(case(f"random {i}", [near(l) for l in lines], [lines] + [[near(l) for l in lines] for _ in range(i % 3)]))

tokenized = []
for line in ["a-\nb\n", "a-\n \n", "", " ", "x.", "1.", "1. ", "a..b", "1,2,a,3", "--", "1--2", "«1.5»", "(1)", "“5”", "½.½"] + [text(12) for _ in range(60)]:
    tokenized.append({"text": line} | {t: BLEU(tokenize=t)._preprocess_segment(line).split() for t in ("13a", "intl", "char", "none")})


def perturbed(lines, period):
    """Every period-th word of the text goes, and in line i word j changes places with the next where 5 divides i + j."""
    out, count = [], 0
    for i, line in enumerate(lines):
        words = []
        for word in line.split(" "):
            if count % period != period - 1:
                words.append(word)
            count += 1
        for j in range(len(words) - 1):
            if (i + j) % 5 == 0:
                words[j], words[j + 1] = words[j + 1], words[j]
        out.append(" ".join(words))
    return out


def read(language):
    path = pathlib.Path(os.environ.get("LITHE_DATA", "data")) / "translation/multi30k" / f"test_2016_flickr.{language}.gz"
    return gzip.open(path, "rt", encoding="utf-8", newline="\n").read().rstrip("\n").split("\n")


german, english, french = read("de"), read("en"), read("fr")
SYSTEMS = {"dropped and swapped": perturbed(german, 7), "English as German": english, "reference": german}
multi30k = []
for name, hypotheses in SYSTEMS.items():
    multi30k.append({"name": name, "bleu": [score("bleu", o, hypotheses, [german]) for o in BLEU_OPTIONS],
                     "chrf": [score("chrf", o, hypotheses, [german]) for o in CHRF_OPTIONS]})
two = [score("bleu", {}, perturbed(german, 7), [german, french]), score("chrf", {"word_order": 2}, perturbed(german, 7), [german, french])]

# Two systems that differ little: in every 20th line the other drops fewer words.
first, second = perturbed(german, 7), perturbed(german, 9)
close = [second[i] if i % 20 == 0 else line for i, line in enumerate(first)]
_, table = PairedTest([("first", first), ("close", close)], {"bleu": BLEU(), "chrf": CHRF()}, [german], test_type="bs", n_samples=1000)()
paired = {}
for name in ("BLEU", "chrF2"):
    a, b = table[name]
    paired[name] = {"baseline": {"score": a.score, "mean": a.mean, "half_width": a.ci},
                    "system": {"score": b.score, "mean": b.mean, "half_width": b.ci}, "p": b.p_value}

golden = {"sacrebleu": __version__, "tokenized": tokenized, "cases": cases, "moves": moves(), "multi30k": multi30k, "two_references": two, "paired": paired}
out = pathlib.Path(__file__).with_name("golden_translation_scores.json")
out.write_text(json.dumps(golden, default=float).replace(', {"name"', ',\n{"name"').replace(', {"text"', ',\n{"text"') + "\n")
print(json.dumps(paired, indent=1, default=float), multi30k[0]["bleu"][0], multi30k[0]["chrf"][:2], sep="\n")
