#!/bin/sh
# format.sh CLANG_FORMAT SOURCE: every file of ours is laid out as .clang-format says.
set -eu
cd "$2"
files=$(find include lib cl cuda tools tests \( -name '*.c' -o -name '*.h' -o -name '*.cl' -o -name '*.cu' -o -name '*.cpp' \) -print)
# shellcheck disable=SC2086 # a list of files
wrong=$("$1" --dry-run $files 2>&1 | sed -n 's/^\([^ :]*\):[0-9]*:[0-9]*: .*/\1/p' | sort -u)
[ -n "$wrong" ] || exit 0
echo 'laid out otherwise than .clang-format says:'
echo "$wrong"
echo "clang-format -i" $wrong
exit 1
