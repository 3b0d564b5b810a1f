"""The session of docs/python.md, block by block."""

import contextlib
import io
import os
import pathlib
import re
import subprocess
import sys
import unittest

import kit

PAGE = pathlib.Path(__file__).parents[2] / "docs/python.md"


class Tutorial(unittest.TestCase):
    def test_its_blocks_run(self):
        blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
        self.assertGreaterEqual(len(blocks), 6)
        place = kit.WORK / "tutorial"
        place.mkdir()
        (place / "my.txt").write_text(kit.TEXT.read_text())
        before, session = os.getcwd(), {}
        os.chdir(place)
        try:
            for block in blocks:
                with contextlib.redirect_stdout(io.StringIO()):
                    exec(compile(block, str(PAGE), "exec"), session)
        finally:
            os.chdir(before)


class Package(unittest.TestCase):
    def test_importing_takes_no_time_and_no_numpy(self):
        code = ("import sys, time; begin = time.perf_counter(); import lithe; "
                "print(time.perf_counter() - begin, 'numpy' in sys.modules)")
        best = 1.0
        for _ in range(5):
            seconds, numpy = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True,
                                            text=True).stdout.split()
            self.assertEqual(numpy, "False")
            best = min(best, float(seconds))
        print(f"import lithe: {1000 * best:.1f} ms", file=sys.stderr)
        self.assertLess(best, 0.2)  # 50 ms on an idle machine

    def test_everything_is_documented_and_typed(self):
        import inspect

        import lithe

        stub = (pathlib.Path(lithe.__file__).parent / "__init__.pyi").read_text()
        for name in lithe.__all__:
            if name == "__version__":
                continue
            thing = getattr(lithe, name)
            self.assertTrue(inspect.getdoc(thing), name)
            self.assertRegex(stub, rf"(class|def) {name}\b")
            if not inspect.isclass(thing) or name == "Error":
                continue
            body = re.search(rf"^class {name}\b.*?(?=^\S)", stub, re.MULTILINE | re.DOTALL).group()
            for member in vars(thing):
                if member.startswith("_"):
                    continue
                self.assertTrue(inspect.getdoc(getattr(thing, member)), f"{name}.{member}")
                self.assertIn(member, body, f"{name}.{member} is not in __init__.pyi")


if __name__ == "__main__":
    unittest.main()
