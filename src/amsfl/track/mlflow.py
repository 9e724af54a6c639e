"""MLflow, where MLFLOW_TRACKING_URI says, in the experiment MLFLOW_EXPERIMENT_NAME or `amsfl`."""

import os
import time

from amsfl.core import need
from amsfl.record import RoundRecord, Summary
from amsfl.track.base import Begun, Told, Tracker, numbers


def mlflow() -> Tracker:
    library = need("mlflow", "mlflow", "The tracker mlflow")
    entities = need("mlflow.entities", "mlflow", "The tracker mlflow")

    def begin(begun: Begun) -> Told:
        client = library.MlflowClient()
        name = os.environ.get("MLFLOW_EXPERIMENT_NAME", "amsfl")
        found = client.get_experiment_by_name(name)
        where = found.experiment_id if found else client.create_experiment(name)
        run = client.create_run(where, run_name=begun.title).info.run_id
        params = [entities.Param(key, str(value)[:500]) for key, value in begun.settings.items()]
        client.log_batch(run, params=params)

        def on_round(record: RoundRecord) -> None:
            now = int(1000 * time.time())
            values = numbers(record, begun.clock).items()
            client.log_batch(run, [entities.Metric(key, value, now, record.round) for key, value in values])

        def on_end(summary: Summary | None) -> None:
            if summary is not None:
                client.set_tag(run, "amsfl.status", summary.status)
            whole = summary is not None and summary.status == "finished"
            client.set_terminated(run, "FINISHED" if whole else "KILLED" if summary is None else "FAILED")

        return Told(on_round, on_end)

    return Tracker("mlflow", begin)
