"""Who takes part: for every peer its virtual environment, what is installed there, and how it is started."""

from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent

# One pip call per entry, in this order. PyTorch goes first and alone and is named again with each peer, as
# is the torchvision that belongs to it: an unpinned torchvision pulls another torch, and CUDA with it.
# Where pip's index offers CUDA builds only, see README.md.
TORCH, VISION = "torch==2.13.0", "torchvision==0.28.0"
VENVS: dict[str, list[list[str]]] = {
    "ours": [["--editable", str(ROOT)]],
    "pytorch": [[TORCH, "numpy"]],
    "pfl": [[TORCH], [TORCH, "pfl[pytorch]==0.6.0"]],
    "fedjax": [["fedjax==0.0.17", "jax==0.10.2"]],
    "flower": [[TORCH], [TORCH, "flwr[simulation]==1.41.0"]],
    "fluke": [[TORCH], [TORCH, VISION, "fluke-fl==0.8.1"]],
    "fedlab": [[TORCH], [TORCH, VISION, "fedlab==1.3.0"]],
    "flgo": [[TORCH], [TORCH, VISION, "flgo==0.4.4"]],
}


class Peer(NamedTuple):
    title: str
    venv: str
    script: str  # under peers/; empty for ours, which is a command of its own
    launch: tuple[str, ...] = ()  # between the interpreter and the script
    jobs: str = "ABCDEF"  # those it can do
    gpu: bool = False  # whether it can do them on a GPU
    env: tuple[tuple[str, str], ...] = ()


TWO = ("-m", "torch.distributed.run", "--nproc-per-node", "2")
PEERS: dict[str, Peer] = {
    "ours": Peer("amsfl", "ours", "", gpu=True, env=(("PYTHONPATH", str(ROOT / "src")),)),
    "matmul": Peer("matrix products alone", "pytorch", "matmul.py", jobs="ABEF"),
    "pytorch": Peer("plain PyTorch loop", "pytorch", "plain_pytorch.py", gpu=True),
    "pytorch-compiled": Peer(
        "plain PyTorch loop, torch.compile",
        "pytorch",
        "plain_pytorch.py",
        gpu=True,
        env=(("BENCH_COMPILE", "1"),),
    ),
    "pytorch-two": Peer("plain PyTorch, two processes", "pytorch", "plain_pytorch_two.py"),
    "pfl": Peer("pfl-research", "pfl", "pfl_research.py", gpu=True),
    "pfl-two": Peer("pfl-research, two processes", "pfl", "pfl_research.py", TWO),
    "fedjax": Peer("FedJAX", "fedjax", "fed_jax.py"),
    "flower": Peer("Flower simulation (Ray, 2 actors)", "flower", "flower_sim.py"),
    "fluke": Peer("fluke", "fluke", "fluke_fl.py"),
    "fedlab": Peer("FedLab", "fedlab", "fed_lab.py"),
    "flgo": Peer("FLGo", "flgo", "fl_go.py"),
}


def command(
    name: str, python: Path, job: str, export: Path, model: Path, data_dir: str, repeat: int
) -> list[str]:
    """How one peer is started on one job."""
    peer = PEERS[name]
    if not peer.script:
        given = ["--job", job, "--repeat", str(repeat), *(["--data-dir", data_dir] if data_dir else [])]
        return [str(python), str(HERE / "ours.py"), *given]
    script = str(HERE / "peers" / peer.script)
    return [str(python), *peer.launch, script, str(export), str(model), "--repeat", str(repeat)]
