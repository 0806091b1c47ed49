#!/usr/bin/env python3
"""docs/results/figures.toml describes the figures of our documents, and tools/figures finds what is wrong or old.

    figures_test.py SOURCE_ROOT
"""
import pathlib
import subprocess
import sys
import tempfile

PAGE = """# Page

## Cost of a step
| size | time | memory |
|---|---|---|
| 1 | 2.5 ms | 3 MiB |
| 2 | 5.0 ms | 6 MiB |
"""
ENTRY = """[sources]
code = ["code"]

[[figure]]
page = "README.md"
anchor = "cost-of-a-step"
begins = "| size |"
command = "bench/cost.py"
sources = "code"
"""


class Repository:
    def __init__(self, tool):
        self.tool = tool
        self.folder = tempfile.TemporaryDirectory(prefix="shade_figures_")
        self.root = pathlib.Path(self.folder.name)
        self.git("init", "-q")
        for name, text in {"README.md": PAGE, "docs/results/figures.toml": ENTRY, "code/a.cpp": "1\n", "bench/cost.py": "",
                           "CMakeLists.txt": "project(shade VERSION 2.0 LANGUAGES CXX)\n"}.items():
            self.write(name, text)
        self.commit()

    def write(self, name, text):
        (self.root / name).parent.mkdir(parents=True, exist_ok=True)
        (self.root / name).write_text(text)

    def git(self, *words):
        subprocess.run(["git", "-c", "user.name=test", "-c", "user.email=test@localhost", *words], cwd=self.root, check=True)

    def commit(self):
        self.git("add", "-A")
        self.git("commit", "-q", "-m", "change")

    def run(self, *options):
        done = subprocess.run([self.tool, "--root", self.root, *options], capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr


def expect(condition, words):
    if not condition:
        sys.exit(f"failed: {words}")


def check_of(tool, file, text, words):
    """--check fails and says so if a file has another text."""
    repository = Repository(tool)
    repository.write(file, text)
    status, said = repository.run("--check")
    expect(status == 1 and words in said, f"'{words}' was expected with status 1; found {status}: {said}")


def main(root):
    tool = root / "tools" / "figures"
    done = subprocess.run([tool, "--check"], capture_output=True, text=True)
    print(done.stdout + done.stderr)
    expect(done.returncode == 0, "docs/results/figures.toml and the documents")

    repository = Repository(tool)
    expect(repository.run("--check")[0] == 0, "a right manifest")
    expect("0 of 1 figures are older" in repository.run()[1], "a figure as new as its code")
    repository.write("code/a.cpp", "2\n")
    repository.commit()
    expect("1 commits changed its sources since" in repository.run("--older")[1], "a figure older than its code")
    repository.write("README.md", PAGE.replace("2.5 ms", "2.4 ms"))
    repository.commit()
    expect("0 of 1 figures are older" in repository.run()[1], "a figure measured again")
    repository.write("docs/results/figures.toml", ENTRY + 'version = "1.0"\n')
    expect("measured with 1.0, now 2.0" in repository.run()[1], "a figure of another version")

    manifest = "docs/results/figures.toml"
    check_of(tool, manifest, ENTRY.replace("README.md", "GONE.md"), "there is no such page")
    check_of(tool, manifest, ENTRY.replace("cost-of-a-step", "another"), "the page has no heading 'another'")
    check_of(tool, manifest, ENTRY.replace("| size |", "| width |"), "no table, picture or block of that section begins so")
    check_of(tool, manifest, ENTRY.replace("bench/cost.py", "bench/gone.py"), "bench/gone.py, which is not there")
    check_of(tool, manifest, ENTRY.replace('"code"]', '"gone"]'), "there is no gone")
    check_of(tool, manifest, ENTRY.replace('command = "bench/cost.py"', ""), "expected a command")
    check_of(tool, "README.md", PAGE + "\n## More\n| a | b |\n|---|---|\n| x | 1 |\n| y | 2 |\n| z | 3 |\n", "has no entry")
    check_of(tool, "README.md", PAGE + "\n![Loss](loss.png)\n", "has no entry")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]).resolve())
