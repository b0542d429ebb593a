// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/partition/descending_order.hpp>
#include <ballast/partition/detail/patterns/pattern_packing.hpp>
#include <ballast/partition/packing/detail/pattern_bins.hpp>

namespace ballast::inline v0::detail {

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
  std::span<cost_units> const weights = scratch.take<cost_units>(owner.size());
  std::transform(problem.heaviest_first.begin(), problem.heaviest_first.end(), weights.begin(),
                 [](auto const& each) { return each.cost; });
  best.lower_bound = dual_feasible_bound(weights, problem.capacity, degree, best.lower_bound);
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
