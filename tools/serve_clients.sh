#!/usr/bin/env bash
# The stock clients against our server: the Python package openai, and the evaluation harness (lm_eval 0.4.13, local-completions
# with ids and with strings, 1 and 8 at once), whose results must be those of `lithe eval --tasks` to the digit.
#   tools/serve_clients.sh RUN [TASK.yaml ...]      RUN: one that lithe export takes
# PYTHON: one with openai, transformers and lm_eval[api]; else nothing is run.
# Tasks are JSON lines with paths below the current directory; without one a small task is written.
set -euo pipefail
root="$(cd "$(dirname "$0")/.." && pwd)"
lithe="${LITHE_BINARY:-$root/build/release/bin/lithe}"
python="${PYTHON:-python3}"
run="${1:?serve_clients.sh RUN [TASK.yaml ...]}"
shift
if ! "$python" -c 'import openai, lm_eval, tenacity, transformers' 2>/dev/null; then
  echo "serve_clients: skipped, since $python lacks openai, transformers or lm_eval[api]"
  exit 0
fi
scratch="$(mktemp -d)"
server=
trap 'if [ -n "$server" ]; then kill "$server" 2>/dev/null || true; fi; rm -rf "$scratch"' EXIT
if [ "$#" -eq 0 ]; then
  for i in $(seq 40); do
    echo "{\"query\": \"And the king number $i went to the\", \"choices\": [\"city $i\", \"xylophone\", \"sea of $((i * 7))\"], \"gold\": $((i % 3))}"
  done > "$scratch/kings.jsonl"
  cat > "$scratch/kings.yaml" <<END
task: kings
dataset_path: json
dataset_kwargs: {data_files: {test: $scratch/kings.jsonl}}
test_split: test
output_type: multiple_choice
doc_to_text: "{{query}}"
doc_to_choice: "{{choices}}"
doc_to_target: gold
metric_list: [{metric: acc}, {metric: acc_norm}]
metadata: {version: 1.0}
END
  set -- "$scratch/kings.yaml"
fi
. "$root/bench/peers/harness_tasks.sh"
harness_tasks "$scratch/tasks" "$@"
"$lithe" export "$run" --out "$scratch/exported" > "$scratch/log" 2>&1 || { tail -1 "$scratch/log" >&2; exit 1; }
"$lithe" eval "$run" "${own[@]}" --json > "$scratch/lithe.json"
"$lithe" serve "$run" --port 0 > "$scratch/url" 2> "$scratch/log" &
server=$!
until [ -s "$scratch/url" ]; do kill -0 "$server"; sleep 0.1; done
url="$(head -1 "$scratch/url")"
name="$(basename "$(cd "$run" && pwd)")"

"$python" - "$url" "$name" <<'END'
import sys
import openai

client = openai.OpenAI(base_url=sys.argv[1] + "/v1", api_key="none", max_retries=0)
model = sys.argv[2]
assert [m.id for m in client.models.list()] == [model]
ask = dict(model=model, prompt="And the king", max_tokens=12, seed=1)
whole = client.completions.create(**ask).choices[0]
streamed = "".join(c.choices[0].text for c in client.completions.create(**ask, stream=True) if c.choices)
assert whole.text == streamed, (whole.text, streamed)
form = {"type": "json_schema", "json_schema": {"name": "x", "strict": True, "schema": {
    "type": "object", "properties": {"n": {"type": "integer", "minimum": 1, "maximum": 9}}, "required": ["n"], "additionalProperties": False}}}
import json
text = client.completions.create(**dict(ask, max_tokens=60), extra_body={"response_format": form}).choices[0].text
assert 1 <= json.loads(text)["n"] <= 9, text
rows = client.embeddings.create(model=model, input=["a king", "a sea"])  # asks for base64
assert len(rows.data) == 2 and len(rows.data[0].embedding) > 1
try:
    client.completions.create(**ask, extra_body={"grammar": "root ::= root"})
    raise SystemExit("a grammar without a text was taken")
except openai.BadRequestError as error:
    assert "never ends" in str(error)
# Several choices, whole and streamed; the fields beside a text that is echoed; what is refused, by its name.
three = client.completions.create(**ask, n=3, logprobs=1)
texts, tokens, counted = {}, {}, None
for chunk in client.completions.create(**ask, n=3, logprobs=1, stream=True, stream_options={"include_usage": True}):
    counted = chunk.usage or counted
    for choice in chunk.choices:
        texts[choice.index] = texts.get(choice.index, "") + choice.text
        tokens.setdefault(choice.index, []).extend(choice.logprobs.tokens)
assert [c.text for c in three.choices] == [texts[i] for i in range(3)]
assert [c.logprobs.tokens for c in three.choices] == [tokens[i] for i in range(3)] and counted == three.usage
echoed = client.completions.create(**ask, echo=True, logprobs=2).choices[0]
fields = echoed.logprobs
assert len(fields.tokens) == len(fields.token_logprobs) == len(fields.top_logprobs) == len(fields.text_offset)
assert all(echoed.text[at:at + len(token)] == token for token, at in zip(fields.tokens, fields.text_offset)), echoed
for start in range(1, len(whole.text) - 3):
    stop = whole.text[start:start + 3]
    assert client.completions.create(**ask, stop=[stop]).choices[0].text == whole.text[:whole.text.index(stop)], stop
for key, value in (("tools", [{"type": "function", "function": {"name": "f", "parameters": {}}}]), ("tool_choice", "auto")):
    try:
        client.completions.create(**ask, extra_body={key: value})
        raise SystemExit(f"{key} was taken")
    except openai.BadRequestError as error:
        assert f"'{key}' is not supported" in str(error)
try:
    client.completions.create(model="nobody", prompt="a")
    raise SystemExit("a model that is not there answered")
except openai.NotFoundError as error:
    assert model in str(error)
print("openai", openai.__version__, "ok")
END

status=0
for form in ids strings; do
  for together in 1 8; do
    # The harness's remote tokenizer leaves out the token that texts of a run begin with, the exported one gives it.
    more="tokenizer_backend=huggingface,tokenizer=$scratch/exported,add_bos_token=True,tokenized_requests=True"
    [ "$form" = ids ] || more="tokenizer_backend=remote,tokenized_requests=False"
    HF_HUB_OFFLINE=1 HF_DATASETS_OFFLINE=1 "$python" -m lm_eval --model local-completions --include_path "$scratch/tasks" \
      --model_args "model=$name,base_url=$url/v1/completions,num_concurrent=$together,max_retries=1,$more" \
      --tasks "$(IFS=,; echo "${names[*]}")" --output_path "$scratch/$form-$together" > "$scratch/lm_eval.log" 2>&1 ||
      { tail -20 "$scratch/lm_eval.log" >&2; status=1; continue; }
    echo "lm_eval with $form, $together at once:"
    python3 "$root/bench/peers/harness.py" "$scratch/lithe.json" "$scratch/$form-$together"/*/results_*.json || status=1
  done
done
exit $status
