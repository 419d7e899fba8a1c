#!/bin/sh
# Everything that the emulator executes, on the processor itself: run each command line, all must pass.
#
#   hardware.sh INSTRUCTIONS ATTENTION VECTORS VECTORS_FOLDER
set -u
if ! grep -q ' amx_bf16' /proc/cpuinfo; then
  echo 'this CPU has no AMX'
  exit 77
fi
failed=0
"$1" || failed=1
"$2" --backend opencl || failed=1
sh "$(dirname "$0")/vectors.sh" "$3" "$4" || failed=1
exit "$failed"
