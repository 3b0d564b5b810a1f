"""The decoder language model of lithe in plain PyTorch: the independent reference for values and gradients.

Written from the specification (rows, weights W [in, out], y = xW + b), for reading and checking, not for
speed. A configuration is the `model` section of a recipe with every default that matters here spelt out in
`options()`; parameter names are those of lithe's checkpoints. Needs torch.

    from decoder import Decoder, loss, adamw_step
    model = Decoder({"hidden_size": 16, "num_hidden_layers": 2, "vocab_size": 40, ...})
    nll = loss(model(tokens, offsets), labels, label_smoothing=0.0)

Run as a program it checks itself against worked examples of the specification:

    python tools/oracles/decoder.py
"""
import math

import torch
import torch.nn.functional as F


def options(config):
    """The options of a `model` section, flat, with lithe's defaults filled in."""
    mixer, norm, ffn = config["mixer"], config.get("norm", {}), config["ffn"]
    position, heads = config.get("position", {"type": "none"}), mixer.get("heads", {"type": "mha"})
    h = mixer["num_attention_heads"]
    kv = {"mha": h, "mqa": 1}.get(heads["type"]) or heads["num_key_value_heads"]
    return {
        "D": config["hidden_size"],
        "L": config["num_hidden_layers"],
        "V": config["vocab_size"],
        "h": h,
        "kv": kv,
        "dh": config["hidden_size"] // h,
        "bias_qkv": mixer.get("attention_bias", False),
        "bias_o": mixer.get("output_bias", False),
        "position": position["type"],
        "max_position": config.get("max_position_embeddings", 0),
        "base": position.get("base", 10000.0),
        "position_offset": position.get("offset", 1),  # textbook: sinusoidal positions start at 1
        "ffn": ffn["type"],
        "d_ff": ffn["intermediate_size"],
        "norm": norm.get("type", "layer"),
        "eps": norm.get("eps", 1e-5),
        "eps_mode": norm.get("eps_mode", "sigma"),
        "residual": config.get("residual", {}).get("type", "pre"),
        "tied": config.get("tie_word_embeddings", True),
    }


def parameter_shapes(config):
    """Name -> shape of every parameter, in the order of the forward pass."""
    o = options(config)
    D, V, d_ff = o["D"], o["V"], o["d_ff"]
    shapes = {"embedding.weight": (V, D)}

    def linear(name, inputs, outputs, bias):
        shapes[name + ".weight"] = (inputs, outputs)
        if bias:
            shapes[name + ".bias"] = (outputs,)

    def norm(name):
        shapes[name + ".weight"] = (D,)
        if o["norm"] == "layer":
            shapes[name + ".bias"] = (D,)

    if o["position"] == "learned":
        shapes["position.weight"] = (o["max_position"], D)
    for i in range(o["L"]):
        layer = f"layers.{i}."
        norm(layer + "mixer_norm")
        linear(layer + "mixer.heads.q", D, o["h"] * o["dh"], o["bias_qkv"])
        linear(layer + "mixer.heads.k", D, o["kv"] * o["dh"], o["bias_qkv"])
        linear(layer + "mixer.heads.v", D, o["kv"] * o["dh"], o["bias_qkv"])
        linear(layer + "mixer.output", o["h"] * o["dh"], D, o["bias_o"])
        norm(layer + "ffn_norm")
        if o["ffn"] == "swiglu":
            linear(layer + "ffn.gate", D, d_ff, False)
            linear(layer + "ffn.up", D, d_ff, False)
            linear(layer + "ffn.down", d_ff, D, False)
        else:
            linear(layer + "ffn.up", D, d_ff, True)
            linear(layer + "ffn.down", d_ff, D, True)
    if o["residual"] != "post":
        norm("final_norm")
    if not o["tied"]:
        shapes["head.weight"] = (D, V)
    return shapes


def decayed(name):
    """Weight decay acts on matrices (embeddings and learned positions included), not on biases and norms."""
    return not (name.endswith(".bias") or "norm.weight" in name)


def sinusoidal(positions, D, base, dtype):
    """PE(p, 2k) = sin(p / base^(2k/D)), PE(p, 2k+1) = cos(p / base^(2k/D)). positions [T] -> [T, D]"""
    k = torch.arange((D + 1) // 2, dtype=torch.float64)
    angle = positions.double()[:, None] * base ** (-2 * k / D)
    return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1)[:, :D].to(dtype)


def rotate(x, positions, base):
    """Rotary positions, half layout: the pair (c, c + dh/2) turns by p * base^(-2c/dh). x [N, heads, dh]"""
    half = x.shape[-1] // 2
    angle = positions.double()[:, None] * base ** (-torch.arange(half, dtype=torch.float64) / half)
    cos, sin = angle.cos().to(x.dtype)[:, None], angle.sin().to(x.dtype)[:, None]
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1)


def attend(q, k, v, offsets):
    """Causal softmax attention within each sequence. q [N, h, dh], k and v [N, kv, dh] -> [N, h * dh].
    Query head j uses key/value head j // (h / kv)."""
    h, dh = q.shape[1:]
    group = h // k.shape[1]
    k, v = k.repeat_interleave(group, dim=1), v.repeat_interleave(group, dim=1)
    outputs = []
    for begin, end in zip(offsets, offsets[1:]):
        qs, ks, vs = (t[begin:end].transpose(0, 1) for t in (q, k, v))  # [h, T, dh]
        logits = qs @ ks.transpose(1, 2) / math.sqrt(dh)
        hidden = torch.ones(end - begin, end - begin, dtype=torch.bool).triu(1)
        weights = logits.masked_fill(hidden, -math.inf).softmax(dim=-1)
        outputs.append((weights @ vs).transpose(0, 1).flatten(1))
    return torch.cat(outputs)


class Decoder:
    """parameters: name -> tensor (leaf). dropout acts on embeddings and on each sub-layer's output."""

    def __init__(self, config, dtype=torch.float64, dropout=0.0):
        self.options = options(config)
        self.parameters = {n: torch.zeros(s, dtype=dtype) for n, s in parameter_shapes(config).items()}
        self.dropout = dropout
        self.training = True
        self.attend = attend

    def set(self, values):
        """values: name -> tensor."""
        for name, parameter in self.parameters.items():
            self.parameters[name] = values[name].to(parameter.dtype).requires_grad_()

    def linear(self, x, name):
        y = x @ self.parameters[name + ".weight"]
        bias = self.parameters.get(name + ".bias")
        return y if bias is None else y + bias

    def norm(self, x, name):
        o, weight = self.options, self.parameters[name + ".weight"]
        if o["norm"] == "rms":
            return F.rms_norm(x, x.shape[-1:], weight, o["eps"])
        bias = self.parameters[name + ".bias"]
        if o["eps_mode"] == "variance":
            return F.layer_norm(x, x.shape[-1:], weight, bias, o["eps"])
        centred = x - x.mean(dim=-1, keepdim=True)
        sigma = centred.square().mean(dim=-1, keepdim=True).sqrt()
        return weight * centred / (sigma + o["eps"]) + bias

    def mixer(self, x, layer, positions, offsets):
        o = self.options
        q = self.linear(x, layer + "mixer.heads.q").unflatten(-1, (o["h"], o["dh"]))
        k = self.linear(x, layer + "mixer.heads.k").unflatten(-1, (o["kv"], o["dh"]))
        v = self.linear(x, layer + "mixer.heads.v").unflatten(-1, (o["kv"], o["dh"]))
        if o["position"] == "rotary":
            q, k = rotate(q, positions, o["base"]), rotate(k, positions, o["base"])
        return self.linear(self.attend(q, k, v, offsets), layer + "mixer.output")

    def ffn(self, x, layer):
        up = self.linear(x, layer + "ffn.up")
        if self.options["ffn"] == "swiglu":
            inner = F.silu(self.linear(x, layer + "ffn.gate")) * up
        else:
            inner = {"relu": F.relu, "gelu": F.gelu}[self.options["ffn"]](up)
        return self.linear(inner, layer + "ffn.down")

    def sublayer(self, x, norm, function):
        residual = self.options["residual"]
        if residual == "pre":
            return x + self.drop(function(self.norm(x, norm)))
        if residual == "post":
            return self.norm(x + self.drop(function(x)), norm)
        if residual == "res_post":
            return x + self.drop(self.norm(function(x), norm))
        raise ValueError(f"unknown residual {residual}")

    def drop(self, x):
        return F.dropout(x, self.dropout, self.training) if self.dropout else x

    def __call__(self, tokens, offsets):
        """tokens [N]: the rows of all sequences one after another; offsets: their starts, and N. -> logits [N, V]"""
        o, p = self.options, self.parameters
        lengths = [end - begin for begin, end in zip(offsets, offsets[1:])]
        positions = torch.cat([torch.arange(n) for n in lengths])
        x = p["embedding.weight"][tokens]
        if o["position"] == "sinusoidal":
            x = x + sinusoidal(positions + o["position_offset"], o["D"], o["base"], x.dtype)
        elif o["position"] == "learned":
            x = x + p["position.weight"][positions]
        x = self.drop(x)
        for i in range(o["L"]):
            layer = f"layers.{i}."
            x = self.sublayer(x, layer + "mixer_norm", lambda y: self.mixer(y, layer, positions, offsets))
            x = self.sublayer(x, layer + "ffn_norm", lambda y: self.ffn(y, layer))
        if o["residual"] != "post":
            x = self.norm(x, "final_norm")
        return x @ (p["embedding.weight"].t() if o["tied"] else p["head.weight"])


def loss(logits, labels, label_smoothing=0.0):
    """Mean over the labelled rows (label >= 0) of -sum_v q_v log p_v, q = (1 - s) onehot + s / V."""
    labelled = labels >= 0
    log_p = logits[labelled].log_softmax(dim=-1)
    nll = -log_p.gather(1, labels[labelled][:, None]).squeeze(1)
    return ((1 - label_smoothing) * nll - label_smoothing * log_p.mean(dim=-1)).mean()


def clip(gradients, max_norm):
    """Scales all gradients (name -> tensor) so that their common l2 norm is at most max_norm; returns the norm before."""
    norm = math.sqrt(sum(float(g.double().square().sum()) for g in gradients.values()))
    scale = min(1.0, max_norm / norm)
    for g in gradients.values():
        g.mul_(scale)
    return norm


def adamw_step(parameters, gradients, state, step, lr, betas, eps, weight_decay):
    """One step (counted from 1) of AdamW with decoupled decay; state: name -> (m, v), filled in when empty."""
    with torch.no_grad():
        for name, p in parameters.items():
            g = gradients[name]
            if name not in state:
                state[name] = (torch.zeros_like(p), torch.zeros_like(p))
            m, v = state[name]
            m.mul_(betas[0]).add_((1 - betas[0]) * g)
            v.mul_(betas[1]).add_((1 - betas[1]) * g * g)
            update = (m / (1 - betas[0] ** step)) / ((v / (1 - betas[1] ** step)).sqrt() + eps)
            if weight_decay and decayed(name):
                update = update + weight_decay * p
            p.sub_(lr * update)


def check():
    """Worked examples of the specification."""
    def close(a, b, tolerance=1e-6):
        error = (torch.as_tensor(a).double() - torch.tensor(b, dtype=torch.float64)).abs().max().item()
        assert error < tolerance, (a, b)

    close(sinusoidal(torch.tensor([1, 2]), 4, 10000.0, torch.float64),
          [[0.841471, 0.540302, 0.010000, 0.999950], [0.909297, -0.416147, 0.019999, 0.999800]])

    # mask.causal: Eq 6.47 with scaled logits given; keys and queries chosen so that q k^T / sqrt(dh) equals them
    logits = torch.tensor([[2, .1, 1, 1], [0, .9, .9, .9], [.2, .8, .7, 2], [.3, 1, .3, 3]], dtype=torch.float64)
    eye = torch.eye(4, dtype=torch.float64)
    weights = attend(2 * logits[:, None], eye[:, None], eye[:, None], [0, 4])
    close(weights, [[1, 0, 0, 0], [0.289050, 0.710950, 0, 0], [0.223672, 0.407556, 0.368772, 0],
                    [0.052928, 0.106585, 0.052928, 0.787559]])

    config = {"hidden_size": 4, "num_hidden_layers": 1, "vocab_size": 7, "ffn": {"type": "relu", "intermediate_size": 8},
              "mixer": {"num_attention_heads": 2}, "norm": {"type": "layer", "eps": 0.1}}
    model = Decoder(config)
    weight, bias = torch.ones(3, dtype=torch.float64), torch.zeros(3, dtype=torch.float64)
    model.parameters |= {"n.weight": weight, "n.bias": bias}
    close(model.norm(torch.tensor([[1., 1, 2], [3, 1, 7]], dtype=torch.float64), "n"),
          [[-0.583358, -0.583358, 1.166716], [-0.256960, -1.027840, 1.284800]])
    model.options["eps_mode"] = "variance"
    close(model.norm(torch.tensor([[1., 1, 2]], dtype=torch.float64), "n"), [[-0.587220, -0.587220, 1.174440]])

    # rotation: norm preserved, q_i . k_j depends on i - j only, position 0 is the identity
    x = torch.randn(2, 1, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    turned = [rotate(x, torch.tensor([5 + s, 2 + s]), 10000.0) for s in (0, 3)]
    close(turned[0][0, 0] @ turned[0][1, 0], (turned[1][0, 0] @ turned[1][1, 0]).item(), 1e-12)
    close(turned[0].norm(dim=-1), x.norm(dim=-1).tolist(), 1e-12)
    close(rotate(x, torch.tensor([0, 0]), 10000.0), x.tolist(), 1e-15)

    close(loss(torch.zeros(3, 7), torch.tensor([1, -1, 4]), 0.1), math.log(7))
    # arch.decoder_only: 3,150,336 parameters per layer of width 512 without embeddings and final norm
    config = {"hidden_size": 512, "num_hidden_layers": 6, "vocab_size": 10, "residual": {"type": "post"},
              "ffn": {"type": "relu", "intermediate_size": 2048}, "mixer": {"num_attention_heads": 8}}
    count = sum(math.prod(s) for n, s in parameter_shapes(config).items() if n != "embedding.weight")
    assert count == 18902016, count
    print("decoder.py: all checks hold")


if __name__ == "__main__":
    check()
