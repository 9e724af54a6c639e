"""Published tables: their files, our numbers beside theirs, one command."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from amsfl.cli.app import app
from amsfl.core import UserError
from amsfl.study.published_table import TABLES, ComparedCell, compare_with_published, read_table


@pytest.mark.parametrize("name", TABLES)
def test_every_table_says_its_recipe_and_how_ours_differs(name: str) -> None:
    table = read_table(name)
    assert table.source
    assert table.differences
    for case in table.cases.values():
        assert set(case.published) | set(case.why) <= set(case.study.methods)
        for entry in case.study.methods:
            config = case.study.config(entry)
            assert config.ends
            assert config.batches == "shuffled"
            assert config.epochs in (10, 20)


def test_own_settings_of_a_case_are_its_methods_too() -> None:
    cases = read_table("fedprox-synthetic").cases
    assert cases["none"].study.config("fedavg").cohort == 10
    assert cases["most"].study.config("fedavg").cohort == 1  # nine of ten are dropped
    assert cases["most"].study.config("fedprox").stragglers == 0.9
    with pytest.raises(UserError, match="half"):
        read_table("fedprox-synthetic").changed(["halve"], None, None, {})


def test_cells_are_apart_in_joint_deviations() -> None:
    """90 +- 3 and 85 +- 4 are 5 apart, and their joint deviation is 5."""
    cell = ComparedCell("iid", "fedavg", (90.0, 3.0), (85.0, 4.0), 3, 50, 1.0, True, [1.0], [1.0], "")
    assert cell.apart == pytest.approx(1.0)
    assert not cell._replace(whole=False).apart > 0  # a shorter run is not held against theirs
    assert not cell._replace(published=None).apart > 0


@pytest.mark.slow
def test_the_command_runs_a_part_and_its_page_says_so(tmp_path: Path) -> None:
    words = "reproduce fcube --cases iid --methods fedavg --trials 2 --rounds 2 --quiet --out"
    done = CliRunner().invoke(app, [*words.split(), str(tmp_path)])
    assert done.exit_code == 0, done.output
    cells = [cell for cell in compare_with_published(read_table("fcube"), tmp_path) if cell.ours]
    assert [(cell.case, cell.entry, cell.trials, cell.rounds) for cell in cells] == [("iid", "fedavg", 2, 2)]
    assert cells[0].ours is not None
    assert cells[0].ours[0] > 90
    # 4 clients of 157 steps (ten passes over 1,000 rows by 64) at 10 ms, and their communication, twice
    assert cells[0].seconds == pytest.approx(2 * 4 * (157 * 0.01 + 0.025), rel=1e-3)
    text = (tmp_path / "published.md").read_text(encoding="utf-8")
    assert "1 of 1 lines have fewer rounds" in text
    assert "homogeneous" in (tmp_path / "published.html").read_text(encoding="utf-8")
    done = CliRunner().invoke(app, ["reproduce", "fcub"])
    assert done.exit_code == 2
