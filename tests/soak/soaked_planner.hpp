// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>

#include <functional>
#include <stdexcept>

namespace ballast_soak {

/// A planner, and a function that draws one step for it and throws where an invariant is broken.
struct soaked_planner {
  std::string name;
  std::function<void(ballast::random_source&)> step;
};

struct violation : std::runtime_error {
  using std::runtime_error::runtime_error;
};

template <class... Pieces>
void require(bool holds, Pieces const&... pieces)
{
  if (!holds) { throw violation(ballast::detail::concat(pieces...)); }
}

[[nodiscard]] inline std::string shown(ballast::ratio number)
{
  return ballast::detail::concat(number.numerator, " / ", number.denominator);
}

/// A refusal is one sentence that says more than its code.
inline void require_sentence(ballast::error const& error)
{
  require(error.message.size() > 20 && error.message.find('\n') == std::string::npos,
          "refused without a sentence: \"", error.message, "\"");
}

/// A plan that was made again, in fresh memory, is the same.
template <class Made, class Plan>
void require_same(Made const& again, Plan const& plan)
{
  require(again && again->digest() == plan.digest() && again->lower_bound == plan.lower_bound,
          "another plan in fresh memory");
}

inline bool says(ballast::error const& error, char const* words)
{
  return error.message.find(words) != std::string::npos;
}

/// How large the numbers of a step are.
enum class number_family : std::uint8_t { tiny, ties, wide, huge, extreme };

[[nodiscard]] inline number_family draw_family(ballast::random_source& random)
{
  auto const drawn = random.below(20);
  return drawn < 5    ? number_family::tiny
         : drawn < 10 ? number_family::ties
         : drawn < 16 ? number_family::wide
         : drawn < 18 ? number_family::huge
                      : number_family::extreme;
}

/// A number of the family that is not negative: huge ones have sums that mostly fit 63 bits, and
/// extreme ones are 0, 1 and from 2^61 to 2^63 - 1.
[[nodiscard]] inline std::int64_t draw_number(ballast::random_source& random, number_family family)
{
  switch (family) {
    case number_family::tiny: return random.between(0, 6);
    case number_family::ties: return random.below(4) == 0 ? 0 : 1000 * random.between(1, 3);
    case number_family::wide: return random.between(0, 100) * random.between(0, 1000);
    case number_family::huge: return (std::int64_t{1} << 56) + random.between(-5, 1 << 20);
    case number_family::extreme: break;
  }
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  switch (random.below(8)) {
    case 0: return most;
    case 1: return most - 1;
    case 2: return std::int64_t{1} << 62;
    case 3: return (std::int64_t{1} << 61) + random.between(-1, 1);
    case 4: return random.between(std::int64_t{1} << 61, most);
    case 5: return 1;
    default: return 0;
  }
}

/// Whether numbers that are not negative have a sum below 2^62, which nobody may refuse as too
/// large.
template <class Numbers>
[[nodiscard]] bool is_moderate(Numbers const& numbers)
{
  constexpr std::int64_t most = std::int64_t{1} << 62;
  std::int64_t sum = 0;
  for (std::int64_t const number : numbers) {
    if (number < 0 || number >= most - sum) { return false; }
    sum += number;
  }
  return true;
}

void add_partitions(std::vector<soaked_planner>& planners);
void add_bins_and_grids(std::vector<soaked_planner>& planners);
void add_groups_and_bags(std::vector<soaked_planner>& planners);
void add_pipelines(std::vector<soaked_planner>& planners);
void add_layouts(std::vector<soaked_planner>& planners);
void add_chains_and_experts(std::vector<soaked_planner>& planners);

}  // namespace ballast_soak
