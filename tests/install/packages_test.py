#!/usr/bin/env python3
"""Installs the packages as a user does, without anything of the build tree in the environment, and uses them.

  packages_test.py --wheel build/wheel/shade_dp-*.whl [--archive FILE.tar.gz] [--deb FILE.deb] [--torch FOLDER]

The wheel goes into a clean environment with the torch that tools/packages/cpu.txt pins, or, to save its download, a link
to the one in --torch. The Debian package is unpacked; fresh_root_test.py installs it. Every step is timed.
"""
import argparse
import functools
import pathlib
import re
import subprocess
import sys
import tempfile

from first_minutes import checked, finish, private_step, require, timed, use

ROOT = pathlib.Path(__file__).resolve().parents[2]


class User:
    """Runs words with an empty environment, as after a login: no LD_LIBRARY_PATH, no PYTHONPATH."""

    def __init__(self, folder, path="/usr/bin:/bin"):
        self.folder, self.path = folder, path

    def __call__(self, words, status=0, **variables):
        words = [str(word) for word in words]
        done = subprocess.run(words, cwd=self.folder, capture_output=True, text=True,
                              env={"PATH": self.path, "HOME": str(self.folder), "OMP_WAIT_POLICY": "passive", **variables})
        return checked(done, words, status)


def ignores_foreign_libraries(run, program, command, carried="libtorch|libc10|libsodium"):
    """DT_RPATH: libraries with names of carried ones in LD_LIBRARY_PATH are not loaded. These would end the program."""
    said = run(["readelf", "-d", program])
    require("(RPATH)" in said and "(RUNPATH)" not in said, program, "has no DT_RPATH, or also a DT_RUNPATH")
    with tempfile.TemporaryDirectory() as folder:
        names = re.findall(rf"\(NEEDED\).*\[((?:{carried}).*)\]", said)
        require(len(names) == carried.count("|") + 1, "the program needs other libraries than expected:", said)
        for name in names:
            (pathlib.Path(folder) / name).write_text("not a library")
        run([command, "--version"], LD_LIBRARY_PATH=folder)


def refuses_other_torch(run, shade, site):
    """No torch, another version, a broken one: one line that names it and what mends it, status 1."""
    def refused(*parts):
        said = run([shade, "--version"], status=1)
        require(said.startswith("shade: ") and said.count("\n") == 1 and all(part in said for part in parts), said)

    refused("torch 2.15 is needed and is not installed; run: pip install 'torch>=2.15,<2.16'")
    fake = site / "torch"
    fake.mkdir()
    (fake / "__init__.py").touch()
    (fake / "version.py").write_text("__version__ = '2.14.1+cpu'\n")
    refused("torch 2.15 is needed, found 2.14.1+cpu in ", "pip install 'torch>=2.15,<2.16'")
    (fake / "version.py").write_text("__version__ = '2.15.0'\n")
    refused("has no lib/libtorch_cpu.so", "pip install --force-reinstall 'torch>=2.15,<2.16'")
    for name in ("__init__.py", "version.py"):
        (fake / name).unlink()
    fake.rmdir()


def refuses_old_python(file, folder):
    """pip refuses the wheel by its metadata; with the Pythons of this machine that are too old, if there are any."""
    for python in sorted(pathlib.Path.home().glob(".pyenv/versions/3.[78].*/bin/python")):
        venv = folder / "old"
        User(folder)([python, "-m", "venv", "--clear", venv])
        said = User(folder)([venv / "bin" / "pip", "install", "--no-deps", "--no-index", file], status=1)
        require("requires a different Python" in said or "not a supported wheel" in said, python, said)


def wheel(torch, file, folder):
    venv = folder / "venv"
    run = User(folder, f"{venv / 'bin'}:/usr/bin:/bin")
    refuses_old_python(file, folder)
    with timed("a clean environment"):
        run([sys.executable, "-m", "venv", venv])
    site = next((venv / "lib").glob("python3.*")) / "site-packages"
    with timed("shade-dp installed"):
        run([venv / "bin" / "pip", "install", "--quiet", "--no-deps", "--no-index", file])
    shade = venv / "bin" / "shade"
    refuses_other_torch(run, shade, site)
    if torch:
        for name in ("torch", "nvidia"):
            (site / name).symlink_to(torch.resolve().parent / name)
    else:
        with timed("torch installed"):
            # As for a person at the keyboard: with pip's own configuration of this machine.
            subprocess.run([venv / "bin" / "pip", "install", "--quiet", "--require-hashes", "--no-deps",
                            "-r", ROOT / "tools/packages/cpu.txt"],
                           check=True)
    with timed("shade --version"):
        run([shade, "--version"])
    ignores_foreign_libraries(run, site / "shade_dp/bin/shade", shade)
    for name in ("man/man1/shade-train.1", "bash-completion/completions/shade"):
        require((venv / "share" / name).exists(), name, "is not installed")
    use(run, shade, folder)
    with timed("the same from Python"):
        said = run([venv / "bin" / "python", "-c",
                    "import shade_dp; print(shade_dp.run('account', sigma=1.5, rate=0.04, steps=2250, delta=1e-5)['epsilon'])"])
        require(6 < float(said) < 7, said)
        said = run([venv / "bin" / "python", "-c", "import shade_dp; print(shade_dp.Trainer('llama-nano', ['a short text'] * 32, from_scratch=True, "
                    "target_epsilon=8, delta=1e-3, batch_size=8, seq_length=16, steps=1, output='by_python').train()['epsilon'])"])
        require("privacy  epsilon" in said, said)


def unpacked(folder, program, **carried):
    """A package that carries libtorch: nothing of the build tree or of an installed torch is loaded."""
    run, shade = User(folder), folder / program
    said = run(["ldd", shade])
    require("not found" not in said, said)
    for line in said.splitlines():
        require(".deps" not in line, "libraries of the build tree are used:", line)
    require("lib/shade/private/libtorch_cpu.so" in said, said)
    documents = shade.parents[1] / "share/doc/shade-dp"
    require((documents / "copyright").exists(), "there is no", documents / "copyright")
    for package in ("nlohmann-json3-dev", "libgomp1", "nvidia_cuda_cupti-*", "torch-*"):
        require(any(documents.glob(f"licences/{package}/*")), "there is no licence of", package)
    ignores_foreign_libraries(run, shade, shade, **carried)
    use(run, shade, folder)


def archive(file, folder):
    with timed("unpacked"):
        User(folder)(["tar", "-xzf", file])
    name = file.name.removesuffix(".tar.gz")
    unpacked(folder, f"{name}/bin/shade")
    (folder / name).rename(folder / "moved elsewhere")
    private_step(User(folder), folder / "moved elsewhere/bin/shade", "run_after_the_move")


def deb(file, folder):
    with timed("unpacked"):
        User(folder)(["dpkg-deb", "-x", file, folder])
    fields = User(folder)(["dpkg-deb", "-f", file])
    require(re.search(r"^Depends: .*libsodium", fields, re.MULTILINE), "dependencies are missing:", fields)
    require("localhost" not in fields, "the maintainer's address is one of this machine:", fields)
    unpacked(folder, "usr/bin/shade", carried="libtorch|libc10")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("--wheel", "--archive", "--deb", "--torch"):
        parser.add_argument(name, type=pathlib.Path)
    options = parser.parse_args()
    require(options.wheel or options.archive or options.deb, "expected --wheel, --archive or --deb")
    checks = {"wheel": functools.partial(wheel, options.torch), "archive": archive, "deb": deb}
    for name, check in checks.items():
        file = getattr(options, name)
        if file is None:
            continue
        print(f"{file.name}: {file.stat().st_size / 1e6:.1f} MB", flush=True)
        with tempfile.TemporaryDirectory(prefix="shade packages ") as scratch:
            check(file.resolve(), pathlib.Path(scratch))
    finish()


if __name__ == "__main__":
    main()
