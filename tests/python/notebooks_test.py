#!/usr/bin/env python3
"""The notebooks of examples/notebooks run as they are, with the program of the build (SHADE_BIN).

  notebooks_test.py [NAME ...]            runs them in folders of their own; a cell that fails ends it
  notebooks_test.py --write [NAME ...]    the same, and keeps the outputs in the notebooks
"""
import argparse
import os
import pathlib
import re
import sys
import tempfile

import nbformat
from nbclient import NotebookClient

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDER = ROOT / "examples" / "notebooks"


def run(name, environment):
    """-> the notebook with what its cells print now."""
    notebook = nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)
    with tempfile.TemporaryDirectory() as place:
        NotebookClient(notebook, timeout=900, resources={"metadata": {"path": place}}).execute(env=environment)
        for cell in notebook.cells:
            cell.metadata.clear()  # when it ran
            if "outputs" in cell:  # a bar of widgets is nothing without them
                cell.outputs = [output for output in cell.outputs if not any("widget" in kind for kind in output.get("data", {}))]
            for output in cell.get("outputs", []):
                if "text" in output:  # a progress bar writes its line again and again
                    output["text"] = re.sub(r"[^\n]*\r(?!\n)", "", output["text"]).replace(place, ".")
    notebook.metadata.pop("widgets", None)  # the state of bars
    return notebook


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "python"), "SHADE_BIN": os.path.abspath(os.environ["SHADE_BIN"]),
                   "TOKENIZERS_PARALLELISM": "false"}
    for name in options.names or sorted(path.stem for path in FOLDER.glob("*.ipynb")):
        notebook = run(name, environment)
        kept = nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)
        if options.write:
            nbformat.write(notebook, FOLDER / f"{name}.ipynb")
        elif not any(cell.get("outputs") for cell in kept.cells):
            sys.exit(f"{name} is kept without outputs; run notebooks_test.py --write {name}")
        print(f"{name}: {sum(cell.cell_type == 'code' for cell in notebook.cells)} cells")


if __name__ == "__main__":
    main()
