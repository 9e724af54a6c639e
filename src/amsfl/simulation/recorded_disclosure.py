"""What left the clients of a recorded run."""

from pathlib import Path

from amsfl.data.files import is_table
from amsfl.planning.planner import policy_of
from amsfl.privacy import RECORD_LEVEL
from amsfl.privacy.disclosure import Leaf, leaves, on_flower
from amsfl.record import read_run
from amsfl.settings.checks import mechanism_of
from amsfl.settings.custom import CustomParts
from amsfl.settings.definitions import ServeConfig, Training
from amsfl.settings.parse import make_config, refuse_recorded_code, serve_config
from amsfl.simulation.components import federation_of, takes_readings


def leaves_of(folder: Path) -> list[Leaf]:
    """Every quantity, and what protected it; not for a method of your own, whose name alone is on record."""
    record = read_run(folder)
    refuse_recorded_code(record.settings)
    real = record.manifest.kind == "flower"
    config: Training = serve_config(record.settings) if real else make_config(record.settings)
    mechanism = mechanism_of(config)
    if mechanism is None and any(each.epsilon for each in record.rounds[:1]):
        mechanism = RECORD_LEVEL  # by a table's column of budgets
    rows = mechanism is not None and mechanism.rows
    federation = federation_of(config, CustomParts(), mechanism)
    reads = takes_readings(federation.method, policy_of(config, federation.method))
    more = list[Leaf]()
    if isinstance(config, ServeConfig):
        more = on_flower(reads, rows, config.evaluate_clients)
    clients = mechanism is not None and not mechanism.rows
    return leaves(federation, reads, rows, is_table(config.data), clients, not real) + more
