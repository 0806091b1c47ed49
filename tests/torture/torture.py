#!/usr/bin/env python3
"""Training runs that meet random accidents, and what must hold for each of them.

A case is a function of its seed: a recipe, a way to start it, and a few rounds of accidents (signals, failing storage, a
full disk, a clock that jumps, damaged files, two runs in one folder, a copy of the folder that is continued as well).
Afterwards the same command is repeated until it ends well or is refused. A case passes if

  - nothing hangs, and no process is left;
  - the weights are those of the undisturbed run, byte by byte, or the run was refused with a reason (after damage only);
  - no process dies of a fault of its own (SIGSEGV, SIGABRT, a backtrace);
  - whole checkpoints stay until newer ones replace them; the ledger only grows;
  - no step of a private run has the noise of another sum.

  torture.py --seed 7                       one case, with its plan
  torture.py --cases 500 --state FILE       seeds that FILE doesn't have yet; a line of JSON for each
  torture.py --summary --state FILE         counts by accident and verdict
  torture.py --self-check                   faults are planted, and each must be found
"""
import argparse
import concurrent.futures
import errno
import hashlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

STEPS = 30
LIMIT_S = 150  # for a run of 1 to 4 s: longer is a hang, even on a busy machine
ORPHAN_S = 25  # ranks whose launcher was killed end by themselves within the time limit for peers
MARK = "SHADE_TORTURE_CASE"

COMMON = ["--from-scratch", "--steps", str(STEPS), "--batch-size", "6", "--micro-batch", "2", "--threads", "1",
          "--peak-gflops", "100", "--log-every", "1", "--lr", "1e-2"]
LINEAR = ["--model", "linear-nano", "--synthetic", "--records", "30"]
LLAMA = ["--model", "llama-nano", "--task", "lm", "--seq-length", "8", "--synthetic", "--records", "30"]
TEXTS = ["--model", "llama-nano", "--vocab-size", "260", "--task", "lm", "--seq-length", "8", "--data-folder", "texts"]
SEEDED = ["--dp", "flash_bookkeeping", "--noise-seed", "3", "--delta", "1e-3"]
SECRET = ["--dp", "flash_bookkeeping", "--sigma", "1", "--delta", "1e-3"]
ADAPTIVE = ["--clip-style", "adaptive"]
MOMENTUM = ["--optimizer", "sgd", "--momentum", "0.9"]

# ranks, strategy, options
VARIANTS = [
    (1, "none", LINEAR),
    (1, "none", LINEAR + SEEDED + MOMENTUM),
    (1, "none", LINEAR + SECRET),
    (1, "none", TEXTS + SEEDED),
    (1, "none", TEXTS + ["--save-every", "3", "--keep", "1"]),
    (1, "none", LLAMA + SEEDED + ADAPTIVE + ["--lora-rank", "2"]),
    (2, "ddp", LINEAR + MOMENTUM),
    (2, "ddp", LINEAR + SEEDED + ["--save-every", "3", "--keep", "3"]),
    (2, "zero2", LINEAR + SEEDED + ADAPTIVE),
    (2, "zero2", LLAMA + ["--eval-records", "4", "--eval-every", "7"]),
    (2, "zero3", LINEAR + SEEDED + MOMENTUM + ADAPTIVE),
    (2, "zero3", LLAMA + SEEDED + ["--lora-rank", "2", "--eval-rate", "0.2", "--eval-every", "7"]),
    (2, "zero3", LINEAR + SECRET + ADAPTIVE),
    (2, "zero3", TEXTS + SECRET),
    (2, "zero3", LINEAR),
]

FATAL = re.compile(r"terminate called|Segmentation fault|core dumped|Exception raised from|frame #\d|\[internal:|"
                   r"AddressSanitizer|runtime error:|std::bad_alloc|stack smashing")
OWN_FAULTS = {signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGTRAP}

# Every file of a run, by a pattern below its folder.
KINDS = {"LATEST": "run/checkpoints/LATEST", "manifest": "run/checkpoints/0*/manifest.json",
         "rank file": "run/checkpoints/0*/rank_*", "frozen": "run/checkpoints/0*/frozen_*",
         "checkpoint": "run/checkpoints/0*", "checkpoints": "run/checkpoints", "lock": "run/checkpoints/.lock",
         "ledger": "run/ledger", "key": "run/key", "recipe": "run/recipe.toml", "metrics": "run/metrics.jsonl",
         "events": "run/events*", "token cache": "texts/.shade/**/*", "export": "export/*"}
# What a refusal names, if not the kind. Without its checkpoints a run begins anew, and what is there stands in its way.
AROUND = {"checkpoint", "ledger", "export"}
NAMED = {"LATEST": AROUND, "manifest": AROUND, "rank file": AROUND, "frozen": AROUND, "checkpoints": AROUND, "checkpoint": AROUND,
         "lock": {".lock"}, "token cache": {".shade", "cache"}}
HOWS = ["flip", "cut", "empty", "delete", "append", "directory"]
WRITERS = ["metrics.jsonl", "events.out", "ledger", "key", "recipe.toml", "LATEST", "manifest", "rank_", "frozen_",
           "/checkpoints", "/export", ".shade", "/run"]


class Broken(Exception):
    """What must hold doesn't."""


def plan_of(seed):
    rng = random.Random(seed)
    variant = rng.randrange(len(VARIANTS))
    ranks = VARIANTS[variant][0]
    rounds = []
    kinds = ["signal"] * 8 + ["fault"] * 5 + ["disk full"] * 3 + ["clock"] * 2 + ["damage"] * 7 + ["two runs"] * 2 + ["fork"] * 2
    for _ in range(rng.randint(1, 3)):
        kind = rng.choice(kinds)
        accident = {"kind": kind}
        if kind in ("damage", "fork"):  # first something must be there
            accident["run"] = plan_signal(rng, ranks) if rng.random() < 0.8 else None
        if kind == "signal":
            accident.update(plan_signal(rng, ranks))
        elif kind == "fault":
            accident.update(call=rng.choice(["open", "write", "write", "fsync", "rename"]), file=rng.choice(WRITERS),
                            nth=rng.choice([1, 1, 2, 3, rng.randint(4, 40)]),
                            errno=rng.choice([errno.EIO, errno.ENOSPC, errno.EINTR, errno.EDQUOT]), lasts=0)
        elif kind == "disk full":
            accident.update(call="write", file=rng.choice(WRITERS + ["/run"] * 4), nth=rng.randint(1, 30),
                            errno=errno.ENOSPC, lasts=1)
        elif kind == "clock":
            accident.update(days=rng.choice([-400, -1, 1, 400]), after=round(rng.uniform(0, 1.5), 2))
        elif kind == "damage":
            accident.update(prefer=rng.sample(list(KINDS), len(KINDS)), how=rng.choice(HOWS), pick=rng.random(), at=rng.random(),
                            bit=rng.randrange(8))
        elif kind == "two runs":
            accident["delay"] = round(rng.uniform(0, 1.5), 2)
        elif kind == "fork":
            accident["changed"] = rng.random() < 0.5
        rounds.append(accident)
    return {"seed": seed, "variant": variant, "launch": rng.random() < 0.4, "restarts": rng.choice([0, 0, 2]),
            "save_every": rng.choice([2, 5, 5, 0]), "export": rng.random() < 0.5, "rounds": rounds}


def plan_signal(rng, ranks):
    how = rng.choice(["KILL", "KILL", "TERM", "TERM", "INT", "STOP", "STOP+CONT"])
    target = rng.choice(["launcher"] + [f"rank {r}" for r in range(ranks)])
    if how == "STOP" and (target == "launcher" or ranks == 1):
        how = "STOP+CONT"  # nobody is left who could notice
    when = {"step": rng.randint(0, STEPS - 1)} if rng.random() < 0.7 else {"share": round(rng.uniform(0, 0.9), 3)}
    return {"signal": how, "target": target, "when": when, "pause": round(rng.uniform(0.1, 2), 2),
            "twice": rng.random() < 0.15}


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def step_of(checkpoint):
    return int(checkpoint.split("_step_")[1])


def processes(mark):
    """{pid: its variables} of processes that belong to the case."""
    found = {}
    wanted = f"{MARK}={mark}".encode()
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            variables = Path(f"/proc/{entry}/environ").read_bytes().split(b"\0")
            state = Path(f"/proc/{entry}/stat").read_text().rsplit(")", 1)[1].split()[0]
        except (OSError, IndexError):
            continue
        if wanted in variables and state != "Z":
            found[int(entry)] = variables
    return found


class Ledger:
    """The lines of a ledger that are whole: what was spent, with which noise, on which sums."""

    def __init__(self, content):
        self.steps, self.diverged, self.incarnations = {}, 0, 0
        fresh = {}
        for line in content.split(b"\n"):
            try:
                record = json.loads(line[:line.rindex(b" ")])
            except ValueError:
                continue
            if "fresh" in record:
                fresh[record["incarnation"]] = (record["key"], record["fresh"])
                self.incarnations += 1
            if "sum" in record and record.get("incarnation") in fresh:
                self.steps[fresh[record["incarnation"]] + (record["step"],)] = record["sum"]
            self.diverged += "diverged" in record


class State:
    """What a run directory holds between two runs."""

    def __init__(self, run):
        ledger = run / "ledger"
        self.ledger = ledger.read_bytes() if ledger.is_file() else b""
        self.checkpoints = {}
        folder = run / "checkpoints"
        for place in sorted(folder.glob("0*")) if folder.is_dir() else []:
            if (place / "manifest.json").is_file():
                self.checkpoints[place.name] = {f.name: digest(f) for f in sorted(place.iterdir()) if f.is_file()}


class Bench:
    """The program under test, and the undisturbed runs, each made once."""

    def __init__(self, options):
        self.shade, self.library, self.work = options.shade, options.accidents, Path(options.work)
        self.work.mkdir(parents=True, exist_ok=True)
        self.version = subprocess.run([self.shade, "--version"], capture_output=True, text=True).stdout.split("\n")[0]
        self.lock = threading.Lock()
        self.references = {}

    def reference(self, plan):
        key = json.dumps([VARIANTS[plan["variant"]], plan["save_every"], self.version])
        with self.lock:
            if key not in self.references:
                place = self.work / ("reference_" + hashlib.sha256(key.encode()).hexdigest()[:16])
                if not (place / "seconds").exists():
                    shutil.rmtree(place, ignore_errors=True)
                    case = Case(self, {**plan, "launch": False, "export": True, "rounds": []}, place, f"reference {key}")
                    begin = time.monotonic()
                    status, output = case.run()
                    if status != 0:
                        raise RuntimeError(f"the undisturbed run ends with {status}:\n{output}")
                    (place / "seconds").write_text(str(time.monotonic() - begin))
                self.references[key] = {**remains(place / "run", place / "export"), "seconds": float((place / "seconds").read_text())}
        return self.references[key]


def remains(run, export):
    """What must be equal: the newest checkpoint and the exported weights."""
    latest = run / "checkpoints/LATEST"
    named = latest.read_text(errors="replace").split() if latest.is_file() else []
    there = sorted(p.name for p in (run / "checkpoints").glob("0*") if (p / "manifest.json").is_file())
    newest = named[0] if named and named[0] in there else there[-1]  # a finished run doesn't mend LATEST
    out = {"step": newest.split("_step_")[1]}
    for file in (run / "checkpoints" / newest).glob("*.safetensors"):
        out[file.name] = digest(file)
    if (export / "model.safetensors").exists():
        out["export"] = digest(export / "model.safetensors")
    return out


class Case:
    def __init__(self, bench, plan, place, mark=None, plant=None):
        self.bench, self.plan, self.place, self.plant = bench, plan, place, plant
        self.ranks, self.strategy, self.options = VARIANTS[plan["variant"]]
        self.mark = mark or f"{os.getpid()}-{plan['seed']}-{time.monotonic_ns()}"
        self.rng = random.Random(plan["seed"] + 1)
        self.damaged, self.harmed = set(), set()  # names of checkpoints; kinds of files
        self.sums = {}
        self.log = []
        place.mkdir(parents=True)
        if "texts" in self.options:
            (place / "texts").mkdir()
            words = random.Random(1)
            with open(place / "texts/a.jsonl", "w") as out:
                for i in range(40):
                    out.write(json.dumps({"text": f"record {i} " + "x" * words.randrange(9)}) + "\n")
        self.before = State(place / "run")

    @property
    def is_private(self):
        return "--dp" in self.options

    @property
    def is_secret(self):
        return "--sigma" in self.options

    @property
    def keep(self):
        return int(self.options[self.options.index("--keep") + 1]) if "--keep" in self.options else 2

    # ---- one start of the program

    def command(self, output="run", export="export", more=()):
        own = {"--save-every", "--keep"} & set(self.options)
        words = [self.bench.shade, "train", *COMMON, *self.options, "--output", output, *more]
        if not own:
            words += ["--save-every", str(self.plan["save_every"]), "--keep", str(self.keep)]
        if self.strategy != "none":
            words += ["--shard", self.strategy]
        if self.ranks > 1:
            words += ["--comm.peer-timeout", "6s"]
        if self.plan["export"]:
            words += ["--export", export]
        if self.plan["launch"]:
            return [self.bench.shade, "launch", "-n", str(self.ranks), "--max-restarts", str(self.plan["restarts"]),
                    "--peer-timeout", "6s", "--", *words]
        return words + (["--ranks", str(self.ranks)] if self.ranks > 1 else [])

    def start(self, variables=None, **command):
        # The library is there without an accident too: LD_PRELOAD is part of what must be equal for a step to be made again.
        environment = {**os.environ, MARK: self.mark, "LD_PRELOAD": self.bench.library, **(variables or {})}
        output = open(self.place / f"output_{len(self.log)}", "w+")
        words = self.command(**command)
        self.log.append(" ".join(words))
        process = subprocess.Popen(words, cwd=self.place, env=environment, stdout=output, stderr=subprocess.STDOUT,
                                   stdin=subprocess.DEVNULL, start_new_session=True)
        process.said = output
        return process

    def finish(self, process, sent=()):
        """Waits for it; its exit status (negative: a signal) and all it said."""
        try:
            status = process.wait(LIMIT_S if self.plant != "hang" else 3)
        except subprocess.TimeoutExpired:
            self.end_all()
            process.wait()
            raise Broken(f"hang: no end within {LIMIT_S} s: {self.log[-1]}")
        process.said.seek(0)
        output = process.said.read()
        process.said.close()
        self.expect_no_orphans()
        if found := FATAL.search(output):
            raise Broken(f"'{found.group()}' in the output of: {self.log[-1]}")
        died = -status if status < 0 else status - 128 if 128 < status < 160 else 0
        if died in OWN_FAULTS and died not in sent:
            raise Broken(f"died of {signal.Signals(died).name}: {self.log[-1]}")
        if status not in (0, 1, 2, 75, 147) and not (died and (died in sent or died in (9, 15))):
            raise Broken(f"ended with status {status}: {self.log[-1]}")
        if status in (1, 2) and not output.strip():
            raise Broken(f"ended with status {status} and said nothing: {self.log[-1]}")
        return status, output

    def run(self, variables=None, **command):
        return self.finish(self.start(variables, **command))

    def expect_no_orphans(self):
        end = time.monotonic() + (ORPHAN_S if self.plant != "orphan" else 2)
        while processes(self.mark):
            if time.monotonic() > end:
                left = [Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ")[:120] for pid in processes(self.mark)]
                self.end_all()
                raise Broken(f"orphans {ORPHAN_S} s after the end: {left}")
            time.sleep(0.05)

    def end_all(self):
        for pid in processes(self.mark):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass

    # ---- accidents

    def signalled(self, accident):
        process = self.start()
        begin, sent = time.monotonic(), set()
        self.wait_until(accident["when"], process, begin)
        for _ in range(2 if accident["twice"] else 1):
            pid = self.target(accident["target"], process)
            if pid is None or process.poll() is not None:
                break
            for name in accident["signal"].split("+"):
                number = signal.Signals["SIG" + name]
                if name == "CONT":
                    time.sleep(accident["pause"])
                try:
                    os.kill(pid, number)
                except ProcessLookupError:
                    break
                sent.add(number)
            time.sleep(accident["pause"] / 4)
        return self.finish(process, sent)

    def wait_until(self, when, process, begin):
        seconds = self.bench.reference(self.plan)["seconds"] * when.get("share", 0)
        metrics = self.place / "run/metrics.jsonl"
        already = self.lines(metrics)
        while process.poll() is None and time.monotonic() - begin < 60:
            if "share" in when and time.monotonic() - begin >= seconds:
                return
            lines = self.lines(metrics)
            already = min(already, lines)  # of steps that are made again
            if "step" in when and lines >= max(when["step"], already + 1 if when["step"] else 0):
                return
            time.sleep(0.004)

    @staticmethod
    def lines(file):
        try:
            return file.read_bytes().count(b"\n")
        except OSError:
            return 0

    def target(self, name, process):
        if name == "launcher" or (self.ranks == 1 and not self.plan["launch"]):
            return process.pid
        wanted = b"RANK=" + name.split()[1].encode()
        for _ in range(100):
            for pid, variables in processes(self.mark).items():
                if wanted in variables and pid != process.pid:
                    return pid
            if process.poll() is not None:
                return None
            time.sleep(0.01)
        return None

    def faulty(self, accident):
        return self.run({"SHADE_ACCIDENT_CALL": accident["call"], "SHADE_ACCIDENT_FILE": accident["file"],
                         "SHADE_ACCIDENT_NTH": str(accident["nth"]), "SHADE_ACCIDENT_ERRNO": str(accident["errno"]),
                         "SHADE_ACCIDENT_LASTS": str(accident["lasts"])})

    def damage(self, accident):
        for accident["file"] in accident.pop("prefer"):  # the first that this run has by now
            found = sorted(p for p in self.place.glob(KINDS[accident["file"]])
                           if p.is_file() or accident["file"].startswith("checkpoint"))
            if found:
                break
        else:
            accident["missed"] = True
            return
        file, how = found[int(accident["pick"] * len(found))], accident["how"]
        accident["path"] = str(file.relative_to(self.place))
        self.harmed.add(accident["file"])
        if file.is_dir() and how in ("flip", "append", "directory"):
            (file / "stray").write_text("?")  # a file that nobody expects: the checkpoint is as whole as before
            return
        self.damaged.update(part for part in file.relative_to(self.place).parts if "_step_" in part)
        if accident["file"] in ("frozen", "checkpoints"):  # frozen weights are links: the same bytes in every checkpoint
            self.damaged.update(self.before.checkpoints)
        if file.is_dir():
            shutil.rmtree(file)
            return
        content = bytearray(file.read_bytes())
        at = int(accident["at"] * len(content))
        if how == "flip" and content:
            content[at] ^= 1 << accident["bit"]
        elif how == "cut":
            content = content[:at]
        elif how == "empty":
            content = b""
        elif how == "append":
            content += bytes([0] * 5) if accident["bit"] < 4 else b"{\"step\": 3}"
        if how in ("delete", "directory"):
            file.unlink()
            if how == "directory":
                file.mkdir()
        else:
            with open(file, "r+b") as out:  # in place: links stay links
                out.truncate(0)
                out.write(content)

    def two_runs(self, accident):
        first = self.start()
        time.sleep(accident["delay"])
        second = self.start()
        ends = []
        for process in (first, second):  # orphans are looked for when both are gone
            try:
                process.wait(LIMIT_S)
            except subprocess.TimeoutExpired:
                self.end_all()
                raise Broken("hang: two runs in one folder")
        for process in (first, second):
            ends.append(self.finish(process)[0])
        if 0 not in ends and not self.harmed:
            raise Broken(f"two runs in one folder, and none ends well: {ends}")

    def fork(self, accident):
        """A copy of the run directory is continued as well, perhaps with other settings."""
        if not (self.place / "run").exists():
            accident["missed"] = True
            return
        shutil.rmtree(self.place / "copy", ignore_errors=True)
        shutil.rmtree(self.place / "copy_export", ignore_errors=True)
        shutil.copytree(self.place / "run", self.place / "copy")
        more = ("--micro-batch", "3") if accident["changed"] else ()
        for _ in range(3):
            status, said = self.run(output="copy", export="copy_export", more=more)
            if status == 0:
                break
            if status == 2 and "--restart" in said and accident["changed"]:  # no checkpoint yet, and a ledger that has steps
                more += ("--restart",)
        if status != 0 and not self.harmed:
            raise Broken(f"the copy of a run is not continued: status {status}")
        if status == 0 and not accident["changed"]:
            self.compare("copy", "copy_export")
        self.note_noise(State(self.place / "copy").ledger)

    # ---- what must hold

    def note_noise(self, ledger):
        if not self.is_secret:
            return  # noise with a seed protects nothing, and comes again
        found = Ledger(ledger)
        for name, total in found.steps.items():
            if self.sums.setdefault(name, total) != total:
                raise Broken(f"step {name[2]} has the noise of another sum")
        if found.diverged and not self.harmed and not any(r["kind"] == "fork" for r in self.plan["rounds"]):
            raise Broken("a step that was made again had another sum")

    def expect_kept(self):
        """Nothing whole is lost, and the ledger only grows."""
        now = State(self.place / "run")
        if self.plant == "ledger" and self.before.ledger:
            now.ledger = now.ledger[:-1][:len(self.before.ledger) - 1]
        if self.plant == "checkpoint" and self.before.checkpoints:
            now.checkpoints = {}
        if not now.ledger.startswith(self.before.ledger):
            raise Broken(f"the ledger of {len(self.before.ledger)} bytes has {len(now.ledger)} now, and another beginning")
        whole = {name for name in now.checkpoints if name not in self.damaged}
        kept = [name for name in self.before.checkpoints if name not in self.damaged]
        for name in kept:
            if name in whole and now.checkpoints[name] != self.before.checkpoints[name]:
                raise Broken(f"checkpoint {name} changed")
            if name not in whole and not any(step_of(other) >= step_of(name) for other in whole):
                raise Broken(f"checkpoint {name} is gone, and only {sorted(whole)} are there")
        if len(whole) < min(self.keep, len(kept)):
            raise Broken(f"of {kept} only {sorted(whole)} are left")
        self.note_noise(now.ledger)
        self.look(now)

    def look(self, now):
        self.before = now
        self.damaged &= now.checkpoints.keys()  # a name that is gone may come again, whole

    def conclude(self):
        """The same command, until it ends well or is refused for the same reason twice."""
        last = None
        for _ in range(8):
            status, output = self.run()
            self.expect_kept()
            if status == 0:
                return self.compare()
            reason = re.sub(r"\d+", "", output.strip().split("\n")[-1])
            if status in (1, 2) and last == (status, reason):
                return self.refused(status, output)
            last = (status, reason)
        raise Broken(f"neither ends well nor is refused: {last}")

    def refused(self, status, output):
        reason = output.strip().split("\n")[-1]
        if not self.harmed:
            raise Broken(f"refused without damage: {reason}")
        names = set().union(*(NAMED.get(kind, {kind}) for kind in self.harmed))
        if not any(name in output for name in names):
            raise Broken(f"refused, but the reason doesn't name any of {sorted(names)}: {reason}")
        return "refused", reason

    def compare(self, run="run", export="export"):
        reference = self.bench.reference(self.plan)
        if self.plant == "result":
            for file in (self.place / run / "checkpoints").glob("*/rank_00000.safetensors"):
                file.write_bytes(file.read_bytes()[:-1] + b"?")
        found = remains(self.place / run, self.place / export)
        if found["step"] != reference["step"]:
            raise Broken(f"{run} ended well at step {found['step']} of {reference['step']}")
        if self.plan["export"] and "export" not in found:
            raise Broken(f"{run} ended well, and nothing is exported")
        wrong = [name for name, value in found.items() if reference.get(name) != value]
        if not wrong:
            return "equal", ""
        if self.is_secret:
            return "finished", ""  # its noise is nobody else's
        ledger = Ledger(State(self.place / run).ledger)
        if self.is_private and "ledger" in self.harmed and ledger.incarnations > 1:
            return "own noise", ""
        if wrong == ["export"] and "export" in self.harmed:
            return "refused", "a folder that was damaged is not exported to"
        raise Broken(f"{run} is not the undisturbed run: {wrong} differ")

    def live(self):
        self.bench.reference(self.plan)
        if self.plant == "orphan":
            subprocess.Popen(["sleep", "100"], env={**os.environ, MARK: self.mark}, start_new_session=True)
        for accident in self.plan["rounds"]:
            kind = accident["kind"]
            if kind == "signal":
                accident["ended"], _ = self.signalled(accident)
            elif kind in ("fault", "disk full"):
                accident["ended"], _ = self.faulty(accident)
            elif kind == "clock":
                accident["ended"], _ = self.run({"SHADE_ACCIDENT_CLOCK": str(accident["days"] * 86400), "SHADE_ACCIDENT_AFTER": str(accident["after"])})
            elif kind == "two runs":
                self.two_runs(accident)
            elif kind in ("damage", "fork"):
                self.signalled(accident["run"]) if accident["run"] else self.run()
                self.expect_kept()
                if kind == "damage":
                    self.damage(accident)
                    self.look(State(self.place / "run"))
                else:
                    self.fork(accident)
            self.expect_kept()
        return self.conclude()


def attempt(bench, seed, plant=None, plan=None):
    plan = plan or plan_of(seed)
    place = Path(tempfile.mkdtemp(prefix=f"case_{seed}_", dir=bench.work)) / "case"
    begin = time.monotonic()
    line = {"seed": seed, "version": bench.version, "variant": plan["variant"]}
    case = Case(bench, plan, place, plant=plant)
    try:
        line["verdict"], line["reason"] = case.live()
    except Broken as fault:
        line["verdict"], line["reason"] = "FAILED", str(fault)
    except BlockingIOError:  # the machine has no process left: nothing was learned
        line = None
    except Exception as fault:  # a fault of this program: the case is to be looked at
        line["verdict"], line["reason"] = "FAILED", f"torture.py: {type(fault).__name__}: {fault}"
    finally:
        case.end_all()
    if line is None:
        shutil.rmtree(place.parent)
        return None
    line.update(kinds=[r["kind"] for r in plan["rounds"]], rounds=plan["rounds"], seconds=round(time.monotonic() - begin, 1))
    if line["verdict"] == "FAILED" and plant is None:
        (place / "plan.json").write_text(json.dumps({**plan, "log": case.log}, indent=1))
        line["folder"] = str(place)
    else:
        shutil.rmtree(place.parent)
    return line


def self_check(bench):
    """A tier that can't fail proves nothing: each planted fault must be found."""
    plan = {"seed": 0, "variant": 1, "launch": False, "restarts": 0, "save_every": 5, "export": True, "rounds":
            [{"kind": "signal", "signal": "KILL", "target": "rank 0", "when": {"step": 12}, "pause": 0.1, "twice": False}]}
    found = 0
    for plant, words in [(None, None), ("result", "differ"), ("orphan", "orphans"), ("ledger", "the ledger"),
                         ("checkpoint", "is gone"), ("hang", "hang: no end"), ("abort", "terminate called")]:
        own = bench
        if plant in ("hang", "abort"):  # a program that stands for a broken one
            bench.reference(plan)
            own = Bench.__new__(Bench)
            own.__dict__.update(bench.__dict__)
            own.shade = str(bench.work / plant)
            Path(own.shade).write_text("#!/bin/sh\n" + ("sleep 60\n" if plant == "hang" else "echo terminate called; kill -ABRT $$\n"))
            os.chmod(own.shade, 0o755)
        line = attempt(own, 0, plant, json.loads(json.dumps(plan)))
        good = line["verdict"] == "equal" if plant is None else line["verdict"] == "FAILED" and words in line["reason"]
        found += good
        print(f"{'ok  ' if good else 'MISS'} {plant or 'nothing planted'}: {line['verdict']} {line['reason']}"[:200], flush=True)
    return found == 7


def summary(lines):
    verdicts = sorted({line["verdict"] for line in lines})
    print(f"{len(lines)} cases, {sum(l['seconds'] for l in lines) / 60:.0f} minutes, by {', '.join(sorted({l['version'] for l in lines}))}")
    print(f"{'accident':24}{'times':>7}   cases that had it: " + ", ".join(verdicts))
    named = {}
    for line in lines:
        for accident in line["rounds"]:
            detail = accident.get("signal") or accident.get("file") or ""
            if accident.get("missed"):
                detail = "(nothing there)"
            for name in {accident["kind"], f"  {accident['kind']} {detail}"}:
                named.setdefault(name.rstrip(), []).append(line["verdict"])
    for name in sorted(named, key=lambda n: (n.split()[0], n.startswith("  "), n)):
        print(f"{name:24}{len(named[name]):7}   " + ", ".join(str(named[name].count(v)) for v in verdicts))
    print(f"{'all cases':24}{len(lines):7}   " + ", ".join(str(sum(l["verdict"] == v for l in lines)) for v in verdicts))
    for line in lines:
        if line["verdict"] == "FAILED":
            print(f"FAILED seed {line['seed']}: {line['reason']}\n  {line.get('folder', '')}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shade", default=os.environ.get("SHADE_BIN", "build/release/bin/shade"), help="the program")
    parser.add_argument("--accidents", default=os.environ.get("SHADE_ACCIDENTS", "build/release/tests/accident.so"),
                        help="the library that lets storage and clocks fail")
    parser.add_argument("--work", default=os.path.join(tempfile.gettempdir(), "shade_torture"), help="folder for cases")
    parser.add_argument("--seed", type=int, help="this case alone")
    parser.add_argument("--cases", type=int, default=0, help="so many cases")
    parser.add_argument("--from", type=int, default=0, dest="first", help="beginning with this seed")
    parser.add_argument("--minutes", type=float, default=0, help="no case begins after that; 0: no limit")
    parser.add_argument("--jobs", type=int, default=1, help="cases at a time")
    parser.add_argument("--state", help="file with a line for each case; cases that it has are not repeated")
    parser.add_argument("--summary", action="store_true", help="print counts of --state")
    parser.add_argument("--self-check", action="store_true", help="plant faults that must be found")
    options = parser.parse_args()
    options.shade, options.accidents, options.work = map(os.path.abspath, (options.shade, options.accidents, options.work))

    done = []
    if options.state and os.path.exists(options.state):
        done = [json.loads(line) for line in open(options.state)]
    if options.summary:
        summary(done)
        return any(line["verdict"] == "FAILED" for line in done)
    if os.geteuid() != 0:
        raise SystemExit("torture.py finds the processes of a case by their environment, which those with a secret hide "
                         "from their own user; run it as root")
    for needed in (options.shade, options.accidents):
        if not os.path.exists(needed):
            raise SystemExit(f"{needed} is not there; build the targets shade and accident first")
    bench = Bench(options)
    if options.self_check:
        return not self_check(bench)
    if options.seed is not None:
        print(json.dumps(plan_of(options.seed), indent=1))
        line = attempt(bench, options.seed) or {"verdict": "FAILED", "reason": "no process can be started"}
        print(json.dumps(line, indent=1))
        return line["verdict"] == "FAILED"

    known = {line["seed"] for line in done}
    seeds = [s for s in range(options.first, options.first + options.cases) if s not in known]
    end = time.monotonic() + options.minutes * 60 if options.minutes else float("inf")
    lines, lock = [], threading.Lock()

    def one(seed):
        if time.monotonic() > end:
            return
        line = attempt(bench, seed)
        if line is None:
            return
        with lock:
            lines.append(line)
            if options.state:
                with open(options.state, "a") as out:
                    out.write(json.dumps(line) + "\n")
            if line["verdict"] == "FAILED":
                print(f"FAILED seed {seed}: {line['reason']}\n  kept: {line.get('folder')}\n  again: "
                      f"tests/torture/torture.py --shade {options.shade} --seed {seed}", flush=True)

    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        list(pool.map(one, seeds))
    summary(done + lines)
    return any(line["verdict"] == "FAILED" for line in done + lines)


if __name__ == "__main__":
    sys.exit(main())
