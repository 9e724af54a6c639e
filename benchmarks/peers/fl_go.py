"""FLGo: its fedavg on a direct task, fixed local steps (its num_steps), evaluation and logging off.

The task file is fl_go_config.py. Clients are sampled uniformly and averaged by their rows, which FLGo
calls sample=uniform and aggregate=other. Its parallel modes make a new process pool (or Ray
tasks) every round and ship the server to it; with rounds this short the serial loop is used.
"""

import os
import sys
import tempfile
from pathlib import Path

from common_torch import mend_torchvision, pick_threads, weights_of

from common import Clock, arguments

mend_torchvision()

import flgo  # noqa: E402
import flgo.algorithm.fedavg as fedavg  # noqa: E402
from flgo.experiment.logger import BasicLogger  # noqa: E402


class Quiet(BasicLogger):
    def log_once(self, *args, **kwargs) -> None:
        """Nothing to evaluate."""


class Server(fedavg.Server):
    clock: Clock

    def iterate(self):
        done = super().iterate()
        self.clock.round(lambda: weights_of(self.model))
        return done


class Timed:
    """What FLGo calls an algorithm: a namespace with a Server and a Client."""

    Server, Client = Server, fedavg.Client


def main() -> None:
    args = arguments()
    job, clock = args.job, Clock(args)
    os.environ["BENCH_JOB"] = os.path.abspath(args.path)
    model = os.path.abspath(args.model)
    config = Path(__file__).resolve().with_name("fl_go_config.py")
    threads = pick_threads(job)
    clock.args = args._replace(model=model)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)  # FLGo imports a task by its path relative to the working directory
        sys.path.append(folder)
        task = flgo.gen_direct_task_from_file("task", str(config), folder)
        Server.clock = clock
        option = {
            "num_rounds": clock.total,
            "num_steps": job.steps,
            "batch_size": job.batch,
            "learning_rate": job.lr,
            "proportion": job.cohort / job.clients,
            "sample": "uniform",
            "aggregate": "other",
            "train_holdout": 0.0,
            "eval_interval": -1,
            "no_log_console": True,
            "no_tqdm": True,
            "torch_num_threads": threads,
        }
        flgo.init(task, Timed, option=option, Logger=Quiet).run()
        os.chdir("/")
    clock.report("flgo", threads=threads)


if __name__ == "__main__":
    main()
