"""The package as a user gets it: a wheel with the library inside, and an installation that finds the repository's build."""

import glob
import os
import shutil
import subprocess
import sys

import pytest

import sattn

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..")
SCRIPT = """
import numpy, sattn
x = numpy.ones((1, 1, 5, 4), numpy.float32)
print(sattn.attention(x, x, x, mode="stochastic", window=2, backend="reference").sum(), sattn.__file__, sattn.library_path(), sep="\\n")
"""


def copy_of_the_package(folder):
    """Building writes into the folder that it builds: not into the repository."""
    target = os.path.join(folder, "repository", "tools", "pytorch")
    shutil.copytree(os.path.join(ROOT, "tools", "pytorch"), target, ignore=shutil.ignore_patterns("build", "dist", "*.egg-info", "__pycache__", "tests"))
    return target


PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
LOCAL = ["--no-deps", "--no-index"]


def make_wheel(tmp_path, source, **variables):
    wheels = os.path.join(tmp_path, "wheels")
    command = [*PIP, "wheel", *LOCAL, "--no-build-isolation", "--wheel-dir", wheels, source]
    subprocess.run(command, check=True, env={**os.environ, **variables})
    (wheel,) = glob.glob(os.path.join(wheels, "*.whl"))
    return wheel


def install(tmp_path, wheel):
    """Into a fresh environment, by this one's pip; returns its python."""
    fresh = os.path.join(tmp_path, "fresh")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", fresh], check=True)
    python = os.path.join(fresh, "bin", "python")
    subprocess.run([*PIP, "--python", python, "install", *LOCAL, wheel], check=True)
    return python


def answers(python, tmp_path):
    """Runs the script elsewhere, with NumPy from this environment and nothing that names the library."""
    import numpy

    environment = {name: value for name, value in os.environ.items() if name not in ("SATTN_LIBRARY", "PYTHONPATH")}
    environment["PYTHONPATH"] = os.path.dirname(os.path.dirname(numpy.__file__))
    code = "import sys; sys.path.append(sys.path.pop(1));" + SCRIPT
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, cwd=tmp_path, env=environment)
    assert done.returncode == 0, done.stderr
    total, package, library = done.stdout.split()
    assert total == "20.0"
    return package, library


def test_wheel_with_the_library_inside(tmp_path):
    wheel = make_wheel(tmp_path, copy_of_the_package(tmp_path), SATTN_BUNDLE=os.path.realpath(sattn.library_path()))
    assert "-py3-none-" in wheel and not wheel.endswith("any.whl")
    package, library = answers(install(tmp_path, wheel), tmp_path)
    assert library == os.path.join(os.path.dirname(package), "lib", "libsattn.so.0")


def test_installation_finds_the_build_of_the_repository(tmp_path):
    source = copy_of_the_package(tmp_path)
    library = os.path.join(tmp_path, "repository", "build", "lib")
    os.makedirs(library)
    shutil.copy(os.path.realpath(sattn.library_path()), os.path.join(library, "libsattn.so.0"))
    _, found = answers(install(tmp_path, make_wheel(tmp_path, source)), tmp_path)
    assert found == os.path.join(library, "libsattn.so.0")


@pytest.mark.parametrize("form", ["file", "folder"])
def test_the_environment_names_the_library(form, tmp_path):
    real = os.path.realpath(sattn.library_path())
    shutil.copy(real, os.path.join(tmp_path, "libsattn.so.0"))
    named = tmp_path if form == "folder" else os.path.join(tmp_path, "libsattn.so.0")
    package = os.path.dirname(os.path.dirname(sattn.__file__))
    code = "import sattn; print(sattn.library_path())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env={**os.environ, "SATTN_LIBRARY": str(named), "PYTHONPATH": package})
    assert done.stdout.strip() == os.path.join(tmp_path, "libsattn.so.0")
