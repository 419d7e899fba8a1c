#!/bin/sh
# install.sh BUILD SOURCE CC CXX: installs into a folder, moves that away, and builds and runs programs of somebody else with what is there:
# C and C++, shared and static, by find_package and by pkg-config; then the tool and the man pages. WITH_OPENCL, WITH_CUDA: what was built.
set -eu
PATH=$PATH:/sbin:/usr/sbin # ldconfig
build=$1
source=$2
cc=$3
cxx=$4
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() {
  echo "install: $*" >&2
  exit 1
}

DESTDIR='' cmake --install "$build" --prefix "$work/first" >"$work/log" || { cat "$work/log" && fail 'cmake --install failed'; }
mkdir "$work/moved here"
prefix="$work/moved here/sattn"
mv "$work/first" "$prefix"
if grep -rlIF -e "$work/first" -e "$build" "$prefix"; then fail 'these installed files hold a path of the build or the first prefix'; fi
package=$(find "$prefix" -name sattn.pc)
libraries=$(dirname "$(dirname "$package")")

# ---- by find_package
components=''
if [ "${WITH_OPENCL:-OFF}" = ON ] && ldconfig -p 2>/dev/null | grep -q libOpenCL.so; then components=opencl; fi
configure() { # FOLDER COMPONENTS
  cmake -S "$source/tests/install/consumer" -B "$1" -DCMAKE_C_COMPILER="$cc" -DCMAKE_CXX_COMPILER="$cxx" -DCMAKE_PREFIX_PATH="$prefix" \
    "-DCOMPONENTS=$2" >"$work/log" 2>&1
}
configure "$work/user" "$components" || { cat "$work/log" && fail 'find_package failed'; }
cmake --build "$work/user" >"$work/log" 2>&1 || { cat "$work/log" && fail 'a program found by find_package does not build'; }
ran=0
for program in "$work"/user/c_* "$work"/user/cpp_*; do
  "$program" | grep -q '^sattn .* works$' || fail "$program failed"
  ran=$((ran + 1))
done
[ "$ran" -ge 2 ] || fail 'no program was built'
if configure "$work/wrong" no-such-component; then fail 'an unknown component was found'; fi
if [ "${WITH_CUDA:-OFF}" = OFF ]; then
  if configure "$work/cuda" cuda; then fail 'the component cuda was found in a library without it'; fi
  grep -q 'built without CUDA' "$work/log" || fail "the refusal of the component cuda does not say why: $(cat "$work/log")"
fi

# ---- as docs/embedding.md says
if [ -n "$components" ]; then
  mkdir "$work/document"
  {
    printf 'cmake_minimum_required(VERSION 3.20)\nproject(document LANGUAGES C)\nadd_executable(program "%s")\n' "$source/tests/install/consumer/use.c"
    sed -n '/^```cmake/,/^```/p' "$source/docs/embedding.md" | grep -v '^```'
  } >"$work/document/CMakeLists.txt"
  cmake -S "$work/document" -B "$work/document/build" -DCMAKE_C_COMPILER="$cc" -DCMAKE_PREFIX_PATH="$prefix" >"$work/log" 2>&1 &&
    cmake --build "$work/document/build" >>"$work/log" 2>&1 && "$work/document/build/program" >>"$work/log" ||
    { cat "$work/log" && fail 'the CMake lines of docs/embedding.md do not work'; }
fi

# ---- by pkg-config
export PKG_CONFIG_PATH="$(dirname "$package")"
[ "$(pkg-config --modversion sattn)" = "$(pkg-config --modversion sattn-static)" ] || fail 'pkg-config versions differ'
for module in sattn sattn-static; do
  for compiler in "$cc -std=c11" "$cxx -std=c++11 -x c++"; do
    # A prefix with a blank in it: pkg-config escapes it for eval.
    eval "$compiler -Wall -Wextra -Wpedantic -Werror \"$source/tests/install/consumer/use.c\" -x none -o \"$work/program\" $(pkg-config --cflags --libs $module)" ||
      fail "$compiler with pkg-config $module does not build"
    LD_LIBRARY_PATH="$libraries" "$work/program" >/dev/null || fail "$compiler with pkg-config $module does not run"
  done
done
if LD_LIBRARY_PATH= ldd "$work/program" | grep -q libsattn; then fail 'the static program asks for the shared library'; fi

# ---- soname, tool, man pages
if [ -e "$libraries/libsattn.so" ]; then
  soname=$(readelf -d "$libraries/libsattn.so" | sed -n 's/.*SONAME.*\[\(.*\)\]/\1/p')
  [ "$soname" = "libsattn.so.0" ] && [ -e "$libraries/$soname" ] || fail "soname '$soname'"
  readelf -V "$libraries/libsattn.so" | grep -q 'SATTN_0' || fail 'symbols have no version'
fi
if [ -e "$prefix/bin/sattn" ]; then
  "$prefix/bin/sattn" --version >/dev/null || fail 'the tool does not start from the moved prefix'
  [ -s "$prefix/share/man/man1/sattn.1" ] || fail 'no man page of the tool'
fi
[ -s "$prefix/share/man/man3/sattn.3" ] || fail 'no man page of the library'
echo "installed, moved and used by $((ran + 4)) programs"
