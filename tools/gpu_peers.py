#!/usr/bin/env python3
"""gpu_peers.py [--tiny] [--device cuda] --out FILE

Times PyTorch's scaled_dot_product_attention (full) and FlexAttention (sliding window and Stochastic Attention, causal, the
order applied by gathering) on the problems that tools/gpu-check.sh gives to sattn. Writes JSON; without PyTorch, or where
PyTorch sees no GPU, it says so and writes nothing. Gathering and scattering are part of the time, as they are of sattn's."""
import argparse
import json
import sys
import time


def sizes(tiny):
    if tiny:
        return [(2, 1)], [64], [64], 16, 1
    return [(12, 12), (32, 8), (32, 4)], [64, 128], [2048, 8192, 32768], 256, 10


class Timer:
    def __init__(self, torch, device, repeat):
        self.torch, self.device, self.repeat = torch, device, repeat

    def once(self, call):
        if self.device == "cpu":
            start = time.perf_counter()
            call()
            return time.perf_counter() - start
        start, end = (self.torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        call()
        end.record()
        end.synchronize()
        return start.elapsed_time(end) * 1e-3

    def __call__(self, call):
        for _ in range(2):
            call()
        return min(self.once(call) for _ in range(self.repeat))


def full(torch, q, k, v, _order, _window):
    attend = torch.nn.functional.scaled_dot_product_attention
    grouped = {"enable_gqa": True} if q.shape[1] != k.shape[1] else {}
    return lambda: attend(q, k, v, is_causal=True, **grouped)


def flex(torch, q, k, v, order, window):
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention
    n = q.shape[2]

    def window_of_positions(_b, _h, i, j):
        return (j <= i) & (i - j < window)

    def window_of_slots(_b, _h, i, j):
        return (order[j] <= order[i]) & (i - j < window) & (j - i < window)

    on_gpu = q.device.type == "cuda"
    attend = torch.compile(flex_attention) if on_gpu else flex_attention
    mask = create_block_mask(window_of_positions if order is None else window_of_slots, None, None, n, n, device=q.device)
    grouped = q.shape[1] != k.shape[1]
    if order is None:
        return lambda: attend(q, k, v, block_mask=mask, enable_gqa=grouped)

    def gathered():
        out = attend(q[:, :, order], k[:, :, order], v[:, :, order], block_mask=mask, enable_gqa=grouped)
        result = torch.empty_like(out)
        result[:, :, order] = out
        return result
    return gathered


def with_backward(call, tensors, gradient):
    def both():
        for t in tensors:
            t.grad = None
        call().backward(gradient)
    return both


def rows(torch, args):
    pairs, widths, lengths, window, repeat = sizes(args.tiny)
    timer = Timer(torch, args.device, repeat)
    peers = [("SDPA", "full", full), ("FlexAttention", "swa", flex), ("FlexAttention", "sa", flex)]
    for heads, shared in pairs:
        for d in widths:
            for n in lengths:
                for dtype in ("fp16", "bf16"):
                    kind = torch.float16 if dtype == "fp16" else torch.bfloat16
                    make = lambda h: torch.randn(1, h, n, d, device=args.device, dtype=kind)
                    q, k, v, gradient = make(heads), make(shared), make(shared), make(heads)
                    for name, mode, build in peers:
                        order = torch.randperm(n, device=args.device) if mode == "sa" else None
                        for which in ("forward", "backward"):
                            row = {"name": name, "mode": mode, "pass": which, "dtype": dtype, "head_dim": d, "heads": heads,
                                   "kv_heads": shared, "n": n}
                            try:
                                yield {**row, "seconds_min": measure(torch, timer, build, (q, k, v), gradient, order, window, which)}
                            except Exception as error:  # a peer that cannot is left out, with its reason
                                print(f"{name} {mode} {which} {dtype} d = {d} heads {heads}/{shared} n = {n}: {error}"[:300])


def measure(torch, timer, build, tensors, gradient, order, window, which):
    """Backward is the time of both passes less that of the forward one, with gradients recorded."""
    if which == "forward":
        with torch.no_grad():
            return timer(build(torch, *tensors, order, window))
    recorded = [t.detach().clone().requires_grad_() for t in tensors]
    call = build(torch, *recorded, order, window)
    return max(timer(with_backward(call, recorded, gradient)) - timer(call), 0.0)


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    parser.add_argument("--out", required=True)
    args = parser.parse_args()
    try:
        import torch
    except ImportError as error:
        print(f"skipped: no PyTorch: {error}")
        return 0
    if args.device == "cuda" and not torch.cuda.is_available():
        print(f"skipped: PyTorch {torch.__version__} sees no GPU")
        return 0
    torch.manual_seed(1)
    found = list(rows(torch, args))
    with open(args.out, "w", encoding="utf-8") as file:
        json.dump({"torch": torch.__version__, "rows": found}, file, indent=1)
    print(f"PyTorch {torch.__version__}: {len(found)} timings")
    return 0 if found else 1


sys.exit(main())
