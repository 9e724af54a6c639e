"""The verdict at the end of a planned run, simulated or real: what guarded it, and what it saved."""

from collections.abc import Sequence

from amsfl import methods, protocol
from amsfl.clock import RoundEnd
from amsfl.core.records import Json
from amsfl.drift.judge import Judge
from amsfl.methods import Method
from amsfl.record import RoundRecord
from amsfl.schedule import Policy
from amsfl.worth.against_fedavg import forecast_fedavg


def verdict(
    run: tuple[Method, Policy, RoundEnd],
    rounds: Sequence[RoundRecord],
    clock: str,
    dim: int,
    judge: Judge,
    step_seconds: Sequence[float] | None = None,
) -> Json:
    """For summary.json; {} where nobody planned steps, or rounds do not wait for their cohort."""
    method, policy, end = run
    if policy.constant or not end.waits_for_all:
        return {}
    fedavg = methods.make("fedavg")._replace(transmit=method.transmit)
    bytes_each = 4.0 * dim + protocol.upload_bytes(fedavg, dim)
    forecast = forecast_fedavg(rounds, clock, bytes_each, step_seconds)
    if forecast is None:
        return {}
    guard = {
        "judge": method.judges,
        "returns": len(judge.backs),
        "restarts": len(judge.restarts),
        "branch": judge.branched,
        "rule": "" if method.combine is None else method.combine.name,
    }
    return {"guard": guard, **forecast.plain()}
