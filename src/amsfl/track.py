"""The numbers of every round to TensorBoard, MLflow, Weights & Biases, Prometheus, or a function of yours.

A tracker is a function that opens a run and returns two callbacks. All trackers get the same numbers. One
that fails does not stop the run: it is reported once and not called again.

TensorBoard: event files beside the record, by its own writer; look with `tensorboard --logdir runs`.
MLflow: where MLFLOW_TRACKING_URI says, in the experiment MLFLOW_EXPERIMENT_NAME or `amsfl`.
Weights & Biases: in the project WANDB_PROJECT or `amsfl`; WANDB_MODE=offline keeps it on this machine.
"""

import os
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from amsfl.core import Kind, Remark, need, parse_names
from amsfl.core.records import Json
from amsfl.record import RoundRecord, Summary


class RunInfo(NamedTuple):
    """What a tracker knows of a run before its first round."""

    title: str  # as in digits-amsfl-0
    settings: Json
    clock: str
    out: Path | None = None  # the folder of its record


class RunCallbacks(NamedTuple):
    """The two callbacks of one run; `on_end` gets None if the run was stopped."""

    on_round: Callable[[RoundRecord], None]
    on_end: Callable[[Summary | None], None]


Tracker = Callable[[RunInfo], RunCallbacks]
TrackerSpec = str | Tracker | Sequence[str | Tracker] | None


def tensorboard() -> Tracker:
    """RUN/tensorboard/START, or tensorboard/TITLE/START where the run leaves no record."""
    files = need("tensorboard.summary.writer.event_file_writer", "The tracker tensorboard")
    events = need("tensorboard.compat.proto.event_pb2", "The tracker tensorboard")
    summaries = need("tensorboard.compat.proto.summary_pb2", "The tracker tensorboard")

    def begin(info: RunInfo) -> RunCallbacks:
        home = info.out / "tensorboard" if info.out else Path("tensorboard") / info.title
        writer = files.EventFileWriter(str(home / time.strftime("%Y%m%d-%H%M%S")))

        def on_round(record: RoundRecord) -> None:
            tagged = numbers(record, info.clock).items()
            what = summaries.Summary(
                value=[summaries.Summary.Value(tag=tag, simple_value=value) for tag, value in tagged]
            )
            writer.add_event(events.Event(step=record.round, wall_time=time.time(), summary=what))

        return RunCallbacks(on_round, lambda summary: writer.close())

    return begin


def mlflow() -> Tracker:
    library = need("mlflow", "The tracker mlflow")
    entities = need("mlflow.entities", "The tracker mlflow")

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

    return begin


def wandb() -> Tracker:
    library = need("wandb", "The tracker wandb")

    def begin(info: RunInfo) -> RunCallbacks:
        where: Json = {"dir": str(info.out)} if info.out else {}
        project = os.environ.get("WANDB_PROJECT", "amsfl")
        run = library.init(
            project=project, name=info.title, config=info.settings, reinit="create_new", **where
        )

        def on_end(summary: Summary | None) -> None:
            run.summary["status"] = "stopped" if summary is None else summary.status
            run.finish(exit_code=0 if summary is not None and summary.status == "finished" else 1)

        return RunCallbacks(
            lambda record: run.log(numbers(record, info.clock), step=record.round),
            on_end,
        )

    return begin


def prometheus() -> Tracker:
    """A gauge a number at http://127.0.0.1:9100/metrics; AMSFL_METRICS_PORT names another port."""
    library = need("prometheus_client", "The tracker prometheus")
    gauges: dict[str, Any] = {}

    def begin(info: RunInfo) -> RunCallbacks:
        server, _ = library.start_http_server(int(os.environ.get("AMSFL_METRICS_PORT", 9100)), "127.0.0.1")

        def on_round(record: RoundRecord) -> None:
            for tag, value in ({"round": record.round} | numbers(record, info.clock)).items():
                name = "amsfl_" + "".join(sign if sign.isalnum() else "_" for sign in tag)
                if name not in gauges:
                    gauges[name] = library.Gauge(name, tag)
                gauges[name].set(value)

        return RunCallbacks(on_round, lambda summary: server.shutdown())

    return begin


TRACKERS = {"tensorboard": tensorboard, "mlflow": mlflow, "wandb": wandb, "prometheus": prometheus}
_KIND: Kind[Any] = Kind("tracker", Callable, TRACKERS)  # type: ignore[arg-type]  # any function


def trackers_of(spec: TrackerSpec) -> list[Tracker]:
    """`tensorboard,mlflow`, `module:attribute`, a function, or several of these."""
    if not spec:
        return []
    if isinstance(spec, str):
        return [_KIND.make(name) for name, _ in parse_names(spec)]
    return [spec] if callable(spec) else [tracker for each in spec for tracker in trackers_of(each)]


def numbers(record: RoundRecord, clock: str) -> dict[str, float]:
    """The numbers of a round that trackers get: scores, times, steps and costs.

    Args:
        record: Of the round.
        clock: sum or makespan.

    Returns:
        Numbers by name.
    """
    values = dict(record.scores)
    values["time/virtual_seconds"] = record.seconds[clock]
    if "elapsed" in record.wall:
        values["time/elapsed_seconds"] = record.wall["elapsed"]
    if record.lr is not None:
        values["plan/lr"] = record.lr
    if record.steps:
        mean = sum(record.steps) / len(record.steps)
        values |= {"plan/steps_mean": mean, "plan/steps_most": float(max(record.steps))}
        values |= {"plan/steps_least": float(min(record.steps)), "plan/clients": float(len(record.steps))}
    values["cost/megabytes"] = (record.bytes_up + record.bytes_down) / 1e6
    if record.joules is not None:
        values["cost/joules"] = record.joules
    if record.plan.get("refused"):
        values["cost/refused"] = float(len(record.plan["refused"]))
    return values


@contextmanager
def tracking(trackers: Sequence[Tracker], info: RunInfo) -> Iterator[RunCallbacks]:
    """All trackers as one, opened, and closed at the end, also when the run is stopped. Who fails, be it code
    of other people or a server that is down, is reported and not called again."""
    opened: list[tuple[str, RunCallbacks]] = []

    def tried(name: str, call: Callable[..., Any], given: Any) -> Any:
        """What the call gives, True in place of nothing; False where it failed."""
        try:
            return call(given) or True
        except Exception as trouble:
            what = f"{type(trouble).__name__}: {trouble}".splitlines()[0][:300]
            line = f"The tracker {name} failed ({what}); the run goes on without it."
            warnings.warn(line, Remark, stacklevel=4)
            return False

    def on_round(record: RoundRecord) -> None:
        opened[:] = [each for each in opened if tried(each[0], each[1].on_round, record)]

    def on_end(summary: Summary | None) -> None:
        while opened:  # once
            name, callbacks = opened.pop(0)
            tried(name, callbacks.on_end, summary)

    for tracker in trackers:
        name = getattr(tracker, "__qualname__", type(tracker).__name__)
        name = name.removesuffix(".<locals>.begin").rpartition(".")[2]  # ours are made by a function each
        if callbacks := tried(name, lambda info, begin=tracker: RunCallbacks(*begin(info)), info):
            opened.append((name, callbacks))
    try:
        yield RunCallbacks(on_round, on_end)
    finally:
        on_end(None)
