#!/usr/bin/env python3
"""Builds deploy/Containerfile with podman, from the Debian package in build/release/packages, and uses the image.

  container_test.py [--runtime runc]

As root, with podman, runc and debootstrap. The base image is a root of debootstrap, so no registry is needed. Images are in
build/roots/containers, and are removed afterwards.
"""
import argparse
import json
import pathlib
import shutil
import subprocess
import tempfile

from debian_root import ROOTS, SOURCE, smallest
from first_minutes import PRIVATE_STEP, checked, failures, finish, require, timed

IMAGE, BASE = "shade", "shade_base"


class Podman:
    def __init__(self, runtime):
        self.global_words = ["podman", "--root", ROOTS / "containers", "--runroot", ROOTS / "containers_run", "--runtime", runtime]
        # Without CAP_SYS_RESOURCE podman's defaults, which may be above this process's limits, are refused.
        self.limits = ["--ulimit", "nofile=4096:4096", "--ulimit", "nproc=4096:4096"]

    def __call__(self, *words, status=0):
        words = [str(word) for word in (*self.global_words, *words)]
        return checked(subprocess.run(words, cwd=SOURCE, capture_output=True, text=True), words, status)

    def run(self, *words, options=()):
        return self("run", "--rm", "--pull", "never", *self.limits, *options, IMAGE, *words)


def build(podman):
    with tempfile.TemporaryDirectory() as folder:
        archive = pathlib.Path(folder) / "root.tar"
        subprocess.run(["tar", "-C", smallest(), "-cf", archive, "."], check=True)
        podman("import", "--quiet", archive, BASE)
    with timed("podman build"):
        podman("build", "--quiet", "--isolation", "chroot", "--pull-never", "--from", f"localhost/{BASE}",
               "-f", "deploy/Containerfile", "-t", IMAGE, ".")
    if failures:
        finish()
    (image,) = json.loads(podman("image", "inspect", IMAGE))
    print(f"image: {image['Size'] / 1e6:.0f} MB")
    require(image["Config"]["User"] == "shade", "the image's user is", image["Config"].get("User"))


def use(podman, data):
    with timed("podman run shade doctor"):
        said = podman.run("doctor", options=["--shm-size", "2g"])
        require("Training can run on this machine" in said, said)
    with timed("a private step in the image's own folder"):
        said = podman.run(*PRIVATE_STEP, "--output", "run")
        require("epsilon" in said, said)
    # As deploy/Containerfile says: the folder of the caller, by the caller's own number.
    data.chmod(0o700)
    shutil.chown(data, 1234, 1234)
    with timed("a private step in a mounted folder"):
        podman.run(*PRIVATE_STEP, "--output", "run", "--ranks", "2",
                   options=["--user", "1234:1234", "--shm-size", "2g", "-v", f"{data}:/data"])
        require((data / "run/metrics.jsonl").exists(), "the mounted folder has no run")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runtime", default="runc")
    options = parser.parse_args()
    podman = Podman(options.runtime)
    build(podman)
    with tempfile.TemporaryDirectory() as data:
        use(podman, pathlib.Path(data))
    podman("rmi", "--all", "--force")
    finish()


if __name__ == "__main__":
    main()
