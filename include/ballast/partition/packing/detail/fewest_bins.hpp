// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/partition/descending_order.hpp>
#include <ballast/partition/detail/patterns/column_generation.hpp>
#include <ballast/partition/detail/patterns/pattern_packing.hpp>
#include <ballast/partition/packing/detail/bin_starts.hpp>

namespace ballast::inline v0::detail {

/// Which weights a kind stands for, and about which weight one of it should have.
struct weight_kind {
  std::int64_t lightest;
  std::int64_t heaviest;
  std::int64_t wanted;
};

/// Samples as few kinds, for a linear program over patterns of what fits a bin.
///
/// Where there are few different weights, each is a kind. Where at most k samples fit a bin and any
/// k - 1 of them do, all costs are less than the weights by some d, and the room by k d: the same
/// sets fit, and the program is smaller.
///
/// Otherwise the kinds are the multiples of C / N, and a sample of a weight between two of them is
/// a part of each, in proportion: then the program with these demands is a relaxation. For, take
/// its prices as a function of the weight that is linear between the multiples, and 0 at 0. If two
/// samples of a bin are between multiples, one can grow as the other shrinks until one of them is
/// at a multiple, and in one of both directions the bin is not worth less. So is a single one,
/// which can shrink, or grow by what is free, of which there is enough, since C is a multiple. So a
/// bin is worth most at multiples, where a small knapsack finds it.
///
/// Complexity  O(n), 36 bytes of scratch per kind, and 1 KB.
/// Source      the function is a dual feasible one in the sense of G. S. Lueker, "Bin Packing with
///             Items Uniformly Distributed over Intervals [a, b]", FOCS 1983.
class weight_kinds {
 public:
  static constexpr int demand_bits = 6;
  static constexpr std::size_t most_samples = std::size_t{1} << 25;
  static constexpr std::size_t most_numbers = std::size_t{1} << 19;

  /// Expects     most >= 30
  weight_kinds(std::size_t most, workspace::frame& scratch)
      : most_(most),
        kinds_(scratch.take<weight_kind>(most)),
        costs_(scratch.take<cost_units>(most)),
        demands_(scratch.take<std::uint32_t>(most)),
        kind_of_(scratch.take<std::uint32_t>(most_parts + 2))
  {}

  /// Expects     samples in descending order of weights between 1 and capacity, at most
  ///             most_samples; capacity at most 2^32; each weight may be a kind only where these
  ///             are the weights that bound() is asked for
  void list(std::span<priced_sample const> samples, std::int64_t capacity, bool are_exact)
  {
    capacity_ = capacity;
    if (!are_exact || !list_weights(samples)) { list_multiples(samples); }
  }

  [[nodiscard]] std::size_t size() const noexcept { return count_; }
  [[nodiscard]] std::span<weight_kind const> all() const noexcept { return kinds_.first(count_); }
  [[nodiscard]] std::span<cost_units const> costs() const noexcept { return costs_.first(count_); }

  /// In 2^-demand_bits of a sample.
  [[nodiscard]] std::span<std::uint32_t const> demands() const noexcept
  {
    return demands_.first(count_);
  }
  [[nodiscard]] cost_units room() const noexcept { return room_; }

  /// A number of bins of this capacity that no packing of the samples gets below, for whatever
  /// prices of the kinds, at most 2^22 each. Writes what these samples are worth then, rounded down.
  ///
  /// Expects     the samples listed, or what they were before they were scaled and rounded
  /// Complexity  O(n + kinds room), 8 bytes of scratch per unit of room.
  [[nodiscard]] std::size_t bound(std::span<priced_sample const> samples, std::int64_t capacity,
                                  std::span<std::int32_t const> prices, sample_worths const& worths,
                                  workspace::frame& scratch) const
  {
    std::span<std::int64_t> const worth = scratch.take<std::int64_t>(cells(room_) + 1);
    std::fill(worth.begin(), worth.end(), 0);
    for (std::size_t kind = 0; kind < count_; ++kind) {
      std::size_t const own = cells(costs_[kind]);
      for (std::size_t at = own; at < worth.size(); ++at) {
        worth[at] = std::max(worth[at], worth[at - own] + prices[kind]);
      }
    }
    if (worth.back() == 0) { return 0; }
    auto const most =
        static_cast<uint128>(worth.back()) * static_cast<uint128>(parts_ > 0 ? capacity : 1);
    uint128 all = 0;
    std::size_t kind = 0;
    for (auto const [weight, sample] : samples) {
      while (parts_ == 0 && kinds_[kind].heaviest > weight) { ++kind; }
      uint128 const own =
          parts_ > 0 ? priced(weight, capacity, prices) : static_cast<uint128>(prices[kind]);
      all += own;
      worths.of[to_index(sample)] =
          static_cast<std::int64_t>(own * static_cast<uint128>(worths.bin) / most);
    }
    return static_cast<std::size_t>((all + most - 1) / most);
  }

 private:
  static constexpr std::int64_t most_parts = 240;
  static constexpr std::size_t most_items = 500;  // of each kind, as many as fit a bin
  static constexpr std::uint32_t no_kind = ~std::uint32_t{0};

  bool list_weights(std::span<priced_sample const> samples)
  {
    parts_ = 0;
    count_ = 0;
    for (auto const [weight, sample] : samples) {
      if (count_ == 0 || kinds_[count_ - 1].heaviest != weight) {
        if (count_ == most_) { return false; }
        kinds_[count_] = {weight, weight, weight};
        demands_[count_] = 0;
        ++count_;
      }
      demands_[count_ - 1] += std::uint32_t{1} << demand_bits;
    }
    std::int64_t const most = capacity_ / samples.back().cost;
    std::int64_t const less = most_less(samples.front().cost, samples.back().cost, most);
    room_ = capacity_ - most * less;
    std::size_t items = 1;
    for (std::size_t kind = 0; kind < count_; ++kind) {
      costs_[kind] = kinds_[kind].heaviest - less;
      items += cells(room_ / costs_[kind]);
    }
    return items <= most_items && cells(room_) < most_numbers / items;
  }

  /// By how much all weights can be less.
  [[nodiscard]] std::int64_t most_less(std::int64_t heaviest, std::int64_t lightest,
                                       std::int64_t most) const noexcept
  {
    if (most > 1 && heaviest > capacity_ / (most - 1)) { return 0; }
    std::int64_t const spare = capacity_ - (most - 1) * heaviest;
    std::int64_t const beyond = lightest - (capacity_ - most * lightest) - 1;
    return std::max<std::int64_t>(0, std::min({spare, beyond, lightest - 1}));
  }

  void list_multiples(std::span<priced_sample const> samples)
  {
    std::int64_t const spread = samples.front().cost - samples.back().cost + 1;
    auto const wanted = static_cast<std::int64_t>(most_) * 7 / 8;
    parts_ = std::clamp<std::int64_t>(wanted * capacity_ / spread / 12 * 12, 24, most_parts);
    room_ = parts_;
    std::fill(kind_of_.begin(), kind_of_.end(), no_kind);
    count_ = 0;
    constexpr auto whole = std::uint32_t{1} << demand_bits;
    for (auto const [weight, sample] : samples) {
      std::int64_t const below = weight * parts_ / capacity_;
      std::int64_t const beyond = weight * parts_ % capacity_;
      auto const more =
          static_cast<std::uint32_t>(((beyond << demand_bits) + capacity_ / 2) / capacity_);
      if (beyond > 0) { demand(below + 1) += more; }
      if (below > 0) { demand(below) += whole - more; }
    }
    // The program prices what has a demand, and the bound needs prices of all.
    for (std::uint32_t& each : demands_.first(count_)) { each = std::max(each, std::uint32_t{1}); }
  }

  /// Of a multiple, which becomes a kind; asked for in decreasing order but for the last one.
  std::uint32_t& demand(std::int64_t multiple)
  {
    std::uint32_t& kind = kind_of_[static_cast<std::size_t>(multiple)];
    if (kind == no_kind) {
      kind = static_cast<std::uint32_t>(count_++);
      costs_[kind] = multiple;
      demands_[kind] = 0;
      kinds_[kind] = {std::max<std::int64_t>(1, (multiple - 1) * capacity_ / parts_ + 1),
                      std::min(capacity_, ((multiple + 1) * capacity_ - 1) / parts_),
                      std::max<std::int64_t>(1, multiple * capacity_ / parts_)};
    }
    return demands_[kind];
  }

  /// What a sample is worth, times the capacity.
  [[nodiscard]] uint128 priced(std::int64_t weight, std::int64_t capacity,
                               std::span<std::int32_t const> prices) const noexcept
  {
    auto const whole = static_cast<uint128>(capacity);
    uint128 const parts = static_cast<uint128>(weight) * static_cast<uint128>(parts_);
    auto const below = static_cast<std::size_t>(parts / whole);
    uint128 const beyond = parts - below * whole;
    auto const price = [&](std::size_t multiple) -> uint128 {
      std::uint32_t const kind = kind_of_[multiple];
      return kind == no_kind ? 0 : static_cast<uint128>(prices[kind]);
    };
    return (whole - beyond) * price(below) + (beyond > 0 ? beyond * price(below + 1) : 0);
  }

  [[nodiscard]] static constexpr std::size_t cells(cost_units units) noexcept
  {
    return static_cast<std::size_t>(units);
  }

  std::size_t most_;
  std::span<weight_kind> kinds_;  // heaviest first
  std::span<cost_units> costs_;
  std::span<std::uint32_t> demands_;
  std::span<std::uint32_t> kind_of_;  // of multiples
  std::size_t count_ = 0;
  std::int64_t capacity_ = 1;
  std::int64_t parts_ = 0;  // of the capacity; 0 where each weight is a kind
  cost_units room_ = 1;
};

/// Fills bins by patterns of weight kinds: so many samples of each.
///
/// Where a group has several weights, the first sample is the heaviest of its group, the next ones
/// make up for what those before them differ from their means, and the last two are a pair that
/// fills the bin exactly, or nearly. At last the bin takes what still fits, of any kind.
///
/// Ensures     (1) no bin is above the capacity
/// Complexity  O(1) per sample, and for a bin up to 96 words of 64 pairs and those of one sum more.
class pattern_filling {
 public:
  pattern_filling(samples_by_weight& waiting, std::int64_t capacity, std::span<bag_id> owner)
      : waiting_(waiting), capacity_(capacity), owner_(owner)
  {}

  /// Returns how many samples the bin got: none where the kinds lack what the pattern needs.
  [[nodiscard]] std::size_t operator()(std::span<pattern_entry const> pattern,
                                       std::span<weight_kind const> kinds, bag_id bin)
  {
    slots_ = 0;
    for (auto const [kind, times] : pattern) {
      if (times > wanted_.size() - slots_) { return 0; }
      std::fill_n(wanted_.begin() + static_cast<std::ptrdiff_t>(slots_), times, kind);
      slots_ += times;
    }
    room_ = capacity_;
    count_ = 0;
    if (!take_all(kinds)) {
      while (count_ > 0) {
        --count_;
        waiting_.put_back(taken_[count_].weight, taken_[count_].sample);
      }
      return 0;
    }
    for (std::size_t slot = 0; slot < count_; ++slot) {
      owner_[to_index(taken_[slot].sample)] = bin;
    }
    std::size_t placed = count_;
    for (std::int64_t next = next_up_to(room_); next != samples_by_weight::none;
         next = next_up_to(room_)) {
      owner_[to_index(waiting_.take(next))] = bin;
      room_ -= next;
      ++placed;
    }
    return placed;
  }

 private:
  struct taken_sample {
    std::int64_t weight;
    sample_id sample;
  };

  static constexpr std::uint64_t words_per_bin = 96;

  bool take_all(std::span<weight_kind const> kinds)
  {
    std::int64_t missing = 0;  // that those taken weigh less than their means
    for (std::size_t slot = 0; slot + 2 < slots_ || (slots_ == 1 && slot == 0); ++slot) {
      weight_kind const& kind = kinds[wanted_[slot]];
      std::int64_t const wanted =
          slot == 0 ? kind.heaviest
                    : std::clamp(kind.wanted + missing, kind.lightest, kind.heaviest);
      std::int64_t weight = waiting_.heaviest_between(kind.lightest, wanted);
      if (weight == samples_by_weight::none) {
        weight = waiting_.lightest_from(wanted);
        if (weight > kind.heaviest) { return false; }
      }
      if (weight == samples_by_weight::none || weight > room_) { return false; }
      missing += kind.wanted - weight;
      take(weight);
    }
    return slots_ == 1 || take_pair(kinds[wanted_[slots_ - 2]], kinds[wanted_[slots_ - 1]]);
  }

  bool take_pair(weight_kind const& heavy, weight_kind const& light)
  {
    work_budget words(words_per_bin);
    std::int64_t const least = heavy.lightest + light.lightest;
    for (std::int64_t sum = std::min(room_, heavy.heaviest + light.heaviest);
         sum >= least && !words.spent(); --sum) {
      std::int64_t const weight =
          waiting_.first_of_pair(sum, std::max(light.lightest, sum - heavy.heaviest),
                                 std::min(light.heaviest, sum - heavy.lightest), words);
      if (weight == samples_by_weight::none) { continue; }
      take(weight);
      take(sum - weight);
      return true;
    }
    std::int64_t const first =
        waiting_.heaviest_between(heavy.lightest, std::min(heavy.heaviest, room_ - light.lightest));
    if (first == samples_by_weight::none) { return false; }
    take(first);
    std::int64_t const second =
        waiting_.heaviest_between(light.lightest, std::min(light.heaviest, room_));
    if (second == samples_by_weight::none) { return false; }
    take(second);
    return true;
  }

  void take(std::int64_t weight)
  {
    taken_[count_++] = {weight, waiting_.take(weight)};
    room_ -= weight;
  }

  [[nodiscard]] std::int64_t next_up_to(std::int64_t room) const noexcept
  {
    return room > 0 ? waiting_.heaviest_up_to(room) : samples_by_weight::none;
  }

  samples_by_weight& waiting_;
  std::int64_t capacity_;
  std::span<bag_id> owner_;
  std::int64_t room_ = 0;
  std::size_t slots_ = 0;
  std::size_t count_ = 0;
  std::array<std::uint32_t, 64> wanted_{};  // the group of each slot
  std::array<taken_sample, 64> taken_{};
};

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
  pattern_bins(bin_problem const& problem, workspace& memory) : problem_(problem), memory_(memory)
  {}

  /// Returns what is the best now, whose owners are in `owner`. Where the program of all samples has
  /// prices, these are their worths.
  [[nodiscard]] bins_found operator()(bins_found best, std::span<bag_id> owner,
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
    bool const are_few = kinds < most_kinds && problem_.capacity <= bins_by_room::most_lists;
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
    std::size_t const more = first_packing({weights, order, capacity}, owner, memory_).bins;
    for (std::size_t place = 0; place < rest.size(); ++place) {
      found[to_index(rest[place].sample)] = to_id<bag_id>(bins + to_index(owner[place]));
    }
    return more;
  }

  bin_problem const& problem_;
  workspace& memory_;
};

/// Takes the bins whose items are worth least, and packs the items of some of them into one bin less,
/// over and over: by bag completion, and where that stands still by the linear program over patterns
/// and a dive (`pattern_packing`). If these are all bins and one less is impossible, that is a proof.
///
/// Complexity  that of these, within `steps`, and O(n + b log b) for each time that it takes bins;
///             some 10 MB of scratch, and 36 bytes per item and bin.
class bin_emptying {
 public:
  bin_emptying(bin_problem const& problem, sample_worths const& worths, workspace& memory)
      : problem_(problem), worths_(worths), memory_(memory)
  {}

  /// Returns what is the best now, whose owners are in `owner`.
  [[nodiscard]] bins_found operator()(bins_found best, std::span<bag_id> owner, work_budget& steps)
  {
    while (best.bins > best.lower_bound && !steps.spent()) {
      auto scratch = memory_.open();
      steps.spend(8 * owner.size());
      std::size_t const taken = take_cheapest(best.bins, owner, scratch);
      std::size_t const most_less = best.bins - best.lower_bound;
      bins_found const left = empty_some({taken, taken - std::min(taken, most_less)}, steps);
      bool const has_all = taken == best.bins;
      best.bins = put_back(best.bins, taken, left.bins, owner);
      if (has_all) { best.lower_bound = std::max(best.lower_bound, left.lower_bound); }
      if (has_all || left.bins == taken) { break; }
    }
    return best;
  }

 private:
  static constexpr std::size_t most_items = 240;
  static constexpr std::size_t table = std::size_t{1} << 21;
  static constexpr std::int64_t most_room = table;
  static constexpr std::uint64_t completion_nodes = std::uint64_t{1} << 14;
  static constexpr std::uint64_t pattern_nodes = std::uint64_t{1} << 21;
  static constexpr std::size_t first_chosen = 12;
  static constexpr std::size_t most_chosen = 64;
  static constexpr int sizes = 5;
  static constexpr int most_failed = 8;
  static constexpr std::uint32_t none = ~std::uint32_t{0};

  /// Bins by what is in them, the `count` of least worth first.
  void sort_by_worth(std::span<std::uint32_t> order, std::size_t count)
  {
    std::iota(order.begin(), order.end(), std::uint32_t{0});
    std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(count),
                      order.end(), [this](std::uint32_t a, std::uint32_t b) {
                        return worth_[a] < worth_[b] || (worth_[a] == worth_[b] && a < b);
                      });
  }

  /// Takes the cheapest bins and their items: so few that what they hold together fits 63 bits.
  std::size_t take_cheapest(std::size_t bins, std::span<bag_id const> owner,
                            workspace::frame& scratch)
  {
    constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
    std::size_t const count =
        std::min(bins, static_cast<std::size_t>(std::clamp<std::int64_t>(
                           most / std::max<std::int64_t>(problem_.capacity, 1), 1, 256)));
    worth_ = scratch.take<std::int64_t>(bins);
    taken_ = scratch.take<std::uint32_t>(bins);
    place_ = scratch.take<std::uint32_t>(bins);
    order_ = scratch.take<std::uint32_t>(bins);
    held_ = scratch.take<std::uint32_t>(bins);
    items_ = scratch.take<priced_sample>(owner.size());
    bin_of_ = scratch.take<std::uint32_t>(owner.size());
    std::fill(worth_.begin(), worth_.end(), 0);
    for (std::size_t item = 0; item < owner.size(); ++item) {
      worth_[to_index(owner[item])] += worths_.of[item];
    }
    sort_by_worth(taken_, count);
    std::fill(place_.begin(), place_.end(), none);
    for (std::uint32_t at = 0; at < count; ++at) { place_[taken_[at]] = at; }
    std::size_t found = 0;
    for (auto const& each : problem_.heaviest_first) {
      std::uint32_t const at = place_[to_index(owner[to_index(each.sample)])];
      if (each.cost == 0) { break; }
      if (at == none) { continue; }
      items_[found] = each;
      bin_of_[found++] = at;
    }
    items_ = items_.first(found);
    return count;
  }

  /// Of the bins taken, makes fewer, down to the lower bound.
  [[nodiscard]] bins_found empty_some(bins_found best, work_budget& steps)
  {
    auto scratch = memory_.open();
    std::span<tokens> const lengths = scratch.take<tokens>(problem_.weights.size());
    std::fill(lengths.begin(), lengths.end(), 0);  // bags of one GPU take every item
    std::span<open_bag> const bags = scratch.take<open_bag>(best.bins);
    for (std::size_t bag = 0; bag < bags.size(); ++bag) {
      bags[bag] = {problem_.capacity, 1, static_cast<std::uint32_t>(bag)};
    }
    std::size_t const most = std::min(most_items, problem_.weights.size());
    chosen_ = scratch.take<priced_sample>(most);
    chosen_at_ = scratch.take<std::uint32_t>(most);
    bag_completion complete(most, lengths, bags.size(), scratch);
    auto const rooms = static_cast<std::size_t>(std::min(problem_.capacity, most_room)) + 1;
    pattern_packing pack(most, most, std::min(table, std::bit_ceil((most + 1) * rooms)), complete,
                         scratch);
    random_source random(1);

    std::size_t wanted = first_chosen;
    int failed = 0;
    while (best.bins > best.lower_bound && !steps.spent() && failed < most_failed) {
      list_bins(best.bins);
      // The cheapest, and where these failed some that are drawn.
      for (std::size_t at = wanted / 2; failed >= sizes && at < wanted && at < best.bins; ++at) {
        std::swap(order_[at], order_[at + random.below(best.bins - at)]);
      }
      std::size_t const bins = choose(wanted, best.bins);
      steps.spend(items_.size() + 16 * best.bins);
      std::int64_t lacking = 0;
      for (std::uint32_t const bin : order_.first(bins)) { lacking += worths_.bin - worth_[bin]; }
      completion end = completion::out_of_nodes;
      std::span<priced_sample const> const items = chosen_.first(chosen_count_);
      if (bins > 1 && !items.empty() && lacking >= worths_.bin) {
        work_budget few(std::min(steps.left(), completion_nodes));
        end = complete(items, bags.first(bins - 1), few);
        steps.spend(completion_nodes - few.left());
        std::span<std::uint32_t const> owners = complete.owners();
        if (end == completion::out_of_nodes) {
          work_budget more(std::min(steps.left(), pattern_nodes));
          std::uint64_t const before = more.left();
          end = pack(items, bags.first(bins - 1), more);
          owners = pack.owners();
          steps.spend(before - more.left());
        }
        if (end == completion::found) { best.bins = replace(owners, best.bins); }
      }
      if (end == completion::found) {
        failed = 0;
        wanted = first_chosen;
        continue;
      }
      if (bins == best.bins) {
        if (end == completion::impossible) { best.lower_bound = best.bins; }
        break;
      }
      ++failed;
      wanted += wanted / 2;
      if (wanted > most_chosen) { wanted = items_.size() <= most_items ? best.bins : most_chosen; }
    }
    return best;
  }

  void list_bins(std::size_t bins)
  {
    std::fill_n(worth_.begin(), bins, 0);
    std::fill_n(held_.begin(), bins, std::uint32_t{0});
    for (std::size_t at = 0; at < items_.size(); ++at) {
      worth_[bin_of_[at]] += worths_.of[to_index(items_[at].sample)];
      ++held_[bin_of_[at]];
    }
    sort_by_worth(order_.first(bins), bins);
  }

  /// Lists the items of the first `wanted` bins, or fewer. Returns of how many bins.
  std::size_t choose(std::size_t wanted, std::size_t bins)
  {
    std::size_t count = 0;
    std::size_t items = 0;
    while (count < bins && count < wanted && items + held_[order_[count]] <= most_items) {
      items += held_[order_[count++]];
    }
    std::fill_n(held_.begin(), bins, 0U);  // from here on whether a bin is chosen
    for (std::uint32_t const bin : order_.first(count)) { held_[bin] = 1; }
    chosen_count_ = 0;
    for (std::uint32_t at = 0; at < items_.size(); ++at) {
      if (held_[bin_of_[at]] == 0) { continue; }
      chosen_at_[chosen_count_] = at;
      chosen_[chosen_count_++] = items_[at];
    }
    return count;
  }

  /// Gives the items chosen their bins. Returns how many bins hold items, the first numbers.
  std::size_t replace(std::span<std::uint32_t const> owners, std::size_t bins)
  {
    std::fill_n(held_.begin(), bins, std::uint32_t{0});
    for (std::size_t at = 0; at < chosen_count_; ++at) {
      bin_of_[chosen_at_[at]] = order_[owners[at]];
    }
    for (std::size_t at = 0; at < items_.size(); ++at) { held_[bin_of_[at]] = 1; }
    std::uint32_t left = 0;
    for (std::uint32_t& bin : held_.first(bins)) { bin = bin > 0 ? left++ : 0; }
    for (std::size_t at = 0; at < items_.size(); ++at) { bin_of_[at] = held_[bin_of_[at]]; }
    return left;
  }

  /// Writes the bins of all items, of which those of no weight may have lost theirs. Bins above the
  /// new number take the numbers of those that are empty. Returns how many there are.
  [[nodiscard]] std::size_t put_back(std::size_t bins, std::size_t taken, std::size_t filled,
                                     std::span<bag_id> owner)
  {
    std::size_t const left = bins - (taken - filled);
    for (bag_id& bin : owner) {
      if (place_[to_index(bin)] != none) { bin = bag_id{taken_[0]}; }
    }
    for (std::size_t at = 0; at < items_.size(); ++at) {
      owner[to_index(items_[at].sample)] = bag_id{taken_[bin_of_[at]]};
    }
    std::iota(place_.begin(), place_.end(), std::uint32_t{0});
    std::span<std::uint32_t const> const emptied = taken_.subspan(filled, taken - filled);
    for (std::uint32_t const bin : emptied) { place_[bin] = none; }
    std::size_t from = left;
    for (std::uint32_t const bin : emptied) {
      if (bin >= left) { continue; }
      while (place_[from] == none) { ++from; }
      place_[from++] = bin;
    }
    for (bag_id& bin : owner) { bin = bag_id{place_[to_index(bin)]}; }
    return left;
  }

  bin_problem const& problem_;
  sample_worths worths_;
  workspace& memory_;
  std::span<std::uint32_t> taken_;   // the cheapest bins first
  std::span<std::uint32_t> place_;   // of each bin in taken_; then its new number
  std::span<priced_sample> items_;   // of the bins taken, heaviest first
  std::span<std::uint32_t> bin_of_;  // of these items, as a place in taken_
  std::span<std::int64_t> worth_;
  std::span<std::uint32_t> held_;
  std::span<std::uint32_t> order_;  // places in taken_, by worth
  std::span<priced_sample> chosen_;
  std::span<std::uint32_t> chosen_at_;  // in items_
  std::size_t chosen_count_ = 0;
};

/// The better of the first packings and, where that is not proven to have the fewest bins, a better
/// bound and a search for fewer.
///
/// The bounds are those of dual feasible functions and of the linear program over patterns of
/// weights. The search fills bins by the patterns of that program, and then packs the bins whose
/// items have the least prices there into one less, over and over, until the work is spent.
///
/// Shapes      all_weights[n], owner[n].
/// Expects     weights are not negative, none is above capacity, and they add up to less than 2^63.
/// Ensures     (1) every item has one bin, no bin holds more than the capacity, none is empty
///             (2) no more bins than best fit, and up to a capacity of 2^22 than exact fills
///             (3) the packing depends on nothing but the arguments
/// Complexity  O(n), and some few nanoseconds for each unit of work, of which a step of at most 240
///             items has four times as many, and large ones more; some 100 bytes of scratch per item
///             and 12 MB.
/// Source      P. C. Gilmore, R. E. Gomory, "A Linear Programming Approach to the Cutting-Stock
///             Problem", Operations Research 9(6):849-859, 1961; S. P. Fekete, J. Schepers, "New
///             Classes of Fast Lower Bounds for Bin Packing Problems", Mathematical Programming
///             91(1):11-31, 2001.
[[nodiscard]] inline bins_found fewest_bins(std::span<std::int64_t const> all_weights,
                                            std::int64_t capacity, std::uint64_t work,
                                            std::span<bag_id> owner, workspace& memory)
{
  constexpr unsigned degree = 5;
  constexpr std::size_t few = 240;  // for which a proof of one program is in reach
  auto scratch = memory.open();
  std::span<priced_sample> const order = scratch.take<priced_sample>(owner.size());
  descending_order_into(order, all_weights, memory);
  bin_problem const problem{all_weights, order, capacity};
  bins_found best = first_packing(problem, owner, memory);
  if (best.bins == best.lower_bound) { return best; }
  best.lower_bound = std::max(best.lower_bound, least_bins(order, problem.capacity, degree));
  if (best.bins == best.lower_bound) { return best; }
  constexpr std::uint64_t most = std::uint64_t{1} << 60;
  work = std::min(work, most);
  // 48 an item where the work is 2^21.
  auto const of_items = static_cast<std::uint64_t>(
      std::min<uint128>((uint128{work} * 48 * owner.size()) >> 21U, most));
  work_budget left((owner.size() <= few ? 4 : 1) * work + of_items);
  sample_worths worths{scratch.take<std::int64_t>(owner.size()), problem.capacity};
  std::copy(problem.weights.begin(), problem.weights.end(), worths.of.begin());
  best = pattern_bins(problem, memory)(best, owner, worths, left);

  return bin_emptying(problem, worths, memory)(best, owner, left);
}

}  // namespace ballast::inline v0::detail
