#!/usr/bin/env bash
# package.sh [FOLDER]: builds Baton, if need be, makes a Debian package of it in FOLDER (build/release) and prints its path.
set -euo pipefail
[ $# -le 1 ] || { echo "usage: package.sh [FOLDER]" >&2; exit 2; }
folder=${1:+$(realpath -ms -- "$1")}
cd "$(dirname "$0")/.."
source scripts/lib.sh

scripts/build.sh release --target installation >&2
began=$SECONDS
folder=${folder:-$PWD/build/release}
mkdir -p "$folder"
# CPack copies what it packs before it packs it.
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cpack --config build/release/CPackConfig.cmake -B "$scratch" >"$scratch/log" 2>&1 ||
  { cat "$scratch/log" >&2; die "cpack failed: see above"; }
package="$folder/$(basename "$scratch"/*.deb)"
mv "$scratch"/*.deb "$package"
chmod 644 "$package"
say "$(du -h --apparent-size "$package" | cut -f1), packed in $((SECONDS - began)) s"
echo "$package"
