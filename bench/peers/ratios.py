"""Medians and ratios of the peers' scripts. Standard input: lines "PROGRAM ... key=value ...", of lithe and others.

  python3 ratios.py RATE CASE...

CASE: the keys whose values make a case, as "dtype batch"; RATE: the key of what is compared, as tok/s. For each case the
median over rounds of each program and mode, with its peak memory where the lines say it, then lithe's fastest mode
against the others' fastest, and the memory a run adds (grownRSS_MB) against the others' least.
"""
import re
import statistics
import sys

rate, *keys = sys.argv[1:]
cases = {}  # case -> (is lithe, program and mode) -> lines' values
for line in sys.stdin:
    values = dict(re.findall(r"(\S+)=(\S+)", line))
    if rate not in values:
        continue
    lithe = line.startswith("lithe ")
    name = " ".join(["lithe"] * lithe + [values[key] for key in ("mode",) if key in values]) or line.split()[0]
    case = " ".join(f"{key}={values[key]}" for key in keys)
    cases.setdefault(case, {}).setdefault((lithe, name), []).append(values)
for case, programs in cases.items():
    print(case)
    best, least = {}, {}
    for (lithe, name), lines in programs.items():
        rates = [float(values[rate]) for values in lines]
        middle = statistics.median(rates)
        memory = [float(values["peakRSS_MB"]) for values in lines if "peakRSS_MB" in values]
        more = f"  peak {statistics.median(memory):.0f} MB" if memory else ""
        more += "".join(f"  {key} {statistics.median(float(v[key]) for v in lines):.2f}" for key in ("share", "grownRSS_MB")
                        if key in lines[0])
        print(f"  {name:<40} {middle:9.2f} {rate} ({min(rates):.2f} to {max(rates):.2f}){more}")
        best[lithe] = max(best.get(lithe, (0, "")), (middle, name))
        if "grownRSS_MB" in lines[0]:
            grown = statistics.median(float(values["grownRSS_MB"]) for values in lines)
            least[lithe] = min(least.get(lithe, (float("inf"), "")), (grown, name))
    if len(best) == 2:
        print(f"  ratio {best[True][0] / best[False][0]:.2f}: {best[True][1]} to {best[False][1]}")
    if len(least) == 2 and least[False][0] > 0:
        print(f"  memory {least[True][0] / least[False][0]:.2f}: {least[True][1]} to {least[False][1]}")
