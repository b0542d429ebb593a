# SPDX-License-Identifier: Apache-2.0
"""A schedule for torchtitan's pipeline_parallel_schedule_csv or NeMo Automodel's pp_schedule_csv:

    write_schedule("schedule.csv", [310, 300, 300, 420], microbatches=16)

The number of microbatches has to be that of the training, and the stages of a rank those of its
schedule's name. Both cut a batch into equal microbatches in their order, so none is ordered here."""
from __future__ import annotations

from typing import Any, Optional, Sequence

import ballast


def write_schedule(path: str, forward: Sequence[int], inputs: Optional[Sequence[int]] = None,
                   weights: Optional[Sequence[int]] = None, *, microbatches: int,
                   schedule: str = "planned", **options: Any) -> Any:
    """Writes cells such as 0F1, a line a rank, and returns the plan.

    forward, inputs, weights
             [stages] what a stage takes for a forward, for the gradients of its inputs and for those of
             its weights, in whole units of time; None: as long as the forward
    options  of ballast.order, such as most_held
    """
    rows = [list(forward)] * microbatches
    order = ballast.order(rows, [list(inputs or forward)] * microbatches,
                          weights=[list(weights or forward)] * microbatches,
                          schedule=schedule, policy="given", **options)
    with open(path, "w", encoding="utf-8") as file:
        file.write(order.csv)
    return order
