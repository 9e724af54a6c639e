"""Weights & Biases, in the project WANDB_PROJECT or `amsfl`; WANDB_MODE=offline keeps it on this machine."""

import os

from amsfl.core import need
from amsfl.core.records import Json
from amsfl.record import RoundRecord, Summary
from amsfl.track.base import RunCallbacks, RunInfo, Tracker, numbers


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
