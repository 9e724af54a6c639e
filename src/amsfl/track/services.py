"""Trackers of ours.

TensorBoard: event files beside the record, by its own writer; look with `tensorboard --logdir runs`.
MLflow: where MLFLOW_TRACKING_URI says, in the experiment MLFLOW_EXPERIMENT_NAME or `amsfl`.
Weights & Biases: in the project WANDB_PROJECT or `amsfl`; WANDB_MODE=offline keeps it on this machine.
"""

import os
import time
from pathlib import Path

from amsfl.core import need
from amsfl.core.records import Json
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


def mlflow() -> Tracker:
    library = need("mlflow", "mlflow", "The tracker mlflow")
    entities = need("mlflow.entities", "mlflow", "The tracker mlflow")

    def begin(info: RunInfo) -> RunCallbacks:
        client = library.MlflowClient()
        name = os.environ.get("MLFLOW_EXPERIMENT_NAME", "amsfl")
        experiment = client.get_experiment_by_name(name)
        experiment_id = experiment.experiment_id if experiment else client.create_experiment(name)
        run = client.create_run(experiment_id, run_name=info.title).info.run_id
        params = [entities.Param(key, str(value)[:500]) for key, value in info.settings.items()]
        client.log_batch(run, params=params)

        def on_round(record: RoundRecord) -> None:
            now = int(1000 * time.time())
            values = numbers(record, info.clock).items()
            client.log_batch(run, [entities.Metric(key, value, now, record.round) for key, value in values])

        def on_end(summary: Summary | None) -> None:
            if summary is not None:
                client.set_tag(run, "amsfl.status", summary.status)
            finished = summary is not None and summary.status == "finished"
            client.set_terminated(run, "FINISHED" if finished else "KILLED" if summary is None else "FAILED")

        return RunCallbacks(on_round, on_end)

    return Tracker("mlflow", begin)


def wandb() -> Tracker:
    library = need("wandb", "wandb", "The tracker wandb")

    def begin(info: RunInfo) -> RunCallbacks:
        home: Json = {"dir": str(info.out)} if info.out else {}
        run = library.init(
            project=os.environ.get("WANDB_PROJECT", "amsfl"),
            name=info.title,
            config=info.settings,
            reinit="create_new",
            **home,
        )

        def on_round(record: RoundRecord) -> None:
            run.log(numbers(record, info.clock), step=record.round)

        def on_end(summary: Summary | None) -> None:
            run.summary["status"] = "stopped" if summary is None else summary.status
            run.finish(exit_code=0 if summary is not None and summary.status == "finished" else 1)

        return RunCallbacks(on_round, on_end)

    return Tracker("wandb", begin)
