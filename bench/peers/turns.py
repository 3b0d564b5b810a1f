"""Times programs in turns of about a second, for machines whose speed changes within seconds.

  python3 turns.py ROUNDS COMMANDS RATE CASE...

COMMANDS: a file of command lines. Each program prints a line of key=value pairs for each of its cases, and an empty line. Then
it reads "CASE REPEATS" from standard input (CASE counts from 0), runs the case so often and prints the median of the seconds.
RATE and CASE are keys as in ratios.py; count=N in a line says how many things a run of the case makes, by which RATE is worked
out. In each round all programs that have a case run it in turn, once unmeasured, while the others sleep. Prints those lines
again with RATE and the process's peak memory, for ratios.py. A program that ends is left out. ONLY=REGEX in the environment:
only cases whose line it matches.
"""
import os
import re
import shlex
import statistics
import subprocess
import sys
import time


def take_turns(program, cases):
    """What a peer in Python does: prints `cases`, pairs of (key=value pairs, what runs the case and may give the seconds that
    count), then times each as it is asked."""
    for pairs, _ in cases:
        print(program, pairs)
    print(flush=True)
    for line in sys.stdin:
        index, repeats = map(int, line.split())
        times = []
        for _ in range(repeats):
            start = time.perf_counter()
            seconds = cases[index][1]()
            times.append(seconds if isinstance(seconds, float) else time.perf_counter() - start)
        print(f"{statistics.median(times):.6f}", flush=True)


class Program:
    def __init__(self, command):
        self.command = command
        self.process = subprocess.Popen(shlex.split(command), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def read_cases(self):
        cases = []
        for line in self.process.stdout:  # libraries may print before
            if "count=" in line:
                cases.append(line.rstrip())
            elif cases:
                break
        return cases

    def seconds(self, case, repeats):
        self.process.stdin.write(f"{case} {repeats}\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())

    def peak(self):
        with open(f"/proc/{self.process.pid}/status") as status:
            return int(re.search(r"VmHWM:\s+(\d+)", status.read()).group(1)) / 1024


def main():
    rounds, commands, rate, *keys = int(sys.argv[1]), *sys.argv[2:]
    with open(commands) as file:
        programs = [Program(line.strip()) for line in file]
    only = os.environ.get("ONLY", "")
    cases = {}  # values of the keys -> programs with what they call it
    for program in programs:
        lines = program.read_cases()
        if not lines:
            print(f"left out: {program.command} (it ended)", file=sys.stderr)
        for index, line in enumerate(lines):
            if not re.search(only, line):
                continue
            values = dict(re.findall(r"(\S+)=(\S+)", line))
            case = tuple(values[key] for key in keys)
            cases.setdefault(case, []).append((program, index, line, int(values["count"])))
    if not cases:
        sys.exit(f"turns.py: no program has a case to time{only and ' that ONLY=' + only + ' matches'}")
    ended = set()
    for runs in cases.values():
        for turn in range(rounds + 1):
            for program, index, line, count in runs:
                if program in ended:
                    continue
                try:
                    once = program.seconds(index, 1)
                    seconds = program.seconds(index, min(20, max(1, round(1 / once)))) if turn else once
                except (ValueError, BrokenPipeError):
                    print(f"left out: {program.command} (it ended)", file=sys.stderr)
                    ended.add(program)
                    continue
                if turn:
                    print(f"{line} {rate}={count / seconds:.2f} ms={1e3 * seconds:.1f} peakRSS_MB={program.peak():.0f}", flush=True)
                time.sleep(0.05)  # threads that wait for more work end their loops
    for program in programs:
        program.process.kill()
        program.process.wait()


if __name__ == "__main__":
    main()
