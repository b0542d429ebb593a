// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_DETAIL_PATTERNS_UNFILLED_SAMPLES_HPP
#define BALLAST_PARTITION_DETAIL_PATTERNS_UNFILLED_SAMPLES_HPP

#include <ballast/core/workspace.hpp>
#include <ballast/partition/priced_sample.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

namespace ballast::inline v0::detail {

/// The samples that the first bags of a plan leave, for another search to fill the bags after them.
///
/// Shapes      samples and owners: one per place; an owner is the position of a bag, or larger.
/// Complexity  O(samples); 20 bytes of scratch for each.
class unfilled_samples {
 public:
  unfilled_samples(std::size_t most_samples, workspace::frame& scratch)
      : samples_(scratch.take<priced_sample>(most_samples)),
        places_(scratch.take<std::uint32_t>(most_samples))
  {}

  /// Those that are in none of the first `kept` bags, in their order.
  [[nodiscard]] std::span<priced_sample const> list(std::span<priced_sample const> samples,
                                                    std::span<std::uint32_t const> owners,
                                                    std::size_t kept) noexcept
  {
    kept_ = static_cast<std::uint32_t>(kept);
    count_ = 0;
    for (std::uint32_t place = 0; place < samples.size(); ++place) {
      if (owners[place] < kept_) { continue; }
      samples_[count_] = samples[place];
      places_[count_++] = place;
    }
    return samples_.first(count_);
  }

  /// Gives the samples listed last their bags; `found` counts these from the first after those
  /// kept.
  void fill(std::span<std::uint32_t const> found, std::span<std::uint32_t> owners) const noexcept
  {
    for (std::size_t at = 0; at < count_; ++at) { owners[places_[at]] = kept_ + found[at]; }
  }

 private:
  std::span<priced_sample> samples_;
  std::span<std::uint32_t> places_;
  std::size_t count_ = 0;
  std::uint32_t kept_ = 0;
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARTITION_DETAIL_PATTERNS_UNFILLED_SAMPLES_HPP
