"""GPT-2 124M and what bench/generate_bench.cpp does with it, for the peers of bench/peers/generate.sh."""
import time

from turns import take_turns

LAYERS, WIDTH, HEADS, VOCABULARY, POSITIONS = 12, 768, 12, 50257, 1024
PREFILL, PROMPT, NEW = 512, 16, 128
STEPS = 8  # of several texts


def generate_in_turns(program, weights, mode, start, text, prompt):
    """As turns.py asks. start(capacity) gives an empty sequence, and its next_after(tokens) what follows them, as it takes it;
    text has PREFILL tokens, prompt PROMPT, or is None where nothing is decoded."""
    def prefill():
        sequence = start(PREFILL)
        begin = time.perf_counter()
        sequence.next_after(text)
        return time.perf_counter() - begin

    def decode():
        sequence = start(PROMPT + NEW)
        token = sequence.next_after(prompt)
        begin = time.perf_counter()
        for _ in range(NEW):
            token = sequence.next_after(token)
        return time.perf_counter() - begin

    works = [("prefill", PREFILL, prefill)] + ([] if prompt is None else [("decode", NEW, decode)])
    take_turns(program, [(f"work={work} weights={weights} mode={mode} count={count}", run) for work, count, run in works])
