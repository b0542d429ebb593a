// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARALLELISM_DETAIL_STAGE_TIMES_HPP
#define BALLAST_PARALLELISM_DETAIL_STAGE_TIMES_HPP

#include <ballast/core/quantities.hpp>
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

/// What one GPU of a group takes for the attention of one sample, which samples have for themselves.
[[nodiscard]] inline cost_units attention_time(module_profile const& module,
                                               profiled_degree const& speeds, tokens size)
{
  batch_work const alone(module.flops, size, 1, degree_of(speeds).gpus());
  return speeds.attention.picoseconds(alone.attention, size);
}

/// The FLOP of one GPU of a group for products with weights, of samples of so many tokens or items.
[[nodiscard]] inline uint128 linear_work(module_profile const& module,
                                         profiled_degree const& speeds, tokens all)
{
  return divided_up(static_cast<uint128>(module.flops.linear) * static_cast<std::uint64_t>(all),
                    degree_of(speeds).gpus());  // below 2^64 2^55
}

/// What they take for samples that are packed together.
[[nodiscard]] inline cost_units linear_time(module_profile const& module,
                                            profiled_degree const& speeds, tokens all)
{
  return speeds.linear.picoseconds(linear_work(module, speeds, all), all);
}

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

  /// Of a sample for which steps are priced.
  [[nodiscard]] tokens size(std::size_t module, std::size_t sample) const
  {
    return sizes_[module][sample];
  }

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

  /// Forgets all times where they are many. Rows that were returned are then no longer.
  void limit_memory()
  {
    if (blocks_.size() * rows_of_block * samples_ < most_times) { return; }
    for (auto& known : rows_) { known.clear(); }
    blocks_.clear();
    free_rows_ = 0;
  }

 private:
  static constexpr std::uint64_t most_known = 1 << 16;  // rows are few beyond, so not kept
  static constexpr std::size_t rows_of_block = 256;
  static constexpr std::size_t most_times = std::size_t{1} << 23;  // 64 MB

  struct stored {
    cost_units const* first = nullptr;
    cost_units mean = 0;
  };

  /// Rows stay where they are, since callers hold those of several modules.
  std::span<cost_units> new_row()
  {
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
    std::uint64_t const group = degree_of(speeds).gpus();
    uint128 total = 0;
    for (std::size_t sample = 0; sample < samples_; ++sample) {
      tokens const size = sizes_[module][sample];
      batch_work const work(modules_[module].flops, size, batch_, parts * group);
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
