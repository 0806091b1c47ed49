"""The job secret in the templates of deploy/: never on a command line, and gone when a Slurm job ends.

deploy/slurm.sh runs as it is; srun, which a machine without Slurm lacks, is a script here that looks at the secret.
"""
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time

source = pathlib.Path(sys.argv[1]).resolve()
SRUN = """#!/bin/sh
stat -c 'mode %a' "$SHADE_SECRET_FILE"
cat "$SHADE_SECRET_FILE"
echo "${{SRUN_CPUS_PER_TASK:-no}} cores a task"
case "$*" in *doctor*) exit 0 ;; esac
touch trains
{then}
"""


def start(folder, then):
    srun = folder / "bin/srun"
    srun.parent.mkdir(exist_ok=True)
    srun.write_text(SRUN.format(then=then))
    srun.chmod(0o700)
    environment = {"PATH": f"{srun.parent}:{os.environ['PATH']}", "SLURM_SUBMIT_DIR": str(folder), "SLURM_JOB_ID": "7",
                   "SLURM_NNODES": "1", "SLURM_CPUS_PER_TASK": "3"}
    return subprocess.Popen(["bash", source / "deploy/slurm.sh", "recipe.toml"], cwd=folder, env=environment, text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def secrets(folder):
    return list(folder.glob(".shade-secret-*"))


with tempfile.TemporaryDirectory() as name:
    folder = pathlib.Path(name)
    (folder / ".shade-secret-7").write_text("of a node that was killed\n")
    for then, status in (("exit 0", 0), ("exit 3", 3)):
        job = start(folder, then)
        output = job.communicate(timeout=60)[0]
        assert job.returncode == status, (then, job.returncode, output)
        assert output.count("mode 600") == 2, output
        assert output.count("3 cores a task") == 2, output
        assert len(set(re.findall("^[0-9a-f]{64}$", output, re.MULTILINE))) == 1 and "was killed" not in output, output
        assert not secrets(folder), f"after '{then}': {secrets(folder)}"

    (folder / "trains").unlink()
    job = start(folder, "exec sleep 2")
    while not (folder / "trains").exists():
        time.sleep(0.05)
    assert len(secrets(folder)) == 1, secrets(folder)
    job.send_signal(signal.SIGTERM)
    job.communicate(timeout=60)
    assert job.returncode != 0 and not secrets(folder), f"after SIGTERM: {job.returncode}, {secrets(folder)}"

# Arguments are visible to all users of a host.
shown = re.compile(r"--from-literal|secret=\$\(|echo[^|]*\$SHADE_SECRET")
places = [file for part in ("deploy", "docs", "examples") for file in (source / part).rglob("*") if file.suffix in (".sh", ".yaml", ".md")]
for file in [*places, source / "SECURITY.md", source / "README.md"]:
    for number, line in enumerate(file.read_text().splitlines(), 1):
        assert not shown.search(line), f"{file.relative_to(source)}:{number}: the secret is on a command line: {line}"

manifests = {name: (source / "deploy" / name).read_text() for name in ("kubernetes.yaml", "kubernetes_gpu.yaml")}
for name, manifest in manifests.items():
    policy = next((part for part in manifest.split("\n---\n") if "kind: NetworkPolicy" in part), "")
    assert "podSelector: &pods\n    matchLabels: {job-name: shade}\n" in policy, f"deploy/{name}: no policy for the pods of the job"
    for direction in ("ingress:\n    - from:", "egress:\n    - to:"):
        assert f"{direction}\n        - podSelector: *pods\n" in policy, f"deploy/{name}: {direction} is not bound to the pods of the job"
gpu = manifests["kubernetes_gpu.yaml"]
nodes = {re.search(pattern, gpu).group(1) for pattern in (r"completions: (\d+)", r"parallelism: (\d+)", r"--nnodes (\d+)")}
gpus = {re.search(pattern, gpu).group(1) for pattern in (r"nvidia.com/gpu: (\d+)", r"--nproc-per-node (\d+)")}
assert len(nodes) == 1 and len(gpus) == 1, f"deploy/kubernetes_gpu.yaml: numbers of nodes {nodes}, of GPUs {gpus}"
assert "NOT encrypted" in gpu, "deploy/kubernetes_gpu.yaml: no warning about NCCL"
print(f"{len(places) + 2} files, 3 ends of a Slurm job")
