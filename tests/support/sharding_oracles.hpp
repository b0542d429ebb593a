// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "all_assignments.hpp"
#include "test.hpp"

#include <ballast/route/placement.hpp>
#include <ballast/sharding/sharding_cost.hpp>
#include <ballast/topology/device_groups.hpp>

namespace ballast_test {

/// Hybrid sharding written down from its definition: what a sequence takes in a group, and where it
/// may go.
struct sharding_step {
  std::vector<ballast::tokens> lengths;
  ballast::device_groups groups;
  ballast::sharding_cost cost;
  ballast::tokens limit = 0;
  std::vector<std::int64_t> together = {};  // of equal numbers from 0 on are in one group

  /// Of the first sequences, or all.
  [[nodiscard]] bool keeps_together(assignment const& owner) const
  {
    for (std::size_t a = 0; a < owner.size() && !together.empty(); ++a) {
      for (std::size_t b = 0; b < a; ++b) {
        if (together[a] >= 0 && together[a] == together[b] && owner[a] != owner[b]) {
          return false;
        }
      }
    }
    return true;
  }

  [[nodiscard]] std::optional<ballast::cost_units> time(std::size_t sample, std::size_t group) const
  {
    auto const where = groups[ballast::to_id<ballast::group_id>(group)];
    ballast::tokens const length = lengths[sample];
    ballast::tokens const k = where.gpus;
    if (k > cost.heads || (k > 1 && length < k) || (length + k - 1) / k > limit) {
      return std::nullopt;
    }
    return cost.at(shape_of(where, groups.nodes()))(length);
  }

  [[nodiscard]] ballast::tokens share(std::size_t sample, std::size_t group) const
  {
    ballast::tokens const k = groups[ballast::to_id<ballast::group_id>(group)].gpus;
    return (lengths[sample] + k - 1) / k;
  }
};

/// Loads and tokens of every GPU under some owners, and a table of the times.
struct sharding_loads {
  std::vector<ballast::cost_units> load;
  std::vector<ballast::tokens> held;
  std::vector<std::optional<ballast::cost_units>> times;

  explicit sharding_loads(sharding_step const& step)
      : load(step.groups.gpus()), held(step.groups.gpus())
  {
    for (std::size_t sample = 0; sample < step.lengths.size(); ++sample) {
      for (std::size_t group = 0; group < step.groups.size(); ++group) {
        times.push_back(step.time(sample, group));
      }
    }
  }

  sharding_loads(sharding_step const& step, assignment const& owner) : sharding_loads(step)
  {
    for (std::size_t each = 0; each < owner.size(); ++each) { add(step, each, owner[each], 1); }
  }

  [[nodiscard]] std::optional<ballast::cost_units> time(sharding_step const& step,
                                                        std::size_t sample, std::size_t group) const
  {
    return times[sample * step.groups.size() + group];
  }

  void add(sharding_step const& step, std::size_t sample, std::size_t group, int sign)
  {
    auto const where = step.groups[ballast::to_id<ballast::group_id>(group)];
    std::size_t const first = ballast::to_index(where.first);
    for (std::size_t rank = first; rank < first + where.gpus; ++rank) {
      load[rank] += sign * *time(step, sample, group);
      held[rank] += sign * step.share(sample, group);
    }
  }

  [[nodiscard]] ballast::cost_units makespan() const { return *std::ranges::max_element(load); }
  [[nodiscard]] ballast::tokens most_held() const { return *std::ranges::max_element(held); }
};

/// The optimum: tries all groups for all sequences, so keep both few. Nothing where no plan fits.
[[nodiscard]] inline std::optional<ballast::cost_units> best_sharding(sharding_step const& step)
{
  sharding_loads const none(step);
  return least_of_all(step.lengths.size(), step.groups.size(),
                      [&](assignment const& owner) -> std::optional<ballast::cost_units> {
                        if (!step.keeps_together(owner)) { return std::nullopt; }
                        sharding_loads loads = none;
                        for (std::size_t sample = 0; sample < owner.size(); ++sample) {
                          if (!loads.time(step, sample, owner[sample])) { return std::nullopt; }
                          loads.add(step, sample, owner[sample], 1);
                        }
                        if (loads.most_held() > step.limit) { return std::nullopt; }
                        return loads.makespan();
                      });
}

/// Every sequence at the largest degree up to `degree` that it may have, in descending order on the
/// least loaded group. Nothing where one finds no room.
[[nodiscard]] inline std::optional<std::vector<std::size_t>> uniform_sharding(
    sharding_step const& step, std::uint32_t degree)
{
  std::vector<std::size_t> owner(step.lengths.size());
  sharding_loads loads(step);
  for (std::size_t const sample : heaviest_first(step.lengths)) {
    std::optional<std::pair<ballast::cost_units, std::size_t>> best;
    for (std::size_t k = degree; k > 0 && !best; --k) {
      for (auto const id : step.groups.of_degree(static_cast<std::uint32_t>(k))) {
        std::size_t const group = ballast::to_index(id);
        auto const time = loads.time(step, sample, group);
        if (!time) { continue; }
        std::size_t const first = ballast::to_index(step.groups[id].first);
        ballast::cost_units most = 0;
        ballast::tokens held = 0;
        for (std::size_t rank = first; rank < first + k; ++rank) {
          most = std::max(most, loads.load[rank]);
          held = std::max(held, loads.held[rank]);
        }
        if (held + step.share(sample, group) > step.limit) { continue; }
        auto const finish = std::pair(most + *time, group);
        if (!best || finish < *best) { best = finish; }
      }
    }
    if (!best) { return std::nullopt; }
    owner[sample] = best->second;
    loads.add(step, sample, best->second, 1);
  }
  return owner;
}

/// Plain local search: moves a sequence to another group, or exchanges the groups of two, as long
/// as the largest load becomes smaller, or as large on fewer GPUs.
[[nodiscard]] inline ballast::cost_units plain_sharding_search(sharding_step const& step,
                                                               std::vector<std::size_t> owner)
{
  sharding_loads loads(step, owner);
  auto const worth = [&] {
    return std::pair(loads.makespan(), std::ranges::count(loads.load, loads.makespan()));
  };
  auto const change = [&](std::size_t sample, std::size_t group) {
    loads.add(step, sample, std::exchange(owner[sample], group), -1);
    loads.add(step, sample, group, 1);
  };
  for (bool better = true; better;) {
    better = false;
    for (std::size_t a = 0; a < owner.size(); ++a) {
      for (std::size_t group = 0; group < step.groups.size(); ++group) {
        if (group == owner[a] || !loads.time(step, a, group)) { continue; }
        auto const before = std::pair(worth(), owner[a]);
        change(a, group);
        bool const wins = loads.most_held() <= step.limit && worth() < before.first;
        wins ? void(better = true) : change(a, before.second);
      }
      for (std::size_t b = 0; b < a; ++b) {
        if (!loads.time(step, a, owner[b]) || !loads.time(step, b, owner[a])) { continue; }
        auto const before = worth();
        auto const swap = [&, from = owner[a], to = owner[b]](bool there) {
          change(a, there ? to : from);
          change(b, there ? from : to);
        };
        swap(true);
        bool const wins = loads.most_held() <= step.limit && worth() < before;
        wins ? void(better = true) : swap(false);
      }
    }
  }
  return loads.makespan();
}

/// Plain local search from the uniform degree with the smallest makespan. Nothing where none fits.
[[nodiscard]] inline std::optional<ballast::cost_units> search_from_best_uniform(
    sharding_step const& step)
{
  std::optional<std::pair<ballast::cost_units, std::vector<std::size_t>>> best;
  for (std::uint32_t const degree : step.groups.degrees()) {
    auto owner = uniform_sharding(step, degree);
    if (!owner) { continue; }
    auto const makespan = sharding_loads(step, *owner).makespan();
    if (!best || makespan < best->first) { best = std::pair(makespan, std::move(*owner)); }
  }
  if (!best) { return std::nullopt; }
  return plain_sharding_search(step, std::move(best->second));
}

/// What 25 lines reach: for some limits on the time of one sequence, each takes the degree of least
/// GPU time within it, or else the fastest; the largest degree first, and of one degree the longest
/// first, to the least loaded group. Nothing where a GPU holds too much under each limit. Groups of
/// one degree have one shape.
[[nodiscard]] inline std::optional<ballast::cost_units> plain_greedy_sharding(
    sharding_step const& step, ballast::cost_units bound)
{
  auto const degrees = step.groups.degrees();
  std::vector<std::vector<std::optional<ballast::cost_units>>> times(degrees.size());
  for (std::size_t at = 0; at < degrees.size(); ++at) {
    auto const k = ballast::tokens{degrees[at]};
    if (k > step.cost.heads) { continue; }
    auto const price = step.cost.at(
        shape_of(step.groups[step.groups.of_degree(degrees[at])[0]], step.groups.nodes()));
    for (ballast::tokens const length : step.lengths) {
      bool const may = (k == 1 || length >= k) && (length + k - 1) / k <= step.limit;
      times[at].push_back(may ? std::optional(price(length)) : std::nullopt);
    }
  }
  std::optional<ballast::cost_units> best;
  for (int const percent : {100, 75, 50, 35, 25, 15, 10, 5}) {
    ballast::cost_units const limit = bound / 100 * percent;
    std::vector<std::vector<std::size_t>> of_degree(degrees.size());
    for (std::size_t const sample : heaviest_first(step.lengths)) {
      std::optional<std::pair<double, std::size_t>> within;
      std::optional<std::pair<ballast::cost_units, std::size_t>> fastest;
      for (std::size_t at = 0; at < degrees.size(); ++at) {
        if (times[at].empty() || !times[at][sample]) { continue; }
        ballast::cost_units const time = *times[at][sample];
        auto const area = std::pair(static_cast<double>(time) * degrees[at], at);
        if (time <= limit && (!within || area < *within)) { within = area; }
        if (!fastest || time < fastest->first) { fastest = std::pair(time, at); }
      }
      of_degree[within ? within->second : fastest->second].push_back(sample);
    }
    std::vector<std::pair<ballast::cost_units, ballast::tokens>> loads(step.groups.gpus());
    for (std::size_t at = degrees.size(); at-- > 0;) {
      std::set<std::pair<ballast::cost_units, std::size_t>> queue;
      for (auto const id : step.groups.of_degree(degrees[at])) {
        std::size_t const first = ballast::to_index(step.groups[id].first);
        queue.emplace(loads[first].first, first);
      }
      for (std::size_t const sample : of_degree[at]) {
        auto least = queue.extract(queue.begin());
        least.value().first += *times[at][sample];
        for (std::size_t rank = 0; rank < degrees[at]; ++rank) {
          auto& [load, held] = loads[least.value().second + rank];
          load = least.value().first;
          held += (step.lengths[sample] + degrees[at] - 1) / degrees[at];
        }
        queue.insert(std::move(least));
      }
    }
    bool const fits =
        std::ranges::all_of(loads, [&](auto const& load) { return load.second <= step.limit; });
    ballast::cost_units const most = std::ranges::max(loads).first;
    if (fits && (!best || most < *best)) { best = most; }
  }
  return best;
}

/// What a plan says of itself, worked out anew from its owners.
inline void expect_true_plan(ballast::sharding_plan const& plan, sharding_step const& step)
{
  ASSERT_EQ(plan.owner.size(), step.lengths.size());
  ASSERT_EQ(plan.samples.size(), step.groups.size());
  std::vector<ballast::cost_units> loads(step.groups.gpus(), 0);
  std::vector<ballast::tokens> held(step.groups.gpus(), 0);
  std::vector<ballast::tokens> rounded_up(step.groups.gpus(), 0);
  for (std::size_t sample = 0; sample < step.lengths.size(); ++sample) {
    std::size_t const group = ballast::to_index(plan.owner[sample]);
    auto const time = step.time(sample, group);
    ASSERT_TRUE(time.has_value()) << "sample " << sample << " may not go to group " << group;
    ASSERT_EQ(plan.costs[sample], *time);
    ASSERT_TRUE(std::ranges::binary_search(plan.samples[plan.owner[sample]],
                                           ballast::to_id<ballast::sample_id>(sample)));
    auto const where = step.groups[plan.owner[sample]];
    for (std::uint32_t gpu = 0; gpu < where.gpus; ++gpu) {
      std::size_t const rank = ballast::to_index(where.first) + gpu;
      loads[rank] += *time;
      held[rank] += ballast::chunk_of(step.lengths[sample], where.gpus, gpu).count;
      rounded_up[rank] += step.share(sample, group);
    }
  }
  EXPECT_EQ(plan.loads, loads);
  EXPECT_EQ(plan.tokens_of, held);
  EXPECT_LE(*std::ranges::max_element(rounded_up), step.limit);
  EXPECT_EQ(plan.makespan, *std::ranges::max_element(loads));
  EXPECT_LE(plan.lower_bound, plan.makespan);
  EXPECT_EQ(plan.groups_digest, step.groups.digest());
  EXPECT_EQ(plan.lengths, step.lengths);
}

}  // namespace ballast_test
