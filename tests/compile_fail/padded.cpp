// SPDX-License-Identifier: Apache-2.0
// Policies that pad, or keep counts or homes, within others that move samples between bags.
#include "../../examples/common/baselines/karmarkar_karp.hpp"

#include <ballast/partition/capped.hpp>
#include <ballast/partition/concepts.hpp>
#include <ballast/partition/equal_count.hpp>
#include <ballast/partition/exact.hpp>
#include <ballast/partition/least_movement.hpp>
#include <ballast/partition/padded_batches.hpp>
#include <ballast/partition/refine.hpp>

using ballast::padded_batches;

#if defined(BY_CAPPED)
// EXPECT: capped moves samples between packed bags, and its inner policy pads them
auto const policy = ballast::capped{padded_batches{}};
#elif defined(BY_EXACT)
// EXPECT: exact searches packed bags, and its inner policy pads them
auto const policy = ballast::exact{padded_batches{}};
#elif defined(BY_REFINE)
// EXPECT: refine exchanges samples of packed bags, and its inner policy pads them
auto const policy = ballast::refine{padded_batches{}};
#elif defined(BY_LEAST_MOVEMENT)
// EXPECT: least_movement moves samples between packed bags, and its inner policy pads
auto const policy = ballast::least_movement{padded_batches{}};
#elif defined(AND_COUNTED)
// EXPECT: least_movement changes how many samples a bag has
auto const policy = ballast::least_movement{ballast::equal_count{}};
#elif defined(BY_REFINE_AND_COUNTED)
// EXPECT: refine exchanges samples, and its inner policy keeps counts or homes
auto const policy = ballast::refine{ballast::equal_count{}};
#elif defined(BY_EXACT_AND_COUNTED)
// EXPECT: exact searches all plans, and its inner policy keeps counts or homes
auto const policy = ballast::exact{ballast::capped{ballast::equal_count{}}};
#elif defined(BY_REFINE_AND_HOMED)
// EXPECT: refine exchanges samples, and its inner policy keeps counts or homes
auto const policy = ballast::refine{ballast::capped{ballast::least_movement{}}};
#else
ballast::capped const policy{
    ballast::least_movement{ballast::exact{ballast::refine{baselines::karmarkar_karp{}}}}};
#endif

bool packs()
{
  return batching_of(policy) == ballast::batching::packed;
}
