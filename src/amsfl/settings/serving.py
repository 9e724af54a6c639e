"""Settings that only a server of real clients has."""

from typing import Any

from pydantic import Field, field_validator

from amsfl.settings.data_settings import Settings


class Serving(Settings):
    """What only a server of real clients has to settle."""

    give_up: str = Field(
        "",
        description="seconds that a round waits for a client, as in 60, or 600,120,60 by round; "
        "'': three times the plan",
    )
    poll: float = Field(0.2, gt=0, le=3600, description="seconds between two looks for replies")
    norm_limit: float = Field(
        10.0, gt=0, description="times the usual size at which an update is refused (docs/flower.md)"
    )
    patience: float = Field(
        600.0, ge=0, le=1e9, description="seconds without one good reply after which the server gives up"
    )
    evaluate_clients: int = Field(
        0, ge=0, description="every so many rounds clients score the model on their own test rows; 0: never"
    )
    evaluate_quorum: float = Field(
        1.0, gt=0, le=1, description="share of the clients whose scores are waited for"
    )
    keyed: bool = Field(
        False, description="SuperNodes have registered keys: a client's name stays with its node for good"
    )

    most_clients: int = Field(
        0, ge=0, description="clients beyond the first that may join later, up to so many in all; 0: nobody"
    )

    @field_validator("give_up", mode="before")
    @classmethod
    def _give_up(cls, value: Any) -> str:
        text = f"{value:g}" if isinstance(value, int | float) else value or ""
        try:
            good = all(0 < float(part) <= 86400 for part in text.split(",")) if text else True
        except (ValueError, AttributeError):
            good = False
        if not good:
            raise ValueError("write seconds, as in 60 or 600,120,60, a day at most")
        return str(text)

    def straggler_seconds(self, number: int) -> float | None:
        """Seconds that round `number` waits for a client; None: nobody has set them."""
        each = [float(part) for part in self.give_up.split(",") if part]
        return each[min(number, len(each) - 1)] if each else None
