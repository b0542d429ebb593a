#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What it costs to include a header, as a ratio to the standard headers that it stands on.
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.."

usage() {
  cat <<'END'
Usage: bench/compile_time/includes.sh [--doors] [--runs N] [HEADER...]
       bench/compile_time/includes.sh --budget

Prints for each header (ballast/partition.hpp, ...; without any, the umbrellas, and with --doors every
header that is no internal one and needs no other library) the user time in which $CXX (g++) reads it,
that of the standard headers which it and the headers behind it name, and the ratio: medians of N runs
(5) that take turns.

--budget fails where ballast/ballast.hpp takes more than 6 times the seconds of its standard headers: one
tree takes 4.8 to 5.5 times by run, and what else a machine does slows both. Of 9 runs that take turns
each is compared with its neighbour, and the median counts.
END
}

runs=5
mode=time
doors=false
headers=()
while (($# > 0)); do
  case "$1" in
    --doors) doors=true ;;
    --runs) runs=$2; shift ;;
    --budget) mode=budget ;;
    -h | --help) usage; exit 0 ;;
    -*) usage >&2; exit 2 ;;
    *) headers+=("$1") ;;
  esac
  shift
done

if ((${#headers[@]} == 0)); then
  mapfile -t headers < <(cd include && ls ballast/*.hpp | grep -v version)
  if $doors; then
    # What needs another library does not compile without its options.
    mapfile -t -O "${#headers[@]}" headers < <(cd include && find ballast -mindepth 2 -name '*.hpp' \
      -not -path '*/detail/*' -not -path '*/gpu/*' -not -path '*/cuda/*' -not -path '*/interop/*' \
      -not -name 'mpi_*' | sort)
  fi
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
read -ra options <<<"-std=c++20 -Iinclude ${CXXFLAGS-}"

# The standard headers, and tl/expected.hpp, that a header and those behind it name.
stands_on() {
  local -A seen=()
  local -a left=("$1")
  local name inner
  while ((${#left[@]} > 0)); do
    name=${left[-1]}
    unset 'left[-1]'
    [[ -z ${seen[$name]-} ]] || continue
    seen[$name]=1
    # core/result.hpp asks for it where tl/expected.hpp is absent: the error then says what to install.
    [[ $name != tl_expected_is_missing ]] || continue
    if [[ $name != ballast/* ]]; then
      echo "#include <$name>"
      continue
    fi
    while read -r inner; do left+=("$inner"); done \
      < <(sed -n 's/^#include <\([^>]*\)>.*/\1/p' "include/$name")
  done | sort
}

user_seconds() {
  local TIMEFORMAT=%3U
  { time "${CXX:-g++}" "${options[@]}" -fsyntax-only -x c++ "$1" >&3 2>&4; } 3>&1 4>"$work/errors" \
    2>&1 || { cat "$work/errors" >&2; return 1; }
}

# take_turns HEADER RUNS: a line for each run: seconds of the header, those of its standard headers, and
# the ratio.
take_turns() {
  echo "#include <$1>" >"$work/header.cpp"
  stands_on "$1" >"$work/standard.cpp"
  local ours theirs
  for ((run = 0; run < $2; ++run)); do
    ours=$(user_seconds "$work/header.cpp")
    theirs=$(user_seconds "$work/standard.cpp")
    echo "$ours $theirs"
  done | awk '{ print $1, $2, $1 / $2 }'
}

# The median of a column of what take_turns printed.
median() { sort -g -k "$1,$1" "$work/turns" | awk -v c="$1" '{ v[NR] = $c } END { print v[int((NR + 1) / 2)] }'; }

case $mode in
  budget)
    take_turns ballast/ballast.hpp 9 >"$work/turns"
    echo "ballast/ballast.hpp: $(median 3) times its standard headers, and may take 6 times as long"
    if awk -v ratio="$(median 3)" 'BEGIN { exit !(ratio > 6) }'; then
      cat "$work/turns"
      echo "The main path has become dearer to include: $0 --runs 9 HEADER says what its parts cost." >&2
      exit 1
    fi
    ;;
  time)
    printf '| header | seconds | standard headers | ratio |\n|---|---|---|---|\n'
    for header in "${headers[@]}"; do
      take_turns "$header" "$runs" >"$work/turns"
      printf '| `%s` | %.2f | %.2f | %.1f |\n' "$header" "$(median 1)" "$(median 2)" "$(median 3)"
    done
    ;;
esac
