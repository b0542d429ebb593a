// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_TESTS_SUPPORT_SHARDING_INSTANCES_HPP
#define BALLAST_TESTS_SUPPORT_SHARDING_INSTANCES_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/core/random.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/sharding/detail/shard_problem.hpp>
#include <ballast/sharding/sharding_cost.hpp>
#include <ballast/topology/device_groups.hpp>
#include <ballast/topology/node_sizes.hpp>

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace ballast_test {

/// A step of hybrid sharding in memory of its own.
class shard_instance {
 public:
  shard_instance(std::vector<ballast::tokens> lengths, std::vector<std::uint32_t> const& nodes,
                 ballast::sharding_cost const& cost, ballast::tokens limit)
      : lengths_(std::move(lengths)),
        groups_(ballast::node_sizes(nodes), 64),
        scratch_(memory_.open()),
        problem_(ballast::detail::make_shard_problem(lengths_, groups_, cost, limit, scratch_))
  {}

  [[nodiscard]] ballast::detail::shard_problem const& problem() const { return problem_; }
  [[nodiscard]] ballast::device_groups const& groups() const { return groups_; }
  [[nodiscard]] ballast::workspace::frame& scratch() { return scratch_; }

 private:
  std::vector<ballast::tokens> lengths_;
  ballast::device_groups groups_;
  ballast::workspace memory_;
  ballast::workspace::frame scratch_;
  ballast::detail::shard_problem problem_;
};

/// One unit for a token; groups of up to `heads` GPUs, and nothing for exchanges.
inline ballast::sharding_cost cost_per_token(std::uint32_t heads)
{
  ballast::sharding_cost cost;
  cost.work = {.linear = 1};
  cost.heads = heads;
  return cost;
}

/// As long as l^2 + 100 l units, and 200 for each call of an exchange.
inline ballast::sharding_cost cost_with_attention(std::uint32_t heads)
{
  ballast::sharding_cost cost;
  cost.work = {.linear = 100, .quadratic = 1};
  cost.heads = heads;
  cost.latency = 200;
  return cost;
}

/// Two or more lengths, fewer than `end`, of 8 to 90 tokens.
inline std::vector<ballast::tokens> drawn_lengths(ballast::random_source& random, std::size_t end)
{
  std::vector<ballast::tokens> lengths(2 + random.below(end - 2));
  for (auto& length : lengths) { length = random.between(8, 90); }
  return lengths;
}

}  // namespace ballast_test

#endif  // BALLAST_TESTS_SUPPORT_SHARDING_INSTANCES_HPP
