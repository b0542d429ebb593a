#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail

usage() {
  cat <<'END'
Usage: cmake/coverage.sh [-v] [-b FOLDER] [PROGRAM ...]

Builds the tests of both tiers with g++ --coverage -O0, runs them, and prints which share of the lines of
include/ that g++ compiles to code was run: by floor, and in all. A line of a template is run if one of its
instances runs it. PROGRAM, such as unit_plan::cost, builds and runs these programs alone.

  -v         also print each line that was not run
  -b FOLDER  where to build (build/coverage); what is there is built no second time

Of all tests together at least 99.3 % are to be run, or the script returns 1. It needs gcov, which comes
with g++, and python3; it takes an hour on two cores. Properties try a quarter of their cases. Examples
are left out, and what only clang or nvcc reads.
END
}

verbose=0
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=$root/build/coverage
while (($# > 0)); do
  case "$1" in
    -v) verbose=1 ;;
    -b) build=$(realpath -m -- "${2?-b wants a folder}"); shift ;;
    -h | --help) usage; exit 0 ;;
    -*) usage >&2; exit 2 ;;
    *) break ;;
  esac
  shift
done

# Processes that a test forks, and those of death tests, end without a word to gcov: they write their
# counts first.
mkdir -p "$build"
ends=$build/ends.o
"${CXX:-g++}" -x c -c -o "$ends" - <<'END'
void __gcov_dump(void);
_Noreturn void __real_abort(void);
_Noreturn void __real__exit(int);
_Noreturn void __real__Exit(int);
_Noreturn void __wrap_abort(void) { __gcov_dump(); __real_abort(); }
_Noreturn void __wrap__exit(int status) { __gcov_dump(); __real__exit(status); }
_Noreturn void __wrap__Exit(int status) { __gcov_dump(); __real__Exit(status); }
END

cmake -S "$root" -B "$build" -G Ninja -D CMAKE_BUILD_TYPE= -D CMAKE_CXX_COMPILER="${CXX:-g++}" \
  -D CMAKE_CXX_FLAGS="--coverage -O0 --param=ggc-min-heapsize=700000" \
  -D CMAKE_EXE_LINKER_FLAGS="--coverage -Wl,--wrap=abort,--wrap=_exit,--wrap=_Exit $ends" \
  -D CMAKE_UNITY_BUILD=ON -D CMAKE_UNITY_BUILD_BATCH_SIZE=72 \
  -D CMAKE_DISABLE_FIND_PACKAGE_Torch=ON -D BALLAST_ENABLE_CUDA=OFF \
  -D BALLAST_BUILD_EXAMPLES=OFF -D BALLAST_BUILD_CLI=AUTO -D BALLAST_BUILD_BENCHMARKS=OFF \
  -D BALLAST_PROPERTY_CASES=50 -D "BALLAST_PROGRAMS_WITHOUT=^unit_structure$" >/dev/null
cmake --build "$build" ${1+--target "$@"}
find "$build" -name '*.gcda' -delete
which=${*:+^($(IFS='|'; echo "$*"))\$}
(cd "$build" && ctest -j 2 -R "${which:-.}" --timeout 3600 --output-on-failure) ||
  echo "Some tests failed; what they ran is counted" >&2

# gcov prints each line once for all instances of a template, and then once for each.
find "$build" -name '*.gcda' -print0 | sort -z | while IFS= read -r -d '' counts; do
  (cd "$(dirname "$counts")" && gcov --stdout --relative-only --source-prefix "$root/include" "$counts") 2>/dev/null
done | python3 -c '
import collections, sys

verbose, least = sys.argv[1] == "1", float(sys.argv[2])
compiled = collections.defaultdict(dict)  # of a header: whether a line was run, and its text
header = None
for row in sys.stdin:
    count, _, rest = row.partition(":")
    line, _, text = rest.partition(":")
    if not line.strip().isdigit():
        continue
    if line.strip() == "0":
        if text.startswith("Source:"):
            header = text[len("Source:"):].strip()
        continue
    count = count.strip().rstrip("*")
    if count == "-" or not header.startswith("ballast/"):
        continue
    was_run, _ = compiled[header].get(int(line), (False, ""))
    compiled[header][int(line)] = (was_run or count not in ("#####", "====="), text.rstrip())

floors = collections.defaultdict(lambda: [0, 0])
for header, lines in sorted(compiled.items()):
    floor = header.split("/")[1] if header.count("/") > 1 else "umbrellas"
    for line, (was_run, text) in sorted(lines.items()):
        floors[floor][0] += was_run
        floors[floor][1] += 1
        if verbose and not was_run:
            print(f"{header}:{line}:{text}")
run = sum(each[0] for each in floors.values())
of = sum(each[1] for each in floors.values())
print(f"{'"'floor':12} {'run':>7} {'of':>7} {'share'"':>8}")
for floor, (a, b) in [*sorted(floors.items()), ("in all", (run, of))]:
    print(f"{floor:12} {a:7} {b:7} {100 * a / b if b else 0:6.2f} %")
sys.exit(100 * run < least * of)
' "$verbose" "$( (($# > 0)) && echo 0 || echo 99.3)"
