"""From folders of records to every output: tables, figures, summary.json and report.html."""

from pathlib import Path
from typing import Any

import tomli_w

from amsfl.record import dumps, publish
from amsfl.report.draw import figures
from amsfl.report.measure.describe import describe
from amsfl.report.measure.read import Source, read
from amsfl.report.measure.stats import Estimate
from amsfl.report.measure.subject import Study
from amsfl.report.tabulate.contents import tables
from amsfl.report.tabulate.latex import to_latex
from amsfl.report.tabulate.table import Table, to_csv, to_markdown
from amsfl.report.write import page, words

SUMMARY, PAGE = "summary.json", "report.html"


def write(folders: list[Path], out: Path, target: float | None = None) -> Path:
    """Read what is finished in the folders and write the report into `out`; returns the page's path."""
    sources = read(folders)
    study = describe(sources, target)
    made = tables(study)
    pictures = figures.figures(study)
    files: dict[str, bytes] = {}
    for table in made:
        files[f"{table.name}.csv"] = to_csv(table).encode()
        files[f"{table.name}.md"] = to_markdown(table).encode()
        files[f"{table.name}.tex"] = to_latex(table).encode()
    for picture in pictures:
        files[f"{picture.name}.svg"], files[f"{picture.name}.png"] = picture.svg.encode(), picture.png
    files[SUMMARY] = dumps(summary(study), indent=1).encode()
    files[PAGE] = page.page(study, made, pictures, _settings(sources), _progress(sources)).encode()
    publish(out, files)
    return out / PAGE


def _settings(sources: list[Source]) -> str:
    return "\n".join(f"# {source.folder}\n{tomli_w.dumps(source.settings)}" for source in sources)


def _progress(sources: list[Source]) -> str:
    done = sum(len(series.trials) for source in sources for series in source.series)
    all_of_it = sum(source.planned * len(source.series) for source in sources)
    if done >= all_of_it:
        return ""
    return f"Not finished: {done} of {all_of_it} trials are on record, and this report is made from those."


def summary(study: Study) -> dict[str, Any]:
    """Everything that the report says, for programs."""
    names = sorted({name for one in study.found for row in one.values for name in row})
    return {
        "title": study.title,
        "data": study.data,
        "synthetic": study.synthetic,
        "notes": [*filter(None, [study.banner]), *study.notes],
        "clock": study.clock,
        "seconds": study.seconds,
        "target": study.target,
        "reference": study.reference.series.key,
        "overview": words.overview(study),
        "claims": [claim._asdict() for claim in words.claims(study)],
        "methods": {
            one.series.key: {
                "label": one.series.label,
                "note": one.series.note,
                "trials": len(one.values),
                "seeds": [trial.seed for trial in one.series.trials],
                "measures": {name: _plain(one.mean(name)) for name in names},
            }
            for one in study.found
        },
        "tests": [
            {key: _plain(value) for key, value in row.values.items()}
            for table in _tests(study)
            for row in table.rows
        ],
    }


def _tests(study: Study) -> list[Table]:
    return [table for table in tables(study) if table.name == "tests"]


def _plain(value: Any) -> Any:
    return value._asdict() if isinstance(value, Estimate) else value
