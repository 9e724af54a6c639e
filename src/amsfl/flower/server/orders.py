"""What a round asks of its clients, what of the model it sends them, and how long it waits."""

from amsfl.federation import ServeConfig
from amsfl.flower import wire
from amsfl.flower.server.progress import Progress
from amsfl.methods import Method

UNMEASURED = 300.0  # deadline of a round nobody can predict yet
AT_LEAST = 30.0  # an automatic deadline: starting a client's process alone takes seconds


class Desk:
    """Writes orders by the settings."""

    def __init__(self, config: ServeConfig, method: Method, readings: bool):
        self.config, self.method, self.readings = config, method, readings

    def order(self, stand: Progress, who: int, steps: int, lr: float | None) -> wire.Order:
        config = self.config
        return wire.Order(
            stand.run,
            stand.round,
            stand.seats[who].accepted,
            who,
            steps,
            1.0 if lr is None else lr,
            lr is not None,
            config.batch,
            config.seed,
            config.method,
            config.options,
            config.transmit,
            self.readings,
        )

    def question(self, stand: Progress, who: int) -> wire.Order:
        """An order to score, not to train: no method has a part in that."""
        return self.order(stand, who, 0, self.config.lr)._replace(method="fedavg", options={}, transmit="")

    def sent(self, model: wire.Model) -> wire.Model:
        """What of the model travels: the method's server state only where clients work with it."""
        nothing = model.anchor[:0]
        return model._replace(
            server=self.method.told(model.server),
            direction=model.direction if self.readings else nothing,
        )

    def deadline(self, stand: Progress, predicted: float) -> float:
        if self.config.deadline is not None:
            return self.config.deadline
        return max(AT_LEAST, 3 * predicted) if any(stand.measured.rest) else UNMEASURED
