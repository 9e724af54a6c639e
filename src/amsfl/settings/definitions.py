"""Every setting is defined once: its name, type, bounds, default and sentence.

Flags and their help, TOML files, Python keywords and docs/settings.md are made from these records
(tools/settings.py writes the last two). `parse.py` turns what a user writes into one of them.
"""

from pydantic import Field, field_validator

from amsfl.core.score_names import check_name
from amsfl.settings.data_settings import Settings
from amsfl.settings.serving import Serving
from amsfl.settings.simulation_settings import Simulation
from amsfl.settings.training import (
    PLANNED_STEPS_AT_MOST,
    ROUNDS,
    ROUNDS_AT_MOST,
    ROUNDS_TO_TARGET,
    STEPS_AT_MOST,
    Training,
)

__all__ = [
    "PLANNED_STEPS_AT_MOST",
    "ROUNDS",
    "ROUNDS_AT_MOST",
    "ROUNDS_TO_TARGET",
    "STEPS_AT_MOST",
    "RunConfig",
    "ServeConfig",
    "Serving",
    "Settings",
    "Simulation",
    "Training",
]


class RunConfig(Simulation, Training):
    """All settings of a simulated run."""

    @property
    def last_round(self) -> int:
        if self.rounds is None and (self.joules is not None or self.megabytes is not None):
            return ROUNDS_AT_MOST
        return super().last_round

    @property
    def known_rounds(self) -> int | None:
        return self.rounds if self.joules is not None or self.megabytes is not None else super().known_rounds

    @property
    def ends(self) -> bool:
        """Whether anything but a target ends it."""
        return any(each is not None for each in (self.rounds, self.seconds, self.joules, self.megabytes))


class ServeConfig(Serving, Training):
    """All settings of a Flower server. Real clients work side by side, so its clock is makespan."""

    data: str = Field("own", description="what the record calls the clients' data")
    clock: str = Field("makespan", description="makespan: real clients work at once")

    @field_validator("clock")
    @classmethod
    def _clock(cls, value: str) -> str:
        if value != "makespan":
            raise ValueError("real clients work at once, by the clock makespan; leave it out")
        return value

    @field_validator("score")
    @classmethod
    def _score(cls, value: str) -> str:
        if ":" in value:
            raise ValueError("a server knows no class by its name; take accuracy, f1, auc, r2, mae or rmse")
        return check_name(value)
