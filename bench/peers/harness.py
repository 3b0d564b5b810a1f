"""Results of `lithe eval --tasks --json` beside those of the evaluation harness: python3 harness.py OURS THEIRS.
Prints each metric of both and ends with 1 where an accuracy differs at all, or a perplexity by more than 1e-4 of it."""
import json
import sys

ours, theirs = (json.load(open(name))["results"] for name in sys.argv[1:3])
different = 0
for task in sorted(theirs):
    for key, value in theirs[task].items():
        own = ours.get(task, {}).get(key)
        if not isinstance(value, float) or not isinstance(own, float):
            continue
        exact = key.startswith("acc,") or key.startswith("acc_norm,")
        same = own == value if exact else abs(own - value) <= 1e-4 * abs(value)
        different += not same
        print(f"{task:<32} {key:<28} lithe {own:<22} harness {value:<22}{'' if same else ' DIFFERENT'}")
sys.exit(1 if different else 0)
