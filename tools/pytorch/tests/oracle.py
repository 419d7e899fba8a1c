"""Visible sets and attention in float64, written from the documentation alone."""

import torch


def visible(mode, n_k, n_q=None, window=None, window_sa=None, window_swa=None, order=None, causal=True, sink_tokens=0, start=None):
    """Boolean [n_q, n_k]. Windows are widths."""
    n_q = n_k if n_q is None else n_q
    start = n_k - n_q if start is None else start
    p = torch.arange(n_q)[:, None] + start
    j = torch.arange(n_k)[None, :]
    everything = torch.ones(n_q, n_k, dtype=torch.bool)

    def band(width, both_sides, query, key):
        left = width - 1 if causal else width // 2
        right = (width - 1 if both_sides else 0) if causal else width - 1 - width // 2
        return (key >= query - left) & (key <= query + right)

    def swa():
        return band(window_swa or window, False, p, j)

    def sa():
        order_ = torch.as_tensor(order.astype("int64"))
        slot = torch.empty_like(order_)
        slot[order_] = torch.arange(order_.numel())
        return band(window_sa or window, True, slot[p], slot[j])

    mask = {"full": lambda: everything, "sliding_window": swa, "stochastic": sa, "union": lambda: swa() | sa()}[mode]()
    if mode != "full":
        mask = mask | (j < sink_tokens)
    return mask & (j <= p) if causal else mask


def attend(q, k, v, mask, scale=None, softcap=0.0, sink_logits=None):
    """q [B, H, n, d], k and v [B, H_kv, n, d] in any precision; mask broadcasts to [B, H, n, n]. Returns out and lse."""
    groups = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(groups, 1), v.repeat_interleave(groups, 1)
    s = q @ k.transpose(-1, -2) * (scale or q.shape[-1] ** -0.5)
    if softcap:
        s = softcap * torch.tanh(s / softcap)
    s = s.masked_fill(~mask, float("-inf"))
    if sink_logits is not None:
        s = torch.cat([s, sink_logits.to(s.dtype).view(1, -1, 1, 1).expand(*s.shape[:3], 1)], -1)
    lse = torch.logsumexp(s, -1)
    p = torch.where(torch.isinf(lse)[..., None], 0.0, torch.exp(s - lse[..., None]))
    if sink_logits is not None:
        p = p[..., :-1]
    return p @ v, lse


def gradient_sizes(q, k, v, mask, grad_out):
    """S of the promises for dQ, dK, dV: the largest entry of each gradient computed with absolute values. For calls without options."""
    groups = q.shape[1] // k.shape[1]
    scale = q.shape[-1] ** -0.5
    q, k, v, grad_out = (t.detach() for t in (q, k, v, grad_out))
    k, v = k.repeat_interleave(groups, 1), v.repeat_interleave(groups, 1)
    p = (q @ k.transpose(-1, -2) * scale).masked_fill(~mask, float("-inf")).softmax(-1)
    dp = grad_out.abs() @ v.abs().transpose(-1, -2)
    ds = p * (dp + (p * dp).sum(-1, keepdim=True)) * scale

    def over_groups(t):
        return t.unflatten(1, (-1, groups)).sum(2)

    dq = ds @ k.abs()
    dk, dv = over_groups(ds.transpose(-1, -2) @ q.abs()), over_groups(p.transpose(-1, -2) @ grad_out.abs())
    return [t.max().item() for t in (dq, dk, dv)]
