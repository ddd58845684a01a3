# Shared by the scripts: where things are kept, and how they speak. Source it from the repository root.

HOME=${HOME:-}
BATON_CACHE_DIR=${BATON_CACHE_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/baton}
BATON_DEPS_DIR=${BATON_DEPS_DIR:-$BATON_CACHE_DIR/deps}
BATON_VENV=${BATON_VENV:-$BATON_CACHE_DIR/venv}
BATON_LM_EVAL_VENV=${BATON_LM_EVAL_VENV:-$BATON_CACHE_DIR/lm-eval}
BATON_AIPERF_VENV=${BATON_AIPERF_VENV:-$BATON_CACHE_DIR/aiperf}
BATON_MODEL_STORE=${BATON_MODEL_STORE:-${XDG_DATA_HOME:-$HOME/.local/share}/baton/models}
export BATON_CACHE_DIR BATON_DEPS_DIR BATON_VENV BATON_MODEL_STORE

say() { printf '%s: %s\n' "$(basename "$0")" "$*" >&2; }

die() { say "error: $*"; exit 1; }

# check_sha256 SUM FILE
check_sha256() {
  echo "$1  $2" | sha256sum -c --status || die "$2 does not have the expected SHA-256 $1: delete it and try again"
}
