#!/usr/bin/env bash
# build.sh [PRESET]: builds the tree; the binary is build/PRESET/bin/baton. PRESET: release (default), debug, asan, tsan.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/lib.sh
preset=${1:-release}
cmake --preset "$preset" -DBATON_DEPS_DIR="$BATON_DEPS_DIR" >"${TMPDIR:-/tmp}/baton-cmake-$$.log" 2>&1 ||
  { cat "${TMPDIR:-/tmp}/baton-cmake-$$.log"; die "cmake failed: run scripts/setup.sh first"; }
rm -f "${TMPDIR:-/tmp}/baton-cmake-$$.log"
cmake --build "build/$preset" "${@:2}"
