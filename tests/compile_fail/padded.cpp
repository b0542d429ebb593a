// SPDX-License-Identifier: Apache-2.0
// Policies that pad, within one that moves samples between bags.
#include <ballast/partition/concepts.hpp>
#include <ballast/partition/padded_batches.hpp>
#include <ballast/partition/refine.hpp>
#include <ballast/partition/round_robin.hpp>

#if defined(BY_REFINE)
// EXPECT: refine exchanges samples of packed bags, and its inner policy pads them
auto const policy = ballast::refine{ballast::padded_batches{}};
#else
ballast::refine const policy{ballast::refine{ballast::round_robin{}}};
#endif

bool packs()
{
  return batching_of(policy) == ballast::batching::packed;
}
