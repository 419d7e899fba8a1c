#!/bin/sh
# The long checks that continuous integration has no time for.
#
#     sh tools/nightly.sh [PART]...        parts: compilers sanitizers valgrind families methods draw cuda shipping torture
#                                           fuzz threads analyzers faults devices intel (default: all)
#
#   compilers    gcc and clang, static and shared, no warning
#   sanitizers   address and undefined behaviour: unit tests, and all vectors on the reference backend
#   valgrind     the unit tests that need no driver
#   families     all vectors, gradients included, and rows far apart, on OpenCL with each family of kernels by name; CPUs without AVX-512
#   methods      the OpenCL vectors under PoCL's other ways of making work-groups
#   draw         permutations drawn on every device that can
#   cuda         the CUDA backend on the stub driver: every test, the whole conformance suite, every mistake in its kernels
#   shipping     Debian packages on a clean system (as root), use as a subfolder of another project, the ggml example, Doxygen
#   torture      random problems on every device and family of kernels, ten minutes
#   fuzz         the .npy reader, the option parser and plan creation under libFuzzer (clang), ten minutes each
#   threads      eight threads on the reference and OpenCL under the thread sanitizer
#   analyzers    the clang static analyzer and cppcheck, no finding
#   faults       each driver call and each allocation fails in turn, in more modes; ten thousand calls leave nothing behind
#   devices      OpenCL devices without half, double, subgroups, with little local memory, small work-groups, small allocations
#   intel        the OpenCL suite and all vectors on Intel's CPU runtime, taken from PyPI; a part of the suite with optimised kernels
#
# SATTN_NIGHTLY_SECONDS replaces the ten minutes. The short forms of torture, fuzz, threads and faults are ordinary tests.
# Build folders are build-nightly-*. The last line is `N passed, N failed`; the exit status is 0 only if something passed and nothing failed.
set -u
case ${1:-} in -h | --help) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0" && exit ;; esac
cd "$(dirname "$0")/.."
parts=${*:-compilers sanitizers valgrind families methods draw cuda shipping torture fuzz threads analyzers faults devices intel}
seconds=${SATTN_NIGHTLY_SECONDS:-600}
# The system's own has its packages (numpy); another one in front of it may not.
python=/usr/bin/python3
[ -x "$python" ] || python=python3
passed=0
failed=0
log=$(mktemp)
trap 'rm -f "$log"' EXIT

# check NAME COMMAND...: one line each; the output only if it failed
check() {
  name=$1
  shift
  if "$@" >"$log" 2>&1; then
    passed=$((passed + 1))
    echo "ok      $name"
  else
    failed=$((failed + 1))
    echo "FAILED  $name: $*"
    grep -E -m 20 '(^|[^_a-z])(error|warning|FAILED|runtime error)' "$log"
    tail -n 40 "$log"
  fi
}

# build FOLDER CMAKE_ARGUMENT...: all of it, or what `targets` names
targets=
build() {
  tree=$1
  shift
  # shellcheck disable=SC2086
  cmake -S . -B "$tree" -DSATTN_CUDA=OFF "$@" && cmake --build "$tree" --parallel "$(nproc)" ${targets:+--target $targets}
}

compilers() {
  check 'gcc, static' build build-nightly-static -DCMAKE_C_COMPILER=gcc -DBUILD_SHARED_LIBS=OFF
  if command -v clang >/dev/null; then check 'clang, shared' build build-nightly-clang -DCMAKE_C_COMPILER=clang; fi
}

sanitizers() {
  check 'address, undefined: build' build build-nightly-asan -DCMAKE_BUILD_TYPE=RelWithDebInfo -DSATTN_SANITIZE=address,undefined
  check 'address, undefined: unit tests' ctest --test-dir build-nightly-asan --output-on-failure -R '^(unit|support|tool-npy|tool-options)'
  check 'address, undefined: vectors' build-nightly-asan/bin/vectors --backend reference build-nightly-asan/tests/vectors/cases
}

valgrind_units() {
  check 'valgrind: build' build build-nightly-valgrind -DCMAKE_BUILD_TYPE=RelWithDebInfo
  for program in attention buffer context dispatch dynlib error half host permutation permutation_object plan reference_grad \
    reference_properties reference_rows reference_visible region rows trace validate version; do
    check "valgrind: unit_$program" env OCL_ICD_VENDORS=/nowhere valgrind -q --error-exitcode=9 --leak-check=full "build-nightly-valgrind/bin/unit_$program"
  done
}

families() {
  check 'release build' build build-nightly
  for family in cpu gpu general; do
    check "vectors, kernels $family" env SATTN_KERNELS=$family "$python" tests/vectors/run.py build-nightly/bin/sattn --backend opencl \
      build-nightly/tests/vectors/cases
  done
  for family in cpu gpu general; do
    check "rows far apart, kernels $family" env SATTN_KERNELS=$family SATTN_BUILD_OPTIONS=-cl-opt-disable \
      build-nightly/bin/conformance --backend opencl --case 'far-apart/*'
  done
  check 'vectors, kernels cpu without AVX-512' env SATTN_KERNELS=cpu SATTN_BUILD_OPTIONS='-cl-opt-disable -DSATTN_NO_AVX512' \
    "$python" tests/vectors/run.py build-nightly/bin/sattn --backend opencl build-nightly/tests/vectors/cases
  check 'large scores, kernels cpu without AVX-512' env SATTN_KERNELS=cpu SATTN_BUILD_OPTIONS='-cl-opt-disable -DSATTN_NO_AVX512' \
    build-nightly/bin/conformance --backend opencl --case '*large-scores/*' --case '*large-logits/*' --case '*garbage*'
}

methods() {
  check 'release build' build build-nightly
  for method in loops loopvec; do
    check "vectors, PoCL work-group method $method" env POCL_WORK_GROUP_METHOD=$method POCL_CACHE_DIR="$PWD/build-nightly/pocl-$method" \
      SATTN_CACHE_DIR= SATTN_KERNELS=gpu build-nightly/bin/vectors --backend opencl build-nightly/tests/vectors/cases
  done
  # Optimised, PoCL 3.1 dies of its own assertion with this one (ParallelRegion.cc, "Incoming edges to non-entry block!"). It knows no others:
  # `auto` is loopvec, `cbs` came later.
  check 'vectors, not optimised, PoCL work-group method repl' env POCL_WORK_GROUP_METHOD=repl POCL_CACHE_DIR="$PWD/build-nightly/pocl-repl" \
    SATTN_CACHE_DIR= SATTN_KERNELS=gpu SATTN_BUILD_OPTIONS=-cl-opt-disable build-nightly/bin/vectors --backend opencl \
    build-nightly/tests/vectors/cases
  check 'vectors, PoCL single-thread device' env POCL_DEVICES=basic POCL_CACHE_DIR="$PWD/build-nightly/pocl-basic" SATTN_CACHE_DIR= \
    build-nightly/bin/vectors --backend opencl build-nightly/tests/vectors/cases
}

draw() {
  check 'release build' build build-nightly
  check 'permutations drawn on devices' build-nightly/bin/unit_draw
}

cuda() {
  folder=$PWD/build-nightly-cuda
  check 'CUDA: build' build build-nightly-cuda -DSATTN_CUDA=ON
  sh tools/cuda-tools.sh "$folder/cuda-tools" >/dev/null || echo 'no cuobjdump: machine code is not looked at'
  check 'CUDA: tests' ctest --test-dir "$folder" --output-on-failure --parallel "$(nproc)" -R '^cuda_'
  # Without nvcc the tests have a library of their own, with kernels compiled for the host.
  export LD_LIBRARY_PATH="$folder/tests/cuda/library/lib:$folder/tests/cuda/driver/lib"
  check 'CUDA: conformance, host engine' env SATTN_SIM_ENGINE=host "$folder/bin/conformance" --backend cuda
  check 'CUDA: conformance, host engine, another order' env SATTN_SIM_ENGINE=host SATTN_SIM_SCHEDULE=random:7 SATTN_SIM_COPIES=early \
    "$folder/bin/conformance" --backend cuda --skip 'many-*' --skip 'gradients-same-bits/*'
  check "CUDA: torture, host engine, $seconds s" env SATTN_SIM_ENGINE=host "$folder/bin/sattn-torture" --seconds "$seconds" --backends cuda \
    --folder "$folder/torture-failure"
  nvcc=$(sed -n 's/^SATTN_NVCC:.*=//p' "$folder/CMakeCache.txt")
  if [ -x "$nvcc" ]; then
    check 'CUDA: conformance, PTX engine' env SATTN_SIM_ENGINE=ptx "$folder/bin/conformance" --backend cuda --skip 'many-*'
    check 'CUDA: vectors, PTX engine, another order' env SATTN_SIM_ENGINE=ptx SATTN_SIM_SCHEDULE=lifo SATTN_SIM_COPIES=early \
      "$folder/bin/vectors" --backend cuda "$folder/tests/vectors/cases"
    check 'CUDA: mistakes in kernels, PTX engine' env SATTN_SIM_ENGINE=ptx "$python" tests/cuda/mutation/mutate_library.py \
      --program "$folder/bin/cuda_library_kernels" --nvcc "$nvcc" --source .
  fi
  unset LD_LIBRARY_PATH
}

shipping() {
  check 'release build' build build-nightly
  if [ "$(id -u)" -eq 0 ] && command -v debootstrap >/dev/null && command -v dpkg-shlibdeps >/dev/null; then
    check 'Debian packages on a clean Debian 12' env CMAKE_ARGUMENTS=-DSATTN_CUDA=OFF sh tools/check-deb.sh
  else
    echo 'not checked: Debian packages (root, debootstrap and dpkg-dev are needed)'
  fi
  check 'a subfolder of another project' sh tests/install/subfolder.sh "$PWD"
  check 'ggml example' sh tools/examples/ggml/run.sh build-nightly build-nightly-ggml
  if command -v doxygen >/dev/null; then
    check 'Doxygen' ctest --test-dir build-nightly --output-on-failure -R '^docs-doxygen$'
  else
    echo 'not checked: Doxygen'
  fi
}

torture() {
  check 'release build' build build-nightly
  check "torture, $seconds s" build-nightly/bin/sattn-torture --seconds "$seconds" --folder build-nightly/torture-failure
  cat "$log"
}

fuzz() {
  if ! command -v clang >/dev/null; then
    echo 'not checked: fuzzing (clang is needed)'
    return
  fi
  # Nothing else: the C++ compiler, which builds the simulated GPU, need not be clang and know the fuzzer's flags.
  targets='fuzz_npy fuzz_options fuzz_plan'
  check 'fuzz: build' build build-nightly-fuzz -DCMAKE_C_COMPILER=clang -DSATTN_FUZZ=ON -DSATTN_OPENCL=OFF -DCMAKE_BUILD_TYPE=RelWithDebInfo
  targets=
  for program in npy options plan; do
    mkdir -p "build-nightly-fuzz/corpus-$program"
    check "fuzz_$program, $seconds s" "build-nightly-fuzz/bin/fuzz_$program" -max_total_time="$seconds" -max_len=700 \
      -artifact_prefix="build-nightly-fuzz/$program-" "build-nightly-fuzz/corpus-$program" "tests/fuzz/corpus/$program"
  done
}

threads() {
  check 'thread sanitizer: build' build build-nightly-tsan -DCMAKE_BUILD_TYPE=RelWithDebInfo -DSATTN_SANITIZE=thread
  check 'thread sanitizer: threads' env SATTN_TEST_ROUNDS=50 ctest --test-dir build-nightly-tsan --output-on-failure -R '^(threads-|cuda_library_threads)'
}

# analyze FILE...: no output means no finding
analyze() {
  for file in "$@"; do
    clang --analyze -Xanalyzer -analyzer-output=text -std=c11 -D_POSIX_C_SOURCE=200809L -DSATTN_BUILDING \
      -Xanalyzer -analyzer-disable-checker=security.insecureAPI.DeprecatedOrUnsafeBufferHandling \
      -I include -I lib -I cl -I tools/sattn -I tools/field -o /dev/null "$file" 2>&1 || return 1
  done | grep . && return 1
  return 0
}

analyzers() {
  if command -v clang >/dev/null; then
    check 'clang static analyzer' analyze lib/*.c lib/reference/*.c cl/*.c tools/sattn/*.c
  else
    echo 'not checked: the clang static analyzer (clang is needed)'
  fi
  if command -v cppcheck >/dev/null; then
    check 'cppcheck' cppcheck --quiet --error-exitcode=1 --std=c11 --enable=warning,portability,performance --inline-suppr \
      --suppressions-list=tools/cppcheck.supp -I include -I lib -I cl lib/*.c lib/reference/*.c cl/*.c
  else
    echo 'not checked: cppcheck'
  fi
}

faults() {
  check 'release build' build build-nightly
  check 'each driver call fails' build-nightly/bin/faults_driver all
  check 'each allocation fails' build-nightly/bin/faults_allocations all
  check 'ten thousand calls, reference' env SATTN_TEST_CALLS=10000 build-nightly/bin/conformance --backend reference --case 'many-calls/*'
  check 'ten thousand calls, OpenCL' env SATTN_TEST_CALLS=10000 build-nightly/bin/conformance --backend opencl --case 'many-calls/*'
}

# Cases that show what a device lacks, without compiling everything anew for each.
on_device() { # NAME LIES
  check "simulated device: $1" env LD_PRELOAD="$PWD/build-nightly/lib/libsattn_opencl_wrapper.so" SATTN_WRAPPER_LIES="$2" \
    build-nightly/bin/conformance --backend opencl --case 'every-kernel/*' --case 'every-gradient/*' --case 'half-types/*' \
    --case 'kernel-families/*' --case 'huge-sizes/*' --case 'permutations' --case 'merge' --case 'device-facts'
}

devices() {
  check 'release build' build build-nightly
  on_device 'a CPU without half, double and subgroups' no-fp16,no-fp64,no-subgroups
  on_device 'allocations of 64 MiB' allocation=67108864
  on_device 'a GPU with 32 KiB of local memory and groups of 256' gpu,no-fp16,no-fp64,no-subgroups,local=32768,group=256
  on_device 'a GPU with 4 KiB of local memory and groups of 16' gpu,no-fp16,no-fp64,no-subgroups,local=4096,group=16
}

# on_intel NAME [VARIABLE=VALUE]... COMMAND...: keeps the names of the programs that were built
on_intel() {
  what=$1
  shift
  check "Intel's CPU runtime, $what" env SATTN_TRACE=build "$@"
  grep '^sattn:build: ' "$log" >>"$folder/trace"
}

# all_built TRACE: every program of cl/*.c, which is named by its last file, stands in the trace; those for AMX need such a processor
all_built() {
  names=$(grep -oh '[a-z_]*\.cl", *NULL' cl/*.c | sed 's/".*//' | grep -v amx | sort -u)
  missing=
  for program in $names; do
    grep -q "^sattn:build: $program: " "$1" || missing="$missing $program"
  done
  echo "$names"
  [ -n "$names" ] && [ -z "$missing" ] || { echo "not built: $missing" && return 1; }
}

intel() {
  folder=$PWD/build-nightly-intel
  check 'release build' build build-nightly
  if [ ! -f "$folder/vendors/intel.icd" ]; then
    python3 -m venv "$folder" && "$folder/bin/pip" install --quiet --no-deps intel-opencl-rt intel-cmplr-lib-rt intel-cmplr-lic-rt tbb tcmlib umf || {
      echo "not checked: Intel's CPU runtime cannot be had from PyPI"
      return
    }
    # Everything but its ICD loader: the system's is to find it.
    mkdir -p "$folder/driver" "$folder/vendors" "$folder/cache"
    for file in "$folder"/lib/*; do
      case $file in *libOpenCL*) ;; *) ln -sf "$file" "$folder/driver/" ;; esac
    done
    echo "$folder/driver/libintelocl.so" >"$folder/vendors/intel.icd"
  fi
  export OCL_ICD_VENDORS="$folder/vendors" LD_LIBRARY_PATH="$folder/driver" SATTN_CACHE_DIR="$folder/cache"
  : >"$folder/trace"
  # When it optimises, this runtime takes 5 to 60 seconds for one of the hundreds of programs of the suite. So everything runs once without
  # optimisation, in every family of kernels, and what reaches every mode, gradient and storage type once more as users have it.
  for family in auto gpu general; do
    on_intel "not optimised: conformance, kernels $family" SATTN_BUILD_OPTIONS=-cl-opt-disable SATTN_KERNELS=$family \
      build-nightly/bin/conformance --backend opencl
    on_intel "not optimised: vectors, kernels $family" SATTN_BUILD_OPTIONS=-cl-opt-disable SATTN_KERNELS=$family \
      build-nightly/bin/vectors --backend opencl build-nightly/tests/vectors/cases
  done
  on_intel 'not optimised: permutations drawn' SATTN_BUILD_OPTIONS=-cl-opt-disable build-nightly/bin/unit_draw
  on_intel 'optimised: a part of the suite' build-nightly/bin/conformance --backend opencl \
    --case 'sets/*' --case 'sets-with-options/*' --case 'every-kernel/*' --case 'every-gradient/*' --case 'half-types/*' --case merge
  on_intel threads SATTN_BUILD_OPTIONS=-cl-opt-disable build-nightly/bin/threads --backend opencl
  on_intel 'torture, 60 s' SATTN_BUILD_OPTIONS=-cl-opt-disable build-nightly/bin/sattn-torture --seconds 60 --backends opencl \
    --folder build-nightly/torture-intel
  check "Intel's CPU runtime, every kernel file was built" all_built "$folder/trace"
  unset OCL_ICD_VENDORS LD_LIBRARY_PATH SATTN_CACHE_DIR
}

mkdir -p build-nightly/pocl-loops build-nightly/pocl-loopvec build-nightly/pocl-repl build-nightly/pocl-basic
for part in $parts; do
  case $part in
    compilers | sanitizers | families | methods | draw | cuda | shipping | torture | fuzz | threads | analyzers | faults | devices | intel) $part ;;
    valgrind) valgrind_units ;;
    *)
      echo "unknown part: $part" >&2
      exit 2
      ;;
  esac
done
echo "$passed passed, $failed failed"
[ "$passed" -gt 0 ] && [ "$failed" -eq 0 ]
