"""Adapters between lithe and PEFT, both ways: python3 tools/oracles/peft_adapters.py [LITHE]. Needs torch, transformers, peft.

Trains small models of two architectures with lithe. An adapter that lithe trained is loaded by PEFT onto the exported base and
compared with the exported merged model; an adapter that PEFT saved is read by lithe and compared with PEFT's merged model.
"""
import os
import shutil
import subprocess
import sys
import tempfile

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import AutoModelForCausalLM

LITHE = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else "build/release/bin/lithe")
MODELS = {
    "llama": "position: rotary, norm: rms, mixer: {type: attention, num_attention_heads: 4}, "
             "ffn: {type: swiglu, intermediate_size: 96}",
    "gpt2": "position: learned, norm: {type: layer, eps_mode: variance}, mixer: {type: attention, num_attention_heads: 4, "
            "attention_bias: true, output_bias: true}, ffn: {type: gelu, approximate: tanh, intermediate_size: 128, bias: true}",
}
TARGETS = {"llama": ["q_proj", "v_proj", "down_proj"], "gpt2": ["c_attn", "c_fc"]}


def lithe(*arguments):
    return subprocess.run([LITHE, *arguments], check=True, capture_output=True, text=True).stdout


def logits(model):
    with torch.no_grad():
        return model.eval()(torch.tensor([list(b"the people of")])).logits


def difference(a, b):
    return (logits(a) - logits(b)).abs().max().item()


os.chdir(tempfile.mkdtemp())
with open("my.txt", "w") as f:
    f.write("the people of the land went up\n" * 200)
for name, parts in MODELS.items():
    data = "data: {files: [my.txt], documents: line, tokenizer: {type: bytes}, sequence_length: 64}\n"
    with open("base.yaml", "w") as f:
        f.write(f"model: {{hidden_size: 64, num_hidden_layers: 2, {parts}}}\n{data}train: {{max_steps: 10, batch_tokens: 512}}\n")
    with open("tune.yaml", "w") as f:
        f.write(f"from_pretrained: {name}\n{data.replace(', tokenizer: {type: bytes}', '')}"
                "train: {max_steps: 20, batch_tokens: 512, learning_rate: 1.0e-2, adapters: {type: lora, rank: 4, "
                'targets: ["*.heads.q.weight", "*.heads.v.weight", "*.ffn.down.weight"]}}\n')
    lithe("train", "base.yaml", "--out", name)
    lithe("export", name, "--out", f"{name}-hf")
    lithe("train", "tune.yaml", "--out", f"{name}-tuned")
    lithe("export", f"{name}-tuned", "--adapter", "--out", f"{name}-tuned-peft")
    lithe("export", f"{name}-tuned", "--out", f"{name}-tuned-hf")
    base = lambda: AutoModelForCausalLM.from_pretrained(f"{name}-hf")
    merged = AutoModelForCausalLM.from_pretrained(f"{name}-tuned-hf")
    ours = difference(PeftModel.from_pretrained(base(), f"{name}-tuned-peft"), merged)
    print(f"{name}: lithe's adapter in PEFT against the merged model {ours:.1e}; the base alone {difference(base(), merged):.1e}")

    tuned = get_peft_model(base(), LoraConfig(r=4, lora_alpha=8, target_modules=TARGETS[name], task_type="CAUSAL_LM",
                                              fan_in_fan_out=name == "gpt2"))
    for parameter, value in tuned.named_parameters():
        if "lora_" in parameter:
            torch.nn.init.normal_(value, std=0.3)
    tuned.save_pretrained(f"{name}-peft")
    lithe("import", f"{name}-peft", "--base", name, "--out", f"{name}-adapter")
    tuned.merge_and_unload().save_pretrained(f"{name}-merged-hf")
    for file in os.listdir(f"{name}-hf"):
        if "token" in file:
            shutil.copy(f"{name}-hf/{file}", f"{name}-merged-hf")
    lithe("import", f"{name}-merged-hf", "--out", f"{name}-merged")
    texts = [lithe("generate", run, "--prompt", "the peo", "--max-new-tokens", "40", "--greedy", *more)
             for run, more in ((name, ["--adapter", f"{name}-adapter"]), (f"{name}-merged", []))]
    print(f"{name}: PEFT's adapter in lithe {'writes' if texts[0] == texts[1] else 'DOES NOT WRITE'} what the merged model does")
