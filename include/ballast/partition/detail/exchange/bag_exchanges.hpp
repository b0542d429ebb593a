// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/partition/concepts.hpp>
#include <ballast/partition/detail/exchange/exchange.hpp>

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

  /// Samples are given lightest first. The caller counts loads.
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

/// An exchange and its samples: bit i of `found` stands for candidate i.
struct bag_exchange {
  using candidates = std::array<bag_contents::rank, exact_exchanges::most_candidates>;

  std::size_t from = 0;
  std::size_t to = 0;
  candidates given{};
  candidates taken{};
  exchange found{};
};

/// A plan under local search: what bags hold and do, and exchanges between two of them.
///
/// Candidates are the lightest samples of a bag, whose subsets have the densest sums, and only one
/// of each cost: lengths padded to a multiple have few costs, and subsets of equals equal sums.
///
/// Units       work counts the candidates looked at, the subsets listed and the steps along them.
/// In, out     owner and the loads that it makes; the exchanges change both. work is what the
///             search may still do.
/// Ensures     (1) loads and owners always agree
///             (2) samples only go to bags that they fit
class bag_exchanges {
 public:
  bag_exchanges(partition_problem const& problem, std::span<cost_units> loads,
                std::span<bag_id> owner, work_budget& work, workspace& memory,
                workspace::frame& scratch)
      : contents_(problem, owner, scratch),
        loads_(loads),
        speeds_(problem.speeds),
        work_(work),
        memory_(memory)
  {}

  [[nodiscard]] std::size_t bags() const noexcept { return loads_.size(); }
  [[nodiscard]] std::span<cost_units const> loads() const noexcept { return loads_; }
  [[nodiscard]] cost_units load(std::size_t bag) const noexcept { return loads_[bag]; }
  [[nodiscard]] std::uint32_t speed(std::size_t bag) const noexcept { return speeds_[bag]; }
  [[nodiscard]] ratio finish(std::size_t bag) const noexcept { return {load(bag), speed(bag)}; }
  [[nodiscard]] work_budget& work() const noexcept { return work_; }

  /// How many candidates of each of two bags make it likely that some exchange has a wanted net
  /// work, give or take `tolerance`: there are 4^k exchanges of k candidates, whose net works lie
  /// around 0 and no further away than the candidates cost together. The result is above
  /// subset_sum::most_members where that many are too few.
  [[nodiscard]] std::size_t dense_candidates(std::size_t from, std::size_t to,
                                             cost_units tolerance) noexcept
  {
    auto give = first(from, to);
    auto take = first(to, from);
    cost_units spread = 0;
    std::size_t count = 0;
    do {
      if (give != bag_contents::none) { spread += next_kind(give, from, to); }
      if (take != bag_contents::none) { spread += next_kind(take, to, from); }
      ++count;
    } while (count <= subset_sum::most_members && spread / (tolerance + 1) > cost_units{2}
                                                                                 << (2 * count));
    return count;
  }

  /// The best exchange in which bag `from` loses and bag `to` gains work, among the lightest
  /// samples of `count` costs of each. Where those of `from` cost less than what is wanted, it
  /// looks at more of them, and where even the most that it can search do, at swaps of any one
  /// sample for another.
  [[nodiscard]] bag_exchange find(std::size_t from, std::size_t to, wanted_net wanted,
                                  std::size_t count)
  {
    bag_exchange best{from, to};
    std::array<cost_units, subset_sum::most_members> giving{};
    std::array<cost_units, subset_sum::most_members> taking{};
    std::size_t given = 0;
    std::size_t taken = 0;
    cost_units all_given = 0;
    auto give = first(from, to);
    while (give != bag_contents::none && given < giving.size() &&
           (given < count || all_given < wanted.least)) {
      best.given[given] = give;
      giving[given] = next_kind(give, from, to);
      all_given += giving[given++];
    }
    if (give != bag_contents::none && all_given < wanted.least) {
      nearest const swapped = swaps(from, to, wanted.least, wanted.most);
      return swapped.above.found.net != 0 ? swapped.above : swapped.below;
    }
    for (auto take = first(to, from); take != bag_contents::none && taken < count; ++taken) {
      best.taken[taken] = take;
      taking[taken] = next_kind(take, to, from);
    }
    work_.spend(16 * (given + taken));
    best.found =
        find_exchange(span_of(giving, 0, given), span_of(taking, 0, taken), wanted, memory_, work_);
    return best;
  }

  /// An exchange of exactly so much among the lightest samples of 16 costs of each, if it finds one.
  [[nodiscard]] bag_exchange find_exact(std::size_t from, std::size_t to, cost_units net)
  {
    constexpr cost_units residues = 16;
    bag_exchange best{from, to};
    std::array<cost_units, exact_exchanges::most_candidates> giving{};
    std::array<cost_units, exact_exchanges::most_candidates> taking{};
    std::size_t const given = lightest_kinds(from, to, best.given, giving);
    std::size_t const taken = lightest_kinds(to, from, best.taken, taking);
    work_.spend(16 * (given + taken));
    auto scratch = memory_.open();
    exact_exchanges exact(span_of(giving, 0, given), span_of(taking, 0, taken), work_, scratch);
    best.found = exact.find(net, residues);
    return best;
  }

  void make(bag_exchange const& chosen) noexcept
  {
    auto const pass = [this](std::uint32_t members, bag_exchange::candidates const& candidates,
                             std::size_t from, std::size_t to) {
      bag_exchange::candidates passed{};
      std::size_t const count = list_members<rank>(members, candidates, passed);
      contents_.move(span_of(passed, 0, count), from, to);
    };
    pass(chosen.found.given, chosen.given, chosen.from, chosen.to);
    pass(chosen.found.taken, chosen.taken, chosen.to, chosen.from);
    loads_[chosen.from] -= chosen.found.net;
    loads_[chosen.to] += chosen.found.net;
  }

 private:
  using rank = bag_contents::rank;

  [[nodiscard]] rank first(std::size_t from, std::size_t to) noexcept
  {
    return contents_.first_movable(contents_.lightest(from), from, to, work_);
  }
  // The cost of a sample of bag `from`, which becomes the next one that may go to bag `to`.
  [[nodiscard]] cost_units next(rank& sample, std::size_t from, std::size_t to) noexcept
  {
    cost_units const cost = contents_.cost(sample);
    sample = contents_.first_movable(contents_.heavier(sample), from, to, work_);
    return cost;
  }

  // As `next`, but also passes over the samples of the same cost.
  [[nodiscard]] cost_units next_kind(rank& sample, std::size_t from, std::size_t to) noexcept
  {
    cost_units const cost = next(sample, from, to);
    while (sample != bag_contents::none && contents_.cost(sample) == cost) {
      (void)next(sample, from, to);
    }
    return cost;
  }

  [[nodiscard]] std::size_t lightest_kinds(std::size_t from, std::size_t to,
                                           bag_exchange::candidates& chosen,
                                           std::span<cost_units> costs) noexcept
  {
    std::size_t count = 0;
    for (auto each = first(from, to); each != bag_contents::none && count < costs.size(); ++count) {
      chosen[count] = each;
      costs[count] = next_kind(each, from, to);
    }
    return count;
  }

  struct nearest {
    bag_exchange below;  // the largest net work below what is wanted
    bag_exchange above;  // the least from there on
  };

  // The heavier the given sample, the heavier the one to take: one pass along both bags. No sample
  // taken makes it a move.
  [[nodiscard]] nearest swaps(std::size_t from, std::size_t to, cost_units wanted, cost_units most)
  {
    nearest best{{from, to}, {from, to}};
    auto const consider = [&](rank given, rank taken, cost_units net) {
      bag_exchange& side = net < wanted ? best.below : best.above;
      cost_units const found = side.found.net;
      bool const better = net < wanted ? net > found : found == 0 || net < found;
      if (net < 1 || net > most || !better) { return; }
      side.given[0] = given;
      side.taken[0] = taken;
      side.found = {1, taken == bag_contents::none ? 0U : 1U, net};
    };
    rank back = bag_contents::none;  // the heaviest that still leaves enough net work: nothing yet
    cost_units back_cost = 0;
    auto take = first(to, from);
    for (auto give = first(from, to); give != bag_contents::none; work_.spend(4)) {
      rank const given = give;
      cost_units const cost = next(give, from, to);
      while (take != bag_contents::none && cost - contents_.cost(take) >= wanted) {
        back = take;
        back_cost = next(take, to, from);
        work_.spend(4);
      }
      consider(given, back, cost - back_cost);
      if (take != bag_contents::none) { consider(given, take, cost - contents_.cost(take)); }
    }
    return best;
  }

  bag_contents contents_;
  std::span<cost_units> loads_;
  std::span<std::uint32_t const> speeds_;
  work_budget& work_;
  workspace& memory_;
};

}  // namespace ballast::inline v0::detail
