#!/bin/sh
# A disk that is full: the tool says so, leaves no part of a file, and what was there before stays as it was.
#
#   disk.sh PATH_TO_TOOL FOLDER_OF_TEST_DATA
set -u
tool=$1
data=$2
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 1
failed=0

fail() {
  echo "FAILED: $*"
  cat "$folder/log" 2>/dev/null
  failed=1
}

# expect_refusal WHAT COMMAND...: exit status 1 and a message, in the folder `out`
expect_refusal() {
  what=$1
  shift
  "$@" >log 2>&1
  status=$?
  [ "$status" -eq 1 ] || fail "$what: exit status $status"
  grep -q '^sattn: ' log || fail "$what: no message"
}

mkdir out
q=$data/smollm2_layer14_q.npy
k=$data/smollm2_layer14_k.npy
v=$data/smollm2_layer14_v.npy
set -- attend --backend reference --mode swa --window-swa 4 --q "$q" --k "$k" --v "$v" --out out/out.npy --lse out/lse.npy

echo before >out/lse.npy
# A limit on the size of files stands for the disk, with and without the signal that comes with it.
expect_refusal 'limit 8 blocks' sh -c 'ulimit -f 8; exec "$@"' sh "$tool" "$@"
expect_refusal 'limit 8 blocks, signal ignored' sh -c 'trap "" XFSZ; ulimit -f 8; exec "$@"' sh "$tool" "$@"
expect_refusal 'a permutation' sh -c 'ulimit -f 8; exec "$@"' sh "$tool" permute --n 100000 --out out/order.npy
[ "$(ls out)" = lse.npy ] || fail "left in the folder: $(ls out)"
[ "$(cat out/lse.npy)" = before ] || fail 'a file that was there before was changed'

# Standard output is full, too.
if [ -c /dev/full ]; then
  for arguments in 'info --json' '--version' '--help'; do
    # shellcheck disable=SC2086 # words
    "$tool" $arguments >/dev/full 2>log
    [ $? -eq 1 ] || fail "$arguments to a full disk: exit status is not 1"
  done
fi

# And with room all is well.
"$tool" "$@" >log 2>&1 || fail 'with room'
[ "$(ls out | tr '\n' ' ')" = 'lse.npy out.npy ' ] || fail "with room: $(ls out)"
exit "$failed"
