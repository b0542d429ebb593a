// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_RUNTIME_GRID_PLANNER_HPP
#define BALLAST_RUNTIME_GRID_PLANNER_HPP

#include <ballast/core/contract.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/core/result.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/partition/grid/grid_plan.hpp>
#include <ballast/runtime/detail/grid_of_samples.hpp>
#include <ballast/runtime/grid_step_options.hpp>
#include <ballast/runtime/shape_bucket.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <span>
#include <utility>
#include <vector>

namespace ballast::inline v0 {

namespace detail {

/// How many sizes make a sample that an online_scheduler can be given; 0: it is none.
template <class Sample>
inline constexpr std::size_t sizes_of_sample = 0;
template <>
inline constexpr std::size_t sizes_of_sample<tokens> = 1;
template <std::size_t D>
inline constexpr std::size_t sizes_of_sample<std::array<tokens, D>> = D;

}  // namespace detail

/// Plans grids for an `online_scheduler`, which has the next step's ready when the present one
/// ends; `grid_balancer` carries it out.
///
///     online_scheduler next(grid_planner(ranks, cost, refine_grid{}, options));
///     next.submit(lengths_of_all_ranks(0));
///     for (std::size_t step = 0;; ++step) {
///       auto const grid = next.take();
///       next.submit(lengths_of_all_ranks(step + 1));
///       if (auto planned = balancer.plan(read, grid); !planned) ...
///
/// Shapes      sizes[samples], or [samples x D] where Sample is std::array<tokens, D>: those that
///             rank 0 will have read, then those of rank 1, and so on. factors[shape_buckets] by
///             the length of a sample, or empty.
/// Expects     options are those of the grid_balancer, without homes, since nobody has read the
///             samples yet; `ranks` is its number of bags. length_of is given unless samples are
///             numbers, and functions of the options and cost may be called by another thread.
/// Ensures     (1) the plan is that of partition_grid, with each cost times the factor of its
///                 sample's length
///             (2) with a plan that has seen a step as large, nothing is allocated
/// Errors      out_of_range: sizes are no whole number of samples, factors are of another number, a
///             length with a factor is out of range; those of partition_grid_into.
/// Complexity  that of partition_grid_into.
template <class Cost, grid_policy Policy, class Sample = tokens>
  requires(integer_function<Cost, Sample const&> && detail::sizes_of_sample<Sample> >= 1)
class grid_planner {
 public:
  using plan_type = grid_plan;

  grid_planner(std::size_t ranks, Cost own_cost, Policy own_policy,
               grid_step_options<Sample> options = {})
      : ranks_(ranks), cost_(std::move(own_cost)), policy_(std::move(own_policy)), options_(options)
  {
    BALLAST_EXPECTS(options_.length_of != nullptr,
                    "options.length_of is null, and the samples are no numbers");
    BALLAST_EXPECTS(!options_.homes,
                    "options.homes is set, and who reads a sample is not known ahead");
  }

  [[nodiscard]] result<void> operator()(grid_plan& plan, std::span<tokens const> sizes,
                                        std::uint64_t /*seed*/, std::uint64_t /*number*/,
                                        std::span<std::uint32_t const> factors)
  {
    constexpr std::size_t each = detail::sizes_of_sample<Sample>;
    if (sizes.size() % each != 0) {
      return fail(error_code::out_of_range, sizes.size(), "sizes has ",
                  detail::counted(sizes.size(), "entry"), ", no whole number of samples of ", each);
    }
    if (!factors.empty() && factors.size() != shape_buckets) {
      return fail(error_code::out_of_range, 0, "factors has ",
                  detail::counted(factors.size(), "entry"), " for ", shape_buckets,
                  " shapes; give all or none");
    }
    samples_.resize(sizes.size() / each);
    if (!sizes.empty()) { std::memcpy(samples_.data(), sizes.data(), sizes.size_bytes()); }
    for (std::size_t sample = 0; sample < samples_.size() && !factors.empty(); ++sample) {
      tokens const length = options_.length_of(samples_[sample]);
      if (length < 0 || length > longest_sample) {
        return fail(error_code::out_of_range, sample, "sample ", sample, " has a length of ",
                    length, ", which is not from 0 to ", longest_sample, "; correct it");
      }
    }
    auto const corrected = [&](Sample const& sample) -> cost_units {
      constexpr auto most = std::numeric_limits<cost_units>::max();
      auto const cost = std::invoke(cost_, sample);
      if (!std::in_range<cost_units>(cost)) { return most; }  // and so refused
      if (factors.empty() || cost < 0) { return static_cast<cost_units>(cost); }
      std::uint32_t const factor = factors[shape_bucket(options_.length_of(sample))];
      uint128 const exact = static_cast<uint128>(cost) * factor / unchanged_factor;
      return static_cast<cost_units>(std::min(exact, static_cast<uint128>(most)));
    };
    return grid_(plan, memory_, detail::span_of(samples_), ranks_, options_, {}, policy_,
                 corrected);
  }

 private:
  std::size_t ranks_;
  Cost cost_;
  Policy policy_;
  grid_step_options<Sample> options_;
  std::vector<Sample> samples_;
  detail::grid_of_samples<Sample> grid_;
  workspace memory_;
};

}  // namespace ballast::inline v0

#endif  // BALLAST_RUNTIME_GRID_PLANNER_HPP
