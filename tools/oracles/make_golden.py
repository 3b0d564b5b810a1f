"""Writes tests/golden/decoder_*.json: losses, logits, gradients and ten AdamW steps of tiny decoders in PyTorch.

    python tools/oracles/make_golden.py            # rewrites the files
    python tools/oracles/make_golden.py --check    # compares with the files instead, to 1e-9 relative (f64 values)

Nothing in a file needs another file: weights follow a formula both sides compute. With c = CRC-32 of the parameter's
name (UTF-8) and i the row-major index of an element, both exact integers,
    s(i) = sin(0.37 i + 0.01 i^2 + 0.011 (c mod 1000))          evaluated in double, then cast to the dtype
    norm weights 1 + 0.05 s, biases 0.05 s, all other parameters 0.25 s
(the square keeps matrices from having rank two). Keys of a file:

    config            the model section of a recipe; vocab_size beside it
    formula           the numbers above
    tokens, labels    [N]; a label -1 is none;  offsets [B + 1]
    label_smoothing
    initial           per parameter: shape, l2, first (up to 8 elements), all f64: a check of the formula
    loss              {f64, f32}
    logits            {rows, values: [rows][V]} f64
    gradients         per parameter: l2, sum, first, f64, of the mean loss before clipping
    gradient_norm     of all parameters together
    optimiser         lr, betas, eps, weight_decay (decoupled; matrices, embeddings and learned positions only), clip
                      (gradients times min(1, clip / norm))
    steps             {f64, f32}: losses [11] before each of the ten steps and after them, norms [10] of the gradients before
                      clipping, parameters after ten steps: per name l2 and first

f32 values are PyTorch's, whose order of summation is its own: they show how far f32 may stray, the f64 values are
the truth. Element-wise f32 comparison after ten steps of Adam needs that: gradients near 0 amplify rounding.
"""
import argparse
import json
import math
import sys
import zlib
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parent))
import decoder

FORMULA = {"linear": 0.37, "square": 0.01, "name": 0.011, "matrix": 0.25, "norm": 0.05, "bias": 0.05,
           "text": "s(i) = sin(linear*i + square*i*i + name*(crc32(name) mod 1000)); norm weights 1 + norm*s, "
                   "biases bias*s, others matrix*s"}
OPTIMISER = {"type": "adamw", "lr": 1e-2, "betas": [0.9, 0.95], "eps": 1e-8, "weight_decay": 0.1, "clip": 1.0}
STEPS = 10


def model(name, D, V, position, heads, ffn, norm, residual, tied, layers=2, bias=False):
    mixer = {"type": "attention", "num_attention_heads": 4, "heads": heads, "output": {"type": "dense"}}
    if bias:
        mixer["attention_bias"] = mixer["output_bias"] = True
    return name, {"architecture": "decoder", "hidden_size": D, "num_hidden_layers": layers, "vocab_size": V,
                  "max_position_embeddings": 14 if position == LEARNED else 16, "position": position, "mixer": mixer,
                  "ffn": ffn, "norm": norm, "residual": {"type": residual}, "tie_word_embeddings": tied}


SINUSOIDAL, ROTARY, NONE = {"type": "sinusoidal"}, {"type": "rotary"}, {"type": "none"}
LEARNED = {"type": "learned"}
SIGMA = {"type": "layer", "eps_mode": "sigma", "eps": 1e-5}
VARIANCE = {"type": "layer", "eps_mode": "variance", "eps": 1e-5}
RMS = {"type": "rms", "eps": 1e-5}


def ffn(kind, size):
    return {"type": kind, "intermediate_size": size}


def heads(kind, kv=None):
    return {"type": kind} | ({"num_key_value_heads": kv} if kv else {})


# One line each: every option at least once, each position, head form, ffn, norm and residual in several company.
# Biases of q, k, v only with rotary positions: without them the key bias has gradient 0 up to rounding, which Adam
# would magnify to full steps.
CASES = [
    # name, model, lengths of sequences, label smoothing, rows without label
    (*model("sinusoidal_mha_relu_sigma_pre_tied", 16, 40, SINUSOIDAL, heads("mha"), ffn("relu", 40), SIGMA, "pre", True),
     [7, 1, 12], 0.0, []),
    (*model("learned_mha_gelu_variance_post_untied", 16, 40, LEARNED, heads("mha"), ffn("gelu", 40), VARIANCE, "post", False),
     [5, 14, 2], 0.0, [4, 5]),
    (*model("rotary_gqa_swiglu_rms_pre_tied", 16, 41, ROTARY, heads("gqa", 2), ffn("swiglu", 36), RMS, "pre", True),
     [7, 1, 12], 0.0, []),
    (*model("none_mqa_relu_sigma_res_post_untied", 16, 37, NONE, heads("mqa"), ffn("relu", 40), SIGMA, "res_post", False),
     [9, 3, 8], 0.1, [11]),
    (*model("rotary_mha_gelu_variance_pre_tied_bias", 24, 40, ROTARY, heads("mha"), ffn("gelu", 44), VARIANCE, "pre", True,
            bias=True), [1, 13, 6], 0.0, []),
    (*model("sinusoidal_gqa_swiglu_rms_post_untied", 24, 43, SINUSOIDAL, heads("gqa", 2), ffn("swiglu", 36), RMS, "post", False),
     [12, 4, 5], 0.0, []),
    (*model("learned_mqa_swiglu_sigma_res_post_tied", 16, 40, LEARNED, heads("mqa"), ffn("swiglu", 30), SIGMA, "res_post", True),
     [2, 11, 8], 0.0, [0, 20]),
    (*model("none_gqa_gelu_rms_pre_untied", 24, 40, NONE, heads("gqa", 1), ffn("gelu", 40), RMS, "pre", False),
     [3, 3, 15], 0.0, []),
]


def initial_value(name, shape, dtype):
    i = torch.arange(math.prod(shape), dtype=torch.float64)
    phase = FORMULA["linear"] * i + FORMULA["square"] * (i * i) + FORMULA["name"] * (zlib.crc32(name.encode()) % 1000)
    # math.sin: the C library's, which is correct to the last bit or two for large phases too
    s = torch.tensor([math.sin(x) for x in phase.tolist()], dtype=torch.float64)
    if name.endswith("norm.weight"):
        s = 1 + FORMULA["norm"] * s
    else:
        s = (FORMULA["bias"] if name.endswith(".bias") else FORMULA["matrix"]) * s
    return s.reshape(shape).to(dtype)


def summary(x, total=False):
    x = x.detach().double().flatten()
    return {"l2": x.norm().item()} | ({"sum": x.sum().item()} if total else {}) | {"first": x[:8].tolist()}


def make(name, config, lengths, label_smoothing, unlabelled):
    n, V = sum(lengths), config["vocab_size"]
    tokens = [(7 * i * i + 5 * i + 3) % V for i in range(n)]
    labels = [-1 if i in unlabelled else (11 * i * i + 3 * i + 8) % V for i in range(n)]
    offsets = [sum(lengths[:i]) for i in range(len(lengths) + 1)]
    shapes = decoder.parameter_shapes(config)
    out = {"name": name, "config": config, "formula": FORMULA, "tokens": tokens, "labels": labels, "offsets": offsets,
           "label_smoothing": label_smoothing, "optimiser": OPTIMISER, "loss": {}, "steps": {}}
    for dtype, key in ((torch.float64, "f64"), (torch.float32, "f32")):
        m = decoder.Decoder(config, dtype)
        m.set({p: initial_value(p, shape, dtype) for p, shape in shapes.items()})
        if key == "f64":
            out["initial"] = {p: {"shape": list(shapes[p])} | summary(v) for p, v in m.parameters.items()}

        def evaluate():
            logits = m(torch.tensor(tokens), offsets)
            return logits, decoder.loss(logits, torch.tensor(labels), label_smoothing)

        state, losses, norms = {}, [], []
        for step in range(1, STEPS + 1):
            logits, loss = evaluate()
            gradients = dict(zip(m.parameters, torch.autograd.grad(loss, list(m.parameters.values()))))
            losses.append(loss.item())
            if step == 1:
                out["loss"][key] = loss.item()
                if key == "f64":
                    chosen = [lengths[0] - 1, n - 1]
                    out["logits"] = {"rows": chosen, "values": [logits[r].tolist() for r in chosen]}
                    out["gradients"] = {p: summary(g, total=True) for p, g in gradients.items()}
            norms.append(decoder.clip(gradients, OPTIMISER["clip"]))
            decoder.adamw_step(m.parameters, gradients, state, step, OPTIMISER["lr"], OPTIMISER["betas"], OPTIMISER["eps"],
                               OPTIMISER["weight_decay"])
        losses.append(evaluate()[1].item())
        out["steps"][key] = {"losses": losses, "gradient_norms": norms,
                             "parameters": {p: summary(v) for p, v in m.parameters.items()}}
    out["gradient_norm"] = out["steps"]["f64"]["gradient_norms"][0]
    return out


def text(golden):
    """JSON with one line per parameter."""
    def lines(value, depth):
        if isinstance(value, dict) and depth < 4 and any(isinstance(v, dict) for v in value.values()):
            pad = " " * (depth + 1)
            inner = ",\n".join(f"{pad}{json.dumps(k)}: {lines(v, depth + 1)}" for k, v in value.items())
            return "{\n" + inner + "\n" + " " * depth + "}"
        return json.dumps(value)
    return lines(golden, 0) + "\n"


def differences(a, b, path=""):
    """Paths at which a and b differ by more than 1e-9 relative (f32 values: 1e-4) or 1e-12 absolute (1e-7)."""
    if isinstance(a, dict) and isinstance(b, dict) and a.keys() == b.keys():
        return [d for k in a for d in differences(a[k], b[k], f"{path}.{k}")]
    if isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        return [d for i, (x, y) in enumerate(zip(a, b)) for d in differences(x, y, f"{path}[{i}]")]
    if isinstance(a, float) and isinstance(b, float):
        relative, absolute = (1e-4, 1e-6) if ".f32" in path else (1e-9, 1e-12)
        return [] if abs(a - b) <= absolute + relative * abs(b) else [f"{path}: {a} against {b}"]
    return [] if a == b else [f"{path}: {a} against {b}"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path(__file__).parents[2] / "tests" / "golden")
    parser.add_argument("--check", action="store_true")
    a = parser.parse_args()
    torch.set_num_threads(1)
    wrong = []
    for case in CASES:
        golden = make(*case)
        path = a.out / f"decoder_{golden['name']}.json"
        if a.check:
            wrong += [f"{path.name}{d}" for d in differences(json.loads(text(golden)), json.loads(path.read_text()))]
        else:
            path.write_text(text(golden))
        print(f"{path.name}: loss {golden['loss']['f64']:.12f}, after {STEPS} steps {golden['steps']['f64']['losses'][-1]:.12f}")
    if wrong:
        sys.exit("\n".join(wrong))


if __name__ == "__main__":
    main()
