"""What bench/encoder_bench.cpp does with BERT-base, for the peers of bench/peers/encode.sh."""
TOKENS, BATCHES = 128, (1, 16)


def encoding(mode, weights, batch, run):
    """A case of turns.py: run() encodes a batch."""
    return f"mode={mode} dtype={weights} batch={batch} count={batch}", run
