"""What the tests of packages share: the first minutes of a user, each step timed, and the list of what failed."""
import contextlib
import sys
import time

PRIVATE_STEP = ("train --model llama-nano --from-scratch --synthetic --train.records 32 --dp auto --sigma 1 --delta 1e-2 "
                "--batch-size 8 --steps 1 --seq-length 16").split()
PICTURE = "compare --model llama-nano --dp none,auto --seq 32 --batch-size 2 --num-iter 2 --warmup-iter 1 --repeat 1".split()
failures = []


@contextlib.contextmanager
def timed(name):
    begin = time.monotonic()
    yield
    print(f"{time.monotonic() - begin:7.1f} s  {name}", flush=True)


def require(condition, *words):
    if not condition:
        failures.append(" ".join(map(str, words)))


def checked(done, words, status):
    """What a finished process said; another status than the expected one is a failure."""
    if done.returncode != status:
        failures.append(f"{words}: status {done.returncode}, expected {status}\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def private_step(run, shade, output):
    with timed("the first private step"):
        said = run([shade, *PRIVATE_STEP, "--output", output])
        require("epsilon" in said, said)


def use(run, shade, folder):
    """Doctor, a picture, a private step. `run` runs words in `folder` and returns what they said."""
    begin = time.monotonic()
    with timed("shade doctor"):
        said = run([shade, "doctor"])
        require("Training can run on this machine" in said, "doctor:", said)
    with timed("the first picture"):
        run([shade, *PICTURE, "--output-dir", "results"])
        pictures = [p for p in (folder / "results").rglob("*.png") if p.stat().st_size > 1000]
        require(pictures, "no picture was drawn")
        require((folder / "results" / "report.html").exists(), "there is no report.html")
    print(f"{time.monotonic() - begin:7.1f} s  from the installed package to the first picture, doctor included", flush=True)
    private_step(run, shade, "run")


def finish():
    for failure in failures:
        print(failure, file=sys.stderr)
    print("0 failed" if not failures else f"{len(failures)} failed")
    sys.exit(1 if failures else 0)
