#!/bin/sh
# Checks and measures sattn on an NVIDIA GPU.
#
#     sh tools/gpu-check.sh [OPTION]... [PART]...        parts: suite sanitizer opencl bench peers (default: all)
#
#   suite       vectors and conformance on the device, with the kernels that a plan takes by itself and with the general ones
#   sanitizer   some vectors under compute-sanitizer, where it is installed
#   opencl      vectors on NVIDIA's OpenCL, where it is installed
#   bench       times full, SA, UNION and GATED forward, full and SA backward, and decoding
#   peers       times PyTorch's attention and FlexAttention, where PyTorch sees the GPU
#
#   --results FOLDER   where logs, figures and report.md go (default gpu-results)
#   --skip-build       BUILD is there already
#   --tiny             sizes that an emulated device can take, to try the script itself
#
# BUILD names the build folder (default build-gpu), PYTHON the interpreter that has PyTorch. The last line is `N passed, N failed`; figures that
# miss what is required are in the report and do not count as failures.
set -u
case ${1:-} in -h | --help) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0" && exit ;; esac
cd "$(dirname "$0")/.."
build=${BUILD:-build-gpu}
python=${PYTHON:-python3}
results=gpu-results
tiny=''
skip_build=''
while [ $# -gt 0 ]; do
  case $1 in
    --results) results=$2 && shift ;;
    --skip-build) skip_build=1 ;;
    --tiny) tiny=1 ;;
    --*)
      sed -n '2,19s/^# \{0,1\}//p' "$0" >&2
      exit 2
      ;;
    *) break ;;
  esac
  shift
done
parts=${*:-suite sanitizer opencl bench peers}
passed=0
failed=0
mkdir -p "$results"

# check NAME COMMAND...: the output goes to a log; its end is shown if the command failed
check() {
  log="$results/$(echo "$1" | tr -c 'a-zA-Z0-9\n' '-').log"
  name=$1
  shift
  if "$@" >"$log" 2>&1; then
    passed=$((passed + 1))
    echo "ok      $name"
  else
    failed=$((failed + 1))
    echo "FAILED  $name: $*"
    tail -n 30 "$log"
  fi
}

tool=$build/bin/sattn
cases=$build/tests/vectors/cases

suite() {
  if [ -n "$tiny" ]; then
    check 'vectors, cuda' "$build/bin/vectors" --backend cuda --case 'sa-fp16' --case 'gated-options' "$cases"
    check 'vectors, cuda, general kernels' env SATTN_KERNELS=general "$build/bin/vectors" --backend cuda --case 'sa-fp16' "$cases"
    check 'conformance, cuda' "$build/bin/conformance" --backend cuda --case 'merge' --case 'gather*'
    return
  fi
  check 'vectors, cuda' "$build/bin/vectors" --backend cuda "$cases"
  check 'vectors, cuda, general kernels' env SATTN_KERNELS=general "$build/bin/vectors" --backend cuda "$cases"
  check 'permutations drawn on the device' env SATTN_DRAW=device "$build/bin/vectors" --backend cuda --case 'n*' "$cases"
  check 'conformance, cuda' "$build/bin/conformance" --backend cuda
  check 'self-test' "$tool" selftest
}

sanitizer() {
  if ! command -v compute-sanitizer >/dev/null; then
    echo 'skipped: compute-sanitizer is not installed'
    return
  fi
  for what in memcheck racecheck initcheck synccheck; do
    check "compute-sanitizer $what" compute-sanitizer --tool $what --error-exitcode 9 "$build/bin/vectors" --backend cuda \
      --case '*-options*' --case '*16*' --case 'n*' "$cases"
  done
}

opencl() {
  devices=$("$tool" info --json | "$python" tools/gpu_report.py --nvidia-opencl)
  [ -n "$devices" ] || echo 'skipped: no OpenCL of NVIDIA'
  for device in $devices; do
    check "vectors, $device" "$build/bin/vectors" --backend opencl --device "$device" "$cases"
    check "conformance, $device" "$build/bin/conformance" --backend opencl --device "$device"
  done
}

# bench NAME OPTION...
bench() {
  name=$1
  shift
  check "bench $name" sh -c 'out=$1; shift; "$@" >"$out.part" && mv "$out.part" "$out"' - "$results/bench-$name.json" \
    "$tool" bench --backend cuda --json --window "$window" --repeat "$repeat" "$@"
}

measure() {
  lengths=2048,8192,32768
  keys=32768
  heads='12/12 32/8 32/4'
  widths=64,128
  window=256
  repeat=10
  batches='1 16'
  if [ -n "$tiny" ]; then lengths=64 keys=128 heads='2/1' widths=64 window=16 repeat=1 batches=1; fi
  rm -f "$results"/bench-*.json
  for pair in $heads; do
    queries=${pair%/*}
    shared=${pair#*/}
    bench "$queries-$shared" --modes full,sa,union,gated --n $lengths --heads "$queries" --kv-heads "$shared" --head-dim $widths \
      --dtype fp16,bf16
    bench "backward-$queries-$shared" --modes full,sa --n $lengths --heads "$queries" --kv-heads "$shared" --head-dim $widths --dtype bf16 \
      --backward
    for batch in $batches; do
      bench "decode-$queries-$shared-$batch" --modes full,swa --n $keys --queries 1 --batch "$batch" --heads "$queries" --kv-heads "$shared" \
        --head-dim $widths --dtype bf16
    done
  done
}

peers() {
  check 'PyTorch' "$python" tools/gpu_peers.py ${tiny:+--tiny} --out "$results/peers.json"
  tail -n 1 "$results/PyTorch.log"
}

if [ -z "$skip_build" ]; then
  check 'build' sh -c 'cmake -S . -B "$1" -DSATTN_CUDA=ON && cmake --build "$1" --parallel "$(nproc)"' - "$build"
fi
"$tool" info >"$results/device.txt"
if command -v nvidia-smi >/dev/null; then nvidia-smi >>"$results/device.txt"; fi
if ! grep '^backend cuda: [1-9]' "$results/device.txt"; then
  grep '^backend cuda' "$results/device.txt"
  echo "$passed passed, $((failed + 1)) failed"
  exit 1
fi
for part in $parts; do
  case $part in
    suite | sanitizer | opencl | peers) $part ;;
    bench) measure ;;
    *)
      echo "unknown part: $part" >&2
      exit 2
      ;;
  esac
done
if ls "$results"/bench-*.json >/dev/null 2>&1; then
  check 'report' "$python" tools/gpu_report.py ${tiny:+--tiny} --out "$results/report.md" "$results"
  cat "$results/report.md"
fi
echo "$passed passed, $failed failed"
[ "$passed" -gt 0 ] && [ "$failed" -eq 0 ]
