#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# torch_ranks.sh RANKS PROGRAM...: starts the program as torchrun would, once for each rank. The port lies
# below those that the system gives to others. What was begun ends with a rank that fails.
set -uo pipefail
export WORLD_SIZE=$1 MASTER_ADDR=localhost MASTER_PORT=$((20000 + $$ % 10000))
shift
for ((rank = 0; rank < WORLD_SIZE; ++rank)); do RANK=$rank "$@" & done
for ((rank = 0; rank < WORLD_SIZE; ++rank)); do
  if ! wait -n; then
    mapfile -t left < <(jobs -p)
    ((${#left[@]} == 0)) || kill "${left[@]}" 2>/dev/null
    exit 1
  fi
done
