#!/usr/bin/env bash
# setup.sh [--build-only|--full]: installs what building and testing Baton need, on Debian 12: packages, UCX, the google.rpc
# protos, Prometheus and etcd, and a Python environment for the client tests. With --build-only, as in deploy/docker/Dockerfile, what
# tests need stays out. With --full, as in test.sh --full, lm-eval and aiperf get environments of their own, of 2 GB. Safe to
# repeat: what is there is left alone.
set -euo pipefail
build_only="" full=""
case "$*" in
  "") ;;
  --build-only) build_only=1 ;;
  --full) full=1 ;;
  *) echo "usage: setup.sh [--build-only|--full]" >&2; exit 2 ;;
esac
cd "$(dirname "$0")/.."
source scripts/lib.sh

BUILD_PACKAGES=(
  g++ cmake ninja-build ccache pkg-config python3 python3-pip
  libgrpc++-dev protobuf-compiler protobuf-compiler-grpc libprotobuf-dev libabsl-dev
  nlohmann-json3-dev libcli11-dev libspdlog-dev libyaml-cpp-dev libpcre2-dev libutf8proc-dev libxxhash-dev libsqlite3-dev libedit-dev
  libgtest-dev libgmock-dev libboost1.81-dev prometheus-cpp-dev libssl-dev zlib1g-dev
  dpkg-dev file
)
TEST_PACKAGES=(
  clang-14 clang-format-14 clang-tidy-14 libclang-rt-14-dev lld-14 python3-venv unzip iproute2
  podman crun netavark aardvark-dns iptables mmdebstrap chromium chromium-driver
)
UCX_WHEEL=libucx-cu13==1.22.0
UCX_SHA256=c6e0aaa82dc6e49dc3ddaac465b530e014f48b6c1c6b5ae74fbdd199d824351b
GOOGLEAPIS_WHEEL=googleapis-common-protos==1.76.0
GOOGLEAPIS_SHA256=59e13344a9f3651aa201a03e2bee815a3bf43a4baf1f9ff8a9b62a840ce25fac

as_root() {
  if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo "$@"; fi
}

# install_apt_packages PACKAGE...
install_apt_packages() {
  local missing=() package
  for package in "$@"; do
    dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed || missing+=("$package")
  done
  [ ${#missing[@]} -eq 0 ] && return
  say "installing ${#missing[@]} Debian packages"
  as_root apt-get update -qq
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
}

# unpack_wheel REQUIREMENT SHA256 FOLDER: a wheel's files, checked, into deps/FOLDER.
unpack_wheel() {
  local target="$BATON_DEPS_DIR/$3" stamp="$BATON_DEPS_DIR/$3/.requirement" scratch
  [ "$(cat "$stamp" 2>/dev/null)" = "$1" ] && return
  say "unpacking $1"
  scratch=$(mktemp -d)
  python3 -m pip download -q --disable-pip-version-check --no-deps -d "$scratch" "$1"
  check_sha256 "$2" "$scratch"/*.whl
  rm -rf "$target" && mkdir -p "$target"
  python3 -m zipfile -e "$scratch"/*.whl "$target"
  rm -rf "$scratch"
  echo "$1" >"$stamp"
}

# unpack_programs PACKAGE FOLDER PROGRAM...: programs of a Debian package, for the tests, into deps/FOLDER. Installing the
# package would start a service, and draw in a dozen others.
unpack_programs() {
  local package=$1 target="$BATON_DEPS_DIR/$2" scratch program missing=""
  shift 2
  for program in "$@"; do
    [ -x "$target/$program" ] || missing=1
  done
  [ -n "$missing" ] || return 0
  say "unpacking Debian's $package"
  scratch=$(mktemp -d)
  (
    cd "$scratch"
    # Without lists of packages apt knows none.
    if ! apt-get download -qq "$package" >/dev/null 2>&1; then
      as_root apt-get update -qq
      apt-get download -qq "$package"
    fi
    dpkg-deb --fsys-tarfile "$package"_*.deb | tar -x ./usr/bin
  )
  mkdir -p "$target"
  for program in "$@"; do mv "$scratch/usr/bin/$program" "$target"; done
  rm -rf "$scratch"
}

# make_venv WHOSE WANTED FOLDER: a Python environment with what the file WANTED asks for.
make_venv() {
  local wanted=$2 folder=$3 stamp="$3/.requirements"
  cmp -s "$wanted" "$stamp" && return
  say "creating the Python environment of $1"
  python3 -m venv --clear "$folder"
  "$folder/bin/pip" install -q --disable-pip-version-check -r "$wanted"
  cp "$wanted" "$stamp"
}

packages=("${BUILD_PACKAGES[@]}")
[ -n "$build_only" ] || packages+=("${TEST_PACKAGES[@]}")
install_apt_packages "${packages[@]}"
mkdir -p "$BATON_DEPS_DIR"
unpack_wheel "$UCX_WHEEL" "$UCX_SHA256" ucx
unpack_wheel "$GOOGLEAPIS_WHEEL" "$GOOGLEAPIS_SHA256" googleapis
if [ -z "$build_only" ]; then
  unpack_programs prometheus prometheus prometheus promtool
  unpack_programs etcd-server etcd etcd
  unpack_programs etcd-client etcd etcdctl
  make_venv "the client tests" scripts/test_requirements.txt "$BATON_VENV"
fi
if [ -n "$full" ]; then
  make_venv lm-eval scripts/lm_eval_requirements.txt "$BATON_LM_EVAL_VENV"
  make_venv aiperf bench/peers/requirements_aiperf.txt "$BATON_AIPERF_VENV"
fi
say "ready"
