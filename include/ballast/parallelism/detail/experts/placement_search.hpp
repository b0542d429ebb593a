// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARALLELISM_DETAIL_EXPERTS_PLACEMENT_SEARCH_HPP
#define BALLAST_PARALLELISM_DETAIL_EXPERTS_PLACEMENT_SEARCH_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/core/jagged.hpp>
#include <ballast/parallelism/detail/experts/counts_dealer.hpp>
#include <ballast/parallelism/detail/experts/deal_replicas.hpp>
#include <ballast/parallelism/detail/experts/expert_problem.hpp>
#include <ballast/parallelism/detail/experts/replica_search.hpp>
#include <ballast/parallelism/detail/experts/replica_slots.hpp>
#include <ballast/parallelism/expert_placement.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

namespace ballast::inline v0::detail {

/// Places experts from several starts, and goes on from the best.
///
/// Expects     a problem that was checked and prepared, and outlives the search.
class placement_search {
 public:
  placement_search(expert_problem const& problem, work_budget& left)
      : problem_(problem), left_(left), slots_(problem.empty_slots())
  {}

  /// Returns false where no places were found for the numbers of replicas that were asked for: there
  /// are none, unless `dealing` is spent.
  [[nodiscard]] bool place(work_budget& dealing)
  {
    if (problem_.loads.empty()) { return true; }
    std::int64_t const bound = problem_.scaled(problem_.lower_bound);
    bool const is_given = !problem_.replicas.empty();
    if (is_given) {
      counts_dealer dealer(problem_, dealing);
      if (!dealer.deal()) { return false; }
      dealer.fill(slots_);
    } else {
      best_of_starts(bound);
    }
    replica_search(slots_, is_given, bound, left_).run();
    return true;
  }

  /// Takes a placement that is made from this one, where it is at most 1 % above and keeps more.
  void keep(jagged<rank_id, expert_id> const& now)
  {
    if (problem_.loads.empty()) { return; }
    std::vector<std::size_t> const best = slots_.all();
    std::int64_t const least = slots_.load(slots_.busiest());
    std::size_t const kept = count_kept(now);
    kept_ = kept;
    if (!restore(now)) {
      slots_.assign(best);
      return;
    }
    work_budget left(problem_.usual_work());
    replica_search search(slots_, !problem_.replicas.empty(), least + least / 100, left);
    bool const is_near = search.run() <= least + least / 100;
    kept_ = count_kept(now);
    if (!is_near || kept_ <= kept) {
      slots_.assign(best);
      kept_ = kept;
    }
  }

  [[nodiscard]] expert_placement placement() const
  {
    expert_placement placed;
    placed.lower_bound = problem_.lower_bound;
    placed.kept = kept_;
    auto const each_replica = [this](auto const& visit) {
      std::vector<std::size_t> row;
      for (std::size_t gpu = 0; gpu < slots_.gpus(); ++gpu) {
        row.clear();
        for (std::size_t slot = slots_.first_slot(gpu); slot < slots_.first_slot(gpu + 1); ++slot) {
          if (slots_.expert_at(slot) != none) { row.push_back(slots_.expert_at(slot)); }
        }
        std::sort(row.begin(), row.end());
        for (std::size_t const expert : row) {
          visit(to_id<rank_id>(gpu), to_id<expert_id>(expert));
        }
      }
    };
    placed.experts.fill(slots_.gpus(), each_replica);
    placed.gpus.fill(slots_.experts(), [&](auto const& visit) {
      each_replica([&](rank_id gpu, expert_id expert) { visit(expert, gpu); });
    });
    for (std::size_t gpu = 0; gpu < slots_.gpus(); ++gpu) {
      placed.makespan = std::max(placed.makespan, load_of(placed.experts[to_id<rank_id>(gpu)]));
    }
    return placed;
  }

 private:
  static constexpr std::size_t none = replica_slots::none;

  struct start {
    std::vector<std::size_t> slots;
    std::int64_t largest = std::numeric_limits<std::int64_t>::max();
    uint128 excess = std::numeric_limits<uint128>::max();  // of all GPUs above the bound
  };

  /// Leaves the start with the least largest load, after a short search from each. Where another one
  /// has less excess, a long search may bring it further down: it gets half of the work that is left.
  void best_of_starts(std::int64_t bound)
  {
    // All slots filled; and shares that leave room beside them, which only need so many: dealt to
    // the GPU of the least load, and once to the fullest.
    struct kind {
      std::int64_t tenths;
      bool to_fullest;
    };
    constexpr std::array<kind, 5> kinds = {
        {{0, false}, {9, false}, {5, false}, {3, false}, {5, true}}};
    std::uint64_t const part = left_.left() / 32;
    start best;
    start lightest;
    for (auto const [tenths, to_fullest] : kinds) {
      ratio const enough{tenths * (problem_.lower_bound.numerator / 10),
                         problem_.lower_bound.denominator};
      slots_.assign(std::vector<std::size_t>(slots_.slots(), none));
      deal_replicas(slots_,
                    even_shares(problem_.loads, problem_.places, problem_.most_replicas, enough),
                    to_fullest ? bound + bound / 200 : -1);
      start const found = descend_from(bound, part);
      if (found.largest < best.largest) { best = found; }
      if (found.excess < lightest.excess) { lightest = found; }
      if (best.largest <= bound) { break; }
    }
    if (lightest.slots != best.slots) {
      slots_.assign(lightest.slots);
      start const found = descend_from(bound, left_.left() / 2);
      if (found.largest < best.largest) { return; }
    }
    slots_.assign(best.slots);
  }

  /// Searches from the slots as they are, within so much work.
  [[nodiscard]] start descend_from(std::int64_t bound, std::uint64_t work)
  {
    work_budget part(work);
    std::int64_t const largest = replica_search(slots_, false, bound, part).descend();
    left_.spend(work - part.left());
    uint128 excess = 0;
    for (std::size_t gpu = 0; gpu < slots_.gpus(); ++gpu) {
      excess += static_cast<uint128>(std::max<std::int64_t>(slots_.load(gpu) - bound, 0));
    }
    return {slots_.all(), largest, excess};
  }

  [[nodiscard]] std::size_t count_kept(jagged<rank_id, expert_id> const& now) const
  {
    std::size_t kept = 0;
    for (std::size_t gpu = 0; gpu < std::min(now.size(), slots_.gpus()); ++gpu) {
      for (expert_id const expert : now[to_id<rank_id>(gpu)]) {
        bool const is_kept =
            to_index(expert) < slots_.experts() && slots_.has(to_index(expert), gpu);
        kept += is_kept ? 1U : 0U;
      }
    }
    return kept;
  }

  /// Puts replicas where they are now, and experts that have none where there is room. Returns
  /// whether every expert has a replica, or as many as were asked for.
  [[nodiscard]] bool restore(jagged<rank_id, expert_id> const& now)
  {
    slots_.assign(std::vector<std::size_t>(slots_.slots(), none));
    for (std::size_t gpu = 0; gpu < std::min(now.size(), slots_.gpus()); ++gpu) {
      std::size_t slot = slots_.first_slot(gpu);
      for (expert_id const id : now[to_id<rank_id>(gpu)]) {
        std::size_t const expert = to_index(id);
        if (slot < slots_.first_slot(gpu + 1) && expert < slots_.experts() &&
            slots_.admits(expert, gpu)) {
          slots_.add(slot++, expert);
        }
      }
    }
    for (std::size_t expert = 0; expert < slots_.experts(); ++expert) {
      if (slots_.replicas(expert) == 0 && !make_room(expert)) { return false; }
      if (!problem_.replicas.empty() && slots_.replicas(expert) != problem_.replicas[expert]) {
        return false;
      }
    }
    return true;
  }

  /// Puts an expert into an empty slot, or in place of the smallest share that is not the only one.
  [[nodiscard]] bool make_room(std::size_t expert)
  {
    std::size_t chosen = none;
    for (std::size_t slot = 0; slot < slots_.slots(); ++slot) {
      std::size_t const there = slots_.expert_at(slot);
      if (there == none) {
        slots_.add(slot, expert);
        return true;
      }
      if (slots_.replicas(there) > 1 &&
          (chosen == none || slots_.share(there) < slots_.share(slots_.expert_at(chosen)))) {
        chosen = slot;
      }
    }
    if (chosen == none) { return false; }
    slots_.remove(chosen);
    slots_.add(chosen, expert);
    return true;
  }

  /// The sum of the shares of these experts: a fraction, or, where that needs more than 63 bits, the
  /// next larger one in units of the search.
  template <class Experts>
  [[nodiscard]] ratio load_of(Experts const& experts) const
  {
    constexpr auto most = static_cast<uint128>(std::numeric_limits<std::int64_t>::max());
    uint128 numerator = 0;
    std::uint64_t denominator = 1;
    std::int64_t rounded = 0;
    bool is_exact = true;
    for (expert_id const id : experts) {
      auto const load = static_cast<std::uint64_t>(problem_.loads[to_index(id)]);
      std::uint64_t const replicas = slots_.replicas(to_index(id));
      rounded += slots_.share(to_index(id));
      std::uint64_t const missing = replicas / std::gcd(denominator, replicas);
      uint128 const common = static_cast<uint128>(denominator) * missing;
      is_exact = is_exact && common <= most;
      if (!is_exact) { continue; }
      numerator = numerator * missing +
                  static_cast<uint128>(load) * (static_cast<std::uint64_t>(common) / replicas);
      denominator = static_cast<std::uint64_t>(common);
      is_exact = numerator <= most;
    }
    if (!is_exact) { return {rounded, problem_.scale}; }
    auto const shared = std::gcd(static_cast<std::uint64_t>(numerator), denominator);
    return {static_cast<std::int64_t>(static_cast<std::uint64_t>(numerator) / shared),
            static_cast<std::int64_t>(denominator / shared)};
  }

  expert_problem const& problem_;
  work_budget& left_;
  replica_slots slots_;
  std::size_t kept_ = 0;
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARALLELISM_DETAIL_EXPERTS_PLACEMENT_SEARCH_HPP
