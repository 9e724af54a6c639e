"""Strictness for all tests: float64 is there, devices are two, nothing is read from a user's cache."""

import ast
import atexit
import functools
import inspect
import os
import re
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

if "XLA_FLAGS" not in os.environ:
    os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=2"
    if "--slow" not in sys.argv and version("jaxlib").startswith("0.10."):  # an unknown flag ends a process
        os.environ["XLA_FLAGS"] += " --xla_cpu_use_fusion_emitters=false"  # a third of the time to compile
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # files are run side by side already
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

# how fast a machine is must fail nobody's test, nor which examples were drawn
any_machine = hypothesis.settings(deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
for name, count in (("few", 30), ("many", 200)):
    hypothesis.settings.register_profile(name, any_machine, derandomize=True, max_examples=count)

pytest_plugins = ["browser"]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--slow", action="store_true", help="run the tests marked slow, too")


def pytest_configure(config: pytest.Config) -> None:
    slow = config.getoption("--slow")
    hypothesis.settings.load_profile("many" if slow else "few")
    if not config.getoption("numprocesses", None):  # where tests run, and not who hands them out
        import jax

        jax.config.update("jax_enable_x64", True)
        # most of what tests take is compiling; with --slow it is done as for users
        jax.config.update("jax_disable_most_optimizations", not slow)


@pytest.fixture(scope="session")
def digits() -> Any:
    from amsfl.data import load

    return load("digits")


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """The command in an empty working directory."""
    from command_line import invoke

    monkeypatch.chdir(tmp_path)
    return invoke


@pytest.fixture
def optimized(pytestconfig: pytest.Config) -> Iterator[None]:
    """Programs optimized as for users, and with --slow in all: where bits are what is tested."""
    import jax

    jax.config.update("jax_disable_most_optimizations", False)
    yield
    jax.config.update("jax_disable_most_optimizations", not pytestconfig.getoption("--slow"))


@pytest.fixture
def without_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reports without their pictures, whose drawing takes seconds, where a test looks at other things."""
    monkeypatch.setattr("amsfl.report.page.figures", lambda comparison: [])


# a package that the extra `test` does not bring
ASKED = r"pytest\.importorskip\((?!\"dp_accounting\b)"


@functools.cache
def asking(module: ModuleType) -> frozenset[str] | None:
    """The functions of a test module that ask for such a package or name one that does; None: all of them."""
    source = inspect.getsource(module)
    if re.search(rf"^(?:\w+ = )?{ASKED}", source, re.MULTILINE):
        return None
    lines = source.splitlines()
    nodes = [node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)]
    starts = [min(part.lineno for part in (node, *node.decorator_list)) for node in nodes]
    texts = {
        node.name: "\n".join(lines[start - 1 : node.end_lineno])
        for node, start in zip(nodes, starts, strict=True)
    }
    names = [name for name, text in texts.items() if re.search(ASKED, text)]
    either = re.compile("|".join(rf"\b{name}\b" for name in names)) if names else None
    return frozenset(name for name, text in texts.items() if either and either.search(text))


def needs_extras(item: pytest.Function) -> bool:
    """Whether a test, its module or a helper that it calls asks for a package that may be missing."""
    names = asking(item.module)
    return "browser" in item.fixturenames or names is None or item.originalname in names


# files that take longest come first, and before them the one that mostly waits
LONGEST = (
    "test_deploy",
    "test_engines",
    "test_simulation",
    "test_privacy",
    "test_golden",
    "test_report_page",
)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Function]) -> None:
    for item in items:
        if needs_extras(item):
            item.add_marker(pytest.mark.extras)
    # whoever runs files side by side is not left with a long one alone at the end
    items.sort(key=lambda item: LONGEST.index(item.path.stem) if item.path.stem in LONGEST else len(LONGEST))
    if not config.getoption("--slow"):
        skip = pytest.mark.skip(reason="slow: run with --slow")
        for item in items:
            if item.get_closest_marker("slow"):
                item.add_marker(skip)
