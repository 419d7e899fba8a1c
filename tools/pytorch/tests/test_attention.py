"""sattn.attention on tensors: against float64 within the library's promises, and what PyTorch expects of an operator."""

import subprocess
import sys
import threading

import pytest

torch = pytest.importorskip("torch")

import sattn  # noqa: E402
from oracle import attend, gradient_sizes, visible  # noqa: E402
from sattn import _runtime  # noqa: E402

MODES = ["full", "sliding_window", "stochastic", "union"]


def tensors(batch=2, heads=4, kv_heads=2, queries=19, keys=None, width=16, dtype=torch.float32, grad=True):
    keys = queries if keys is None else keys
    shapes = [(batch, heads, queries, width), (batch, kv_heads, keys, width), (batch, kv_heads, keys, width)]
    return [torch.randn(shape).to(dtype).requires_grad_(grad) for shape in shapes]


def windows(mode, width=6):
    return {} if mode == "full" else {"window": width}


def mask_of(mode, n, width=6, seed=0, **options):
    return visible(mode, n, window=width, order=sattn.permutation(n, seed=seed), **options)


def score_rounding(q, k, mask):
    """r of the promises: what fp32 rounding puts into the scores."""
    groups = q.shape[1] // k.shape[1]
    size = q.abs() @ k.abs().repeat_interleave(groups, 1).transpose(-1, -2) * q.shape[-1] ** -0.5
    return 8 * 2**-24 * size.masked_fill(~mask, 0).max().item()


def check(name, ours, theirs, tolerance):
    error = (ours.double() - theirs).abs()
    assert torch.isfinite(ours).all(), name
    assert not bool((~(error <= tolerance)).any()), f"{name}: error {error.max().item():.3g}, allowed {tolerance:.3g}"


def compare(ours, doubles, inputs, mask, grad_out, oracle):
    """Forward and all gradients within the library's promises for fp32."""
    q, k, v = doubles[:3]
    r = score_rounding(q.detach(), k.detach(), mask)
    check("out", ours.detach(), oracle.detach(), (2e-6 + 2 * r) * v.abs().max().item())
    mine = torch.autograd.grad(ours, inputs, grad_out, retain_graph=True)
    theirs = torch.autograd.grad(oracle, doubles, grad_out.double(), retain_graph=True)
    for index, (a, b, size) in enumerate(zip(mine, theirs, gradient_sizes(q, k, v, mask, grad_out.double()))):
        check(f"gradient {index}", a, b, (1e-5 + 2 * r) * size)


@pytest.mark.parametrize("backend", ["reference", "opencl"])
@pytest.mark.parametrize("mode", MODES)
def test_modes_against_float64(mode, backend):
    inputs = tensors(width=32)
    out = sattn.attention(*inputs, mode=mode, seed=5, backend=backend, **windows(mode))
    mask = mask_of(mode, 19, seed=5)
    doubles = [t.detach().double().requires_grad_() for t in inputs]
    compare(out, doubles, inputs, mask, torch.randn_like(out), attend(*doubles, mask)[0])


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("mode", MODES)
def test_options_against_float64(mode, causal):
    """Softcap, sink logits and tokens, fewer queries than keys, a scale, and the gradient of the log-sum-exp."""
    q, k, v = tensors(queries=11, keys=17)
    sinks = torch.randn(4, requires_grad=True)
    options = {} if mode == "full" else {"window": 5, "sink_tokens": 2}
    out, lse = sattn.attention(
        q, k, v, mode=mode, seed=7, causal=causal, softcap=1.5, sink_logits=sinks, scale=0.4, return_lse=True, **options
    )
    mask = visible(mode, 17, n_q=11, window=5, order=sattn.permutation(17, seed=7), causal=causal, sink_tokens=2)
    doubles = [t.detach().double().requires_grad_() for t in (q, k, v, sinks)]
    expected, expected_lse = attend(*doubles[:3], mask, scale=0.4, softcap=1.5, sink_logits=doubles[3])
    check("out", out.detach(), expected.detach(), 1e-5)
    check("lse", lse.detach(), expected_lse.detach(), 1e-5)
    grad_out, grad_lse = torch.randn_like(out), torch.randn_like(lse)
    mine = torch.autograd.grad([out, lse], (q, k, v, sinks), [grad_out, grad_lse])
    theirs = torch.autograd.grad([expected, expected_lse], doubles, [grad_out.double(), grad_lse.double()])
    for index, (a, b) in enumerate(zip(mine, theirs)):
        check(f"gradient {index}", a, b, 3e-5 * max(1.0, b.abs().max().item()))


@pytest.mark.parametrize("gate_width", [1, 16])
def test_gated_against_float64(gate_width):
    q, k, v = tensors()
    g_sa, g_swa = (torch.randn(2, 4, 19, gate_width, requires_grad=True) for _ in range(2))
    out, (lse_sa, lse_swa) = sattn.attention(
        q, k, v, mode="gated", window_sa=6, window_swa=4, seed=2, gate_sa=g_sa, gate_swa=g_swa, return_lse=True
    )
    doubles = [t.detach().double().requires_grad_() for t in (q, k, v, g_sa, g_swa)]
    sa, expected_sa = attend(*doubles[:3], mask_of("stochastic", 19, 6, 2))
    swa, expected_swa = attend(*doubles[:3], mask_of("sliding_window", 19, 4))
    expected = torch.sigmoid(doubles[3]) * sa + torch.sigmoid(doubles[4]) * swa
    check("out", out.detach(), expected.detach(), 1e-5)
    check("lse_sa", lse_sa.detach(), expected_sa.detach(), 1e-5)
    check("lse_swa", lse_swa.detach(), expected_swa.detach(), 1e-5)
    grad = torch.randn_like(out)
    for a, b in zip(torch.autograd.grad(out, (q, k, v, g_sa, g_swa), grad), torch.autograd.grad(expected, doubles, grad.double())):
        check("gradient", a, b, 3e-5 * max(1.0, b.abs().max().item()))


def test_moba_limits_and_gradient():
    inputs = tensors()
    full = sattn.attention(*inputs, mode="full")
    assert torch.allclose(sattn.attention(*inputs, mode="moba", block=4, top_k=9), full, atol=1e-6)
    out = sattn.attention(*inputs, mode="moba", block=4, top_k=1)
    i, j = torch.arange(19)[:, None], torch.arange(19)[None]
    mask = (i // 4 == j // 4) & (j <= i)
    doubles = [t.detach().double().requires_grad_() for t in inputs]
    compare(out, doubles, inputs, mask, torch.randn_like(out), attend(*doubles, mask)[0])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_types(dtype):
    inputs = tensors(dtype=dtype)
    out = sattn.attention(*inputs, mode="stochastic", window=6, seed=1)
    mask = mask_of("stochastic", 19, seed=1)
    doubles = [t.detach().double().requires_grad_() for t in inputs]
    expected = attend(*doubles, mask)[0]
    assert out.dtype == dtype
    unit = 2**-10 if dtype == torch.float16 else 2**-7
    check("out", out.detach(), expected.detach(), 2 * unit * expected.abs().max().item())
    grad = torch.randn_like(out)
    for a, b in zip(torch.autograd.grad(out, inputs, grad), torch.autograd.grad(expected, doubles, grad.double())):
        assert a.dtype == dtype
        check("gradient", a, b, 4 * unit * b.abs().max().item())


def test_float64_is_refused_and_a_wrong_gradient_would_be_seen():
    inputs = tensors()
    with pytest.raises(sattn.InvalidArgument, match="float64"):
        sattn.attention(*(t.double() for t in inputs), mode="full")
    mask = mask_of("full", 19)
    out = sattn.attention(*inputs, mode="full")
    doubles = [t.detach().double().requires_grad_() for t in inputs]
    wrong = attend(doubles[0] * 1.01, doubles[1], doubles[2], mask)[0]
    with pytest.raises(AssertionError):
        compare(out, doubles, inputs, mask, torch.randn_like(out), wrong)


def test_finite_differences():
    """gradcheck needs float64, which the library does not compute in; so differences of our own forward in a random direction, fp32."""
    inputs = tensors(batch=1, heads=2, kv_heads=1, queries=9, width=8)
    sinks = torch.randn(2, requires_grad=True)

    def value(q, k, v, s):
        out, lse = sattn.attention(q, k, v, mode="union", window=4, seed=3, sink_logits=s, softcap=3.0, return_lse=True)
        return (out * weight).sum() + (lse * weight_lse).sum()

    weight, weight_lse = torch.randn(1, 2, 9, 8), torch.randn(1, 2, 9)
    variables = (*inputs, sinks)
    grads = torch.autograd.grad(value(*variables), variables)
    step = 1e-2
    with torch.no_grad():
        for index, grad in enumerate(grads):
            direction = torch.randn_like(grad)
            there, back = list(variables), list(variables)
            there[index] = variables[index] + step * direction
            back[index] = variables[index] - step * direction
            slope = (value(*there).double() - value(*back).double()) / (2 * step)
            assert abs(slope - (grad * direction).sum()) <= 2e-2 * max(1.0, abs(slope.item()))


def test_lengths_query_start_and_sharing():
    q, k, v = tensors(grad=False)
    lengths = [19, 8]
    out = sattn.attention(q, k, v, mode="stochastic", window=5, seed=4, lengths=lengths)
    alone = sattn.attention(q[1:, :, :8], k[1:, :, :8], v[1:, :, :8], mode="stochastic", window=5, seed=4)
    assert torch.equal(out[1, :, :8], alone[0])
    assert (out[1, :, 8:] == 0).all()
    decode = sattn.attention(q[:, :, :1], k, v, mode="full", lengths=lengths, query_start=[18, 7])
    assert torch.allclose(decode[1], sattn.attention(q[1:, :, :1], k[1:, :, :8], v[1:, :, :8], mode="full")[0])
    per_head = sattn.attention(q, k, v, mode="stochastic", window=5, seed=4, sharing="per_head")
    second = sattn.Permutation(19, seed=4, substream=1)
    expected = sattn.attention(q, k, v, mode="stochastic", window=5, permutation=second)
    assert torch.equal(per_head[:, 2:], expected[:, 2:])
    orders = [sattn.permutation(19, seed=4), sattn.permutation(19, seed=4, substream=1)]
    own = sattn.attention(q, k, v, mode="stochastic", window=5, permutation=sattn.Permutation(order=orders, sharing="per_head"))
    assert torch.equal(own, per_head)


def test_layouts_and_strides_are_used_in_place(monkeypatch):
    packed = torch.randn(2, 19, 8, 16)  # a packed QKV buffer: 4 + 2 + 2 heads
    q, k, v = packed.split([4, 2, 2], dim=2)
    seen = []
    original = _runtime.Placement._wrap
    monkeypatch.setattr(_runtime.Placement, "_wrap", lambda self, address, size, is_input: seen.append((address, size)) or original(self, address, size, is_input))
    out = sattn.attention(q, k, v, mode="stochastic", window=4, layout="bnhd")
    # The three slices are one buffer, the packed one; nothing was copied.
    assert seen[0] == (packed.data_ptr(), packed.numel() * 4)
    assert len(seen) == 3  # and out, lse
    same = sattn.attention(*(t.transpose(1, 2).contiguous() for t in (q, k, v)), mode="stochastic", window=4)
    assert torch.equal(out, same.transpose(1, 2))
    assert out.is_contiguous()
    # Rows that are not contiguous, and an expanded batch.
    odd = torch.randn(2, 4, 16, 19).transpose(2, 3)
    wide = torch.randn(1, 2, 19, 16).expand(2, -1, -1, -1)
    assert torch.equal(sattn.attention(odd, wide, wide, mode="full"), sattn.attention(odd.contiguous(), wide.contiguous(), wide.contiguous(), mode="full"))
    ones = torch.ones(1, 1, 1, 1).expand(2, 2, 19, 16)
    assert torch.allclose(sattn.attention(odd, ones, ones, mode="full"), torch.ones(2, 4, 19, 16))


def test_empty_tensors():
    q, k, v = tensors(batch=0)
    assert sattn.attention(q, k, v, mode="full").shape == (0, 4, 19, 16)
    q, k, v = tensors(queries=0, keys=5)
    out = sattn.attention(q, k, v, mode="stochastic", window=2)
    assert out.shape == (2, 4, 0, 16)
    out.sum().backward()
    assert (k.grad == 0).all() and (v.grad == 0).all()


def test_errors_have_words():
    q, k, v = tensors(grad=False)
    cases = [
        (dict(mode="stochastic", window=0), "window_sa"),
        (dict(mode="stochastic"), "window_sa"),
        (dict(mode="stochastic", window=(-1, 2)), "left"),
        (dict(mode="full", window=3), "window"),
        (dict(mode="sideways"), "sideways"),
        (dict(mode="full", softcap=-1.0), "softcap"),
        (dict(mode="full", lengths=[1, 20]), r"lengths\[1\] is 20"),
        (dict(mode="full", lengths=[1]), "lengths"),
        (dict(mode="moba", block=0, top_k=1), "block"),
        (dict(mode="gated", window=3), "gate_sa"),
        (dict(mode="stochastic", window=3, permutation=[0, 1, 1]), "permutation"),
        (dict(mode="stochastic", window=3, permutation=[0] * 19), r"order"),
        (dict(mode="full", layout="dhnb"), "layout"),
        (dict(mode="stochastic", window=3, sharing="per_planet"), "sharing"),
    ]
    for options, words in cases:
        with pytest.raises(sattn.Error, match=words) as caught:
            sattn.attention(q, k, v, **options)
        assert isinstance(caught.value, ValueError)
        assert caught.value.status == "SATTN_INVALID_ARGUMENT"
    with pytest.raises(sattn.Error, match="key"):
        sattn.attention(q, k[..., :8], v, mode="full")
    with pytest.raises(sattn.Error) as caught:
        sattn.attention(q, k, v, mode="full", backend="opencl:77")
    assert caught.value.status != "SATTN_OK" and "77" in str(caught.value)


def test_plan_and_permutation_caches():
    _runtime.plans.clear()
    q, k, v = tensors(grad=False)
    before = _runtime.plans.made, _runtime.permutations.made
    for n in (19, 18, 17, 19):
        sattn.attention(q[:, :, :n], k[:, :, :n], v[:, :, :n], mode="stochastic", window=3, seed=987)
    assert _runtime.plans.made - before[0] == 1  # sizes up to a power of two share a plan
    assert _runtime.permutations.made - before[1] == 3
    # What leaves the cache between forward and backward is made again.
    q, k, v = tensors()
    out = sattn.attention(q, k, v, mode="stochastic", window=3)
    grads = torch.autograd.grad(out.sum(), (q, k, v), retain_graph=True)
    _runtime.plans.clear()
    _runtime.permutations.clear()
    assert all(torch.equal(a, b) for a, b in zip(grads, torch.autograd.grad(out.sum(), (q, k, v))))
    cache = _runtime.LeastRecentlyUsed(2)
    assert [cache.get(key, lambda key=key: key) for key in "abacbb"] == list("abacbb")
    assert cache.made == 4 and set(cache.entries) == {"b", "c"}


@pytest.mark.parametrize("backend", ["reference", "opencl"])
def test_threads(backend):
    """Four threads, each with shapes of its own, get what one thread gets."""
    work = [tensors(queries=8 + 3 * index, width=32) for index in range(4)]
    expected = [sattn.attention(*each, mode="union", window=4, backend=backend) for each in work]
    _runtime.plans.clear()
    results = [None] * 4
    failures = []

    def run(index):
        try:
            for _ in range(5):
                out = sattn.attention(*work[index], mode="union", window=4, backend=backend)
                out.sum().backward()
            results[index] = out
        except Exception as error:  # noqa: BLE001 (handed to the main thread)
            failures.append(error)

    threads = [threading.Thread(target=run, args=(index,)) for index in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert all(torch.equal(a, b) for a, b in zip(results, expected))


# ---- what PyTorch expects of an operator ----


def operator_arguments(mode="stochastic", keep=True):
    q, k, v = (t.transpose(1, 2) for t in tensors(queries=8, width=8))
    window = [] if mode == "full" else [3]
    options = (mode, window if mode in ("stochastic", "union") else [], window if mode in ("sliding_window", "union") else [])
    return (q, k, v, None, None, None, None, None, None, *options, True, False, 0, "shared", 0, 0, 0, 0.0, 0.0, 1, 0, 0, 0, "", keep)


@pytest.mark.parametrize("mode", ["full", "union"])
def test_opcheck(mode):
    tests = ("test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_static")
    torch.library.opcheck(torch.ops.sattn.attention.default, operator_arguments(mode), test_utils=tests)


def layer(q, k, v, gate):
    return sattn.attention(q * 2, k, v, mode="gated", window=4, seed=3, gate_sa=gate, gate_swa=-gate).transpose(1, 2).flatten(2) + 1


def test_compile():
    q, k, v = tensors()
    gate = torch.randn(2, 4, 19, 1, requires_grad=True)
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    ours, expected = compiled(q, k, v, gate), layer(q, k, v, gate)
    assert torch.equal(ours, expected)
    grad = torch.randn_like(expected)
    variables = (q, k, v, gate)
    for a, b in zip(torch.autograd.grad(ours, variables, grad), torch.autograd.grad(expected, variables, grad)):
        assert torch.equal(a, b)


def test_compile_does_not_recompile_for_seed_and_step():
    q, k, v = tensors(grad=False)
    torch._dynamo.reset()
    graphs = []

    def counting(module, inputs):
        graphs.append(module)
        return module.forward

    compiled = torch.compile(lambda q, step: sattn.attention(q, k, v, mode="stochastic", window=3, step=step), fullgraph=True, backend=counting)
    for step in range(6):
        assert torch.equal(compiled(q, step), sattn.attention(q, k, v, mode="stochastic", window=3, step=step))
    assert len(graphs) <= 3


def test_export():
    class Layer(torch.nn.Module):
        def forward(self, q, k, v):
            return sattn.attention(q, k, v, mode="stochastic", window=4, seed=3)

    q, k, v = tensors(grad=False)
    n = torch.export.Dim("n", min=2, max=64)
    program = torch.export.export(Layer(), (q, k, v), dynamic_shapes=({2: n}, {2: n}, {2: n}))
    assert "sattn.attention" in str(program.graph)
    q, k, v = tensors(grad=False, queries=27)
    assert torch.equal(program.module()(q, k, v), sattn.attention(q, k, v, mode="stochastic", window=4, seed=3))


def test_checkpointing_and_no_grad():
    from torch.utils.checkpoint import checkpoint

    q, k, v = tensors()

    def run(q, k, v):
        return sattn.attention(q, k, v, mode="stochastic", window=4)

    a = torch.autograd.grad(checkpoint(run, q, k, v, use_reentrant=False).sum(), (q, k, v))
    b = torch.autograd.grad(run(q, k, v).sum(), (q, k, v))
    assert all(torch.equal(x, y) for x, y in zip(a, b))
    with torch.no_grad():
        assert not run(q, k, v).requires_grad
    with torch.inference_mode():
        run(q, k, v)


def test_repeats_to_the_bit():
    q, k, v = tensors()
    runs = []
    for _ in range(2):
        out = sattn.attention(q, k, v, mode="union", window=5)
        runs.append((out, *torch.autograd.grad(out.sum(), (q, k, v))))
    assert all(torch.equal(a, b) for a, b in zip(*runs))


# ---- CUDA: what is handed over, without a GPU ----


def test_cuda_calls_use_pointers_and_the_stream(monkeypatch):
    """The library of this test records instead of computing: every array goes by pointer, the stream is the caller's, and nothing waits."""
    calls = []

    class Recorder:
        def __getattr__(self, name):
            def function(*arguments):
                calls.append((name, arguments))
                return 0

            return function

    def call(name, *arguments):
        calls.append((name, arguments))

    context = object.__new__(_runtime.Context)
    context.handle, context.cuda_device, context.shares_host_memory, context.device = None, 0, False, "cuda:0"
    plan = object.__new__(_runtime.Plan)
    plan.handle, plan.workspace, plan.context = None, {1: 512, 2: 512}, context
    monkeypatch.setattr(_runtime.c, "call", call)
    monkeypatch.setattr(_runtime.c, "library", lambda: Recorder())
    monkeypatch.setattr(_runtime, "plan_for", lambda *_: plan)
    kept = []
    scratch = lambda size: (kept.append(size) or 7 << 20, "memory")  # noqa: E731
    attention = _runtime.c.Attention()
    run = _runtime.Call(context, attention, 2, 3, 3, "shared", None, 1, stream=0xABC0, scratch=scratch)
    shape, strides = (2, 3, 1, 4), (12, 4, 4, 1)
    memory = {name: _runtime.Memory(index << 12, shape, strides, 4) for index, name in enumerate(("query", "key", "value", "out"), 1)}
    out = memory.pop("out")
    run.forward(memory, {"out": out}, False)
    wrapped = [arguments[1:3] for name, arguments in calls if name == "sattn_buffer_wrap_cuda"]
    assert wrapped == [(1 << 12, 96), (2 << 12, 96), (3 << 12, 96), (4 << 12, 96), (7 << 20, 512)]
    (forward,) = [arguments for name, arguments in calls if name == "sattn_forward"]
    assert forward[2].native == 0xABC0 and forward[5] is None
    names = [name for name, _ in calls]
    assert kept == [512] and not {"sattn_event_wait", "sattn_queue_finish", "sattn_buffer_write", "sattn_buffer_read"} & set(names)
    assert names.count("sattn_buffer_destroy") == 5


# ---- without PyTorch ----


def test_import_brings_neither_torch_nor_numpy():
    code = "import sys, sattn; assert 'torch' not in sys.modules and 'numpy' not in sys.modules; print(sattn.version())"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == sattn.version()
