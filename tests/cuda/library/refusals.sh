#!/bin/sh
# refusals.sh TOOL CASE ENGINE STUB [LIBRARIES]: devices that are too old, no driver, an old driver. Each must end with exit status 1 and a
# message that says what is missing, and leave no output. STUB: folder of the stub; LIBRARIES: what else the loader is to look through.
set -u
tool=$1 case=$2 engine=$3 stub=$4 libraries=${5-}
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
failed=0

# refused NAME PATTERN VARIABLE=VALUE...
refused() {
    name=$1 pattern=$2
    shift 2
    env LD_LIBRARY_PATH="$libraries:$stub" "$@" "$tool" attend --mode full --q "$case/q.npy" --k "$case/k.npy" --v "$case/v.npy" \
        --backend cuda --out "$scratch/out.npy" >"$scratch/stdout" 2>"$scratch/stderr"
    status=$?
    if [ $status -ne 1 ] || ! grep -qE "$pattern" "$scratch/stderr" || [ -s "$scratch/stdout" ] || [ -e "$scratch/out.npy" ]; then
        echo "FAIL $name: exit status $status: $(cat "$scratch/stderr" "$scratch/stdout")"
        failed=1
    else
        echo "ok   $name: $(cat "$scratch/stderr")"
    fi
}

refused "compute capability 7.5" "compute capability 8.0 or later.* 7\.5" SATTN_SIM_CAPABILITY=75
if [ "$engine" = ptx ]; then
    # The stand-in image of builds without nvcc has no version that a driver could be too old for.
    refused "driver for CUDA 10.2" "driver" SATTN_SIM_DRIVER=10020
fi
if ldconfig -p 2>/dev/null | grep -q 'libcuda\.so\.1'; then
    echo "skip no driver: this machine has one"
else
    refused "no driver" "libcuda\.so.*driver" LD_LIBRARY_PATH="$libraries"
fi
refused "no memory" "bytes" SATTN_SIM_MEMORY=4096
exit $failed
