"""What TensorBoard's PyTorch plugin makes of a folder of traces, as JSON.

usage: plugin_runs.py FOLDER

The plugin's own loader, with threads in the place of its processes: each of those would import all of it again.
"""
import json
import logging
import queue
import sys
import threading

from torch_tb_profiler.profiler import loader

complaints = []


class Complaint(logging.Handler):
    def emit(self, record):
        complaints.append(record.getMessage())


class NoCache:
    cache_dir = None

    def get_remote_cache(self, path):
        return path


def main():
    loader.Process, loader.Queue = threading.Thread, queue.Queue
    loader.logger.addHandler(Complaint(logging.WARNING))
    run = loader.RunLoader("run", sys.argv[1], NoCache()).load()
    out = {"views": [view.display_name for view in run.views], "complaints": complaints, "ranks": {}}
    for rank in ("rank0", "rank1"):
        profile = run.get_profile(rank, "default")
        out["ranks"][rank] = {
            "steps": [row[0] for row in profile.overview["steps"]["rows"]],
            "operators": sorted({row["name"] for row in profile.operation_table_by_name["data"]}),
        }
    columns = ["name", "calls", "bytes"]
    together = run.get_profile("All", "default")
    for rank, table in together.comm_ops["data"].items():
        out["ranks"][rank]["collectives"] = [dict(zip(columns, row)) for row in table["rows"]]
    print(json.dumps(out))


main()
