# How long the parts of a script take. To be sourced; then, after each part:
#
#     part_ends NAME
#
# .ci/run gathers these lines at its end.

part_began=$(date +%s)

part_ends() {
  echo "seconds: $(($(date +%s) - part_began)) $1"
  part_began=$(date +%s)
}
