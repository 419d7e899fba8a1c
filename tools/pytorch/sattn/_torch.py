"""PyTorch: sattn::attention and its backward as registered operators, and the function over them."""

import ctypes

import torch

from . import _library as c
from . import _runtime as runtime
from ._library import refuse
from ._problem import USES_SA, attention_struct, mode_name, windows

DTYPES = {torch.float32: "fp32", torch.float16: "fp16", torch.bfloat16: "bf16"}


# ---- memory ----


def _last_contiguous(tensor):
    """Rows must be contiguous and strides not all zero (which would mean the packed layout); everything else needs no copy."""
    if tensor.numel() == 0:
        return tensor
    strided = tensor.size(-1) == 1 or tensor.stride(-1) == 1
    return tensor if strided and any(tensor.stride()[:3]) else tensor.contiguous()


def _memory(tensor):
    if tensor is None:
        return None
    if tensor.dim() == 4:
        # The stride of a dimension of one element means nothing, and must not look like an overlap.
        strides = list(tensor.stride())
        for axis in range(3):
            if tensor.size(axis) == 1:
                strides[axis] = max(strides[axis], tensor.size(-1))
        return runtime.Memory(tensor.data_ptr(), tuple(tensor.shape), (*strides[:3], 1)[:4], tensor.element_size())
    return runtime.Memory(tensor.data_ptr(), tuple(tensor.shape), None, tensor.element_size())


def _current_cuda_context():
    driver = ctypes.CDLL("libcuda.so.1")
    context = ctypes.c_void_p()
    status = driver.cuCtxGetCurrent(ctypes.byref(context))
    if status != 0 or not context.value:
        raise c.DriverError(f"cuCtxGetCurrent returned {status}: PyTorch has no current CUDA context", "SATTN_DRIVER_ERROR", "", status)
    return context


def _scratch(device):
    def allocate(size):
        memory = torch.empty(size + 256, dtype=torch.uint8, device=device)
        return (memory.data_ptr() + 255) // 256 * 256, memory

    return allocate


def _place(tensor, backend):
    """Context, stream and scratch memory for a call on this tensor's device."""
    if tensor.device.type == "cpu":
        return runtime.host_context(backend or None), 0, None
    if tensor.device.type == "cuda" and torch.version.hip is None:
        if backend and backend.split(":")[0] != "cuda":
            raise refuse("backend", f"backend is {backend!r}: tensors on {tensor.device} need the CUDA backend")
        with torch.cuda.device(tensor.device):
            context = runtime.cuda_context(tensor.device.index, _current_cuda_context)
            # The legacy default stream, which PyTorch calls 0, is spelled 1 (CU_STREAM_LEGACY); 0 would be a stream of the library's own.
            stream = torch.cuda.current_stream().cuda_stream or 1
        return context, stream, _scratch(tensor.device)
    raise refuse("query", f"query is on {tensor.device}: only CPU and CUDA tensors are supported")


def _call(query, key, gates, has, options, backend):
    (mode, window_sa, window_swa, causal, wrap, order_length, sharing, sink_tokens, block, top_k, scale, softcap, draw) = options
    batch, queries, heads, width = query.shape
    gate_sa, gate_swa = gates
    attention = attention_struct(
        mode,
        DTYPES[query.dtype],
        heads,
        key.size(2),
        width,
        causal,
        tuple(window_sa),
        tuple(window_swa),
        wrap,
        order_length,
        sharing,
        sink_tokens,
        block,
        top_k,
        scale,
        softcap,
        gate_sa is not None and gate_sa.size(-1) != 1,
        gate_swa is not None and gate_swa.size(-1) != 1,
        DTYPES[gate_sa.dtype] if gate_sa is not None else "fp32",
        *has,
    )
    context, stream, scratch = _place(query, backend)
    return runtime.Call(context, attention, batch, queries, key.size(1), sharing, draw, key.size(2), stream, scratch)


def _draw(mode, order, seed, layer, step, substream):
    if mode not in USES_SA:
        return None
    if order is None:
        return runtime.Draw(seed, layer, step, substream)
    return runtime.Draw(order=order.cpu().numpy().tobytes(), length=order.size(-1))


# ---- operators: everything in [batch, tokens, heads, width] ----

_OPTIONS = (
    "str mode, int[] window_sa, int[] window_swa, bool causal, bool wrap, SymInt order_length, str sharing, int sink_tokens, int block, int top_k, "
    "float scale, float softcap, SymInt seed, int layer, SymInt step, int substream, str backend"
)
_INPUTS = (
    "Tensor query, Tensor key, Tensor value, Tensor? gate_sa, Tensor? gate_swa, Tensor? sink_logits, Tensor? lengths, Tensor? query_start, "
    "Tensor? order, "
)
_INPUT_COUNT = 9


def _forward_outputs(query, top_k, mode, keep):
    """out, lse, lse_swa (GATED: of the second branch), y_sa, y_swa (GATED, kept for backward), selected (MOBA, kept)."""
    batch, queries, heads, width = query.shape
    gated = mode == "gated"
    rows = (batch, heads, queries)
    out = query.new_empty((batch, queries, heads, width))
    lse = query.new_empty(rows, dtype=torch.float32)
    lse_swa = query.new_empty(rows if gated else (0,), dtype=torch.float32)
    branch = (batch, queries, heads, width) if gated and keep else (0,)
    y_sa, y_swa = query.new_empty(branch), query.new_empty(branch)
    selected = query.new_empty((*rows, top_k) if mode == "moba" and keep else (0,), dtype=torch.int32)
    return out, lse, lse_swa, y_sa, y_swa, selected


_SIX = "(Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)"


@torch.library.custom_op("sattn::attention", mutates_args=(), schema=f"({_INPUTS}{_OPTIONS}, bool keep) -> {_SIX}")
def _attention(
    query, key, value, gate_sa, gate_swa, sink_logits, lengths, query_start, order,
    mode, window_sa, window_swa, causal, wrap, order_length, sharing, sink_tokens, block, top_k, scale, softcap, seed, layer, step, substream,
    backend, keep,
):  # fmt: skip
    outputs = _forward_outputs(query, top_k, mode, keep)
    out, lse, lse_swa, y_sa, y_swa, selected = outputs
    query, key, value = _last_contiguous(query), _last_contiguous(key), _last_contiguous(value)
    gate_sa, gate_swa = (gate if gate is None else _last_contiguous(gate) for gate in (gate_sa, gate_swa))
    draw = _draw(mode, order, seed, layer, step, substream)
    options = (mode, window_sa, window_swa, causal, wrap, order_length, sharing, sink_tokens, block, top_k, scale, softcap, draw)
    has = (lengths is not None, query_start is not None, sink_logits is not None)
    call = _call(query, key, (gate_sa, gate_swa), has, options, backend)
    inputs = {
        "query": query,
        "key": key,
        "value": value,
        "gate_sa": gate_sa,
        "gate_swa": gate_swa,
        "lengths": lengths,
        "query_start": query_start,
        "sink_logits": sink_logits,
    }
    gated = mode == "gated"
    results = {"out": out, "lse_sa" if gated else "lse": lse, "lse_swa": lse_swa, "y_sa": y_sa, "y_swa": y_swa, "selected": selected}
    call.forward({name: _memory(t) for name, t in inputs.items()}, {name: _memory(t) for name, t in results.items()}, keep)
    return outputs


@_attention.register_fake
def _(
    query, key, value, gate_sa, gate_swa, sink_logits, lengths, query_start, order,
    mode, window_sa, window_swa, causal, wrap, order_length, sharing, sink_tokens, block, top_k, scale, softcap, seed, layer, step, substream,
    backend, keep,
):  # fmt: skip
    return _forward_outputs(query, top_k, mode, keep)


def _backward_outputs(query, key, value, gate_sa, gate_swa, sink_logits):
    def like(tensor):
        return query.new_empty((0,)) if tensor is None else tensor.new_empty(tensor.shape)

    return tuple(like(tensor) for tensor in (query, key, value, gate_sa, gate_swa, sink_logits))


_SAVED = (
    "Tensor out, Tensor lse, Tensor lse_swa, Tensor y_sa, Tensor y_swa, Tensor selected, "
    "Tensor grad_out, Tensor? grad_lse, Tensor? grad_lse_swa, "
)


@torch.library.custom_op("sattn::attention_backward", mutates_args=(), schema=f"({_INPUTS}{_SAVED}{_OPTIONS}) -> {_SIX}")
def _attention_backward(
    query, key, value, gate_sa, gate_swa, sink_logits, lengths, query_start, order,
    out, lse, lse_swa, y_sa, y_swa, selected, grad_out, grad_lse, grad_lse_swa,
    mode, window_sa, window_swa, causal, wrap, order_length, sharing, sink_tokens, block, top_k, scale, softcap, seed, layer, step, substream,
    backend,
):  # fmt: skip
    outputs = _backward_outputs(query, key, value, gate_sa, gate_swa, sink_logits)
    query, key, value, grad_out = (_last_contiguous(tensor) for tensor in (query, key, value, grad_out))
    gate_sa, gate_swa = (gate if gate is None else _last_contiguous(gate) for gate in (gate_sa, gate_swa))
    draw = _draw(mode, order, seed, layer, step, substream)
    options = (mode, window_sa, window_swa, causal, wrap, order_length, sharing, sink_tokens, block, top_k, scale, softcap, draw)
    has = (lengths is not None, query_start is not None, sink_logits is not None)
    call = _call(query, key, (gate_sa, gate_swa), has, options, backend)
    gated = mode == "gated"
    inputs = {
        "query": query,
        "key": key,
        "value": value,
        "gate_sa": gate_sa,
        "gate_swa": gate_swa,
        "lengths": lengths,
        "query_start": query_start,
        "sink_logits": sink_logits,
        "out": out.contiguous(),
        "lse_sa" if gated else "lse": lse.contiguous(),
        "lse_swa": lse_swa.contiguous(),
        "y_sa": y_sa.contiguous(),
        "y_swa": y_swa.contiguous(),
        "selected": selected.contiguous(),
        "grad_out": grad_out,
        "grad_lse_sa" if gated else "grad_lse": None if grad_lse is None else grad_lse.contiguous(),
        "grad_lse_swa": None if grad_lse_swa is None or not gated else grad_lse_swa.contiguous(),
    }
    names = ("grad_query", "grad_key", "grad_value", "grad_gate_sa", "grad_gate_swa", "grad_sink_logits")
    results = dict(zip(names, outputs))
    call.backward({name: _memory(t) for name, t in inputs.items()}, {name: _memory(t) for name, t in results.items()})
    return outputs


@_attention_backward.register_fake
def _(
    query, key, value, gate_sa, gate_swa, sink_logits, lengths, query_start, order,
    out, lse, lse_swa, y_sa, y_swa, selected, grad_out, grad_lse, grad_lse_swa,
    mode, window_sa, window_swa, causal, wrap, order_length, sharing, sink_tokens, block, top_k, scale, softcap, seed, layer, step, substream,
    backend,
):  # fmt: skip
    return _backward_outputs(query, key, value, gate_sa, gate_swa, sink_logits)


def _setup_context(ctx, inputs, output):
    *options, keep = inputs[_INPUT_COUNT:]
    ctx.options = options
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(*inputs[:_INPUT_COUNT], *output)
    ctx.mark_non_differentiable(output[3], output[4], output[5])
    if not keep:
        raise RuntimeError("sattn::attention was called with keep=False on tensors that need gradients")


def _backward(ctx, grad_out, grad_lse, grad_lse_swa, *_):
    saved = ctx.saved_tensors
    inputs, outputs = saved[:_INPUT_COUNT], saved[_INPUT_COUNT:]
    if grad_out is None:
        grad_out = torch.zeros_like(outputs[0])
    grads = torch.ops.sattn.attention_backward(*inputs, *outputs, grad_out, grad_lse, grad_lse_swa, *ctx.options)
    named = [grad if tensor is not None else None for tensor, grad in zip(inputs[:6], grads)]
    return (*named, *[None] * (_INPUT_COUNT - 6 + len(ctx.options) + 1))


_attention.register_autograd(_backward, setup_context=_setup_context)


# ---- the function ----


def _check(name, tensor, shape, dtypes, device=None):
    """`shape` has None where any size will do."""
    if device is not None and tensor.device != device:
        raise refuse(name, f"{name} is on {tensor.device}: it must be on {device}, as query is")
    if tensor.dim() != len(shape) or any(want is not None and have != want for have, want in zip(tensor.shape, shape)):
        words = ", ".join("any" if want is None else str(want) for want in shape)
        raise refuse(name, f"{name} has shape {tuple(tensor.shape)}: it must be [{words}]")
    if tensor.dtype not in dtypes:
        names = " or ".join(str(dtype).removeprefix("torch.") for dtype in dtypes)
        raise refuse(name, f"{name} is {str(tensor.dtype).removeprefix('torch.')}: it must be {names}")


def _flat(name, values, count, dtype, device, most=None):
    """lengths and the like: a tensor, or numbers that become one. `most`: whole numbers of 0 to most; kernels clamp what cannot be seen here."""
    if values is None:
        return None
    if not isinstance(values, torch.Tensor):
        values = torch.tensor(values)
    if values.dim() != 1 or values.size(0) != count:
        raise refuse(name, f"{name} has shape {tuple(values.shape)}: it must be [{count}]")
    if most is not None:
        if values.dtype.is_floating_point or values.dtype.is_complex:
            raise refuse(name, f"{name} is {str(values.dtype).removeprefix('torch.')}: it must be integers")
        _check_range(name, values, most)
    return values.to(device=device, dtype=dtype).contiguous()


def _check_range(name, values, most):
    """Where reading the values does not wait for a device or break a traced graph."""
    if values is None or torch.compiler.is_compiling() or values.device.type != "cpu" or type(values) is not torch.Tensor:
        return
    bad = torch.nonzero((values < 0) | (values > most))
    if bad.numel() > 0:
        index = int(bad[0])
        raise refuse(name, f"{name}[{index}] is {int(values[index])}: it must be 0 to {most}")


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
    _check("query", query, (None, None, None, None), DTYPES)
    bhnd = layout == "bhnd"
    if bhnd:
        query, key, value = query.transpose(1, 2), key.transpose(1, 2), value.transpose(1, 2)
        gate_sa, gate_swa = (gate if gate is None else gate.transpose(1, 2) for gate in (gate_sa, gate_swa))
    elif layout != "bnhd":
        raise refuse("layout", f"layout is {layout!r}: it must be 'bhnd' or 'bnhd'")
    batch, queries, heads, width = query.shape
    _check("key", key, (batch, None, None, width), (query.dtype,), query.device)
    keys, kv_heads = key.size(1), key.size(2)
    _check("value", value, (batch, keys, kv_heads, width), (query.dtype,), query.device)
    window_sa, window_swa = windows(mode, window, window_sa, window_swa)
    for name, gate in (("gate_sa", gate_sa), ("gate_swa", gate_swa)):
        if (gate is None) == (mode == "gated"):
            raise refuse(name, f"{name} is {'missing' if gate is None else 'given'}: gate logits belong to mode gated, and it needs both")
        if gate is not None:
            _check(name, gate, (batch, queries, heads, None), (torch.float32, query.dtype), query.device)
            if gate.size(-1) not in (1, width) or gate.dtype != gate_sa.dtype:
                raise refuse(name, f"{name} has {gate.size(-1)} {gate.dtype} per head: it must be 1 or {width}, and both of one dtype")
    device = query.device
    sink_logits = None if sink_logits is None else _flat("sink_logits", sink_logits, heads, torch.float32, device)
    lengths = _flat("lengths", lengths, batch, torch.int32, device, keys)
    query_start = _flat("query_start", query_start, batch, torch.int32, device, keys - queries)
    tensors = (query, key, value, gate_sa, gate_swa, sink_logits)
    if type(seed) is int and seed >= 2**63:
        # Operators take signed numbers; the bits are the same.
        seed -= 2**64
    keep = torch.is_grad_enabled() and any(tensor is not None and tensor.requires_grad for tensor in tensors)
    out, lse, lse_swa, _, _, _ = torch.ops.sattn.attention(
        *tensors,
        lengths,
        query_start,
        order,
        mode,
        window_sa,
        window_swa,
        causal,
        wrap,
        order_length,
        sharing,
        sink_tokens,
        block,
        top_k,
        0.0 if scale is None else float(scale),
        float(softcap),
        seed,
        layer,
        step,
        substream,
        backend or "",
        keep,
    )
    out = out.transpose(1, 2) if bhnd else out
    if not return_lse:
        return out
    return out, ((lse, lse_swa) if mode == "gated" else lse)
