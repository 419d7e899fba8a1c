#!/bin/sh
# From a fresh Debian to Stochastic Attention on a real language model's queries, keys and values.
#
#     sh tools/quickstart.sh
#
# Installs what is missing (and says what and why), builds a release into build/, and runs sa, swa and full attention side by side on the best
# device: layer 14 of SmolLM2-135M-Instruct reading a page of Mansfield Park, 2048 tokens.
set -eu
case ${1:-} in -h | --help) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0" && exit ;; esac
cd "$(dirname "$0")/.."
. tools/packages.sh

need_for_building
install_needed

echo 'Building a release into build/ ...'
log=$(mktemp)
trap 'rm -f "$log"' EXIT
generator='Unix Makefiles'
if [ ! -f build/CMakeCache.txt ]; then
  command -v ninja >/dev/null && generator='Ninja'
  set -- -G "$generator"
else
  set --
fi
if ! cmake -S . -B build "$@" -DCMAKE_BUILD_TYPE=Release -DSATTN_TOOLS=ON -DSATTN_TESTS=OFF >"$log" 2>&1 ||
  ! cmake --build build --parallel "$(nproc)" >>"$log" 2>&1; then
  cat "$log" >&2
  echo 'quickstart: the build failed; its output is above' >&2
  exit 1
fi

data=tests/data/smollm2_layer14
echo
build/bin/sattn compare --q ${data}_q.npy --k ${data}_k.npy --v ${data}_v.npy --window 256 --layer 14
echo
echo 'Next: build/bin/sattn --help, build/bin/sattn selftest, sh tools/test.sh'
