// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_PACKING_DETAIL_PATTERN_BINS_HPP
#define BALLAST_PARTITION_PACKING_DETAIL_PATTERN_BINS_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/partition/detail/patterns/column_generation.hpp>
#include <ballast/partition/detail/patterns/pattern_list.hpp>
#include <ballast/partition/detail/patterns/simplex_basis.hpp>
#include <ballast/partition/packing/best_fit_decreasing.hpp>
#include <ballast/partition/packing/concepts.hpp>
#include <ballast/partition/packing/detail/bins_by_room.hpp>
#include <ballast/partition/packing/detail/pattern_filling.hpp>
#include <ballast/partition/packing/detail/sample_worths.hpp>
#include <ballast/partition/packing/detail/samples_by_weight.hpp>
#include <ballast/partition/packing/detail/weight_kinds.hpp>
#include <ballast/partition/packing/fewest_bins_of.hpp>
#include <ballast/partition/packing/minimum_bin_slack.hpp>
#include <ballast/partition/priced_sample.hpp>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

namespace ballast::inline v0::detail {

/// The linear program over patterns of weight kinds: how many bins of which pattern a good packing
/// has, and what a sample of each kind is worth.
///
/// Complexity  that of column_generation.
class kind_program {
 public:
  kind_program(std::size_t most_kinds, workspace::frame& scratch)
      : program_(most_items, most_kinds, weight_kinds::most_numbers, scratch)
  {}

  /// Expects     kinds of so many samples, which need `known` bins at least
  /// Returns     false where it has no plan, since numbers got too large
  [[nodiscard]] bool solve(weight_kinds const& kinds, std::size_t samples, std::size_t known,
                           work_budget& nodes)
  {
    int unit_bits = weight_kinds::demand_bits;
    while ((samples << weight_kinds::demand_bits >> unit_bits) >= most_counted) { ++unit_bits; }
    program_.start(kinds.costs(), kinds.demands(), kinds.room(), unit_bits);
    // A plan first that is nearly as good as can be, then prices that prove it as nearly.
    std::size_t bins = std::max<std::size_t>(known, 1) << weight_kinds::demand_bits;
    for (std::size_t const nearness : {std::size_t{1} << 13, std::size_t{1} << 16}) {
      while (program_.solve(bins, nodes) == relaxation::exceeds) {
        std::size_t const least = program_.least_bags();
        bins = std::max(bins, least) + least / nearness + 1;
      }
      bins = std::max(std::min(bins, program_.least_bags()), known << weight_kinds::demand_bits);
    }
    return program_.basis().is_usable();
  }

  /// What a sample of each kind is worth, in units of nearly a bin / 2^22.
  [[nodiscard]] std::span<std::int32_t const> prices() const noexcept
  {
    return program_.best_prices();
  }

  /// Calls fill(pattern, times) for every pattern of which the plan has whole ones.
  template <class Fill>
  void for_each_pattern(Fill const& fill) const
  {
    simplex_basis const& basis = program_.basis();
    std::int64_t const one = basis.unit() << weight_kinds::demand_bits;
    for (std::size_t row = 0; row < basis.rows(); ++row) {
      if (!basis.has_pattern(row)) { continue; }
      std::int64_t const times = (basis.amounts()[row] + one / 64) / one;
      if (times > 0) { fill(program_.pattern(row), static_cast<std::size_t>(times)); }
    }
  }

 private:
  static constexpr std::size_t most_items = 2048;
  static constexpr std::size_t most_counted = 1000;  // in the basis

  column_generation program_;
};

/// Packs by a linear program over patterns of weight groups: fills as many bins by each pattern as
/// the program has whole ones, and goes on with a program of what is left, until that is little.
class pattern_bins {
 public:
  pattern_bins(packing_problem const& problem, workspace& memory)
      : problem_(problem), memory_(memory)
  {}

  /// Returns what is the best now, whose owners are in `owner`. Where the program of all samples has
  /// prices, these are their worths.
  [[nodiscard]] packed_bins operator()(packed_bins best, std::span<bag_id> owner,
                                       sample_worths& worths, work_budget& steps)
  {
    auto const& order = problem_.heaviest_first;
    auto scratch = memory_.open();
    std::int64_t const unit = unit_of_weights();
    std::int64_t const capacity = problem_.capacity / unit;
    std::span<priced_sample> const samples = scratch.take<priced_sample>(order.size());
    std::size_t count = 0;
    for (priced_sample const each : order) {
      if (each.cost == 0) { break; }
      samples[count++] = {(each.cost - 1) / unit + 1, each.sample};
    }
    if (count == 0 || count > weight_kinds::most_samples) { return best; }
    // Those that no other fits beside, and those of which the unit says so.
    std::size_t const alone = count_alone(order.first(count), problem_.capacity);
    std::size_t bins = count_alone(samples.first(count), capacity);
    std::span<bag_id> const found = scratch.take<bag_id>(owner.size());
    std::fill(found.begin(), found.end(), no_bin);
    for (std::size_t place = 0; place < bins; ++place) {
      found[to_index(samples[place].sample)] = to_id<bag_id>(place);
    }
    std::span<priced_sample> rest = samples.subspan(bins, count - bins);
    samples_by_weight waiting(capacity, rest, owner.size(), scratch);
    pattern_filling fill(waiting, capacity, found);
    kind_program program(most_kinds, scratch);
    weight_kinds kinds(most_kinds, scratch);

    for (int round = 0; round < most_rounds && rest.size() >= least_samples; ++round) {
      kinds.list(rest, capacity, unit == 1);
      std::size_t const known =
          round == 0 ? best.lower_bound - std::min(best.lower_bound, bins) : 1;
      work_budget mine(steps.left() / 4);
      std::uint64_t const before = mine.left();
      bool const has_plan = program.solve(kinds, rest.size(), known, mine);
      steps.spend(before - mine.left());
      if (!has_plan) { break; }
      if (round == 0) {
        auto frame = memory_.open();
        worths.bin = std::int64_t{1} << 30;
        std::fill(worths.of.begin(), worths.of.end(), 0);
        for (priced_sample const each : order.first(alone)) {
          worths.of[to_index(each.sample)] = worths.bin;
        }
        best.lower_bound =
            std::max(best.lower_bound,
                     alone + kinds.bound(order.subspan(alone, count - alone), problem_.capacity,
                                         program.prices(), worths, frame));
        if (best.lower_bound >= best.bins) { return best; }
      }
      std::size_t const bins_before = bins;
      program.for_each_pattern([&](std::span<pattern_entry const> pattern, std::size_t times) {
        for (; times > 0; --times) {
          if (fill(pattern, kinds.all(), to_id<bag_id>(bins)) == 0) { return; }
          ++bins;
        }
      });
      if (bins == bins_before) { break; }
      auto const end = std::remove_if(rest.begin(), rest.end(), [&](priced_sample const& each) {
        return found[to_index(each.sample)] != no_bin;
      });
      rest = rest.first(static_cast<std::size_t>(end - rest.begin()));
    }
    bins += pack_rest(rest, capacity, found, bins);
    if (bins >= best.bins) { return best; }
    for (std::size_t sample = 0; sample < owner.size(); ++sample) {
      owner[sample] = found[sample] == no_bin ? bag_id{0} : found[sample];
    }
    best.bins = bins;
    return best;
  }

 private:
  static constexpr std::size_t least_capacity = std::size_t{1} << 14;
  static constexpr std::size_t most_capacity = std::size_t{1} << 17;
  static constexpr std::size_t most_kinds = 128;
  static constexpr std::size_t least_samples = 32;
  static constexpr int most_rounds = 4;
  static constexpr bag_id no_bin{~std::uint32_t{0}};

  /// How many samples are too heavy for the lightest beside them.
  [[nodiscard]] static std::size_t count_alone(std::span<priced_sample const> samples,
                                               std::int64_t capacity) noexcept
  {
    std::int64_t const most = capacity - samples.back().cost;
    auto const other =
        std::find_if(samples.begin(), samples.end(),
                     [most](priced_sample const& each) { return each.cost <= most; });
    return static_cast<std::size_t>(other - samples.begin());
  }

  /// In what weights are counted, rounded up, so that what fits does: a unit so large that pairs of
  /// samples often fill a room to the unit; 1 where the weights are few.
  [[nodiscard]] std::int64_t unit_of_weights() const noexcept
  {
    auto const& order = problem_.heaviest_first;
    std::size_t kinds = 0;
    for (std::size_t place = 1; place < order.size() && kinds <= most_kinds; ++place) {
      kinds += order[place].cost != order[place - 1].cost ? 1U : 0U;
    }
    auto const most = static_cast<std::int64_t>(
        std::clamp(std::bit_ceil(8 * order.size()), least_capacity, most_capacity));
    bool const are_few = kinds < most_kinds && problem_.capacity <= bins_by_room::largest_capacity;
    return are_few || problem_.capacity <= most ? 1 : problem_.capacity / most + 1;
  }

  /// By best fit and by exact fills. Returns with how many bins.
  std::size_t pack_rest(std::span<priced_sample const> rest, std::int64_t capacity,
                        std::span<bag_id> found, std::size_t bins)
  {
    auto scratch = memory_.open();
    std::span<std::int64_t> const weights = scratch.take<std::int64_t>(rest.size());
    std::span<priced_sample> const order = scratch.take<priced_sample>(rest.size());
    std::span<bag_id> const owner = scratch.take<bag_id>(rest.size());
    for (std::size_t place = 0; place < rest.size(); ++place) {
      weights[place] = rest[place].cost;
      order[place] = {rest[place].cost, to_id<sample_id>(place)};
    }
    std::size_t const more = fewest_bins_of{best_fit_decreasing{}, minimum_bin_slack{}}(
                                 {weights, order, capacity}, owner, memory_)
                                 .bins;
    for (std::size_t place = 0; place < rest.size(); ++place) {
      found[to_index(rest[place].sample)] = to_id<bag_id>(bins + to_index(owner[place]));
    }
    return more;
  }

  packing_problem const& problem_;
  workspace& memory_;
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARTITION_PACKING_DETAIL_PATTERN_BINS_HPP
