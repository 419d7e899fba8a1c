#!/bin/sh
# tools/cuda-host.sh [--engine host|ptx] [--devices N] [--capability 75|80|90] [--driver 12020] COMMAND...
#
# Runs COMMAND with the tests' stub libcuda.so.1 (and libcublas.so.13) in place of NVIDIA's, so that the CUDA backend runs on a machine
# without a GPU:
#
#   tools/cuda-host.sh build/bin/sattn info
#
# The stub comes from the build folder in SATTN_BUILD, else build/. Without --engine, kernels run as nvcc's PTX where the library was built
# with nvcc, else as host code. tests/cuda/README.md lists the other variables (SATTN_SIM_...).
set -eu
case ${1:-} in -h | --help) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0" && exit ;; esac

root=$(CDPATH= cd -- "$(dirname -- "$0")/.." && pwd)
build=${SATTN_BUILD:-$root/build}
while [ $# -gt 0 ]; do
    case $1 in
    --engine) export SATTN_SIM_ENGINE="$2" ;;
    --devices) export SATTN_SIM_DEVICES="$2" ;;
    --capability) export SATTN_SIM_CAPABILITY="$2" ;;
    --driver) export SATTN_SIM_DRIVER="$2" ;;
    --*)
        echo "cuda-host.sh: unknown option $1" >&2
        exit 2
        ;;
    *) break ;;
    esac
    shift 2
done
if [ $# -eq 0 ]; then
    sed -n '2,11s/^# \{0,1\}//p' "$0" >&2
    exit 2
fi
for folder in "$build/tests/cuda/driver/lib" "$build/driver/lib"; do
    if [ -e "$folder/libcuda.so.1" ]; then
        export LD_LIBRARY_PATH="$folder${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
        exec "$@"
    fi
done
echo "cuda-host.sh: no stub libcuda.so.1 under $build: build the tests first, or set SATTN_BUILD" >&2
exit 1
