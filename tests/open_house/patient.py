"""A round end of one's own: half of the clients, or whoever is in after twice the planned time."""

from amsfl import RoundEnd


def patient(share: float = 0.5, factor: float = 2.0) -> RoundEnd:
    """Ready with that share of all who are at work, at the latest after `factor` times the plan."""

    def ready(arrived, expected, now, started):
        return arrived >= share * (arrived + expected)

    def deadline(started, predicted):
        return None if predicted is None else started + factor * predicted

    return RoundEnd(f"patient:{share:g}/{factor:g}", ready, deadline, weight=lambda age: 0.5**age)
