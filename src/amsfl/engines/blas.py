"""The BLAS that scipy brings, called from compiled programs: `jax.ffi` hands over the addresses of arrays.

XLA calls a function of C's kind with a record of them (xla/ffi/api/c_api.h of jaxlib, stable by contract).
Here that is a Python function which hands the addresses on; BLAS computes without Python's lock, so the
workers of a round do not wait for each other.
"""

import ctypes
import sys
from functools import cache, partial
from itertools import product as pairs
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, PartitionSpec

Word = ctypes.c_size_t
WRITTEN_FOR = 0, 1  # the version of the interface


def times(a: jax.Array, b: jax.Array, turn_a: bool, turn_b: bool) -> jax.Array:
    """a b of float32 matrices, each turned or not. `library` has to be asked for first."""
    a, b = _alike(a, b), _alike(b, a)
    result = jax.eval_shape(lambda a, b: (a.T if turn_a else a) @ (b.T if turn_b else b), a, b)
    call = jax.ffi.ffi_call(_target(turn_a, turn_b), result, vmap_method="sequential")
    found: jax.Array = call(a, b)  # type: ignore[no-untyped-call]
    return found


@cache
def library() -> str | None:
    """The library by name, ready for use; None where there is none that can be relied on."""
    try:
        from scipy.linalg import cython_blas
        from threadpoolctl import ThreadpoolController

        _register(_address(cython_blas.__pyx_capi__["sgemm"]))
        if not _right():
            return None
        # workers use the cores already: one thread a product, in this process (numpy's has its own)
        each = ThreadpoolController().select(user_api="blas").lib_controllers
        own = [one for one in each if "numpy.libs" not in one.filepath]
        for one in own:
            one.set_num_threads(1)
        said = [f"{one.internal_api} {one.version} {getattr(one, 'architecture', '')}" for one in own]
        return ", ".join(said) or "BLAS"
    except Exception:  # another jax or scipy than those known: XLA's products do, at their own pace
        return None


def _right() -> bool:
    """Whether each of the four gives what numpy gives, in a program like those of the engines."""
    draw = np.random.default_rng(0).standard_normal
    mesh, one = Mesh(np.array(jax.local_devices(backend="cpu")[:1]), ("one",)), PartitionSpec("one")
    right = []
    for turn_a, turn_b in pairs((False, True), repeat=2):
        a, b = (draw(shape).astype(np.float32) for shape in ((7, 5), (5, 3)))
        given = a.T.copy() if turn_a else a, b.T.copy() if turn_b else b
        call = partial(times, turn_a=turn_a, turn_b=turn_b)
        spread = jax.shard_map(call, mesh=mesh, in_specs=(one, PartitionSpec()), out_specs=one)
        right.append(np.allclose(jax.jit(spread)(*given), a @ b, atol=1e-5))
    return all(right)


def _alike(one: jax.Array, other: jax.Array) -> jax.Array:
    """One of two arrays, as different from device to device of a mesh as the other: jax asks for that."""
    more = tuple(_varying(other) - _varying(one))
    return jax.lax.pcast(one, more, to="varying") if more else one


def _varying(array: jax.Array) -> frozenset[str]:
    axes: frozenset[str] = jax.typeof(array).manual_axis_type.varying
    return axes


def _target(turn_a: bool, turn_b: bool) -> str:
    return f"amsfl_sgemm_{int(turn_a)}{int(turn_b)}"


class _Many(ctypes.Structure):
    """Arguments, or results."""

    _fields_ = [(name, Word) for name in ("bytes", "extension", "size", "types", "each")]


class _Frame(ctypes.Structure):
    _fields_ = [
        *((name, Word) for name in ("bytes", "extension", "api", "context")),
        ("stage", ctypes.c_int),
        ("arguments", _Many),
        ("results", _Many),
    ]


class _Buffer(ctypes.Structure):
    _fields_ = [
        *(("bytes", Word), ("extension", Word)),
        ("kind", ctypes.c_int),
        ("data", ctypes.c_void_p),
        ("rank", ctypes.c_int64),
        ("sizes", ctypes.POINTER(ctypes.c_int64)),
    ]


class _Version(ctypes.Structure):
    _fields_ = [("bytes", Word), ("extension", Word), ("major", ctypes.c_int), ("minor", ctypes.c_int)]


class _Metadata(ctypes.Structure):
    _fields_ = [("bytes", Word), ("version", _Version)]


class _Asked(ctypes.Structure):
    """With this the first call of all asks for which version the function was written, and nothing else."""

    _fields_ = [
        *(("bytes", Word), ("kind", ctypes.c_int), ("next", Word)),
        ("metadata", ctypes.POINTER(_Metadata)),
    ]


class _Problem(ctypes.Structure):
    _fields_ = [("bytes", Word), ("extension", Word), ("message", ctypes.c_char_p), ("code", ctypes.c_int)]


_Handler = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)
_Gemm = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 13)  # called without Python's lock
_Create = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.POINTER(_Problem))


class _Api(ctypes.Structure):
    _fields_ = [
        *(("bytes", Word), ("extension", Word), ("version", _Version), ("own", Word)),
        ("error", _Create),
    ]


_kept: list[Any] = []  # XLA and BLAS hold addresses of these for as long as the process lives
_lost: list[str] = []  # what was raised before a call could tell XLA: the next one does


def _address(capsule: Any) -> int:
    api = ctypes.pythonapi
    api.PyCapsule_GetName.restype, api.PyCapsule_GetName.argtypes = ctypes.c_char_p, [ctypes.py_object]
    api.PyCapsule_GetPointer.restype = ctypes.c_void_p
    api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    return int(api.PyCapsule_GetPointer(capsule, api.PyCapsule_GetName(capsule)))


def _register(sgemm: int) -> None:
    handlers = []
    for turn_a, turn_b in pairs((False, True), repeat=2):
        handlers.append(_handler(_Gemm(sgemm), turn_a, turn_b))
        _kept.append(_Handler(handlers[-1]))
        function = jax.ffi.pycapsule(ctypes.cast(_kept[-1], ctypes.c_void_p))
        jax.ffi.register_ffi_target(_target(turn_a, turn_b), function, platform="cpu")
    before = sys.unraisablehook

    def hook(told: Any) -> None:
        """Ctrl-C may be raised at a handler's very first instruction, where nothing catches it."""
        if told.object in handlers:
            _lost.append(repr(told.exc_value))
        else:
            before(told)

    sys.unraisablehook = hook


def _handler(sgemm: Any, turn_a: bool, turn_b: bool) -> Any:
    """The function that XLA calls. BLAS counts by columns: told b' a', it writes the product's rows."""
    words = [ctypes.create_string_buffer(b"T" if turn else b"N") for turn in (turn_b, turn_a)]
    one, zero = ctypes.c_float(1), ctypes.c_float(0)
    _kept.extend((*words, one, zero))
    turns, single, nothing = [*map(ctypes.addressof, words)], ctypes.addressof(one), ctypes.addressof(zero)

    @cache
    def number(value: int) -> int:
        _kept.append(ctypes.c_int(value))
        return ctypes.addressof(_kept[-1])

    def handle(address: int) -> Any:
        frame = _Frame.from_address(address)
        if frame.extension:
            version = _Asked.from_address(frame.extension).metadata.contents.version
            version.major, version.minor = WRITTEN_FOR
            return None
        try:
            if _lost:
                return _told(frame, _lost.pop())
            places = (Word * 2).from_address(frame.arguments.each)
            a, b = _Buffer.from_address(places[0]), _Buffer.from_address(places[1])
            c = _Buffer.from_address(Word.from_address(frame.results.each).value)
            rows, columns = number(c.sizes[0]), number(c.sizes[1])
            wide_a, wide_b = number(a.sizes[1]), number(b.sizes[1])
            inner = number(a.sizes[0]) if turn_a else wide_a
            left, right = (b.data, wide_b), (a.data, wide_a)
            sgemm(*turns, columns, rows, inner, single, *left, *right, nothing, c.data, columns)
            return None
        except BaseException as problem:  # XLA's to raise: an exception would be printed and forgotten
            return _told(frame, repr(problem))

    return handle


def _told(frame: Any, why: str) -> Any:
    problem = _Problem(ctypes.sizeof(_Problem), 0, f"A product was interrupted: {why}".encode(), 10)
    return _Api.from_address(frame.api).error(ctypes.byref(problem))
