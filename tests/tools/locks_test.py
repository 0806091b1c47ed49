"""What is downloaded is named by its hash: wheels in tools/packages, wherever pip installs them, and base images.

The check itself is tried on trees with one fault each.
"""
import pathlib
import re
import shutil
import sys
import tempfile

source = pathlib.Path(sys.argv[1]).resolve()
SCRIPTS = (".ci", ".devcontainer", "deploy", "tools", "tests/install")
LOCKED = re.compile(r"([a-z0-9-]+)==(\S+) --hash=sha256:[0-9a-f]{64}")
ASKED = re.compile(r"([a-z0-9-]+)==(\S+)")
INSTALLS = re.compile(r"""pip["']?,? ["']?install""")
# A local wheel (--no-index); what is said to users, who choose
# the index and the versions of their own environment; tools/lock, which installs nothing.
ELSEWHERE = re.compile(r"""--no-index|pip install ('torch|shade-dp|--force-reinstall)|--dry-run""")
IMAGE = re.compile(r"^FROM \S+@sha256:[0-9a-f]{64}$")


def lines(file):
    return [line for line in file.read_text().splitlines() if line and not line.startswith("#")]


def faults(root):
    found = []
    for wanted in sorted((root / "tools/packages").glob("*.in")):
        file = wanted.with_suffix(".txt")
        if not file.exists():
            found.append(f"{file.name} is missing: tools/lock {wanted.stem}")
            continue
        found += [f"{file.name}: '{line}' has no sha256" for line in lines(file) if not LOCKED.fullmatch(line)]
        locked = dict(LOCKED.fullmatch(line).groups() for line in lines(file) if LOCKED.fullmatch(line))
        for name, version in (ASKED.fullmatch(line).groups() for line in lines(wanted)):
            if locked.get(name) != version:
                found.append(f"{wanted.name} asks for {name} {version}, {file.name} has {locked.get(name)}: tools/lock {wanted.stem}")
    for file in sorted((root / "tools/packages").glob("*.txt")):
        if not file.with_suffix(".in").exists() and not file.name.startswith("debian"):
            found.append(f"{file.name} is not made by tools/lock: there is no {file.stem}.in")
    for file in (file for part in SCRIPTS for file in sorted((root / part).rglob("*")) if file.is_file()):
        try:
            text = file.read_text()
        except UnicodeDecodeError:
            continue
        for call in INSTALLS.finditer(text):
            words = text[call.start():call.start() + 250]
            if "--require-hashes" not in words and not ELSEWHERE.search(words.split("\n\n")[0]):
                found.append(f"{file.relative_to(root)}: pip installs without --require-hashes: {words.splitlines()[0]}")
        if file.name.split(".")[0] in ("Containerfile", "Dockerfile"):
            found += [f"{file.relative_to(root)}: '{line}' names no digest" for line in text.splitlines()
                      if line.startswith("FROM ") and not IMAGE.match(line)]
    return found


# file, what is replaced, by what, what must be found
PLANTS = [
    ("tools/packages/cpu.txt", r" --hash=\S+", "", "has no sha256"),
    ("tools/packages/cuda.txt", r"(--hash=sha256:.{63}).", r"\1", "has no sha256"),
    ("tools/packages/peers.in", r"(opacus==)\S+", r"\g<1>9", "asks for opacus 9"),
    ("tools/packages/site.txt", r"mkdocs==.*\n", "", "mkdocs 1.6.1, site.txt has None"),
    ("tools/bootstrap", " --require-hashes", "", "tools/bootstrap: pip installs without"),
    ("tools/wheel", ' "--require-hashes",', "", "tools/wheel: pip installs without"),
    ("tools/site", ' "--require-hashes",', "", "tools/site: pip installs without"),
    ("tools/real_model", ' "--require-hashes",', "", "tools/real_model: pip installs without"),
    ("tests/install/packages_test.py", ' "--require-hashes",', "", "packages_test.py: pip installs without"),
    ("tests/install/fresh_root_test.py", ' "--require-hashes",', "", "fresh_root_test.py: pip installs without"),
    ("deploy/Containerfile", r"(FROM \S+)@\S+", r"\1", "deploy/Containerfile: 'FROM debian"),
    ("deploy/Containerfile.cuda", r"(FROM \S+)@\S+", r"\1", "deploy/Containerfile.cuda: 'FROM debian"),
    ("deploy/Containerfile.cuda", " --require-hashes", "", "Containerfile.cuda: pip installs without"),
    (".devcontainer/Dockerfile", r"(FROM \S+)@\S+", r"\1", ".devcontainer/Dockerfile: 'FROM debian"),
]

assert not faults(source), "\n".join(faults(source))
with tempfile.TemporaryDirectory() as folder:
    root = pathlib.Path(folder)
    for part in SCRIPTS:
        shutil.copytree(source / part, root / part)
    assert not faults(root)
    for name, old, new, message in PLANTS:
        whole = (root / name).read_text()
        changed = re.sub(old, new, whole, count=1)
        assert changed != whole, f"{name} has no '{old}' to be replaced"
        (root / name).write_text(changed)
        assert any(message in fault for fault in faults(root)), f"planted in {name} '{old}': {faults(root)}"
        (root / name).write_text(whole)
print(f"{len(list((source / 'tools/packages').glob('*.in')))} lists of wheels; {len(PLANTS)} plants, all found")
