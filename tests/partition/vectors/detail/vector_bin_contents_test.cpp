#include <ballast/partition/vectors/detail/vector_bin_contents.hpp>  // first: proves it is self-contained

#include <gtest/gtest.h>
#include <ballast/core/random.hpp>

#include <algorithm>
#include <cstdint>
#include <tuple>
#include <vector>

namespace {

using ballast::bin_id;
using ballast::cost_vector;
using vector_contents = ballast::detail::vector_bin_contents<2>;
using vector_place = vector_contents::place;

constexpr std::size_t bin_count = 4;
constexpr std::size_t free_place_count = 2;

// Oracle: the samples of a bin and its free places, sorted from scratch.
std::vector<std::uint32_t> sorted(std::vector<cost_vector<2>> const& costs,
                                  std::vector<bin_id> const& owner, std::size_t bin, std::size_t d,
                                  std::size_t places)
{
  std::vector<std::uint32_t> samples;
  for (std::uint32_t sample = 0; sample < owner.size(); ++sample) {
    if (to_index(owner[sample]) == bin) { samples.push_back(sample); }
  }
  std::ranges::sort(samples, [&](std::uint32_t a, std::uint32_t b) {
    return std::tuple(-costs[a][d], a) < std::tuple(-costs[b][d], b);
  });
  samples.resize(places, vector_place::no_sample);
  return samples;
}

TEST(VectorBinContents, StaysInOrderWhenPlacesAreExchanged)  // Ensures (1)
{
  ballast::random_source random(71);
  for (std::int64_t const heaviest : {2, 1000}) {  // with and without ties
    std::vector<cost_vector<2>> costs(60);
    std::vector<bin_id> owner(costs.size());
    for (auto& cost : costs) { cost = {random.between(0, heaviest), random.between(0, heaviest)}; }
    for (auto& bin : owner) {
      bin = ballast::to_id<bin_id>(random.below(bin_count - 1));
    }  // one empty
    ballast::workspace memory;
    auto scratch = memory.open();
    vector_contents held(ballast::vector_problem<2>{costs}, owner, bin_count, free_place_count,
                         scratch, memory);
    EXPECT_EQ(held.places(bin_count - 1, 0).size(), free_place_count);

    for (int step = 0; step < 500; ++step) {
      for (std::size_t bin = 0; bin < bin_count; ++bin) {
        for (std::size_t d = 0; d < 2; ++d) {
          auto const places = held.places(bin, d);
          std::vector<std::uint32_t> samples;
          for (vector_place const& each : places) {
            samples.push_back(each.sample);
            ASSERT_EQ(each.cost, each.sample == vector_place::no_sample ? (cost_vector<2>{})
                                                                        : costs[each.sample]);
          }
          ASSERT_EQ(samples, sorted(costs, owner, bin, d, places.size())) << "step " << step;
        }
      }
      std::size_t const bin = random.below(bin_count);
      std::size_t const other = (bin + 1 + random.below(bin_count - 1)) % bin_count;
      vector_place const here = held.places(bin, 1)[random.below(held.places(bin, 1).size())];
      vector_place const there = held.places(other, 0)[random.below(held.places(other, 0).size())];
      held.exchange(bin, here, other, there);
      if (here.sample != vector_place::no_sample) {
        owner[here.sample] = ballast::to_id<bin_id>(other);
      }
      if (there.sample != vector_place::no_sample) {
        owner[there.sample] = ballast::to_id<bin_id>(bin);
      }
    }
  }
}

}  // namespace
