"""MLflow, where MLFLOW_TRACKING_URI says, in the experiment MLFLOW_EXPERIMENT_NAME or `amsfl`."""

import os
import time

from amsfl.core import need
from amsfl.record import RoundRecord, Summary
from amsfl.track.base import RunCallbacks, RunInfo, Tracker, numbers


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
