#!/usr/bin/env python3
"""Texts that many clients have encoded by `lithe serve`, one a request, against `lithe encode`, in turns.

  bench/serve_encode.py RUN LINES [--streams 16,32] [--rounds 5] [--threads 2] [--precision f32]
      Each client keeps its connection and asks for the vectors of the next line (base64) as soon as it has the one before. Prints
      lines a second of both, medians, and the ratio of the turns. Of the time of `lithe encode` that of a single line (the start
      of the program) is taken away. Fails where the vectors differ in a bit.

Python 3 alone is needed. LITHE_BINARY: the program.
"""
import argparse
import asyncio
import base64
import json
import os
import re
import statistics
import struct
import subprocess
import sys
import tempfile
import time

from serve_same import Server

LITHE = os.environ.get("LITHE_BINARY", "build/release/bin/lithe")


async def answer_of(reader, writer, line):
    body = json.dumps({"input": line, "encoding_format": "base64", "truncate_prompt_tokens": -1}).encode()
    writer.write(b"POST /v1/embeddings HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
                 % len(body) + body)
    head = await reader.readuntil(b"\r\n\r\n")
    size = int(re.search(rb"(?i)content-length: (\d+)", head)[1])
    said = json.loads(await reader.readexactly(size))
    if "data" not in said:
        sys.exit(f"{line!r}: {said}")
    return base64.b64decode(said["data"][0]["embedding"])


async def served(port, lines, streams):
    rows, waiting = [b""] * len(lines), iter(range(len(lines)))

    async def client():
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for i in waiting:
            rows[i] = await answer_of(reader, writer, lines[i])
        writer.close()

    begin = time.perf_counter()
    await asyncio.gather(*(client() for _ in range(streams)))
    return time.perf_counter() - begin, rows


def encoded(args, file, out):
    begin = time.perf_counter()
    subprocess.run([LITHE, "encode", args.run, file, "--threads", str(args.threads), "--precision", args.precision, "--out", out,
                    "--overwrite"], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return time.perf_counter() - begin


def rows_of(file):
    with open(file, "rb") as f:
        size = struct.unpack("<Q", f.read(8))[0]
        begin, end = json.loads(f.read(size))["rows"]["data_offsets"]
        f.seek(8 + size + begin)
        return f.read(end - begin)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run")
    parser.add_argument("lines")
    parser.add_argument("--streams", type=lambda s: [int(n) for n in s.split(",")], default=[16, 32])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--precision", default="f32")
    args = parser.parse_args()
    with open(args.lines) as f:
        lines = f.read().splitlines()
    with tempfile.TemporaryDirectory() as scratch:
        one, out = os.path.join(scratch, "one.txt"), os.path.join(scratch, "rows.safetensors")
        with open(one, "w") as f:
            f.write(lines[0] + "\n")
        with Server(args.run, ["--precision", args.precision], args.threads) as port:
            for streams in args.streams:
                rates, ratios = [], []
                for number in range(args.rounds + 1):  # the first does not count
                    seconds, rows = asyncio.run(served(port, lines, streams))
                    start = encoded(args, one, out)
                    whole = encoded(args, args.lines, out) - start
                    if b"".join(rows) != rows_of(out):
                        sys.exit("the vectors differ")
                    if number:
                        rates.append((len(lines) / seconds, len(lines) / whole))
                        ratios.append(whole / seconds)
                print(f"{args.precision} streams={streams} served={statistics.median(r[0] for r in rates):.1f} lines/s "
                      f"encode={statistics.median(r[1] for r in rates):.1f} lines/s ratio={statistics.median(ratios):.2f} "
                      f"({min(ratios):.2f} to {max(ratios):.2f})", flush=True)


if __name__ == "__main__":
    main()
