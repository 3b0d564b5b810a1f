"""Runs that learnt tasks and translations, models of other programs, and tasks of the harness."""

import json
import unittest

import kit
import lithe


def encoder(task):
    base = kit.recipe(max_steps=20, eval_steps=0, save_steps=0, objective={"type": "task"})
    base["model"]["architecture"] = "encoder"
    base["data"] = {"files": [str(kit.TEXT)], "sequence_length": 32, "tokenizer": {"type": "wordpiece", "vocab_size": 200},
                    "cache_directory": str(kit.WORK / "cache")}
    base["task"] = task
    del base["generate"]
    return base


class Predict(unittest.TestCase):
    def test_classes_are_those_of_the_command_line(self):
        data = kit.WORK / "films.tsv"
        rows = [(f"a {word} film number {i}", label) for i in range(20)
                for word, label in (("fine", "good"), ("dull", "bad"))]
        data.write_text("text\tlabel\n" + "".join(f"{text}\t{label}\n" for text, label in rows))
        out = kit.WORK / "films"
        lithe.train(encoder({"type": "classification", "train": [str(data)], "header": True, "text": "text",
                             "label": "label", "validation_fraction": 0.2}), out)
        model, texts = lithe.load(out), ["a fine film number 3", "a dull film number 9"]
        lines = kit.WORK / "films.txt"
        lines.write_text("\n".join(texts) + "\n")
        expected = [json.loads(line) for line in kit.run_lithe("predict", out, lines, "--json").splitlines()]
        for line in expected:
            line.pop("text")
        self.assertEqual(model.predict(texts), expected)
        self.assertEqual(model.classify(texts[0]), expected[0])
        measured = json.loads(kit.run_lithe("eval", out, "--json"))
        for key in ("weights", "weights_step"):
            measured.pop(key, None)
        self.assertIn("baselines", measured)
        self.assertEqual(model.eval(), measured)
        self.assertEqual(model.encode(texts).shape, (2, 32))
        with self.assertRaisesRegex(lithe.Error, "next"):
            model.generate("a")
        with self.assertRaisesRegex(lithe.Error, "was not trained on a task"):
            kit.model().predict("a")


class Translate(unittest.TestCase):
    def test_translations_are_those_of_the_command_line(self):
        source, target = kit.WORK / "source.txt", kit.WORK / "target.txt"
        source.write_text("".join(f"das kleine Haus {i % 17}\n" for i in range(80)))
        target.write_text("".join(f"the small house {i % 17}\n" for i in range(80)))
        recipe = kit.recipe(max_steps=40, eval_steps=0, save_steps=0)
        recipe["model"]["architecture"] = "encoder_decoder"
        recipe["train"]["objective"] = {"type": "seq2seq"}
        recipe["data"] = {"sequence_length": 32, "tokenizer": {"type": "bpe", "vocab_size": 300},
                          "cache_directory": str(kit.WORK / "cache")}
        recipe["translation"] = {"train": {"source": [str(source)], "target": [str(target)]}}
        del recipe["generate"]
        out = kit.WORK / "de-en"
        lithe.train(recipe, out)
        model, texts = lithe.load(out), ["das kleine Haus 3", "das Haus"]
        lines = kit.WORK / "lines.de"
        lines.write_text("\n".join(texts) + "\n")
        expected = [json.loads(line) for line in
                    kit.run_lithe("translate", out, lines, "--json", "--n-best", "2", "--num-beams", "3").splitlines()]
        got = model.translate(texts, n_best=2, num_beams=3)
        self.assertEqual([[t["text"] for t in line["translations"]] for line in expected],
                         [[t.text for t in line] for line in got])
        self.assertEqual([[t["score"] for t in line["translations"]] for line in expected],
                         [[t.score for t in line] for line in got])
        self.assertEqual(model.translate(texts[0], num_beams=3).text, got[0][0].text)
        measured = json.loads(kit.run_lithe("eval", out, source, target, "--json"))
        by_python = model.eval([source, target])
        for key in ("bleu", "chrf", "loss", "segments", "part"):
            self.assertEqual(by_python[key], measured[key], key)
        forward = model.forward(texts[0], hidden=True)
        self.assertEqual(forward.hidden[0].shape[1], 32)
        self.assertIsNone(forward.logits)
        with self.assertRaisesRegex(lithe.Error, "encoder_decoder"):
            kit.model().translate("a")


class Harness(unittest.TestCase):
    def tasks(self):
        folder = kit.WORK / "tasks"
        folder.mkdir(exist_ok=True)
        data = folder / "choices.jsonl"
        data.write_text("".join(json.dumps(
            {"query": f"And it came to pass in the days of king number {i}", "choices": [" that the people", " wells", "."],
             "gold": i % 3}) + "\n" for i in range(12)))
        (folder / "choices.yaml").write_text(
            "task: choices\ndataset_path: json\ndataset_kwargs: {data_files: {test: " + str(data) + "}}\n"
            "test_split: test\noutput_type: multiple_choice\ndoc_to_text: \"{{query}}\"\ndoc_to_choice: \"{{choices}}\"\n"
            "doc_to_target: gold\ntarget_delimiter: ''\nmetric_list: [{metric: acc}, {metric: acc_norm}]\n")
        (folder / "answers.yaml").write_text(
            "task: answers\ndataset_path: json\ndataset_kwargs: {data_files: {test: " + str(data) + "}}\n"
            "test_split: test\noutput_type: generate_until\ndoc_to_text: \"{{query}}\"\ndoc_to_target: \"{{choices[0]}}\"\n"
            "generation_kwargs: {until: [\".\"], max_gen_toks: 8}\nmetric_list: [{metric: exact_match}]\n")
        (folder / "pages.yaml").write_text(
            "task: pages\ndataset_path: json\ndataset_kwargs: {data_files: {test: " + str(data) + "}}\n"
            "test_split: test\noutput_type: loglikelihood_rolling\ndoc_to_text: ''\n"
            "doc_to_target: \"{{query}} {{query}} {{query}} {{query}}\"\n"
            "metric_list: [{metric: word_perplexity}, {metric: byte_perplexity}, {metric: bits_per_byte}]\n")
        return [folder / "choices.yaml", folder / "answers.yaml", folder / "pages.yaml"]

    def test_tasks_are_those_of_the_command_line(self):
        tasks = self.tasks()
        arguments = [word for task in tasks for word in ("--tasks", task)]
        expected = json.loads(kit.run_lithe("eval", kit.run(), "--json", *arguments))
        got = kit.model().eval(tasks=tasks)
        self.assertEqual(got["results"], expected["results"])
        self.assertEqual(got["n-samples"], expected["n-samples"])
        limited = kit.model().eval(tasks=tasks[0], limit=3)
        self.assertEqual(limited["n-samples"]["choices"]["effective"], 3)

    def test_the_harness_itself_says_the_same(self):
        try:
            import lm_eval
            import lithe.lm_eval as adapter
        except ImportError as error:
            self.skipTest(f"needs lm-eval: {error}")
        from lm_eval.tasks import TaskManager

        tasks = self.tasks()
        expected = kit.model().eval(tasks=tasks)["results"]
        results = lm_eval.simple_evaluate(
            model=adapter.LitheLM(str(kit.run())), tasks=["choices", "answers", "pages"],
            task_manager=TaskManager(include_path=str(tasks[0].parent), include_defaults=False), bootstrap_iters=0)
        compared = 0
        for task, metrics in expected.items():
            for name, value in metrics.items():
                if name == "alias" or "_stderr" in name:
                    continue
                self.assertEqual(results["results"][task][name], value, f"{task} {name}")
                compared += 1
        self.assertEqual(compared, 6)


class Imported(unittest.TestCase):
    def test_a_model_of_hugging_face_is_imported(self):
        exported = kit.WORK / "exported"
        try:
            kit.run_lithe("export", kit.run(), "--out", exported)
        except AssertionError as error:
            self.skipTest(str(error))
        model = lithe.load(exported)
        self.assertEqual(model.generate("And it came", greedy=True).text,
                         kit.model().generate("And it came", greedy=True).text)
        kept = kit.WORK / "imported"
        self.assertEqual(lithe.load(exported, import_to=kept).path, str(kept))
        self.assertEqual(lithe.load(kept).score("And it came").log_likelihood, model.score("And it came").log_likelihood)


if __name__ == "__main__":
    unittest.main()
