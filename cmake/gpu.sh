#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
set -uo pipefail

usage() {
  cat <<'END'
Usage: cmake/gpu.sh [build | run [--logs <folder>] [<step>...]]

  build   compiles the GPU tests, the GPU benchmarks and the single-file trainer for compute
          capabilities 8.0, 9.0 and 10.0 into build/gpu/bin. No GPU is needed.
  run     runs what is in build/gpu/bin on this machine's GPU, step by step:
            tests                                         against the host's results
            memcheck, racecheck, initcheck, synccheck     the tests under compute-sanitizer
            bench                                         the benchmarks
            trainer                                       balanced against unbalanced steps
          or the steps that are named. Each has a limit of time; logs go to build/gpu/log.

Without an argument it does both. The programs hold all they need but the driver and, for what calls
NCCL or cuBLAS, libnccl.so.2 and libcublas.so.13: build/gpu/bin and this script can be taken to a
machine that has nothing else.

The status of `run` is 0 where every step passed, 77 where there is no GPU, else 1. A step whose
tool, library or program is missing is skipped, with the reason, and fails nothing.
END
}

cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." || exit 1
bin=build/gpu/bin
log=build/gpu/log

build() {
  cmake --preset gpu && cmake --build --preset gpu || return
  [[ -x $bin/gpu ]] || { echo "gpu.sh: $bin/gpu was not built: the tests need nvcc" >&2; return 1; }
}

# ---- Steps: a name, a limit in seconds, a program ------------------------------------------------

names=() states=() seconds=() details=()
passed=0 failed=0

record() {  # name, state, seconds, detail
  names+=("$1") states+=("$2") seconds+=("$3") details+=("$4")
  case "$2" in
    passed) passed=$((passed + 1)) ;;
    failed) failed=$((failed + 1)) ;;
  esac
}

step() {  # name, limit, command...
  local name=$1 limit=$2 status start=$SECONDS
  shift 2
  echo "---- $name"
  timeout --kill-after=10 "$limit" "$@" >"$log/$name.log" 2>&1
  status=$?
  case $name in
    bench_* | trainer*) cat "$log/$name.log" ;;
    *) ((status == 0)) || tail -n 40 "$log/$name.log" ;;
  esac
  case $status in
    0) record "$name" passed $((SECONDS - start)) "$(summary "$name")" ;;
    77)
      if grep -q 'libcublas' "$log/$name.log"; then
        record "$name" skipped $((SECONDS - start)) "$(grep -m 1 'libcublas' "$log/$name.log")"
      else
        record "$name" failed $((SECONDS - start)) "$(grep -m 1 'no CUDA device' "$log/$name.log")"
      fi
      ;;
    124 | 137) record "$name" failed $((SECONDS - start)) "took longer than $limit s" ;;
    *) record "$name" failed $((SECONDS - start)) "status $status, see $log/$name.log" ;;
  esac
}

# The lines that count something.
summary() {
  grep -E 'PASSED|ERROR SUMMARY|RACECHECK SUMMARY' "$log/$1.log" | tail -n 2 |
    sed -E 's/^=+ *//' | paste -s -d ';'
}

test_program() {  # name of the step, limit, program, runner before the program...
  local name=$1 limit=$2 program=$3
  shift 3
  if [[ ! -x $bin/$program ]]; then
    record "$name" skipped 0 "$bin/$program was not built"
  elif ldd "$bin/$program" | grep -q 'not found'; then
    record "$name" skipped 0 "$(ldd "$bin/$program" | awk '/not found/ { print $1 " was not found"; exit }')"
  else
    step "$name" "$limit" "$@" "$bin/$program" --gtest_brief=1
  fi
}

sanitize() {  # tool
  local filter
  if [[ -z $sanitizer ]]; then
    record "$1" skipped 0 'compute-sanitizer was not found'
    return
  fi
  # The children of death tests end badly as they should.
  local arguments=(--tool "$1" --target-processes application-only --error-exitcode 1 --print-limit 20)
  [[ $1 == memcheck ]] && arguments+=(--leak-check full)
  [[ $1 == racecheck ]] && arguments+=(--racecheck-report all)
  # Several ranks on one GPU are for memcheck alone: racecheck loses track of the kernels that several
  # threads launch, and initcheck does not see what cudaMemcpyBatchAsync writes.
  filter='*'
  [[ $1 == memcheck ]] || filter=-CopyEngineOnGpu.*:ExchangeHeads.*:OverlapOnGpu.*:RouteOnDevice.*
  GTEST_FILTER=$filter test_program "$1" 300 gpu "$sanitizer" "${arguments[@]}"
}

bench() {
  local program any=
  for program in "$bin"/gpu_*_bench; do
    [[ -x $program ]] || continue
    any=1
    program=${program##*/gpu_}
    step "bench_${program%_bench}" 120 "$bin/gpu_$program"
  done
  [[ -n $any ]] || record bench skipped 0 'no benchmark was built'
}

trainer() {
  if [[ -x $bin/train_single_file ]]; then
    step trainer 120 "$bin/train_single_file"
    step trainer_bags 120 "$bin/train_single_file" --bags g2n2 --recompute
    step trainer_adaptive 120 "$bin/train_single_file" --adaptive --bags g2n2 --recompute
  else
    record trainer skipped 0 "$bin/train_single_file was not built"
  fi
}

# ---- All of it -----------------------------------------------------------------------------------

# Python's packages bring NCCL and cuBLAS to machines that do not have them otherwise.
find_library() {  # name
  local folder
  folder=$(python3 -c 'import glob, os, sys
for path in sys.path:
    for found in glob.glob(os.path.join(path, "nvidia", "*", "lib", sys.argv[1])):
        print(os.path.dirname(found))
        sys.exit()' "$1" 2>/dev/null)
  [[ -z $folder ]] || export LD_LIBRARY_PATH="${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$folder"
}

find_sanitizer() {
  local each
  for each in "$(command -v compute-sanitizer)" /usr/local/cuda/bin/compute-sanitizer \
    /usr/local/cuda/compute-sanitizer/compute-sanitizer; do
    if [[ -n $each && -x $each ]]; then
      sanitizer=$each
      return
    fi
  done
  sanitizer=
}

run() {
  local devices each
  if [[ ${1-} == --logs ]]; then
    log=${2:?"--logs needs a folder"}
    shift 2
  fi
  (($# > 0)) || set -- tests memcheck racecheck initcheck synccheck bench trainer
  if ! devices=$(nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader 2>/dev/null) ||
    [[ -z $devices ]]; then
    echo 'gpu.sh: there is no GPU here (nvidia-smi names none)'
    return 77
  fi
  if [[ ! -x $bin/gpu ]]; then
    echo "gpu.sh: $bin/gpu is missing: run cmake/gpu.sh build where the compilers are" >&2
    return 1
  fi
  for each in "$@"; do
    case $each in
      tests | memcheck | racecheck | initcheck | synccheck | bench | trainer) ;;
      *) echo "gpu.sh: there is no step $each" >&2; return 2 ;;
    esac
  done
  mkdir -p "$log" || return 1
  find_library libnccl.so.2
  find_library libcublas.so.13
  find_sanitizer
  for each in "$@"; do
    case $each in
      tests) test_program tests 300 gpu; test_program tests_nccl 120 gpu_nccl
        test_program tests_cublas 120 gpu_cublas
        test_program tests_processes 120 gpu_processes ;;
      memcheck | racecheck | initcheck | synccheck) sanitize "$each" ;;
      *) "$each" ;;
    esac
  done

  echo
  echo "$devices"
  printf '| %-13s | %-7s | %6s | %s\n' step state time ''
  for each in "${!names[@]}"; do
    printf '| %-13s | %-7s | %4d s | %s\n' \
      "${names[each]}" "${states[each]}" "${seconds[each]}" "${details[each]}"
  done
  echo "$passed passed, $failed failed, $((${#names[@]} - passed - failed)) skipped in $SECONDS s"
  ((failed == 0 && passed > 0))
}

case "${1-}" in
  '') build && run ;;
  build) build ;;
  run) shift; run "$@" ;;
  -h | --help) usage ;;
  *) usage >&2; exit 2 ;;
esac
