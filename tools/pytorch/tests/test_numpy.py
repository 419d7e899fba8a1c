"""NumPy arrays and DLPack."""

import subprocess
import sys

import numpy as np
import pytest

import sattn

torch = pytest.importorskip("torch")


def arrays(dtype=np.float32):
    rng = np.random.default_rng(int(torch.randint(0, 2**31, ())))
    return [rng.standard_normal(shape).astype(dtype) for shape in ((2, 4, 13, 8), (2, 2, 13, 8), (2, 2, 13, 8))]


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_numpy_equals_torch(dtype):
    inputs = arrays(dtype)
    options = dict(mode="union", window=4, seed=2**64 - 3, sink_tokens=1, lengths=[13, 9], sink_logits=np.arange(4.0), return_lse=True)
    out, lse = sattn.attention(*inputs, **options)
    theirs, their_lse = sattn.attention(*map(torch.from_numpy, inputs), **{**options, "sink_logits": torch.arange(4.0)})
    assert isinstance(out, np.ndarray) and out.dtype == dtype
    assert np.array_equal(out, theirs.numpy()) and np.array_equal(lse, their_lse.numpy())


def test_numpy_gated_and_moba():
    q, k, v = arrays()
    gate = np.random.default_rng(1).standard_normal((2, 4, 13, 1)).astype(np.float32)
    out = sattn.attention(q, k, v, mode="gated", window=3, gate_sa=gate, gate_swa=gate)
    t = [torch.from_numpy(x) for x in (q, k, v, gate)]
    assert np.array_equal(out, sattn.attention(*t[:3], mode="gated", window=3, gate_sa=t[3], gate_swa=t[3]).numpy())
    assert np.array_equal(sattn.attention(q, k, v, mode="moba", block=4, top_k=2), sattn.attention(*t[:3], mode="moba", block=4, top_k=2).numpy())


def test_strides_and_layout():
    q, k, v = arrays()
    want = sattn.attention(q, k, v, mode="full")
    bnhd = [np.ascontiguousarray(x.transpose(0, 2, 1, 3)) for x in (q, k, v)]
    assert np.array_equal(sattn.attention(*bnhd, mode="full", layout="bnhd").transpose(0, 2, 1, 3), want)
    backwards = [x[:, :, ::-1][:, :, ::-1] for x in (q, k, v)]
    assert np.array_equal(sattn.attention(*backwards, mode="full"), want)
    swapped = [np.ascontiguousarray(x.swapaxes(2, 3)).swapaxes(2, 3) for x in (q, k, v)]
    assert np.array_equal(sattn.attention(*swapped, mode="full"), want)


def test_dlpack():
    class Foreign:
        """Somebody else's array: nothing but DLPack."""

        def __init__(self, array):
            self.array = array
            self.shape = array.shape

        def __dlpack__(self, **options):
            return self.array.__dlpack__(**options)

        def __dlpack_device__(self):
            return self.array.__dlpack_device__()

    inputs = arrays()
    out = sattn.attention(*map(Foreign, inputs), mode="stochastic", window=3)
    assert np.array_equal(out, sattn.attention(*inputs, mode="stochastic", window=3))
    assert np.array_equal(np.from_dlpack(out), out)

    class Elsewhere(Foreign):
        def __dlpack_device__(self):
            return 2, 0

    with pytest.raises(sattn.Error, match="device 2"):
        sattn.attention(*map(Elsewhere, inputs), mode="full")


def test_permutation():
    order = sattn.permutation(100, seed=42, layer=3)
    assert order.dtype == np.uint32 and sorted(order) == list(range(100))
    assert np.array_equal(order, sattn.Permutation(100, seed=42, layer=3).order)
    assert not np.array_equal(order, sattn.permutation(100, seed=42))
    # Dropping tokens gives the order of fewer.
    assert np.array_equal(order[order < 60], sattn.permutation(60, seed=42, layer=3))
    inputs = arrays()
    named = sattn.attention(*inputs, mode="stochastic", window=3, permutation=sattn.Permutation(13, seed=9, layer=2))
    own = sattn.attention(*inputs, mode="stochastic", window=3, permutation=sattn.permutation(13, seed=9, layer=2))
    drawn = sattn.attention(*inputs, mode="stochastic", window=3, seed=9, layer=2)
    assert np.array_equal(named, own) and np.array_equal(named, drawn)


def test_refusals():
    q, k, v = arrays()
    for options, words in ((dict(mode="full", lengths=[14, 1]), "lengths"), (dict(mode="stochastic", window=0), "window_sa"), (dict(mode="gated", window=2), "gate_sa")):
        with pytest.raises(sattn.Error, match=words):
            sattn.attention(q, k, v, **options)
    with pytest.raises(sattn.Error, match="float64"):
        sattn.attention(q.astype(np.float64), k, v, mode="full")
    with pytest.raises(sattn.Error, match="value"):
        sattn.attention(q, k, v[:, :, :5], mode="full")


def test_works_without_torch():
    code = (
        "import sys; sys.modules['torch'] = None; import numpy as np, sattn; x = np.ones((1, 1, 5, 4), np.float32); "
        "print(sattn.attention(x, x, x, mode='stochastic', window=2, backend='reference').sum())"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "20.0"


def test_a_library_that_is_not_there():
    code = "import os; os.environ['SATTN_LIBRARY'] = '/nowhere/libsattn.so'; import sattn\ntry:\n  sattn.version()\nexcept sattn.Unavailable as e:\n  print(e.status, e)"
    text = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert text.startswith("SATTN_UNAVAILABLE") and "/nowhere/libsattn.so" in text
