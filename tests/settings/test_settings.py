"""Settings have one definition: what is made from it is up to date, and commands take what they honour."""

import importlib.util
import inspect
from pathlib import Path

import pytest
from federation_small import SMALL, own_data

import amsfl
from amsfl.cli.app import parameters
from amsfl.cli.flags import flag
from amsfl.cli.studies import NOT_OF_STUDIES
from amsfl.core import UserError
from amsfl.methods import Federation, make
from amsfl.planning.planner import policy_of
from amsfl.settings.checks import chosen_round_end, remarks
from amsfl.settings.definitions import ROUNDS_TO_TARGET, RunConfig, ServeConfig, marked
from amsfl.simulation import CustomParts, make_config, serve_config

ROOT = Path(__file__).parents[2]


def tool():
    spec = importlib.util.spec_from_file_location("settings_tool", ROOT / "tools" / "settings.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_of_settings_is_up_to_date():
    made = tool()
    text = made.PAGE.read_text(encoding="utf-8")
    assert text == made.page(), "run 'python tools/settings.py' and commit what it writes"


def test_every_setting_has_a_sentence_a_group_and_marks():
    for kind in (RunConfig, ServeConfig):
        for name, field in kind.model_fields.items():
            assert field.description and not field.is_required(), name
            assert set(field.json_schema_extra) == {"group", "marks", "text"}, name
        assert len(marked(kind, "first")) == 9, "and --out"


@pytest.mark.parametrize(
    ("command", "kind", "without"),
    [("run", RunConfig, ()), ("compare", RunConfig, NOT_OF_STUDIES), ("deploy", ServeConfig, ("clock",))],
)
def test_commands_have_every_setting_that_they_honour(command, kind, without):
    shown = {flags[0]: says for flags, says, _ in parameters(command)}
    for name, field in kind.model_fields.items():
        assert (flag(name) in shown) == (name not in without), name
        if name not in without:
            assert field.description in shown[flag(name)]
            if field.default not in (None, "", {}, True, False):
                assert f"({field.default})" in shown[flag(name)]


def test_settings_of_another_group_are_refused():
    with pytest.raises(UserError, match="'evaluate_clients' is about real clients, and this is a simulation"):
        make_config({"evaluate_clients": 1})
    with pytest.raises(UserError, match="'engine' is about simulations, and here real clients train"):
        serve_config({"engine": "loop"})
    for key, value in {"loss": "absolute", "class_weights": "balanced"}.items():
        with pytest.raises(UserError, match=rf"'{key}' says what simulated clients minimise.*leave it out"):
            serve_config({key: value})
    with pytest.raises(UserError, match=r"Unknown setting 'learning_rat'"):
        serve_config({"learning_rat": 1})
    with pytest.raises(UserError, match="real clients work at once"):
        serve_config({"clock": "sum"})


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"target": 95}, "for 95% write 0.95"),
        ({"target": 1e9}, "between 0 and 1."),
        ({"clients": 10**12}, "less than or equal to 1000000"),
        ({"steps": 10**6}, "less than or equal to 100000"),
        ({"extrapolation": 0.5}, "above 1"),
        ({"data": "x\0.csv"}, "control characters"),
        ({"data": "x\udcff.csv"}, "control characters"),
        ({"lr": float("nan")}, "finite number"),
        ({"options": {"mu": float("inf")}}, "finite number"),
        ({"rounds": "9" * 5000}, r"Setting 'rounds' is '9{59}\.\.\.: "),
        ({"model": ["a"] * 10**5}, r"\.\.\.: "),
    ],
)
def test_bounds_are_said(settings, says):
    with pytest.raises(UserError, match=says):
        make_config(settings)


def remarked(settings):
    config = make_config(settings)
    method = make(config.method, config.options)
    end = chosen_round_end(config, method, 5)
    return list(remarks(config, Federation(method), policy_of(config, method), 5, end))


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"clients": 3}, "the data's own column names 5"),
        ({"steps": 10}, "the policy price chooses them"),
        ({"policy": "fill", "budget": 2.0, "steps": 3}, "the policy fill chooses them"),
        ({"method": "fedavg", "budget": 2.0}, "the policy fixed does not look at it"),
        ({"stop_at_target": False}, "there is no target"),
        ({"target": 1.0}, f"after {ROUNDS_TO_TARGET:,} rounds"),
    ],
)
def test_what_has_no_effect_is_said(settings, says):
    assert any(says in line for line in remarked(settings))


def test_ordinary_settings_are_not_remarked_upon():
    for settings in ({}, {"method": "amsfl-steps", "lr": 0.1}, {"target": 0.9, "rounds": 5}, SMALL):
        assert remarked(settings) == []


def test_an_object_and_a_name_for_it_are_one_too_many():
    for settings in ({"data": "digits"}, {"label": "x"}):
        with pytest.raises(UserError, match="leave one of them out"):
            amsfl.run(dataset=own_data(), **settings)


def test_a_batch_takes_dicts_and_refuses_what_it_cannot_honour():
    trials = [{**SMALL, "seed": seed, "rounds": 1} for seed in (0, 1)]
    results = amsfl.run_batch(trials, CustomParts(own_data()))
    assert [result.summary.seed for result in results] == [0, 1]
    with pytest.raises(UserError, match="Trial 1 has batch 8, the first one 16"):
        amsfl.run_batch([trials[0], trials[1] | {"batch": 8}])
    with pytest.raises(UserError, match="no trials"):
        amsfl.run_batch([])


def test_the_public_face():
    promised = {"run", "run_batch", "resume", "Dataset", "Model", "Method", "Policy", "Result"}
    assert promised < set(dir(amsfl)) and set(dir(amsfl)) == set(amsfl.__all__)
    for name in promised:
        assert getattr(amsfl, name).__doc__, name
    with pytest.raises(AttributeError, match="no attribute 'runn'"):
        amsfl.runn  # noqa: B018
    result = amsfl.run(dataset=own_data(), **SMALL)
    assert repr(result).startswith("<Result: fedavg on mine, 4 rounds, ") and len(repr(result)) < 120


def test_notebooks_see_the_keywords():
    assert set(RunConfig.model_fields) < set(inspect.signature(amsfl.run).parameters)
    with pytest.raises(UserError, match=r"Unknown setting 'rouns' .did you mean 'rounds'"):
        amsfl.run(rouns=3)
