"""TensorBoard: event files beside the record, by its own writer; look with `tensorboard --logdir runs`."""

import time
from pathlib import Path

from amsfl.core import need
from amsfl.record import RoundRecord, Summary
from amsfl.track.base import RunCallbacks, RunInfo, Tracker, numbers


def tensorboard() -> Tracker:
    """RUN/tensorboard/START, or tensorboard/TITLE/START where the run leaves no record."""
    files = need("tensorboard.summary.writer.event_file_writer", "tensorboard", "The tracker tensorboard")
    events = need("tensorboard.compat.proto.event_pb2", "tensorboard", "The tracker tensorboard")
    summaries = need("tensorboard.compat.proto.summary_pb2", "tensorboard", "The tracker tensorboard")

    def begin(info: RunInfo) -> RunCallbacks:
        home = info.out / "tensorboard" if info.out else Path("tensorboard") / info.title
        writer = files.EventFileWriter(str(home / time.strftime("%Y%m%d-%H%M%S")))

        def on_round(record: RoundRecord) -> None:
            values = [
                summaries.Summary.Value(tag=tag, simple_value=value)
                for tag, value in numbers(record, info.clock).items()
            ]
            what = summaries.Summary(value=values)
            writer.add_event(events.Event(step=record.round, wall_time=time.time(), summary=what))

        def on_end(summary: Summary | None) -> None:
            writer.close()

        return RunCallbacks(on_round, on_end)

    return Tracker("tensorboard", begin)
