"""plan, train and compare: dicts and files, callbacks, stops, and the bits of the command line."""

import json
import os
import signal
import threading
import time
import unittest

import kit
import lithe


class Train(unittest.TestCase):
    def test_the_weights_are_those_of_the_command_line(self):
        file = kit.write_recipe(kit.WORK / "bits.yaml", kit.recipe())
        kit.run_lithe("train", file, "--out", kit.WORK / "by_program")
        steps = []
        result = lithe.train(file, kit.WORK / "by_file", callback=lambda step: steps.append(step))
        lithe.train(kit.recipe(), kit.WORK / "by_dict")
        expected = kit.sha256(kit.WORK / "by_program/model.safetensors")
        self.assertEqual(expected, kit.sha256(kit.WORK / "by_file/model.safetensors"))
        self.assertEqual(expected, kit.sha256(kit.WORK / "by_dict/model.safetensors"))
        self.assertEqual((kit.WORK / "by_program/metrics.jsonl").read_text(),
                         (kit.WORK / "by_file/metrics.jsonl").read_text())
        self.assertEqual([step.step for step in steps], list(range(1, 31)))
        self.assertEqual([step.step for step in steps if step.eval_loss is not None], [10, 20, 30])
        self.assertEqual(steps[0].total_steps, 30)
        self.assertGreater(steps[0].loss, steps[-1].loss)
        self.assertEqual(result["status"], "finished")
        self.assertEqual(result["final_loss"], steps[-1].loss)
        self.assertEqual(result["eval_loss"], steps[-1].eval_loss)

    def test_a_stopped_run_goes_on_bit_for_bit(self):
        out = kit.WORK / "stopped"
        result = lithe.train(kit.recipe(), out, callback=lambda step: step.step < 13)
        self.assertEqual((result["status"], result["steps"]), ("stopped", 13))
        result = lithe.train(kit.recipe(), out, resume=True)
        self.assertEqual((result["status"], result["steps"]), ("finished", 30))
        self.assertEqual(kit.sha256(out / "model.safetensors"), kit.sha256(kit.run() / "model.safetensors"))
        self.assertEqual(lithe.train(kit.recipe(), kit.WORK / "anew", set={"train.max_steps": 2}, resume="auto")["steps"], 2)

    def test_an_exception_of_the_callback_ends_the_run(self):
        def broken(step):
            raise KeyError("no more")

        with self.assertRaisesRegex(KeyError, "no more"):
            lithe.train(kit.recipe(), kit.WORK / "broken", callback=broken)
        status = json.loads((kit.WORK / "broken/result.json").read_text())
        self.assertEqual(status["status"], "failed")
        with self.assertRaisesRegex(lithe.Error, "a callback of a training cannot train"):
            lithe.train(kit.recipe(), kit.WORK / "outer",
                        callback=lambda step: lithe.train(kit.recipe(), kit.WORK / "inner"))

    def test_ctrl_c_stops_and_saves(self):
        out = kit.WORK / "interrupted"

        def interrupt(step):
            if step.step == 5:
                os.kill(os.getpid(), signal.SIGINT)

        with self.assertRaises(KeyboardInterrupt):
            lithe.train(kit.recipe(), out, callback=interrupt)
        self.assertEqual(json.loads((out / "result.json").read_text())["status"], "stopped")
        lithe.train(kit.recipe(), out, resume=True)
        self.assertEqual(kit.sha256(out / "model.safetensors"), kit.sha256(kit.run() / "model.safetensors"))

    def test_ctrl_c_from_outside_is_heard_without_a_callback(self):
        out = kit.WORK / "long"
        timer = threading.Timer(1.5, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        begun = time.monotonic()
        with self.assertRaises(KeyboardInterrupt):
            lithe.train(kit.recipe(max_steps=1000000, save_steps=0, eval_steps=0), out)
        self.assertLess(time.monotonic() - begun, 30)
        timer.join()
        # The handler of Python is back.
        with self.assertRaises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(1)
        self.assertTrue((out / "model.safetensors").exists())

    def test_plan_is_that_of_the_command_line(self):
        file = kit.write_recipe(kit.WORK / "plan.yaml", kit.recipe())
        expected = json.loads(kit.run_lithe("plan", file, "--json", "--no-speed"))
        self.assertEqual(lithe.plan(file, speed=False), expected)
        self.assertEqual(lithe.plan(kit.recipe(), speed=False), expected)
        more = lithe.plan(kit.recipe(), set={"model.num_hidden_layers": 4}, speed=False)
        self.assertGreater(more["parameters"], expected["parameters"])
        with self.assertRaises(lithe.Error) as refused:
            lithe.plan(kit.recipe(), memory_budget="1MB", speed=False)
        self.assertEqual(refused.exception.code, "memory")

    def test_compare_costs_an_experiment(self):
        file = kit.write_recipe(kit.WORK / "base.yaml", kit.recipe(max_steps=4, eval_steps=4))
        experiment = {"recipe": os.path.relpath(file), "seeds": [1], "baseline": "narrow",
                      "variants": {"narrow": {}, "wide": {"model.hidden_size": 48}}}
        result = lithe.compare(experiment, plan=True)
        self.assertEqual(len(result["variants"]), 2)


class Errors(unittest.TestCase):
    def test_an_error_says_where_it_is(self):
        file = kit.WORK / "wrong.yaml"
        file.write_text("model:\n  hidden_size: 32\n  num_hidden_layer: 2\n")
        with self.assertRaises(lithe.Error) as refused:
            lithe.plan(file)
        error = refused.exception
        self.assertEqual((error.operation, error.code), ("recipe", "usage"))
        self.assertEqual((error.file, error.line), (str(file), 3))
        self.assertIn("num_hidden_layers", str(error))

    def test_of_a_dict_it_names_the_key(self):
        wrong = kit.recipe(learning_rat=1)
        with self.assertRaises(lithe.Error) as refused:
            lithe.plan(wrong)
        self.assertIn("learning_rate", str(refused.exception))
        self.assertIsNone(refused.exception.line)
        self.assertNotRegex(str(refused.exception), "dict:[0-9]")

    def test_types_that_no_recipe_has(self):
        with self.assertRaises(TypeError):
            lithe.plan({"model": {"hidden_size": object()}})
        out = kit.WORK / "no_run"
        for settings, said in (({"resume": "yes"}, "resume must be True, False or 'auto', not 'yes'"),
                               ({"memory_budget": []}, "memory_budget must be"),
                               ({"set": 5}, "set must be"),
                               ({"callback": lambda step: "x"}, "what callback returns must be None, True or False")):
            with self.assertRaisesRegex(TypeError, said):
                lithe.train(kit.recipe(max_steps=1), out, overwrite=True, **settings)

    def test_set_takes_what_a_dict_takes(self):
        class Number:
            def __init__(self, value):
                self.value = value

            def __index__(self):
                return self.value

        text = kit.TEXT
        plan = lithe.plan(kit.recipe(), speed=False,
                          set={"data.files": [text], "model.hidden_size": Number(64), "train.seed": 3})
        self.assertEqual(plan["parameters"],
                         lithe.plan(kit.recipe(), speed=False, set=["model.hidden_size=64"])["parameters"])
        with self.assertRaisesRegex(lithe.Error, "learning_rate"):
            lithe.plan(kit.recipe(), speed=False, set={"train.learning_rate": float("nan")})


if __name__ == "__main__":
    unittest.main()
