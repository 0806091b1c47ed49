#!/usr/bin/env python3
"""Verbs and options don't grow unnoticed: each is in surface.toml, which gives the reason of every one that came later.

    surface_test.py SOURCE_ROOT SHADE             fails for an option or verb that is not listed, or listed and gone
    surface_test.py SOURCE_ROOT SHADE --accept    removes what is gone; what is new needs a line by hand
"""
import json
import pathlib
import re
import subprocess
import sys
import textwrap
import tomllib

HEADER = """# The verbs of the program and their options (tests/docs/surface_test.py).
#
# `frozen` is what there was when this list began. A verb or option that is added needs a line under `reasons`: why an existing one can't do it.
"""


def options(program, verb):
    """Names without dashes, as --describe-options prints them; those that every verb has are listed with each."""
    described = subprocess.run([program, *verb.split(), "--describe-options"], capture_output=True, text=True, check=True)
    return sorted(option["name"].lstrip("-") for option in json.loads(described.stdout)["options"])


def verbs(program):
    shown = subprocess.run([program, "--help"], capture_output=True, text=True, check=True).stdout
    return re.findall(r"^  ([a-z]+) {2,}\S", shown, re.M)


def written(frozen, reasons):
    out = HEADER + "\n[frozen]\n"
    for verb, names in frozen.items():
        lines = textwrap.wrap(" ".join(names), 150, break_on_hyphens=False, break_long_words=False)
        out += f'{verb} = """\\\n  ' + " \\\n  ".join(lines) + '"""\n'
    return out + "\n[reasons]\n" + "".join(f"{json.dumps(key)} = {json.dumps(why)}\n" for key, why in reasons.items())


def main(root, program, accept):
    file = root / "tests/docs/surface.toml"
    listed = tomllib.loads(file.read_text()) if file.exists() else {"frozen": {}, "reasons": {}}
    frozen = {verb: names.split() for verb, names in listed["frozen"].items()}
    reasons = listed["reasons"]
    found = {verb: options(program, verb) for verb in verbs(program)}
    faults = []
    for verb, names in found.items():
        if verb not in frozen and verb not in reasons:
            faults.append(f"verb '{verb}' is new: state under [reasons] why no other verb can do it")
        for name in names:
            if name not in frozen.get(verb, names if verb in reasons else []) and f"{verb} --{name}" not in reasons:
                faults.append(f"shade {verb} --{name} is new: state under [reasons] why no other option can do it")
    gone = [f"{verb} --{name}" for verb, names in frozen.items() for name in names if name not in found.get(verb, [])]
    gone += [key for key in reasons if (key.split(" --") + [""])[1] not in ["", *found.get(key.split(" --")[0], [])]]
    gone += [verb for verb in [*frozen, *reasons] if verb.split(" --")[0] not in found]
    if accept:
        kept = {verb: [name for name in names if name in found[verb]] for verb, names in frozen.items() if verb in found}
        file.write_text(written(kept, {key: why for key, why in reasons.items() if key not in gone}))
    else:
        faults += [f"{key} is listed and no longer there: run with --accept" for key in gone]
    faults += [f"the reason for {key} is empty" for key, why in reasons.items() if len(why.split()) < 5]
    number = sum(map(len, found.values()))
    print("\n".join(faults))
    print(f"{len(found)} verbs with {number} options; {len(reasons)} came later; {len(faults)} faults")
    if number < 300:
        sys.exit(f"only {number} options were found; expected those of all verbs")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]).resolve(), sys.argv[2], "--accept" in sys.argv[3:])
