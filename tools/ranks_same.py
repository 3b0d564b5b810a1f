#!/usr/bin/env python3
"""One SHA-256 of the final weights for every number of ranks, and after kills.

  tools/ranks_same.py [--ranks 1,2,3,4,8] [--kills 200] [--seed 1] [--lithe build/release/bin/lithe] [--only NAME,NAME]
      Trains nine small models that differ as much as possible with each number of ranks. Then, until so many ranks were
      killed (SIGKILL, at a random time), trains one of them again, kills a random rank, and resumes with another number.
      Fails at the first run with other weights. Needs mpirun and the plug-in liblithe-mpi.so beside the program.
"""
import argparse
import glob
import hashlib
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

ATTENTION = "model.mixer={type: attention, num_attention_heads: 4}"
MODELS = {
    "attention": [ATTENTION, "model.hidden_dropout=0.1"],
    "sharded_states": [ATTENTION, "train.parallel={optimizer_states: sharded}", "model.ffn=geglu"],
    "sharded_weights": [ATTENTION, "train.parallel={optimizer_states: sharded, weights: sharded}", "train.gradient_checkpointing=true"],
    "experts": [ATTENTION, "model.ffn={type: moe, num_experts: 4, num_experts_per_tok: 2}"],
    "mhe_hadamard": ["model.mixer={type: attention, num_attention_heads: 4, heads: mhe_mul, output: hadamard}", "model.position=rotary"],
    "retention_bf16": ["model.mixer={type: retention, num_attention_heads: 4}", "train.precision=bf16"],
    "selective_ssm": ["model.mixer=selective_ssm", "train.optimizer_states=int8"],
    "lstm": ["model.mixer=lstm", "model.residual=post"],
    "masked_encoder": [ATTENTION, "model.architecture=encoder", "model.head=mlm", "train.objective=mlm", "data.tokenizer={type: wordpiece, vocab_size: 600}"],
}


class Runs:
    def __init__(self, lithe, directory):
        self.lithe, self.directory = os.path.realpath(lithe), directory
        text = os.path.join(directory, "text.txt")
        with open(text, "w") as out:
            for page in sorted(glob.glob("docs/*.md"))[:12]:
                with open(page) as file:
                    out.write(file.read())
        self.recipe = os.path.join(directory, "recipe.yaml")
        with open(self.recipe, "w") as out:
            out.write(f"model: {{hidden_size: 32, num_hidden_layers: 3}}\n"
                      f"data: {{files: [{text}], documents: paragraph, validation_fraction: 0.05, sequence_length: 64, cache_directory: {directory}/cache}}\n"
                      f"train: {{max_steps: 24, batch_tokens: 2048, gradient_accumulation_steps: 8, learning_rate: 0.003, eval_steps: 12, save_steps: 4, logging_steps: 6}}\n")
        self.environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", OMPI_MCA_mpi_yield_when_idle="1",
                                OMPI_MCA_btl_vader_single_copy_mechanism="none", OMPI_MCA_btl="self,vader", OMP_NUM_THREADS="1")

    def begin(self, name, ranks, out, *more):
        words = [self.lithe, "train", self.recipe, "--out", out, "--threads", "1", *more]
        for setting in MODELS[name]:
            words += ["--set", setting]
        if ranks > 1:
            words = ["mpirun", "--oversubscribe", "--bind-to", "none", "-n", str(ranks), *words]
        return subprocess.Popen(words, env=self.environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)

    def finish(self, name, ranks, out, *more):
        job = self.begin(name, ranks, out, *more)
        told = job.communicate()[1]
        if job.returncode:
            sys.exit(f"{name} on {ranks} ranks ends with exit code {job.returncode}: {told[-1500:]}")
        return self.sum_of(out)

    def sum_of(self, out):
        with open(os.path.join(out, "model.safetensors"), "rb") as file:
            return hashlib.sha256(file.read()).hexdigest()

    def processes(self, job):
        """The ranks of a job that mpirun started; the job itself where it is one process."""
        out = []
        for entry in os.listdir("/proc"):
            try:
                if entry.isdigit() and os.readlink(f"/proc/{entry}/exe") == self.lithe:
                    with open(f"/proc/{entry}/stat") as file:
                        parent = int(file.read().rsplit(")", 1)[1].split()[1])
                    if job.pid in (int(entry), parent):
                        out.append(int(entry))
            except (OSError, ValueError):
                continue
        return out


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", default="1,2,3,4,8")
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--lithe", default="build/release/bin/lithe")
    parser.add_argument("--only", default=",".join(MODELS))
    args = parser.parse_args()
    counts, names = [int(n) for n in args.ranks.split(",")], args.only.split(",")
    directory = tempfile.mkdtemp(prefix="lithe_ranks_")
    try:
        runs = Runs(args.lithe, directory)
        sums, seconds, allowed = {}, {}, {}
        for name in names:
            # With sharded weights all ranks run the same layers together.
            allowed[name] = [n for n in counts if name != "sharded_weights" or 8 % n == 0]
            for ranks in allowed[name]:
                begin = time.time()
                found = runs.finish(name, ranks, os.path.join(directory, "run"), "--overwrite")
                seconds[name, ranks] = time.time() - begin
                if sums.setdefault(name, found) != found:
                    sys.exit(f"{name}: {ranks} ranks have other weights than {counts[0]}: {found}, {sums[name]}")
            print(f"{name}: {sums[name][:16]} on {', '.join(map(str, allowed[name]))} ranks", flush=True)
        draw, kills, rounds = random.Random(args.seed), 0, 0
        while kills < args.kills:
            name, out = draw.choice(names), os.path.join(directory, "killed")
            shutil.rmtree(out, ignore_errors=True)
            finished = False
            for _ in range(draw.randint(1, 5)):
                ranks = draw.choice(allowed[name])
                job = runs.begin(name, ranks, out, "--resume", "auto")
                time.sleep(draw.uniform(0.2, 1.0) * seconds[name, ranks])
                found = runs.processes(job)
                if found:
                    try:
                        os.kill(draw.choice(sorted(found)), signal.SIGKILL)
                        kills += 1
                    except ProcessLookupError:  # it had just ended
                        pass
                begin = time.time()
                job.communicate()
                if time.time() - begin > 5 and found:
                    sys.exit(f"{name}: a dead one of {ranks} ranks ends the job after {time.time() - begin:.1f} s")
                finished = job.returncode == 0
                if finished:
                    break
            ranks = draw.choice(allowed[name])
            if (runs.sum_of(out) if finished else runs.finish(name, ranks, out, "--resume", "auto")) != sums[name]:
                sys.exit(f"{name}: other weights after kills, at last on {ranks} ranks")
            rounds += 1
        print(f"{kills} kills in {rounds} runs, all with the same weights")
    finally:
        shutil.rmtree(directory, ignore_errors=True)


main()
