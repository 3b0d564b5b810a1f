#!/usr/bin/env python3
"""What the Python module costs beside the program: the time of its import, and of generation, in turns.

  PYTHONPATH=build/release/python bench/python_costs.py RUN [--tokens 200] [--rounds 7] [--threads 2]
      Milliseconds that `import lithe` adds to `import numpy`; and the time of greedy tokens of RUN in Python over that in
      `lithe generate` (both without loading), median and range of the rounds.

numpy is needed. LITHE_BINARY: the program.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import time

LITHE = os.environ.get("LITHE_BINARY", "build/release/bin/lithe")
PROMPT = "In the beginning"
IN_PYTHON = """import json, sys, time, lithe
lithe.set_threads({threads})
model = lithe.load({run!r})
model.generate({prompt!r}, max_new_tokens=2, do_sample=False)
begin = time.perf_counter()
tokens = len(model.generate({prompt!r}, max_new_tokens={tokens}, do_sample=False).tokens)
print(json.dumps([time.perf_counter() - begin, tokens]))
"""


def in_python(code):
    begin = time.perf_counter()
    said = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    return time.perf_counter() - begin, said


def in_program(args):
    said = subprocess.run([LITHE, "generate", args.run, "--prompt", PROMPT, "--greedy", "--max-new-tokens", str(args.tokens), "--times",
                           "--json", "--threads", str(args.threads)], check=True, capture_output=True, text=True).stdout
    times = json.loads(said.splitlines()[-1])["times"]
    return times["prefill_seconds"] + times["decode_seconds"], times["new_tokens"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run")
    parser.add_argument("--tokens", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    added = statistics.median(in_python("import numpy, lithe")[0] - in_python("import numpy")[0] for _ in range(11))
    print(f"import lithe adds {1e3 * added:.0f} ms to numpy's")
    code = IN_PYTHON.format(run=args.run, prompt=PROMPT, tokens=args.tokens, threads=args.threads)
    ratios = []
    for _ in range(args.rounds):
        seconds, tokens = json.loads(in_python(code)[1])
        program, same = in_program(args)
        if tokens != same:
            sys.exit(f"Python wrote {tokens} tokens, the program {same}")
        ratios.append(seconds / program)
    print(f"{tokens} tokens take {statistics.median(ratios):.3f} times as long as in the program ({min(ratios):.3f} to {max(ratios):.3f})")


if __name__ == "__main__":
    main()
