#!/usr/bin/env python3
"""Installs the packages as a user does, without anything of the build tree in the environment, and uses them.

  packages_test.py --wheel build/wheel/shade_dp-*.whl [--archive FILE.tar.gz] [--deb FILE.deb] [--torch FOLDER]

The wheel goes into a clean environment with the torch that tools/packages/cpu.txt pins, or, to save its download, a link
to the one in --torch. The Debian package is unpacked, not installed. Every step is timed.
"""
import argparse
import contextlib
import pathlib
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
PRIVATE_STEP = ("train --model llama-nano --from-scratch --synthetic --train.records 32 --dp auto --sigma 1 --delta 1e-2 "
                "--batch-size 8 --steps 1 --seq-length 16").split()
PICTURE = "compare --model llama-nano --dp none,auto --seq 32 --batch-size 2 --num-iter 2 --warmup-iter 1 --repeat 1".split()
failures = []


@contextlib.contextmanager
def timed(name):
    begin = time.monotonic()
    yield
    print(f"{time.monotonic() - begin:7.1f} s  {name}", flush=True)


def run(words, folder, path="/usr/bin:/bin", status=0):
    """With an empty environment, as after a login: no LD_LIBRARY_PATH, no PYTHONPATH."""
    done = subprocess.run([str(word) for word in words], cwd=folder, capture_output=True, text=True,
                          env={"PATH": path, "HOME": str(folder), "OMP_WAIT_POLICY": "passive"})
    if done.returncode != status:
        failures.append(f"{words}: status {done.returncode}, expected {status}\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def require(condition, *words):
    if not condition:
        failures.append(" ".join(map(str, words)))


def use(shade, folder, path="/usr/bin:/bin"):
    """The first minutes: doctor, a picture, a private step."""
    with timed("shade doctor"):
        said = run([shade, "doctor"], folder, path)
        require("Training can run on this machine" in said, "doctor:", said)
    with timed("the first picture"):
        run([shade, *PICTURE, "--output-dir", "results"], folder, path)
        pictures = [p for p in (folder / "results").rglob("*.png") if p.stat().st_size > 1000]
        require(pictures, "no picture was drawn")
        require((folder / "results" / "report.html").exists(), "there is no report.html")
    with timed("the first private step"):
        said = run([shade, *PRIVATE_STEP, "--output", "run"], folder, path)
        require("epsilon" in said, said)


def wheel(file, torch, folder):
    venv = folder / "venv"
    with timed("a clean environment"):
        run([sys.executable, "-m", "venv", venv], folder)
    site = next((venv / "lib").glob("python3.*")) / "site-packages"
    path = f"{venv / 'bin'}:/usr/bin:/bin"
    with timed("shade-dp installed"):
        run([venv / "bin" / "pip", "install", "--quiet", "--no-deps", "--no-index", file], folder, path)
    shade = venv / "bin" / "shade"
    said = run([shade, "--version"], folder, path, status=1)
    require(said == "shade: torch 2.15 is needed and is not installed; run: pip install 'torch>=2.15,<2.16'\n", said)
    fake = site / "torch"
    fake.mkdir()
    (fake / "__init__.py").touch()
    (fake / "version.py").write_text("__version__ = '2.14.1+cpu'\n")
    said = run([shade, "--version"], folder, path, status=1)
    require(said.startswith("shade: torch 2.15 is needed, found 2.14.1+cpu in ") and said.count("\n") == 1, said)
    for name in ("__init__.py", "version.py"):
        (fake / name).unlink()
    fake.rmdir()
    if torch:
        for name in ("torch", "nvidia"):
            (site / name).symlink_to(torch.resolve().parent / name)
    else:
        with timed("torch installed"):
            # As for a person at the keyboard: with pip's own configuration of this machine.
            subprocess.run([venv / "bin" / "pip", "install", "--quiet", "--no-deps", "-r", ROOT / "tools/packages/cpu.txt"],
                           check=True)
    with timed("shade --version"):
        run([shade, "--version"], folder, path)
    for name in ("man/man1/shade-train.1", "bash-completion/completions/shade"):
        require((venv / "share" / name).exists(), name, "is not installed")
    use(shade, folder, path)
    with timed("the same from Python"):
        said = run([venv / "bin" / "python", "-c",
                    "import shade_dp; print(shade_dp.run('account', sigma=1.5, rate=0.04, steps=2250, delta=1e-5)['epsilon'])"],
                   folder, path)
        require(6 < float(said) < 7, said)


def unpacked(folder, program):
    """A package that carries libtorch: nothing of the build tree or of an installed torch is loaded."""
    shade = folder / program
    said = run(["ldd", shade], folder)
    require("not found" not in said, said)
    for line in said.splitlines():
        require(".deps" not in line, "libraries of the build tree are used:", line)
    require("lib/shade/libtorch_cpu.so" in said, said)
    use(shade, folder)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("--wheel", "--archive", "--deb", "--torch"):
        parser.add_argument(name, type=pathlib.Path)
    options = parser.parse_args()
    require(options.wheel or options.archive or options.deb, "expected --wheel, --archive or --deb")
    for name in ("wheel", "archive", "deb"):
        file = getattr(options, name)
        if file is None:
            continue
        print(f"{file.name}: {file.stat().st_size / 1e6:.1f} MB", flush=True)
        with tempfile.TemporaryDirectory(prefix="shade packages ") as scratch:
            folder = pathlib.Path(scratch)
            if name == "wheel":
                wheel(file.resolve(), options.torch, folder)
            elif name == "archive":
                with timed("unpacked"):
                    run(["tar", "-xzf", file.resolve()], folder)
                unpacked(folder, f"{file.name.removesuffix('.tar.gz')}/bin/shade")
            else:
                with timed("unpacked"):
                    run(["dpkg-deb", "-x", file.resolve(), folder], folder)
                require("libsodium" in run(["dpkg-deb", "-f", file.resolve(), "Depends"], folder), "dependencies are missing")
                unpacked(folder, "usr/bin/shade")
    for failure in failures:
        print(failure, file=sys.stderr)
    print("0 failed" if not failures else f"{len(failures)} failed")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
