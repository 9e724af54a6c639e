"""What left the clients of a recorded run."""

from pathlib import Path

from amsfl.planning.planner import policy_of
from amsfl.privacy.disclosure import Leaf, leaves, on_flower
from amsfl.record import read_run
from amsfl.settings.custom import CustomParts
from amsfl.settings.definitions import ServeConfig, Training
from amsfl.settings.parse import make_config, serve_config
from amsfl.simulation.privacy_settings import is_private, of_clients
from amsfl.simulation.setup import method_of, takes_readings

FILES = (".csv", ".tsv", ".parquet")


def leaves_of(folder: Path) -> list[Leaf]:
    """Every quantity, and what protected it; not for a method of your own, whose name alone is on record."""
    found = read_run(folder)
    real = found.manifest.kind == "flower"
    config: Training = serve_config(found.settings) if real else make_config(found.settings)
    counted = any(each.epsilon for each in found.rounds[:1]) and not of_clients(config)
    guarded = is_private(config) or counted
    method = method_of(config, CustomParts(), config.clip if guarded else 0.0)
    reads = takes_readings(config, method, policy_of(config, method))
    table = config.data.endswith(FILES) and config.impute == "shared"
    more = on_flower(reads, guarded, config.evaluate_clients) if isinstance(config, ServeConfig) else []
    return leaves(method, reads, guarded, table, of_clients(config)) + more
