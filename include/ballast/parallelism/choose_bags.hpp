// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARALLELISM_CHOOSE_BAGS_HPP
#define BALLAST_PARALLELISM_CHOOSE_BAGS_HPP

#include <ballast/core/contract.hpp>
#include <ballast/core/ratio.hpp>
#include <ballast/core/result.hpp>
#include <ballast/cost/concepts.hpp>
#include <ballast/parallelism/bag_exchange_work.hpp>
#include <ballast/parallelism/bag_mix.hpp>
#include <ballast/parallelism/detail/bag_places.hpp>
#include <ballast/parallelism/detail/mix_batches.hpp>
#include <ballast/parallelism/detail/mix_search.hpp>
#include <ballast/parallelism/detail/mix_step.hpp>
#include <ballast/topology/bag_layout.hpp>
#include <ballast/topology/cluster.hpp>
#include <ballast/workload/sample_batch.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

namespace ballast::inline v0 {

/// How choose_bags() searches.
///
/// Expects     largest_bag is 1, 2, 4 or 8.
struct bag_search {
  std::uint32_t largest_bag = bag_mix::largest;       ///< at most the heads that the model has
  short_samples short_ones = short_samples::refused;  ///< what becomes of samples of few tokens
  std::size_t kept = 8;         ///< a mix is priced to the end if it may be among so many best ones
  std::uint64_t most_work = 0;  ///< samples placed; 0: 2^20 and 2^12 for each GPU, at most 2^24
};

/// A mix of bags and its mean step over some batches.
///
/// Units       mean_step: cost units that one GPU does in that time.
struct priced_mix {
  bag_mix mix;
  ratio mean_step;

  friend bool operator==(priced_mix const&, priced_mix const&) = default;
};

/// What choose_bags() found.
struct bag_choice {
  std::vector<priced_mix> mixes;  ///< all that were priced to the end, best first
  bool proven = false;            ///< whether no mix at all is better than the first
  std::uint64_t placed = 0;       ///< samples, over all plans
};

namespace detail {

[[nodiscard]] inline ratio mean_step(step_eighths sum, std::size_t batches)
{
  return {static_cast<std::int64_t>(sum), static_cast<std::int64_t>(bag_mix::largest * batches)};
}

inline void expect_exchanges(bag_exchange_work const& exchanges)
{
  for (std::size_t size = 0; size < bag_mix::sizes; ++size) {
    BALLAST_EXPECTS(exchanges.once[size] >= 0, "exchanges of bags of ", bag_mix::gpus_of(size),
                    " GPUs take ", exchanges.once[size], " units, and the least is 0");
    BALLAST_EXPECTS(size == 0 || exchanges.per_token[size] >= exchanges.per_token[size - 1],
                    "a token in bags of ", bag_mix::gpus_of(size),
                    " GPUs exchanges less than in smaller bags");
  }
}

}  // namespace detail

/// The mix of bags of 1, 2, 4 and 8 GPUs under which steps like these are shortest.
///
/// A step is planned by longest processing time first, as longest_processing_time does it, and takes
/// as long as its slowest bag:
///
///     max over bags b of (load(b) + exchanges.work(T(b))) / G(b) + exchanges.once
///
/// with T(b) the tokens of its samples. Chosen is the mix with the least mean over the batches. With
/// up to 1,000 mixes, as 64 GPUs have, all are candidates; with up to 32 GPUs none is left out, so
/// the result is that of trying all. Beyond that the search ends when its work is used up.
///
/// Give batches as the job will see them, eight for example, and judge the result on others with
/// price_bags(). A mix may have no bag that takes a sample which comes later: admit short samples, or
/// give batches that have the shortest ones. Call it once, when the job starts; it allocates.
///
/// Expects     exchanges: once >= 0, and per_token does not decrease with the size.
/// Ensures     (1) all mixes use all GPUs, fit the nodes where larger bags are laid first
///                 (misplaced_bags::largest_first), have no bag larger than largest_bag, and where
///                 short samples are refused, no batch has any
///             (2) mean_step is that of the plans of partition() with longest_processing_time
///             (3) those with as many bags of one size as fit are always priced, for each size
///             (4) of equal means, the mix with more of the smaller bags comes first
///             (5) the same on every machine: nothing depends on time
/// Errors      out_of_range: there is no batch, the cluster has GPUs of several speeds, or batch
///             `position` has a sample without a length or a cost, or the batches up to it cost 2^59
///             units or more.
/// Complexity  O(most_work) placements in bags, each O(sizes + log bags), after sorting.
/// Source      the objective is that of the layouts in K. Zhang et al., "KnapFormer", arXiv
///             2508.06001, 2025, which leaves their choice as future work.
template <cost_model CostOf>
[[nodiscard]] result<bag_choice> choose_bags(std::span<sample_batch const> batches,
                                             cluster const& machines,
                                             bag_exchange_work const& exchanges,
                                             CostOf const& cost_of, bag_search const& search = {})
{
  detail::expect_exchanges(exchanges);
  BALLAST_EXPECTS(search.largest_bag >= 1 && search.largest_bag <= bag_mix::largest &&
                      (search.largest_bag & (search.largest_bag - 1)) == 0,
                  "bags of at most ", search.largest_bag,
                  " GPUs were asked for; sizes are 1, 2, 4 and 8");
  if (!machines.gpu_speeds.empty()) {
    return fail(
        error_code::out_of_range, 0,
        "the GPUs of the cluster differ in speed, and bags are chosen for equal ones; write "
        "the bags yourself");
  }
  auto const data = detail::read_mix_batches(batches, exchanges, machines.gpus(), cost_of);
  if (!data) { return tl::unexpected(data.error()); }
  detail::bag_places const places(machines.nodes, search.largest_bag);

  constexpr std::size_t all_tried_up_to = 32;  // GPUs
  constexpr std::uint64_t most_candidates = 1000;
  std::uint64_t const usual_work =
      (std::uint64_t{1} << 20) + (std::uint64_t{1} << 12) * machines.gpus();
  std::uint64_t work =
      search.most_work != 0 ? search.most_work : std::min(usual_work, std::uint64_t{1} << 24);
  if (machines.gpus() <= all_tried_up_to) { work = std::numeric_limits<std::uint64_t>::max(); }
  detail::mix_search searcher(*data, places, search.short_ones == short_samples::admitted,
                              search.kept, work);
  bag_choice choice;
  for (auto const& [sum, mix] : searcher.run(most_candidates)) {
    choice.mixes.push_back({mix, detail::mean_step(sum, batches.size())});
  }
  choice.proven = searcher.proven();
  choice.placed = searcher.placed();
  return choice;
}

/// The mean step of mixes on batches, priced as choose_bags() prices them: on batches that the mixes
/// were not chosen for, it says how good the choice is.
///
/// Expects     exchanges as for choose_bags; every mix has a bag.
/// Ensures     (1) one mean for each mix, in the order given
/// Errors      out_of_range as for choose_bags; infeasible: mix `position` has no bag small enough for
///             a sample, and short samples are refused.
/// Complexity  O(mixes samples (sizes + log bags)), after sorting.
template <cost_model CostOf>
[[nodiscard]] result<std::vector<priced_mix>> price_bags(
    std::span<bag_mix const> mixes, std::span<sample_batch const> batches,
    bag_exchange_work const& exchanges, CostOf const& cost_of,
    short_samples short_ones = short_samples::refused)
{
  detail::expect_exchanges(exchanges);
  std::size_t gpus = 0;
  for (bag_mix const& mix : mixes) { gpus = std::max(gpus, mix.gpus()); }
  auto const data = detail::read_mix_batches(batches, exchanges, gpus, cost_of);
  if (!data) { return tl::unexpected(data.error()); }
  detail::mix_steps steps(exchanges);
  std::vector<priced_mix> priced;
  for (bag_mix const& mix : mixes) {
    BALLAST_EXPECTS(mix.gpus() > 0, "mix ", priced.size(), " has no bag");
    std::uint32_t const smallest = mix.spec().groups().back().gpus;
    if (short_ones == short_samples::refused && data->shortest < smallest) {
      return fail(error_code::infeasible, priced.size(),
                  "a sample of " + std::to_string(data->shortest) +
                      " tokens is shorter than the smallest bag, which has " +
                      std::to_string(smallest) + " GPUs; use smaller bags or admit short samples");
    }
    detail::step_eighths sum = 0;
    std::uint64_t placed = 0;
    for (detail::mix_batch const& batch : data->batches) {
      sum += steps.plan(mix, batch, detail::over_the_limit, placed);
    }
    priced.push_back({mix, detail::mean_step(sum, batches.size())});
  }
  return priced;
}

}  // namespace ballast::inline v0

#endif  // BALLAST_PARALLELISM_CHOOSE_BAGS_HPP
