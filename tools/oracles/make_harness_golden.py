"""Golden values of the evaluation harness: what it asks of a model for small tasks, and the scores it makes of answers.

    pip install lm_eval        (made with lm_eval 0.4.13)
    python3 tools/oracles/make_harness_golden.py tests/golden/harness.json

Each task has its YAML, its documents by split, the requests (context and continuation, or context alone) in the harness's
order, and the scores when the log-likelihood of a request is -(c mod 10000) / 100 - 0.01 and it is greedy where c mod 3 is
0, with c = crc32(context + NUL + continuation). Tasks with answers have the scores of these, by metric and filter.
"""
import json
import math
import os
import pathlib
import random
import sys
import tempfile
import zlib
from collections import Counter

os.environ.setdefault("HF_DATASETS_OFFLINE", "1")
os.environ["DISABLE_MULTIPROC"] = "1"
os.environ["HF_DATASETS_CACHE"] = tempfile.mkdtemp()
import yaml
from lm_eval.api.metrics import bootstrap_stderr, stderr_for_metric
from lm_eval.api.task import ConfigurableTask

rng = random.Random(3)
WORDS = "sky sea people hill it's “blue” a\tb naïve 漢字 42 True and none".split(" ")


def words(least, most):
    return " ".join(rng.choice(WORDS) for _ in range(rng.randint(least, most)))


def pairs(count):
    return [{"q": words(2, 6), "passage": words(3, 8), "label": rng.random() < 0.5, "extra": None, "score": rng.random(),
             "n": rng.randrange(100), "tags": [words(1, 1) for _ in range(rng.randrange(4))]} for _ in range(count)]


def letters(count):
    return [{"question": " " + words(2, 6) + " ", "subject": "high_school", "choices": [words(1, 3) for _ in range(4)],
             "answer": rng.randrange(4)} for _ in range(count)]


def arc(count):
    out = []
    for _ in range(count):
        labels = list(rng.choice(["ABCD", "1234"]))
        out.append({"question": words(3, 7), "choices": {"text": [words(1, 4) + str(i) for i in range(4)], "label": labels},
                    "answerKey": rng.choice(labels)})
    return out


def blanks(count):
    return [{"sentence": words(2, 4) + " _ " + words(1, 3), "option1": words(1, 1), "option2": words(1, 2),
             "answer": rng.choice("12")} for _ in range(count)]


METRICS = ["acc", "acc_norm", "acc_bytes", "acc_mutual_info", "exact_match", "f1", "mcc"]
MC = "output_type: multiple_choice\n"
TASKS = {
    "boolean": (MC + """description: "Read {{n}}.\\n\\n"
doc_to_text: "{{passage}}\\nQuestion: {{q}}?\\nAnswer:"
doc_to_choice: ["no", "yes {{q}}"]
doc_to_target: label
test_split: test
""" + "metric_list:\n" + "".join(f"  - metric: {m}\n" for m in METRICS), {"test": pairs(12)}),
    "shots": (MC + """training_split: train
test_split: test
doc_to_text: "{{passage}} {{q}}:\\n"
doc_to_choice: "{{['no', 'yes']}}"
doc_to_target: "{{label|int}}"
num_fewshot: 5
metric_list: [{metric: brier_score}, {metric: acc}, {metric: mcc, aggregation: matthews_corrcoef}]
""", {"train": pairs(30), "test": pairs(6)}),
    "same_split": (MC + """validation_split: test
test_split: test
fewshot_split: test
doc_to_text: q
doc_to_choice: {a: "no", b: "yes"}
doc_to_target: "{{'yes' if label else 'no'}}"
target_delimiter: " -> "
fewshot_delimiter: "\\n###\\n"
num_fewshot: 3
""", {"test": (lambda p: p + p[:3])(pairs(9))}),
    "many": (MC + """training_split: train
test_split: test
doc_to_text: "{{q}}"
doc_to_choice: "{{[passage, q]}}"
doc_to_target: 0
num_fewshot: 2
""", {"train": pairs(150), "test": pairs(5)}),
    "letters": (MC + """test_split: test
fewshot_split: dev
fewshot_config:
  sampler: first_n
description: "About {{subject|replace('_', ' ')}}.\\n\\n"
doc_to_text: "{{question.strip()}}\\nA. {{choices[0]}}\\nB. {{choices[1]}}\\nC. {{choices[2]}}\\nD. {{choices[3]}}\\nAnswer:"
doc_to_choice: ["A", "B", "C", "D"]
doc_to_target: answer
num_fewshot: 3
metric_list:
  - metric: acc
    aggregation: mean
    higher_is_better: true
""", {"dev": letters(5), "test": letters(6)}),
    "arc": (MC + """training_split: train
test_split: test
doc_to_text: "Question: {{question}}\\nAnswer:"
doc_to_target: "{{choices.label.index(answerKey)}}"
doc_to_choice: "{{choices.text}}"
num_fewshot: 1
filter_list:
  - name: first
    filter:
      - function: take_first
""", {"train": arc(8), "test": arc(7)}),
    "blanks": (MC + """training_split: train
validation_split: test
doc_to_text: "{% if answer == '1' %}0{% else %}1{% endif %}"
doc_to_choice: "{% set at = sentence.index('_') %}{{[sentence[:at] + option1, sentence[:at] + option2]}}"
doc_to_target: "{% set at = sentence.index('_') + 1 %}{{sentence[at:].strip()}}"
num_fewshot: 2
""", {"train": blanks(9), "test": blanks(6)}),
    "several": (MC + """test_split: test
doc_to_text: q
doc_to_choice: options
doc_to_target: right
metric_list: [{metric: acc}, {metric: exact_match}, {metric: acc_norm}]
""", {"test": [{"q": words(2, 4), "options": [words(1, 2) + str(i) for i in range(3)],
                "right": rng.sample(range(3), rng.randint(1, 2))} for _ in range(8)]}),
    "prefix": (MC + """test_split: test
fewshot_config:
  samples:
    - {q: "first thing", label: true, passage: "one"}
    - {q: "second\\n", label: false, passage: "two"}
  doc_to_text: "Given {{q}}"
gen_prefix: "So, {{passage}}"
doc_to_text: "Q: {{q}}"
doc_to_choice: ["no", "yes"]
doc_to_target: label
num_fewshot: 2
""", {"test": pairs(5)}),
    "values": (MC + """test_split: test
doc_to_text: >-
  {# a comment #}{{tags}} {{label}} {{extra}} {{ score }} {{ n / 4 }} {{ n // 4 }} {{tags|length}} {{tags[-1] if tags else
  'no tag'}} {%- for t in tags if t != 'sea' %} [{{loop.index}}/{{loop.length}}: {{t|upper}}]{% else %} none{% endfor -%}
  {{ q.split(' ')[1:3] }} {{ q[:3] ~ n }} {{ 'x' in q and n > 50 }} {{ {'a': [1, 2.50, "it's"]} }}
  {{ passage|replace('sea', 'SEA')|capitalize }} {% if extra is none %}None{% elif n is defined %}n{% endif %}
  {{ tags|join(', ') }} {{ [n, 'a"b'] }} {{ -n % 7 }} {{ 2 ** 3 }} {{ passage.title() }} {{ "%s" if false else q.count('e') }}
doc_to_choice: "{{['a', 'b\\\\'c', \\"d\\"]}}"
doc_to_target: "{{n % 3}}"
""", {"test": pairs(8)}),
    "follow": ("""output_type: loglikelihood
training_split: train
test_split: test
doc_to_text: "{{passage}}\\n\\t"
doc_to_target: "{{q}}"
num_fewshot: 1
""", {"train": pairs(6), "test": pairs(5)}),
    "written": ("""output_type: generate_until
training_split: train
test_split: test
doc_to_text: "Q: {{q}}\\nA:"
doc_to_target: " {{passage}}"
gen_prefix: "I say"
num_fewshot: 2
generation_kwargs: {max_gen_toks: 4}
""", {"train": pairs(6), "test": pairs(4)}),
}

WRITTEN = "output_type: generate_until\ntest_split: test\ndoc_to_text: q\n"
LETTER = """    filter:
      - function: multi_choice_regex
        regex_pattern: '(\\([A-Z]\\))'
        group_select: 0
        ignore_case: true
        ignore_punctuation: true
      - function: take_first
"""


def questions(targets, **more):
    return [{"q": words(2, 5), "a": target} | {k: v[i] for k, v in more.items()} for i, target in enumerate(targets)]


# Text, documents, and what a model wrote of each.
ANSWERED = {
    "numbers": (WRITTEN + """doc_to_target: "{{a}}"
metric_list:
  - metric: exact_match
    aggregation: mean
    higher_is_better: true
    ignore_case: true
    ignore_punctuation: false
    regexes_to_ignore: [",", "\\\\$", "(?s).*#### ", "\\\\.$"]
filter_list:
  - name: strict-match
    filter: [{function: regex, regex_pattern: "#### (\\\\-?[0-9\\\\.\\\\,]+)"}, {function: take_first}]
  - name: flexible-extract
    filter: [{function: regex, group_select: -1, regex_pattern: "(-?[$0-9.,]{2,})|(-?[0-9]+)"}, {function: take_first}]
""", questions(["So 3+4\n#### 7", "#### 1,234", "#### -2.5", "x #### 10.", "#### $42", "#### 0"]),
                [["7 it is\n#### 7"], ["It is $1234."], ["#### -2.5 or #### 3"], ["#### 10,0"], ["of 42"], ["none"]]),
    "letters_found": (WRITTEN + """doc_to_target: "{{['(A)', '(B)', '(C)', '(D)'][a]}}"
metric_list: [{metric: exact_match, aggregation: mean, higher_is_better: true, ignore_case: true, ignore_punctuation: true}]
filter_list:
  - name: get-answer
""" + LETTER, questions([1, 0, 2, 3, 1, 0, 2, 1], choices=[["Guilty", "Guilty of Romance", "it's “so”", "x"]] * 8),
                      [["so (B), (C)"], ["guilty, of course"], ["well its so"], ["the answer: D"], ["GUILTY OF ROMANCE."], ["the answer: E"],
                       ["(C) or (A)"], ["b"]]),
    "lookbehind": (WRITTEN + """doc_to_target: "{{['A', 'B', 'C', 'D'][a-1]}}"
metric_list: [{metric: exact_match, ignore_case: true, ignore_punctuation: true}]
filter_list:
  - name: get-answer
    filter: [{function: regex, regex_pattern: "(?<=정답은)\\\\s*[(]?(A|B|C|D)[)]?.*(?=입니다.)"}, {function: take_first}]
""", questions([1, 2, 3, 4]), [["정답은 (A) 입니다."], ["정답은B입니다!"], ["정답은 c입니다."], ["D"]]),
    "mapped": (WRITTEN + """doc_to_target: "{{a}}"
metric_list: [{metric: exact_match}]
filter_list:
  - name: first
    filter:
      - {function: regex, regex_pattern: "(\\\\b[ABCD]\\\\b)"}
      - {function: take_first}
      - {function: map, mapping_dict: {A: zero, B: one}, default_value: other}
      - {function: take_first}
  - name: whole
    filter:
      - {function: remove_whitespace}
      - {function: map, mapping_dict: {A: zero, "B.": one}, default_value: other}
      - {function: take_first}
""", questions(["zero", "one", "other", "one"]), [["it is A"], ["B."], ["AB"], ["\tB.\n"]]),
    "translated": (WRITTEN + """doc_to_target: a
metric_list: [{metric: bleu}, {metric: chrf}, {metric: chrf++}, {metric: ter, aggregation: ter, higher_is_better: false}]
""", questions([words(4, 12) for _ in range(7)]), [[words(3, 12)] for _ in range(7)]),
    "several_right": (WRITTEN + """doc_to_target: rights
metric_list: [{metric: exact_match, ignore_case: true, ignore_punctuation: true, ignore_numbers: true}]
filter_list: [{name: trimmed, filter: [{function: remove_whitespace}, {function: take_first}]}]
""", questions([0] * 5, rights=[["the sea", "Sea"], ["it's 5"], ["a", "b", "c"], ["42"], ["naïve"]]),
                      [[" SEA! "], ["its"], ["d"], ["7"], ["NAÏVE."]]),
    "votes": (WRITTEN + """doc_to_target: "{{a}}"
repeats: 5
filter_list:
  - {name: score-first, filter: [{function: take_first}]}
  - {name: maj, filter: [{function: lowercase}, {function: majority_vote}, {function: take_first}]}
  - {name: maj@3, filter: [{function: take_first_k, k: 3}, {function: uppercase}, {function: lowercase}, {function: majority_vote}]}
  - {name: all, filter: [{function: remove_whitespace}]}
""", questions(["a", "b", "7"]), [["a", "b", "B", "b", "a"], ["c", "B", "b ", "b", "b"], ["7", "8", "9", "9", " 7"]]),
}


def quick_f1(items):
    both, either = sum(a == b == 1 for a, b in items), sum(a for a, _ in items) + sum(b for _, b in items)
    return 2 * both / either if either else 0.0


def quick_mcc(items):
    n, hits = len(items), sum(a == b for a, b in items)
    a, b = Counter(a for a, _ in items), Counter(b for _, b in items)
    below = (n * n - sum(c * c for c in a.values())) * (n * n - sum(c * c for c in b.values()))
    return (hits * n - sum(c * b[k] for k, c in a.items())) / math.sqrt(below) if below else 0.0


def errors(task, values):
    """As evaluator_utils has them, by metric; scikit-learn would take an hour for 100,000 draws."""
    out = {}
    for metric, all in values.items():
        few = metric.split(",")[0] in ("bleu", "chrf", "chrf++", "ter")
        if metric in ("f1", "mcc"):
            quick, rng = {"f1": quick_f1, "mcc": quick_mcc}[metric], random.Random(7)
            for _ in range(300):
                drawn = rng.choices(all, k=len(all))
                assert abs(quick(drawn) - task.aggregation()[metric](drawn)) < 1e-12, drawn
            out[metric] = float(bootstrap_stderr(quick, all, 100000))
            continue
        error = stderr_for_metric(task.aggregation()[metric.split(",")[0]], 100 if few else 100000)
        if error:
            out[metric] = float(error(all))
    return out


def answered(name, text, documents, answers):
    with tempfile.TemporaryDirectory() as directory:
        path = pathlib.Path(directory) / "test.jsonl"
        path.write_text("".join(json.dumps(d) + "\n" for d in documents))
        task = ConfigurableTask(config=dict(yaml.safe_load(text), task=name, dataset_path="json", dataset_kwargs={"data_files": {"test": str(path)}}))
        task.set_fewshot_seed(1234)
        task.build_all_requests()
        for instance in task.instances:
            instance.resps = list(answers[instance.doc_id])
        task.apply_filters()
        values = {}
        for instance in task.instances:
            for key in instance.filtered_resps:
                for metric, value in task.process_results(instance.doc, [instance.filtered_resps[key]]).items():
                    values.setdefault(f"{metric},{key}", []).append(value)
        scores = {metric: float(task.aggregation()[metric.split(",")[0]](all)) for metric, all in values.items()}
        return {"yaml": text, "splits": {"test": documents}, "answers": answers, "scores": scores, "errors": errors(task, values)}


def run(name, text, splits):
    with tempfile.TemporaryDirectory() as directory:
        files = {}
        for split, documents in splits.items():
            files[split] = str(pathlib.Path(directory) / f"{split}.jsonl")
            pathlib.Path(files[split]).write_text("".join(json.dumps(d) + "\n" for d in documents))
        config = yaml.safe_load(text)
        task = ConfigurableTask(config=dict(config, task=name, dataset_path="json", dataset_kwargs={"data_files": files}))
        task.set_fewshot_seed(1234)
        task.build_all_requests()
        requests, scores, wrong = [], {}, {}
        for instance in task.instances:
            arguments = list(instance.args[:2] if instance.request_type == "loglikelihood" else instance.args[:1])
            requests.append(arguments)
            if instance.request_type != "loglikelihood":
                continue
            code = zlib.crc32("\0".join(arguments).encode())
            instance.resps.append((-(code % 10000) / 100 - 0.01, code % 3 == 0))
        if config["output_type"] != "generate_until":
            task.apply_filters()
            key = task._filters[0].name
            by_document = {}
            for instance in task.instances:
                by_document.setdefault(instance.doc_id, []).append(instance)
            values = {}
            for instances in by_document.values():
                instances.sort(key=lambda i: i.idx)
                for metric, value in task.process_results(instances[0].doc, [i.filtered_resps[key] for i in instances]).items():
                    values.setdefault(metric, []).append(value)
            scores = {metric: float(task.aggregation()[metric](all)) for metric, all in values.items()}
            wrong = errors(task, values)
        return {"yaml": text, "splits": splits, "requests": requests, "scores": scores, "errors": wrong}


if __name__ == "__main__":
    golden = {name: run(name, *given) for name, given in TASKS.items()}
    golden |= {name: answered(name, *given) for name, given in ANSWERED.items()}
    text = json.dumps(golden, ensure_ascii=False, separators=(",", ":"))
    pathlib.Path(sys.argv[1]).write_text(text.replace('}],"requests"', '}],\n"requests"') + "\n")
    for name, one in golden.items():
        print(name, len(one.get("requests", [])), one["scores"])
