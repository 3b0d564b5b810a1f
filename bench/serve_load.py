#!/usr/bin/env python3
"""Asks a running `lithe serve` as many clients do at once, and checks every answer.

  bench/serve_load.py PORT [--streams 200] [--seconds 600] [--pid PID]
      Streams of completions; a third of the clients leave early, a tenth send nonsense. Fails where an answer is lost
      (no end), mixed (not the text that the same request has alone), where nonsense is not answered by a JSON error,
      where slots stay taken, or where the server's memory (--pid) grows by more than a tenth in the second half.

Python 3 alone is needed.
"""
import argparse
import asyncio
import json
import random
import sys
import time

WORDS = "the king said unto him and they went in to a city of which water bread light day night wine hand".split()
NONSENSE = [b"{", b"[]", b"nonsense", b'{"prompt": 1}', b'{"prompt": "a", "temperature": -1}', b'{"prompt": "a", "n": 1e9}',
            b'{"prompt": [999999999]}', b'{"prompt": "a", "grammar": "root ::= root"}', b'\xff\xfe', b'{"model": "x", "prompt": "a"}',
            b'{"prompt": "a", "response_format": {"type": "json_schema", "json_schema": {"schema": {"not": {}}}}}']


def body_of(seed):
    draw = random.Random(seed)
    body = {"prompt": " ".join(draw.choices(WORDS, k=draw.randint(1, 40))), "max_tokens": draw.randint(1, 24), "seed": seed % 97}
    if draw.random() < 0.3:
        body["temperature"] = 0
    elif draw.random() < 0.2:
        body["n"] = 2
    if draw.random() < 0.3:
        body["logprobs"] = draw.randint(0, 3)
    if draw.random() < 0.1:
        body["grammar"] = 'root ::= "[" [0-9]{1,9} ("," [0-9]{1,9}){0,3} "]"'
    if draw.random() < 0.2:
        body["top_p"] = 0.8
    return body


async def ask(port, data, path="/v1/completions", leave_after=None, method=b"POST"):
    """Status and body; None where it left early or the connection broke."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(method + b" %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n"
                     b"Content-Length: %d\r\n\r\n" % (path.encode(), len(data)) + data)
        await writer.drain()
        head = await reader.readuntil(b"\r\n\r\n")
        status = int(head.split()[1])
        if b"chunked" not in head.lower():
            return status, await reader.read()
        out = b""
        while True:
            size = int(await reader.readline(), 16)
            out += await reader.readexactly(size)
            await reader.readline()
            if size == 0:
                return status, out
            if leave_after is not None and len(out) >= leave_after:
                return None
    finally:
        writer.close()


def choices_of(answer):
    return [{k: c[k] for k in ("text", "finish_reason", "logprobs")} for c in json.loads(answer[1])["choices"]]


def text_of_stream(data):
    texts, done = {}, False
    for event in data.decode().split("\n\n"):
        if event == "data: [DONE]":
            done = True
        elif event.startswith("data: "):
            chunk = json.loads(event[6:])
            if "error" in chunk:
                return chunk, False
            for choice in chunk["choices"]:
                texts[choice["index"]] = texts.get(choice["index"], "") + choice["text"]
    return texts, done


async def metric(port, name):
    answer = await ask(port, b"", "/metrics", method=b"GET")
    return sum(float(line.split()[-1]) for line in answer[1].decode().splitlines() if line.startswith(name))


def resident(pid):
    with open(f"/proc/{pid}/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))


async def load(args):
    seeds = list(range(200))
    alone = {}
    for seed in seeds:
        alone[seed] = {i: c["text"] for i, c in enumerate(choices_of(await ask(args.port, json.dumps(body_of(seed)).encode())))}
    counts = dict(whole=0, left=0, nonsense=0, busy=0, lost=0, mixed=0, wrong=0)
    memory = []
    end = time.time() + args.seconds

    async def client(number):
        draw = random.Random(number)
        while time.time() < end:
            kind = draw.random()
            try:
                if kind < 0.1:
                    answer = await ask(args.port, draw.choice(NONSENSE))
                    counts["nonsense"] += 1
                    if answer is None or answer[0] not in (400, 404) or "error" not in json.loads(answer[1]):
                        counts["wrong"] += 1
                    continue
                seed = draw.choice(seeds)
                body = dict(body_of(seed), stream=True)
                answer = await ask(args.port, json.dumps(body).encode(), leave_after=draw.randint(1, 400) if kind < 0.43 else None)
                if answer is None:
                    counts["left"] += 1
                elif answer[0] == 429:
                    counts["busy"] += 1
                    await asyncio.sleep(0.1 + draw.random() / 5)
                else:
                    texts, done = text_of_stream(answer[1])
                    counts["whole"] += 1
                    counts["lost"] += not done
                    counts["mixed"] += done and texts != alone[seed]
            except (asyncio.IncompleteReadError, ConnectionError, ValueError):
                counts["lost"] += 1

    async def watch():
        while args.pid and time.time() < end:
            memory.append(resident(args.pid))
            await asyncio.sleep(max(0.5, args.seconds / 100))

    await asyncio.gather(watch(), *(client(i) for i in range(args.streams)))
    await asyncio.sleep(1)
    counts["slots_taken"] = int(await metric(args.port, "lithe_requests_processing") + await metric(args.port, "lithe_requests_deferred"))
    bad = counts["lost"] or counts["mixed"] or counts["wrong"] or counts["slots_taken"] or not counts["whole"]
    if memory:
        half = memory[len(memory) // 2]
        counts["memory_kib"] = [memory[0], half, memory[-1]]
        bad = bad or memory[-1] > 1.1 * half
    print(json.dumps(counts))
    return 1 if bad else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("port", type=int)
    parser.add_argument("--streams", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--pid", type=int)
    args = parser.parse_args()
    sys.exit(asyncio.run(load(args)))


if __name__ == "__main__":
    main()
