#!/bin/sh
# Builds the Debian packages and tries them on a clean Debian 12.
#
#     sh tools/check-deb.sh [--keep FOLDER]      --keep: the packages are left there
#
# As root, with debootstrap, dpkg-dev and a network: makes a minimal system in a folder, installs the packages there with apt, and checks that the
# tool works without and with an OpenCL driver, that programs in C build by pkg-config, shared and static, and that removal leaves nothing.
# MIRROR names another Debian mirror, BASE a tar file of a minimal Debian 12 to take instead of debootstrap, TMPDIR a place with 1 GB. About four minutes. Exit status 77: not root, or no debootstrap.
set -eu
case ${1:-} in -h | --help) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0" && exit ;; esac
cd "$(dirname "$0")/.."
source=$PWD
keep=''
case ${1:-} in
  '') ;;
  --keep) keep=$2 ;;
  *)
    echo "check-deb: unknown option $1" >&2
    exit 2
    ;;
esac
for command in debootstrap dpkg-shlibdeps; do
  command -v "$command" >/dev/null || { echo "check-deb: $command is missing" >&2 && exit 77; }
done
[ "$(id -u)" -eq 0 ] || { echo 'check-deb: must be root' >&2 && exit 77; }

work=$(mktemp -d)
root=$work/root
clean() {
  for point in sys dev proc; do
    if mountpoint -q "$root/$point"; then umount -l "$root/$point"; fi
  done
  for point in sys dev proc; do
    if mountpoint -q "$root/$point"; then echo "check-deb: $root/$point stays mounted" >&2 && return; fi
  done
  rm -rf "$work"
}
trap clean EXIT
trap 'exit 1' INT TERM
step() { echo "check-deb: $*"; }

step 'packages'
cmake -S . -B "$work/build" -DCMAKE_INSTALL_PREFIX=/usr -DCMAKE_BUILD_TYPE=Release -DSATTN_TESTS=OFF -DSATTN_IGRAPH=OFF ${CMAKE_ARGUMENTS:-} >"$work/log" 2>&1 &&
  cmake --build "$work/build" --parallel "$(nproc)" >>"$work/log" 2>&1 &&
  (cd "$work/build" && cpack -G DEB -B "$work/packages") >>"$work/log" 2>&1 || { tail -n 40 "$work/log" && exit 1; }
for package in "$work"/packages/*.deb; do
  dpkg-deb --field "$package" Package Depends
  dpkg-deb --contents "$package" | awk '{ print "    " $6 $7 $8 }' | grep -v '/$'
done
if [ -n "$keep" ]; then mkdir -p "$keep" && cp "$work"/packages/*.deb "$keep"; fi

step 'a clean Debian 12'
if [ -n "${BASE:-}" ]; then
  mkdir "$root" && tar -xf "$BASE" -C "$root"
else
  debootstrap --variant=minbase bookworm "$root" ${MIRROR:-} >"$work/log" 2>&1 || { tail -n 20 "$work/log" && exit 1; }
fi
for point in proc dev sys; do mount --bind "/$point" "$root/$point"; done
cp /etc/resolv.conf "$root/etc/resolv.conf"
for file in /etc/apt/apt.conf.d/*proxy*; do
  if [ -e "$file" ]; then cp "$file" "$root/etc/apt/apt.conf.d/"; fi
done
mkdir "$root/packages"
for package in libsattn0 libsattn-dev sattn-tools; do cp "$work/packages/$package"_*.deb "$root/packages/$package.deb"; done
cp "$source/tests/install/consumer/use.c" "$root/packages"
inside() { chroot "$root" env DEBIAN_FRONTEND=noninteractive LC_ALL=C HOME=/root "$@"; }
install() {
  inside apt-get install -y --no-install-recommends "$@" >"$work/log" 2>&1 || { tail -n 20 "$work/log" && exit 1; }
}

step 'library and tool, no driver'
inside apt-get update >"$work/log" 2>&1 || { tail -n 20 "$work/log" && exit 1; }
install /packages/libsattn0.deb /packages/sattn-tools.deb
inside sattn --version
inside sattn info | grep '^backend'
inside sattn info | grep -q '^backend opencl: not available'
inside sattn selftest >"$work/log" || { tail -n 20 "$work/log" && exit 1; }

step 'programs, shared and static'
install /packages/libsattn-dev.deb gcc pkg-config
for module in sattn sattn-static; do
  inside sh -c "cc -std=c11 -Wall -Werror /packages/use.c -o /packages/use \$(pkg-config --cflags --libs $module) && /packages/use"
done

step 'an OpenCL driver'
install ocl-icd-libopencl1 pocl-opencl-icd
inside sattn info | grep '^backend opencl: [1-9]'
inside /packages/use opencl

step 'removal'
inside apt-get purge -y libsattn-dev sattn-tools libsattn0 >"$work/log" 2>&1 || { tail -n 20 "$work/log" && exit 1; }
left=$(find "$root/usr" "$root/etc" -name '*sattn*' | head)
[ -z "$left" ] || { echo "check-deb: left after removal: $left" >&2 && exit 1; }
echo 'check-deb: packages install, work and go'
