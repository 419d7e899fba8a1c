"""The CUDA path without a GPU: on the emulated driver of the C tests, where the build folder has it. PyTorch's own part cannot run there."""

import os
import subprocess
import sys

import pytest

import sattn

HERE = os.path.dirname(os.path.abspath(__file__))


def test_forward_and_backward_on_the_callers_context_and_stream():
    build = os.path.dirname(os.path.dirname(os.path.realpath(sattn.library_path())))
    cuda = os.path.join(build, "tests", "cuda")
    if not os.path.exists(os.path.join(cuda, "driver", "lib", "libcuda.so.1")):
        pytest.skip("no emulated driver: the library's own tests were not built")
    # Built without nvcc, the library has no kernels, and its tests use a second one whose kernels are compiled for the host.
    second = os.path.join(cuda, "library", "lib", "libsattn.so.0")
    environment = {
        **os.environ,
        "LD_LIBRARY_PATH": os.path.join(cuda, "driver", "lib"),
        "SATTN_LIBRARY": second if os.path.exists(second) else sattn.library_path(),
        "PYTHONPATH": os.path.dirname(os.path.dirname(sattn.__file__)),
    }
    script = os.path.join(HERE, "on_the_stub.py")
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "equal on cuda:0"
