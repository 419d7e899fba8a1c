#!/bin/sh
# Makes a wheel with the C library inside, in tools/pytorch/dist.
#
#     sh tools/pytorch/wheel.sh [BUILD]       BUILD: the folder where cmake built the library (default: build; built if need be)
#
# PYTHON names the interpreter (default python3; it needs pip, setuptools and wheel). The wheel fits every Python 3 of this kind of machine.
set -eu
case ${1:-} in -h | --help) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0" && exit ;; esac
cd "$(dirname "$0")/../.."
build=${1:-build}
if [ ! -e "$build/lib/libsattn.so" ]; then
  cmake -S . -B "$build" -DSATTN_TESTS=OFF -DSATTN_TOOLS=OFF
  cmake --build "$build" --parallel "$(nproc)"
fi
SATTN_BUNDLE=$(readlink -f "$build/lib/libsattn.so")
export SATTN_BUNDLE
"${PYTHON:-python3}" -m pip wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation --wheel-dir "${WHEELS:-tools/pytorch/dist}" tools/pytorch
ls "${WHEELS:-tools/pytorch/dist}"/sattn-*.whl
