"""Stock tasks of the evaluation harness (lm_eval 0.4.13) by `lithe eval --tasks` and by the harness, on the same run: the same
YAML files but for the paths of their data, which are made up here, and whether every digit is the same, with 0 and 5 examples.

    python3 bench/peers/harness_stock.py [RUN [TASK ...]]      a Python with lm_eval[api] and transformers; LITHE_BINARY: lithe

RUN: a run that `lithe export` writes for transformers, whose model takes some 4,000 positions; without it a small one is
trained on sentences like answers. The harness asks `lithe serve` for likelihoods and answers. Without tasks: some of each
kind. The documents have the fields that a task's templates read, with odd contents: quotes, white space, other scripts,
numbers as text. Ends with 1 where a number differs.
"""
import argparse
import json
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import time

os.environ.update(HF_HUB_OFFLINE="1", HF_DATASETS_OFFLINE="1", DISABLE_MULTIPROC="1", TOKENIZERS_PARALLELISM="false", TQDM_DISABLE="1",
                  HF_DATASETS_CACHE=tempfile.mkdtemp())
import jinja2
import yaml
from jinja2 import nodes

import lm_eval
from lm_eval.models.openai_completions import LocalCompletionsAPI
from lm_eval.tasks import TaskManager

STOCK = pathlib.Path(lm_eval.__file__).parent / "tasks"
LITHE = os.environ.get("LITHE_BINARY", str(pathlib.Path(__file__).resolve().parents[2] / "build/release/bin/lithe"))
TASKS = """
aclue_ancient_chinese_culture acp_areach_bool acp_areach_mcq afridiacritics_bbj_prompt_1 afrimgsm_amh_prompt_1 anli_r1
arc_challenge arc_challenge_chat asdiv_cot_llama babi bangla_commonsenseqa bbh_cot_fewshot_boolean_expressions
bbh_zeroshot_boolean_expressions belebele_acm_Arab bigbench_abstract_narrative_understanding_generate_until
blimp_adjunct_island boolq ceval-valid_accountant cola commonsense_qa ethics_cm evalita-mp_at_prompt-1
french_bench_grammar gsm8k gsm8k_cot haerae_general_knowledge headqa_en kmmlu_cot_hard_accounting lambada_openai
lambada_openai_cloze_yaml logieval mgsm_direct_bn mmlu_abstract_algebra mmlu_abstract_algebra_generative
mmlu_flan_n_shot_generative_abstract_algebra mrpc nq_open openbookqa pile_10k pile_arxiv piqa qnli
sciq social_iqa swag iwslt2017-ar-en triviaqa truthfulqa_mc1 turkishmmlu_biology anagrams1 wic winogender_all wmdp_bio
catalan_bench_flores_ca-de xnli_ar xstorycloze_ca zhoblimp_BA_BEI_subj_drop
noor evalita-mp_at longbench2_incontext med_concepts_qa_atc mela ulut
""".split()


class Function(str):
    pass


class Loader(yaml.CSafeLoader):
    pass


yaml.add_constructor("!function", lambda loader, node: Function(loader.construct_scalar(node)), Loader=Loader)


def load(path, files=None):
    """A task file with what it includes; `files` gathers their paths."""
    if files is not None:
        files.add(path.resolve())
    own = yaml.load(path.read_bytes(), Loader=Loader)
    out, include = {}, own.pop("include", None)
    for one in [include] if isinstance(include, str) else include or []:
        out.update(load(path.parent / one, files))
    out.update(own)
    return out


# ---- what fields a template reads, and of which kind

METHODS = {"strip", "lstrip", "rstrip", "split", "replace", "capitalize", "lower", "upper", "index", "title", "join"}


def merge(a, b):
    if a is None or b is None:
        return b if a is None else a
    if a[0] == b[0] == "map":
        return ("map", {k: merge(a[1].get(k), b[1].get(k)) for k in {**a[1], **b[1]}})
    if a[0] == b[0] == "one":
        return ("one", a[1] + [x for x in b[1] if x not in a[1]])
    order = ["text", "one", "number", "index", "member", "list", "map"]
    return max(a, b, key=lambda kind: order.index(kind[0]))


class Fields(dict):
    def __init__(self):
        self.local = set()

    def need(self, name, kind):
        if name not in self.local:
            self[name] = merge(self.get(name), kind)

    def path(self, node):
        if isinstance(node, nodes.Name):
            return [node.name]
        if isinstance(node, nodes.Getattr):
            return self.path(node.node) + [node.attr]
        if isinstance(node, nodes.Getitem) and isinstance(node.arg, nodes.Const):
            return self.path(node.node) + [node.arg.value]
        return []

    def visit(self, node, kind=None):
        if isinstance(node, nodes.Name):
            self.need(node.name, kind)
        elif isinstance(node, nodes.Getattr):
            self.visit(node.node, ("map", {node.attr: kind}))
        elif isinstance(node, nodes.Getitem):
            if isinstance(node.arg, nodes.Const) and isinstance(node.arg.value, str):
                self.visit(node.node, ("map", {node.arg.value: kind}))
            elif isinstance(node.node, nodes.List):
                self.visit(node.node)
                self.visit(node.arg, ("index", len(node.node.items)))
            elif isinstance(node.arg, nodes.Slice):
                self.visit(node.node, ("text",))
            else:
                split = isinstance(node.node, nodes.Call)
                self.visit(node.node, None if split else ("list", kind))
                self.visit(node.arg, ("index", 4))
        elif isinstance(node, nodes.Call) and isinstance(node.node, nodes.Getattr) and node.node.attr in METHODS:
            of = node.node.node
            if node.node.attr != "index":
                self.visit(of, kind if kind and kind[0] == "one" else ("text",))
            elif isinstance(of, nodes.List):
                self.visit(node.args[0], ("one", [x.value for x in of.items if isinstance(x, nodes.Const)]))
            elif isinstance(of, nodes.Const):
                self.visit(node.args[0], ("one", list(of.value)))
            else:
                self.visit(of, ("list", None))
                self.visit(node.args[0], ("member", self.path(of)))
        elif isinstance(node, nodes.Filter):
            kinds = {"int": ("index", 2), "join": ("list", None), "length": ("list", None), "list": ("list", None)}
            if node.name == "map":
                attribute = {k.key: k.value.value for k in node.kwargs}["attribute"]
                kinds["map"] = ("list", ("map", {attribute: None}))
            self.visit(node.node, kinds.get(node.name, ("text",)))
        elif isinstance(node, nodes.Compare):
            values = [o.expr.value for o in node.ops if isinstance(o.expr, nodes.Const)]
            self.visit(node.expr, ("one", values) if values else None)
        elif isinstance(node, (nodes.Add, nodes.Sub)):
            sides = [s for s in (node.left, node.right) if isinstance(s, nodes.Const)]
            number = any(isinstance(s.value, int) for s in sides)
            for side in (node.left, node.right):
                self.visit(side, ("number",) if number else ("text",))
        elif isinstance(node, nodes.For):
            self.visit(node.iter, ("list", None))
            self.local |= {n.name for n in node.target.find_all(nodes.Name)} | {"loop"}
            if isinstance(node.target, nodes.Name):
                self.local.add(node.target.name)
            for one in node.body:
                self.visit(one)
        elif isinstance(node, nodes.Assign):
            self.visit(node.node)
            self.local.add(node.target.name)
        else:
            if isinstance(node, nodes.Call) and isinstance(node.node, nodes.Name):
                self.local.add(node.node.name)
            for one in node.iter_child_nodes():
                self.visit(one, ("text",) if isinstance(node, nodes.Output) else None)


def fields_of(config):
    fields, environment = Fields(), jinja2.Environment()
    choices, count = config.get("doc_to_choice"), 4
    if isinstance(choices, (list, dict)):
        count = len(choices)
    elif choices and "{{" in choices:
        tree = environment.parse(choices)
        lists = [n for n in tree.find_all(nodes.List)]
        count = len(lists[0].items) if lists and len(list(tree.find_all(nodes.Output))) == 1 else 4
    shots = config.get("fewshot_config") or {}
    for key in ("doc_to_text", "doc_to_choice", "doc_to_target", "description", "gen_prefix"):
        for text in {config.get(key), shots.get(key)} if isinstance(config.get(key), str) else ():
            if not isinstance(text, str) or not text:
                continue
            name = re.fullmatch(r"(\w+)|\{\{ *(\w+) *\}\}", text)
            if not name and key == "doc_to_choice":
                for output in environment.parse(text).find_all(nodes.Output):
                    for one in output.nodes:
                        fields.visit(one, ("list", None))
            elif not name:
                fields.visit(environment.parse(text))
            elif key == "doc_to_choice":
                fields.need(text.strip("{} "), ("list", None))
            elif key == "doc_to_target" and choices is not None:
                fields.need(text.strip("{} "), ("index", count))
            elif name[2] or key not in ("description", "gen_prefix"):
                fields.need(text.strip("{} "), ("text",))
    return fields


# ---- documents

WORDS = "sky sea people hill it's “blue” a\tb naïve 漢字 42 True and none yes No (B) {x} 3.5 İstanbul é _".split(" ")
ANSWERS = ["7", "42", "yes", "no", "A", "B", "C", "D", "(A)", "(B)", "True", "False", "the sea", "sky"]


def words(rng, least=2, most=7):
    text = " ".join(rng.choice(WORDS) for _ in range(rng.randint(least, most)))
    return rng.choice(["", "", "", " ", "\n", '"']) + text + rng.choice(["", "", ".", "?", "\n", '"', " "])


def value(rng, kind, answer=False):
    name = kind[0] if kind else "text"
    if name == "list":
        return [value(rng, kind[1]) + str(i) if not kind[1] or kind[1][0] == "text" else value(rng, kind[1])
                for i in range(4)]
    if name == "map":
        return {key: value(rng, inner) for key, inner in kind[1].items()}
    if name == "index":
        return rng.randrange(kind[1])
    if name == "number":
        return rng.randint(1, 2)
    if name == "one":
        return rng.choice(kind[1])
    if name == "member":
        return kind
    return rng.choice(ANSWERS) if answer and rng.random() < 0.8 else words(rng)


def documents(rng, config, fields, count):
    targets = Fields()
    if isinstance(config.get("doc_to_target"), str) and re.fullmatch(r"\w+|.*\{\{.*", config["doc_to_target"], re.S):
        target = config["doc_to_target"]
        targets.visit(jinja2.Environment().parse(target if "{" in target else "{{" + target + "}}"))
    out = []
    for _ in range(count):
        document = {name: value(rng, kind, name in targets) for name, kind in fields.items()}
        for name, one in document.items():
            if isinstance(one, tuple):  # one of another field's values
                at = document
                for step in one[1]:
                    at = at[step]
                document[name] = rng.choice(at)
        out.append(document)
    return out


# Fields that templates do not show, or of which they show too little.
def five(rng, d):
    d.update(choices={"text": [words(rng) for _ in range(5)], "label": list("ABCDE")}, answerKey=rng.choice("ABCDE"))


def medicine(rng, d):
    d.update({c: words(rng) for c in "ABCDE"}, Correct=rng.choice("ABCDE"))


def labelled(rng, d):
    d.update(choices={"text": [words(rng) for _ in range(4)], "label": list("ABCD")}, answerKey=rng.choice("ABCD"))


OVER = {  # by the beginning of a task's name
    "acp_areach_mcq": labelled,
    "arc_challenge_chat": labelled,
    "commonsense_qa": five,
    "evalita-mp_at": medicine,
    "openbookqa": labelled,
    "boolq": lambda rng, d: d.update(label=rng.randrange(2)),
    "french_bench_grammar": lambda rng, d: d.update({"answer" + c: words(rng) for c in "ABCD"}, answer=rng.choice("ABCD")),
    "mmlu_flan_n_shot_generative_abstract_algebra": lambda rng, d: d.update(choices=["sea", "sky", "the sea", "No"]),
    "nq_open": lambda rng, d: d.update(answer=[rng.choice(ANSWERS) for _ in range(rng.randint(1, 3))]),
    "social_iqa": lambda rng, d: d.update(label=str(rng.randint(1, 3))),
    "turkishmmlu_": lambda rng, d: d.update(choices=[words(rng) for _ in range(5)], answer=rng.choice("ABCDE")),
    "wic": lambda rng, d: d.update({k: rng.randrange(9) for k in ("start1", "end1", "start2", "end2")}, label=rng.randrange(2)),
    "winogender_all": lambda rng, d: d.update(label=rng.randrange(2)),
}


class Index:
    """The files of tasks, groups and tags, by the names in their text."""

    def __init__(self):
        self.tasks, self.groups, self.tags = {}, {}, {}
        for path in sorted(STOCK.glob("**/*.yaml")):
            text = path.read_text()
            name = self.word(text, "group") or self.word(text, "task")
            if name:
                (self.groups if self.word(text, "group") else self.tasks).setdefault(name, path)
            for tag in self.tags_of(path, text):
                self.tags.setdefault(tag, []).append(name)

    def tags_of(self, path, text):
        """A task's own, or else those of the file that it includes."""
        blocks = re.findall(r"^[\"']?tag[\"']?:(.*\n(?:[ -].*\n)*)", text + "\n", re.M)
        found = [t for b in blocks for t in re.findall(r"[^\s\"'\[\],-][^\s\"'\[\],]*", re.sub("#.*", "", b))]
        more = None if found else self.word(text, "include")
        if not more or not (path.parent / more).is_file():
            return found
        return self.tags_of(path.parent / more, (path.parent / more).read_text())

    @staticmethod
    def word(text, key):
        found = re.search(rf"^[\"']?{key}[\"']?: *[\"']?([^\s\"'#]+)", text, re.M)
        return found and found[1]

    def files(self, name, groups):
        """The tasks of a name, and in `groups` the files of groups."""
        if name in self.tasks:
            return {name: self.tasks[name]}
        if name in self.groups:
            groups.add(self.groups[name])
            return self.members(load(self.groups[name]), groups)
        return {n: self.tasks[n] for n in self.tags.get(name, []) if n in self.tasks}

    def members(self, group, groups):
        out = {}
        for one in group["task"]:
            if isinstance(one, dict) and "group" in one and one["group"] not in self.groups:
                out |= self.members(one, groups)
            else:
                out |= self.files(one if isinstance(one, str) else one.get("group") or one["task"], groups)
        return out


def prepare(names, directory, rng):
    """Copies of the files of tasks and groups, data beside them: (name, file, configuration, tasks) of what could be prepared."""
    out, index = [], Index()
    for name in names:
        groups = set()
        tasks = index.files(name, groups)
        copies = {n: prepare_task(n, path, directory, rng) for n, path in tasks.items()}
        if not tasks or None in copies.values():
            print(f"{name}: " + ("needs Python" if tasks else "not among the stock tasks"))
            continue
        for path in groups:
            copy = directory / path.relative_to(STOCK)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(path.read_bytes())
        path = index.groups.get(name) or index.tasks[name]
        out.append((name, directory / path.relative_to(STOCK), copies[sorted(copies)[0]], list(copies)))
    return out


def prepare_task(name, path, directory, rng):
    """The task's configuration, after its file and data are written; none where it needs Python."""
    files = set()
    config = load(path, files)
    if "!function" in str(config) or any(isinstance(v, Function) for v in nested(config)):
        return None
    for one in files:
        copy = directory / one.relative_to(STOCK)
        copy.parent.mkdir(parents=True, exist_ok=True)
        if not copy.exists():  # one that has its data path already may be included, too
            copy.write_bytes(one.read_bytes())
        for code in one.parent.glob("*.py"):  # the harness loads functions of included files even where others replace them
            (copy.parent / code.name).write_bytes(code.read_bytes())
    scored = config.get("test_split") or config.get("validation_split")
    splits = {config.get(k) for k in ("training_split", "validation_split", "test_split", "fewshot_split")}
    splits |= {(config.get("fewshot_config") or {}).get("split")}
    fields, data = fields_of(config), {}
    for split in sorted(filter(None, splits)):
        docs = documents(rng, config, fields, rng.randint(7, 9))
        for one in docs:
            next((more for key, more in OVER.items() if name.startswith(key)), lambda *_: None)(rng, one)
        file = directory / "data" / name / f"{split}.jsonl"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("".join(json.dumps(d, ensure_ascii=False) + "\n" for d in docs))
        data[split] = str(file)
    # The file itself, but for its data path: the keys of the path go, and the last lines say where the data are.
    copy = directory / path.resolve().relative_to(STOCK)
    lines, skip = [], False
    for line in path.read_text().split("\n"):
        if re.match(r"\S", line):
            skip = bool(re.match(r"dataset_(path|name|kwargs):", line))
        if not skip:
            lines.append(line)
    where = {"dataset_path": "json", "dataset_name": None, "dataset_kwargs": {"data_files": data}}
    copy.write_text("\n".join(lines).rstrip("\n") + "\n" + "".join(f"{k}: {json.dumps(v)}\n" for k, v in where.items()))
    return config


def nested(value):
    for one in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield one
        yield from nested(one)


# ---- both sides

class Served(LocalCompletionsAPI):
    """Requests as models of transformers read generation_kwargs."""

    def _create_payload(self, messages, generate=False, gen_kwargs=None, **kwargs):
        if generate:
            gen_kwargs = dict(gen_kwargs)
            gen_kwargs.pop("num_beams", None)
            tokens = gen_kwargs.pop("max_new_tokens", None)
            if tokens:
                gen_kwargs.setdefault("max_gen_toks", tokens)
            if gen_kwargs.get("do_sample") is False:
                gen_kwargs["temperature"] = 0
        return super()._create_payload(messages, generate=generate, gen_kwargs=gen_kwargs, **kwargs)


def given_shots(config, shots):
    """No more than the examples that a task gives itself."""
    samples = (config.get("fewshot_config") or {}).get("samples")
    return min(shots, len(samples)) if samples else shots


def by_lithe(run, tasks, shots):
    results = {}
    for name, path, config, _ in tasks:
        command = [LITHE, "eval", run, "--json", "--threads", "1", "--tasks", str(path)]
        done = subprocess.run(command + (["--num-fewshot", str(given_shots(config, shots))] if shots else []), capture_output=True, text=True)
        results[name] = json.loads(done.stdout)["results"] if done.returncode == 0 else done.stderr.strip().split("\n")[-1]
    return results


def by_harness(url, run, exported, tasks, shots, directory, positions):
    results = {}
    manager = TaskManager(include_path=str(directory), include_defaults=False)
    models = {}
    for name, _, config, _ in tasks:
        rolls = config.get("output_type") == "loglikelihood_rolling"
        if rolls not in models:
            models[rolls] = Served(base_url=url + "/v1/completions", model=pathlib.Path(run).name, tokenizer=str(exported),
                                   tokenizer_backend="huggingface", tokenized_requests=True, add_bos_token=not rolls,
                                   max_length=positions + 1, max_retries=1, num_concurrent=1)
        try:
            done = lm_eval.simple_evaluate(model=models[rolls], tasks=[name], num_fewshot=given_shots(config, shots) or None, task_manager=manager,
                                           bootstrap_iters=1000 if slow(config) else 100000, log_samples=False, verbosity="ERROR")
            results[name] = done["results"]
        except Exception as error:
            results[name] = f"{type(error).__name__}: {error}"[:300]
    return results


def slow(config):
    """scikit-learn's metrics take a millisecond: fewer resamples, whose error is not compared."""
    return any(m["metric"] in ("f1", "mcc") for m in config.get("metric_list") or [] if isinstance(m, dict))


def same(key, a, b):
    """To nine digits; perplexities to six, since sums of likelihoods round as texts stand together."""
    close = 1e-6 if "perplexity" in key or key.startswith("bits") else 1e-9
    return isinstance(a, (int, float)) and isinstance(b, (int, float)) and abs(a - b) <= close * max(1, abs(a), abs(b)) or a == b


def compared(name, shots, ours, theirs):
    if isinstance(ours, str) or isinstance(theirs, str):
        both = isinstance(ours, str) and isinstance(theirs, str)
        print(f"{name:<48} {shots} {'neither' if both else 'DIFFERENT'}: lithe {str(ours)[:170]!r}, harness {str(theirs)[:170]!r}")
        return "neither" if both else "different"
    wrong = 0
    if sorted(ours) != sorted(theirs):
        print(f"{name:<48} {shots} lithe has {sorted(ours)}, harness {sorted(theirs)} DIFFERENT")
        wrong = 1
    for task in sorted(set(ours) & set(theirs)):
        a, b = ours[task], theirs[task]
        keys = sorted(k for k in {**a, **b} if "," in k and not re.match("(f1|mcc)_stderr", k))
        for key in keys:
            if not same(key, a.get(key), b.get(key)):
                print(f"{task:<48} {shots} {key:<34} lithe {a.get(key)!s:<22} harness {b.get(key)!s:<22} DIFFERENT")
                wrong += 1
        if not wrong and task == name:
            print(f"{name:<48} {shots} equal: " + " ".join(f"{k.split(',')[0]}={a[k]:.6g}" for k in keys if "_stderr" not in k))
    return "different" if wrong else "equal"


SENTENCES = ["The answer is {}.", "So the answer is ({}).", "Answer: {}", "#### {}", "{}", "Yes, {} it is.", "The best answer is: {}",
             "The final answer is {}", "the sky is {}.\n"]


def trained(directory):
    """A small run that has learned to answer in a few words, which depend on those of the question."""
    rng = random.Random(5)
    answer = {w: rng.choice(SENTENCES).format(a) for w, a in zip(WORDS, (ANSWERS * 3)[:len(WORDS)])}
    lines = []
    for _ in range(6000):
        question = [rng.choice(WORDS) for _ in range(rng.randint(1, 6))]
        lines.append(" ".join(question) + rng.choice(["\nAnswer:", "\nA:", "?\n", ""]) + " " + answer[question[-1]])
    (directory / "answers.jsonl").write_text("".join(json.dumps({"text": line}, ensure_ascii=False) + "\n" for line in lines))
    (directory / "run.yaml").write_text(f"""
model:
  hidden_size: 64
  num_hidden_layers: 2
  max_position_embeddings: 4096
  position: {{type: rotary}}
  mixer: {{type: attention, num_attention_heads: 4}}
data: {{files: [{directory}/answers.jsonl], tokenizer: {{type: bpe, vocab_size: 500}}, sequence_length: 128}}
train: {{max_steps: 400, batch_tokens: 1024, learning_rate: 5.0e-3}}
""")
    subprocess.run([LITHE, "train", str(directory / "run.yaml"), "--out", str(directory / "run"), "--threads", "1"], check=True,
                   stdout=subprocess.DEVNULL)
    return str(directory / "run")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("run", nargs="?", default="")
    parser.add_argument("tasks", nargs="*")
    parser.add_argument("--shots", type=int, nargs="*", default=[0, 5])
    parser.add_argument("--keep", help="directory of what is written")
    given = parser.parse_args()
    directory = pathlib.Path(given.keep or tempfile.mkdtemp())
    directory.mkdir(parents=True, exist_ok=True)
    run = given.run or trained(directory)
    tasks = prepare(given.tasks or TASKS, directory / "tasks", random.Random(17))
    exported = directory / "exported"
    if not exported.exists():
        subprocess.run([LITHE, "export", run, "--out", str(exported)], check=True, stdout=subprocess.DEVNULL)
    positions = json.loads((pathlib.Path(run) / "config.json").read_text()).get("max_position_embeddings", 2048)
    server = subprocess.Popen([LITHE, "serve", run, "--port", "0", "--threads", "1"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    url = server.stdout.readline().strip()
    counts = {}
    try:
        for shots in given.shots:
            started = time.time()
            ours = by_lithe(run, tasks, shots)
            theirs = by_harness(url, run, exported, tasks, shots, directory / "tasks", positions)
            for name, *_ in tasks:
                what = compared(name, shots, ours[name], theirs[name])
                counts[what] = counts.get(what, 0) + 1
            print(f"{shots} examples: {time.time() - started:.0f} s", file=sys.stderr)
    finally:
        server.terminate()
    print(", ".join(f"{n} {what}" for what, n in sorted(counts.items())))
    return 1 if set(counts) - {"equal"} else 0


if __name__ == "__main__":
    sys.exit(main())
