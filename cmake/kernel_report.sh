#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail

usage() {
  cat <<'END'
Usage: cmake/kernel_report.sh [-I<directory> ...]

Compiles every kernel that copies, prepares copies or adds up what was copied (tests/cuda/kernels.cu)
for compute capabilities 8.0, 9.0 and 10.0 and prints what each one takes, as a Markdown table. No GPU
is needed; nvcc, readelf and od are.
NVCC names another compiler. Arguments go to it, such as the directory of tl/expected.hpp.

Fails if a kernel spills registers, or if one that copies has no load or no store of 16 bytes in its
PTX or in its machine code. There each instruction has 16 bytes: its lowest 12 bits are 0x981 for a
load from global memory and 0x986 for a store, bits 73 to 75 are 6 if it has 16 bytes (seen in
kernels of accesses of known widths, alike on all three).
END
}

case "${1-}" in
  -h | --help) usage; exit 0 ;;
esac

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=$(mktemp -d)
trap 'rm -rf "$build"' EXIT

# kernel, registers, bytes spilled, bytes of shared memory
resources() {
  awk '
    /Compiling entry function/ { match($0, /\047[^\047]*\047/); kernel = substr($0, RSTART + 1, RLENGTH - 2) }
    / spill stores/ { spilled = $5 + $9 }
    /Used [0-9]+ registers/ {
      match($0, /Used [0-9]+/); registers = substr($0, RSTART + 5, RLENGTH - 5)
      shared = 0
      if (match($0, /[0-9]+ bytes smem/)) { shared = substr($0, RSTART, RLENGTH) + 0 }
      print kernel, registers, spilled, shared
    }' "$1"
}

# kernel, loads and stores of 16 bytes in its PTX
wide_ptx() {
  awk '
    /\.entry / { match($0, /\.entry [A-Za-z0-9_$]+/); kernel = substr($0, RSTART + 7, RLENGTH - 7); loads[kernel] += 0 }
    /ld\.global[a-z.]*\.(v4\.[bfu]32|v2\.[bfu]64)/ { ++loads[kernel] }
    /st\.global[a-z.]*\.(v4\.[bfu]32|v2\.[bfu]64)/ { ++stores[kernel] }
    END { for (kernel in loads) { print kernel, loads[kernel], stores[kernel] + 0 } }' "$1"
}

# kernel, loads and stores of 16 bytes in its machine code
wide_code() {
  readelf -SW "$1" 2>/dev/null | sed 's/^ *\[ *[0-9]*\]//' | awk '$1 ~ /^\.text\./ { print $1, $4, $5 }' |
    while read -r section offset size; do
      od -An -v -t x4 -w16 -j $((16#$offset)) -N $((16#$size)) "$1" |
        awk -v kernel="${section#.text.}" '
          substr($3, 6, 1) ~ /[cd]/ && substr($1, 6, 3) == "981" { ++loads }
          substr($3, 6, 1) ~ /[cd]/ && substr($1, 6, 3) == "986" { ++stores }
          END { print kernel, loads + 0, stores + 0 }'
    done
}

failed=0
echo '| kernel | capability | registers | shared memory | 16-byte loads, stores: PTX | machine code |'
echo '|---|---|---|---|---|---|'
for capability in 80 90 100; do
  cd "$build"
  "${NVCC:-nvcc}" -std=c++20 -arch=sm_$capability -I"$root/include" "$@" -cubin -keep -Xptxas -v \
    -o kernels.cubin "$root/tests/cuda/kernels.cu" >log 2>&1 || { cat log >&2; exit 1; }
  join <(resources log | sort) <(wide_ptx kernels.ptx | sort) | join - <(wide_code kernels.cubin | sort) >rows
  while read -r kernel registers spilled shared ptx_loads ptx_stores loads stores; do
    name=$(c++filt -p "$kernel" | sed 's/ballast::v0:://g; s/detail:://g; s/(anonymous namespace):://g')
    case "$kernel" in
      _ZN7ballast*) ;;
      *) continue ;;  # those of CUB
    esac
    echo "| \`$name\` | $capability | $registers | $shared | $ptx_loads, $ptx_stores | $loads, $stores |"
    if ((spilled > 0)); then
      echo "$name spills $spilled bytes for compute capability $capability" >&2
      failed=1
    fi
    case "$name" in
      make_copies*)
        if ((ptx_loads == 0 || ptx_stores == 0 || loads == 0 || stores == 0)); then
          echo "$name has no access of 16 bytes for compute capability $capability" >&2
          failed=1
        fi ;;
    esac
  done <rows
  grep -q 'make_copies' rows || { echo 'no kernel that copies was found' >&2; failed=1; }
done
exit $failed
