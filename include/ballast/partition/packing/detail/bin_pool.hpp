// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_PACKING_DETAIL_BIN_POOL_HPP
#define BALLAST_PARTITION_PACKING_DETAIL_BIN_POOL_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/partition/packing/concepts.hpp>
#include <ballast/partition/packing/detail/sample_worths.hpp>
#include <ballast/partition/priced_sample.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>

namespace ballast::inline v0::detail {

/// The samples of some bins as a packing problem of its own, and its packing put back.
///
/// Ensures     (1) put_back: no other sample changes its bin but for the number of that bin, which
///                 becomes that of one that is empty now
/// Complexity  O(n + bins), O(bins log bins) for the cheapest; 40 bytes of scratch per sample, 16
///             per bin.
class bin_pool {
 public:
  bin_pool(packing_problem const& problem, sample_worths const& worths, std::size_t bins,
           std::span<bag_id> owner, workspace::frame& scratch)
      : problem_(problem),
        all_worths_(worths),
        owner_(owner),
        bins_(bins),
        chosen_(scratch.take<std::uint32_t>(bins)),
        place_(scratch.take<std::uint32_t>(bins)),
        worth_(scratch.take<std::int64_t>(bins)),
        samples_(scratch.take<sample_id>(owner.size())),
        weights_(scratch.take<std::int64_t>(owner.size())),
        worths_(scratch.take<std::int64_t>(owner.size())),
        order_(scratch.take<priced_sample>(owner.size())),
        owners_(scratch.take<bag_id>(owner.size()))
  {}

  /// The bins whose samples are worth least, at most so many of them.
  void choose_cheapest(std::size_t most)
  {
    std::fill(worth_.begin(), worth_.end(), 0);
    for (std::size_t sample = 0; sample < owner_.size(); ++sample) {
      worth_[to_index(owner_[sample])] += all_worths_.of[sample];
    }
    std::iota(chosen_.begin(), chosen_.end(), std::uint32_t{0});
    count_ = std::min(most, bins_);
    std::partial_sort(chosen_.begin(), chosen_.begin() + static_cast<std::ptrdiff_t>(count_),
                      chosen_.end(), [this](std::uint32_t a, std::uint32_t b) {
                        return worth_[a] < worth_[b] || (worth_[a] == worth_[b] && a < b);
                      });
    std::fill(place_.begin(), place_.end(), not_chosen);
    for (std::uint32_t at = 0; at < count_; ++at) { place_[chosen_[at]] = at; }
    sample_count_ = 0;
    for (auto const [weight, sample] : problem_.heaviest_first) {
      std::uint32_t const at = place_[to_index(owner_[to_index(sample)])];
      if (at == not_chosen) { continue; }
      samples_[sample_count_] = sample;
      weights_[sample_count_] = weight;
      worths_[sample_count_] = all_worths_.of[to_index(sample)];
      order_[sample_count_] = {weight, to_id<sample_id>(sample_count_)};
      owners_[sample_count_] = bag_id{at};
      ++sample_count_;
    }
  }

  [[nodiscard]] packing_problem problem() const noexcept
  {
    return {weights_.first(sample_count_), order_.first(sample_count_), problem_.capacity};
  }
  [[nodiscard]] sample_worths worths() const noexcept
  {
    return {worths_.first(sample_count_), all_worths_.bin};
  }
  [[nodiscard]] std::size_t bins() const noexcept { return count_; }
  [[nodiscard]] std::span<bag_id> owner() const noexcept { return owners_.first(sample_count_); }

  /// Takes over owner(), which fills the first `filled` bins only. Returns how many bins there are
  /// then.
  [[nodiscard]] std::size_t put_back(std::size_t filled)
  {
    for (std::size_t at = 0; at < sample_count_; ++at) {
      owner_[to_index(samples_[at])] = bag_id{chosen_[to_index(owners_[at])]};
    }
    std::size_t const left = bins_ - (count_ - filled);
    // Bins above the new number move to the empty ones below it.
    std::iota(place_.begin(), place_.end(), std::uint32_t{0});
    for (std::uint32_t const empty : chosen_.subspan(filled, count_ - filled)) {
      place_[empty] = not_chosen;
    }
    std::size_t from = left;
    for (std::uint32_t const empty : chosen_.subspan(filled, count_ - filled)) {
      if (empty >= left) { continue; }
      while (place_[from] == not_chosen) { ++from; }
      place_[from++] = empty;
    }
    for (bag_id& bin : owner_) { bin = bag_id{place_[to_index(bin)]}; }
    bins_ = left;
    chosen_ = chosen_.first(left);
    place_ = place_.first(left);
    worth_ = worth_.first(left);
    return left;
  }

 private:
  static constexpr std::uint32_t not_chosen = ~std::uint32_t{0};

  packing_problem const& problem_;
  sample_worths const& all_worths_;
  std::span<bag_id> owner_;
  std::size_t bins_;
  std::span<std::uint32_t> chosen_;
  std::span<std::uint32_t> place_;  // of each bin in chosen_; then its new number
  std::span<std::int64_t> worth_;
  std::span<sample_id> samples_;  // of the bins chosen, heaviest first
  std::span<std::int64_t> weights_;
  std::span<std::int64_t> worths_;
  std::span<priced_sample> order_;
  std::span<bag_id> owners_;
  std::size_t count_ = 0;
  std::size_t sample_count_ = 0;
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARTITION_PACKING_DETAIL_BIN_POOL_HPP
