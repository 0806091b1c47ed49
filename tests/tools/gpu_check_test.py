"""tools/gpu_check on the CPU: it passes, doesn't repeat what has passed, repeats it for another program, and fails with one that fails.

usage: gpu_check_test.py ROOT SHADE
"""
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

root, shade = map(pathlib.Path, sys.argv[1:3])
with tempfile.TemporaryDirectory() as folder:
    output = pathlib.Path(folder) / "out"

    def kit(program, *parts):
        done = subprocess.run([root / "tools/gpu_check", "--device", "cpu", "--ranks", "2", "--size", "small", "--shade", program,
                               "--output", output, *parts], capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr, json.loads((output / "verdict.json").read_text())

    status, text, verdict = kit(shade, "machine", "parity")
    assert status == 0 and verdict["parts"] == {"machine": True, "parity": True}, text
    assert "auto: weights, device against CPU" in (output / "index.html").read_text()
    assert "(before)" not in text, text
    written = (output / "parity/result.json").stat().st_mtime_ns
    status, text, verdict = kit(shade, "parity", "sharding")
    assert status == 0 and text.count("(before)") == 2 and verdict["parts"]["sharding"], text
    assert (output / "parity/result.json").stat().st_mtime_ns == written, "a part that had passed was run again"

    broken = pathlib.Path(folder) / "shade"
    broken.write_text(f'#!/bin/sh\ncase "$*" in *--shard\\ zero2*) set -- "$@" --seed 1;; esac\nexec {shade} "$@"\n')
    broken.chmod(0o755)
    status, text, verdict = kit(broken, "sharding")
    assert status == 1 and verdict["parts"] == {"sharding": False}, text
    assert "zero2 on 2 ranks: losses against 1" in text and "zero3 on 2 ranks" not in text, text
    shutil.rmtree(output)
print("gpu_check passes, remembers and fails as it should")
