"""A loaded model: what it says is what the command line says."""

import json
import os
import pickle
import signal
import threading
import unittest

import kit
import lithe


class Generate(unittest.TestCase):
    def test_texts_are_those_of_the_command_line(self):
        for options, settings in (
            ([], {}),
            (["--greedy"], {"greedy": True}),
            (["--temperature", "0.7", "--top-k", "20", "--top-p", "0.9", "--seed", "3", "--min-p", "0.01",
              "--repetition-penalty", "1.1"],
             {"temperature": 0.7, "top_k": 20, "top_p": 0.9, "seed": 3, "min_p": 0.01, "repetition_penalty": 1.1}),
            (["--stop", "king", "--cache-type", "int8"], {"stop": "king", "cache_type": "int8"}),
            (["--no-cache"], {"use_cache": False}),
            (["--greedy", "--draft", "lookup"], {"greedy": True, "draft": "lookup"}),
        ):
            with self.subTest(options=options):
                lines = kit.run_lithe("generate", kit.run(), "--prompt", "And it", "--prompt", "In the days", "--json",
                                      "--max-new-tokens", "20", *options).splitlines()
                expected = [json.loads(line) for line in lines]
                got = kit.model().generate(["And it", "In the days"], max_new_tokens=20, **settings)
                self.assertEqual([e["text"] for e in expected], [g.text for g in got])
                self.assertEqual([e["finish"] for e in expected], [g.finish for g in got])
                self.assertEqual([e["prompt_tokens"] for e in expected], [g.prompt_tokens for g in got])

    def test_one_text_samples_and_ids(self):
        model = kit.model()
        one = model.generate("And it came", greedy=True)
        self.assertEqual(str(one), one.text)
        self.assertEqual(len(one.tokens), 12)
        self.assertEqual(model.generate(greedy=True).text, one.text)  # the recipe's prompt
        samples = model.generate("And it came", samples=3, seed=5)
        self.assertEqual(len(samples), 3)
        self.assertGreater(len({s.text for s in samples}), 1)
        ids = [model.tokenizer.bos_token_id, *model.tokenizer.encode("And it came")]
        self.assertEqual(model.generate([ids], greedy=True)[0].tokens, one.tokens)

    def test_text_comes_as_it_is_written(self):
        model, pieces = kit.model(), []
        result = model.generate("And it", greedy=True, on_text=lambda i, piece: pieces.append((i, piece)))
        self.assertEqual("".join(piece for _, piece in pieces), result.text)
        ended = model.generate("And it", greedy=True, on_text=lambda i, piece: False)
        self.assertEqual(ended.finish, "cancelled")
        with self.assertRaises(ZeroDivisionError):
            model.generate("And it", on_text=lambda i, piece: 1 / 0)
        # The model may be asked again meanwhile.
        inner = []
        model.generate("And it", max_new_tokens=2, on_text=lambda i, piece: inner.append(model.score("a text").log_likelihood))
        self.assertTrue(inner)

    def test_a_stream_is_the_same_text(self):
        model = kit.model()
        for settings in ({"greedy": True}, {"seed": 9, "top_p": 0.9}, {"greedy": True, "draft": "lookup"}):
            expected = model.generate("And it came", max_new_tokens=30, **settings)
            stream = model.stream("And it came", max_new_tokens=30, **settings)
            pieces = list(stream)
            self.assertEqual("".join(piece.text for piece in pieces), expected.text)
            self.assertEqual([id for piece in pieces for id in piece.tokens], expected.tokens)
            self.assertEqual(stream.result.finish, expected.finish)
        stream = model.stream("And it came")
        next(stream)
        stream.close()
        self.assertEqual(list(stream), [])
        del stream
        model.stream("And it came")  # never read

    def test_what_is_wrong_is_said(self):
        model = kit.model()
        for settings, said in (({"top_k": "many"}, "top_k"), ({"tempratur": 1}, "temperature"),
                               ({"greedy": True, "top_k": 3}, "greedy"), ({"knn_k": 3}, "datastore"),
                               ({"samples": 0}, "num_return_sequences")):
            with self.assertRaisesRegex(lithe.Error, said):
                model.generate("a", **settings)
        for call, said in ((lambda: model.generate([1, 2]), "a prompt must be a str or a list of ids"),
                           (lambda: model.generate("\ud800"), "lone surrogate"),
                           (lambda: model.generate("a", greedy="x"), "greedy must be True or False"),
                           (lambda: model.generate("a", on_text=lambda i, piece: "x"), "what on_text returns must be"),
                           (lambda: model.perplexity(["a", "\ud800"]), "lone surrogate")):
            with self.assertRaisesRegex(TypeError, said):
                call()
        for empty in ("", [], [""]):
            with self.assertRaisesRegex(lithe.Error, "the texts are empty"):
                model.perplexity(empty)
        with self.assertRaisesRegex(lithe.Error, "does not exist"):
            lithe.load(kit.WORK / "nowhere")
        with self.assertRaisesRegex(TypeError, "pickle"):
            pickle.dumps(model)

    def test_texts_have_the_form_that_is_asked_for(self):
        model = kit.model()
        grammar = 'root ::= ("yes" | "no") "!"'
        file = kit.WORK / "answer.gbnf"
        file.write_text(grammar)
        for given in (grammar, file):
            self.assertIn(model.generate("Is it? ", grammar=given).text, ("yes!", "no!"))
        self.assertIn(model.generate([[5, 6]], grammar=grammar)[0].text, ("yes!", "no!"))
        self.assertIn("".join(piece.text for piece in model.stream("Is it? ", grammar=grammar)), ("yes!", "no!"))
        schema = {"enum": ["a", "b"]}
        for given in (schema, json.dumps(schema)):
            self.assertIn(model.generate("x", json_schema=given).text, ('"a"', '"b"'))
        with self.assertRaisesRegex(lithe.Error, "exclude each other"):
            model.generate("x", json_schema=schema, grammar=grammar)
        with self.assertRaisesRegex(lithe.Error, "adapter"):
            model.generate("x", adapter=kit.WORK / "nowhere")

    def test_ctrl_c_ends_a_long_call(self):
        def interrupt(i, piece):
            os.kill(os.getpid(), signal.SIGINT)

        with self.assertRaises(KeyboardInterrupt):
            kit.model().generate("And it", max_new_tokens=50, on_text=interrupt)
        self.assertEqual(len(kit.model().generate("And it", max_new_tokens=3, greedy=True).tokens), 3)

    def test_several_threads_get_what_one_gets(self):
        model = kit.model()
        expected = [model.generate("And it came", seed=seed, max_new_tokens=25).text for seed in range(6)]
        got, errors = [None] * 6, []

        def work(seed):
            try:
                got[seed] = model.generate("And it came", seed=seed, max_new_tokens=25,
                                           on_text=lambda i, piece: True).text
                model.score("And it came to pass")
            except Exception as error:  # noqa: BLE001
                errors.append(error)

        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(errors, [])
        self.assertEqual(got, expected)


class Scores(unittest.TestCase):
    def test_scores_are_those_of_perplexity_and_choices(self):
        model, text = kit.model(), "And it came to pass in the days of king number 7"
        scores = model.score(text)
        self.assertEqual(scores.tokens, model.tokenizer.encode(text))
        self.assertEqual("".join(scores.pieces), text)
        self.assertEqual(scores.log_likelihood, sum(scores.log_probabilities))
        file = kit.WORK / "choices.jsonl"
        file.write_text(json.dumps({"query": "And it came to", "choices": ["pass", "the hill"]}) + "\n")
        expected = json.loads(kit.run_lithe("eval", kit.run(), "--choices", file))
        got = model.score(["And it came to"] * 2, [" pass", " the hill"])
        self.assertEqual([c["log_likelihood"] for c in expected], [g.log_likelihood for g in got])
        self.assertEqual([c["greedy"] for c in expected], [g.greedy for g in got])
        one = model.score("And it came to", " pass")
        self.assertEqual(one.log_likelihood, got[0].log_likelihood)
        ids = model.tokenizer.encode("And it came to")
        pair = ([model.tokenizer.bos_token_id] + ids, model.tokenizer.encode("And it came to pass")[len(ids):])
        self.assertEqual(model.score_ids([pair])[0].log_likelihood, one.log_likelihood)
        with self.assertRaisesRegex(lithe.Error, "token 99999"):
            model.score_ids([([1], [99999])])

    def test_perplexity_is_that_of_the_command_line(self):
        model = kit.model()
        for options, settings in ((["--stride", "32"], {"stride": 32}), ([], {})):
            expected = json.loads(kit.run_lithe("eval", kit.run(), "--json", *options))
            got = model.perplexity(**settings)
            self.assertEqual({k: expected[k] for k in got}, got)
            self.assertEqual(got["stride"], settings.get("stride", got["context_length"]))
            self.assertEqual(model.eval(**settings), got)
        small = kit.WORK / "small.txt"
        small.write_text("And it came to pass.\nIn the valley of the hill")
        expected = json.loads(kit.run_lithe("eval", kit.run(), small, "--json"))
        by_file, by_text = model.perplexity(files=small), model.perplexity(small.read_text())
        self.assertEqual(by_file["loss"], expected["loss"])
        self.assertEqual(by_file["loss"], by_text["loss"])


class Properties(unittest.TestCase):
    def test_what_a_model_says_of_itself(self):
        model = kit.model()
        self.assertEqual(model.architecture, "decoder")
        self.assertEqual(model.config["hidden_size"], 32)
        self.assertEqual(model.recipe["train"]["max_steps"], 30)
        self.assertEqual(model.num_parameters, lithe.plan(
            kit.run() / "resolved_recipe.yaml", set={"data.tokenizer.vocab_size": model.tokenizer.vocab_size},
            speed=False)["parameters"])
        self.assertIn("lithe.Model", repr(model))

    def test_the_tokenizer(self):
        tokenizer, text = kit.model().tokenizer, "And it came to pass: 4 wells, ü"
        ids = tokenizer.encode(text)
        self.assertEqual(tokenizer.decode(ids), text)
        self.assertEqual(tokenizer.decode_bytes(ids), text.encode())
        self.assertEqual(tokenizer.encode_batch([text, "And"])[0], ids)
        self.assertEqual(tokenizer.decode_batch([ids]), [text])
        self.assertEqual(tokenizer.id(tokenizer.token(ids[0])), ids[0])
        self.assertIsNone(tokenizer.id("no such token at all"))
        self.assertTrue(tokenizer.is_special(tokenizer.eos_token_id))
        self.assertEqual(tokenizer.encode("<|endoftext|>", specials=True), [tokenizer.eos_token_id])
        self.assertEqual(lithe.load_tokenizer(kit.run()).encode(text), ids)
        self.assertEqual(len(tokenizer), tokenizer.vocab_size)
        with self.assertRaises(lithe.Error):
            tokenizer.decode([10**6])


if __name__ == "__main__":
    unittest.main()
