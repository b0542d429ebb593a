// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARALLELISM_DETAIL_STAGE_TIMES_HPP
#define BALLAST_PARALLELISM_DETAIL_STAGE_TIMES_HPP

#include <ballast/core/detail/span_of.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/core/uint128.hpp>
#include <ballast/cost/flops.hpp>
#include <ballast/cost/module_profile.hpp>
#include <ballast/cost/saturating_sum.hpp>
#include <ballast/parallelism/detail/divided_up.hpp>
#include <ballast/parallelism/layout_problem.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace ballast::inline v0::detail {

/// The work of `batch` copies of a sample, rounded up to whole FLOP after it is divided by `parts`.
struct batch_work {
  uint128 linear;
  uint128 attention;

  batch_work(flop_polynomial flops, tokens size, std::uint32_t batch, std::uint64_t parts) noexcept
  {
    constexpr uint128 most = ~uint128{0};
    auto const length = static_cast<uint128>(size);
    uint128 const pairs = flops.quadratic * (length * length);  // below 2^126
    linear = divided_up(flops.linear * length * batch, parts);
    attention = pairs > most / batch ? most : divided_up(pairs * batch, parts);
  }
};

/// How long one GPU of a group computes a microbatch, if the module is a single stage: for each
/// sample of which the microbatch has copies.
///
/// A global batch is divided into `parts` microbatches, of all replicas together, which need not be
/// whole numbers of samples.
///
/// Units       picoseconds, rounded to nearest; no_cost where they do not fit.
/// Complexity  of(): O(samples measurements) for the first call with these arguments, then O(1).
class stage_times {
 public:
  explicit stage_times(layout_problem const& problem)
      : modules_(problem.modules), batch_(problem.global_batch), overflow_(problem.modules.size())
  {
    std::size_t const modules = modules_.size();
    std::size_t const samples = problem.samples();
    bool const mean = problem.estimate == step_estimate::mean_sample;
    samples_ = mean ? 1 : samples;
    sizes_.resize(modules);
    std::size_t degrees = 0;
    for (std::size_t module = 0; module < modules; ++module) {
      uint128 total = 0;
      for (std::size_t sample = 0; sample < samples; ++sample) {
        tokens const size = problem.sizes[sample * modules + module];
        total += static_cast<uint128>(size);
        if (!mean) { sizes_[module].push_back(size); }
      }
      if (mean) { sizes_[module].push_back(static_cast<tokens>(divided_up(total, samples))); }
      first_degree_.push_back(degrees);
      degrees += modules_[module].degrees.size();
    }
    rows_ = std::vector<std::vector<stored>>(degrees);
  }

  /// Of how many samples steps are priced.
  [[nodiscard]] std::size_t samples() const noexcept { return samples_; }

  /// The times of all samples, and their mean, rounded down.
  struct row {
    std::span<cost_units const> each;
    cost_units mean;
  };

  [[nodiscard]] row of(std::size_t module, std::size_t degree, std::uint64_t parts)
  {
    auto& known = rows_[first_degree_[module] + degree];
    if (parts >= most_known) {
      overflow_[module].resize(samples_);
      std::span<time_units> const own = mutable_span_of(overflow_[module]);
      return {own, compute(own, module, degree, parts)};
    }
    if (parts >= known.size()) { known.resize(std::max<std::size_t>(parts + 1, 2 * known.size())); }
    stored& at = known[parts];
    if (at.first == nullptr) {
      std::span<cost_units> const times = new_row();
      at = {times.data(), compute(times, module, degree, parts)};
    }
    return {{at.first, samples_}, at.mean};
  }

  /// No division of the batch into `parts` microbatches or more takes less GPU time in total, over
  /// all GPUs and the mean sample, but for two picoseconds per GPU and microbatch.
  [[nodiscard]] cost_units least_gpu_time(std::size_t module, std::size_t degree,
                                          std::uint64_t parts) const
  {
    profiled_degree const& speeds = modules_[module].degrees[degree];
    uint128 total = 0;
    for (tokens const size : sizes_[module]) {
      batch_work const work(modules_[module].flops, size, batch_, 1);
      total += static_cast<uint128>(
          saturating_sum(speeds.linear.least_picoseconds(work.linear, microbatch_size(size, parts)),
                         speeds.attention.picoseconds(work.attention, size)));
    }
    return static_cast<cost_units>(total / samples_);
  }

 private:
  static constexpr std::uint64_t most_known = 1 << 16;  // rows are few beyond, so not kept

  struct stored {
    cost_units const* first = nullptr;
    cost_units mean = 0;
  };

  /// Rows stay where they are, since callers hold those of several modules.
  std::span<cost_units> new_row()
  {
    constexpr std::size_t rows_of_block = 256;
    if (free_rows_ == 0) {
      blocks_.emplace_back(rows_of_block * samples_);
      free_rows_ = rows_of_block;
    }
    --free_rows_;
    return mutable_span_of(blocks_.back(), free_rows_ * samples_, samples_);
  }

  [[nodiscard]] tokens microbatch_size(tokens size, std::uint64_t parts) const noexcept
  {
    auto const all = static_cast<std::uint64_t>(size) * batch_;  // below 2^62
    return static_cast<tokens>(all / parts + (all % parts != 0 ? 1 : 0));
  }

  [[nodiscard]] cost_units compute(std::span<cost_units> times, std::size_t module,
                                   std::size_t degree, std::uint64_t parts) const
  {
    profiled_degree const& speeds = modules_[module].degrees[degree];
    uint128 total = 0;
    for (std::size_t sample = 0; sample < samples_; ++sample) {
      tokens const size = sizes_[module][sample];
      batch_work const work(modules_[module].flops, size, batch_, parts * speeds.tp);
      times[sample] =
          saturating_sum(speeds.linear.picoseconds(work.linear, microbatch_size(size, parts)),
                         speeds.attention.picoseconds(work.attention, size));
      total += static_cast<uint128>(times[sample]);
    }
    return static_cast<cost_units>(total / samples_);
  }

  std::span<module_profile const> modules_;
  std::uint32_t batch_;
  std::size_t samples_ = 1;
  std::vector<std::vector<tokens>> sizes_;         // of each module
  std::vector<std::size_t> first_degree_;          // of each module, in rows_
  std::vector<std::vector<stored>> rows_;          // of each degree and parts
  std::vector<std::vector<cost_units>> overflow_;  // of each module
  std::vector<std::vector<cost_units>> blocks_;
  std::size_t free_rows_ = 0;  // of the last block
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARALLELISM_DETAIL_STAGE_TIMES_HPP
