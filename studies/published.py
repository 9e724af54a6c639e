"""docs/published.md: how we compare with published results, from the records of `amsfl reproduce TABLE`.

amsfl reproduce fcube; amsfl reproduce fedprox-synthetic; amsfl reproduce niid-bench
python studies/published.py results docs/published.md
"""

import sys
from pathlib import Path

from amsfl.cli.published import page_of
from amsfl.study.published_table import TABLES

HEAD = """# How we compare with published results

<!-- Written by `python studies/published.py results docs/published.md` from the records of the studies. -->

Each table below is the recipe of a publication, run by one command, with the published numbers beside ours.
The files in `src/amsfl/study/published/` say every setting.

```
{commands}
```

A study that was stopped goes on with the same command. `--cases`, `--methods`, `--trials` and `--rounds` make
it smaller. Accuracies are in percent: the best of any round, its mean and deviation over trials. *Apart* is
the distance between the two means in joint deviations; beyond two there is a sentence that says why. Seconds
are virtual, by the profile `uniform` and the clock `sum`; the publications have none. *To FedAvg's best*:
seconds until a method is as good as FedAvg's best round in the same trial, on average over the
trials that get there.
"""


def main(results: Path, page: Path) -> None:
    parts = [HEAD.format(commands="\n".join(f"amsfl reproduce {name}" for name in TABLES))]
    for name in TABLES:
        content = page_of(name, results / name)
        parts.append(f"## {content.title}\n\n{content.markdown()}")
    page.write_text("\n".join(parts), encoding="utf-8")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:3]))
