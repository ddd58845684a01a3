#!/usr/bin/env bash
# build.sh [PRESET [ARGUMENT...]]: builds the tree; the binary is build/PRESET/bin/baton. PRESET is release (default), debug,
# asan, tsan, or index, which only prepares compile_commands.json for editors. ARGUMENTs go to `cmake --build`.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/lib.sh
preset=${1:-release}
cmake --preset "$preset" -DBATON_DEPS_DIR="$BATON_DEPS_DIR" >"${TMPDIR:-/tmp}/baton-cmake-$$.log" 2>&1 ||
  { cat "${TMPDIR:-/tmp}/baton-cmake-$$.log"; die "cmake failed: run scripts/setup.sh first"; }
rm -f "${TMPDIR:-/tmp}/baton-cmake-$$.log"
cmake --build --preset "$preset" "${@:2}"
