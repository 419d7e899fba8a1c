#!/bin/sh
# The torture finds faults: one that is put in is shrunk to the smallest problem that has it, and what it prints runs.
#
#   finds.sh PATH_TO_TORTURE [PATH_TO_TOOL]
set -u
torture=$1
tool=${2:-}
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 1

fail() {
  echo "$1"
  cat log
  exit 1
}

"$torture" --seed 1 --rounds 400 --backends reference --tolerance 0 >log 2>&1 && fail 'no tolerance at all, and nothing was found'
"$torture" --seed 1 --rounds 400 --backends reference --fault >log 2>&1
[ $? -eq 1 ] || fail 'a fault of grouped heads was not found'
# The fault needs grouped heads and five keys, and nothing else.
grep -A1 '^smallest' log | grep -q 'full fp32 B=1 n_q=1 n_k=5 H=2/1 d=1 ' || fail 'the smallest problem is not the smallest'
line=$(sed -n 's/^  SATTN_KERNELS=auto sattn attend/attend/p' log)
[ -n "$line" ] || fail 'no command line'
if [ -n "$tool" ]; then
  # shellcheck disable=SC2086 # a command line
  "$tool" $line >>log 2>&1 || fail 'the command line does not run'
  [ -f torture-failure/out.npy ] && [ -f torture-failure/expected-out.npy ] || fail 'no output'
fi
again=$(sed -n 's/^  sattn-torture \(--seed .*\)/\1/p' log)
# shellcheck disable=SC2086 # a command line
"$torture" $again --fault >again.log 2>&1 && fail 'the line that repeats it does not'
# shellcheck disable=SC2086
"$torture" $again >>log 2>&1 || fail 'without the fault it fails, too'
