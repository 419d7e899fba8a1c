#!/bin/sh
# The command line from outside: exit statuses, messages, files that appear or do not.
#
#   command.sh PATH_TO_SATTN FOLDER_OF_TEST_DATA
set -u
sattn=$1
data=$2
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
failed=0
checks=0

# expect STATUS WORD ARGUMENTS...: the exit status, and a word (if not empty) that standard output or standard error must hold
expect() {
  status=$1
  word=$2
  shift 2
  checks=$((checks + 1))
  "$sattn" "$@" >"$folder/out" 2>"$folder/err"
  got=$?
  if [ "$got" -ne "$status" ] || { [ -n "$word" ] && ! cat "$folder/out" "$folder/err" | grep -qF -e "$word"; }; then
    echo "sattn $*: exit status $got, expected $status and '$word':"
    cat "$folder/out" "$folder/err"
    failed=$((failed + 1))
  fi
}

check() {
  checks=$((checks + 1))
  if ! eval "$1"; then
    echo "not so: $1"
    failed=$((failed + 1))
  fi
}

q="$data/smollm2_layer14_q.npy" k="$data/smollm2_layer14_k.npy" v="$data/smollm2_layer14_v.npy"

expect 0 "SUBCOMMAND" --help
expect 0 "sattn " --version
expect 2 "subcommand is needed"
expect 2 "unknown subcommand" dance
for subcommand in info selftest attend compare permute bench; do
  expect 0 "usage: sattn $subcommand" $subcommand --help
  expect 2 "sattn: --nonsense" $subcommand --nonsense
done
check '[ ! -s "$folder/out" ]'

expect 0 "backend reference: 1 device" info
expect 0 '"permutation_version": 1' info --json

expect 0 "" permute --n 1000 --layer 1 --step 3 --out "$folder/order.npy" --slot "$folder/slot.npy"
check '[ "$(wc -c <"$folder/order.npy")" -eq 4128 ]'
check '[ "$(od -An -tu4 -j128 -N16 "$folder/order.npy" | tr -s " ")" = " 444 484 422 287" ]'
expect 1 "2^31-1" permute --n 2147483648 --out "$folder/no.npy"
expect 2 "--n: needed" permute --out "$folder/no.npy"
expect 2 "--out or --slot" permute --n 5
expect 1 "cannot be written" permute --n 5 --out "$folder/no.npy" --slot "$folder/no/such/folder.npy"
expect 2 "two outputs" permute --n 5 --out "$folder/no.npy" --slot "$folder/no.npy"
expect 2 "two outputs" permute --n 5 --out "$folder/no.npy" --slot "$folder/./no.npy"
check '[ ! -e "$folder/no.npy" ]'

attend="attend --backend reference --q $q --k $k --v $v"
expect 0 "" $attend --mode sa --window-sa 8 --seed 3 --out "$folder/a.npy" --lse "$folder/lse.npy"
expect 0 "" $attend --mode sa --window-sa=8 --seed=3 --out="$folder/b.npy"
expect 0 "" $attend --mode sa --window-sa 8 --seed 4 --out "$folder/c.npy"
check 'cmp -s "$folder/a.npy" "$folder/b.npy"'
check '! cmp -s "$folder/a.npy" "$folder/c.npy"'
check '[ "$(wc -c <"$folder/a.npy")" -eq $((128 + 2048 * 9 * 64 * 2)) ]'
check '[ "$(wc -c <"$folder/lse.npy")" -eq $((128 + 2048 * 9 * 4)) ]'
check 'head -c 128 "$folder/a.npy" | grep -qa "<f2.*(2048, 9, 64)"'
check 'head -c 128 "$folder/lse.npy" | grep -qa "<f4.*(9, 2048)"'
expect 0 "" $attend --mode sa --window-sa 8 --seed 3 --dtype bf16 --out "$folder/d.npy"
check 'head -c 128 "$folder/d.npy" | grep -qa "<f4.*(2048, 9, 64)"'

# Refused: nothing may appear.
rm "$folder"/*.npy
out="--out $folder/no.npy"
expect 2 "--mode: needed" $attend $out
expect 2 "--mode waltz" $attend --mode waltz $out
expect 2 "--window-swa together with --left-swa" $attend --mode swa --window-swa 4 --right-swa 0 --left-swa 3 $out
expect 2 "--right-swa without --left-swa" $attend --mode swa --right-swa 0 $out
expect 2 "--lse-sa: belongs to --mode gated" $attend --mode full --lse-sa "$folder/l.npy" $out
expect 2 "--dq: needs --grad-out" $attend --mode full --dq "$folder/dq.npy" $out
expect 2 "needs --gate-sa" $attend --mode gated --window-sa 4 --window-swa 4 $out
expect 2 "no permutation" $attend --mode swa --window-swa 4 --seed 1 $out
expect 2 "--backend quantum" attend --backend quantum --q "$q" --k "$k" --v "$v" --mode full $out
expect 2 "is not a device of" attend --backend reference --device opencl:0 --q "$q" --k "$k" --v "$v" --mode full $out
expect 1 "99" attend --device reference:99 --q "$q" --k "$k" --v "$v" --mode swa --window-swa 4 $out
expect 2 "--out or another output" $attend --mode swa --window-swa 4
expect 1 "window" $attend --mode swa --window-swa 0 $out
expect 1 "cannot be opened" attend --backend reference --q "$folder/absent.npy" --k "$k" --v "$v" --mode full $out
expect 1 "keys" attend --backend reference --q "$q" --k "$k" --v "$q" --mode full $out
check '[ -z "$(ls "$folder" | grep -v "^out$\|^err$")" ]'

expect 0 "stochastic (sa)" compare --backend reference --q "$q" --k "$k" --v "$v" --window 16 --repeat 1
expect 0 "of peak" bench --backend reference --n 64 --heads 2 --head-dim 8 --modes full,swa,sa,union,gated,moba --window 9 --block 8 --repeat 2 --backward
expect 0 '"visible_pairs": 2080' bench --backend reference --n 64 --heads 1 --head-dim 8 --modes full --repeat 1 --json
expect 2 "--repeat" bench --repeat 0
expect 1 "--n -1: must be" bench --n -1
expect 1 "--heads 0: must be" bench --heads 0
expect 1 "exceed 2^63" bench --backend reference --batch 2147483647 --heads 2147483647 --n 2147483647 --repeat 1
expect 1 "--n -1: must be" permute --n -1 --out "$folder/no.npy"
expect 1 "opencl:00" attend --device opencl:00 --q "$q" --k "$k" --v "$v" --mode full --out "$folder/no.npy"
expect 2 "twice" bench --modes sa,sa

echo "$((checks - failed)) of $checks checks right"
[ "$failed" -eq 0 ]
