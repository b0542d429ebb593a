# SPDX-License-Identifier: Apache-2.0
"""Packs of Megatron Energon's buffer over ballast. Put the class before a task encoder's:

    class Encoder(PackedByBallast, DefaultTaskEncoder):
        most_per_gpu = 8192
        def tokens_of(self, sample): return len(sample.tokens)

and give packing_buffer_size to the loader. With `pushback`, packs that are less full wait in the
buffer for samples that come later, where Energon knows PackedSamplesOutput."""
from __future__ import annotations

from typing import Any, Mapping, Sequence

import ballast

try:
    from megatron.energon import PackedSamplesOutput
except ImportError:  # of a version that keeps no samples back
    PackedSamplesOutput = None


class PackedByBallast:
    most_per_gpu = 8192
    samples = None  # of a pack, such as ballast.counts.at_most(16)
    full = 1.0  # with less than this of most_per_gpu, a pack is pushed back
    pushback = PackedSamplesOutput is not None

    def tokens_of(self, sample: Any) -> int:
        return len(sample.tokens)

    def more_limits(self, samples: Sequence[Any]) -> Sequence[Mapping[str, Any]]:
        """Such as [{"of": [len(sample.images) for sample in samples], "most_per_gpu": 18}]."""
        return ()

    def select_samples_to_pack(self, samples: Sequence[Any]) -> Any:
        """Lists of samples, as few as are found. A longer one has a pack of its own."""
        tokens = [min(self.tokens_of(sample), self.most_per_gpu) for sample in samples]
        packing = ballast.pack(tokens, self.most_per_gpu, samples=self.samples,
                               also=self.more_limits(samples))
        bins = [own.tolist() for own in packing]
        if not self.pushback:
            return [[samples[at] for at in own] for own in bins]
        loads = packing.loads.tolist()
        most = max(loads, default=0)  # the fullest is given out, so that the buffer moves on
        least = min(most, self.full * self.most_per_gpu)
        kept = [own for own, load in zip(bins, loads) if load >= least]
        back = sorted(at for own, load in zip(bins, loads) if load < least for at in own)
        return PackedSamplesOutput(packs=[[samples[at] for at in own] for own in kept],
                                   pushback=[samples[at] for at in back])
