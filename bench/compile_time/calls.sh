#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What it costs to compile a call, of the headers alone and with ballast::compiled.
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.."

usage() {
  cat <<'END'
Usage: bench/compile_time/calls.sh [--runs N]

Prints for each call the user time in which $CXX (g++) compiles, at -O3, a file with its includes alone,
with a function that makes the call, and the same where BALLAST_COMPILED is defined: medians of N runs
(3) that take turns. Then the time of the sources of ballast::compiled.
END
}

runs=3
case "${1-}" in
  --runs) runs=$2 ;;
  "") ;;
  *) usage >&2; exit 2 ;;
esac

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
read -ra options <<<"-std=c++20 -O3 -Iinclude ${CXXFLAGS-}"

user_seconds() {
  local TIMEFORMAT=%3U
  { time "${CXX:-g++}" "${options[@]}" -c "$@" -o "$work/out.o" >&3 2>&4; } 3>&1 4>"$work/errors" 2>&1 \
    || { cat "$work/errors" >&2; return 1; }
}

median() { sort -g "$1" | awk '{ v[NR] = $1 } END { printf "%.1f", v[int((NR + 1) / 2)] }'; }

# call(name includes function): a row.
call() {
  printf '%s\n' "$2" >"$work/includes.cpp"
  printf '%s\nusing namespace ballast;\n%s\n' "$2" "$3" >"$work/call.cpp"
  rm -f "$work"/*.times
  for ((run = 0; run < runs; ++run)); do
    user_seconds "$work/includes.cpp" >>"$work/includes.times"
    user_seconds "$work/call.cpp" >>"$work/headers.times"
    user_seconds -DBALLAST_COMPILED "$work/call.cpp" >>"$work/compiled.times"
  done
  printf '| `%s` | %s | %s | %s |\n' "$1" "$(median "$work/includes.times")" \
    "$(median "$work/headers.times")" "$(median "$work/compiled.times")"
}

printf '| call | includes alone | with the call | with `ballast::compiled` |\n|---|---:|---:|---:|\n'
planning='#include <ballast/cost/quadratic_cost.hpp>
#include <ballast/partition/partition.hpp>
#include <vector>'
call "partition(lengths, bags, cost)" "$planning" \
  'result<partition_plan> f(std::vector<tokens> const& lengths, bag_layout const& bags, quadratic_cost cost)
{ return ballast::partition(lengths, bags, cost); }'
call "order_microbatches(schedule, times, local_search{})" '#include <ballast/pipeline/local_search.hpp>
#include <ballast/pipeline/order_microbatches.hpp>' \
  'result<order_plan> f(compiled_schedule const& schedule, pipeline_times const& times)
{ return order_microbatches(schedule, times, local_search{}); }'
call "step_balancer with refine: plan" "$planning
#include <ballast/comm/thread_communicator.hpp>
#include <ballast/partition/refine.hpp>
#include <ballast/runtime/step_balancer.hpp>" \
  'result<void> f(thread_communicator& comm, bag_layout const& bags, quadratic_cost cost, std::vector<tokens> const& read)
{ step_balancer balancer(comm, bags, cost, refine{}); return balancer.plan(read); }'
call "partition_grid(lengths, bags, {}, cost, limits)" '#include <ballast/cost/quadratic_cost.hpp>
#include <ballast/partition/grid/partition_grid.hpp>
#include <vector>' \
  'result<grid_plan> f(std::vector<tokens> const& lengths, bag_layout const& bags, quadratic_cost cost)
{ return partition_grid(lengths, bags, {}, cost, {.most_per_gpu = 8192}); }'
call "pack(lengths, limits)" '#include <ballast/partition/packing/pack.hpp>
#include <vector>' \
  'result<packing_plan> f(std::vector<tokens> const& lengths)
{ return pack(lengths, {.most_per_gpu = 8192}); }'
call "search_layouts(problem, batches)" '#include <ballast/parallelism/search_layouts.hpp>' \
  'result<layout_ranking> f(layout_problem const& problem, std::vector<tokens> const& batches)
{ return search_layouts(problem, batches); }'
echo
for source in compiled/*.cpp; do echo "$source: $(user_seconds -DBALLAST_COMPILES "$source") s"; done
