#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail

usage() {
  cat <<'END'
Usage: cmake/setup.sh demo|test|check|docs

  demo   build the program `ballast` and plan a demonstration batch with it
         (and the lengths of BALLAST_TRACE=<file.csv> under BALLAST_LENGTH=<expression>)
  test   build and run what tells whether ballast works here: units of the library, README's programs,
         and calls of the program `ballast`, from C and over MPI
  check  build and run what a change has to pass as well: the command line, pages, papers, MPI, stand-ins
         for CUDA and NCCL, sanitizers, fuzzers, consumers, Python, LibTorch, benchmarks, style
  docs   build a site of the pages and of every public name: build/docs/html/index.html

On Debian 12 what is missing is installed first with apt-get, as root or through sudo. Elsewhere
install what the message lists. Results go to build/demo, build/test and build/check.
END
}

demo_packages=(g++ cmake ninja-build libexpected-dev libcli11-dev nlohmann-json3-dev libfmt-dev
  libarchive-dev)
test_packages=("${demo_packages[@]}" libgtest-dev libgmock-dev librapidcheck-dev librange-v3-dev
  libboost-dev libopenmpi-dev openmpi-bin)
check_packages=("${test_packages[@]}" make pkgconf coinor-libcbc-dev libjpeg-dev chromium
  fonts-dejavu-core clang-19 libclang-rt-19-dev clang-format-19
  clang-tidy-19 libc++-19-dev libc++abi-19-dev libbenchmark-dev libtorch-dev libgloo-dev doxygen
  python3 python3-numpy python3-pip python3-venv python3-torch mypy)

case "${1-}" in
  demo) packages=("${demo_packages[@]}") ;;
  test) packages=("${test_packages[@]}") ;;
  check) packages=("${check_packages[@]}") ;;
  docs) packages=(doxygen) ;;
  -h | --help) usage; exit 0 ;;
  *) usage >&2; exit 2 ;;
esac
preset=$1

missing=()
if command -v dpkg-query >/dev/null && command -v apt-get >/dev/null; then
  for package in "${packages[@]}"; do
    status=$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null || true)
    [[ $status == installed ]] || missing+=("$package")
  done
  if ((${#missing[@]} > 0)); then
    as_root=()
    if ((EUID != 0)); then
      if ! command -v sudo >/dev/null; then
        echo "setup: run this once as root, or install these packages: ${missing[*]}" >&2
        exit 1
      fi
      as_root=(sudo)
    fi
    echo "setup: installing ${missing[*]}"
    apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -y)
    "${apt[@]}" update
    "${apt[@]}" install --no-install-recommends "${missing[@]}"
  fi
else
  echo "setup: this is no Debian system; what Debian 12 calls ${packages[*]} must be installed" >&2
  tools=(g++ cmake ninja)
  [[ $preset != docs ]] || tools=(doxygen)
  for tool in "${tools[@]}"; do
    if ! command -v "$tool" >/dev/null; then
      echo "setup: $tool is not among the programs found, so nothing can be built" >&2
      exit 1
    fi
  done
fi

if [[ -n ${BALLAST_TRACE-} ]]; then
  export BALLAST_TRACE
  BALLAST_TRACE=$(realpath -- "$BALLAST_TRACE")  # it is relative to where the caller stands
fi
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."
[[ $preset != docs ]] || exec cmake/docs/build.sh build/docs
[[ $preset != demo ]] || echo "setup: compiling the program, about three minutes of one core; [done/all] counts files"
exec cmake --workflow --preset "$preset"
