#!/usr/bin/env python3
"""The module shade_dp, with the program of the build (SHADE_BIN)."""
import importlib.util
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(SOURCE / "python"))
import shade_dp
from shade_dp import _results, _run, _torch


class Runs(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory()
        self.folder = pathlib.Path(self.scratch.name)

    def tearDown(self):
        self.scratch.cleanup()

    def test_options_become_words(self):
        given = {"max_grad_norm": 1.5, "comm__backend": "gloo", "synthetic": True, "shard": ["zero2", "zero3"],
                 "export": None, "output": pathlib.Path("a b")}
        self.assertEqual(_run.words(given), ["--max-grad-norm=1.5", "--comm.backend=gloo", "--synthetic=true",
                                             "--shard=zero2,zero3", "--output=a b"])

    def test_a_data_frame_is_not_a_path(self):
        class Frame:  # as of pandas: iterating gives the names of its columns
            to_csv = None

            def __iter__(self):
                return iter(["patient_id", "note"])

        with self.assertRaisesRegex(TypeError, "data_folder: a Frame was given.*expected a path.*to_csv"):
            _run.words({"data_folder": Frame()})

    def test_a_result_is_a_dict(self):
        result = shade_dp.run("account", sigma=1.5, rate=0.04, steps=2250, delta=1e-5)
        self.assertGreater(result["epsilon"], 1)
        self.assertLess(result["epsilon"], 20)
        self.assertIn("epsilon", result.output)
        json.dumps(result)

    def test_errors_carry_message_and_status(self):
        with self.assertRaises(shade_dp.ShadeError) as seen:
            shade_dp.run("account", sigmaa=1)
        self.assertEqual(seen.exception.status, 2)
        self.assertIn("unknown option '--sigmaa", str(seen.exception))
        self.assertNotIn("\n", str(seen.exception))

    def test_a_private_training_and_its_metrics(self):
        result = shade_dp.train(model="llama-nano", from_scratch=True, synthetic=True, train__records=32, dp="auto",
                                sigma=1.0, delta=1e-2, batch_size=8, steps=3, seq_length=16, threads=1, log_every=1,
                                output=self.folder / "run", ranks=1)
        self.assertEqual(result["steps"], 3)
        metrics = shade_dp.read_metrics(self.folder / "run")
        self.assertEqual([row["step"] for row in metrics], [1, 2, 3])
        self.assertAlmostEqual(metrics[-1]["epsilon"], result["epsilon"], places=6)
        with open(self.folder / "run" / "metrics.jsonl", "a", encoding="utf-8") as file:
            file.write('{"step": 4, "eps')  # killed in the middle of a line
        self.assertEqual(len(shade_dp.read_metrics(self.folder / "run")), 3)
        if importlib.util.find_spec("pandas"):
            frame = shade_dp.metrics_frame(self.folder / "run")
            self.assertEqual(list(frame["step"]), [1, 2, 3])
            self.assertTrue((frame["not_private.loss"] > 0).all())

    def test_results_of_a_folder(self):
        (self.folder / "b.json").write_text(json.dumps({"mode": "none", "avg_time_ms": 2.0, "times_ms": [2.0],
                                                        "communication": {"bytes": 5}}))
        (self.folder / "a.json").write_text(json.dumps({"failed": True, "reason": "out of memory"}))
        (self.folder / "other.json").write_text("[]")
        rows = shade_dp.read_results(self.folder)
        self.assertEqual([row["file"] for row in rows], ["a.json", "b.json"])
        self.assertEqual(_results.flat(rows[1]), {"file": "b.json", "mode": "none", "avg_time_ms": 2.0,
                                                  "communication.bytes": 5})


class Torch(unittest.TestCase):
    """The launcher with folders that look like torch, in a Python of their own."""

    def launch(self, version, library=True):
        with tempfile.TemporaryDirectory() as folder:
            if version is not None:
                torch = pathlib.Path(folder) / "torch"
                (torch / "lib").mkdir(parents=True)
                (torch / "__init__.py").write_text("raise SystemExit('torch was imported')")
                (torch / "version.py").write_text(f"__version__ = '{version}'\n")
                if library:
                    (torch / "lib" / "libtorch_cpu.so").touch()
            code = ("import pathlib, sys; from shade_dp import _launch; "
                    f"_launch.BINARY = pathlib.Path('/bin/echo'); sys.argv = ['shade', 'doctor']; _launch.main()")
            # -I -S: no torch of this machine.
            words = [sys.executable, "-I", "-S", "-c",
                     f"import sys; sys.path[:0] = [{folder!r}, {str(SOURCE / 'python')!r}]; {code}"]
            return subprocess.run(words, capture_output=True, text=True)

    def expect_refused(self, seen, *parts):
        self.assertEqual(seen.returncode, 1, seen)
        self.assertEqual(seen.stdout, "")
        self.assertEqual(seen.stderr.count("\n"), 1, seen.stderr)
        for part in parts:
            self.assertIn(part, seen.stderr)

    def test_the_right_version_becomes_the_program(self):
        for version in ("2.15.0", "2.15.1+cpu", "2.15.0a0+git1"):
            seen = self.launch(version)
            self.assertEqual((seen.returncode, seen.stdout, seen.stderr), (0, "doctor\n", ""), version)

    def test_another_version_is_one_clear_line(self):
        for version in ("2.14.1", "2.16.0", "2.1.0", "2.150.0", "3.0"):
            self.expect_refused(self.launch(version), "torch 2.15 is needed, found " + version,
                                "pip install 'torch>=2.15,<2.16'")

    def test_no_torch_and_a_broken_one(self):
        self.expect_refused(self.launch(None), "is not installed", "pip install")
        self.expect_refused(self.launch("2.15.0", library=False), "libtorch_cpu.so", "pip install")


class WorkingFolder(unittest.TestCase):
    """run(cwd=FOLDER): nothing of FOLDER is executed or loaded."""

    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name).resolve()
        self.package = self.folder / "site" / "shade_dp"
        shutil.copytree(SOURCE / "python" / "shade_dp", self.package)
        self.write_program("site/shade_dp/bin/shade", 'echo "program $1 in $(pwd), libraries in $LD_LIBRARY_PATH"')
        torch = self.folder / "other" / "torch"  # not next to the package: its libraries are passed to the loader
        (torch / "lib").mkdir(parents=True)
        (torch / "__init__.py").touch()
        (torch / "version.py").write_text(f"__version__ = '{_torch.WANTED}.0'\n")
        (torch / "lib" / "libtorch_cpu.so").touch()
        for name in ("shade_dp/__init__", "shade_dp/_launch", "torch/__init__", "sitecustomize", "os", "json"):
            file = self.folder / "data" / (name + ".py")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text("open('executed', 'w').close()\n")
        self.write_program("data/site/shade_dp/bin/shade", "touch executed")

    def write_program(self, place, words):
        file = self.folder / place
        file.parent.mkdir(parents=True)
        file.write_text(f"#!/bin/sh\n{words}\n")
        file.chmod(0o755)

    def expect_only_the_program(self, libraries, **variables):
        files = sorted((self.folder / "data").rglob("*"))
        inherited = {name: value for name, value in os.environ.items() if name not in ("SHADE_BIN", "LD_LIBRARY_PATH")}
        for show in (False, True):
            code = ("import sys; sys.path[:0] = ['site', 'other']; import shade_dp; "
                    f"print('result:', shade_dp.run('account', cwd='data', show={show}).output)")
            seen = subprocess.run([sys.executable, "-I", "-S", "-c", code], cwd=self.folder,
                                  env={**inherited, **variables}, capture_output=True, text=True)
            self.assertEqual(seen.returncode, 0, seen)
            self.assertIn(f"result: program account in {self.folder}/data, libraries in {libraries}\n", seen.stdout)
            self.assertEqual(sorted((self.folder / "data").rglob("*")), files)

    def test_nothing_of_it_is_imported(self):
        self.expect_only_the_program(f"{self.folder}/other/torch/lib")

    def test_a_relative_program_is_not_looked_for_in_it(self):
        self.expect_only_the_program("", SHADE_BIN="site/shade_dp/bin/shade")


class Stops(unittest.TestCase):
    """A training that is interrupted, or whose time is over, has saved its last step, and the same call continues."""

    SCRIPT = """
import subprocess, sys
import shade_dp
folder, show, timeout, ranks = sys.argv[1:]
try:
    shade_dp.train(model="llama-nano", from_scratch=True, synthetic=True, train__records=64, batch_size=8, steps=999999,
                   seq_length=16, threads=1, log_every=1, output=folder, ranks=int(ranks),
                   show=show == "show", timeout=float(timeout) or None)
except KeyboardInterrupt:
    print("interrupted")
except subprocess.TimeoutExpired as stopped:
    print("over:", "asked to stop" in stopped.output)
"""

    def call(self, folder, show, timeout, ranks):
        return subprocess.Popen(
            [sys.executable, "-c", self.SCRIPT, str(folder), "show" if show else "", str(timeout), str(ranks)],
            env={**os.environ, "PYTHONPATH": str(SOURCE / "python")}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, start_new_session=True)

    def expect_saved(self, show, interrupt, ranks=1):
        with tempfile.TemporaryDirectory() as scratch:
            folder = pathlib.Path(scratch) / "run"
            metrics = folder / "metrics.jsonl"
            first = 0
            for _ in range(2):  # from the beginning, and where the first stopped
                with self.call(folder, show, 0 if interrupt else 5, ranks) as seen:
                    if interrupt:
                        begin = time.monotonic()
                        while seen.poll() is None and (
                                not metrics.exists() or len(shade_dp.read_metrics(folder)) < first + 2):
                            self.assertLess(time.monotonic() - begin, 60)
                            time.sleep(0.05)
                        os.killpg(seen.pid, signal.SIGINT)  # as a terminal does
                    output, _ = seen.communicate(timeout=60)
                self.assertIn("interrupted\n" if interrupt else "over: True\n", output)
                self.assertEqual("asked to stop" in output, show, output)
                steps = [row["step"] for row in shade_dp.read_metrics(folder)]
                self.assertEqual(steps, list(range(1, len(steps) + 1)))  # none was lost, none repeated
                self.assertGreater(len(steps), first)
                self.assertTrue(list((folder / "checkpoints").glob(f"*_step_{steps[-1]}")))
                first = len(steps)

    def test_an_interrupt(self):
        self.expect_saved(show=False, interrupt=True)

    def test_an_interrupt_while_showing(self):
        self.expect_saved(show=True, interrupt=True, ranks=2)

    def test_a_caller_that_is_killed(self):
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch:  # the program may still be writing
            folder = pathlib.Path(scratch) / "run"
            with self.call(folder, True, 0, 2) as seen:
                begin = time.monotonic()
                while not (folder / "metrics.jsonl").exists():
                    self.assertLess(time.monotonic() - begin, 60)
                    time.sleep(0.05)
                seen.kill()
            while not list((folder / "checkpoints").glob("*_step_*/manifest.json")):
                self.assertLess(time.monotonic() - begin, 60)
                time.sleep(0.05)

    def test_a_time_limit(self):
        self.expect_saved(show=False, interrupt=False)

    def test_a_time_limit_while_showing(self):
        self.expect_saved(show=True, interrupt=False, ranks=2)


class Version(unittest.TestCase):
    def test_the_version_of_torch_is_the_pinned_one(self):
        pinned = (SOURCE / "tools" / "packages" / "cpu.txt").read_text()
        self.assertIn(f"torch=={_torch.WANTED}.", pinned)
        self.assertIn(f'"torch>={_torch.WANTED},<2.{int(_torch.WANTED.split(".")[1]) + 1}"',
                      (SOURCE / "pyproject.toml").read_text())


if __name__ == "__main__":
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    unittest.main()
