#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What it costs to compile a call, of the headers alone and with ballast::compiled.
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.."

usage() {
  cat <<'END'
Usage: bench/compile_time/calls.sh [--runs N] [--calls NAMES] [--programs] >docs/results/compile_times.md

Prints the page of compile times: the CPU seconds in which $CXX (g++) compiles a file with one call, of the
headers alone and with ballast::compiled, at -O0 and -O2, and how many times those of a file with a dozen
standard headers that is; medians of N runs (9) that take turns. Then those of the parts of
ballast::compiled, once, at -O3 as a release has them. --calls 'plan grid' measures these of plan, grid,
balancer and runner alone, and no part. --programs adds what else is built: the program
ballast, the C library, the Python wheel, and a CUDA trainer in one file.
END
}

runs=9
only=
programs=false
while (($# > 0)); do
  case "$1" in
    --runs) runs=$2; shift ;;
    --calls) only=$2; shift ;;
    --programs) programs=true ;;
    -h | --help) usage; exit 0 ;;
    *) usage >&2; exit 2 ;;
  esac
  shift
done

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
read -ra options <<<"-std=c++20 -Iinclude ${CXXFLAGS-} $(mpicxx --showme:compile 2>/dev/null || true)"

# cpu_seconds COMMAND...: user and system.
cpu_seconds() {
  local TIMEFORMAT='%U %S'
  { time "$@" >"$work/printed" 2>"$work/errors"; } 2>"$work/times" || { cat "$work/errors" >&2; return 1; }
  awk '{ printf "%.3f\n", $1 + $2 }' "$work/times"
}
compile() { cpu_seconds "${CXX:-g++}" "${options[@]}" -c "$@" -o "$work/out.o"; }
median() { sort -g "$1" | awk '{ v[NR] = $1 } END { printf "%.2f", v[int((NR + 1) / 2)] }'; }

printf '#include <%s>\n' algorithm array chrono functional iostream map memory optional span string thread \
  vector >"$work/standard.cpp"
printf '#include <ballast/ballast.hpp>\n' >"$work/one.cpp"
# What it includes of others, without the name that is there to fail.
"${CXX:-g++}" "${options[@]}" -DBALLAST_COMPILED -MM "$work/one.cpp" | tr -d '\\' | xargs -n 1 |
  grep 'ballast/.*hpp' | xargs grep -h '^#include <' | grep -v 'ballast/\|missing' | sort -u >"$work/others.cpp"
cp examples/first_plan.cpp "$work/plan.cpp"
cat >"$work/grid.cpp" <<'END'
#include <ballast/ballast.hpp>
using namespace ballast;
result<grid_plan> f(std::vector<tokens> const& lengths, bag_layout const& bags, quadratic_cost cost)
{ return partition_grid(lengths, bags, {}, cost, {.most_per_gpu = 16384}); }
END
cat >"$work/balancer.cpp" <<'END'
#include <ballast/ballast.hpp>
#include <ballast/comm/mpi_communicator.hpp>
using namespace ballast;
void f(mpi_communicator& comm, bag_layout const& bags, quadratic_cost cost, std::vector<tokens> const& read)
{
  step_balancer balancer(comm, bags, cost);
  or_throw(balancer.plan(read));
  std::vector<float> x(balancer.rows_read()), x_there(balancer.rows_computed());
  or_throw(balancer.route(rows_of(x, x_there)));
  or_throw(balancer.reverse_route(rows_of(x_there, x)));
}
END
cat >"$work/runner.cpp" <<'END'
#include <ballast/ballast.hpp>
#include <ballast/runtime/pipeline_runner.hpp>
using namespace ballast;
struct stage { double forward(forward_call const& call); void backward(backward_call const& call); };
void f(thread_communicator& comm, pipeline_setup const& setup, pipeline_plan const& plan,
       std::vector<microbatch_id> const& order, stage& own)
{
  auto runner = or_throw(pipeline_runner<>::make(setup, comm.rank()));
  or_throw(runner.plan(plan));
  or_throw(runner.run(comm, order, own));
}
END

files=(plan grid balancer runner)
[[ " ${options[*]} " == *mpi* ]] || files=(plan grid runner)
[[ -z $only ]] || read -ra files <<<"$only"
for ((run = 0; run < runs; ++run)); do
  compile "$work/standard.cpp" >>"$work/standard.seconds"
  compile "$work/others.cpp" >>"$work/others.seconds"
  compile -DBALLAST_COMPILED "$work/one.cpp" >>"$work/one.seconds"
  for file in "${files[@]}"; do
    for level in 0 2; do
      compile -O$level "$work/$file.cpp" >>"$work/$file.headers.$level"
      compile -O$level -DBALLAST_COMPILED "$work/$file.cpp" >>"$work/$file.compiled.$level"
    done
  done
done

standard=$(median "$work/standard.seconds")
cat <<END
# Compile times

Printed by \`bench/compile_time/calls.sh\`: CPU seconds of one file with one call, medians of runs that
take turns (runs: $runs), $("${CXX:-g++}" --version | head -n 1). A file with a dozen standard headers takes $standard; in
brackets, how many times that.

| call | headers alone, -O0 | -O2 | with \`ballast::compiled\`, -O0 | -O2 |
|---|---:|---:|---:|---:|
END
declare -A calls=([plan]="\`partition\`: the first program" [grid]="\`partition_grid\`"
  [balancer]="\`step_balancer\` over MPI" [runner]="\`pipeline_runner\`")
for file in "${files[@]}"; do
  printf '| %s ' "${calls[$file]}"
  for kind in headers compiled; do
    for level in 0 2; do
      median "$work/$file.$kind.$level" | awk -v s="$standard" '{ printf "| %.1f (%.1f) ", $1, $1 / s }'
    done
  done
  echo '|'
done

one=$(median "$work/one.seconds")
others=$(median "$work/others.seconds")
printf '\nWith `ballast::compiled`, `#include <ballast/ballast.hpp>` alone takes %s, and the headers of others that it\n' "$one"
awk -v one="$one" -v others="$others" \
  'BEGIN { printf "includes %s of it: all is %.1f times those.\n", others, one / others }'

if [[ -z $only ]]; then
  printf '\n| part of `ballast::compiled` | seconds at -O3 |\n|---|---:|\n'
  for source in compiled/*.cpp; do
    seconds=$(compile -O3 "$source")
    echo "$seconds" >>"$work/parts"
    printf '| `%s` | %.1f |\n' "$source" "$seconds"
  done
  awk '{ all += $1 } END { printf "| all | %.1f |\n", all }' "$work/parts"
fi

$programs || exit 0
printf '\n| what is built | seconds, with its part of the library |\n|---|---:|\n'
built() { printf '| %s | %.0f |\n' "$1" "$(cpu_seconds bash -c "$2")"; }
built 'the program, by `cmake/setup.sh demo`' \
  "cmake --preset demo -B $work/demo && cmake --build $work/demo --target ballast_cli"
built 'the C library' \
  "cmake --preset release -B $work/release -D BALLAST_ENABLE_CUDA=OFF && cmake --build $work/release --target ballast_c"
built 'the Python wheel' "python3 -m pip wheel --no-deps -w $work/wheel ./examples/python"
if command -v nvcc >/dev/null; then
  built 'a CUDA trainer in one file' \
    "nvcc -std=c++20 -O2 -Iinclude -c examples/train_single_file.cu -o $work/train.o"
fi
