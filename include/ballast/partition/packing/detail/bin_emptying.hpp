// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_PACKING_DETAIL_BIN_EMPTYING_HPP
#define BALLAST_PARTITION_PACKING_DETAIL_BIN_EMPTYING_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/core/random.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/partition/detail/patterns/pattern_packing.hpp>
#include <ballast/partition/detail/search/bag_completion.hpp>
#include <ballast/partition/packing/concepts.hpp>
#include <ballast/partition/packing/detail/sample_worths.hpp>
#include <ballast/partition/priced_sample.hpp>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <span>

namespace ballast::inline v0::detail {

/// Takes some bins, those worth least first, and packs their samples into one bin less, over
/// and over: by bag completion, and where that stands still by the linear program over patterns and
/// a dive (`pattern_packing`). If the bins are all there are and one less is impossible, that is a
/// proof.
///
/// Expects     at most most_bins(capacity); of more, `bin_pool` takes those worth least
/// Complexity  that of these, within `steps`, and O(n + b log b) for each attempt; some 10 MB of
///             scratch.
class bin_emptying {
 public:
  /// So few that what they hold together fits 63 bits.
  [[nodiscard]] static constexpr std::size_t most_bins(std::int64_t capacity) noexcept
  {
    constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
    return static_cast<std::size_t>(
        std::clamp<std::int64_t>(most / std::max<std::int64_t>(capacity, 1), 1, 256));
  }

  bin_emptying(packing_problem const& problem, sample_worths const& worths, workspace& memory)
      : problem_(problem), worths_(worths), memory_(memory)
  {}

  /// Returns what is the best now, whose owners are in `owner`.
  [[nodiscard]] packed_bins operator()(packed_bins best, std::span<bag_id> owner,
                                       work_budget& steps)
  {
    if (best.bins > most_bins(problem_.capacity)) { return best; }
    auto scratch = memory_.open();
    std::span<tokens> const lengths = scratch.take<tokens>(owner.size());
    std::fill(lengths.begin(), lengths.end(), 0);  // bags of one GPU take every sample
    std::span<open_bag> const bags = scratch.take<open_bag>(best.bins);
    for (std::size_t bag = 0; bag < bags.size(); ++bag) {
      bags[bag] = {problem_.capacity, 1, static_cast<std::uint32_t>(bag)};
    }
    std::size_t const most = std::min(most_samples, owner.size());
    samples_ = scratch.take<priced_sample>(most);
    worth_ = scratch.take<std::int64_t>(best.bins);
    order_ = scratch.take<std::uint32_t>(best.bins);
    held_ = scratch.take<std::uint32_t>(best.bins);
    place_ = scratch.take<std::uint32_t>(best.bins);
    bag_completion complete(most, lengths, bags.size(), scratch);
    auto const rooms = static_cast<std::size_t>(std::min(problem_.capacity, most_room)) + 1;
    pattern_packing pack(most, most, std::min(table, std::bit_ceil((most + 1) * rooms)), complete,
                         scratch);
    random_source random(1);

    std::size_t chosen = first_chosen;
    int failed = 0;
    while (best.bins > best.lower_bound && !steps.spent() && failed < most_failed) {
      list_bins(best.bins, owner);
      // The cheapest, and where these failed some that are drawn.
      for (std::size_t at = chosen / 2; failed >= sizes && at < chosen && at < best.bins; ++at) {
        std::swap(order_[at], order_[at + random.below(best.bins - at)]);
      }
      std::size_t const taken = collect(chosen, best.bins, owner);
      steps.spend(owner.size() + 16 * best.bins);
      std::int64_t lacking = 0;
      for (std::uint32_t const bin : order_.first(taken)) { lacking += worths_.bin - worth_[bin]; }
      completion end = completion::out_of_nodes;
      if (taken > 1 && count_ > 0 && lacking >= worths_.bin) {
        work_budget few(std::min(steps.left(), completion_nodes));
        end = complete(samples_.first(count_), bags.first(taken - 1), few);
        steps.spend(completion_nodes - few.left());
        std::span<std::uint32_t const> owners = complete.owners();
        if (end == completion::out_of_nodes) {
          work_budget more(std::min(steps.left(), pattern_nodes));
          std::uint64_t const before = more.left();
          end = pack(samples_.first(count_), bags.first(taken - 1), more);
          owners = pack.owners();
          steps.spend(before - more.left());
        }
        if (end == completion::found) { best.bins -= replace(taken, owners, best.bins, owner); }
      }
      if (end == completion::found) {
        failed = 0;
        chosen = first_chosen;
        continue;
      }
      if (taken == best.bins) {
        if (end == completion::impossible) { best.lower_bound = best.bins; }
        break;
      }
      ++failed;
      chosen += chosen / 2;
      if (chosen > most_chosen) {
        chosen = problem_.heaviest_first.size() <= most_samples ? best.bins : most_chosen;
      }
    }
    return best;
  }

 private:
  static constexpr std::size_t most_samples = 240;
  static constexpr std::size_t table = std::size_t{1} << 21;
  static constexpr std::int64_t most_room = table;
  static constexpr std::uint64_t completion_nodes = std::uint64_t{1} << 14;
  static constexpr std::uint64_t pattern_nodes = std::uint64_t{1} << 21;
  static constexpr std::size_t first_chosen = 12;
  static constexpr std::size_t most_chosen = 64;
  static constexpr int sizes = 5;
  static constexpr int most_failed = 8;

  /// Bins by what their samples are worth, the least first.
  void list_bins(std::size_t bins, std::span<bag_id const> owner)
  {
    std::fill_n(worth_.begin(), bins, 0);
    std::fill_n(held_.begin(), bins, std::uint32_t{0});
    for (auto const [weight, sample] : problem_.heaviest_first) {
      if (weight == 0) { break; }
      worth_[to_index(owner[to_index(sample)])] += worths_.of[to_index(sample)];
      ++held_[to_index(owner[to_index(sample)])];
    }
    std::iota(order_.begin(), order_.begin() + static_cast<std::ptrdiff_t>(bins), std::uint32_t{0});
    std::sort(order_.begin(), order_.begin() + static_cast<std::ptrdiff_t>(bins),
              [this](std::uint32_t a, std::uint32_t b) {
                return worth_[a] < worth_[b] || (worth_[a] == worth_[b] && a < b);
              });
  }

  /// Lists the samples of the first `chosen` bins, or fewer. Returns of how many bins.
  std::size_t collect(std::size_t chosen, std::size_t bins, std::span<bag_id const> owner)
  {
    std::fill_n(place_.begin(), bins, not_taken);
    std::size_t taken = 0;
    std::size_t samples = 0;
    while (taken < bins && taken < chosen && samples + held_[order_[taken]] <= most_samples) {
      samples += held_[order_[taken]];
      place_[order_[taken]] = static_cast<std::uint32_t>(taken);
      ++taken;
    }
    count_ = 0;
    for (auto const [weight, sample] : problem_.heaviest_first) {
      if (weight == 0) { break; }
      if (place_[to_index(owner[to_index(sample)])] != not_taken) {
        samples_[count_++] = {weight, sample};
      }
    }
    return taken;
  }

  /// Gives the samples listed their bins, and bins that hold samples the first numbers. Samples of
  /// no weight that lose their bin go to the first. Returns how many bins are empty now.
  std::size_t replace(std::size_t taken, std::span<std::uint32_t const> owners, std::size_t bins,
                      std::span<bag_id> owner)
  {
    for (std::uint32_t const bin : order_.first(taken)) { held_[bin] = 0; }
    for (std::size_t at = 0; at < count_; ++at) {
      std::uint32_t const bin = order_[owners[at]];
      owner[to_index(samples_[at].sample)] = bag_id{bin};
      ++held_[bin];
    }
    std::uint32_t left = 0;
    for (std::size_t bin = 0; bin < bins; ++bin) { place_[bin] = held_[bin] > 0 ? left++ : 0; }
    for (bag_id& bin : owner) { bin = bag_id{place_[to_index(bin)]}; }
    return bins - left;
  }

  static constexpr std::uint32_t not_taken = ~std::uint32_t{0};

  packing_problem const& problem_;
  sample_worths worths_;
  workspace& memory_;
  std::span<priced_sample> samples_;  // of the bins taken
  std::size_t count_ = 0;
  std::span<std::int64_t> worth_;  // of what is in the bins
  std::span<std::uint32_t> held_;  // how many samples each has
  std::span<std::uint32_t> order_;
  std::span<std::uint32_t> place_;  // in order_, of the bins taken
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARTITION_PACKING_DETAIL_BIN_EMPTYING_HPP
