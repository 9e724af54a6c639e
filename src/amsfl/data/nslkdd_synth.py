"""nslkdd-synth: made-up traffic to the NSL-KDD schema, for when the real files cannot be had.

Each kind of traffic is one line of a table: what it talks to and the typical size of a few quantities;
the 41 raw columns are drawn around them and go through the same encoder as the real files. It is built to
be hard in the way that matters for federated methods: pairs of normal traffic and attacks (marked *) have
the same marginals and differ only in how two quantities go together (both large or both small against one
of each), which no linear model can tell apart, and the test split holds attacks that the rest never shows.
It is not a model of real networks.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from amsfl.data.dataset import Dataset, IntArray, random_stream
from amsfl.data.nslkdd import ATTACKS, CLASSES, LINEAR, LOG, TOPS, RawTraffic, traffic_data

ROWS, TEST_ROWS, SEED = 25_000, 5_000, 1999
NOTE = "Synthetic data (nslkdd-synth): generated to the NSL-KDD schema, not real traffic."
SHARES = {  # rows of each class in KDDTrain+ and KDDTest+
    "train": dict(zip(CLASSES, (67343, 45927, 11656, 995, 52), strict=True)),
    "test": dict(zip(CLASSES, (9711, 7460, 2421, 2885, 67), strict=True)),
}
SPREAD = 0.8  # standard deviation of every draw, on a log scale (sizes) or logit scale (rates)

# Weights of a kind within its class, in the training file and in the test split; then typical values:
# bytes each way, connections to the same host within two seconds and the part of them to the same service,
# the same two over the last 255 connections, the part from the same port; last, what was said in it.
KINDS = """
attack          train test proto service  flags    secs   src  dst count srv host h_srv port said
normal             42   40 tcp   web      SF          0   250 2500     5 .97  150   .95  .03 login
normal             15   12 udp   dns      SF          0    45   90    60 .97  240   .95  .01 -
normal              9    7 tcp   ftp_data SF          1  4000    0     3 .90  100   .40  .40 login
normal              5    5 tcp   shell    SF,RSTO    90   400  900     1 .90   60   .30  .05 login
normal              5    4 tcp   mixed    REJ,S0      0     0    0     4 .70  120   .50  .05 -
normal*           3.5    4 tcp   web      SF          0    30  6e5     5 .95  120   .90  .05 login
normal*           3.5    4 tcp   web      SF          0   6e5   30     5 .95  120   .90  .05 login
normal*             2    2 tcp   odd      SF,S0       0     0    0   250 .50    8   .50  .05 -
normal*             2    2 tcp   odd      SF,S0       0     0    0     2 .50  245   .50  .05 -
normal*           1.5    2 tcp   odd      SF,REJ      0    10   10     9 .93  200   .05  .05 -
normal*           1.5    2 tcp   odd      SF,REJ      0    10   10     9 .07  200   .95  .05 -
neptune            44   40 tcp   many     S0          0     0    0   180 .06  250   .05  .01 -
neptune            14   12 tcp   many     REJ         0     0    0   180 .06  250   .05  .01 -
smurf              12    8 icmp  ecr_i    SF          0  1032    0   400 .98  250   .80  .80 -
teardrop            6    2 udp   private  SF          0    28    0    60 .95  240   .20  .02 fragment
back*               4    3 tcp   web      SF          0   6e5  6e5     5 .95  120   .90  .05 login
back*               4    3 tcp   web      SF          0    30   30     5 .95  120   .90  .05 login
neptune*          3.5    3 tcp   odd      SF,S0       0     0    0   250 .50  245   .50  .05 -
neptune*          3.5    3 tcp   odd      SF,S0       0     0    0     2 .50    8   .50  .05 -
ipsweep            30    8 icmp  eco_i    SF          0     8    0     1 .95   20   .90  .90 -
satan              24   22 tcp   many     REJ,RSTR    0     0    0    40 .03  150   .02  .20 -
portsweep          18    8 tcp   odd      RSTR,SH  3000     0    0     1 .50  250   .02  .60 -
satan*              9    6 tcp   odd      SF,REJ      0    10   10     9 .93  200   .95  .05 -
satan*              9    6 tcp   odd      SF,REJ      0    10   10     9 .07  200   .05  .05 -
warezclient        80    5 tcp   ftp      SF          5 90000    0     2 .95  150   .50  .60 warez
guess_passwd       20   15 tcp   shell    RSTO,SF     3   120  200     1 .95   30   .90  .05 guess
buffer_overflow   100   40 tcp   shell    SF        100  1500 3000     1 .95    5   .90  .50 root
apache2             0   12 tcp   http     SF,RSTR     5 10000 2500     9 .95  150   .95  .03 login
processtable        0    8 tcp   shell    RSTO,S0   300     5    5     2 .50  200   .50  .05 -
mscan               0   25 tcp   many     S0,REJ      1     0    0   120 .10  250   .08  .02 -
saint               0   17 tcp   mixed    REJ,SF      0     5    5    30 .30  220   .20  .03 -
snmpguess           0   30 udp   dns      SF          0    45   60    40 .97  240   .95  .01 -
warezmaster         0   30 tcp   ftp      SF         10  3000   50     1 .95   60   .50  .30 login
httptunnel          0   20 tcp   web      SF          5   400 1500     2 .95   90   .90  .10 login
xterm               0   60 tcp   shell    SF         60  1000 2500     1 .95   30   .60  .10 login
"""


SERVICES = {  # names of the table that stand for several services; any other is itself
    "web": "http smtp",
    "dns": "domain_u ntp_u",
    "ftp": "ftp ftp_data",
    "shell": "telnet ftp ssh finger pop_3",
    "mixed": "private http smtp auth",
    "odd": "private other telnet",
    "many": "private other telnet ftp uucp whois ctf finger gopher time courier imap4 bgp",
}
SAID: dict[str, dict[str, float]] = {  # expected values of the columns that look inside a connection
    "-": {},
    "login": {"logged_in": 1, "hot": 0.3},
    "fragment": {"wrong_fragment": 3},
    "warez": {"logged_in": 1, "is_guest_login": 1, "hot": 20},
    "guess": {"num_failed_logins": 1, "hot": 1},
    "root": {"logged_in": 1, "root_shell": 1, "hot": 2, "num_file_creations": 2, "num_shells": 1},
}


def load_synth(argument: str = "", holdout: float = 0.2, seed: int = 0) -> Dataset:
    """The same rows on every machine; `seed` only chooses which of them are held out."""
    made, shifted = (generate(which, n) for which, n in (("train", ROWS), ("test", TEST_ROWS)))
    data = traffic_data("nslkdd-synth", made, shifted, holdout, seed)
    return data._replace(synthetic=True, note=NOTE)


def generate(which: str, n: int, seed: int = SEED) -> RawTraffic:
    """n raw rows with the class shares of KDDTrain+ ('train') or KDDTest+ ('test')."""
    rng = random_stream(seed, which)
    names, *lines = (line.split() for line in KINDS.strip().splitlines())
    table = dict(zip(names, zip(*lines, strict=True), strict=True))
    attacks = np.array([attack.rstrip("*") for attack in table["attack"]])
    kind = rng.permutation(
        np.repeat(np.arange(len(lines)), _quotas(attacks.tolist(), table[which], which, n))
    )
    services = [SERVICES.get(name, name).split() for name in table["service"]]
    options = [[name] for name in table["proto"]], services, [flags.split(",") for flags in table["flags"]]
    words = np.stack([_choose(rng, each, kind) for each in options], axis=1)
    sizes = np.array([table[name] for name in ("secs", "src", "dst", "count", "host")], float).T[kind]
    sizes = np.rint(sizes * np.exp(SPREAD * rng.standard_normal(sizes.shape)))
    rates = _blur(rng, np.array([table[name] for name in ("srv", "h_srv", "port")], float).T[kind])
    quantities = "duration", "src_bytes", "dst_bytes", "count", "dst_host_count"
    column = dict(zip(quantities, sizes.T, strict=True))
    same, host_same, column["dst_host_same_src_port_rate"] = rates.T
    column |= {"same_srv_rate": same, "dst_host_same_srv_rate": host_same}
    column["srv_count"] = np.ceil(column["count"] * same)
    column["dst_host_srv_count"] = np.ceil(np.minimum(column["dst_host_count"], 255) * host_same)
    column["diff_srv_rate"] = (1 - same) * rng.beta(2, 6, n)
    column["dst_host_diff_srv_rate"] = (1 - host_same) * rng.beta(2, 6, n)
    for name in ("srv_diff_host_rate", "dst_host_srv_diff_host_rate"):
        column[name] = rng.beta(1, 8, n)
    for letter, flags in (("s", ["S0", "S1", "S2", "S3", "SH"]), ("r", ["REJ", "RSTO", "RSTOS0", "RSTR"])):
        failed = np.where(np.isin(words[:, 2], flags), 0.93, 0.04)
        for prefix in ("", "srv_", "dst_host_", "dst_host_srv_"):
            column[f"{prefix}{letter}error_rate"] = _blur(rng, failed)
    said = [SAID[name] for name in table["said"]]
    for name in sorted({name for each in said for name in each}):  # sorted: sets have no order to rely on
        mean = np.array([each.get(name, 0.0) for each in said])[kind]
        column[name] = rng.poisson(mean) if name in LOG or name in LINEAR else rng.random(n) < 0.95 * mean
    raw = np.zeros((n, len(TOPS)), np.float32)  # zero where nothing was drawn
    for i, (name, top) in enumerate(TOPS.items()):
        raw[:, i] = np.clip(column.get(name, 0), 0, top)
    return RawTraffic(raw, words, attacks[kind])


def _quotas(attacks: list[str], parts: Sequence[str], which: str, n: int) -> IntArray:
    """Rows of each kind: its part of its class's share, rounded so that they add up to n."""
    family = {attack: place for place, names in enumerate(ATTACKS.values()) for attack in names.split()}
    place, part = np.array([family[attack] for attack in attacks]), np.array(parts, float)
    shares, whole = np.array(list(SHARES[which].values())), np.bincount(place, part)
    exact = n * shares[place] / shares.sum() * part / whole[place]
    return np.asarray(np.diff(np.rint(np.cumsum(exact)).astype(np.int64), prepend=0), np.int64)


def _choose(rng: np.random.Generator, options: list[list[str]], kind: IntArray) -> npt.NDArray[np.str_]:
    """One of each row's equally likely words."""
    size = np.array([len(words) for words in options])
    start = np.cumsum(size) - size
    flat = np.array([word for words in options for word in words])
    return np.asarray(flat[start[kind] + rng.integers(size[kind])], np.str_)


def _blur(rng: np.random.Generator, rate: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Rates scattered around typical ones, to two digits as the files have them."""
    logit = np.log(rate / (1 - rate)) + SPREAD * rng.standard_normal(rate.shape)
    return np.asarray(np.round(1 / (1 + np.exp(-logit)), 2), np.float64)
