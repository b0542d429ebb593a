// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/partition/concepts.hpp>

namespace ballast::inline v0::detail {

/// The samples of every bag in a list, lightest first, for local searches, which look at the few
/// lightest samples of a bag. Moves keep the lists in order.
///
/// A sample is named by its rank in `heaviest_first`, so the lists are ordered by rank. Samples
/// that cost nothing are in no list, since moving them changes no load; nor are samples without a
/// bag.
///
/// Complexity  O(n + m) to build, 4 (n + m) bytes of scratch.
class bag_contents {
 public:
  using rank = std::uint32_t;
  static constexpr rank none = std::numeric_limits<rank>::max();

  /// Keeps `owner` and updates it with every move.
  bag_contents(partition_problem const& problem, std::span<bag_id> owner, workspace::frame& scratch)
      : problem_(problem),
        owner_(owner),
        lightest_(scratch.take<rank>(problem.gpus.size())),
        heavier_(scratch.take<rank>(owner.size()))
  {
    std::fill(lightest_.begin(), lightest_.end(), none);
    for (std::size_t place = 0; place < problem_.heaviest_first.size(); ++place) {
      auto const [cost, sample] = problem_.heaviest_first[place];
      std::size_t const bag = to_index(owner_[to_index(sample)]);
      if (cost == 0) { break; }
      if (bag == lightest_.size()) { continue; }
      heavier_[place] = lightest_[bag];
      lightest_[bag] = static_cast<rank>(place);
    }
  }

  [[nodiscard]] rank lightest(std::size_t bag) const noexcept { return lightest_[bag]; }
  /// The next heavier sample of the same bag, or none.
  [[nodiscard]] rank heavier(rank sample) const noexcept { return heavier_[sample]; }
  [[nodiscard]] cost_units cost(rank sample) const noexcept
  {
    return problem_.heaviest_first[sample].cost;
  }
  [[nodiscard]] bool fits(rank sample, std::size_t bag) const noexcept
  {
    std::size_t const number = to_index(problem_.heaviest_first[sample].sample);
    return problem_.fits(number, bag);
  }

  /// From this sample of `from` on, the lightest that may move to bag `to`, or none. Each that may
  /// not takes a step of work.
  [[nodiscard]] rank first_movable(rank sample, std::size_t from, std::size_t to,
                                   work_budget& work) const noexcept
  {
    if (problem_.gpus[to] <= problem_.gpus[from]) { return sample; }
    std::uint64_t passed_over = 0;
    for (; sample != none && !fits(sample, to); ++passed_over) { sample = heavier_[sample]; }
    work.spend(passed_over);
    return sample;
  }
  [[nodiscard]] rank first_movable(rank sample, std::size_t from, std::size_t to) const noexcept
  {
    work_budget uncounted(0);
    return first_movable(sample, from, to, uncounted);
  }

  /// Moves samples, given lightest first, from one bag to another. The caller counts loads.
  void move(std::span<rank const> samples, std::size_t from, std::size_t to) noexcept
  {
    rank* link = &lightest_[from];
    for (rank const sample : samples) {
      while (*link != sample) { link = &heavier_[*link]; }
      *link = heavier_[sample];
    }
    link = &lightest_[to];
    for (rank const sample : samples) {
      while (*link != none && *link > sample) { link = &heavier_[*link]; }
      heavier_[sample] = *link;
      *link = sample;
      owner_[to_index(problem_.heaviest_first[sample].sample)] = to_id<bag_id>(to);
    }
  }

 private:
  partition_problem problem_;
  std::span<bag_id> owner_;
  std::span<rank> lightest_;
  std::span<rank> heavier_;
};

}  // namespace ballast::inline v0::detail
