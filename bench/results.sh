#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail

usage() {
  cat <<'END'
Usage: bench/results.sh PROGRAM [TOPIC...]

Writes docs/results/TOPIC.md from rows of PROGRAM, which is ballast_bench: all topics, or those
named. A table has a line for each row, with CPU time and all that the row counts. MIN_TIME (0.1)
is how many seconds each row runs.
END
}

# topic | title | rows | what they are
topics() {
  cat <<'END'
planning|Planning a step|^plan/|partition_into in the steady state: costs, sort, policy, rows of samples, bound. `gap` is makespan / bound - 1, `wir` busiest / idlest GPU (0: a GPU has no work), `per_sample` seconds.
makespan|The shortest step|^(refine_steps\|makespan)/|Lognormal lengths up to 16,384 tokens; medians of 20 steps, with the sort. `gap` is makespan / bound - 1.
schedules|Steps that are hard|^schedule/|Nearly equal costs and few samples per bag: how many plans are proven optimal, and how many end above plain swaps.
packing|The fewest bins|^(pack_to_cap\|pack_tokens\|nemo_first_fit\|best_fit_of_a)|Lognormal lengths cut to the capacity, twenty steps; `excess` is the mean number of bins above the bound.
vectors|Encoder and LLM at once|^(plan_vectors\|vectors_in_bags)/|Makespan above the certified bound, beside longest processing time on one number.
counts|Equal counts|^(equal_count\|equal_size_differencing)/|The same number of samples in every bag, beside verl's differencing.
orders|Orders of microbatches|^order/(given\|ascending\|interval\|insertion\|local\|exact)|Ten steps of each family under 1F1B: mean makespan above the optimum or the bound.
grids|Ranks by microbatches|^grid(_many\|_constrained\|_naive\|_baselines\|_trace)?/|Lengths are lognormal with median 1,024, clipped at the cap of 16,384 tokens; `gap` and `worst` are above the bound, mean and largest of the steps, `above_fewest` the share of steps with more microbatches than tokens / (ranks x cap), rounded up, `overruns` cells above the cap. `_naive` rows: `step` and `microbatch` are the mean gap of 100 steps when ranks meet, `_naive` that of forty naive lines, `_above` in how many steps they are better by more than 0.05 %. Baselines and traces: what trainers do. BALLAST_DATA names the folder of traces.
beside|Beside plain searches|^(grid_beside_all\|grid_beside_plain\|pad_kinds\|(limits\|vectors\|counts\|free)_beside_swaps\|movement_beside_all_plans\|refine_literal)/|Steps of fresh seeds, drawn for this table: BALLAST_SEED with the number in the column `seed` repeats one. N1 makes the best move or swap of the latest bag until none helps; N2 goes on with random changes for 20 ms or five times our CPU time (several quantities: for our time). `above` is the share of steps in which our plan ends later, `by_half_percent` by more than that, `worst` by how much.
growth|How planners grow|^growth/|A million samples on 16,384 GPUs, for orders 4,096 microbatches on 64 stages: the time of one step, `MiB` that it took, and `exponent`, by which power the time grew from an eighth of both (0: too short to tell). What is linear in microbatches times stages has 2.
simulation|Simulating a pipeline|^(simulate_into\|makespan_of\|graph_of_boost)/|Tasks per second of the simulator, beside the one over Boost.Graph.
END
}

case "${1-}" in
  "") usage >&2; exit 2 ;;
  -h | --help) usage; exit 0 ;;
esac
program=$(realpath -- "$1")
shift
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."

commit=$(git rev-parse --short=10 HEAD)
[[ -z $(git status --porcelain -- include bench) ]] || commit="$commit with changes"
machine=$(awk -F': *' '/^model name/ {print $2; exit}' /proc/cpuinfo)
cores=$(nproc)
compiler=$(${CXX:-g++} --version | head -n 1)

write() {
  local topic=$1 title=$2 rows=${3//\\|/|} what=$4
  {
    echo "# $title"
    echo
    echo "$what" | fold -s -w 118 | sed 's/ *$//'
    echo
    echo "* Commit: $commit"
    echo "* Machine: ${machine:-unknown}, $cores cores"
    echo "* Compiler: $compiler, \`-O3\`"
    echo "* Command: \`bench/results.sh PROGRAM $topic\`"
    echo
    [[ $topic != beside ]] || export BALLAST_SEED="${BALLAST_SEED-fresh}"
    "$program" --benchmark_filter="$rows" --benchmark_format=json \
      --benchmark_min_time="${MIN_TIME:-0.1}" 2>/dev/null |
      awk -f bench/results.awk
  } >"docs/results/$topic.md.new"
  mv "docs/results/$topic.md.new" "docs/results/$topic.md"
  echo "wrote docs/results/$topic.md"
}

while IFS= read -r line; do
  # Within rows a bar is written \|, so fields end at a bar without a backslash.
  fields=$(sed 's/\\|/\x01/g; s/|/\x02/g; s/\x01/\\|/g' <<<"$line")
  IFS=$'\x02' read -r topic title rows what <<<"$fields"
  if (($# == 0)) || [[ " $* " == *" $topic "* ]]; then write "$topic" "$title" "$rows" "$what"; fi
done < <(topics)
