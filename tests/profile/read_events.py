"""What TensorBoard reads of a folder of event files, as JSON.

usage: read_events.py FOLDER
"""
import json
import sys

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator


def main():
    events = EventAccumulator(sys.argv[1], size_guidance={"scalars": 0, "tensors": 0}).Reload()
    tags = events.Tags()
    print(json.dumps({
        "scalars": {tag: [[e.step, e.value, e.wall_time] for e in events.Scalars(tag)] for tag in tags["scalars"]},
        "tensors": {tag: [e.tensor_proto.string_val[0].decode() for e in events.Tensors(tag)]
                    for tag in tags["tensors"]},
        "plugins": {tag: events.SummaryMetadata(tag).plugin_data.plugin_name for tag in tags["tensors"]},
    }))


main()
