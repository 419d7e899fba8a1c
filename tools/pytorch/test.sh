#!/bin/sh
# Runs the tests of the Python package: makes a virtual environment in the build folder, installs PyTorch and Transformers there, runs pytest.
#
#     sh tools/pytorch/test.sh [PYTEST_ARGUMENT]...        such as -k transformers
#
# The last line is `N passed, N failed`; the exit status is 0 only if something passed and nothing failed. BUILD names another build folder (the
# library is built there if it is not yet), VENV an environment that has everything already.
set -eu
case ${1:-} in -h | --help) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0" && exit ;; esac
cd "$(dirname "$0")/../.."
. tools/packages.sh
. tools/seconds.sh

end() { # PASSED FAILED
  echo "$1 passed, $2 failed"
  if [ "$1" -gt 0 ] && [ "$2" -eq 0 ]; then exit 0; fi
  exit 1
}

build=${BUILD:-build}
if [ ! -e "$build/lib/libsattn.so" ]; then
  need_for_building
  install_needed || end 0 1
  cmake -S . -B "$build" -DSATTN_TESTS=OFF -DSATTN_TOOLS=OFF || end 0 1
  cmake --build "$build" --parallel "$(nproc)" || end 0 1
fi
build=$(cd "$build" && pwd)

venv=${VENV:-}
if [ -z "$venv" ]; then
  venv="$build/pytorch-venv"
  sh tools/pytorch/install.sh "$venv" || end 0 1
fi
part_ends 'Python installation'

# OpenCL must work, as in tools/test.sh: tests of devices name it and fail without it.
log="$build/pytorch-tests.log"
# Programs that tools/test.sh compiled serve here too.
mkdir -p "$build/pocl-cache"
POCL_CACHE_DIR="$build/pocl-cache" SATTN_CACHE_DIR= SATTN_LIBRARY="$build/lib" PYTHONPATH=tools/pytorch PYTHONDONTWRITEBYTECODE=1 \
  "$venv/bin/python" -m pytest -p no:cacheprovider --disable-warnings --durations=10 -rs tools/pytorch/tests "$@" 2>&1 | tee "$log" || true

part_ends 'Python tests'

# Its closing line reads:  ===== 2 failed, 140 passed, 1 skipped, 3 errors in 60.00s =====
closing=$(grep -E '^=+ .*(passed|failed|error|skipped).* in ' "$log" | tail -n 1)
count() { echo "$closing" | sed -n "s/.*[^0-9]\([0-9][0-9]*\) $1.*/\1/p"; }
passed=$(count passed)
failed=$(count failed)
errors=$(count error)
# A skipped test counts as failed, but for those that need the evaluation harness, which is no small download, or what the C tests build.
skipped=$(grep '^SKIPPED \[' "$log" | grep -cv 'lm_eval\|emulated driver') || true
end "${passed:-0}" "$((${failed:-0} + ${errors:-0} + skipped))"
