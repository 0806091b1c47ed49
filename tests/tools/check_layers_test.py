"""Plants forbidden includes in a copy of the tree: tools/check_layers must find each of them."""
import pathlib
import shutil
import subprocess
import sys
import tempfile

source = pathlib.Path(sys.argv[1])
PLANTS = [
    ("shade/base/error.h", '#include "shade/comm/group.h"', "module 'base' may not include \"shade/comm/group.h\""),
    ("shade/comm/mesh.h", '#include "shade/cli/verb.h"', "module 'comm' may not include \"shade/cli/verb.h\""),
    ("shade/comm/mesh.cpp", "#include <toml++/toml.h>", "<toml++/toml.h> stays in shade/base/config.cpp"),
    ("shade/comm/mesh.h", "#include <torch/torch.h>", "<torch/torch.h> takes half a minute"),
    ("shade/kitchen/sink.h", "#pragma once", "'kitchen' is no module"),
]


def check(root):
    found = subprocess.run([sys.executable, source / "tools/check_layers", root], capture_output=True, text=True)
    return found.returncode, found.stdout


with tempfile.TemporaryDirectory() as folder:
    root = pathlib.Path(folder)
    shutil.copytree(source / "shade", root / "shade")
    status, output = check(root)
    assert status == 0, output
    for name, line, message in PLANTS:
        path = root / name
        before = path.read_text() if path.exists() else None
        path.parent.mkdir(exist_ok=True)
        path.write_text((before or "") + line + "\n")
        status, output = check(root)
        assert status == 1 and message in output, f"planted {line} in {name}, got: {output}"
        if before is None:
            shutil.rmtree(path.parent)
        else:
            path.write_text(before)
    print(f"{len(PLANTS)} plants, all found")
