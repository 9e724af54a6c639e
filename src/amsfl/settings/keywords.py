"""The settings as keywords, for editors and type checkers. Written by tools/settings.py."""

from typing import Literal, TypedDict

from amsfl.clock import RoundEnd
from amsfl.core import Combine, Transmit
from amsfl.methods import Method
from amsfl.privacy import Mechanism
from amsfl.schedule import Policy


class TrainingKeywords(TypedDict, total=False):
    """What is trained, by which method and for how long: in a simulation and on real clients alike."""

    method: str | Method
    """how clients learn together; `amsfl methods` lists them"""
    options: dict[str, float]
    """a hyper-parameter of the method, as in mu=0.1"""
    policy: str | Policy
    """who chooses the steps; auto: what the method plans by"""
    policy_options: dict[str, float]
    """a number of the policy's, as in steps=10"""
    budget: float | None
    """seconds a round may take; without it: the most gain per second"""
    budget_joules: float | None
    """joules a round may take of all clients together; see docs/time.md"""
    budget_megabytes: float | None
    """megabytes a round may send, up and down together"""
    joules: float | None
    """stop after so many joules of all clients together"""
    megabytes: float | None
    """stop after so many megabytes, up and down together"""
    transmit: str | Transmit
    """what is done to uploads before they are sent, as in topk:0.1,q8"""
    held_back: float
    """share of a client's rows, 2 to 32 of them, for the judge and not for training; 0: none"""
    robust: str | Combine
    """rules over uploads, against false clients; the advice: cap:0.1,clip,nnm:2,geomedian"""
    extrapolation: float
    """FedExP's largest server step, as in 4; 0: no FedExP"""
    server_optimizer: str
    """the server's step over the method's: adam, yogi or momentum, as in adam:0.03"""
    data: str
    """nslkdd, nslkdd-synth, digits, a table (FILE.csv, .xlsx ...) or a folder, a table a site"""
    data_dir: str | None
    """folder of the NSL-KDD files"""
    label: str | None
    """label column of a table"""
    client_column: str | None
    """column of a table that says who owns a row"""
    drop: str
    """columns of a table to leave out, with commas between"""
    columns: str
    """how columns are read, as in zip=words,note=text; or number, date, hash, frequency, drop"""
    keep: str
    """columns that look like identifiers and are to be learned from"""
    missing: str
    """words and numbers of a table that mean a gap, as in -999,unclear"""
    impute: Literal["indicator", "shared", "site", "refuse"]
    """gaps of a table: a category of their own, filled by sums or by each site, or refused"""
    task: Literal["auto", "classification", "regression"]
    """what a table's label is; auto: a number if it has fractions or over 20 values"""
    binary: bool
    """NSL-KDD: normal against attack instead of five classes"""
    partition: str
    """iid, dirichlet:0.5, shards:2, quantity:0.5, column; auto: column if there is one, else dirichlet:0.5"""
    model: str
    """softmax, mlp (64-32), mlp:128-64, cnn, resnet, transformer; sizes: docs/models.md"""
    clients: int
    """how many clients there are"""
    cohort: int | None
    """clients drawn for a round; all by default"""
    clock: str
    """sum: one client after another; makespan: all at once; auto: makespan for your own data"""
    round_end: str | RoundEnd
    """when the server moves: all, deadline:2.5, quorum:3, quorum:0.8, buffer:10, groups; see docs/time.md"""
    late: Literal["auto", "stale", "drop"]
    """work that a deadline or quorum leaves behind: is used later or dropped; auto: as the round end says"""
    staleness: str
    """what an upload t moves old counts: constant, sqrt, poly:0.5, hinge:10/4; auto: as the round end says"""
    rounds: int | None
    """stop after so many rounds; 50 if nothing else ends it"""
    seconds: float | None
    """stop after so many seconds: virtual ones, or real clients' own"""
    score: str
    """what counts on the hold-out: accuracy, f1, auc, f1:CLASS, r2, mae; see docs/scores.md"""
    target: str | float | None
    """stop at this score of the hold-out, as in 0.95, auc=0.9 or r2=0.8; alone: 1,000 rounds at most"""
    stop_at_target: bool
    """whether reaching the target ends the run"""
    stop_after: int
    """scored rounds without a better score that end the run; 0: none"""
    judge_by: str
    """what the best round goes by, if not the score: loss, or a metric of your own; -error: less is better"""
    steps: int
    """local steps a round, where the policy does not choose them"""
    lr: float
    """local learning rate, where the method does not set its own"""
    batch: int
    """rows of a minibatch"""
    seed: int
    """of partition, initial model and sampling"""
    readings: bool
    """GDA readings on record, for any method"""
    eval_every: int
    """rounds between evaluations"""
    privacy: str | Mechanism
    """record: rows clipped and noised at clients; client: deltas at the server; auto: by epsilon; none"""
    epsilon: float | None
    """privacy that a client's rows may lose in a run; see docs/privacy.md"""
    public_columns: bool
    """under privacy: a table's words, ranges, medians and class names are public"""
    delta: float
    """chance that epsilon does not hold"""
    noise: float | None
    """of a private step, over the clipping norm; without it: each client's least for its epsilon"""
    clip: float
    """norm that every row's gradient is cut to, if private; or every client's delta"""
    clip_quantile: float
    """share of clients whose deltas are to stay whole: their clip follows it; 0: it stays"""


class RunKeywords(TrainingKeywords, total=False):
    """All settings of a simulated run."""

    profile: str
    """how fast clients are: a name, FILE.csv, lognormal:0.02,0.8; see `amsfl profiles`"""
    availability: str
    """when clients are there: always, chain:600,60, day:86400,0.6, FILE.csv (client,from,to)"""
    jitter: float
    """sigma of the lognormal factor on a round's steps and on its link"""
    failure: float
    """chance that a client's round comes to nothing"""
    attack: str
    """what false clients do, and how many of them, as in signflip:2; see docs/robust.md"""
    loss: Literal["auto", "cross-entropy", "squared", "absolute"]
    """what clients minimise: cross-entropy of classes, squared or absolute error of numbers"""
    class_weights: str
    """balanced (by counts that sites can add up), or as in yes=5,no=1; '': all alike"""
    engine: Literal["jax", "loop"]
    """jax, or loop: slow and talkative"""
    precision: Literal["float32", "float64", "strict", "tf32", "bf16"]
    """of all arithmetic; strict, tf32, bf16: products of float32 on GPUs (docs/scale.md)"""
    pieces: int | None
    """parts of a minibatch, one after another, for less memory; none: as a GPU's memory asks"""
    shard_model: int
    """devices that share a model, each with a part of every layer; see docs/scale.md"""
    local_accuracy: bool
    """score every client's own model at the end"""
    details: bool
    """at the end: confusion, AUC, calibration, and scores of every client's own rows"""
    test_every: int
    """evaluations between those of other splits than the hold-out"""
    checkpoint_every: int
    """rounds between checkpoints"""


class ServeKeywords(TrainingKeywords, total=False):
    """All settings of a Flower server. Real clients work side by side, so its clock is makespan."""

    give_up: str
    """seconds that a round waits for a client, as in 60, or 600,120,60 by round; '': three times the plan"""
    poll: float
    """seconds between two looks for replies"""
    norm_limit: float
    """times the usual size at which an update is refused (docs/flower.md)"""
    patience: float
    """seconds without one good reply after which the server gives up"""
    evaluate_clients: int
    """every so many rounds clients score the model on their own test rows; 0: never"""
    evaluate_quorum: float
    """share of the clients whose scores are waited for"""
    keyed: bool
    """SuperNodes have registered keys: a client's name stays with its node for good"""
