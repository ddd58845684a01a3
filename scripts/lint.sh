#!/usr/bin/env bash
# lint.sh [FOLDER...]: clang-format over every source, and clang-tidy, whose checks .clang-tidy names, over the sources of
# the folders (all of them), except tests and kernels. It fails when either has something to say.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/lib.sh

# clang-tidy visits every included header, which takes longer than the source itself. The sources of a folder are therefore
# linted as one, in a tenth of the time.
FOLDERS=(common telemetry discovery modelfile tokenizer grammar engine kvtransfer router gateway worker prefill_worker decode_worker simulator bench cli)
[ $# -eq 0 ] || FOLDERS=("$@")
UNITS=build/lint
FLAGS=(-std=c++20 -I"$PWD" -isystem build/index/proto/generated -isystem "$BATON_DEPS_DIR/ucx/libucx/include"
  -isystem "${CUDA_HOME:-/usr/local/cuda}/include" -DSPDLOG_COMPILED_LIB -DSPDLOG_SHARED_LIB -DSPDLOG_FMT_EXTERNAL -Wno-deprecated-declarations)

# Without the toolkit's headers there is nothing to say about the sources that need them.
LEFT_OUT='_(test|fuzz)\.cc$|^engine/kernels/cpu_|^engine/cuda/kernels/'
[ -e "${CUDA_HOME:-/usr/local/cuda}/include/cuda.h" ] || LEFT_OUT+='|^engine/cuda/'

lint_folder() {
  local unit="$UNITS/$1.cc"
  git ls-files "$1/*.cc" | grep -vE "$LEFT_OUT" | sed 's/.*/#include "&"/' >"$unit"
  clang-tidy-14 --quiet --header-filter="^$PWD/" "$unit" -- "${FLAGS[@]}" 2>"$unit.log"
}

git ls-files '*.cc' '*.h' | xargs -P 2 -n 100 clang-format-14 --dry-run -Werror
scripts/build.sh index --target generated_protos >/dev/null
mkdir -p "$UNITS"
export UNITS LEFT_OUT
export -f lint_folder
declare -p FLAGS >"$UNITS/flags"
printf '%s\n' "${FOLDERS[@]}" | xargs -P 2 -I{} bash -c 'source "$UNITS/flags"; lint_folder {}'
