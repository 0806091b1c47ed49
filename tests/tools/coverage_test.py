"""tools/coverage on a planted lcov file: shares, the minimum, ranges of uncovered lines, files of other modules left out."""
import contextlib
import importlib.machinery
import importlib.util
import io
import pathlib
import sys

root = pathlib.Path(sys.argv[1])
sys.dont_write_bytecode = True
loader = importlib.machinery.SourceFileLoader("coverage", str(root / "tools/coverage"))
tool = importlib.util.module_from_spec(importlib.util.spec_from_loader("coverage", loader))
loader.exec_module(tool)

INFO = f"""SF:{tool.ROOT}/shade/privacy/a.cpp
DA:1,5
DA:2,0
DA:3,0
DA:7,0
end_of_record
SF:{tool.ROOT}/shade/privacy/clip/b.h
DA:1,0
DA:2,1
end_of_record
SF:{tool.ROOT}/shade/privacy/clip/b.h
DA:1,3
end_of_record
SF:{tool.ROOT}/shade/shard/c.cpp
DA:1,1
end_of_record
SF:{tool.ROOT}/shade/privacy_of_others/d.cpp
DA:1,0
end_of_record
"""


def said(modules, minimum):
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        enough = tool.report(tool.read_lines(INFO), modules, minimum)
    return enough, out.getvalue()


enough, words = said(["privacy", "shard"], 50)
assert enough and "privacy 50.0 % of 6 lines, shard 100.0 % of 1 lines; at least 50 % reached" in words, words
assert "  shade/privacy/a.cpp: 2-3 7\n" in words and "b.h" not in words and "others" not in words, words
assert not said(["privacy"], 50.1)[0]
assert said(["shard"], 100)[0]
assert not said(["nothing"], 1)[0], "a module without lines is not covered"
print("coverage: as expected")
