"""Every code point through expressions of tokenizers, in lithe and in the reference library (Oniguruma).

    pip install tokenizers        (compared with tokenizers 0.23.3)
    python3 bench/peers/expression_parity.py

Cuts lines of all code points in order, and of random ones, by each expression; prints how many lines differ, and exits with
1 when one does.
"""
import argparse
import pathlib
import random
import subprocess
import sys
import tempfile

from tokenizers import Regex, Tokenizer, models, pre_tokenizers

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXPRESSIONS = [r"\p{L}", r"\p{N}", r"\p{M}", r"\p{S}", r"\p{P}", r"\p{Lu}", r"\p{Lo}", r"\p{Nd}", r"\P{L}", r"\p{^N}", r"[\P{L}]",
               r"[^\P{L}\P{Lu}x]", r"\w", r"\W", r"\d", r"\D", r"\s", r"\S", r"[^\W\d_]", r"[\W_]", r"[^\W]", r"[^\S\d]", r"\b",
               r"\B", r"\w+|[^\w\s]+", r"[^\s\p{L}\p{N}]", r"\p{Han}", r"\p{Latin}", r"\p{Hiragana}|\p{Katakana}", r"\p{Cyrillic}",
               r"[[:alpha:]]", r"[[:alnum:]]", r"[[:punct:]]", r"[[:word:]]", r"[[:lower:]]", r"[[:upper:]]", r"[[:space:]]",
               r"[[:digit:]]", r"[[:cntrl:]]", r"[[:ascii:]]", r"[[:xdigit:]]"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--lithe", default=str(ROOT / "build/release/bin/lithe"))
    o = parser.parse_args()
    rng = random.Random(1)
    points = [c for c in range(1, 0x110000) if not 0xD800 <= c < 0xE000 and c not in (10, 13)]
    used = [c for c in points if c < 9000 or 0x10000 <= c < 0x1F000]
    lines = ["".join(map(chr, points[i:i + 500])) for i in range(0, len(points), 500)]
    lines += ["".join(chr(rng.choice(used)) for _ in range(60)) for _ in range(3000)]
    wrong = 0
    with tempfile.TemporaryDirectory() as scratch:
        text, file = pathlib.Path(scratch) / "text.txt", pathlib.Path(scratch) / "tokenizer.json"
        text.write_text("\n".join(lines) + "\n", encoding="utf-8", newline="\n")
        bytes_of = {c: i for i, c in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
        for expression in EXPRESSIONS:
            t = Tokenizer(models.BPE(bytes_of, []))
            t.pre_tokenizer = pre_tokenizers.Sequence([  # the space before each piece shows where it begins
                pre_tokenizers.Split(Regex(expression), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=True, use_regex=False)])
            t.save(str(file))
            ours = subprocess.run([o.lithe, "tokenize", str(file), str(text), "--ids"], capture_output=True, text=True)
            if ours.returncode:
                print(f"{expression:24} lithe: {ours.stderr.strip()}")
                wrong += 1
                continue
            got = [[int(i) for i in line.split()] for line in ours.stdout.split("\n")[:-1]]
            different = sum(a != t.encode(b).ids for a, b in zip(got, lines, strict=True))
            print(f"{expression:24} {len(lines)} lines: {different} differ", flush=True)
            wrong += different
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
