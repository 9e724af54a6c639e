"""From folders of records to every output: tables, figures, summary.json and report.html."""

from collections.abc import Sequence
from pathlib import Path

import tomli_w

from amsfl.record import dumps, publish
from amsfl.report.draw import figures
from amsfl.report.measure.describe import describe
from amsfl.report.measure.read import Source, read
from amsfl.report.measure.stats import Estimate
from amsfl.report.measure.subject import Study
from amsfl.report.measure.text import block, shown
from amsfl.report.tabulate.contents import brief, tables
from amsfl.report.tabulate.csvs import to_csv
from amsfl.report.tabulate.latex import to_latex
from amsfl.report.tabulate.markdown import to_markdown
from amsfl.report.tabulate.table import Table, Value
from amsfl.report.write import claims, page
from amsfl.report.write.advice import advice, scope

SUMMARY, PAGE = "summary.json", "report.html"


def write(folders: list[Path], out: Path, target: float | None = None, score: str | None = None) -> Path:
    """Read what is finished in the folders and write the report.

    Args:
        folders: Of studies and runs.
        out: Where the report goes.
        target: Another score of the hold-out to measure times to.
        score: Which one, as in f1; that of the records by default.

    Returns:
        The page's path.
    """
    publish(out, compose(read(folders), target, score))
    return out / PAGE


def compose(sources: list[Source], target: float | None = None, score: str | None = None) -> dict[str, bytes]:
    """Every file of the report by its name; reads and writes nothing."""
    study = describe(sources, target, score)
    made = tables(study)
    pictures = figures.figures(study, brief(study))
    files: dict[str, bytes] = {}
    for table in made:
        files[f"{table.name}.csv"] = to_csv(table).encode()
        files[f"{table.name}.md"] = to_markdown(table).encode()
        files[f"{table.name}.tex"] = to_latex(table).encode()
    for picture in pictures:
        files[f"{picture.name}.svg"], files[f"{picture.name}.png"] = picture.alone.encode(), picture.png
    files[SUMMARY] = dumps(summary(study, made), indent=1).encode()
    files[PAGE] = page.page(study, made, pictures, _settings(sources), _progress(sources)).encode()
    return files


def _settings(sources: list[Source]) -> str:
    return block("\n".join(f"# {shown(s.folder)}\n{tomli_w.dumps(s.settings)}" for s in sources))


def _progress(sources: list[Source]) -> str:
    done = sum(len(series.trials) for source in sources for series in source.series)
    all_of_it = sum(source.planned * len(source.series) for source in sources)
    if done >= all_of_it:
        return ""
    return f"Not finished: {done} of {all_of_it} trials are on record, and this report is made from those."


def summary(study: Study, made: Sequence[Table]) -> dict[str, object]:
    """Everything that the report says, for programs."""
    names = sorted({name for one in study.found for row in one.values for name in row})
    return {
        "title": study.title,
        "data": study.data,
        "synthetic": study.synthetic,
        "notes": [*filter(None, [study.banner]), *study.notes],
        "differences": study.unlike,
        "score": study.score.name,
        "base_rate": study.base,
        "clock": study.clock,
        "seconds": study.seconds,
        "target": study.target,
        "reference": study.reference.series.key,
        "overview": f"{scope(study)} {advice(study)}",
        "claims": [claim._asdict() for claim in claims.claims(study)],
        "methods": {
            one.series.key: {
                "label": one.label,
                "note": one.note,
                "trials": len(one.values),
                "seeds": [trial.seed for trial in one.series.trials],
                "measures": {name: _plain(one.mean(name)) for name in names},
            }
            for one in study.found
        },
        "tests": [
            {key: _plain(value) for key, value in row.values.items()}
            for table in made
            if table.name == "tests"
            for row in table.rows
        ],
    }


def _plain(value: Value) -> object:
    return value._asdict() if isinstance(value, Estimate) else value
