#!/bin/sh
# Gradients, rows and merge under Oclgrind, in small and in every family: no invalid access, no data race, right results.
#
#   oclgrind.sh PATH_TO_CONFORMANCE
set -u
conformance=$1
if ! command -v oclgrind >/dev/null; then
  echo 'oclgrind is not installed (Debian: oclgrind)'
  exit 77
fi
log=$(mktemp) || exit 1
trap 'rm -f "$log"' EXIT
export SATTN_CACHE_DIR=''
failed=0

# try FAMILY CASE...
try() {
  family=$1
  shift
  cases=
  for pattern in "$@"; do cases="$cases --case $pattern"; done
  set -f
  SATTN_KERNELS=$family oclgrind --data-races --log "$log" "$conformance" --backend opencl $cases || failed=1
  set +f
  if [ -s "$log" ]; then
    echo "SATTN_KERNELS=$family: Oclgrind reports"
    head -n 20 "$log"
    failed=1
  fi
}

try general 'every-gradient/moba' 'gather-and-scatter' 'merge'
try cpu 'every-gradient/sa' 'every-gradient/moba'
try gpu 'gradients-small/union' 'gradients-small/gated'
exit "$failed"
