"""From the words of a Python call to the C description of a problem."""

import ctypes
import functools

from . import _library as c
from ._library import refuse

ALIASES = {"swa": "sliding_window", "sa": "stochastic"}
USES_SA = ("stochastic", "union", "gated")
USES_SWA = ("sliding_window", "union", "gated")


def mode_name(mode):
    name = ALIASES.get(mode, mode)
    if name not in c.MODES:
        raise refuse("mode", f"mode is {mode!r}: it must be one of " + ", ".join([*c.MODES, *ALIASES]))
    return name


def window_tuple(name, window):
    """() not given, (width,) or (left, right). None as a side means no limit. Whether the numbers make sense is the library's to say."""
    if window is None:
        return ()
    if isinstance(window, (tuple, list)):
        if len(window) != 2:
            raise refuse(name, f"{name} has {len(window)} entries: it must be a width or a pair (left, right)")
        return tuple(c.UNBOUNDED if side is None else int(side) for side in window)
    return (int(window),)


def windows(mode, window, window_sa, window_swa):
    """`window` serves every band of the mode that has no window of its own."""
    sa = window_sa if window_sa is not None or mode not in USES_SA else window
    swa = window_swa if window_swa is not None or mode not in USES_SWA else window
    if window is not None and mode in ("full", "moba"):
        raise refuse("window", f"window is {window!r}: mode {mode} has no window")
    return window_tuple("window_sa", sa), window_tuple("window_swa", swa)


def _window_struct(window):
    if not window:
        return c.Window()
    if len(window) == 1:
        return c.Window(1, window[0], 0, 0)
    return c.Window(2, 0, window[0], window[1])


@functools.lru_cache(maxsize=4096)
def attention_struct(
    mode,
    dtype,
    heads,
    kv_heads,
    head_dim,
    causal,
    window_sa,
    window_swa,
    wrap,
    order_length,
    sharing,
    sink_tokens,
    block,
    top_k,
    scale,
    softcap,
    gate_sa_per_element,
    gate_swa_per_element,
    gate_dtype,
    has_lengths,
    has_query_start,
    has_sink_logits,
):
    """The validated struct; not to be written to, since calls share it."""
    a = c.Attention()
    c.library().sattn_attention_init(ctypes.byref(a))
    a.mode, a.dtype = c.MODES[mode], c.DTYPES[dtype]
    a.heads, a.kv_heads, a.head_dim = heads, kv_heads, head_dim
    a.causal, a.wrap = int(causal), int(wrap)
    a.window_sa, a.window_swa = _window_struct(window_sa), _window_struct(window_swa)
    a.order_length, a.sink_tokens, a.block, a.topk = order_length, sink_tokens, block, top_k
    if sharing not in c.SHARINGS:
        raise refuse("sharing", f"sharing is {sharing!r}: it must be one of " + ", ".join(c.SHARINGS))
    a.sharing = c.SHARINGS[sharing]
    a.scale, a.softcap = scale, softcap
    a.gate_sa_shape, a.gate_swa_shape = int(gate_sa_per_element), int(gate_swa_per_element)
    a.gate_dtype = c.DTYPES[gate_dtype]
    a.has_lengths, a.has_query_start, a.has_sink_logits = int(has_lengths), int(has_query_start), int(has_sink_logits)
    c.call("sattn_attention_validate", ctypes.byref(a))
    return a


def permutation_count(sharing, batch, kv_heads):
    return (batch if "batch" in sharing else 1) * (kv_heads if "head" in sharing else 1)
