#!/bin/sh
# Builds ggml and this example, and runs it.
#
#     sh tools/examples/ggml/run.sh SATTN_BUILD [FOLDER [DEVICE]]
#
# SATTN_BUILD is a build folder of sattn (it is installed into FOLDER/sattn). FOLDER (default: build-ggml) keeps sources and objects. ggml's
# sources come with the source package of llama-cpp-python, which pip fetches (77 MB); GGML_SOURCE names a ggml folder instead.
set -eu
case ${1:-} in -h | --help) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0" && exit ;; esac
sattn_build=${1:?a build folder of sattn}
here=$(CDPATH= cd -- "$(dirname -- "$0")" && pwd)
folder=${2:-build-ggml}
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)

source=${GGML_SOURCE:-}
if [ -z "$source" ]; then
  source=$folder/source/ggml
  if [ ! -e "$source/CMakeLists.txt" ]; then
    python3 -m pip download --quiet --no-deps --no-binary llama-cpp-python --dest "$folder" llama-cpp-python
    mkdir -p "$folder/source"
    tar -xzf "$folder"/llama_cpp_python-*.tar.gz -C "$folder/source" --strip-components=3 --wildcards '*/vendor/llama.cpp/ggml/*'
  fi
fi

cmake --install "$sattn_build" --prefix "$folder/sattn" >/dev/null
cmake -S "$here" -B "$folder/build" -DGGML_SOURCE="$source" -DCMAKE_PREFIX_PATH="$folder/sattn" >"$folder/log" 2>&1 &&
  cmake --build "$folder/build" --parallel "$(nproc)" --target compare >>"$folder/log" 2>&1 || {
  tail -n 30 "$folder/log" >&2
  exit 1
}
"$folder/build/compare" ${3:-}
