"""Fresh roots of Debian 12 made by debootstrap, kept in build/roots. As root, with debootstrap and a network."""
import contextlib
import os
import pathlib
import shutil
import subprocess

from first_minutes import checked, timed

SOURCE = pathlib.Path(__file__).resolve().parents[2]
ROOTS = SOURCE / "build" / "roots"
MIRROR = "http://deb.debian.org/debian"
ENTER = 'set -e; mount -t proc proc "$1/proc"; mount -t tmpfs tmpfs "$1/dev/shm"; cd /; r=$1; shift; exec chroot "$r" "$@"'


class Machine:
    """Runs words in a root of its own, with an empty environment."""

    def __init__(self, root, path="/usr/sbin:/usr/bin:/sbin:/bin", user="root"):
        self.root, self.path, self.user = root, path, user
        self.home = pathlib.Path("/root" if user == "root" else f"/home/{user}")

    def __call__(self, words, status=0, **variables):
        words = [str(word) for word in words]
        given = {"PATH": self.path, "HOME": str(self.home), "LANG": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive",
                 "OMP_WAIT_POLICY": "passive", **variables}
        inside = ["env", "-i", "-C", str(self.home), *(f"{name}={value}" for name, value in given.items()), *words]
        if self.user != "root":
            inside = ["setpriv", "--reuid", self.user, "--regid", self.user, "--init-groups", *inside]
        done = subprocess.run(["unshare", "--mount", "bash", "-c", ENTER, "enter", str(self.root), *inside],
                              capture_output=True, text=True)
        return checked(done, words, status)

    def take(self, file):
        """Copies a file of this machine into the home folder there."""
        shutil.copy(file, self.outside() / file.name)
        return self.home / file.name

    def outside(self):
        return self.root / self.home.relative_to("/")


@contextlib.contextmanager
def _made_once(name):
    """Yields the root's folder if it has yet to be made, else None; a half-made one is made anew."""
    root, done = ROOTS / name, ROOTS / f"{name}.done"
    if done.exists():
        yield None
        return
    shutil.rmtree(root, ignore_errors=True)
    ROOTS.mkdir(parents=True, exist_ok=True)
    with timed(f"the root '{name}' made"):
        yield root
    done.touch()


def smallest():
    with _made_once("smallest") as root:
        if root:
            subprocess.run(["debootstrap", "--variant=minbase", "bookworm", root, MIRROR], check=True, stdout=subprocess.DEVNULL)
            shutil.copy("/etc/resolv.conf", root / "etc")
    return ROOTS / "smallest"


def of_a_person():
    """With Python and gnuplot, and a user `person`."""
    source = smallest()
    with _made_once("person") as root:
        if root:
            subprocess.run(["cp", "-a", source, root], check=True)
            administrator = Machine(root)
            administrator(["apt-get", "update"])
            administrator(["apt-get", "install", "-y", "--no-install-recommends", "python3-venv", "gnuplot-nox", "ca-certificates"])
            administrator(["useradd", "--create-home", "--shell", "/bin/bash", "person"])
            # Where this machine trusts a proxy, the root does too.
            shutil.copy("/etc/ssl/certs/ca-certificates.crt", root / "etc/ssl/certs")
    return ROOTS / "person"


@contextlib.contextmanager
def fresh(name):
    """A copy of the person's root that is removed afterwards."""
    source, root = of_a_person(), ROOTS / name
    shutil.rmtree(root, ignore_errors=True)
    subprocess.run(["cp", "-a", source, root], check=True)
    yield root
    shutil.rmtree(root)


def pip_settings():
    """pip's configuration of this machine as far as it holds elsewhere."""
    return {name: value for name, value in os.environ.items() if name.startswith("PIP_") and name != "PIP_FIND_LINKS"}
