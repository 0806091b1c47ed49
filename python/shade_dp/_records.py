"""Records in memory, as a file that the program reads: lists, data frames, tables and data sets."""
from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import math
import os
import pathlib
import shutil
import stat
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Optional, Union

Path = Union[str, "os.PathLike[str]"]
TEXTS = ("text_field", "prompt_field", "completion_field", "messages_field")
FIELDS = (*TEXTS, "label_field", "user_field")
# Texts that the program reads where no field is named (docs/data.md).
CONVENTIONAL = ("text", "prompt", "completion", "response", "messages", "conversations")
# That of libshade_arrow.so, which links pyarrow's Arrow (tools/packages/arrow.in).
PYARROW = "26"
PATIENCE = 60.0  # seconds for an earlier start of the same run to save its step


class Records(NamedTuple):
    """Columns of equal length, of text, whole numbers or conversations; a column that is not used is empty."""

    columns: dict[str, list[Any]]

    @property
    def size(self) -> int:
        return len(next(iter(self.columns.values())))

    def digest(self) -> str:
        out = hashlib.blake2b(digest_size=8)
        for name, values in self.columns.items():
            out.update(json.dumps([name, values], ensure_ascii=False).encode("utf-8", "surrogatepass"))
        return out.hexdigest()


def is_path(data: Any) -> bool:
    return isinstance(data, (str, os.PathLike))


def read(data: Any, options: Mapping[str, Any], what: str = "data") -> Records:
    """`options` name the fields that are used. Raises TypeError or ValueError that names the column."""
    columns = _columns(data, what)
    sizes = {name: len(values) for name, values in columns.items()}
    if len(set(sizes.values())) > 1:
        raise ValueError(f"{what}: columns of one length are expected, found {sizes}")
    if not sizes or not max(sizes.values()):
        raise ValueError(f"{what} has no records")
    used = _used(list(columns), options, data, what)
    # Of a column that is not used the name alone is written: the program warns of names that may identify a user.
    return Records({name: _values(name, values, _holds_conversations(name, options)) if name in used else [""] * len(values)
                    for name, values in columns.items()})


def _holds_conversations(name: str, options: Mapping[str, Any]) -> bool:
    stated = options.get("messages_field")
    return name == stated if stated else name in ("messages", "conversations")


def _used(names: Sequence[str], options: Mapping[str, Any], data: Any, what: str) -> set[str]:
    stated = {field: str(options[field]) for field in FIELDS if options.get(field)}
    for field, name in stated.items():
        if name not in names:
            index = [str(level) for level in getattr(getattr(data, "index", None), "names", None) or [] if level is not None]
            hint = f"; '{name}' is its index: pass {what}.reset_index()" if name in index else ""
            raise ValueError(f"{what} has no column '{name}' ({field}); it has {_listed(names)}{hint}")
    texts = set() if any(field in stated for field in TEXTS) else {name for name in CONVENTIONAL if name in names}
    labels = {"label"} & set(names) if "label_field" not in stated and options.get("task") in (None, "auto", "classify") else set()
    used = set(stated.values()) | texts | labels
    if not used - {stated.get("label_field"), stated.get("user_field"), "label"}:
        raise ValueError(f"{what} has no column 'text'; name the one that has the texts, text_field='...', "
                         f"of {_listed(names)}")
    return used


def _listed(names: Sequence[str]) -> str:
    return ", ".join(f"'{name}'" for name in names[:20]) + (", ..." if len(names) > 20 else "")


# --- columns of each kind of table

def _columns(data: Any, what: str) -> dict[str, list[Any]]:
    kind = type(data).__name__
    package = type(data).__module__.split(".")[0]
    if package == "pandas" and kind == "DataFrame":
        _check_names(list(data.columns), what)
        return {name: data[name].astype(object).tolist() for name in data.columns}
    if package == "polars" and kind == "DataFrame":
        return dict(data.to_dict(as_series=False))
    if package == "datasets" and kind == "Dataset":
        if data.format["type"] == "custom":
            raise TypeError(f"{what} has a transform, which would be left out; apply it first: {what}.map(...)")
        return {name: _class_names(data, name) for name in data.column_names}
    if package == "pyarrow" and kind == "Table":
        _check_names(data.column_names, what)
        return dict(data.to_pydict())
    if isinstance(data, Sequence) and not isinstance(data, (str, bytes)):
        return _columns_of_rows(data, what)
    remedy = {"LazyFrame": "pass .collect()", "DatasetDict": "pass one of its splits, e.g. data['train']",
              "IterableDataset": "write it to a folder first, and pass the folder", "Series": "pass .to_frame('text') or .tolist()",
              "dict": "pass a list of dicts, or a DataFrame"}.get(kind, "pass one of these")
    raise TypeError(f"{what} is a {package}.{kind}; expected a list of texts or dicts, a DataFrame of pandas or polars, a "
                    f"datasets.Dataset, a pyarrow.Table, or a path: {remedy}")


def _class_names(data: Any, name: str) -> list[Any]:
    values = list(data.with_format(None)[name])
    feature = data.features[name]
    if type(feature).__name__ != "ClassLabel":
        return values
    return [None if value is None or value < 0 else feature.int2str(value) for value in values]


def _check_names(names: Sequence[Any], what: str) -> None:
    for name in names:
        if not isinstance(name, str):
            raise ValueError(f"{what}: column {name!r} has a {type(name).__name__} as its name; expected text: "
                             f"{what}.columns = [str(name) for name in {what}.columns]")
        if list(names).count(name) > 1:
            raise ValueError(f"{what}: two columns are named '{name}'")


def _columns_of_rows(rows: Sequence[Any], what: str) -> dict[str, list[Any]]:
    if all(isinstance(row, str) for row in rows):
        return {"text": list(rows)}
    for i, row in enumerate(rows):
        if not isinstance(row, Mapping):
            raise TypeError(f"{what}: record {i} is a {type(row).__name__}; expected a dict, as the others are, or texts alone")
    names = list(dict.fromkeys(name for row in rows for name in row))
    _check_names(names, what)
    return {name: [row.get(name) for row in rows] for name in names}


# --- values of a column

def _values(name: str, values: list[Any], conversation: bool) -> list[Any]:
    """As text or whole numbers. Messages name places and types, and no value: a notebook keeps them."""
    out = [_plain(value, conversation) for value in values]
    first: dict[type, int] = {}  # of each type, the place of its first value
    for i, value in enumerate(out):
        first.setdefault(type(value), i)
    missing = [i for i, value in enumerate(out) if value is None or value == ""]
    if missing:
        raise ValueError(f"column '{name}' has no value in {len(missing)} of {len(values)} records, first in record "
                         f"{missing[0]} (from 0); leave them out, e.g. data.dropna(subset=['{name}'])")
    if conversation and set(first) == {list}:
        return out
    for kind, i in first.items():
        if kind is float:
            raise TypeError(f"column '{name}' holds a number with a fraction in record {i} (from 0); expected text or whole "
                            f"numbers: data['{name}'] = data['{name}'].astype('Int64')")
        if kind not in (str, int):
            raise TypeError(f"column '{name}' holds {kind.__name__} in record {i} (from 0); expected "
                            f"{'a list of messages' if conversation else 'text or whole numbers'}: "
                            f"data['{name}'] = data['{name}'].astype(str), if that is meant")
    if len(first) > 1:
        places = " and ".join(f"{kind.__name__} (record {i})" for kind, i in first.items())
        raise TypeError(f"column '{name}' mixes {places}; expected one of them: data['{name}'] = data['{name}'].astype(str)")
    for i, value in enumerate(out):
        if isinstance(value, int) and not -2**63 <= value < 2**63:
            raise ValueError(f"column '{name}' holds a number of more than 64 bits in record {i} (from 0)")
        if isinstance(value, str):
            try:
                value.encode()
            except UnicodeEncodeError:
                raise ValueError(f"column '{name}' holds text that is no Unicode (a lone surrogate) in record {i} (from 0)") from None
    return out


def _plain(value: Any, conversation: bool) -> Any:
    """A value of Python's own: None for what is missing, str, int, float, or what it was."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return None
    if isinstance(value, float) and math.isnan(value):
        return None
    if isinstance(value, bool) or type(value).__module__ == "numpy" and value.dtype.kind == "b":
        return bool(value)
    if isinstance(value, str):
        return str.__str__(value)  # of an enum too
    if hasattr(value, "item") and getattr(value, "ndim", 1) == 0:  # a number of numpy
        return _plain(value.item(), conversation)
    if conversation and hasattr(value, "tolist"):
        return value.tolist()
    return value


# --- on the disk

def _base() -> pathlib.Path:
    """The folder of this user for records, which nobody else can read or replace."""
    base = pathlib.Path(tempfile.gettempdir()) / f"shade_dp_{os.getuid()}"
    with contextlib.suppress(FileExistsError):
        base.mkdir(mode=0o700)
    found = base.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or stat.S_IMODE(found.st_mode) != 0o700:
        raise PermissionError(f"{base} is not a folder of this user with mode 0700; remove it, or set TMPDIR to another place")
    return base


def remove_left_behind() -> None:
    """Records of runs that were killed: nothing holds their lock."""
    for folder in _base().iterdir():
        if folder.is_dir():
            with contextlib.suppress(OSError), _lock(folder, 0.0):
                shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def _lock(folder: pathlib.Path, patience: float) -> Iterator[int]:
    """The lock of a folder, a file beside it that stays; a program that gets the descriptor holds it too. Raises
    BlockingIOError."""
    end = time.monotonic() + patience
    lock = os.open(folder.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= end:
                    raise
                time.sleep(0.1)
        yield lock
    finally:
        os.close(lock)


@contextlib.contextmanager
def private_folder(owner: str) -> Iterator[tuple[pathlib.Path, int]]:
    """A folder of mode 0700 that is removed at the end: (where, a descriptor that keeps it locked).

    The same `owner`, a run's folder, gets the same place again, so that a run that continues finds its data by name.
    """
    remove_left_behind()
    folder = _base() / hashlib.blake2b(owner.encode(), digest_size=8).hexdigest()
    with contextlib.ExitStack() as stack:
        try:
            lock = stack.enter_context(_lock(folder, PATIENCE))
        except BlockingIOError:
            raise RuntimeError(f"{owner} is in use, by another process or by a loop over a Trainer that was not finished; "
                               "end that one, or choose another output") from None
        shutil.rmtree(folder, ignore_errors=True)  # of a start that was killed
        folder.mkdir(mode=0o700)
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        yield folder, lock


def write(records: Records, place: pathlib.Path) -> pathlib.Path:
    """To a new folder, whose name is what statements call the data."""
    place.mkdir(mode=0o700, parents=True)
    if _has_arrow():
        import pyarrow
        import pyarrow.feather

        columns = {name: pyarrow.array(values, pyarrow.large_string() if isinstance(values[0], str) else None)
                   for name, values in records.columns.items()}
        pyarrow.feather.write_feather(pyarrow.table(columns), str(place / "records.arrow"), compression="uncompressed")
        return place
    with open(place / "records.jsonl", "w", encoding="utf-8") as file:
        names = list(records.columns)
        for row in zip(*records.columns.values()):
            file.write(json.dumps(dict(zip(names, row)), ensure_ascii=False) + "\n")
    return place


def _has_arrow() -> bool:
    """Whether the program can read Arrow: it uses the Arrow of an installed pyarrow. Otherwise JSON Lines say the same."""
    if "pyarrow" in sys.modules:
        return str(sys.modules["pyarrow"].__version__).split(".")[0] == PYARROW
    import importlib.metadata

    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        return importlib.metadata.version("pyarrow").split(".")[0] == PYARROW
    return False
