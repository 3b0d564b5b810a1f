"""Models of lithe for EleutherAI's lm-evaluation-harness.

Importing this module registers the model "lithe":

    import lm_eval
    import lithe.lm_eval

    lm_eval.simple_evaluate(model="lithe", model_args={"pretrained": "runs/first"}, tasks=["arc_easy"])

Scores are those of `lithe eval --tasks`, to the digit.
"""

from __future__ import annotations

from . import _lithe

try:
    from lm_eval import utils
    from lm_eval.api.model import TemplateLM
    from lm_eval.api.registry import register_model
except ImportError as error:
    raise ImportError("lithe.lm_eval needs the evaluation harness: pip install lm-eval") from error


@register_model("lithe")
class LitheLM(TemplateLM):
    """A model that lithe.load() reads.

    pretrained: a run, a directory of the Hugging Face format, or a GGUF file. precision, weights: as of lithe.load().
    add_bos_token: texts begin with the tokenizer's bos, or eos; default: the recipe's generate.add_bos_token.
    batch_tokens: tokens computed at once; does not change the results. max_gen_toks: the longest answer, where a task
    says nothing.
    """

    def __init__(
        self,
        pretrained: str,
        precision: str = "f32",
        weights: str = "",
        add_bos_token: bool | None = None,
        batch_tokens: int = 2048,
        max_gen_toks: int = 256,
        threads: int | None = None,
        batch_size: int | str | None = None,
        max_batch_size: int | None = None,
        device: str | None = None,
        **unknown: object,
    ) -> None:
        super().__init__()
        if unknown:
            raise TypeError(f"lithe takes no model argument {', '.join(sorted(unknown))}")
        if threads:
            _lithe.set_threads(int(threads))
        self.model = _lithe.load(pretrained, precision=precision, weights=weights)
        recipe = self.model.recipe
        self.add_bos_token = recipe["generate"]["add_bos_token"] if add_bos_token is None else add_bos_token
        self.batch_tokens = int(batch_tokens)
        self.max_gen_toks = int(max_gen_toks)
        self.batch_size = batch_size or 1

    @property
    def eot_token_id(self) -> int:
        tokenizer = self.model.tokenizer
        return self.prefix_token_id if tokenizer.eos_token_id is None else tokenizer.eos_token_id

    @property
    def prefix_token_id(self) -> int:
        tokenizer = self.model.tokenizer
        start = tokenizer.eos_token_id if tokenizer.bos_token_id is None else tokenizer.bos_token_id
        if start is None:
            raise _lithe.Error("the tokenizer has no token to begin a text with (bos or eos)")
        return start

    @property
    def device(self) -> str:
        return "cpu"

    @property
    def max_length(self) -> int:
        return self.model.config["max_position_embeddings"]

    @property
    def tokenizer_name(self) -> str:
        return self.model.path.replace("/", "__")

    def tok_encode(self, string: str, add_special_tokens: bool | None = None, **kwargs: object) -> list[int]:
        return self.model.tokenizer.encode(string)

    def tok_decode(self, tokens: list[int], **kwargs: object) -> str:
        return self.model.tokenizer.decode(tokens)

    def apply_chat_template(self, chat_history: list[dict[str, str]], add_generation_prompt: bool = True) -> str:
        return self.model.chat_prompt(chat_history)

    def chat_template(self, chat_template: bool | str = False) -> str | None:
        return "the model's own" if chat_template else None

    def _cut(self, context: list[int], continuation: list[int]) -> tuple[list[int], list[int]]:
        """What the model can read: the last token is only predicted, and the beginning of a long context goes."""
        excess = len(context) + len(continuation) - (self.max_length + 1)
        if excess >= len(context):
            raise _lithe.Error(
                f"a target of {len(continuation)} tokens is longer than the model's {self.max_length} positions"
            )
        return context[max(0, excess):], continuation

    def _loglikelihood_tokens(self, requests, disable_tqdm: bool = False, **kwargs) -> list[tuple[float, bool]]:
        pairs = []
        for (context, _), context_ids, continuation_ids in requests:
            # Behind no context, or one of white space alone, the prefix stands already, or must.
            begins = bool(self.add_bos_token) and context != ""
            ids = [self.prefix_token_id] if begins or not context_ids else []
            pairs.append(self._cut(ids + context_ids, continuation_ids))
        scores = self.model.score_ids(pairs, batch_tokens=self.batch_tokens)
        answers = [(score.log_likelihood, score.greedy) for score in scores]
        for (key, _, _), answer in zip(requests, answers):
            self.cache_hook.add_partial("loglikelihood", key, answer)
        return answers

    def loglikelihood_rolling(self, requests, disable_tqdm: bool = False) -> list[float]:
        out = []
        for (text,) in [request.args for request in requests]:
            windows = map(
                utils.make_disjoint_window,
                utils.get_rolling_token_windows(
                    token_list=self.tok_encode(text),
                    prefix_token=self.prefix_token_id,
                    max_seq_len=self.max_length,
                    context_len=1,
                ),
            )
            scores = self.model.score_ids(list(windows), batch_tokens=self.batch_tokens)
            out.append(sum(score.log_likelihood for score in scores))
            self.cache_hook.add_partial("loglikelihood_rolling", (text,), out[-1])
        return out

    def generate_until(self, requests, disable_tqdm: bool = False) -> list[str]:
        groups: dict[str, list[int]] = {}
        for i, request in enumerate(requests):
            groups.setdefault(repr(request.args[1]), []).append(i)
        out = [""] * len(requests)
        for members in groups.values():
            settings = self._generation(dict(requests[members[0]].args[1]))
            most = self.max_length - settings["max_new_tokens"]
            if most <= 0:
                raise _lithe.Error(
                    f"max_gen_toks {settings['max_new_tokens']} leaves nothing of the model's {self.max_length} "
                    "positions for a text; lower it"
                )
            prompts = []
            for i in members:
                text = requests[i].args[0]
                start = [self.prefix_token_id] if self.add_bos_token or not text else []
                prompts.append((start + self.tok_encode(text))[-most:])
            for i, result in zip(members, self.model.generate(prompts, **settings)):
                out[i] = result.text
                self.cache_hook.add_partial("generate_until", requests[i].args, result.text)
        return out

    def _generation(self, given: dict) -> dict:
        """The keys of a task's generation_kwargs as settings of Model.generate()."""
        until = given.pop("until", None) or []
        temperature = float(given.pop("temperature", 0.0) or 0.0)
        sample = bool(given.pop("do_sample", temperature > 0)) and temperature > 0
        settings = {
            "stop": [text for text in ([until] if isinstance(until, str) else until) if text],
            "max_new_tokens": int(given.pop("max_gen_toks", given.pop("max_new_tokens", self.max_gen_toks))),
            "do_sample": sample,
            "repetition_penalty": 1.0,
            # What the run's recipe says for texts that people read is not the harness's business.
            "exit": "",
            "early_stop": False,
            "cache_type": "",
            "use_cache": True,
            "samples": 1,
        }
        if sample:
            settings["temperature"] = temperature
        for key in ("top_k", "top_p", "min_p", "seed", "repetition_penalty"):
            if key in given:
                settings[key] = given.pop(key)
        if given:
            raise _lithe.Error(f"lithe has no generation_kwargs {', '.join(sorted(given))}")
        return settings
