#!/bin/sh
# subfolder.sh SOURCE: sattn as a subfolder of another project builds the library alone, without tests, tools and install rules of its own.
set -eu
source=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat >"$work/CMakeLists.txt" <<TEXT
cmake_minimum_required(VERSION 3.20)
project(other LANGUAGES C)
set(SATTN_CUDA OFF CACHE BOOL "")
add_subdirectory("$source" sattn)
add_executable(use "$source/tests/install/consumer/use.c")
target_link_libraries(use PRIVATE sattn::sattn)
if(TARGET sattn_tool OR TARGET unit_plan)
  message(FATAL_ERROR "tools or tests were added to another project")
endif()
TEXT
cmake -S "$work" -B "$work/build" >/dev/null
cmake --build "$work/build" --parallel "$(nproc)" >/dev/null
"$work/build/use"
