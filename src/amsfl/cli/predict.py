"""`amsfl predict`, `explain` and `export`: the model of a run, used and judged, and taken elsewhere."""

import warnings
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from amsfl import portable, record
from amsfl.cli.output import AsJson, plain, print_json, say
from amsfl.core import Remark, UserError, nearest
from amsfl.data.recipe import plural
from amsfl.portable import Evaluation, Importance
from amsfl.portable.evaluation import as_csv, has_labels
from amsfl.portable.export import FORMATS
from amsfl.portable.export import export as write

Run = Annotated[Path, Parameter(help="the folder of a run, or of an export")]
Which = Annotated[
    str,
    Parameter(help="best: the model of the best round by the hold-out; last: the final one; auto: best"),
]


def predict(
    run: Run,
    rows: Annotated[Path, Parameter(help="a table of new rows with the columns of the training table")],
    /,
    *,
    out: Annotated[Path, Parameter(help="where to write them")] = Path("predictions.csv"),
    keep: Annotated[
        str, Parameter(help="columns of the new rows to repeat beside the predictions, as in id,name")
    ] = "",
    which: Which = "auto",
    as_json: AsJson = False,
) -> None:
    """Predict new rows: their class with a probability for every class, or their number in its own units.

    Where the table has the label, the predictions are scored beside the base rate, with calibration.
    """
    model = portable.load(run, which)
    table = model.read(str(rows))
    _check_apart(rows, out)
    text, count = as_csv(model, table, _columns_to_repeat(rows, keep) if keep else {})
    record.write_atomically(out, text)
    evaluation = None
    if has_labels(model, table):
        with warnings.catch_warnings():  # what is new in these rows was said for the predictions
            warnings.simplefilter("ignore", Remark)
            evaluation = portable.evaluate(model, table)
    if as_json:
        return print_json({"rows": count, "out": str(out)} | (record.plain(evaluation) if evaluation else {}))
    best = model.about.get("best") if model.about["which"] == "best" else None
    which_round = f" by the best model, that of round {best['round']}" if best else ""
    say(f"{plural(count, 'prediction')}{which_round}: {out}")
    if evaluation:
        _print_scores(evaluation)


def explain(
    run: Run,
    rows: Annotated[
        Path | None,
        Parameter(help="a table with the label; without one: what the run found on its hold-out"),
    ] = None,
    /,
    *,
    which: Which = "auto",
    list_disclosed: Annotated[
        bool, Parameter(name="--leaves", help="list what left the clients in this run, and what protected it")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Say which columns a run's model uses: the score lost where a column is shuffled within each client."""
    if list_disclosed:
        return _print_disclosed(run, as_json)

    importances = _recorded(run) if rows is None else portable.explain(portable.load(run, which), str(rows))
    if as_json:
        return print_json([each._asdict() for each in importances])
    score = importances[0].score
    say(f"{'R²' if score == 'r2' else score} lost where a column is shuffled:")
    for each in importances:
        say(f"{each.lost:8.4f} ± {each.deviation:.4f}  {plain(each.column)}")


def _print_disclosed(run: Path, as_json: bool) -> None:
    """Every quantity that left a client of a run."""
    from amsfl.simulation.provenance import leaves_of

    leaves = leaves_of(run)
    if as_json:
        return print_json([leaf._asdict() for leaf in leaves])
    for leaf in leaves:
        say(f"{leaf.name}: {leaf.what}, {leaf.when}\n    protected by {leaf.protected}")


def _recorded(run: Path) -> list[Importance]:
    """What a run's record has of its last model, on the hold-out."""
    summary = record.read_run(run).summary
    rows = summary.details.get("importance") if summary else None
    if not rows:
        raise UserError(f"{str(run)!r} has no such scores; give rows with answers: amsfl explain RUN FILE.")
    return [Importance(**row) for row in rows]


def _print_scores(evaluation: Evaluation) -> None:
    """Every score beside what always saying the same would have."""
    if evaluation.trained_on:
        say(
            "These are the rows that the model was trained on and chosen by: expect less of new ones. What "
            "it scores on rows that were held out is in the run's report."
        )
    for name, value in evaluation.scores.items():
        base = evaluation.baseline.get(name)
        beside = "" if base is None else f" (always saying the same: {base:.4g})"
        say(f"{name}: {value:.4g}{beside}")
    name = "accuracy" if "accuracy" in evaluation.scores else "r2"
    if evaluation.scores[name] <= evaluation.baseline[name]:
        say(f"On {plural(evaluation.rows, 'row')} the model is not better than always saying the same.")
    if evaluation.calibration:
        say("calibration: rows, mean probability of the prediction, share that is right")
    for each in evaluation.calibration:
        say(f"{each['rows']:9,}  {each['confidence']:.3f}  {each['accuracy']:.3f}")


def _check_apart(rows: Path, out: Path) -> None:
    """Predictions never take the place of the rows that they are of."""
    from amsfl.data.files import site_files

    for file in site_files(str(rows)) or [rows]:
        if out.exists() and out.samefile(file):
            raise UserError(
                f"Predictions would overwrite the new rows in {file}; write them to another file: "
                f"--out {file.stem}-predictions.csv."
            )


def _columns_to_repeat(rows: Path, keep: str) -> dict[str, list[str]]:
    """The columns asked for, as the file has them."""
    from amsfl.data.read_table import read_table
    from amsfl.data.recipe import split_names

    words = read_table(str(rows), lambda names: dict.fromkeys(names, "words")).frame
    names = split_names(keep, words.columns)
    for name in names:
        if name not in words:
            raise UserError(f"{rows} has no column {name!r} to keep{nearest(name, words)}.")
    return {name: words[name].fillna("").tolist() for name in names}


def export(
    run: Run,
    /,
    *,
    to: Annotated[str, Parameter(help="the library: torch, onnx or sklearn")] = "",
    out: Annotated[Path | None, Parameter(help="folder; RUN/export-FORMAT by default")] = None,
    which: Which = "auto",
) -> None:
    """Write a run's model for another library, with what loads it there."""
    if not to:
        raise UserError(f"Say which library the model is for: --to {', '.join(FORMATS)}.")

    where = out or run / f"export-{to}"
    made = write(portable.load(run, which), to, where)
    say(f"{where}: {', '.join(made)}")
