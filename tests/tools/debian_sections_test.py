"""tools/debian_sections on a small index: every description once, packages of a source on one side, the same bytes again."""
import json
import pathlib
import subprocess
import sys
import tempfile

tool = pathlib.Path(sys.argv[1]) / "tools/debian_sections"
SECTIONS = ["libs", "python", "contrib/utils", "games"]


def stanza(package, section, text, source=None):
    lines = [f"Package: {package}", f"Description: {text}", "Tag: a::b,", " c::d", "Maintainer: A <a@b.org>", f"Section: {section}"]
    return "\n".join(lines + ([f"Source: {source} (1.0)"] if source else [])) + "\n"


def made(folder, index):
    file = folder / "index"
    file.write_text("\n".join(index), encoding="utf-8")
    subprocess.run([sys.executable, tool, folder / "out", "--index", file], check=True, capture_output=True)
    return {part: (folder / "out" / part / "descriptions.jsonl").read_bytes() for part in ("pretrain", "classify", "test")}


with tempfile.TemporaryDirectory() as name:
    folder = pathlib.Path(name)
    index = [stanza(f"p{i}-{j}", SECTIONS[i % 4], f"söurce {i} part {j}", f"p{i}") for i in range(300) for j in range(3)]
    index += [stanza("p7-0", "libs", "another version"), stanza("q", "libs", "söurce 8 part 1")]  # known: left out
    files = made(folder, index)
    assert files == made(folder, index[::-1][2:] + index[-2:]), "another order of stanzas, other files"

    records = {part: [json.loads(line) for line in lines.splitlines()] for part, lines in files.items()}
    texts = [record["text"] for part in records.values() for record in part]
    assert len(texts) == len(set(texts)), "a description is there twice"
    assert "another version" not in texts
    sides = {part: {text.split()[1] for text in (r["text"] for r in found)} for part, found in records.items()}
    for one, other in (("pretrain", "classify"), ("pretrain", "test"), ("classify", "test")):
        assert not sides[one] & sides[other], f"a source is in {one} and in {other}"
    assert all(record.keys() == {"text"} for record in records["pretrain"])
    labels = {record["label"] for part in ("classify", "test") for record in records[part]}
    assert labels == {"libs", "python", "utils"}, labels
    for part, share in (("pretrain", 0.4), ("classify", 0.375), ("test", 0.075)):  # games have no label
        assert 0.5 * share < len(records[part]) / 900 < 1.5 * share, (part, len(records[part]))

    for task, text in (("describe", lambda r: r["text"].split(": ", 1)[1]),
                       ("complete", lambda r: r["prompt"].split("Description: ")[1].removesuffix("\nSection:"))):
        for part, use in (("classify", "train"), ("test", "test")):
            of_task = [json.loads(line) for line in (folder / "out" / task / use / "descriptions.jsonl").open()]
            assert all(record["maintainer"] == "A <a@b.org>" for record in of_task)
            found = [text(record) for record in of_task]
            assert sides[part] < {words.split()[1] for words in found}, f"{task}/{use} lacks sources of {part}"
            assert {r["text"] for r in records[part]} < set(found), "games are in no part of classify, but here"
            if task == "complete":
                assert {r["completion"] for r in of_task} == {" libs", " python", " utils", " games"}

    print(f"{len(texts)} records of {len(index)} packages")
