#!/bin/sh
# The vectors in bf16 whose mode attend_amx does, and proof that it did them.
#
#   vectors.sh PROGRAM FOLDER
set -u
program=$1
folder=$2
if ! grep -q ' amx_bf16' /proc/cpuinfo && [ -z "${LD_PRELOAD:-}" ]; then
  echo 'this CPU has no AMX'
  exit 77
fi
log=$(mktemp) || exit 1
trap 'rm -f "$log"' EXIT
SATTN_TRACE=dispatch "$program" --backend opencl --case 'full-bf16' --case 'swa-bf16' --case 'sa-bf16' "$folder" >"$log" 2>&1
status=$?
cat "$log"
# One of three modes each; gradients are other programs.
count=$(grep -c '^sattn:dispatch: attend_amx on .* pass forward' "$log")
if [ "$count" -lt 3 ]; then
  echo "attend_amx was chosen $count times of 3"
  exit 1
fi
exit "$status"
