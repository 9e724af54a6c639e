"""From settings to a privacy mechanism, and what a user of one should know before a run."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from amsfl.clock import Profile
from amsfl.core import UserError, listed, nearest
from amsfl.core.algorithm import NUMBERS
from amsfl.methods import Method
from amsfl.privacy import MECHANISMS, RECORD_LEVEL, Ledger, Mechanism, PrivacySettings
from amsfl.settings.definitions import ROUNDS, Training

Array = np.ndarray[Any, np.dtype[Any]]


def mechanism_of(config: Training, profile: Profile | None = None) -> Mechanism | None:
    """The mechanism that is named, or implied by a budget of epsilon; None: no privacy."""
    mechanism = _named_mechanism(config, profile)
    if mechanism is not None and config.epochs is not None:
        raise UserError(
            "Under privacy epsilon is spread over steps, and every row is in a minibatch by a chance of its "
            "own: give --steps in place of --epochs."
        )
    return mechanism


def _named_mechanism(config: Training, profile: Profile | None) -> Mechanism | None:
    if config.privacy == "none" and config.epsilon is not None:
        raise UserError("An epsilon is set, and privacy 'none': leave one of them out.")
    if config.privacy in ("none", "auto"):
        budget = config.epsilon is not None or (profile is not None and _column(profile) is not None)
        return RECORD_LEVEL if budget and config.privacy == "auto" else None
    if config.privacy not in MECHANISMS:
        known = nearest(config.privacy, (*MECHANISMS, "auto", "none"))
        raise UserError(f"Unknown privacy mechanism {config.privacy!r}{known}.")
    return MECHANISMS[config.privacy]


def private_settings(config: Training) -> PrivacySettings:
    """What of the settings privacy depends on."""
    values = {name: getattr(config, name) for name in PrivacySettings._fields if hasattr(config, name)}
    return PrivacySettings(**values, rounds_planned=ROUNDS, most_steps=NUMBERS.steps)


def check_public(config: Training, data: str) -> None:
    """What is fitted to a table's rows leaves without noise: its owner must say that it is public."""
    if data.startswith(("csv:", "table:")) and not config.public_columns:
        raise UserError(
            "The words, ranges, medians and class names of this table are taken from its rows and leave "
            "without noise: a rare word or an outlier tells of one row. If they are public, say so with "
            "--public-columns; else drop such columns (--drop), or pass a Dataset that is encoded already."
        )


def budgets_of(config: Training, profile: Profile, clients: int) -> Sequence[float] | None:
    """Every client's epsilon at most: the table's, or one for all; None where nobody set any."""
    column = _column(profile)
    if column is not None:
        return [float(each) for each in column]
    return None if config.epsilon is None else [config.epsilon] * clients


def _column(profile: Profile) -> Array | None:
    return None if profile.sites is None else profile.sites.get("epsilon")


def no_claim(ledger: Ledger, stopped_by_data: bool) -> str:
    """A sentence where a private run can claim no epsilon."""
    if not (stopped_by_data and ledger.exposures and not ledger.budgets):
        return ""
    return "Scores decided when this run ended, and no epsilon was set: no epsilon can be claimed for it."


def privacy_remarks(
    config: Training, mechanism: Mechanism | None, method: Method, ledger: Ledger, rows: Array
) -> Iterator[str]:
    """Settings of privacy that have no effect, and a delta that is too large."""
    server = mechanism is not None and not mechanism.rows
    if mechanism is None:
        for name in sorted({"delta", "noise", "clip"} & config.model_fields_set):
            yield f"Setting {name!r} has no effect: nothing is private without epsilon, or privacy 'record'."
        return
    if server:
        if config.delta * len(rows) >= 1:
            yield f"A delta of {config.delta:g} is not below 1/{len(rows)}, one over all clients; lower it."
        return
    if method.facts.private_options:
        off = ", ".join(name for name, _ in method.facts.private_options if name not in config.options)
        yield f"Under privacy {config.method} does without {off}; lr is the length of its steps."
    if config.delta * rows.min() >= 1:
        yield (
            f"A delta of {config.delta:g} is not below 1/{rows.min()}, one over a client's rows: by chance "
            "alone a row might be disclosed; lower --delta."
        )
    none = np.flatnonzero(ledger.limits == 0)
    if ledger.budgets and none.size:
        who = listed(map(str, none), 10)
        yield f"No step of these clients fits their epsilon, and they take no part: {who}."
