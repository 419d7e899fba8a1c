"""The C library: where it is, its structs and functions, and its errors as exceptions.

Structs mirror include/sattn/*.h field by field; struct_size tells the library which version of a struct it gets, so an older mirror keeps working.
"""

import ctypes
import os
import sys
import threading
from ctypes import POINTER, c_char, c_char_p, c_double, c_int, c_int32, c_int64, c_size_t, c_uint32, c_uint64, c_void_p

UNBOUNDED = 2**63 - 1
PASS_FORWARD, PASS_BACKWARD = 1, 2
MODES = {"full": 1, "sliding_window": 2, "stochastic": 3, "union": 4, "gated": 5, "moba": 6}
DTYPES = {"fp32": 1, "fp16": 2, "bf16": 3}
DTYPE_BYTES = {"fp32": 4, "fp16": 2, "bf16": 2}
SHARINGS = {"shared": 0, "per_head": 1, "per_batch": 2, "per_batch_and_head": 3}


# ---- errors ----


class Error(Exception):
    """What the library refused or could not do. `status` is the C name such as "SATTN_INVALID_ARGUMENT"; `argument` names what is to blame."""

    def __init__(self, message, status="SATTN_INVALID_ARGUMENT", argument="", driver_code=0):
        super().__init__(message)
        self.message = message
        self.status = status
        self.argument = argument
        self.driver_code = driver_code


class InvalidArgument(Error, ValueError):
    """The call breaks a rule and can never succeed."""


class Mismatch(InvalidArgument):
    """What forward saved does not fit the backward call."""


class Unsupported(Error, NotImplementedError):
    """This backend or device cannot do it; another one can."""


class Unavailable(Error, RuntimeError):
    """The library, a backend, driver or device is not there."""


class OutOfMemory(Error, MemoryError):
    pass


class DriverError(Error, RuntimeError):
    """The driver failed, or its compiler refused a program."""


class FileError(Error, OSError):
    pass


class InternalError(Error, RuntimeError):
    pass


_CLASSES = {
    10: InvalidArgument,
    20: Unsupported,
    30: Unavailable,
    40: OutOfMemory,
    50: DriverError,
    60: DriverError,
    70: Mismatch,
    80: FileError,
    90: InternalError,
}


def refuse(argument, message):
    """For rules that only Python can check. Returns the exception, to be raised by the caller."""
    return InvalidArgument(message, argument=argument)


# ---- structs ----


class CError(ctypes.Structure):
    _fields_ = [("status", c_int), ("driver_code", c_int32), ("argument", c_char * 64), ("message", c_char * 960)]


class Window(ctypes.Structure):
    _fields_ = [("kind", c_int), ("width", c_int64), ("left", c_int64), ("right", c_int64)]


class Attention(ctypes.Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("mode", c_int),
        ("dtype", c_int),
        ("heads", c_int64),
        ("kv_heads", c_int64),
        ("head_dim", c_int64),
        ("value_head_dim", c_int64),
        ("causal", c_int32),
        ("window_sa", Window),
        ("window_swa", Window),
        ("wrap", c_int32),
        ("order_length", c_int64),
        ("sharing", c_int),
        ("sink_tokens", c_int64),
        ("block", c_int64),
        ("topk", c_int64),
        ("scale", c_double),
        ("softcap", c_double),
        ("gate_sa_shape", c_int),
        ("gate_swa_shape", c_int),
        ("gate_dtype", c_int),
        ("has_lengths", c_int32),
        ("has_query_start", c_int32),
        ("has_sink_logits", c_int32),
    ]


class DeviceInfo(ctypes.Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("backend", c_int),
        ("index", c_uint32),
        ("id", c_char * 32),
        ("name", c_char * 128),
        ("driver", c_char * 128),
        ("type", c_int),
        ("compute_units", c_uint32),
        ("memory_bytes", c_uint64),
        ("max_allocation_bytes", c_uint64),
        ("local_memory_bytes", c_uint64),
        ("max_work_group", c_uint32),
        ("vector_width", c_uint32),
        ("compute_capability", c_uint32),
        ("has_fp16", c_uint32),
        ("has_fp64", c_uint32),
        ("has_subgroups", c_uint32),
        ("shares_host_memory", c_uint32),
    ]


class PermutationKey(ctypes.Structure):
    _fields_ = [("seed", c_uint64), ("layer", c_uint32), ("substream", c_uint32), ("step", c_uint32)]


class PermutationOptions(ctypes.Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("length", c_int64),
        ("sharing", c_int),
        ("batch", c_int64),
        ("kv_heads", c_int64),
        ("key", PermutationKey),
        ("order", c_void_p),
    ]


class Sizes(ctypes.Structure):
    _fields_ = [("batch", c_int64), ("queries", c_int64), ("keys", c_int64)]


class Tensor(ctypes.Structure):
    _fields_ = [
        ("buffer", c_void_p),
        ("offset", c_int64),
        ("stride_batch", c_int64),
        ("stride_token", c_int64),
        ("stride_head", c_int64),
    ]


class Array(ctypes.Structure):
    _fields_ = [("buffer", c_void_p), ("offset", c_int64)]


class PlanInfo(ctypes.Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("forward_path", c_int),
        ("backward_path", c_int),
        ("forward_workspace", c_uint64),
        ("backward_workspace", c_uint64),
        ("forward_kernel", c_char * 64),
        ("backward_kernel", c_char * 64),
        ("reason", c_char * 256),
    ]


class Saved(ctypes.Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("y_sa", Array),
        ("y_swa", Array),
        ("selected", Array),
        ("out", Tensor),
        ("lse", Array),
        ("lse_sa", Array),
        ("lse_swa", Array),
        ("permutation", c_void_p),
        ("permutation_id", c_uint64),
        ("permutation_hash", c_uint64),
        ("plan_id", c_uint64),
        ("sizes", Sizes),
    ]


class ForwardArgs(ctypes.Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("sizes", Sizes),
        ("query", Tensor),
        ("key", Tensor),
        ("value", Tensor),
        ("permutation", c_void_p),
        ("gate_sa", Tensor),
        ("gate_swa", Tensor),
        ("lengths", Array),
        ("query_start", Array),
        ("sink_logits", Array),
        ("out", Tensor),
        ("lse", Array),
        ("lse_sa", Array),
        ("lse_swa", Array),
        ("workspace", c_void_p),
        ("workspace_offset", c_int64),
        ("saved", POINTER(Saved)),
    ]


class BackwardArgs(ctypes.Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("saved", POINTER(Saved)),
        ("query", Tensor),
        ("key", Tensor),
        ("value", Tensor),
        ("gate_sa", Tensor),
        ("gate_swa", Tensor),
        ("lengths", Array),
        ("query_start", Array),
        ("sink_logits", Array),
        ("grad_out", Tensor),
        ("grad_lse", Array),
        ("grad_lse_sa", Array),
        ("grad_lse_swa", Array),
        ("grad_query", Tensor),
        ("grad_key", Tensor),
        ("grad_value", Tensor),
        ("grad_gate_sa", Tensor),
        ("grad_gate_swa", Tensor),
        ("grad_sink_logits", Array),
        ("workspace", c_void_p),
        ("workspace_offset", c_int64),
    ]


class Queue(ctypes.Structure):
    _fields_ = [("native", c_void_p)]


class Event(ctypes.Structure):
    _fields_ = [("native", c_void_p)]


# ---- finding and loading ----

_NAMES = {"darwin": ("libsattn.dylib", "libsattn.0.dylib"), "win32": ("sattn.dll",)}.get(sys.platform, ("libsattn.so.0", "libsattn.so"))


def _candidates():
    """SATTN_LIBRARY (a file or a folder) is obeyed or fails; then the wheel's own copy, the build folder above this file, the system."""
    named = os.environ.get("SATTN_LIBRARY")
    if named:
        return [os.path.join(named, name) for name in _NAMES] if os.path.isdir(named) else [named]
    here = os.path.dirname(os.path.abspath(__file__))
    folders = [os.path.join(here, "lib"), os.path.join(here, "..", "..", "..", "build", "lib")]
    source = os.path.join(here, "_source.py")
    if os.path.exists(source):
        # Written when the package is installed from the repository: the folder that it came from.
        scope = {}
        with open(source) as file:
            exec(compile(file.read(), source, "exec"), scope)  # noqa: S102 (our own file)
        folders.append(os.path.join(scope["FOLDER"], "build", "lib"))
    return [os.path.normpath(os.path.join(folder, name)) for folder in folders for name in _NAMES] + list(_NAMES)


def _load():
    tried = []
    for path in _candidates():
        if os.path.isabs(path) and not os.path.exists(path):
            tried.append(path)
            continue
        try:
            return ctypes.CDLL(path), path
        except OSError as error:
            tried.append(f"{path} ({error})")
    raise Unavailable(
        "the sattn library was not found: build it (cmake -S . -B build && cmake --build build) or let SATTN_LIBRARY name the file; tried "
        + ", ".join(tried),
        status="SATTN_UNAVAILABLE",
    )


_E = POINTER(CError)
_P = POINTER(c_void_p)
# name: (result, arguments). A result of None is void; `int` results that are statuses go through call().
_FUNCTIONS = {
    "sattn_version_string": (c_char_p, []),
    "sattn_status_name": (c_char_p, [c_int]),
    "sattn_attention_init": (None, [POINTER(Attention)]),
    "sattn_attention_validate": (c_int, [POINTER(Attention), _E]),
    "sattn_window_resolve": (c_int, [c_int, c_int, Window, POINTER(c_int64), POINTER(c_int64), _E]),
    "sattn_backend_probe": (c_int, [c_int, _E]),
    "sattn_device_count": (c_int, [c_int, POINTER(c_uint32), _E]),
    "sattn_device_get_info": (c_int, [c_int, c_uint32, POINTER(DeviceInfo), _E]),
    "sattn_context_create": (c_int, [c_char_p, c_void_p, _P, _E]),
    "sattn_context_destroy": (None, [_P]),
    "sattn_context_device": (POINTER(DeviceInfo), [c_void_p]),
    "sattn_event_wait": (c_int, [c_void_p, Event, _E]),
    "sattn_event_release": (None, [c_void_p, POINTER(Event)]),
    "sattn_queue_finish": (c_int, [c_void_p, Queue, _E]),
    "sattn_buffer_create": (c_int, [c_void_p, c_uint64, _P, _E]),
    "sattn_buffer_wrap_host": (c_int, [c_void_p, c_void_p, c_uint64, _P, _E]),
    "sattn_buffer_destroy": (None, [_P]),
    "sattn_buffer_write": (c_int, [c_void_p, c_uint64, c_void_p, c_uint64, _E]),
    "sattn_buffer_read": (c_int, [c_void_p, c_uint64, c_void_p, c_uint64, _E]),
    "sattn_permutation_draw": (c_int, [c_int64, POINTER(PermutationKey), c_void_p, c_void_p, _E]),
    "sattn_permutation_options_init": (None, [POINTER(PermutationOptions)]),
    "sattn_permutation_create": (c_int, [c_void_p, POINTER(PermutationOptions), _P, _E]),
    "sattn_permutation_destroy": (None, [_P]),
    "sattn_plan_query": (c_int, [c_void_p, POINTER(Attention), POINTER(Sizes), c_uint32, POINTER(PlanInfo), _E]),
    "sattn_plan_create": (c_int, [c_void_p, POINTER(Attention), POINTER(Sizes), c_uint32, _P, _E]),
    "sattn_plan_destroy": (None, [_P]),
    "sattn_plan_get_info": (c_int, [c_void_p, POINTER(PlanInfo), _E]),
    "sattn_plan_workspace": (c_uint64, [c_void_p, c_int]),
    "sattn_saved_init": (None, [POINTER(Saved)]),
    "sattn_forward": (c_int, [c_void_p, POINTER(ForwardArgs), Queue, POINTER(Event), c_size_t, POINTER(Event), _E]),
    "sattn_backward": (c_int, [c_void_p, POINTER(BackwardArgs), Queue, POINTER(Event), c_size_t, POINTER(Event), _E]),
}
# Only in builds with the CUDA backend.
_CUDA_FUNCTIONS = {
    "sattn_context_create_cuda": (c_int, [c_void_p, c_void_p, _P, _E]),
    "sattn_buffer_wrap_cuda": (c_int, [c_void_p, c_uint64, c_uint64, _P, _E]),
}

_lock = threading.Lock()
_library = None
_path = None


def library():
    """The loaded library, with argument types set."""
    global _library, _path
    if _library is None:
        with _lock:
            if _library is None:
                loaded, path = _load()
                for name, (result, arguments) in {**_FUNCTIONS, **_CUDA_FUNCTIONS}.items():
                    if name in _CUDA_FUNCTIONS and not hasattr(loaded, name):
                        continue
                    function = getattr(loaded, name)
                    function.restype, function.argtypes = result, arguments
                _path, _library = path, loaded
    return _library


def library_path():
    """The file that is used."""
    library()
    return _path


def version():
    """The library's version, "MAJOR.MINOR.PATCH"."""
    return library().sattn_version_string().decode()


def call(name, *arguments):
    """Calls a function that returns a status; its last parameter, the error, is added here. Raises what it says."""
    function = getattr(library(), name, None)
    if function is None:
        raise Unavailable(f"{name} is not in this build of the library: build it with -DSATTN_CUDA=ON", status="SATTN_UNAVAILABLE")
    error = CError()
    status = function(*arguments, ctypes.byref(error))
    if status != 0:
        raise exception(status, error)


def exception(status, error):
    name = library().sattn_status_name(status).decode()
    message = error.message.decode(errors="replace")
    return _CLASSES.get(status, InternalError)(message, name, error.argument.decode(errors="replace"), error.driver_code)


