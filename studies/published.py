"""docs/published.md: how we compare with published results, from the records of `amsfl reproduce TABLE`.

amsfl reproduce fcube; amsfl reproduce fedprox-synthetic; amsfl reproduce niid-bench
python studies/published_time.py --data-dir DIR
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

TIME = """## Claims on time: FedBuff's and Oort's

`python studies/published_time.py --data-dir DIR`: NSL-KDD over 200 clients (Dirichlet 0.5), 50 training
at a time, two seeds, virtual seconds by the clock `makespan`. What is held against the claims is their shape:
who wins and by how much, at a spread of speeds as the papers have it. FedBuff (Nguyen et al. 2022, arXiv
2106.06639) claims 3.3 times fewer client updates than FedAvgM and up to 2.5 times fewer than FedAsync. Oort
(Lai et al. 2021, arXiv 2010.06081) claims 1.2 to 14.1 times less time than random cohorts.

{tables}
- Not to be had here: their data, a thousand clients training at once (FedBuff's gain in updates is one of
  large cohorts; at 50, uploads that are out of date cost more than they save, and its gain is in time),
  and the traces of phones that Oort takes its speeds from. Here a client's speed is drawn once,
  not for every round.
- Oort chooses who trains. There is no such choice in this package: cohorts are random, and AMSFL gives slow
  clients fewer steps instead. Its gain stands beside Oort's and is no replay of it.
- Learning rates of all but AMSFL are the best of four (0.1, 0.3, 1, 3) with hindsight, at one pass over a
  client's rows a round.
"""


def main(results: Path, page: Path) -> None:
    parts = [HEAD.format(commands="\n".join(f"amsfl reproduce {name}" for name in TABLES))]
    for name in TABLES:
        content = page_of(name, results / name)
        parts.append(f"## {content.title}\n\n{content.markdown()}")
    time = results / "published-time" / "published-time.md"
    if time.exists():
        parts.append(TIME.format(tables=time.read_text(encoding="utf-8")))
    page.write_text("\n".join(parts), encoding="utf-8")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:3]))
