# The same weights and sentences in CTranslate2: converts a run of lithe (Transformer with sinusoidal positions, pre-norm,
# relu, shared embeddings, heads mha) and times its translation.
#   python3 ct2_translate.py convert RUN DIRECTORY
#   python3 ct2_translate.py DIRECTORY TOKENS f32|int8 FEW MANY
#   python3 ct2_translate.py DIRECTORY TOKENS f32|int8 answers BATCH BEAMS ANSWERS
# The second runs the cases of bench/translate_bench.cpp as turns.py asks. The third writes the translations' ids to a file.
# CT2_WORKERS batches run at once (1), each on CT2_THREADS threads (2).
# TOKENS: the sentences as ids of the run's tokenizer, one line each (tokenisation is not part of the time).
import json, math, os, sys
import ctranslate2, numpy as np
from ctranslate2.specs import common_spec, transformer_spec
from safetensors.numpy import load_file
from turns import take_turns


def convert(run, out):
    config = json.load(open(os.path.join(run, "config.json")))
    weights = load_file(os.path.join(run, "model.safetensors"))
    heads, layers, d = config["mixer"]["num_attention_heads"], config["num_hidden_layers"], config["hidden_size"]
    assert config["residual"]["type"] == "pre" and config["norm"]["eps_mode"] == "variance", "not this kind of model"
    spec = transformer_spec.TransformerSpec.from_config((layers, layers), heads, pre_norm=True,
                                                       activation=common_spec.Activation.RELU)
    at = lambda name: np.ascontiguousarray(weights[name])
    linear = lambda name: np.ascontiguousarray(weights[name].T)  # lithe keeps [in, out]

    def norm(to, name):
        to.gamma, to.beta = at(name + ".weight"), at(name + ".bias")

    def fused(to, names):
        to.weight = np.concatenate([linear(n) for n in names])
        to.bias = np.zeros(to.weight.shape[0], np.float32)

    def dense(to, name, bias=None):
        to.weight = linear(name)
        to.bias = at(bias) if bias else np.zeros(to.weight.shape[0], np.float32)

    positions = np.zeros((config["max_position_embeddings"], d), np.float32)
    options = config["position"]
    for p in range(positions.shape[0]):
        for c in range(d):
            angle = (p + options["offset"]) / options["base"] ** (2 * (c // 2) / d)
            positions[p, c] = math.sin(angle) if c % 2 == 0 else math.cos(angle)
    for side, stack in (("encoder", spec.encoder), ("decoder", spec.decoder)):
        embeddings = stack.embeddings[0] if side == "encoder" else stack.embeddings
        embeddings.weight = at("embedding.weight")
        stack.scale_embeddings = True
        stack.position_encodings.encodings = positions
        norm(stack.layer_norm, side + ".final_norm")
        for i, layer in enumerate(stack.layer):
            path = f"{side}.layers.{i}."
            heads_of = lambda which, name: f"{path}{which}.heads.{name}.weight"
            norm(layer.self_attention.layer_norm, path + "mixer_norm")
            fused(layer.self_attention.linear[0], [heads_of("mixer", n) for n in "qkv"])
            dense(layer.self_attention.linear[1], path + "mixer.output.weight")
            if side == "decoder":
                norm(layer.attention.layer_norm, path + "cross_norm")
                dense(layer.attention.linear[0], heads_of("cross", "q"))
                fused(layer.attention.linear[1], [heads_of("cross", n) for n in "kv"])
                dense(layer.attention.linear[2], path + "cross.output.weight")
            norm(layer.ffn.layer_norm, path + "ffn_norm")
            dense(layer.ffn.linear_0, path + "ffn.up.weight", path + "ffn.up.bias")
            dense(layer.ffn.linear_1, path + "ffn.down.weight", path + "ffn.down.bias")
    spec.decoder.projection.weight = at("embedding.weight")
    vocabulary = [str(i) for i in range(config["vocab_size"])]
    roles = json.load(open(os.path.join(run, "generation_config.json")))
    for side in ("source", "target"):
        getattr(spec, f"register_{side}_vocabulary")(vocabulary)
    eos = str(roles["eos_token_id"])
    spec.config.bos_token = spec.config.decoder_start_token = str(roles.get("bos_token_id", eos))
    spec.config.eos_token, spec.config.unk_token = eos, eos
    spec.config.layer_norm_epsilon = config["norm"].get("eps", 1e-5)
    spec.config.add_source_bos, spec.config.add_source_eos = False, True
    spec.validate()
    spec.optimize()
    os.makedirs(out, exist_ok=True)
    spec.save(out)


def main():
    if sys.argv[1] == "convert":
        return convert(*sys.argv[2:4])
    directory, tokens, weights = sys.argv[1:4]
    lines = [line.split() for line in open(tokens)]
    workers, threads = int(os.environ.get("CT2_WORKERS", "1")), int(os.environ.get("CT2_THREADS", "2"))
    translator = ctranslate2.Translator(directory, compute_type={"f32": "float32", "int8": "int8"}[weights],
                                        inter_threads=workers, intra_threads=threads)
    translate = lambda of, batch, beams: translator.translate_batch(
        of, beam_size=beams, max_batch_size=batch, length_penalty=0.6, max_decoding_length=128)
    if sys.argv[4] == "answers":
        results = translate(lines, int(sys.argv[5]), int(sys.argv[6]))
        return open(sys.argv[7], "w").writelines(" ".join(r.hypotheses[0]) + "\n" for r in results)
    mode = f"CTranslate2-{workers}x{threads}"
    take_turns(f"CTranslate2 {ctranslate2.__version__}", [
        (f"weights={weights} mode={mode} batch={batch} beams={beams} count={len(lines[:most])}",
         lambda of=lines[:most], batch=batch, beams=beams: translate(of, batch, beams))
        for batch, most in ((1, int(sys.argv[4])), (32, int(sys.argv[5]))) for beams in (1, 4)
        if workers == 1 or batch > 1])


main()
