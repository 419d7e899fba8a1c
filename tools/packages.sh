# Debian packages that a script needs. To be sourced:
#
#     . tools/packages.sh
#     need PACKAGE 'WHAT FOR' 'COMMAND THAT SUCCEEDS WHEN IT IS THERE'
#     install_needed
#
# Does nothing when everything is there. Otherwise says what is missing and why, and installs it with apt, as root or through sudo.

needed=''

need() {
  if ! sh -c "$3" >/dev/null 2>&1; then
    [ -n "$needed" ] || echo 'Missing packages:'
    printf '  %-20s %s\n' "$1" "$2"
    needed="$needed $1"
  fi
}

install_needed() {
  [ -n "$needed" ] || return 0
  if ! command -v apt-get >/dev/null; then
    echo "This system has no apt-get: please install what the list above is for, then run this again." >&2
    return 1
  fi
  as_root=''
  if [ "$(id -u)" -ne 0 ]; then
    if ! command -v sudo >/dev/null; then
      echo "Not root, and there is no sudo. Please run as root: apt-get install$needed" >&2
      return 1
    fi
    as_root='sudo'
  fi
  echo "Installing with apt:$needed"
  $as_root apt-get update -qq || return 1
  # shellcheck disable=SC2086 # a list of words
  $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $needed >/dev/null || {
    echo "apt-get could not install:$needed" >&2
    return 1
  }
  needed=''
}

need_for_building() {
  need gcc 'the C compiler' 'command -v cc || command -v gcc || command -v clang'
  need libc6-dev 'headers of the C library' 'echo "#include <stdlib.h>" | cc -E -'
  need cmake 'configures the build' 'command -v cmake'
  need ninja-build 'runs the build' 'command -v ninja'
  need opencl-headers 'OpenCL headers, to build the OpenCL backend' 'echo "#include <CL/cl.h>" | cc -E -'
  need ocl-icd-libopencl1 'the OpenCL loader, found at run time' 'ldconfig -p | grep -q libOpenCL.so.1 || /sbin/ldconfig -p | grep -q libOpenCL.so.1'
  need pocl-opencl-icd 'an OpenCL driver for the CPU' 'ls /etc/OpenCL/vendors/*.icd'
}

need_for_testing() {
  need libcmocka-dev 'the unit test framework' 'echo "#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>" | cc -E -'
  need python3 'runs the vectors through the command-line tool' 'test -x /usr/bin/python3'
  need python3-numpy 'reads and compares the vectors' '/usr/bin/python3 -c "import numpy"'
  need pkg-config 'finds igraph' 'command -v pkg-config'
  need libigraph-dev 'graph measures of sattn field' 'pkg-config --exists igraph'
  need gnuplot-nox 'plots of sattn field and sattn picture' 'command -v gnuplot'
  need libopenblas0-pthread 'matrix products of the gate projections on the host' 'ldconfig -p | grep -q "libcblas.so.3\|libopenblas.so.0" || /sbin/ldconfig -p | grep -q "libcblas.so.3\|libopenblas.so.0"'
  need libclblast1 'matrix products of the gate projections through OpenCL' 'ldconfig -p | grep -q libclblast.so.1 || /sbin/ldconfig -p | grep -q libclblast.so.1'
  need g++ 'the engines that check CUDA kernels without a GPU' 'command -v c++ || command -v g++'
  need python3-pip 'fetches what reads CUDA machine code, where nvcc is' '! command -v nvcc && ! test -x /usr/local/cuda/bin/nvcc || python3 -m pip --version'
  need clang-format-14 'checks the layout of sources' 'command -v clang-format-14'
  need oclgrind 'checks the OpenCL kernels for invalid accesses and data races' 'command -v oclgrind'
}
