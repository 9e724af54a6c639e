"""NSL-KDD: two text files, found or fetched, checked by SHA-256, parsed and encoded by the schema.

Tavallaee, Bagheri, Lu, Ghorbani, "A Detailed Analysis of the KDD CUP 99 Data Set", IEEE CISDA 2009,
doi 10.1109/CISDA.2009.5356528. The files are not part of this package.

41 raw columns become 122 numbers in [0, 1], and nothing is fitted: a federated client cannot see the ranges
of the others, so the vocabularies and ranges are written down here. They are those of the KDD Cup 1999 data
from which NSL-KDD was drawn.

nslkdd-synth is made-up traffic to the same schema, for when the real files cannot be had.

Each kind of traffic is one line of a table: what it talks to and the typical size of a few quantities;
the 41 raw columns are drawn around them and go through the same encoder as the real files. It is built to
be hard in the way that matters for federated methods: pairs of normal traffic and attacks (marked *) have
the same marginals and differ only in how two quantities go together (both large or both small against one
of each), which no linear model can tell apart, and the test split holds attacks that the rest never shows.
It is not a model of real networks.
"""

import gzip
import hashlib
import io
import os
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from amsfl.core import UserError
from amsfl.data.dataset import Dataset, IntArray, hold_out, random_stream
from amsfl.data.recipe import ColumnRecipe, Recipe
from amsfl.record.disk import make_folder, user_cache, write_atomically

if TYPE_CHECKING:
    import pandas as pd

MIRROR = "https://raw.githubusercontent.com/defcom17/NSL_KDD/master/"
SHA256 = {  # of the uncompressed file
    "KDDTrain+.txt": "1b86d2f957b33082081bba410fe129b475efebcc13c9014c3f447c8271aadf95",
    "KDDTest+.txt": "fa46b0935342616aa83b7c2578db355b6a7aaabbc492248172c7a1e8b7ab8f84",
}
VARIABLE = "AMSFL_DATA_DIR"  # of the environment: where the files lie
TIMEOUT = 5  # seconds to connect, and between bytes: offline must not mean waiting

# LOG and LINEAR hold the largest value of a column; all others are fractions or flags, from 0 to 1.
_COLUMNS = (
    "duration protocol_type service flag src_bytes dst_bytes land wrong_fragment urgent hot "
    "num_failed_logins logged_in num_compromised root_shell su_attempted num_root num_file_creations "
    "num_shells num_access_files num_outbound_cmds is_host_login is_guest_login count srv_count "
    "serror_rate srv_serror_rate rerror_rate srv_rerror_rate same_srv_rate diff_srv_rate "
    "srv_diff_host_rate dst_host_count dst_host_srv_count dst_host_same_srv_rate dst_host_diff_srv_rate "
    "dst_host_same_src_port_rate dst_host_srv_diff_host_rate dst_host_serror_rate "
    "dst_host_srv_serror_rate dst_host_rerror_rate dst_host_srv_rerror_rate"
)
LOG = {
    "duration": 58_329,
    "src_bytes": 1_379_963_888,
    "dst_bytes": 1_309_937_401,
    "hot": 101,
    "num_compromised": 7_479,
    "num_root": 7_468,
    "num_file_creations": 100,
    "num_shells": 5,
    "num_access_files": 9,
    "count": 511,
    "srv_count": 511,
}
LINEAR = {
    "wrong_fragment": 3,
    "urgent": 14,
    "num_failed_logins": 5,
    "su_attempted": 2,
    "dst_host_count": 255,
    "dst_host_srv_count": 255,
}
_VOCABULARY = {
    "protocol_type": "icmp tcp udp",
    "service": (
        "IRC X11 Z39_50 aol auth bgp courier csnet_ns ctf daytime discard domain domain_u echo eco_i ecr_i "
        "efs exec finger ftp ftp_data gopher harvest hostnames http http_2784 http_443 http_8001 imap4 "
        "iso_tsap klogin kshell ldap link login mtp name netbios_dgm netbios_ns netbios_ssn netstat nnsp "
        "nntp ntp_u other pm_dump pop_2 pop_3 printer private red_i remote_job rje shell smtp sql_net ssh "
        "sunrpc supdup systat telnet tftp_u tim_i time urh_i urp_i uucp uucp_path vmnet whois"
    ),
    "flag": "OTH REJ RSTO RSTOS0 RSTR S0 S1 S2 S3 SF SH",
}
COLUMNS = tuple(_COLUMNS.split())
VOCABULARY = {name: tuple(words.split()) for name, words in _VOCABULARY.items()}
NUMERIC = tuple(name for name in COLUMNS if name not in VOCABULARY)
TOPS = dict.fromkeys(NUMERIC, 1) | LOG | LINEAR
FEATURES = (*NUMERIC, *(f"{name}={word}" for name, words in VOCABULARY.items() for word in words))

# Attack families as Tavallaee et al. 2009 (doi 10.1109/CISDA.2009.5356528) group them.
ATTACKS = {
    "normal": "normal",
    "dos": "back land neptune pod smurf teardrop apache2 udpstorm processtable worm mailbomb",
    "probe": "satan ipsweep nmap portsweep mscan saint",
    "r2l": (
        "guess_passwd ftp_write imap phf multihop warezmaster warezclient spy xlock xsnoop snmpguess "
        "snmpgetattack httptunnel sendmail named"
    ),
    "u2r": "buffer_overflow loadmodule rootkit perl sqlattack xterm ps",
}
CLASSES = tuple(ATTACKS)


class Unavailable(UserError):
    """Nothing on this machine, and the mirror cannot be reached."""


def load_nslkdd(holdout: float, seed: int) -> Dataset:
    """A hold-out of KDDTrain+ and the official KDDTest+, side by side."""
    pool, test = (parse(published(path, name)) for name, path in files().items())
    return traffic_data("nslkdd", pool, test, holdout, seed)


def files() -> dict[str, Path]:
    """Both files by name: from the folder that VARIABLE names, else the cache, else the mirror."""
    named = os.environ.get(VARIABLE)
    if not named:
        return {name: _find(user_cache(), name) or download(name) for name in SHA256}
    paths = {name: _find(Path(named).expanduser(), name) for name in SHA256}
    missing = [name for name, path in paths.items() if path is None]
    if missing:
        raise UserError(
            f"{VARIABLE} names the folder {named!r}, which does not hold {' and '.join(missing)} (plain or "
            f".gz); put the files there, or leave it out to use the cache or download them."
        )
    return {name: path for name, path in paths.items() if path}


def find_location() -> str:
    """Where the files are, or how to get them, in a few words."""
    named = os.environ.get(VARIABLE)
    folder = Path(named).expanduser() if named else user_cache()
    if all(_find(folder, name) for name in SHA256):
        return f"found in {folder}"
    return f"not in {named}" if named else "downloaded on first use, or by AMSFL_DATA_DIR"


def _find(folder: Path, name: str) -> Path | None:
    return next((path for path in (folder / name, folder / f"{name}.gz") if path.is_file()), None)


def download(name: str) -> Path:
    """Fetch a file into the cache; it is checked before it gets its name there."""
    from http.client import HTTPException  # here: ssl, which most commands need none of
    from urllib.parse import quote
    from urllib.request import urlopen

    try:
        with urlopen(MIRROR + quote(name), timeout=TIMEOUT) as reply:
            content = reply.read()
        check_sum(MIRROR + name, name, content)
        path = user_cache() / name
        make_folder(path.parent)
        write_atomically(path, content)
    except (OSError, HTTPException, UserError) as error:
        raise Unavailable(
            f"{name} is not on this machine and could not be downloaded from {MIRROR} "
            f"({type(error).__name__}); name the folder of KDDTrain+.txt and KDDTest+.txt (plain or .gz) "
            f"by {VARIABLE}, or use --data nslkdd-synth."
        ) from error
    return path


def published(path: Path, name: str) -> bytes:
    """The file's content, unpacked, if it is byte for byte the published one."""
    try:
        content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    except (OSError, EOFError, zlib.error) as error:
        raise UserError(f"{path} cannot be read ({error}); fetch it again from {MIRROR}.") from error
    check_sum(str(path), name, content)
    return content


def check_sum(where: str, name: str, content: bytes) -> None:
    digest = hashlib.sha256(content).hexdigest()
    if digest != SHA256[name]:
        raise UserError(
            f"{where} is not the published {name}: SHA-256 of its unpacked content is {digest}, expected "
            f"{SHA256[name]}; delete it and fetch it again from {MIRROR}."
        )


def parse(content: bytes) -> "pd.DataFrame":
    """41 columns and the attack's name of every row; a score that follows is not used.

    Not one cell is looked at: the text is the published one.
    """
    import pandas as pd  # here: slow to import, and other data by name need none

    named, kinds = [*COLUMNS, "attack"], dict.fromkeys(NUMERIC, float)
    return pd.read_csv(io.BytesIO(content), names=named, usecols=range(len(named)), dtype=kinds)


def recipe() -> Recipe:
    """The same encoding as data, for tables of new rows whose columns have the schema's names."""
    numbers = [
        ColumnRecipe(name, "number", log=name in LOG, scale=scale, low=0.0, high=1.0)
        for name, top in TOPS.items()
        for scale in [float(np.log1p(top) if name in LOG else top)]
    ]
    words = [ColumnRecipe(name, "words", words=vocabulary) for name, vocabulary in VOCABULARY.items()]
    return Recipe((*numbers, *words), label="class")


def traffic_data(name: str, pool: "pd.DataFrame", test: "pd.DataFrame", holdout: float, seed: int) -> Dataset:
    """Real or made-up traffic: a hold-out of the pool, and the official test rows beside it."""
    from amsfl.data.features import encode
    from amsfl.data.read_table import RawTable

    family = {attack: nth for nth, names in enumerate(ATTACKS.values()) for attack in names.split()}
    (x, y), test_rows = (
        (encode(recipe(), RawTable(name, rows)), rows["attack"].map(family).to_numpy(np.int32))
        for rows in (pool, test)
    )
    return hold_out(
        Dataset(name, x, y, {"test": test_rows}, CLASSES, FEATURES, recipe=recipe()), holdout, seed
    )


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


def load_synth(holdout: float = 0.2, seed: int = 0) -> Dataset:
    """The same rows on every machine; `seed` only chooses which of them are held out."""
    made, shifted = (generate(which, n) for which, n in (("train", ROWS), ("test", TEST_ROWS)))
    data = traffic_data("nslkdd-synth", made, shifted, holdout, seed)
    return data._replace(synthetic=True, note=NOTE)


def generate(which: str, n: int, seed: int = SEED) -> "pd.DataFrame":
    """n raw rows with the class shares of KDDTrain+ ('train') or KDDTest+ ('test')."""
    import pandas as pd

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
    numbers = {name: np.clip(column.get(name, np.zeros(n)), 0.0, top) for name, top in TOPS.items()}
    return pd.DataFrame(numbers | dict(zip(VOCABULARY, words.T, strict=True)) | {"attack": attacks[kind]})


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
