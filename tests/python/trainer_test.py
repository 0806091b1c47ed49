#!/usr/bin/env python3
"""shade_dp.Trainer on data in memory, with the program of the build (SHADE_BIN): real frames, models and loggers."""
import ast
import base64
import contextlib
import http.server
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import unittest.mock

SOURCE = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(SOURCE / "python"))
import datasets
import numpy
import pandas
import polars
import pyarrow

import shade_dp
from shade_dp import _plots, _records

WORDS = {"cardiology": "heart pulse pressure valve", "radiology": "scan image ray contrast", "surgery": "cut stitch wound graft"}
SMALL = dict(from_scratch=True, task="classify", classes=sorted(WORDS), seq_length=48, threads=1, log_every=1, lr=5e-3, batch_size=40)
USERS = dict(text_field="note", label_field="department", user_field="patient", privacy_unit="user", max_records_per_user=3,
             target_epsilon=8, delta=1e-3)


def notes(count=500, patients=100):
    generator = numpy.random.default_rng(1)
    rows = []
    for i in range(count):
        department = sorted(WORDS)[int(generator.integers(3))]
        note = " ".join(generator.choice(WORDS[department].split(), 8))
        rows.append({"patient": f"p{i % patients:03}", "note": note, "department": department})
    return pandas.DataFrame(rows)


class Scratch(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name).resolve()
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(self.folder)
        self.addCleanup(setattr, tempfile, "tempdir", tempfile.tempdir)
        (self.folder / "tmp").mkdir()
        tempfile.tempdir = str(self.folder / "tmp")

    def left_behind(self):
        return [str(path) for path in (self.folder / "tmp").rglob("*") if path.is_file() and path.suffix != ".lock"]


class Frames(Scratch):
    """Every kind of table gives the same records; what is refused names the column."""

    def read(self, data, **options):
        return _records.read(data, options)

    def test_all_kinds_hold_the_same_records(self):
        rows = [{"text": "one", "label": 1}, {"text": "zwei ü", "label": 0}]
        frame = pandas.DataFrame(rows)
        for data in (rows, frame, polars.DataFrame(rows), datasets.Dataset.from_list(rows), pyarrow.Table.from_pylist(rows),
                     frame.convert_dtypes(), frame.astype({"text": "category"}),
                     polars.DataFrame(rows, schema_overrides={"text": polars.Categorical})):
            self.assertEqual(self.read(data).columns, {"text": ["one", "zwei ü"], "label": [1, 0]}, type(data))
        self.assertEqual(self.read(["one", "two"]).columns, {"text": ["one", "two"]})

    def test_an_index_is_no_column(self):
        frame = pandas.DataFrame({"text": ["a", "b"]}, index=pandas.Index([7, 7], name="who"))
        self.assertEqual(self.read(frame).columns, {"text": ["a", "b"]})
        with self.assertRaisesRegex(ValueError, r"no column 'who' \(user_field\).*reset_index"):
            self.read(frame, user_field="who")

    def test_classes_of_datasets_are_names(self):
        features = datasets.Features({"text": datasets.Value("string"), "label": datasets.ClassLabel(names=["no", "yes"])})
        data = datasets.Dataset.from_list([{"text": "a", "label": 1}, {"text": "b", "label": 0}], features=features)
        self.assertEqual(self.read(data).columns["label"], ["yes", "no"])

    def test_what_is_refused_names_the_column(self):
        for frame, words in (
                ({"text": ["a", None, "c"]}, r"column 'text' has no value in 1 of 3 records, first in record 1.*dropna"),
                ({"text": ["a", numpy.nan]}, "column 'text' has no value"),
                ({"text": ["a", pandas.NaT]}, "column 'text' has no value"),
                ({"text": ["a", 3]}, r"column 'text' mixes str \(record 0\) and int \(record 1\)"),
                ({"text": ["a", "b"], "label": [0.0, 1.0]}, r"column 'label' holds a number with a fraction.*astype\('Int64'\)"),
                ({"text": ["a", ""]}, "column 'text' has no value in 1 of 2 records"),
                ({"text": ["a", "b"], "label": [1, 2**64]}, "column 'label' holds a number of more than 64 bits"),
                ({"text": ["a", "b"], "label": [True, False]}, "column 'label' holds bool"),
                ({"text": pandas.to_datetime(["2026-01-01", "2026-01-02"])}, "column 'text' holds Timestamp"),
                ({"note": ["a", "b"]}, "no column 'text'; name the one that has the texts, text_field='...', of 'note'"),
                ({0: ["a"]}, "column 0 has a int as its name"),
                ({"text": []}, "has no records")):
            with self.subTest(words), self.assertRaisesRegex((ValueError, TypeError), words):
                self.read(pandas.DataFrame(frame))
        with self.assertRaisesRegex(ValueError, "no column 'nota' \\(text_field\\); it has 'note'"):
            self.read(pandas.DataFrame({"note": ["a"]}), text_field="nota")
        twice = pandas.DataFrame([["a", "b"]], columns=["text", "text"])
        with self.assertRaisesRegex(ValueError, "two columns are named 'text'"):
            self.read(twice)
        for data, words in ((datasets.DatasetDict(), "pass one of its splits"), (polars.LazyFrame({"text": ["a"]}), "collect"),
                            ({"text": ["a"]}, "a list of dicts"), (3, "expected a list of texts")):
            with self.assertRaisesRegex(TypeError, words):
                self.read(data)
        with self.assertRaisesRegex(ValueError, "column 'text' holds text that is no Unicode"):
            self.read(["a", "\ud800"])
        with self.assertRaisesRegex(TypeError, "record 1 is a int"):
            self.read([{"text": "a"}, 3])
        redacted = datasets.Dataset.from_list([{"text": "a name"}]).with_transform(lambda batch: {"text": ["REDACTED"]})
        with self.assertRaisesRegex(TypeError, "has a transform"):
            self.read(redacted)
        self.assertEqual(self.read([{"text": "a", "label": None}], task="lm").columns["label"], [""])

    def test_messages_hold_no_record(self):
        for frame in ({"text": ["the secret", 3]}, {"text": ["the secret", None]}, {"text": ["the secret", 1.5]}):
            with self.assertRaises((TypeError, ValueError)) as seen:
                self.read(pandas.DataFrame(frame))
            self.assertNotIn("secret", str(seen.exception))

    def test_columns_without_use_may_hold_anything(self):
        frame = pandas.DataFrame({"text": ["a", "b"], "age": [3.5, None], "id": ["x", None], "mixed": [1, "a"]})
        self.assertEqual(self.read(frame).columns, {"text": ["a", "b"], "age": ["", ""], "id": ["", ""], "mixed": ["", ""]},
                         "their names alone: the program warns of some")

    def test_conversations(self):
        turns = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]
        for data in ([{"messages": turns}], pandas.DataFrame({"messages": [turns]}), pyarrow.Table.from_pylist([{"messages": turns}])):
            self.assertEqual(self.read(data).columns, {"messages": [turns]})

    def test_arrow_and_json_lines_are_the_same_records(self):
        records = _records.read([{"text": "a\n\"ü\"", "label": 3, "user": None}, {"text": "b", "label": 0, "user": "x"}], {})
        seen = []
        for has_arrow in (True, False):
            with unittest.mock.patch.object(_records, "_has_arrow", lambda: has_arrow):
                with _records.private_folder("run") as (folder, _):
                    place = _records.write(records, folder / "records")
                    (file,) = place.iterdir()
                    self.assertEqual(file.suffix, ".arrow" if has_arrow else ".jsonl")
                    for path in (place, place.parent, place.parent.parent):
                        self.assertEqual(path.stat().st_mode & 0o777, 0o700)
                    told = shade_dp.run("data", data_folder=place, tokenizer="bytes")
                    seen.append({key: told[key] for key in ("records", "tokens") if key in told} or dict(told))
            self.assertEqual(self.left_behind(), [])
        self.assertEqual(json.dumps(seen[0], sort_keys=True).replace(".arrow", ".jsonl"), json.dumps(seen[1], sort_keys=True))
        self.assertIn(PYARROW_PIN, (SOURCE / "tools/packages/arrow.in").read_text())
        self.assertIn(f'"pyarrow=={_records.PYARROW}.*"', (SOURCE / "pyproject.toml").read_text())


PYARROW_PIN = f"pyarrow=={_records.PYARROW}."


class Training(Scratch):
    def trainer(self, data=None, **options):
        return shade_dp.Trainer("llama-nano", notes() if data is None else data, **{**SMALL, **USERS, "progress": False, "steps": 12, **options})

    def test_from_a_frame_to_a_release(self):
        trainer = self.trainer(eval_rate=0.2, eval_every=6, progress=True)
        result = trainer.train()
        self.assertEqual(result["privacy_unit"], "user")
        self.assertLess(result["epsilon"], 8)
        self.assertEqual(self.left_behind(), [])
        frame = trainer.metrics()
        self.assertEqual(list(frame["step"]), [*range(1, 7), 6, *range(7, 13), 12])
        scores = trainer.evaluate(notes(60, 60))["not_private"]
        self.assertEqual(scores["records"], 60)
        predicted = trainer.predict(notes(60, 60))
        self.assertEqual(list(predicted["label"]), list(notes(60, 60)["department"]))
        self.assertAlmostEqual((predicted["prediction"] == predicted["label"]).mean(), scores["accuracy"], places=12)
        self.assertAlmostEqual(predicted["loss"].mean(), scores["loss"], places=6)
        self.assertEqual(self.left_behind(), [])
        self.assertEqual(type(trainer.model()).__name__, "LlamaForSequenceClassification")
        self.assertIn("<iframe", trainer.report()._repr_html_())
        with self.assertRaisesRegex(ValueError, "how many records are trained on is not known here"):
            trainer.account(steps=100)
        self.assertEqual(shade_dp.plan_frame(trainer.plan(seq_length=48, batch_size=4))["dp"][0], "auto")
        released = trainer.release("released")
        self.assertEqual(released["statement"]["unit"]["kind"], "user")
        self.assertIn("records", (self.folder / "released/PRIVACY.md").read_text())
        axes = [axis.get_ylabel() for axis in trainer.plot().axes]
        self.assertEqual(axes, ["loss\n(not private)", "score\n(not private)", "epsilon"])
        again = self.trainer(eval_rate=0.2, eval_every=6)  # as a new process would
        self.assertEqual(again.output, trainer.output)
        self.assertEqual(list(again), [], "all steps were made")
        self.assertNotEqual(self.trainer(lr=1e-3).output, trainer.output)
        self.assertNotEqual(self.trainer(notes(499), eval_rate=0.2, eval_every=6).output, trainer.output)
        pathlib.Path("runs/.key").unlink()
        self.assertNotEqual(self.trainer(eval_rate=0.2, eval_every=6).output, trainer.output, "a hash of records needs a key")
        self.assertEqual(pathlib.Path("runs/.key").stat().st_mode & 0o777, 0o600)

    def test_rows_are_live_and_an_early_end_continues(self):
        trainer = self.trainer(steps=40)
        for row in trainer:
            if row["step"] == 3:
                break
        made = trainer.metrics()["step"].max()
        self.assertLess(made, 40)
        rest = [row["step"] for row in self.trainer(steps=40)]
        self.assertEqual(rest, list(range(made + 1, 41)))
        self.assertEqual(self.left_behind(), [])

    def test_more_steps_of_a_finished_run(self):
        sigma = dict(target_epsilon=None, sigma=2.0)
        for steps in (2, 4, 4):
            trainer = self.trainer(steps=steps, **sigma)
            self.assertEqual(trainer.train()["steps"], steps)
            self.assertEqual(type(trainer.model()).__name__, "LlamaForSequenceClassification")
        self.assertAlmostEqual(trainer.account()["epsilon"], trainer.result["epsilon"], places=3)

    def test_aliases_are_one_option(self):
        same = dict(SMALL, **USERS)
        one = shade_dp.Trainer("llama-nano", notes(), **same, steps=3)
        other = shade_dp.Trainer("llama-nano", notes(), **{**{k: v for k, v in same.items() if k != "target_epsilon"}, "epsilon": 8}, num_steps=5)
        self.assertEqual(one.output, other.output)
        with self.assertRaisesRegex(TypeError, "another name of steps"):
            shade_dp.Trainer("llama-nano", notes(), **same, steps=3, num_steps=3)
        for wrong in ("../up", "/data/x", "a/b", ".hidden", ""):
            with self.assertRaisesRegex(ValueError, "expected the name of a folder"):
                self.trainer(name=wrong)

    def test_a_loop_that_a_script_leaves(self):
        code = (f"import sys; sys.path[:0] = {[str(SOURCE / 'python'), str(pathlib.Path(__file__).parent)]!r}; import trainer_test as t, shade_dp\n"
                "rows = shade_dp.Trainer('llama-nano', t.notes(), **t.SMALL, **t.USERS, output='run', steps=9999, progress=False).steps()\n"
                "print(next(rows)['step'])")
        seen = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, "TMPDIR": str(self.folder / "tmp")})
        self.assertEqual((seen.returncode, seen.stdout), (0, "1\n"), seen.stderr)
        self.assertTrue(list(pathlib.Path("run/checkpoints").glob("*_step_*")))
        self.assertEqual(self.left_behind(), [])

    def test_the_thread_that_began_may_end(self):
        rows = self.trainer(steps=30).steps()
        begun = threading.Thread(target=lambda: next(rows))
        begun.start()
        begun.join()
        self.assertEqual([row["step"] for row in rows], list(range(2, 31)))

    def test_a_signal_from_elsewhere_is_no_end(self):
        trainer = self.trainer(steps=99999)
        with self.assertRaisesRegex(InterruptedError, "a signal asked the program to stop after step"):
            for row in trainer:
                if row["step"] == 2:
                    (child,) = [int(line) for line in subprocess.run(["pgrep", "-P", str(os.getpid())], capture_output=True, text=True).stdout.split()
                                if "shade" in pathlib.Path(f"/proc/{line}/cmdline").read_text()]
                    os.kill(child, signal.SIGTERM)

    def test_callbacks_hear_of_steps_that_were_made_meanwhile(self):
        heard = []

        class Hears(shade_dp.Callback):
            def on_log(self, trainer, row):
                heard.append(row["step"])

        trainer = self.trainer(callbacks=[Hears()], steps=99999)
        for _, row in zip(range(2), trainer):
            time.sleep(1)  # so that several rows are there at once
        self.assertEqual(heard, [row["step"] for row in shade_dp.read_metrics(trainer.output)])

    def test_a_time_limit(self):
        with self.assertRaises(subprocess.TimeoutExpired):
            self.trainer(steps=999999).train(timeout=3)
        self.assertEqual(self.left_behind(), [])

    def test_two_at_once_and_none_twice(self):
        both = [self.trainer(output="a", steps=20), self.trainer(output="b", steps=20)]
        threads = [threading.Thread(target=one.train) for one in both]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual([one.result["steps"] for one in both], [20, 20])
        with unittest.mock.patch.object(_records, "PATIENCE", 0.3), contextlib.closing(self.trainer(output="c", steps=9999).steps()) as rows:
            next(rows)
            with self.assertRaisesRegex(RuntimeError, "is in use, by another process or by a loop"):
                self.trainer(output="c", steps=9999).train()
        self.assertEqual(self.left_behind(), [])

    def test_a_callback_that_throws_ends_the_run_and_keeps_its_step(self):
        class Stops(shade_dp.Callback):
            ended = None

            def on_log(self, trainer, row):
                if row["step"] == 2:
                    raise LookupError("enough")

            def on_train_end(self, trainer, result):
                Stops.ended = result

        trainer = self.trainer(callbacks=[Stops()], steps=9999)
        with self.assertRaisesRegex(LookupError, "enough"):
            trainer.train()
        self.assertIsInstance(Stops.ended, LookupError)
        self.assertTrue(list((trainer.output / "checkpoints").glob("*_step_*")))

    KILLED = """
import sys
sys.path[:0] = {paths!r}
import trainer_test, shade_dp
trainer = shade_dp.Trainer("llama-nano", trainer_test.notes(), **trainer_test.SMALL, **trainer_test.USERS, output="run", steps=60, progress=False)
for row in trainer:
    print(row["step"], flush=True)
"""

    def test_a_kernel_that_is_killed(self):
        code = self.KILLED.format(paths=[str(SOURCE / "python"), str(pathlib.Path(__file__).parent)])
        variables = {**os.environ, "TMPDIR": str(self.folder / "tmp")}
        with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=variables) as kernel:
            while int(kernel.stdout.readline()) < 5:
                pass
            self.assertTrue(self.left_behind())
            kernel.send_signal(signal.SIGKILL)
        seen = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=variables)
        self.assertEqual(seen.returncode, 0, seen.stderr)
        steps = [int(line) for line in seen.stdout.split()]
        self.assertEqual(steps[-1], 60)
        self.assertGreater(steps[0], 5)
        self.assertEqual([row["step"] for row in shade_dp.read_metrics("run") if "step" in row and "epsilon" in row and row["step"]], list(range(1, 61)))
        self.assertEqual(self.left_behind(), [])

    def test_an_interrupt(self):
        code = self.KILLED.format(paths=[str(SOURCE / "python"), str(pathlib.Path(__file__).parent)])
        with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              start_new_session=True, env={**os.environ, "TMPDIR": str(self.folder / "tmp")}) as kernel:
            while int(kernel.stdout.readline()) < 3:
                pass
            os.killpg(kernel.pid, signal.SIGINT)  # as Jupyter and a terminal do
            self.assertIn("KeyboardInterrupt", kernel.communicate()[1])
        last = shade_dp.read_metrics("run")[-1]["step"]
        self.assertTrue(list(pathlib.Path("run/checkpoints").glob(f"*_step_{last}")))
        self.assertEqual(self.left_behind(), [])

    def test_records_of_a_process_that_is_gone_are_removed_by_the_next_start(self):
        with _records.private_folder("other") as (folder, _):
            place, base = _records.write(_records.read(["a"], {}), folder / "records"), folder.parent
            _records.remove_left_behind()
            self.assertTrue(place.exists(), "in use")
        (base / "0123").mkdir(mode=0o700)
        (base / "0123" / "records.jsonl").write_text("secret")
        self.trainer(steps=1).train()
        self.assertFalse((base / "0123").exists())
        base.chmod(0o755)
        with self.assertRaisesRegex(PermissionError, "mode 0700"):
            self.trainer(steps=2).train()

    def test_unknown_options_are_refused_at_once(self):
        with self.assertRaisesRegex(shade_dp.ShadeError, "unknown option '--target-epsilo'; did you mean '--target-epsilon'"):
            self.trainer(target_epsilo=3)
        with self.assertRaisesRegex(TypeError, "data_folder is set by Trainer; pass data="):
            self.trainer(data_folder="x")
        with self.assertRaisesRegex(shade_dp.ShadeError, "'abc' is not a finite number") as seen:
            self.trainer(lr="abc").train()
        self.assertEqual(seen.exception.status, 2)
        self.assertFalse(list((self.folder / "runs").glob("[!.]*")))
        with self.assertRaisesRegex(FileNotFoundError, "no run yet; call train"):
            self.trainer().evaluate(notes())

    def test_paths_are_passed_on(self):
        folder = self.folder / "files"
        folder.mkdir()
        notes().to_json(folder / "notes.jsonl", orient="records", lines=True)
        trainer = self.trainer(folder, test=folder / "notes.jsonl", steps=2)
        self.assertEqual(trainer.train()["not_private"]["test_records"], 500)


class Readme(Scratch):
    """Its lines for Python as they are, on a small model and synthetic notes."""

    def test_the_lines_of_readme(self):
        pages = [(SOURCE / page).read_text() for page in ("README.md", "docs/python.md")]
        codes = [re.search(r"```python\n(import pandas.*?)```", page, re.S).group(1) for page in pages]
        self.assertEqual(*codes)
        self.assertLessEqual(len([line for line in codes[0].splitlines() if line.strip()]), 12)
        shade_dp.train(model="llama-nano", from_scratch=True, vocab_size=260, synthetic=True, train__records=32, steps=1, batch_size=8,
                       seq_length=16, threads=1, output="base", export="FOLDER")
        notes().to_csv("notes.csv", index=False)
        exec(compile(codes[0], "README.md", "exec"), {})
        self.assertIn("user with all records", pathlib.Path("released/PRIVACY.md").read_text())
        self.assertEqual(shade_dp.run("release", check="released")["passed"], True)


class Hub(Scratch):
    """The files that a push takes, by the real client; its requests end at a server of this test."""

    def test_a_release_is_pushed_and_nothing_else(self):
        trainer = shade_dp.Trainer("llama-nano", notes(), **SMALL, **USERS, steps=1, progress=False)
        trainer.train()
        trainer.release("released")
        import huggingface_hub

        card = huggingface_hub.ModelCard.load("released/README.md")
        self.assertEqual((card.data.pipeline_tag, card.data.library_name), ("text-classification", "transformers"))
        self.assertIn("differential-privacy", card.data.tags)
        with self.assertRaisesRegex(shade_dp.ShadeError, "has no privacy.json"):  # the run's own folder
            shade_dp.push(trainer.output, "who/what")
        with FakeHub() as hub:
            self.assertEqual(self.push(hub, "released").stdout, f"{hub.url}/who/what/commit/0123\n")
            self.assertEqual(hub.created["name"], "what")
            self.assertEqual(hub.created["visibility"], "private")
            self.assertEqual(hub.files, {path.name: path.read_bytes() for path in pathlib.Path("released").iterdir()})
            self.assertRegex(hub.description, "SHA-256 of privacy.json: [0-9a-f]{64}")
            hub.files, hub.public = {}, True
            self.assertIn("who/what exists and is public", self.push(hub, "released").stderr)
            shade_dp.train(model="llama-nano", from_scratch=True, synthetic=True, train__records=16, steps=1, batch_size=8, seq_length=16,
                           threads=1, output="plain")
            shade_dp.run("release", "plain", "open", without_privacy=True)
            self.assertIn("open states no privacy guarantee", self.push(hub, "open").stderr)
            pathlib.Path("released/notes.csv").write_text("secret")
            self.assertIn("notes.csv is not covered by the statement", self.push(hub, "released").stderr)
            self.assertEqual(hub.files, {})

    @staticmethod
    def push(hub, folder):
        code = f"import sys; sys.path.insert(0, {str(SOURCE / 'python')!r}); import shade_dp; print(shade_dp.push({folder!r}, 'who/what'))"
        variables = {**os.environ, "HF_ENDPOINT": hub.url, "HF_TOKEN": "hf_of_a_test", "HF_HUB_DISABLE_PROGRESS_BARS": "1"}
        return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=variables)


class FakeHub:
    """Answers what huggingface_hub asks for a push, and keeps what it is sent."""

    def __enter__(self):
        hub, self.files, self.created, self.description, self.public = self, {}, {}, "", False

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                sent = self.rfile.read(int(self.headers["Content-Length"])).decode()
                if self.path.endswith("/repos/create"):
                    hub.created = json.loads(sent)
                    answer = {"url": f"{hub.url}/who/what"}
                elif self.path.endswith("/validate-yaml"):  # of the model card
                    answer = {"errors": [], "warnings": []}
                elif "/preupload/" in self.path:
                    asked = json.loads(sent)["files"]
                    answer = {"files": [{"path": file["path"], "uploadMode": "regular", "shouldIgnore": False} for file in asked]}
                else:
                    for line in map(json.loads, sent.splitlines()):
                        if line["key"] == "header":
                            hub.description = line["value"]["description"]
                        else:
                            hub.files[line["value"]["path"]] = base64.b64decode(line["value"]["content"])
                    answer = {"commitUrl": f"{hub.url}/who/what/commit/0123", "commitOid": "0123", "pullRequestUrl": None}
                self.answer(answer)

            def do_GET(self):
                self.answer({"id": "who/what", "siblings": [], "private": not hub.public})

            def answer(self, content):
                body = json.dumps(content).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()


class Models(Scratch):
    """A model in memory is saved, trained and given back."""

    def model(self, kind):
        import torch
        import transformers

        torch.manual_seed(1)
        config = transformers.LlamaConfig(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
                                          intermediate_size=56, vocab_size=260, max_position_embeddings=128, bos_token_id=256,
                                          eos_token_id=257, pad_token_id=258)
        return getattr(transformers, kind)(config)

    def test_a_language_model_of_transformers(self):
        import torch

        before = self.model("LlamaForCausalLM")
        trainer = shade_dp.Trainer(before, [{"text": "the ferry moors at the quay"}] * 64, tokenizer="bytes", sigma=0.5, delta=1e-3,
                                   steps=4, batch_size=16, seq_length=32, lr=1e-2, threads=1, progress=False)
        trainer.train()
        after = trainer.model()
        self.assertIs(type(after), type(before))
        moved = [not torch.equal(a, b) for a, b in zip(before.state_dict().values(), after.state_dict().values())]
        self.assertTrue(all(moved))
        self.assertEqual(len(trainer.generate(["the ferry", "a quay"], max_new_tokens=4)), 2)

    def test_an_adapter_of_peft(self):
        import peft
        import torch

        base = self.model("LlamaForCausalLM")
        config = peft.LoraConfig(r=4, lora_alpha=8, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM")
        adapted = peft.get_peft_model(base, config)
        trainer = shade_dp.Trainer(adapted, ["the ferry moors at the quay"] * 64, tokenizer="bytes", sigma=0.5, delta=1e-3, steps=4,
                                   batch_size=16, seq_length=32, lr=1e-2, threads=1, progress=False)
        trainer.train()
        after = trainer.model()
        self.assertIs(type(after), type(adapted))
        same = {name.replace(".base_layer", ""): value for name, value in adapted.state_dict().items() if "lora_" not in name}
        for name, value in after.state_dict().items():
            if "lora_" not in name:
                self.assertTrue(torch.equal(value, same[name.replace(".base_layer", "")]), name)
        self.assertTrue(any(value.any() for name, value in after.state_dict().items() if "lora_B" in name))
        with self.assertRaisesRegex(ValueError, "the adapter was trained before"):
            shade_dp.Trainer(after, ["a"] * 4, tokenizer="bytes")
        frozen = self.model("LlamaForCausalLM")
        frozen.model.requires_grad_(False)
        with self.assertRaisesRegex(ValueError, "does not require a gradient"):
            shade_dp.Trainer(frozen, ["a"] * 4, tokenizer="bytes")
        with self.assertRaisesRegex(ValueError, "LoraConfig.exclude_modules"):
            also = peft.LoraConfig(r=4, target_modules=["q_proj"], exclude_modules=["v_proj"])
            shade_dp.Trainer(peft.get_peft_model(self.model("LlamaForCausalLM"), also), ["a"] * 4, tokenizer="bytes")
        config.lora_dropout = 0.1
        with self.assertRaisesRegex(ValueError, "LoraConfig.lora_dropout is 0.1"):
            shade_dp.Trainer(peft.get_peft_model(self.model("LlamaForCausalLM"), config), ["a"] * 4, tokenizer="bytes")

    def test_what_is_no_model(self):
        import torch

        with self.assertRaisesRegex(TypeError, "Linear; expected a folder, a name"):
            shade_dp.Trainer(torch.nn.Linear(2, 2), ["a"])
        with self.assertRaisesRegex(ValueError, "needs its tokenizer"):
            shade_dp.Trainer(self.model("LlamaForCausalLM"), ["a"])


class Loggers(Scratch):
    """Real loggers, offline."""

    def train(self, callback, **options):
        trainer = shade_dp.Trainer("llama-nano", notes(), **{**SMALL, **USERS, "steps": 3, "progress": False, **options}, callbacks=[callback])
        trainer.train()
        return trainer

    def test_weights_and_biases(self):
        import wandb

        with unittest.mock.patch.dict(os.environ, {"WANDB_MODE": "offline", "WANDB_DIR": str(self.folder), "WANDB_SILENT": "true"}):
            self.train(shade_dp.WandbCallback(project="notes"), progress=True)  # whose bar W&B would keep
            wandb.teardown()
        (file,) = self.folder.glob("wandb/offline-run-*/*.wandb")
        content = file.read_bytes()
        self.assertIn(b"epsilon", content)
        self.assertNotIn(b"loss", content)

    def test_mlflow(self):
        import mlflow

        self.enterContext(unittest.mock.patch.dict(os.environ, {"MLFLOW_ALLOW_FILE_STORE": "true"}))  # else a database, of the whole mlflow
        mlflow.set_tracking_uri((self.folder / "mlflow").as_uri())
        self.addCleanup(mlflow.set_tracking_uri, "")
        self.train(shade_dp.MLflowCallback(run_name="quiet"), output="quiet")
        with self.assertWarnsRegex(UserWarning, "not_private=True: losses.*without noise"):
            self.train(shade_dp.MLflowCallback(not_private=True, run_name="told"), output="told")
        runs = {run.info.run_name: run for run in mlflow.MlflowClient().search_runs(["0"])}
        self.assertEqual(runs["quiet"].info.status, "FINISHED")
        self.assertEqual(runs["quiet"].data.params["target_epsilon"], "8")
        self.assertIn("epsilon", runs["quiet"].data.metrics)
        self.assertFalse([key for key in runs["quiet"].data.metrics if key.startswith("not_private")])
        self.assertIn("not_private.loss", runs["told"].data.metrics)

    def test_a_logger_that_is_missing(self):
        with unittest.mock.patch.dict(sys.modules, {"wandb": None}), self.assertRaisesRegex(ImportError, "pip install wandb"):
            shade_dp.WandbCallback()


class Package(unittest.TestCase):
    def test_the_stub_is_of_this_program(self):
        done = subprocess.run([SOURCE / "tools/python_options", "--check", "--shade", os.environ["SHADE_BIN"]], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_types(self):
        done = subprocess.run([sys.executable, "-m", "mypy", "--strict", "--cache-dir", os.devnull, "python/shade_dp"], cwd=SOURCE,
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout)

    def test_colours_are_those_of_the_report(self):
        palette = (SOURCE / "shade/report/palette.cpp").read_text()
        for colour in _plots.COLOURS:
            self.assertIn(f'"{colour}"', palette)

    def test_it_needs_no_other_package(self):
        code = f"import sys; sys.path.insert(0, {str(SOURCE / 'python')!r}); import shade_dp; print(sorted(sys.modules))"
        seen = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True)
        self.assertEqual(seen.returncode, 0, seen.stderr)
        loaded = set(ast.literal_eval(seen.stdout))
        self.assertFalse(loaded & {"pandas", "polars", "datasets", "pyarrow", "tqdm", "matplotlib", "torch", "huggingface_hub"})

    def test_without_other_packages_a_run_says_what_to_install(self):
        code = f"""
import sys
sys.path.insert(0, {str(SOURCE / 'python')!r})
import shade_dp, tempfile, os
os.chdir(tempfile.mkdtemp())
trainer = shade_dp.Trainer("llama-nano", [{{"text": "a b c"}}] * 32, from_scratch=True, steps=2, batch_size=8, seq_length=16, threads=1)
assert trainer.train()["steps"] == 2
for act in (trainer.metrics, trainer.plot, lambda: shade_dp.pull("a/b")):
    try:
        act()
    except ImportError as fault:
        print(fault)
"""
        seen = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True)
        self.assertEqual(seen.returncode, 0, seen.stderr)
        self.assertIn("step 2/2", seen.stdout)  # there is no bar: the program's own lines
        for package in ("pandas", "matplotlib", "huggingface_hub"):
            self.assertIn(f"{package} is not installed; run: pip install {package}", seen.stdout)

    def test_it_is_small(self):
        lines = sum(len(file.read_text().splitlines()) for file in (SOURCE / "python/shade_dp").glob("*.py*"))
        self.assertLess(lines, 2000)


if __name__ == "__main__":
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    sys.exit(0 if unittest.main(exit=False).result.wasSuccessful() else 1)
