#!/usr/bin/env python3
"""Installs and uses the packages in a fresh Debian 12: a root made by debootstrap, with nothing of this machine in it.

  fresh_root_test.py --wheel build/wheel/shade_dp-*.whl [--archive FILE.tar.gz] [--deb FILE.deb] [--full]

As root, with debootstrap and a network (debian_root.py). The wheel gets the torch of PyPI, without
NVIDIA's libraries (tools/packages/cpu.txt), and runs the commands of docs/first_run.md; trainings make six steps, with
--full all. The Debian package is installed by apt-get and removed again. Every step is timed.
"""
import argparse
import os
import pathlib
import re
import sys

from debian_root import SOURCE, Machine, fresh, pip_settings
from first_minutes import finish, private_step, require, timed, use

sys.path.insert(0, str(SOURCE / "tests" / "docs"))
from commands_test import MARKED, shortened


def first_run(run, full):
    """docs/first_run.md, block by block, in one folder."""
    for block in MARKED.findall((SOURCE / "docs" / "first_run.md").read_text()):
        commands = block if full else shortened(block)
        with timed(commands.split(" \\")[0].splitlines()[0][:90]):
            run(["bash", "-euo", "pipefail", "-c", f"mkdir -p first && cd first\n{commands}"])
    said = (run.outside() / "first/released/PRIVACY.md").read_text()
    require("epsilon" in said, said)


def wheel(file, root, full):
    run = Machine(root, "/home/person/venv/bin:/usr/bin:/bin", "person")
    with timed("a clean environment"):
        run(["python3", "-m", "venv", "venv"])
    with timed("shade-dp installed"):
        run(["pip", "install", "--quiet", "--no-deps", "--no-index", run.take(file)])
    with timed("torch installed"):
        run(["pip", "install", "--quiet", "--require-hashes", "--no-deps", "-r", run.take(SOURCE / "tools/packages/cpu.txt")],
            **pip_settings())
    use(run, "shade", run.outside())
    with timed("docs/first_run.md"):
        first_run(run, full)


def archive(file, root, _full):
    run = Machine(root, "/usr/bin:/bin", "person")
    with timed("unpacked"):
        run(["tar", "-xzf", run.take(file)])
    name = file.name.removesuffix(".tar.gz")
    use(run, run.home / name / "bin/shade", run.outside())
    run(["mv", name, "moved elsewhere"])
    private_step(run, run.home / "moved elsewhere/bin/shade", "run_after_the_move")


def deb(file, root, _full):
    administrator, run = Machine(root), Machine(root, "/usr/bin:/bin", "person")
    with timed("apt-get install"):
        administrator(["apt-get", "install", "-y", "--no-install-recommends", administrator.take(file)])
    files = [name for name in administrator(["dpkg", "-L", "shade-dp"]).splitlines() if re.search("shade", name)]
    require(any(name.endswith("man1/shade-train.1.gz") or name.endswith("man1/shade-train.1") for name in files), files)
    use(run, "shade", run.outside())
    with timed("apt-get remove"):
        administrator(["apt-get", "remove", "-y", "shade-dp"])
    left = [name for name in files if os.path.lexists(root / name.lstrip("/"))]
    require(not left, "these are left after apt-get remove:", left)
    require("shade-dp" not in administrator(["dpkg", "-l"]), "dpkg still lists shade-dp")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("--wheel", "--archive", "--deb"):
        parser.add_argument(name, type=pathlib.Path)
    parser.add_argument("--full", action="store_true")
    options = parser.parse_args()
    require(options.wheel or options.archive or options.deb, "expected --wheel, --archive or --deb")
    for check in (wheel, archive, deb):
        file = getattr(options, check.__name__)
        if file is None:
            continue
        print(f"{file.name}: {file.stat().st_size / 1e6:.1f} MB", flush=True)
        with fresh(check.__name__) as root:
            check(file.resolve(), root, options.full)
    finish()


if __name__ == "__main__":
    main()
