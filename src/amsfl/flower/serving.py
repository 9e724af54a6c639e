"""ServerApps by settings: `server_app(start=Net, method="amsfl", rounds=30)`, and the methods that they
name."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from flwr.app import ArrayRecord, ConfigRecord, Context
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp import strategy as flower
from flwr.serverapp.strategy import Result, Strategy

from amsfl import clock
from amsfl.core import UserError, nearest
from amsfl.core.scores import describe_scores, shown_score
from amsfl.flower.corrections import FedDyn, Scaffold
from amsfl.flower.round_grid import RoundGrid
from amsfl.flower.rounds import EvaluateFn, Network, deciding_split, own_network
from amsfl.flower.strategy import AMSFL
from amsfl.methods.amsfl import Amsfl
from amsfl.record import RoundRecord, read_manifest
from amsfl.settings.definitions import ServeConfig
from amsfl.settings.parse import merge_settings, serve_config
from amsfl.simulation.observers import observers

RUN = ("out", "resume", "force", "track")  # asked of one start; no settings of the run
# for `deploy`, and for simulations
DEALT = {"label", "client_column", "drop", "columns", "missing", "partition", "public_columns"}
SIMULATED = {"budget", "client_optimizer", "epochs", "extrapolation", "joules", "lr_decay", "megabytes"}
SIMULATED |= {"robust", "server_optimizer", "transmit"}
LONGEST = 3600.0  # seconds of a round without a deadline
PLAIN: dict[str, Any] = {"momentum": 0.0, "cooling": False, "judge": False}


def server_app(
    start: Any, strategy: Strategy | None = None, evaluate: EvaluateFn | None = None, **settings: Any
) -> ServerApp:
    """A ServerApp that trains by settings: `server_app(start=Net, method="amsfl", clients=5, rounds=30)`.

    Args:
        start: The first model: an ArrayRecord, a flat array, a torch module, or a function that makes one.
        strategy: A Strategy of Flower's, inside of AMSFL; in place of `method`.
        evaluate: `evaluate(round, arrays)` scores a model on the server, as `evaluate_fn` of Flower's
            `Strategy.start` does; accuracy, loss and so on go by `score` and `target`.
        **settings: Those of docs/settings.md that real clients have. Besides `out` (the record folder),
            `resume`, `force` and `track` (docs/trackers.md). The same keys in Flower's run-config win.

    Returns:
        The app that a pyproject.toml names as `serverapp`.
    """
    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        serve(grid, merged(settings, context.run_config), start, strategy, evaluate)

    return app


def serve(
    grid: Grid,
    settings: Mapping[str, Any],
    start: Any,
    strategy: Strategy | None = None,
    evaluate: EvaluateFn | None = None,
    network: Network = own_network,
    watch: Callable[[RoundRecord], Any] | None = None,
) -> Result:
    """Run one federation to its end.

    Args:
        grid: Flower's, or an InProcessGrid.
        settings: As in server_app.
        start: As in server_app.
        strategy: As in server_app.
        evaluate: As in server_app.
        network: What the server itself knows of the network, for the model's files.
        watch: Called with every round's record, and ends the run by a True; prints a line, if left out.

    Returns:
        Flower's.
    """
    run = {key: settings[key] for key in RUN if settings.get(key) not in (None, "")}
    config = configured({key: value for key, value in settings.items() if key not in RUN}, run)
    planner = made(config, strategy)
    planner.config, planner.network, planner.out = config, network, run.get("out")
    planner.resume, planner.force = bool(run.get("resume")), bool(run.get("force"))
    rounds, every = RoundGrid(grid, end=ends(config)), config.eval_every
    scored = evaluate and (lambda number, arrays: evaluate(number, arrays) if not number % every else None)
    train = ConfigRecord(sent(config, planner))
    hears: list[Callable[[RoundRecord], Any]] = [stopper(config, planner), watch or print_round]
    out = planner.out and Path(planner.out)
    with observers(config, None, run.get("track"), out=out) as (listeners, on_end):
        hears += listeners
        planner.stop = lambda record: any([bool(hear(record)) for hear in hears])
        first = first_arrays(start)
        result = planner.start(rounds, first, config.last_round, LONGEST, train, evaluate_fn=scored)
        on_end(planner.ended)
    return result


def configured(settings: Mapping[str, Any], run: Mapping[str, Any]) -> ServeConfig:
    """The settings, checked; a resumed run has those that it began with, but for its length."""
    given = {key: value for key, value in settings.items() if value is not None}
    config = serve_config(given)
    odd = sorted({*config.model_fields_set} & {*given} & (SIMULATED | DEALT))
    if odd:
        raise UserError(f"Setting {odd[0]!r} is about simulations: leave it out on real clients.")
    if not run.get("resume"):
        return config
    if "out" not in run:
        raise UserError("To resume, say which record folder: out=FOLDER.")
    began = read_manifest(Path(str(run["out"])).expanduser(), "flower")
    return serve_config(merge_settings(began, config.model_dump(include=config.model_fields_set)))


def made(config: ServeConfig, strategy: Strategy | None = None) -> AMSFL:
    """The Strategy that the settings name."""
    common: dict[str, Any] = {"lr": config.lr or 0.1, "batch_size": config.batch, "seconds": config.seconds}
    if config.policy != "auto":
        common["policy"] = config.policy
    if strategy is not None:
        return AMSFL(strategy, **common)
    check_method(config)
    options, name = dict(config.options), config.method
    kind, takes = METHODS[name]
    own = {key: options.pop(option, usual) for key, (option, usual) in takes.items()}
    inside = kind(**sampled(config), **own)
    inside.fraction_evaluate *= config.evaluate_clients  # of a 0 at the start Flower warns
    if name == "amsfl":
        usual = dict(Amsfl.facts.private_options) if is_private(config) else {}
        own = {key: options.pop(key) for key in ("momentum", "balance", "judge") if key in options}
        planner = AMSFL(inside, **common | usual | own)
    else:
        balance = float(name == "fednova")
        planner = AMSFL(inside, **common, **PLAIN, balance=balance, steps=config.steps)
    if name == "scaffold":
        planner = Scaffold(planner)
    if name == "feddyn":
        planner = FedDyn(planner, options.pop("alpha", 0.1))
    if options:
        raise UserError(f"{name} has no option {next(iter(options))!r} on real clients.")
    return planner


def check_method(config: ServeConfig) -> None:
    """A UserError where the method does not run on real clients."""
    if config.method not in METHODS:
        like = nearest(config.method, METHODS)
        raise UserError(f"The method {config.method!r} is none of real clients{like}; or give a strategy.")


def sampled(config: ServeConfig) -> dict[str, Any]:
    """How many nodes Flower's strategies draw and wait for."""
    cohort = min(config.cohort or config.clients, config.clients)
    part = cohort / config.clients
    train = {"fraction_train": part, "min_train_nodes": cohort, "min_available_nodes": config.clients}
    return train | {"fraction_evaluate": part, "min_evaluate_nodes": cohort * config.evaluate_clients}


Takes = dict[str, tuple[str, float]]  # by what Flower calls an option: what we do, and what it usually is
RATES: Takes = {"eta": ("server_lr", 0.1), "tau": ("tau", 1e-3)}
AS_FEDAVG = ("amsfl", "fedavg", "fednova", "fedbuff", "fedasync", "scaffold", "feddyn")  # for Flower's part
METHODS: dict[str, tuple[Any, Takes]] = {
    **dict.fromkeys(AS_FEDAVG, (flower.FedAvg, {})),
    "fedprox": (flower.FedProx, {"proximal_mu": ("mu", 0.1)}),
    "fedavgm": (flower.FedAvgM, {"server_momentum": ("momentum", 0.9)}),
    "fedadam": (flower.FedAdam, RATES),
    "fedyogi": (flower.FedYogi, RATES),
}
ENDS = {"fedbuff": "buffer", "fedasync": "buffer:1"}


def ends(config: ServeConfig) -> clock.RoundEnd:
    """What ends a round: the setting, or the method's own."""
    chosen = ENDS.get(config.method, "all") if config.round_end == "auto" else config.round_end
    end = clock.round_end(chosen, min(config.cohort or config.clients, config.clients))
    if end.join is not None:
        raise UserError("Groups of clients are for simulations only; use buffer:2, quorum:3 or deadline:60.")
    return end


def is_private(config: ServeConfig) -> bool:
    return config.privacy == "record" or (config.privacy == "auto" and config.epsilon is not None)


def sent(config: ServeConfig, planner: AMSFL) -> dict[str, Any]:
    """What every order says besides steps and rate."""
    own: dict[str, Any] = {"seed": config.seed}
    if config.privacy == "client":
        raise UserError(
            "Whole clients: give strategy=DifferentialPrivacyServerSideFixedClipping(FedAvg(), ...)."
        )
    if not is_private(config):
        return own | ({"held-back": config.held_back} if planner.judging else {})
    planner.private_steps = (config.rounds or 50) * config.steps
    private = {"privacy": "record", "clip": config.clip, "delta": config.delta, "noise": config.noise or 0.0}
    return own | private | {"epsilon": config.epsilon or 0.0, "privacy-steps": planner.private_steps}


def first_arrays(start: Any) -> ArrayRecord:
    """The first model in whatever form it was given."""
    makes = isinstance(start, type) or (callable(start) and not hasattr(start, "state_dict"))
    first = start() if makes else start
    if isinstance(first, ArrayRecord):
        return first
    if hasattr(first, "state_dict"):
        from amsfl.flower.torch_trainer import torch_arrays

        return torch_arrays(first)
    from amsfl.flower.jax_trainer import one_array

    return one_array(first)


def stopper(config: ServeConfig, planner: AMSFL) -> Callable[[RoundRecord], bool]:
    """Whether a run ends with a round: at its target, or where scored rounds bring no better one."""

    def over(record: RoundRecord) -> bool:
        scores = deciding_split(record.metrics)
        score = shown_score(config.score, scores)
        met = bool(score and score.met(scores, config.target)) and config.stop_at_target
        since = planner.rounds[planner.best_round.get("round", len(planner.rounds)) :]
        return met or 0 < config.stop_after <= sum(planner.worth(each) is not None for each in since)

    return over


def print_round(record: RoundRecord) -> None:
    refused = record.plan["refused"]
    parts = [f"round {record.round}", describe_scores(deciding_split(record.metrics))]
    parts += [f"steps {' '.join(map(str, record.steps))}", f"took {record.round_seconds['makespan']:.2f} s"]
    parts += [f"refused {len(refused)}"] if refused else []
    print("  ".join(filter(None, parts)), flush=True)


def merged(defaults: Mapping[str, Any], run_config: Mapping[str, Any]) -> dict[str, Any]:
    """Flower's run-config over the app's defaults. Keys may be written with dashes; "" means not set.

    Args:
        defaults: Settings.
        run_config: Flower's; keys that are no setting of ours are the app's own and left alone.

    Returns:
        Settings, as `serve` takes them.
    """
    ours = {*ServeConfig.model_fields, *RUN}
    settings: dict[str, Any] = dict(defaults)
    for key, value in run_config.items():
        name, _, option = key.replace("-", "_").partition(".")
        if name == "options" and option:
            settings[name] = {**settings.get(name, {}), option: value}
        elif name in ours and value != "":
            settings[name] = value
    return settings
