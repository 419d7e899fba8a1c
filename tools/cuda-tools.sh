#!/bin/sh
# Parts of NVIDIA's CUDA toolkit from PyPI, for machines that lack them:
#
#     sh tools/cuda-tools.sh FOLDER              cuobjdump and nvdisasm (5 MB): tools/check-sass reads machine code with them
#     sh tools/cuda-tools.sh --compiler FOLDER   nvcc (260 MB); cmake -DSATTN_FETCH_NVCC=ON runs this by itself
#     sh tools/cuda-tools.sh --ptxas12 FOLDER    the assembler of CUDA 12 (150 MB), for cmake -DSATTN_PTXAS12=...
#
# Prints where the programs are. Nothing outside FOLDER changes, and what is there already is left alone. Needs python3 with pip.
set -eu
case ${1:-} in -h | --help) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0" && exit ;; esac

kind=disassembler
case ${1-} in
  --compiler) kind=compiler ;;
  --ptxas12) kind=cuda12 ;;
esac
[ "$kind" = disassembler ] || shift
if [ $# -ne 1 ]; then
  sed -n '2,8s/^# \{0,1\}//p' "$0" >&2
  exit 2
fi
# Each kind has a folder of its own, because pip replaces what they have in common.
mkdir -p "$1"
folder=$(cd "$1" && pwd)/$kind

# fetch PROGRAM PACKAGE...: the packages, unless the program is there
fetch() {
  program=$folder/$1
  shift
  if [ ! -x "$program" ]; then
    PIP_ROOT_USER_ACTION=ignore python3 -m pip install --quiet --disable-pip-version-check --no-deps --target "$folder" "$@" >&2
  fi
  dirname "$program"
}

case $kind in
  disassembler) fetch nvidia/cu13/bin/cuobjdump 'nvidia-cuda-cuobjdump==13.*' 'nvidia-cuda-nvdisasm==13.*' ;;
  compiler) fetch nvidia/cu13/bin/nvcc 'nvidia-cuda-nvcc==13.0.*' 'nvidia-nvvm==13.0.*' 'nvidia-cuda-crt==13.0.*' 'nvidia-cuda-runtime==13.0.*' ;;
  cuda12) fetch nvidia/cuda_nvcc/bin/ptxas 'nvidia-cuda-nvcc-cu12==12.9.*' ;;
esac
