"""Strictness for all tests: float64 is there, devices are two, nothing is read from a user's cache."""

import atexit
import inspect
import os
import re
import shutil
import signal
import tempfile

import pytest

os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=2")
if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
    # dozens of tests compile the same few programs: kept for this session, and for processes that tests start
    CACHE = tempfile.mkdtemp(prefix="amsfl-tests-")
    atexit.register(shutil.rmtree, CACHE, ignore_errors=True)
    os.environ["JAX_COMPILATION_CACHE_DIR"] = CACHE
    os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # a shell's background jobs ignore Ctrl-C, and all that they start does, too; tests press it
    signal.signal(signal.SIGINT, signal.default_int_handler)

import hypothesis
import jax

jax.config.update("jax_enable_x64", True)
# how fast a machine is must fail nobody's test
slow = [hypothesis.HealthCheck.too_slow]
hypothesis.settings.register_profile("any machine", deadline=None, suppress_health_check=slow)
hypothesis.settings.load_profile("any machine")

pytest_plugins = ["browser"]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--slow", action="store_true", help="run the tests marked slow, too")
    parser.addoption("--torture", action="store_true", help="large budgets: every crash point, many flips")


@pytest.fixture(scope="session")
def torture(request: pytest.FixtureRequest) -> bool:
    """Whether budgets are large."""
    return bool(request.config.getoption("--torture"))


def needs_extras(item: pytest.Item) -> bool:
    """Whether a test, its module or a helper that it calls asks for a package that may be missing."""
    source = inspect.getsource(item.module)
    if re.search(r"^(?:\w+ = )?pytest\.importorskip", source, re.MULTILINE):
        return True
    callers = [
        name
        for name, part in vars(item.module).items()
        if inspect.isfunction(part) and "importorskip" in inspect.getsource(part)
    ]
    own = inspect.getsource(item.function)
    return "browser" in item.fixturenames or any(re.search(rf"\b{name}\b", own) for name in callers)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if needs_extras(item):
            item.add_marker(pytest.mark.extras)
    # the file that mostly waits comes first: whoever runs files side by side is not left with it alone
    items.sort(key=lambda item: item.path.name != "test_flower_real.py")
    if not config.getoption("--slow"):
        skip = pytest.mark.skip(reason="slow: run with --slow")
        for item in items:
            if "slow" in item.keywords:
                item.add_marker(skip)
