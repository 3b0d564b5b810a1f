#!/usr/bin/env python3
"""Random requests must have the same bytes whatever else a server does, and count how many have not.

  bench/serve_same.py RUN [--requests 10000] [--adapter NAME=DIR ...]

Each request is asked alone of a server with one slot; then with 1, 4 and 16 others beside it, with and without kept prompts,
with drafted tokens (texts of greedy requests: drawn ones are as likely, not the same, and log-probabilities of tokens that were
checked together differ in their last bits), and once more after a restart. Prompts are kept in
pieces of generate.prefill_tokens of RUN's recipe; make it small (--set generate.prefill_tokens=16), or none is as long as that.

Python 3 alone is needed. LITHE_BINARY: the program.
"""
import argparse
import asyncio
import json
import os
import random
import subprocess
import sys

from serve_load import WORDS, ask, body_of, choices_of, metric

BEGINNINGS = [" ".join(random.Random(i).choices(WORDS, k=40)) + " " for i in range(5)]


def request_of(seed, models):
    draw = random.Random(-seed)
    body = body_of(seed)
    if draw.random() < 0.6:
        body["prompt"] = draw.choice(BEGINNINGS) + body["prompt"]
    if draw.random() < 0.1 and "grammar" not in body:
        body.update(echo=True, logprobs=1)
    body["model"] = draw.choice(models)
    return body


class Server:
    def __init__(self, run, options, threads=1):
        lithe = os.environ.get("LITHE_BINARY", "build/release/bin/lithe")
        self.process = subprocess.Popen([lithe, "serve", run, "--port", "0", "--threads", str(threads), "--queue", "1000", *options],
                                        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.port = int(self.process.stdout.readline().rsplit(":", 1)[1])

    def __enter__(self):
        return self.port

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()


def texts_of(choices):
    return [(c["text"], c["finish_reason"]) for c in choices]


async def answers(port, requests, together):
    """Choices by the number of the request, so many asked at once."""
    left, out = list(requests.items()), {}
    random.Random(together).shuffle(left)

    async def client():
        while left:
            number, body = left.pop()
            answer = await ask(port, json.dumps(body).encode())
            out[number] = choices_of(answer) if answer and answer[0] == 200 else answer

    await asyncio.gather(*(client() for _ in range(together)))
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run")
    parser.add_argument("--requests", type=int, default=10000)
    parser.add_argument("--adapter", action="append", default=[])
    args = parser.parse_args()
    adapters = [word for adapter in args.adapter for word in ("--adapter", adapter)]
    models = [os.path.basename(os.path.abspath(args.run))] + [a.split("=")[0].split(":")[-1] for a in args.adapter]
    requests = {i: request_of(1000 + i, models) for i in range(args.requests)}
    greedy = {i: body for i, body in requests.items() if body.get("temperature") == 0}
    total = 0
    with Server(args.run, [*adapters, "--slots", "1"]) as port:
        alone = asyncio.run(answers(port, requests, 1))
    failed = sum(not isinstance(choices, list) for choices in alone.values())
    for name, options, asked in (("", [], requests), ("kept prompts", ["--prefix-cache", "64MiB"], requests),
                                 ("drafts", ["--draft", "prompt"], greedy), ("restarted", ["--prefix-cache", "64MiB"], requests)):
        with Server(args.run, [*adapters, *options]) as port:
            for beside in (16,) if name == "restarted" else (1, 4, 16):
                got = asyncio.run(answers(port, asked, beside + 1))
                seen = texts_of if name == "drafts" else list
                different = sum(i not in got or not isinstance(got[i], list) or seen(got[i]) != seen(alone[i]) for i in asked)
                total += different
                print(json.dumps({"beside": beside, "with": name, "requests": len(asked), "different": different,
                                  "cached_tokens": int(asyncio.run(metric(port, "lithe_prompt_tokens_cached_total")))}), flush=True)
    print(json.dumps({"requests": args.requests, "failed_alone": failed, "different": total}))
    sys.exit(1 if total or failed else 0)


if __name__ == "__main__":
    main()
