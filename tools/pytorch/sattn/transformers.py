"""Hugging Face Transformers: attn_implementation="sattn".

    import sattn.transformers
    sattn.transformers.register()
    model = AutoModelForCausalLM.from_pretrained(NAME, attn_implementation="sattn")
    sattn.transformers.configure(model, mode="stochastic", window=128, seed=0, sink_tokens=4, decode="full")

Until configure() is called, a model has full attention. RoPE is applied before attention and keeps original positions; every layer has a permutation
of its own.
"""

import dataclasses
import typing

import torch

from ._attention import attention
from ._library import refuse
from ._problem import mode_name

NAME = "sattn"


@dataclasses.dataclass
class Settings:
    """What configure() sets, shared by the layers of a model. May be changed between calls, such as `step` for a fresh permutation per training step."""

    mode: str = "full"
    window: typing.Any = None
    window_sa: typing.Any = None
    window_swa: typing.Any = None
    seed: int = 0
    step: int = 0
    substream: int = 0
    sharing: str = "shared"
    sink_tokens: int = 0
    block: int = 0
    top_k: int = 0
    wrap: bool = False
    decode: str = "full"
    order_length: int = 0
    hybrid: str = "keep"
    backend: typing.Optional[str] = None


_UNCONFIGURED = Settings()


@dataclasses.dataclass
class _Geometry:
    """What the mask function found out, for attention: positions among the keys that the cache hands out. Lists have one entry per sequence."""

    starts: list  # first real token (left padding)
    ends: list
    query_start: int
    shifted: bool  # a sliding cache has dropped the first keys


def _pack(starts, ends, query_start, shifted):
    """[B, 1, 1, 4] int32: what _Geometry holds. Four dimensions, because Transformers makes masks twice when it generates and lets only
    four-dimensional ones pass."""
    rows = [each.expand(ends.shape[0]) if each.dim() == 0 else each for each in (starts, ends, query_start, shifted)]
    return torch.stack(rows, dim=1).to(torch.int32)[:, None, None, :]


def _is_packed(mask):
    return mask.dtype == torch.int32 and mask.dim() == 4 and mask.shape[1:] == (1, 1, 4)


def _geometry(mask):
    """Read once per forward pass, since every layer gets the same mask and reading waits for a GPU."""
    geometry = getattr(mask, "_sattn_geometry", None)
    if geometry is None:
        starts, ends, query_start, shifted = mask[:, 0, 0, :].unbind(1)
        geometry = _Geometry(starts.tolist(), ends.tolist(), int(query_start[0]), bool(shifted[0]))
        mask._sattn_geometry = geometry
    return geometry


def _check_shape(mask_function, batch_size, q_length, q_offset, device):
    """Only the plain causal, sliding-window and bidirectional patterns can be served. Whatever cuts the sequence into pieces separates
    neighbours somewhere, so looking at each token and the one before it tells."""
    if q_length < 2:
        return
    batch = torch.arange(batch_size, device=device)[:, None]
    query = torch.arange(1, q_length, device=device)[None, :] + q_offset
    if not bool(torch.as_tensor(mask_function(batch, 0, query, query - 1)).all()):
        rule = "packed sequences are not supported by attn_implementation='sattn'"
        raise refuse("attention_mask", f"attention_mask cuts the text into several sequences: {rule}")


def mask(
    batch_size,
    q_length,
    kv_length,
    q_offset=0,
    kv_offset=0,
    mask_function=None,
    attention_mask=None,
    allow_is_causal_skip=True,
    use_vmap=False,
    local_size=None,
    device="cpu",
    **kwargs,
):
    """The mask function of AttentionMaskInterface. None for a plain text; else lengths and offsets. No [n, n] mask is ever made."""
    if use_vmap:
        raise refuse("attention_mask", "attention_mask has a function of its own: attn_implementation='sattn' supports padding only")
    compiling = torch.compiler.is_compiling()
    if not compiling and not allow_is_causal_skip and mask_function is not None and (local_size is None or local_size > 1):
        _check_shape(mask_function, batch_size, q_length, q_offset, device)
    if isinstance(q_offset, torch.Tensor) and not compiling:
        q_offset = int(q_offset)
    query_start = q_offset - kv_offset
    # A cache of fixed size hands out keys that do not exist yet.
    fixed = isinstance(q_offset, torch.Tensor) or query_start + q_length != kv_length
    first = torch.as_tensor(query_start, device=device)
    shifted = torch.tensor(int(kv_offset > 0), device=device)
    if attention_mask is None:
        if not fixed and kv_offset == 0:
            return None
        return _pack(torch.zeros((), device=device), (first + q_length).expand(batch_size), first, shifted)
    real = attention_mask[:, kv_offset : kv_offset + kv_length].to(device=device, dtype=torch.bool)
    if real.shape[1] < kv_length:
        real = torch.nn.functional.pad(real, (0, kv_length - real.shape[1]))
    columns = torch.arange(kv_length, device=device)
    ends = torch.where(real, columns + 1, 0).amax(dim=1)
    starts = torch.where(real, columns, kv_length).amin(dim=1).minimum(ends)
    if not compiling:
        if not bool((real.sum(dim=1) == ends - starts).all()):
            raise refuse("attention_mask", "attention_mask has holes: only padding on the left or on the right of a sequence is supported")
        if not fixed and kv_offset == 0 and bool(real.all()):
            return None
    return _pack(starts, ends, first, shifted)


def _options(module, settings, sliding_window, has_past, is_causal=True):
    """The call's keywords for one layer."""
    if sliding_window is not None and settings.hybrid == "keep":
        if not is_causal:  # w - 1 keys on each side, where a width w of ours has about half of it on each
            return {"mode": "sliding_window", "window": (sliding_window - 1, sliding_window - 1)}
        return {"mode": "sliding_window", "window": sliding_window}
    if mode_name(settings.mode) == "full" or (has_past and settings.decode == "full"):
        return {"mode": "full"}
    options = {name: getattr(settings, name) for name in ("mode", "window", "window_sa", "window_swa", "sink_tokens", "block", "top_k")}
    if mode_name(settings.mode) in ("stochastic", "union"):
        names = ("seed", "step", "substream", "sharing", "order_length", "wrap")
        options.update({name: getattr(settings, name) for name in names}, layer=getattr(module, "layer_idx", None) or 0)
    return options


def _by_sequence(query, key, value, geometry, options):
    """Left padding: each sequence is a call of its own on the part that exists, in place, so it gets what it would get alone. Padding gives zeros."""
    queries = query.shape[2]
    first = geometry.query_start
    parts = []
    for index, (start, end) in enumerate(zip(geometry.starts, geometry.ends)):
        end = min(end, first + queries)
        low, high = max(0, start - first), max(0, end - first)
        if low >= high:
            parts.append(torch.zeros_like(query[index : index + 1]))
            continue
        one = slice(index, index + 1)
        out = attention(query[one, :, low:high], key[one, :, start:end], value[one, :, start:end], **options)
        parts.append(torch.nn.functional.pad(out, (0, 0, low, queries - high)))
    return torch.cat(parts)


def _rolled(query, key, value, starts, ends, first, options):
    """Any padding without looking at values, for traced models: left padding is rolled behind the text, at the cost of copies."""

    def roll(tensor, by):
        n = tensor.shape[2]
        rows = (torch.arange(n, device=tensor.device)[None, :] + by[:, None]) % max(1, n)
        return torch.take_along_dim(tensor, rows[:, None, :, None].long(), dim=2)

    by = (starts - first).clamp(min=0)
    lengths, query_start = ends - starts, (first - starts).clamp(min=0)
    out = attention(roll(query, by), roll(key, starts), roll(value, starts), lengths=lengths, query_start=query_start, **options)
    return roll(out, -by)


def forward(
    module,
    query,
    key,
    value,
    attention_mask,
    dropout=0.0,
    scaling=None,
    is_causal=None,
    softcap=None,
    s_aux=None,
    sliding_window=None,
    **kwargs,
):
    """The attention function of AttentionInterface: query [B, H, n_q, d], key and value [B, H_kv, n_k, d]; returns [B, n_q, H, d]."""
    settings = getattr(module, "_sattn_settings", _UNCONFIGURED)
    if dropout:
        raise refuse("dropout", f"dropout is {dropout}: attention dropout is not supported; set attention_dropout to 0 in the model's config")
    if kwargs.get("position_bias") is not None:
        raise refuse("position_bias", "position_bias is given: attn_implementation='sattn' has no bias of positions")
    if attention_mask is not None and not _is_packed(attention_mask):
        shape = list(attention_mask.shape)
        raise refuse("attention_mask", f"attention_mask has shape {shape}: ready-made masks are not supported; give a padding mask [B, n]")
    if is_causal is None:
        is_causal = getattr(module, "is_causal", True)
    traced = torch.compiler.is_compiling()
    geometry = None if attention_mask is None or traced else _geometry(attention_mask)
    queries, keys = query.shape[2], key.shape[2]
    if geometry is not None:
        has_past = geometry.query_start > 0
    else:
        # A traced cache of fixed size cannot tell, but one query on a cache is decoding.
        has_past = queries == 1 or (attention_mask is None and queries < keys)
    if not is_causal and queries != keys:
        raise refuse("key", f"key has {keys} tokens and query {queries}, not causal: cross-attention is not supported; keep that layer's own attention")
    options = _options(module, settings, sliding_window, has_past, is_causal)
    if geometry is not None and geometry.shifted and options["mode"] != "sliding_window":
        raise refuse("cache", "cache drops old keys (it slides): configure(..., hybrid='replace') before generating, or give a DynamicCache()")
    options.update(causal=is_causal, scale=scaling, softcap=softcap or 0.0, sink_logits=s_aux, backend=settings.backend)
    if query.dtype != value.dtype or key.dtype != value.dtype:
        query, key = query.to(value.dtype), key.to(value.dtype)
    if attention_mask is None:
        out = attention(query, key, value, **options)
    elif traced:
        out = _rolled(query, key, value, *attention_mask[:, 0, 0, :3].unbind(1), options)
    elif any(geometry.starts):
        out = _by_sequence(query, key, value, geometry, options)
    else:
        _, lengths, query_start, _ = attention_mask[:, 0, 0, :].unbind(1)
        out = attention(query, key, value, lengths=lengths, query_start=query_start, **options)
    return out.transpose(1, 2), None


def register(name=NAME):
    """Makes attn_implementation="sattn" known to Transformers: the attention function and its mask function (without which padding is lost)."""
    from transformers import AttentionInterface, AttentionMaskInterface

    AttentionInterface.register(name, forward)
    AttentionMaskInterface.register(name, mask)


def _is_attention(module):
    return hasattr(module, "layer_idx") and any(hasattr(module, name) for name in ("q_proj", "qkv_proj", "query_key_value", "c_attn", "Wqkv"))


def _text_configs(model):
    """Each config object of the model that has layers, once."""
    found = {}
    for module in [model, *(each for each in model.modules() if _is_attention(each))]:
        config = getattr(module, "config", None)
        if config is not None:
            found[id(config)] = config
    return list(found.values())


def _replace_sliding_layers(model, replace):
    """Masks and caches follow the config: without sliding layers there, caches keep every key. What was there is kept for hybrid="keep"."""
    for config in _text_configs(model):
        kept = config.__dict__.setdefault("_sattn_kept", {}) if replace else config.__dict__.pop("_sattn_kept", None)
        layer_types = getattr(config, "layer_types", None)
        if replace:
            if layer_types is not None and "sliding_attention" in layer_types:
                kept.setdefault("layer_types", layer_types)
                config.layer_types = ["full_attention" if each == "sliding_attention" else each for each in layer_types]
            elif layer_types is None and getattr(config, "sliding_window", None) is not None:
                kept.setdefault("sliding_window", config.sliding_window)
                config.sliding_window = None
        else:
            for name, value in (kept or {}).items():
                setattr(config, name, value)


def configure(model, mode="stochastic", window=None, **settings):
    """Sets what the layers of a model compute; returns the Settings, which may be changed later.

    mode, window, window_sa, window_swa, seed, sink_tokens, block, top_k, wrap, sharing, backend: as in sattn.attention(). Layer number i uses the
        permutation of `layer=i`.
    decode   "full": a call that continues a cache attends to all of it, and only the first call (the prompt) has the mode. "windowed": the mode
        throughout; give order_length as well, or visible sets change as the text grows.
    order_length   slots are counted among so many tokens; the longest text that will come.
    hybrid   sliding-window layers of the model: "keep" as they are, or "replace" by the mode as well (changes the config's layer_types or
        sliding_window, so that caches keep every key; "keep" changes them back).
    """
    made = Settings(mode=mode_name(mode), window=window, **settings)
    if made.mode == "gated":
        raise refuse("mode", "mode is gated: a pretrained model has no gates; see sattn.pretrain")
    for name, values in (("decode", ("full", "windowed")), ("hybrid", ("keep", "replace"))):
        if getattr(made, name) not in values:
            raise refuse(name, f"{name} is {getattr(made, name)!r}: it must be " + " or ".join(repr(value) for value in values))
    _check(made, model)
    layers = [module for module in model.modules() if _is_attention(module)]
    if not layers:
        raise refuse("model", f"model is a {type(model).__name__}: no attention layers were found in it")
    implementations = {getattr(getattr(layer, "config", None), "_attn_implementation", NAME) for layer in layers}
    if NAME not in implementations:
        names = ", ".join(map(repr, sorted(map(str, implementations))))
        raise refuse("model", f"model has attn_implementation={names}: load it with attn_implementation='sattn'")
    for layer in layers:
        layer._sattn_settings = made
    _replace_sliding_layers(model, made.hybrid == "replace")
    return made


def _check(made, model):
    """One token through the mode, on the CPU's plain reference, so that wrong settings are refused here and not in the middle of a forward pass."""
    token = torch.zeros(1, 1, max(1, made.order_length and 1), 2)
    options = _options(model, dataclasses.replace(made, decode="windowed", hybrid="replace"), None, False)
    attention(token, token, token, **{**options, "backend": "reference"})
