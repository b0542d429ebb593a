// SPDX-License-Identifier: Apache-2.0
#include <ballast/cost/concepts.hpp>  // first: proves it is self-contained

#include <gtest/gtest.h>
#include <ballast/cost/quadratic_cost.hpp>

#include <string>

namespace {

using ballast::cost_model;
using ballast::cost_units;
using ballast::tokens;

struct priced_document {
  std::string text;
};

// Has what the concept asks for and nothing more: it cannot even be copied.
class archetype {
 public:
  archetype() = delete;
  archetype(archetype const&) = delete;
  cost_units operator()(priced_document const& sample) const
  {
    return static_cast<cost_units>(sample.text.size());
  }
};

struct priced_patch {
  std::uint32_t cost = 0;
  double weight = 0;
};

struct answers_a_double {
  double operator()(tokens length) const { return static_cast<double>(length); }
};

struct changes_itself {
  cost_units operator()(tokens length) { return length; }
};

static_assert(cost_model<archetype, priced_document>);
static_assert(!cost_model<archetype>);
static_assert(cost_model<ballast::quadratic_cost>);
static_assert(!cost_model<ballast::quadratic_cost, priced_document>);
static_assert(!cost_model<answers_a_double>);
static_assert(!cost_model<changes_itself>);
static_assert(cost_model<std::uint32_t priced_patch::*, priced_patch>);
static_assert(!cost_model<double priced_patch::*, priced_patch>);

TEST(CostModel, MayBeALambdaOverTheCallersSamples)
{
  auto const by_size = [](priced_document const& sample) {
    return static_cast<cost_units>(sample.text.size());
  };
  static_assert(cost_model<decltype(by_size), priced_document>);
  EXPECT_EQ(by_size(priced_document{"four"}), 4);
}

}  // namespace
