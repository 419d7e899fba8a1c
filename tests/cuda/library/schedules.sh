#!/bin/sh
# schedules.sh TOOL CASES NAME...: the same bits whichever thread, warp and block runs first, and whenever asynchronous copies deliver.
# CASES: folder of vectors; every output of each NAMEd one is compared, gradients included.
set -u
tool=$1 cases=$2
shift 2
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
failed=0

# attend FOLDER CASE VARIABLE=VALUE...: every output of the case into the folder
attend() {
    folder=$1 case=$2
    shift 2
    mkdir -p "$folder"
    outputs=$(cut -d' ' -f1 "$case/tolerance" | sed "s|.*|--& $folder/&.npy|")
    # shellcheck disable=SC2046,SC2086
    env "$@" "$tool" attend $(sed "s|{}|$case|g" "$case/args") --backend cuda $outputs || {
        echo "FAIL $case with $*"
        failed=1
    }
}

for name in "$@"; do
    attend "$scratch/$name-fifo" "$cases/$name" SATTN_SIM_SCHEDULE=fifo SATTN_SIM_COPIES=late
    for other in "reverse late" "lifo early" "random:1 early"; do
        rm -rf "$scratch/other"
        attend "$scratch/other" "$cases/$name" "SATTN_SIM_SCHEDULE=${other% *}" "SATTN_SIM_COPIES=${other#* }"
        diff -rq "$scratch/$name-fifo" "$scratch/other" || {
            echo "FAIL $name: schedule and copies '$other' change bits"
            failed=1
        }
    done
    echo "ok   $name: $(ls "$scratch/$name-fifo" | wc -l) outputs are the same in every order"
done
exit $failed
