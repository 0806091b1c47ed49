"""Names of options, as the program describes them. Their types are in _options.pyi, which tools/python_options writes."""
from __future__ import annotations

import functools
import json
import subprocess
from collections.abc import Mapping
from typing import Any, NamedTuple

from . import _run


class Verb(NamedTuple):
    """Its options: by each spelling (lr, learning_rate, optim__lr) the usual one (lr), and by that its section (optim)."""

    usual: Mapping[str, str]
    sections: Mapping[str, str]


def described(verb: str) -> Verb:
    return _described(tuple(_run.program()), verb)


@functools.cache
def _described(program: tuple[str, ...], verb: str) -> Verb:
    told = json.loads(_ask([*program, verb, "--describe-options"]))
    usual, sections = {}, {}
    for option in told["options"]:
        spelled = [name for name in (option["name"], *option["aliases"]) if name.startswith("--")]
        if spelled and not option["argument"]:
            first = _key(next((name for name in spelled if "." not in name), spelled[0]))
            usual.update({_key(name): first for name in spelled})
            sections[first] = str(option["section"])
    for words, becomes in told["translated"].items():  # "--max-steps VALUE": "--steps", "--bf16": "--dtype bf16"
        name = _key(words.split(" ")[0])
        usual[name] = _key(becomes) if words.endswith(" VALUE") else name
    return Verb(usual, sections)


def _key(name: str) -> str:
    return name.lstrip("-").replace("-", "_").replace(".", "__")


def usual(verb: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """By their usual names. Raises ShadeError with the program's own message, which names the nearest option, before
    anything starts."""
    known = described(verb).usual
    unknown = {name: value for name, value in options.items() if _key(name) not in known}
    if unknown:
        _ask([*_run.program(), verb, *(word.split("=")[0] for word in _run.words(unknown))])
    out: dict[str, Any] = {}
    for name, value in options.items():
        key = known[_key(name)]
        if key in ("help", "json", "config"):
            raise TypeError(f"{name} is for the command line")
        if key in out:
            raise TypeError(f"{name} and another name of {key} are both given")
        out[key] = value
    return out


def _ask(command: list[str]) -> str:
    done = subprocess.run(command, env=_run.environment(), capture_output=True, text=True, errors="replace")
    if done.returncode != 0:
        raise _run.ShadeError(command, done.returncode, done.stderr)
    return done.stdout
