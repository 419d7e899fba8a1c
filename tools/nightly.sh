#!/bin/sh
# The long checks that continuous integration has no time for.
#
#     sh tools/nightly.sh [PART]...        parts: compilers sanitizers valgrind families methods draw cuda
#                                           shipping (default: all)
#
#   compilers    gcc and clang, static and shared, no warning
#   sanitizers   address and undefined behaviour: unit tests, and all vectors on the reference backend
#   valgrind     the unit tests that need no driver
#   families     all vectors, gradients included, on OpenCL with each family of kernels by name
#   methods      the OpenCL vectors under PoCL's other ways of making work-groups
#   draw         permutations drawn on every device that can
#   cuda         the CUDA backend on the stub driver: every test, the whole conformance suite, every mistake in its kernels
#   shipping     Debian packages on a clean system (as root), use as a subfolder of another project, the ggml example, Doxygen
#
# Build folders are build-nightly-*. The last line is `N passed, N failed`; the exit status is 0 only if something passed and nothing failed.
set -u
case ${1:-} in -h | --help) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0" && exit ;; esac
cd "$(dirname "$0")/.."
parts=${*:-compilers sanitizers valgrind families methods draw cuda shipping}
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
    tail -n 40 "$log"
  fi
}

# build FOLDER CMAKE_ARGUMENT...
build() {
  folder=$1
  shift
  cmake -S . -B "$folder" -DSATTN_CUDA=OFF "$@" && cmake --build "$folder" --parallel "$(nproc)"
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
  for program in attention buffer context dynlib error host permutation_object plan region rows trace validate version; do
    check "valgrind: unit_$program" valgrind -q --error-exitcode=9 --leak-check=full "build-nightly-valgrind/bin/unit_$program"
  done
}

families() {
  check 'release build' build build-nightly
  for family in cpu gpu general; do
    check "vectors, kernels $family" env SATTN_KERNELS=$family python3 tests/vectors/run.py build-nightly/bin/sattn --backend opencl \
      build-nightly/tests/vectors/cases
  done
}

methods() {
  check 'release build' build build-nightly
  for method in loops loopvec; do
    check "vectors, PoCL work-group method $method" env POCL_WORK_GROUP_METHOD=$method POCL_CACHE_DIR="$PWD/build-nightly/pocl-$method" \
      SATTN_CACHE_DIR= SATTN_KERNELS=gpu build-nightly/bin/vectors --backend opencl build-nightly/tests/vectors/cases
  done
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
  nvcc=$(sed -n 's/^SATTN_NVCC:.*=//p' "$folder/CMakeCache.txt")
  if [ -x "$nvcc" ]; then
    check 'CUDA: conformance, PTX engine' env SATTN_SIM_ENGINE=ptx "$folder/bin/conformance" --backend cuda --skip 'many-*'
    check 'CUDA: vectors, PTX engine, another order' env SATTN_SIM_ENGINE=ptx SATTN_SIM_SCHEDULE=lifo SATTN_SIM_COPIES=early \
      "$folder/bin/vectors" --backend cuda "$folder/tests/vectors/cases"
    check 'CUDA: mistakes in kernels, PTX engine' env SATTN_SIM_ENGINE=ptx python3 tests/cuda/mutation/mutate_library.py \
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

mkdir -p build-nightly/pocl-loops build-nightly/pocl-loopvec build-nightly/pocl-basic
for part in $parts; do
  case $part in
    compilers | sanitizers | families | methods | draw | cuda | shipping) $part ;;
    valgrind) valgrind_units ;;
    *)
      echo "unknown part: $part" >&2
      exit 2
      ;;
  esac
done
echo "$passed passed, $failed failed"
[ "$passed" -gt 0 ] && [ "$failed" -eq 0 ]
