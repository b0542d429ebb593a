// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_RUNTIME_DETAIL_DATA_LOAD_RATES_HPP
#define BALLAST_RUNTIME_DETAIL_DATA_LOAD_RATES_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/runtime/data/producer_count.hpp>

#include <chrono>
#include <cstddef>

namespace ballast::inline v0::detail {

/// How long samples take to load and steps to compute, and how many loaders that asks for.
class load_rates {
 public:
  load_rates(std::size_t least, std::size_t most) : count_(least, most) {}

  /// A loader took so long for a sample. Recent ones count most.
  void loaded(std::chrono::nanoseconds took)
  {
    loading_ = loading_.count() == 0 ? took : loading_ + (took - loading_) / 8;
  }
  /// A rank computed for so long between two steps.
  void computed(std::chrono::nanoseconds took) { computing_ += took; }

  /// All ranks have taken a step.
  void stepped(std::size_t step_samples, std::size_t ranks)
  {
    count_.after(loading_.count() * static_cast<time_units>(step_samples),
                 computing_.count() / static_cast<time_units>(ranks));
    computing_ = {};
  }

  [[nodiscard]] std::size_t loaders() const { return count_.now(); }

 private:
  producer_count count_;
  std::chrono::nanoseconds loading_ = {};    // of a sample
  std::chrono::nanoseconds computing_ = {};  // of all ranks, since the last step
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_RUNTIME_DETAIL_DATA_LOAD_RATES_HPP
