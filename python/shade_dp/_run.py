"""Runs of the program, each in a separate process."""
from __future__ import annotations

import concurrent.futures
import ctypes
import enum
import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Mapping, Sequence
from typing import Any, Optional, Union

from . import _launch, _torch

Path = Union[str, "os.PathLike[str]"]
Value = Union[str, int, float, bool, "os.PathLike[str]", Sequence[Union[str, int, float]]]


class ShadeError(RuntimeError):
    """The program ended with a status other than 0; the message is its error line."""

    def __init__(self, command: Sequence[str], status: int, output: str) -> None:
        lines = [line for line in output.splitlines() if line.strip()]
        # A usage error is followed by a line that names --help.
        said = [line for line in lines if line.startswith("shade")] or lines[-1:]
        super().__init__(said[0] if said else f"{' '.join(command)} ended with status {status}")
        self.command = list(command)
        self.status = status
        self.output = output


class Result(dict[str, Any]):
    """What --json of a verb writes, as plain dicts and lists; `output` is what was printed."""

    def __init__(self, content: Mapping[str, Any], output: str) -> None:
        super().__init__(content)
        self.output = output


def program() -> list[str]:
    """The command that starts the program: SHADE_BIN if it is set, otherwise the program in this package or, of a
    package without one, the one in the PATH.

    No Python is between: it would import modules of the folder that it is started in.
    """
    other = os.environ.get("SHADE_BIN")
    if not other and not _launch.BINARY.exists():
        other = shutil.which("shade")
        if other is None:
            raise ShadeError(["shade"], 1, f"shade: there is no program in {_launch.BINARY.parent} and none in the PATH; "
                                           "install the wheel (docs/installing.md), or set SHADE_BIN to a program that was built")
    if not other:
        return [str(_launch.BINARY)]
    # A relative path is relative to this process, not to the folder that the program is started in.
    return [os.path.abspath(other) if os.sep in other else other]


def environment() -> dict[str, str]:
    """The environment that program() is started with. Raises ShadeError without the torch that it needs."""
    if os.environ.get("SHADE_BIN") or not _launch.BINARY.exists():
        return dict(os.environ)
    torch = _torch.find()
    problem = _torch.complaint(torch)
    if problem is not None or torch is None:
        raise ShadeError(["shade"], 1, f"shade: {problem}")
    return _launch.environment(torch)


def words(options: Mapping[str, Optional[Value]]) -> list[str]:
    """max_grad_norm=1.0 -> --max-grad-norm=1.0; a list is joined by commas; None is left out."""
    out = []
    for name, value in options.items():
        if value is None:
            continue
        if isinstance(value, (set, frozenset)):
            raise TypeError(f"{name} is a set, which has no order; pass a list, e.g. sorted({name})")
        if hasattr(value, "item") and getattr(value, "ndim", 1) == 0:  # a number of numpy
            value = value.item()
        if isinstance(value, enum.Enum):
            value = value.value
        if isinstance(value, bool):
            word = "true" if value else "false"
        elif isinstance(value, (str, int, float, os.PathLike)):
            word = str(os.fspath(value)) if isinstance(value, os.PathLike) else str(value)
        elif hasattr(value, "to_csv"):
            raise TypeError(
                f"{name}: a {type(value).__name__} was given, and the program reads files; expected a path: write the "
                f"data first, e.g. with to_csv('records/data.csv', index=False), and pass {name}='records'"
            )
        else:
            word = ",".join(str(part) for part in value)
        out.append(f"--{name.replace('__', '.').replace('_', '-')}={word}")
    return out


def run(
    verb: str,
    *arguments: Path,
    ranks: Optional[int] = None,
    cwd: Optional[Path] = None,
    show: bool = False,
    timeout: Optional[float] = None,
    **options: Optional[Value],
) -> Result:
    """Runs `shade VERB` and returns what its --json writes.

    Options are those of the program: max_grad_norm=1.0 is --max-grad-norm 1.0, comm__backend="gloo" is
    --comm.backend gloo, True and False set switches, lists are joined by commas. `show` prints the output as it appears.
    Raises ShadeError if the program ends with a status other than 0. After an interrupt, or subprocess.TimeoutExpired
    after `timeout` seconds, a training has saved its last step, and the same call continues it.
    """
    variables = environment()
    with tempfile.TemporaryDirectory(prefix="shade_") as folder:
        file = pathlib.Path(folder) / "result.json"
        command = [*program(), verb, *(os.fspath(word) for word in arguments), *words(options)]
        if ranks is not None:
            command.append(f"--ranks={ranks}")
        command.append(f"--json={file}")
        with Process(command, variables, cwd, show) as process:
            process.child.wait(timeout)
            return process.result(file)


def train(recipe: Optional[Path] = None, **options: Any) -> Result:
    """`shade train`, with or without a recipe; see run()."""
    return run("train", *([] if recipe is None else [recipe]), **options)


class Process:
    """A run of the program. Left by an exception, it is asked to stop: a training finishes its step and saves it."""

    def __init__(self, command: Sequence[str], variables: Mapping[str, str], cwd: Optional[Path], show: bool,
                 keeps_open: Sequence[int] = ()) -> None:
        # In a session of its own: an interrupt of the terminal or of Jupyter goes to the whole process group, and a
        # second signal makes the program end without saving. If this process is killed, the kernel asks it to stop.
        self.child: subprocess.Popen[str] = _STARTER.submit(lambda: subprocess.Popen(
            command, env=variables, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            errors="replace", start_new_session=True, pass_fds=keeps_open, preexec_fn=_end_with_parent)).result()
        self.command = list(command)
        self._said: list[str] = []
        self._reader = threading.Thread(target=_read, args=(self.child, self._said, show), daemon=True)
        self._reader.start()

    @property
    def output(self) -> str:
        return "".join(self._said)

    def __enter__(self) -> Process:
        return self

    def __exit__(self, kind: Optional[type[BaseException]], stopped: Optional[BaseException], _: Any) -> None:
        try:
            if self.child.poll() is None:
                _stop(self.child)
        finally:
            self._reader.join()
            assert self.child.stdout is not None
            self.child.stdout.close()
            if isinstance(stopped, subprocess.TimeoutExpired):
                stopped.output = self.output

    def result(self, file: pathlib.Path) -> Result:
        """What it wrote to `file`, after its end. Raises ShadeError if its status is not 0."""
        status = self.child.wait()
        self._reader.join()
        if status != 0:
            raise ShadeError(self.command, status, self.output)
        return Result(json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}, self.output)


# The kernel's request to stop comes when the thread ends that started a program: one that lives as long as this process.
_STARTER = concurrent.futures.ThreadPoolExecutor(1, thread_name_prefix="shade_dp")
_LIBC = ctypes.CDLL(None)
_PR_SET_PDEATHSIG = 1


def _end_with_parent() -> None:  # between fork and exec: one call, nothing is imported
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def _read(child: "subprocess.Popen[str]", said: list[str], show: bool) -> None:
    assert child.stdout is not None
    for line in child.stdout:
        said.append(line)
        if show:
            print(line, end="", flush=True)


def _stop(child: "subprocess.Popen[str]") -> None:
    """Once: the step under way is finished and saved. Interrupted again, the program ends at once."""
    child.terminate()
    try:
        child.wait()
    except BaseException:
        child.terminate()
        child.wait()
        raise
