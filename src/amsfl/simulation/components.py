"""From settings to single parts of a run: data, clients' names, model, loss, method, what a round costs."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from amsfl import clock, combine, data, methods, privacy, protocol, transmit
from amsfl.core import Kind, Reading, UserError, first_line
from amsfl.core.names import own_file, own_names
from amsfl.data import Dataset
from amsfl.data.dataset import class_weights
from amsfl.engines import devices, losses, models, optimizers, task
from amsfl.methods import Federation
from amsfl.planning import Policy
from amsfl.portable.network import check_rows, vocabulary_size
from amsfl.privacy import Mechanism
from amsfl.settings.custom import CustomParts, check_dataset
from amsfl.settings.definitions import OF_ROWS, RunConfig, Training

SENT = len(Reading._fields) - 2  # scalars of a reading that the client sends
BATCH = 64  # of a minibatch, where clients choose it themselves
PRODUCTS = {"strict": "highest", "tf32": "tensorfloat32", "bf16": "BF16_BF16_F32"}  # as jax calls them
JAX_PRECISION = ("JAX_ENABLE_X64", "JAX_DEFAULT_MATMUL_PRECISION")  # settings of jax that users make


def load_data(config: Training) -> Dataset:
    if own_names(config.data) and own_file(config.data):
        return check_dataset(Kind("data set", Dataset).make(config.data))
    named = config.model_dump(include=OF_ROWS)
    return data.load(named.pop("data"), **named)


def client_names(config: Training, dataset: Dataset) -> tuple[str, ...]:
    """The data's sites, where they are the clients; () where clients have numbers."""
    own = partition_scheme(config, dataset) in ("column", "site") and dataset.sites is not None
    return tuple(dataset.site_names) if own else ()


def client_labels(config: Training, dataset: Dataset, clients: int) -> tuple[str, ...]:
    """The clients' names, or their numbers where they have none."""
    return client_names(config, dataset) or tuple(map(str, range(clients)))


def partition_scheme(config: Training, dataset: Dataset) -> str:
    if config.partition != "auto":
        return config.partition
    return "dirichlet:0.5" if dataset.sites is None else "column"


def named_network(spec: str, dataset: Dataset, private: bool) -> models.Model:
    """The model of that name; how large features are is asked only where rows need not be kept private."""
    if own_names(spec) and own_file(spec):
        return check_network(Kind("network", models.Model).make(spec), dataset)
    network = models.make(spec, dataset.x.shape[1], len(dataset.classes) or 1)
    if vocabulary_size(network.layers):
        for x in (dataset.x, *(x for x, _ in dataset.evals.values())):
            check_rows(network.layers, x)
        return network
    return network if private else models.scale_inputs(network, models.input_scale(dataset.x))


def check_network(network: models.Model, dataset: Dataset) -> models.Model:
    """A user's network, if it takes the data's rows and gives as many numbers as there are classes."""
    import jax

    devices.call_in_place()
    wanted, rows = len(dataset.classes) or 1, dataset.x[:2]
    try:
        params = jax.eval_shape(network.init, jax.random.key(0))
        outputs = jax.eval_shape(
            network.apply, params, jax.ShapeDtypeStruct((2, *rows.shape[1:]), rows.dtype)
        )
        labels = jax.ShapeDtypeStruct((2,), dataset.y.dtype)
        of_rows = None if network.loss is None else jax.eval_shape(network.loss, outputs, labels).shape
    except Exception as error:
        raise UserError(
            f"The network {network.name!r} cannot take rows of {rows.shape[1]} numbers: {first_line(error)}"
        ) from error
    if of_rows not in (None, (2,)):
        raise UserError(
            f"The network {network.name!r} has a loss of shape {of_rows} for two rows; a loss is one number "
            "a row: let loss(outputs, y) give (2,)."
        )
    shape = outputs.shape
    if shape != (2, wanted) and (of_rows is None or dataset.classes or len(shape) != 2):
        what = f"there are {wanted} classes" if dataset.classes else "one number is predicted"
        raise UserError(
            f"The network {network.name!r} gives an array {shape} for two rows, and {what}: let "
            f"apply(params, x) give {(2, wanted)}."
        )
    return network


def loss_of(
    config: RunConfig, dataset: Dataset, method: methods.Method, network: models.Model
) -> losses.RowLoss:
    """What clients minimise, if that goes together with what is predicted."""
    if not dataset.classes and method.objective is not None:
        raise UserError(
            f"{method.title} learns from a teacher's classes, and here numbers are predicted; "
            "use another --method."
        )
    weights = class_weights(config.class_weights, dataset.y, dataset.classes)
    if network.loss is not None:
        if weights is not None or config.loss != "auto":
            raise UserError(
                f"The network {network.name!r} has a loss of its own: leave --loss and --class-weights out."
            )
        return network.loss
    loss = losses.named(config.loss, len(dataset.classes))
    return loss if weights is None else losses.weighted(weights)


def federation_of(config: Training, own: CustomParts, mechanism: Mechanism | None = None) -> Federation:
    """The method of the settings, and all that they put over and around it."""
    method = methods.make(own.method or config.method, config.options, config.extrapolation)
    private = mechanism is not None and mechanism.rows
    if private and method.facts.private_options and own.method is None:
        options = {**dict(method.facts.private_options), **config.options}  # those are its defaults then
        method = methods.make(config.method, options, config.extrapolation)
    private_rows = privacy.protect_rows(method, config.clip) if private else None
    stateful = method.init(np.zeros(1))[1].size > 0
    steps = own.client_optimizer or optimizers.client_steps(config.client_optimizer)
    if steps is not None:
        if steps.momentum is None and method.facts.vectors_up > 1:
            raise UserError(
                f"{method.title} takes clients' changes for sums of gradients, which those of the optimizer "
                f"{steps.name!r} are not; take momentum:0.9, or another --method."
            )
        method = methods.ClientOptimizer(method, steps)
    server = methods.server_optimizer(config.server_optimizer)
    if server:
        method = methods.optimize(method, server)
    rule, way = (combine.make(own.robust or config.robust), transmit.make(own.transmit or config.transmit))
    if rule and stateful:
        raise UserError(
            f"{method.title} keeps a state at every client that balances only if the server "
            "sums all uploads; a rule that weighs them otherwise leads it astray. Leave --robust out, or "
            "use fedavg, fedprox, fednova or amsfl."
        )
    return Federation(method, way, rule, private_rows=private_rows)


def takes_readings(method: methods.Method, policy: Policy) -> bool:
    """Whether clients take GDA readings: the method or the policy asks for them."""
    return method.facts.readings or policy.readings


def work_of(federation: Federation, policy: Policy, dim: int, batch: int = BATCH) -> clock.Overhead:
    """What a round costs a client besides its steps.

    Who plans by the change of a gradient pays for it; as a mere diagnostic it is free, and so is a loss.
    """
    method, transmit, facts = federation.method, federation.transmit, federation.method.facts
    reads, gradients = facts.readings or policy.readings, facts.extra_gradients
    if federation.private_rows:  # uploads tell all that is known
        reads, gradients = False, 0.0 if facts.readings else gradients
    return clock.Overhead(
        4.0 * dim * facts.vectors_down,
        protocol.upload_bytes(method, transmit, dim) + 4.0 * (SENT if reads else 0),
        max(gradients, float(reads)) + facts.extra_rows / (3 * batch),
        facts.extra_per_step,
    )


def with_held_back(work: clock.Overhead, held: task.Matrix, batch: int) -> clock.Overhead:
    """The work of clients that hold back so many rows: a forward pass over them is a third of a gradient."""
    return work._replace(extra_gradients=work.extra_gradients + np.asarray(held) / (3 * batch))


def room_of(cohort: int | None, clients: int, federation: Federation) -> int | None:
    """Places of a cohort: more than are expected where everybody is in by a chance of its own."""
    if cohort is None or federation.private_clients is None:
        return cohort
    return min(clients, cohort + int(np.ceil(8 * cohort**0.5)) + 8)  # more come once in 10^12 rounds


@contextmanager
def precision(config: RunConfig) -> Iterator[None]:
    """jax as this run wants it, and as it was again afterwards: no run's precision is another's."""
    untouched = "jax" not in sys.modules and not {*JAX_PRECISION} & {*os.environ}
    if config.precision == "float32" and untouched:  # it is how jax begins, should anything import it
        yield
        return
    import jax

    with (
        jax.enable_x64(config.precision == "float64"),
        jax.default_matmul_precision(PRODUCTS.get(config.precision)),
    ):
        yield
