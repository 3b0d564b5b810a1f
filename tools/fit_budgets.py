#!/usr/bin/env python3
"""`lithe fit` within several budgets, beside the best single method that keeps each of them.

  tools/fit_budgets.py RUN BUDGET [BUDGET ...] --out DIRECTORY [--lithe build/release/bin/lithe] [--threads 2] [-- MORE OPTIONS OF FIT]
      BUDGET: options of lithe fit in one word, as "--size 3MB" or "--latency 2ms --memory 90MB". Each is fitted into
      DIRECTORY/N. Of the chains of one step that keep it (rounded, pruned, one part exchanged, or used in another way), the
      best is then carried out too (`--choose`), if it is on the front. Prints a row of a table for each budget: what real
      runs of both took, and what `lithe eval` says of both on the run's held-out data. A stopped call goes on.
"""
import argparse
import json
import os
import shlex
import shutil
import subprocess
import sys

SCORES = ("chrf", "spearman", "accuracy", "f1", "loss")  # of lithe eval --json, the first that there is


def run(lithe, *words):
    """What it printed. Exit code 4: nothing keeps the budget."""
    done = subprocess.run([lithe, *words], capture_output=True, text=True)
    if done.returncode not in (0, 4):
        sys.exit(f"lithe {shlex.join(words)}: {done.stderr[-2000:]}")
    return done.stdout


def is_single(chain):
    used_otherwise = any(option.startswith("--") and option != "--precision" for option in chain["options"])
    return (chain["share"] < 1) + bool(chain["exchange"]) + (chain["format"] != "f32") + used_otherwise == 1


def score_of(args, model, options):
    kept = [word for pair in zip(options[::2], options[1::2]) if pair[0] != "--draft" for word in pair]  # drafts change no token
    return json.loads(run(args.lithe, "eval", model, "--json", "--threads", args.threads, *kept))


def read_fit(directory):
    with open(os.path.join(directory, "fit.json")) as file:
        return json.load(file)


def carry_out(args, budget, out, *choose):
    """fit.json of `out`, or of the trials where no model was made. All budgets share the trials, which lie beside one name."""
    if not os.path.exists(out):
        made = os.path.join(args.out, "model")
        run(args.lithe, "fit", args.run, *shlex.split(budget), "--out", made, "--threads", args.threads, *args.more, *choose)
        if not os.path.exists(made):
            return read_fit(made + ".fit")
        shutil.move(made, out)
    return read_fit(out)


def told(args, chosen, out):
    real = chosen["real_run"]
    score = score_of(args, out, chosen["options"])
    name = next(n for n in SCORES if n in score)
    return (f"{chosen['chain']} | {1e3 * real['latency_seconds']:.3g} ms, {real['memory_bytes'] / 2**20:.1f} MiB, "
            f"{real['size_bytes'] / 2**20:.2f} MiB | {name} {score[name]:.4f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run")
    parser.add_argument("budgets", nargs="+")
    parser.add_argument("--out", required=True)
    parser.add_argument("--lithe", default="build/release/bin/lithe")
    parser.add_argument("--threads", default="2")
    words = sys.argv[1:]
    cut = words.index("--") if "--" in words else len(words)
    args = parser.parse_args(words[:cut])
    args.more = words[cut + 1:]
    os.makedirs(args.out, exist_ok=True)
    for number, budget in enumerate(args.budgets, 1):
        out = os.path.join(args.out, str(number))
        fit = carry_out(args, budget, out)
        if "chosen" not in fit:
            print(f"| `{budget}` | nothing fits: nearest {fit['nearest']['chain']}: {fit['nearest']['why']} |", flush=True)
            continue
        print(f"| `{budget}` | {told(args, fit['chosen'], out)} |", flush=True)
        singles = [c for c in fit["chains"] if c["fits"] and is_single(c)]
        best = min(singles, key=lambda c: c["change"]["mean"], default=None)
        if not best:
            print("| | no single method keeps it |", flush=True)
        elif best["chain"] == fit["chosen"]["chain"]:
            print("| | a single method itself |", flush=True)
        elif not best["number"]:  # cannot be chosen: another chain is better in all respects
            print(f"| | the best single method, {best['chain']}, is not on the front |", flush=True)
        else:
            single = carry_out(args, budget, out + "-single", "--choose", str(best["number"]))["chosen"]
            print(f"| the best single method | {told(args, single, out + '-single')}{'' if single['kept'] else ' | not kept'} |", flush=True)


if __name__ == "__main__":
    main()
