"""Training on data in memory, in processes of the program `shade`."""
from __future__ import annotations

import atexit
import contextlib
import hashlib
import json
import os
import pathlib
import re
import subprocess
import tempfile
import time
import weakref
from collections.abc import Generator, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Optional, Union

from . import _models, _options, _records, _results, _run
from ._callbacks import Callback, Progress
from ._page import Page

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure
    from typing_extensions import Unpack

    from ._options import AccountOptions, EvalOptions, GenerateOptions, PlanOptions, ReleaseOptions, ReportOptions, TrainOptions

Path = Union[str, "os.PathLike[str]"]
# Options that may differ between two starts of one run: the default name of its folder does not depend on them.
OF_A_START = ("steps", "ranks", "threads", "log_every", "save_every", "save_interval", "keep", "eval_every", "restart",
              "resume_from", "max_epsilon", "micro_batch", "memory_limit", "data_ledger", "keep_key")
# What Trainer's own parameters stand for.
OWN = {"data_folder": "data", "test_folder": "test", "output": "output", "model": "model", "tokenizer": "tokenizer"}
POLL = 0.1  # seconds between looks at a run's metrics


class Trainer:
    """A training run on data in memory, with or without privacy.

        trainer = shade_dp.Trainer("SmolLM2-135M", notes, target_epsilon=3, delta=1e-4, text_field="note",
                                   label_field="department", task="classify", classes=departments,
                                   privacy_unit="user", user_field="patient", max_records_per_user=4,
                                   lora_rank=8, batch_size=50, steps=60, lr=2e-3)
        trainer.train()
        trainer.release("released")

    model    a folder, a name as of --model, or a model of transformers or PEFT in memory (with `tokenizer`)
    data     a list of texts or dicts, a DataFrame of pandas or polars, a datasets.Dataset, a pyarrow.Table, or a path
    test     records of the same form that are evaluated once, at the end
    output   the run's folder; by default one below runs/ that the same model, data and options find again. A run that
             was interrupted, also by the end of this process, continues there
    name     what the data is called in statements
    options  those of `shade train`, with _ in place of - (and __ of a dot): lr=1e-3 is --lr 1e-3

    Records in memory are written to a file that only this user can read while the program runs, and removed then.
    Raises ShadeError with the program's message and remedy, ValueError or TypeError that names a column.
    """

    def __init__(
        self,
        model: Any,
        data: Any,
        *,
        test: Any = None,
        tokenizer: Any = None,
        output: Optional[Path] = None,
        name: str = "records",
        callbacks: Sequence[Callback] = (),
        progress: bool = True,
        **options: Unpack[TrainOptions],
    ) -> None:
        self.options = _options.usual("train", dict(options))
        for key in self.options:
            if key in OWN:
                raise TypeError(f"{key} is set by Trainer; pass {OWN[key]}=...")
        if re.fullmatch(r"[^/\0.][^/\0]{0,99}", name) is None:
            raise ValueError(f"name is {name!r}; expected the name of a folder, without '/' and not beginning with '.'")
        self.callbacks = [*([Progress()] if progress else []), *callbacks]
        self.name = name
        self._data = _read(data, self.options, "data")
        self._test = None if test is None else _read(test, self.options, "test")
        self._model = _models.Start(model, tokenizer)
        self.output = pathlib.Path(output) if output is not None else self._default_output()
        self.result: Optional[_run.Result] = None  # what the last start ended with

    def _default_output(self) -> pathlib.Path:
        named = {key: value for key, value in self.options.items() if key not in OF_A_START}
        of_data = self._data.digest() if isinstance(self._data, _records.Records) else str(self._data)
        text = json.dumps([self._model.identity(), of_data, self.name, named], sort_keys=True, default=str)
        runs = pathlib.Path("runs")
        # Without the key, a name that is seen elsewhere would tell whether a guess of all records is right.
        short = hashlib.blake2b(text.encode(), key=_key_in(runs), digest_size=4).hexdigest()
        return runs / f"{self._model.name}-{self.name}-{short}"

    # --- training

    def train(self, timeout: Optional[float] = None) -> _run.Result:
        """Makes the steps that are left; returns what --json of `shade train` says.

        Interrupted, or after `timeout` seconds (subprocess.TimeoutExpired), the last step is saved, and the next call
        continues there, also in another process.
        """
        for _ in self.steps(timeout):
            pass
        assert self.result is not None
        return self.result

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return self.steps()

    def steps(self, timeout: Optional[float] = None) -> Iterator[dict[str, Any]]:
        """Trains, and gives each row of metrics as it is written. The program does not wait for the loop: left early, it
        stops after the step that it is at, and saves that."""
        rows = self._steps(timeout)
        _LOOPS.add(rows)
        return rows

    def _steps(self, timeout: Optional[float]) -> Generator[dict[str, Any], None, None]:
        end = None if timeout is None else time.monotonic() + timeout
        ended: Union[_run.Result, BaseException, None] = None
        self.result = None
        begun: list[Callback] = []
        tail = _results.Tail(self.output / "metrics.jsonl")
        try:
            with self._started() as (process, file):
                for callback in self.callbacks:
                    begun.append(callback)
                    callback.on_train_begin(self)
                running = True
                while running:
                    running = process.child.poll() is None
                    for row in tail:
                        for callback in self.callbacks:
                            callback.on_log(self, row)
                        yield row
                    if running and end is not None and time.monotonic() > end:
                        assert timeout is not None
                        raise subprocess.TimeoutExpired(process.command, timeout)
                    if running:
                        with contextlib.suppress(subprocess.TimeoutExpired):
                            process.child.wait(POLL)
                result = process.result(file)
                if result.get("ended") == "asked to stop":
                    raise InterruptedError(f"a signal asked the program to stop after step {result['steps']}, which is saved; "
                                           "the same call continues")
                ended = self.result = result
        except BaseException as fault:
            ended = fault
            for row in tail:  # steps that were made meanwhile are spent too
                for callback in begun:
                    with contextlib.suppress(Exception):
                        callback.on_log(self, row)
            raise
        finally:
            _end(begun, self, ended)

    @contextlib.contextmanager
    def _started(self) -> Iterator[tuple[_run.Process, pathlib.Path]]:
        with _records.private_folder(str(self.output.absolute())) as (folder, lock):
            given = {**self.options, "output": self.output}
            for key, data in (("data_folder", self._data), ("test_folder", self._test)):
                if data is not None:
                    given[key] = self._path_of(data, folder / key)
            given.update(self._model.options(self.output, given))
            file = folder / "result.json"
            command = [*_run.program(), "train", *_run.words(given), f"--json={file}"]
            with self._model.written_again(self.output, given), \
                    _run.Process(command, _run.environment(), None, self._shows(), [lock]) as process:
                yield process, file

    def _path_of(self, data: Union[_records.Records, pathlib.Path], above: pathlib.Path) -> pathlib.Path:
        return _records.write(data, above / self.name) if isinstance(data, _records.Records) else data

    def _shows(self) -> bool:
        """The program's own lines, where a progress bar was wanted and there is none."""
        return any(isinstance(callback, Progress) and not callback.available for callback in self.callbacks)

    # --- afterwards

    def evaluate(self, data: Any = None, **options: Unpack[EvalOptions]) -> _run.Result:
        """Loss, perplexity, accuracy and F1 on records; without data, on those that were passed as `test`."""
        with self._evaluated(data, options) as (folder, given):
            return _run.run("eval", self._trained(), **given)

    def predict(self, data: Any = None, **options: Unpack[EvalOptions]) -> pandas.DataFrame:
        """A row for each record, in their order: its loss, and the class that is predicted for it, or the text that is
        generated after its prompt."""
        with self._evaluated(data, options) as (folder, given):
            file = folder / "predictions.jsonl"
            _run.run("eval", self._trained(), **{**given, "predictions": file})
            return _results.predictions_frame(file)

    @contextlib.contextmanager
    def _evaluated(self, data: Any, options: Mapping[str, Any]) -> Iterator[tuple[pathlib.Path, dict[str, Any]]]:
        """A private folder with the records, and the options of `shade eval`."""
        known = _options.described("eval").sections
        given = {key: value for key, value in self.options.items() if key in known}
        given.update(_options.usual("eval", dict(options)))
        records = self._test if data is None else _read(data, given, "data")
        if records is None:
            raise ValueError("no records to evaluate on; pass them, or give the Trainer some as `test`")
        with _records.private_folder(f"{self.output.absolute()} evaluated") as (folder, _):
            yield folder, {**given, "data_folder": self._path_of(records, folder / "data_folder")}

    def generate(self, prompts: Sequence[str], **options: Unpack[GenerateOptions]) -> list[str]:
        """What the model writes after each prompt; options are those of `shade generate`."""
        if isinstance(prompts, str):
            raise TypeError("prompts is one text; expected a list of them: [prompt]")
        with _records.private_folder(f"{self.output.absolute()} generated") as (folder, _):
            file = folder / "prompts.jsonl"
            file.write_text("".join(json.dumps({"prompt": prompt}) + "\n" for prompt in prompts), encoding="utf-8")
            made = _run.run("generate", self._trained(), prompt_file=file, **options)
        return [str(text["text"]) for text in made["texts"]]

    def release(self, folder: Path, **options: Unpack[ReleaseOptions]) -> _run.Result:
        """Writes the model, its tokenizer, the statement of privacy and a model card to a new folder."""
        return _run.run("release", self._trained(), folder, **options)

    def report(self, **options: Unpack[ReportOptions]) -> Page:
        """The page of this run, which a notebook shows."""
        _run.run("report", self._trained(), **options)
        return Page(pathlib.Path(str(options.get("output_dir", self.output))) / "report.html")

    def plan(self, **options: Unpack[PlanOptions]) -> _run.Result:
        """Memory, traffic and work of this run's steps, and their time on a `device_profile`. Batches are per rank."""
        known = _options.described("plan").sections
        given = {key: value for key, value in self.options.items() if known.get(key) in ("model", "shard", "optim", "dp")
                 and key not in ("schedule", "warmup_steps", "total_steps")}  # a plan is of one step
        given.update(self._model.named())
        given["seq_length"] = self.options.get("seq_length")
        if self.options.get("target_epsilon") or self.options.get("sigma"):
            given.setdefault("dp", "auto")  # as `shade train` decides
        if self.options.get("classes"):
            given["num_classes"] = len(_listed(self.options["classes"]))
        given.update(_options.usual("plan", dict(options)))
        return _run.run("plan", **given)

    def account(self, **options: Unpack[AccountOptions]) -> _run.Result:
        """Epsilon, or the sigma of a target_epsilon, of this run's settings with `options` in their place."""
        known = ("sigma", "target_epsilon", "steps", "delta", "accountant", "sampler", "max_batch", "privacy_unit", "population",
                 "sample_rate")
        given = {key: self.options[key] for key in known if key in self.options}
        own = _options.usual("account", dict(options))
        if "sample_rate" not in {**given, **own}:
            given["sample_rate"] = self._rate()
        if "sigma" in own:
            given.pop("target_epsilon", None)
        return _run.run("account", **{**given, **own})

    def _rate(self) -> float:
        """At which records or users join a batch; of held-out ones only the program knows how many are left."""
        if self.options.get("eval_rate") or self.options.get("eval_records") or not isinstance(self._data, _records.Records):
            raise ValueError("how many records are trained on is not known here; account(sample_rate=...): the expected batch "
                             "divided by the number of units in training, which `shade train` prints as `batches`")
        by_user = self.options.get("privacy_unit") == "user"
        units = len(set(self._data.columns[self.options["user_field"]])) if by_user else self._data.size
        return float(self.options["global_batch_size"]) / units

    def ledger(self) -> _run.Result:
        """What all runs have spent of the data set, by the file that `data_ledger` names."""
        if not self.options.get("data_ledger"):
            raise ValueError("this run spends from no data ledger; Trainer(..., data_ledger=FILE), made by "
                             "shade_dp.run('ledger', FILE, create=True, epsilon=..., delta=...)")
        return _run.run("ledger", self.options["data_ledger"])

    def model(self) -> Any:
        """The trained model as an object of transformers or, of a PEFT model, of PEFT."""
        self._trained()
        return self._model.load(self.output, self.options)

    def metrics(self) -> pandas.DataFrame:
        """A row per logged step and evaluation, of earlier starts too; columns of not_private.* have no noise."""
        return _results.metrics_frame(self.output)

    def plot(self) -> Figure:
        """Loss, scores and epsilon over the steps, with matplotlib."""
        from ._plots import plot_metrics

        return plot_metrics(_results.read_metrics(self.output))

    def _trained(self) -> pathlib.Path:
        if not (self.output / "checkpoints").is_dir():
            raise FileNotFoundError(f"{self.output} has no run yet; call train() first")
        return self.output


_LOOPS: weakref.WeakSet[Generator[dict[str, Any], None, None]] = weakref.WeakSet()


@atexit.register
def _close_loops() -> None:
    """Those that were not finished: their programs stop and save, and their records are removed."""
    for rows in list(_LOOPS):
        with contextlib.suppress(BaseException):
            rows.close()


def _end(callbacks: Sequence[Callback], trainer: Trainer, ended: Any) -> None:
    """All of them; what one throws is raised if nothing else was."""
    fault: Optional[Exception] = None
    for callback in callbacks:
        try:
            callback.on_train_end(trainer, ended)
        except Exception as thrown:
            fault = fault or thrown
    if fault is not None and not isinstance(ended, BaseException):
        raise fault


def _read(data: Any, options: Mapping[str, Any], what: str) -> Union[_records.Records, pathlib.Path]:
    return pathlib.Path(data).absolute() if _records.is_path(data) else _records.read(data, options, what)


def _key_in(folder: pathlib.Path) -> bytes:
    """A secret of this folder, made at the first use."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / ".key"
    if not file.exists():
        number, fresh = tempfile.mkstemp(dir=folder, prefix=".key.")  # mode 0600
        with open(number, "wb") as out:
            out.write(os.urandom(32))
        with contextlib.suppress(FileExistsError):
            os.link(fresh, file)  # another process may have made it
        os.unlink(fresh)
    key = file.read_bytes()
    if len(key) != 32:
        raise ValueError(f"{file} has {len(key)} bytes; expected 32: remove it, or name the run's folder, output=...")
    return key


def _listed(words: Union[str, Sequence[str]]) -> Sequence[str]:
    return words.split(",") if isinstance(words, str) else words
