#!/usr/bin/env bash
# install.sh [PREFIX]: builds Baton, if need be, and installs it into the folder PREFIX (/opt/baton), which any user may run
# and which may be copied to other machines. It asks for root's rights, by `sudo`, only where PREFIX needs them.
set -euo pipefail
[ $# -le 1 ] || { echo "usage: install.sh [PREFIX]" >&2; exit 2; }
prefix=$(realpath -ms -- "${1:-/opt/baton}")
cd "$(dirname "$0")/.."
source scripts/lib.sh

scripts/build.sh release --target installation >&2
parent=$prefix
until [ -e "$parent" ]; do parent=$(dirname "$parent"); done
sudo=""
[ -w "$parent" ] || sudo=sudo
$sudo cmake --install build/release --prefix "$prefix" >/dev/null
# CMake lists there what it installed. A list of root's would fail the next install without root.
[ -z "$sudo" ] || rm -f build/release/install_manifest.txt
"$prefix/bin/baton" version >/dev/null
say "$(du -sh "$prefix" | cut -f1) in $prefix; $prefix/bin/baton fetch-model gets a model, $prefix/bin/baton serve starts"
