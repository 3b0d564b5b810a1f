"""Times programs in turns of a second or less, for machines whose speed changes within seconds.

  python3 turns.py ROUNDS REPEATS COMMANDS

COMMANDS: a file of command lines. Each program prints a line of key=value pairs for each of its cases, and an empty line. Then
it reads "CASE REPEATS" from standard input (CASE counts from 0), runs the case so often and prints the median of the seconds.
A case has a type and a batch; in each round all programs that have it run it in turn, once unmeasured, while the others
sleep. Prints those lines again with seq/s and the process's peak memory, for ratios.py. A program that ends is left out.
"""
import re
import shlex
import subprocess
import sys
import time


class Program:
    def __init__(self, command):
        self.command = command
        self.process = subprocess.Popen(shlex.split(command), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def read_cases(self):
        cases = []
        for line in self.process.stdout:  # libraries may print before
            if "batch=" in line:
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
    rounds, repeats, commands = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    with open(commands) as file:
        programs = [Program(line.strip()) for line in file]
    cases = {}  # (type, batch) -> programs with what they call it
    for program in programs:
        lines = program.read_cases()
        if not lines:
            print(f"left out: {program.command} (it ended)", file=sys.stderr)
        for index, line in enumerate(lines):
            values = dict(re.findall(r"(\S+)=(\S+)", line))
            cases.setdefault((values["dtype"], int(values["batch"])), []).append((program, index, line))
    for (_, batch), runs in cases.items():
        for turn in range(rounds + 1):
            for run in list(runs):
                program, index, line = run
                try:
                    program.seconds(index, 1)
                    seconds = program.seconds(index, 5 * repeats if batch == 1 else repeats)
                except (ValueError, BrokenPipeError):
                    print(f"left out: {program.command} (it ended)", file=sys.stderr)
                    runs.remove(run)
                    continue
                if turn:
                    print(f"{line} seq/s={batch / seconds:.2f} ms={1e3 * seconds:.1f} peakRSS_MB={program.peak():.0f}", flush=True)
                time.sleep(0.05)  # threads that wait for more work end their loops
    for program in programs:
        program.process.kill()
        program.process.wait()


main()
