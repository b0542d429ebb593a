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

--budget fails where ballast/ballast.hpp with BALLAST_COMPILED is more than 60,000 lines once it is
preprocessed (those of code: no line markers, none that is empty), or takes more than 2.5 times the seconds
of its standard headers. Of 9 runs that take turns each is compared with its neighbour, and the median
counts: what else a machine does slows both.
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
  echo "#include <$1>" >"$work/header.cpp"
  # tl_expected_is_missing stands where tl/expected.hpp is absent: the error then says what to install.
  "${CXX:-g++}" "${options[@]}" -M "$work/header.cpp" | tr -s ' \\' '\n\n' | grep '^include/ballast/' \
    | xargs sed -n 's/^\(#include <[^>]*>\).*/\1/p' | grep -v 'ballast/\|tl_expected_is_missing' | sort -u
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
    options+=(-DBALLAST_COMPILED)
    take_turns ballast/ballast.hpp 9 >"$work/turns"
    lines=$("${CXX:-g++}" "${options[@]}" -E -P "$work/header.cpp" | grep -c '[^ ]')
    echo "ballast/ballast.hpp with BALLAST_COMPILED: $lines lines, of at most 60000;" \
      "$(median 3) times the seconds of its standard headers, of at most 2.5"
    if ((lines > 60000)) || awk -v ratio="$(median 3)" 'BEGIN { exit !(ratio > 2.5) }'; then
      cat "$work/turns"
      echo "The main path has become dearer to include: CXXFLAGS=-DBALLAST_COMPILED $0 --doors says what" \
        "its parts cost." >&2
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
