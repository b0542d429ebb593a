#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What it costs to include a header, as a ratio to the standard headers that it stands on.
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.."

usage() {
  cat <<'END'
Usage: bench/compile_time/includes.sh [--doors] [--runs N] [HEADER...]
       bench/compile_time/includes.sh --count|--record

Prints for each header (ballast/partition.hpp, ...; without any, the umbrellas, and with --doors every
header that is no internal one and needs no other library) the user time in which $CXX (g++) reads it,
that of the standard headers which it and the headers behind it name, and the ratio: medians of N runs
(5) that take turns.

--count compares how many templates $CLANGXX (clang++-19) instantiates for each umbrella with
bench/compile_time/instantiations.txt, and fails where one is more than 2 % above; --record writes
that file.
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
    --count | --record) mode=${1#--} ;;
    -h | --help) usage; exit 0 ;;
    -*) usage >&2; exit 2 ;;
    *) headers+=("$1") ;;
  esac
  shift
done

# by_name/ has none: who chooses policies by name includes one of its parsers.
umbrellas() { (cd include && ls ballast/*.hpp ballast/by_name/parse_*.hpp) | grep -v version; }
if ((${#headers[@]} == 0)); then
  mapfile -t headers < <(umbrellas)
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

median() { sort -n | sed -n "$(((runs + 1) / 2))p"; }

instantiations() {
  echo "#include <$1>" >"$work/count.cpp"
  "${CLANGXX:-clang++-19}" "${options[@]}" -ftime-trace="$work/count.json" \
    -ftime-trace-granularity=0 -c "$work/count.cpp" -o "$work/count.o"
  grep -oE '"name":"Instantiate(Class|Function)"' "$work/count.json" | wc -l
}

record=bench/compile_time/instantiations.txt
case $mode in
  record)
    for header in $(umbrellas); do echo "$header $(instantiations "$header")"; done >"$work/record"
    cp "$work/record" $record
    ;;
  count)
    worse=0
    for header in $(umbrellas); do
      known=$(sed -n "s|^$header ||p" $record)
      now=$(instantiations "$header")
      echo "$header: $now templates instantiated, ${known:-none} recorded"
      if [[ -z $known ]] || ((now * 100 > known * 102)); then worse=1; fi
    done
    if ((worse)); then
      echo "An include has become dearer: include less, or record it with $0 --record." >&2
      exit 1
    fi
    ;;
  time)
    printf '| header | seconds | standard headers | ratio |\n|---|---|---|---|\n'
    for header in "${headers[@]}"; do
      echo "#include <$header>" >"$work/header.cpp"
      stands_on "$header" >"$work/standard.cpp"
      : >"$work/of_header"
      : >"$work/of_standard"
      for ((run = 0; run < runs; ++run)); do
        user_seconds "$work/header.cpp" >>"$work/of_header"
        user_seconds "$work/standard.cpp" >>"$work/of_standard"
      done
      printf '%s %s\n' "$(median <"$work/of_header")" "$(median <"$work/of_standard")" |
        awk -v name="$header" '{ printf "| `%s` | %.2f | %.2f | %.1f |\n", name, $1, $2, $1 / $2 }'
    done
    ;;
esac
