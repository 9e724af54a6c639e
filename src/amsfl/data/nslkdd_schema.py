"""The NSL-KDD schema and its encoder: 41 raw columns become 122 numbers in [0, 1].

Nothing is fitted. A federated client cannot see the ranges of the others, so the vocabularies and ranges
are written down here: they are those of the KDD Cup 1999 data from which NSL-KDD was drawn.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from amsfl.data.dataset import Dataset, FloatArray, IntArray, hold_out
from amsfl.data.recipe import ColumnRecipe, Recipe

Words = npt.NDArray[np.str_]

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
BINARY = ("normal", "attack")


def recipe() -> Recipe:
    """The same encoding as data, for tables of new rows whose columns have the schema's names."""
    numbers = [
        ColumnRecipe(name, "number", "point", log=name in LOG, scale=scale, low=0.0, high=1.0)
        for name, top in TOPS.items()
        for scale in [float(np.log1p(top) if name in LOG else top)]
    ]
    words = [ColumnRecipe(name, "words", words=vocabulary) for name, vocabulary in VOCABULARY.items()]
    return Recipe((*numbers, *words), label="class")


class RawTraffic(NamedTuple):
    """Raw records, as the files hold them."""

    numeric: FloatArray  # [rows, 38], columns of NUMERIC
    words: Words  # [rows, 3], columns of VOCABULARY
    attack: Words  # [rows], 'normal' or an attack's name


def traffic_data(
    name: str, pool: RawTraffic, test: RawTraffic, binary: bool, holdout: float, seed: int
) -> Dataset:
    """Real or made-up traffic: a hold-out of the pool, and the official test rows beside it."""
    evals = {"test": (encode(test), labels(test, binary))}
    classes = BINARY if binary else CLASSES
    whole = Dataset(name, encode(pool), labels(pool, binary), evals, classes, FEATURES, recipe=recipe())
    return hold_out(whole, holdout, seed)


def encode(rows: RawTraffic) -> FloatArray:
    """The 122 features: numeric columns scaled into [0, 1], then the one-hot words (unknown: all zeros)."""
    x = np.zeros((len(rows.numeric), len(FEATURES)), np.float32)
    top = np.array(list(TOPS.values()), np.float32)
    heavy = [i for i, name in enumerate(NUMERIC) if name in LOG]
    scaled = rows.numeric / top
    scaled[:, heavy] = np.log1p(rows.numeric[:, heavy]) / np.log1p(top[heavy])
    np.clip(scaled, 0, 1, out=x[:, : len(NUMERIC)])
    start = len(NUMERIC)
    for words, vocabulary in zip(rows.words.T, VOCABULARY.values(), strict=True):
        x[:, start : start + len(vocabulary)] = words[:, None] == np.array(vocabulary)
        start += len(vocabulary)
    return x


def labels(rows: RawTraffic, binary: bool = False) -> IntArray:
    """Class of every row: five families, or normal against attack."""
    family = {name: i for i, names in enumerate(ATTACKS.values()) for name in names.split()}
    y = np.array([family[name] for name in rows.attack.tolist()], np.int32)
    return np.minimum(y, 1) if binary else y
