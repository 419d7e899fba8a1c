"""NumPy arrays and anything that speaks DLPack (JAX, CuPy's host arrays, ...), without PyTorch. The forward pass only; results are NumPy arrays."""

import numpy

from . import _runtime as runtime
from ._library import refuse
from ._problem import USES_SA, attention_struct, mode_name, windows

# bfloat16 is a dtype of the package ml_dtypes, which JAX brings along.
DTYPES = {"float32": "fp32", "float16": "fp16", "bfloat16": "bf16"}


def _array(name, value):
    if isinstance(value, numpy.ndarray):
        return value
    if hasattr(value, "__dlpack__"):
        device = value.__dlpack_device__()[0] if hasattr(value, "__dlpack_device__") else 1
        # kDLCPU and kDLCUDAHost
        if int(device) not in (1, 3):
            rule = "only host memory works without PyTorch; pass torch tensors (torch.from_dlpack)"
            raise refuse(name, f"{name} is on DLPack device {int(device)}: {rule}")
        return numpy.from_dlpack(value)
    return numpy.asarray(value)


def _tensor(name, value, shape, dtypes):
    array = _array(name, value)
    if array.ndim != len(shape) or any(want is not None and have != want for have, want in zip(array.shape, shape)):
        words = ", ".join("any" if want is None else str(want) for want in shape)
        raise refuse(name, f"{name} has shape {list(array.shape)}: it must be [{words}]")
    if array.dtype.name not in dtypes:
        raise refuse(name, f"{name} is {array.dtype.name}: it must be " + " or ".join(dtypes))
    return array


def _usable(array):
    """In place where rows are contiguous, strides are whole elements and not negative, and the address is aligned; else a copy."""
    size = array.itemsize
    strides = array.strides
    good = (
        array.size == 0
        or (strides[-1] == size or array.shape[-1] == 1)
        and all(stride >= 0 and stride % size == 0 for stride in strides[:3])
        and any(strides[:3])
        and array.ctypes.data % size == 0
        and array.dtype.isnative
    )
    return array if good else array.astype(array.dtype.newbyteorder("="), order="C", copy=True)


def _memory(array):
    if array is None:
        return None
    strides = None
    if array.ndim == 4:
        strides = [stride // array.itemsize for stride in array.strides[:3]]
        # The stride of a dimension of one element means nothing.
        strides = [max(s, array.shape[-1]) if n == 1 else s for s, n in zip(strides, array.shape)] + [1]
    return runtime.Memory(array.ctypes.data, array.shape, strides, array.itemsize)


def _flat(name, value, count, dtype, most=None):
    if value is None:
        return None
    array = numpy.ascontiguousarray(_array(name, value))
    if array.shape != (count,):
        raise refuse(name, f"{name} has shape {list(array.shape)}: it must be [{count}]")
    if most is not None:
        if array.size and array.dtype.kind not in "iub":
            raise refuse(name, f"{name} is {array.dtype}: it must be integers")
        for index, number in enumerate(array.tolist()):
            if not 0 <= number <= most:
                raise refuse(name, f"{name}[{index}] is {number}: it must be 0 to {most}")
    return array.astype(dtype, copy=False)


def attention(
    query,
    key,
    value,
    mode,
    window,
    window_sa,
    window_swa,
    seed,
    layer,
    step,
    substream,
    order,
    sharing,
    causal,
    scale,
    softcap,
    sink_logits,
    sink_tokens,
    lengths,
    query_start,
    order_length,
    wrap,
    gate_sa,
    gate_swa,
    block,
    top_k,
    layout,
    return_lse,
    backend,
):
    mode = mode_name(mode)
    if layout not in ("bhnd", "bnhd"):
        raise refuse("layout", f"layout is {layout!r}: it must be 'bhnd' or 'bnhd'")
    query = _tensor("query", query, (None,) * 4, DTYPES)
    own = (query.dtype.name,)
    key, value = _tensor("key", key, (None,) * 4, own), _tensor("value", value, (None,) * 4, own)
    gates = {"gate_sa": gate_sa, "gate_swa": gate_swa}
    for name, gate in gates.items():
        if (gate is None) == (mode == "gated"):
            raise refuse(name, f"{name} is {'missing' if gate is None else 'given'}: gate logits belong to mode gated, and it needs both")
        if gate is not None:
            gates[name] = _tensor(name, gate, (None,) * 4, ("float32", *own))
    arrays = {"query": query, "key": key, "value": value, **gates}
    if layout == "bhnd":
        arrays = {name: array if array is None else array.transpose(0, 2, 1, 3) for name, array in arrays.items()}
    arrays = {name: array if array is None else _usable(array) for name, array in arrays.items()}
    batch, queries, heads, width = arrays["query"].shape
    keys, kv_heads = arrays["key"].shape[1:3]
    for name, shape in (("key", (batch, keys, kv_heads, width)), ("value", (batch, keys, kv_heads, width))):
        if arrays[name].shape != shape:
            raise refuse(name, f"{name} has shape {list(arrays[name].shape)} [B, n, H, d]: it must be {list(shape)}")
    for name in gates:
        gate = arrays[name]
        shapes = [(batch, queries, heads, each) for each in (1, width)]
        if gate is not None and (gate.shape not in shapes or gate.dtype != arrays["gate_sa"].dtype):
            rule = f"it must have 1 or {width} logits per head, both gates of one dtype"
            raise refuse(name, f"{name} is {gate.dtype.name} {list(gate.shape)} [B, n, H, ...]: {rule}")
    arrays["sink_logits"] = _flat("sink_logits", sink_logits, heads, numpy.float32)
    arrays["lengths"] = _flat("lengths", lengths, batch, numpy.int32, keys)
    arrays["query_start"] = _flat("query_start", query_start, batch, numpy.int32, keys - queries)
    window_sa, window_swa = windows(mode, window, window_sa, window_swa)
    gate_sa, gate_swa = arrays["gate_sa"], arrays["gate_swa"]
    attention_ = attention_struct(
        mode,
        DTYPES[query.dtype.name],
        heads,
        kv_heads,
        width,
        bool(causal),
        window_sa,
        window_swa,
        bool(wrap),
        order_length,
        sharing,
        sink_tokens,
        block,
        top_k,
        0.0 if scale is None else float(scale),
        float(softcap),
        gate_sa is not None and gate_sa.shape[-1] != 1,
        gate_swa is not None and gate_swa.shape[-1] != 1,
        "fp32" if gate_sa is None else DTYPES[gate_sa.dtype.name],
        *(arrays[name] is not None for name in ("lengths", "query_start", "sink_logits")),
    )
    draw = None
    if mode in USES_SA:
        own_order = {} if order is None else {"order": order.tobytes(), "length": order.shape[-1]}
        draw = runtime.Draw(seed, layer, step, substream, **own_order)
    call = runtime.Call(runtime.host_context(backend), attention_, batch, queries, keys, sharing, draw, kv_heads)
    gated = mode == "gated"
    out = numpy.empty((batch, queries, heads, width), query.dtype)
    lse = numpy.empty((batch, heads, queries), numpy.float32)
    lse_swa = numpy.empty_like(lse) if gated else None
    inputs = {name: _memory(array) for name, array in arrays.items()}
    call.forward(inputs, {"out": _memory(out), "lse_sa" if gated else "lse": _memory(lse), "lse_swa": _memory(lse_swa)}, False)
    if layout == "bhnd":
        out = out.transpose(0, 2, 1, 3)
    if not return_lse:
        return out
    return out, ((lse, lse_swa) if gated else lse)


