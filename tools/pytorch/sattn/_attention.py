"""The public function. It sorts out whose arrays it got and leaves the work to _torch.py or _numpy.py."""

from . import _runtime as runtime
from ._library import refuse


def permutation(length, *, seed=0, layer=0, step=0, substream=0):
    """The order of `length` tokens (order[slot] = token) as a NumPy array of uint32: a pure function of its arguments, the same everywhere."""
    import numpy

    order = numpy.frombuffer(runtime.draw_order(length, runtime.Draw(seed, layer, step, substream)), dtype=numpy.uint32)
    return order.copy()


class Permutation:
    """Which permutation a call uses, to be given as `permutation=`.

    Permutation(n, seed=..., layer=..., step=..., substream=...) names the one that attention() would draw from the same numbers. `n` is the number of
    keys, or None for "as many as the call has". Permutation(order=...) takes the caller's own: [n] or, with sharing, [count, n] numbers.
    sharing: "shared", "per_head" (one for each key/value head), "per_batch", "per_batch_and_head" (batch outer).
    """

    def __init__(self, length=None, *, seed=0, layer=0, step=0, substream=0, sharing="shared", order=None):
        self.length, self.sharing = length, sharing
        self.seed, self.layer, self.step, self.substream = seed, layer, step, substream
        self._order = None
        self._tensor = None
        if order is not None:
            import numpy

            given = numpy.asarray(order)
            if given.ndim not in (1, 2) or given.dtype.kind not in "iu" or (given.size and (given.min() < 0 or given.max() > 2**32 - 1)):
                raise refuse("permutation", f"order is {given.dtype} {list(given.shape)}: it must be [n] or [count, n] integers of 0 to n - 1")
            self._order = numpy.ascontiguousarray(given, dtype=numpy.uint32)
            self.length = given.shape[-1]

    @property
    def order(self):
        """As a NumPy array: [n], or [count, n] where the caller gave it so."""
        if self._order is not None:
            return self._order
        if self.length is None:
            raise refuse("permutation", "permutation has no length: give it one to see its order")
        return permutation(self.length, seed=self.seed, layer=self.layer, step=self.step, substream=self.substream)

    def tensor(self):
        """The caller's order as a PyTorch tensor of int32 (the bits of uint32); None where it is drawn."""
        if self._order is not None and self._tensor is None:
            import numpy
            import torch

            self._tensor = torch.from_numpy(self._order.view(numpy.int32))
        return self._tensor

    def __repr__(self):
        if self._order is not None:
            return f"sattn.Permutation(order={self._order!r}, sharing={self.sharing!r})"
        numbers = ", ".join(f"{name}={getattr(self, name)}" for name in ("seed", "layer", "step", "substream"))
        return f"sattn.Permutation({self.length}, {numbers}, sharing={self.sharing!r})"


def _load(name):
    if name == "torch":
        from . import _torch

        return _torch.attention
    from . import _numpy

    return _numpy.attention


def attention(
    q,
    k,
    v,
    *,
    mode="stochastic",
    window=None,
    window_sa=None,
    window_swa=None,
    seed=0,
    layer=0,
    step=0,
    substream=0,
    permutation=None,
    sharing="shared",
    causal=True,
    scale=None,
    softcap=0.0,
    sink_logits=None,
    sink_tokens=0,
    lengths=None,
    query_start=None,
    order_length=0,
    wrap=False,
    gate_sa=None,
    gate_swa=None,
    block=0,
    top_k=0,
    layout="bhnd",
    return_lse=False,
    backend=None,
):
    """Attention of queries q [B, H, n_q, d] over keys and values k, v [B, H_kv, n_k, d]; returns [B, H, n_q, d].

    mode         "full", "sliding_window" ("swa"), "stochastic" ("sa"), "union", "gated", "moba".
    window       a width w (w keys for a causal sliding window, w - 1 slots to each side for causal Stochastic Attention: equally many visible
                 pairs), or a pair (left, right) of counts, None for no limit. UNION and GATED use it for both of their bands.
    window_sa, window_swa   the window of one band, where they differ.
    seed, layer, step, substream   name the permutation; or `permutation`, a Permutation or an array of the caller's order. `sharing`: "shared",
                 "per_head", "per_batch", "per_batch_and_head".
    causal       compares original positions; the last query stands on the last key unless query_start [B] says where the first stands.
    scale        None (or 0): 1 / sqrt(d).  softcap: c * tanh(score / c), 0 is off.  sink_logits [H]: in the denominator only.
    sink_tokens  so many first keys stay visible in every mode.
    lengths      [B]: how many tokens exist (right padding). Queries behind them give zeros.
    order_length slots are counted among so many tokens, whether or not they exist yet: visible sets do not change as a cache grows.
    wrap         slot distance is circular.
    gate_sa, gate_swa   GATED: logits [B, H, n_q, 1 or d].
    block, top_k MOBA.
    layout       "bhnd" as above, or "bnhd": heads behind tokens, in all arrays and the result. Strided tensors are used in place.
    return_lse   also returns the log-sum-exp [B, H, n_q], fp32 (GATED: a pair).
    backend      "opencl", "reference", "cuda" or a device id; None: the best for where the arrays lie.

    fp32, fp16, bf16. Refused calls raise sattn.Error (a ValueError) that names argument, value and rule.
    """
    torch_arrays = type(q).__module__.partition(".")[0] == "torch" or hasattr(q, "requires_grad")
    order = None
    if permutation is not None:
        if not isinstance(permutation, Permutation):
            permutation = Permutation(order=permutation, sharing=sharing)
        if permutation.length is not None and permutation.length != (order_length or k.shape[2 if layout == "bhnd" else 1]):
            raise refuse(
                "permutation",
                f"permutation orders {permutation.length} tokens: it must order as many as there are keys, or order_length where that is given",
            )
        seed, layer, step, substream = permutation.seed, permutation.layer, permutation.step, permutation.substream
        sharing = permutation.sharing
        order = permutation.tensor() if torch_arrays else permutation._order
    return _load("torch" if torch_arrays else "numpy")(
        q,
        k,
        v,
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
    )
