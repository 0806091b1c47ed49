"""Plants local names that occur twice or hide those of base in a copy of the tree: tools/check_names must find each."""
import pathlib
import shutil
import subprocess
import sys
import tempfile

source = pathlib.Path(sys.argv[1])
LOCAL = "namespace shade::nn {{\nnamespace {{\n{}\n}}  // namespace\n}}  // namespace shade::nn\n"
PLANTS = [
    ("int twice(int a) { return a; }", "double twice(double a) { return a; }", "each has a local 'twice'"),
    ("constexpr double kTwice = 1;", "struct kTwice {", "each has a local 'kTwice'"),
    ("std::string percent(double share) {", "", "the local 'percent' hides the function of shade/base"),
]


def check(root):
    found = subprocess.run([sys.executable, source / "tools/check_names", root], capture_output=True, text=True)
    return found.returncode, found.stdout


with tempfile.TemporaryDirectory() as folder:
    root = pathlib.Path(folder)
    shutil.copytree(source / "shade", root / "shade")
    status, output = check(root)
    assert status == 0, output
    for first, second, message in PLANTS:
        for name, line in (("planted_one.cpp", first), ("planted_two.cpp", second)):
            (root / "shade/nn" / name).write_text(LOCAL.format(line))
        status, output = check(root)
        assert status == 1 and message in output, f"planted {first} and {second}, got: {output}"
    print(f"{len(PLANTS)} plants, all found")
