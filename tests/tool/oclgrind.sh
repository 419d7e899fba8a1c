#!/bin/sh
# Every attention kernel, in small, under Oclgrind: no invalid access, no data race.
#
#   oclgrind.sh PATH_TO_SATTN FOLDER_OF_TEST_DATA
#
# Oclgrind reports on standard error, where `sattn attend` itself is silent when its device is named.
set -u
sattn=$1
data=$2
if ! command -v oclgrind >/dev/null; then
  echo 'oclgrind is not installed (Debian: oclgrind)'
  exit 77
fi
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
export SATTN_CACHE_DIR=''

# npy NAME TYPE SHAPE BYTES SOURCE SKIP: the next BYTES bytes of SOURCE as an array
npy() {
  header="{'descr': '<$2', 'fortran_order': False, 'shape': ($3), }"
  printf '\223NUMPY\001\000\166\000%-117s\n' "$header" >"$folder/$1.npy"
  tail -c +"$(($6 + 1))" "$5" | head -c "$4" >>"$folder/$1.npy"
}
# More than one tile of 64, and a ragged rest. Three heads for one of keys: the numbers are the layer's, in another shape to be small.
n=72
npy q f2 "$n, 3, 64" $((n * 3 * 64 * 2)) "$data/smollm2_layer14_q.npy" 128
npy k f2 "$n, 1, 64" $((n * 64 * 2)) "$data/smollm2_layer14_k.npy" 128
npy v f2 "$n, 1, 64" $((n * 64 * 2)) "$data/smollm2_layer14_v.npy" 128
npy gate f4 "$n, 3, 1" $((n * 3 * 4)) /dev/zero 0
npy sinks f4 "3," 12 /dev/zero 0

ran=0
failed=0
# try FAMILY OPTIONS...
try() {
  family=$1
  shift
  ran=$((ran + 1))
  SATTN_KERNELS=$family oclgrind --data-races "$sattn" attend --backend opencl --q "$folder/q.npy" --k "$folder/k.npy" --v "$folder/v.npy" \
    "$@" --out "$folder/out.npy" >"$folder/log" 2>&1
  status=$?
  if [ "$status" -ne 0 ] || [ -s "$folder/log" ]; then
    echo "SATTN_KERNELS=$family sattn attend $*: exit status $status"
    head -n 20 "$folder/log"
    failed=$((failed + 1))
  fi
}

for family in cpu gpu; do
  try $family --mode full
  try $family --mode sa --window-sa 20
  try $family --mode sa --window-sa 20 --no-causal --dtype bf16
  try $family --mode sa --window-sa 9 --sink-tokens 3 --softcap 20 --sink-logits "$folder/sinks.npy" --order-length 100 --dtype fp32
  try $family --mode union --window-sa 9 --window-swa 12
  try $family --mode gated --window-sa 9 --window-swa 12 --gate-sa "$folder/gate.npy" --gate-swa "$folder/gate.npy"
done
try general --mode sa --window-sa 9 --wrap --sink-tokens 3
try general --mode moba --block 16 --topk 2

echo "$((ran - failed)) of $ran calls ran clean"
[ "$failed" -eq 0 ]
