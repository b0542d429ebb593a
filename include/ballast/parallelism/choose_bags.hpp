// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARALLELISM_CHOOSE_BAGS_HPP
#define BALLAST_PARALLELISM_CHOOSE_BAGS_HPP

#include <ballast/core/contract.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/core/result.hpp>
#include <ballast/cost/cost_model.hpp>
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
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace ballast::inline v0 {

/// How choose_bags() searches, and what decides between the mixes that it finds.
///
/// Expects     largest_bag is 1, 2, 4 or 8; finalists >= 1. The batches of judged_on outlive the
///             call.
struct bag_search {
  std::uint32_t largest_bag = bag_mix::largest;       ///< at most the heads that the model has
  short_samples short_ones = short_samples::refused;  ///< what becomes of samples of few tokens
  std::span<sample_batch const> judged_on = {};  ///< other batches; none: those that are fitted
  std::size_t finalists = 8;    ///< so many that are best on the fitted batches are judged
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

/// A mix that came to the last round of choose_bags().
///
/// Units       steps: cost units that one GPU does in that time.
struct judged_mix {
  bag_mix mix;
  ratio fitted_step;  ///< mean over the batches that mixes were fitted to
  ratio judged_step;  ///< mean over bag_search::judged_on, or the same where that is empty

  friend bool operator==(judged_mix const&, judged_mix const&) = default;
};

/// What choose_bags() found.
struct bag_choice {
  std::vector<judged_mix> mixes;  ///< the chosen one, then the others of the last round, best first
  bag_layout bags;                ///< the chosen one, as it was priced: no bag spans nodes
  bool proven = false;       ///< whether no mix that is left out is better on the fitted batches
  std::uint64_t placed = 0;  ///< samples, over all plans
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
    BALLAST_EXPECTS(size == 0 || (exchanges.per_token[size] >= exchanges.per_token[size - 1] &&
                                  exchanges.per_sample[size] >= exchanges.per_sample[size - 1]),
                    "a token or sample in bags of ", bag_mix::gpus_of(size),
                    " GPUs exchanges less than in smaller bags");
  }
}

/// The best mixes of a search and, of every size, the one with the most bags: judged on batches
/// that they were not fitted to.
///
/// Expects     found: best first, with places.most_of(size) for each size that is not left out.
[[nodiscard]] inline std::vector<judged_mix> judge_mixes(
    std::vector<summed_mix> const& found, std::size_t finalists, bag_places const& places,
    mix_batches const& fitted, mix_batches const& others, std::uint64_t& placed)
{
  std::array<bag_mix, bag_mix::sizes> uniform;
  for (std::size_t size = 0; size < bag_mix::sizes; ++size) {
    uniform[size] = places.most_of(size);
  }
  mix_steps steps(others.exchanges);
  std::vector<judged_mix> judged;
  for (std::size_t place = 0; place < found.size(); ++place) {
    auto const& [sum, mix] = found[place];
    bool const is_uniform = std::find(uniform.begin(), uniform.end(), mix) != uniform.end();
    if (place >= finalists && !is_uniform) { continue; }
    step_eighths const on_others =
        others.batches.empty() ? sum : steps.sum(mix, others.batches, placed);
    judged.push_back(
        {mix, mean_step(sum, fitted.batches.size()),
         mean_step(on_others, (others.batches.empty() ? fitted : others).batches.size())});
  }
  std::sort(judged.begin(), judged.end(), [](judged_mix const& a, judged_mix const& b) {
    return precedes(a.judged_step, b.judged_step, a.fitted_step, b.fitted_step, b.mix, a.mix);
  });
  return judged;
}

}  // namespace detail

/// The mix of bags of 1, 2, 4 and 8 GPUs under which steps like these are shortest.
///
/// A step is planned by longest processing time first, as longest_processing_time does it, and
/// takes as long as its slowest bag:
///
///     max over bags b of (load(b) + exchanges.work(T(b), n(b))) / G(b) + exchanges.once
///
/// with T(b) the tokens of its n(b) samples. Mixes are fitted to the batches: sought are those with
/// the least mean step. With up to 1,000 mixes, as 64 GPUs have, all are candidates; with up to 32
/// GPUs none is left out, so the result is that of trying all. Beyond that the search ends when its
/// work is used up. Of the best ones, and those with as many bags of one size as fit, the one is
/// chosen that has the least mean step on search.judged_on.
///
/// Give batches as the job will see them: eight to fit and 32 to judge on, for example. Where
/// judged_on is empty, the fitted batches decide alone. That is enough where lengths are spread
/// alike in all batches; where a few giants decide, what is best for eight batches can be 5 %
/// slower on others than bags of one size. A mix may have no bag that takes a sample which comes
/// later: admit short samples, or give batches that have the shortest ones. Call it once, when the
/// job starts; it allocates.
///
/// Expects     exchanges: once >= 0; per_token and per_sample do not decrease with the size.
/// Ensures     (1) all mixes use all GPUs, have no bag larger than largest_bag, and where short
///                 samples are refused, no batch of either kind has any; lay_out() lays each inside
///                 the nodes by misplaced_bags::largest_first, and choice.bags is the first so laid,
///                 with search.short_ones
///             (2) steps are those of the plans of partition() with longest_processing_time
///             (3) those with as many bags of one size as fit are always judged, for each size: on
///                 judged_on, none of them has shorter steps than the first
///             (4) of equal means on judged_on, the mix with the lesser one on the fitted batches
///                 comes first, and of these the one with more of the smaller bags
///             (5) the same on every machine: nothing depends on time
/// Errors      out_of_range: there is no batch, the cluster has GPUs of several speeds, or batch
///             `position` has a sample without a length or a cost, or the batches up to it cost
///             2^59 units or more. Batches of judged_on are counted on from the fitted ones.
/// Complexity  O(most_work + (finalists + sizes) samples of judged_on) placements in bags, each
///             O(sizes + log bags), after sorting.
/// Source      the objective is that of the layouts in K. Zhang et al., "KnapFormer", arXiv
///             2508.06001, 2025, which leaves their choice as future work.
template <cost_model CostOf>
[[nodiscard]] result<bag_choice> choose_bags(std::span<sample_batch const> batches,
                                             cluster const& machines,
                                             bag_exchange_work const& exchanges,
                                             CostOf const& cost_of, bag_search const& search = {})
{
  detail::expect_exchanges(exchanges);
  BALLAST_EXPECTS(search.finalists >= 1, "no finalist was asked for, and one is the least");
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
  if (batches.empty()) {
    return fail(error_code::out_of_range, 0,
                "there is no batch to choose bags for; give some, for example eight");
  }
  auto fitted = detail::read_mix_batches(batches, 0, exchanges, machines.gpus(), cost_of);
  if (!fitted) { return tl::unexpected(fitted.error()); }
  auto const others = detail::read_mix_batches(search.judged_on, batches.size(), exchanges,
                                               machines.gpus(), cost_of);
  if (!others) { return tl::unexpected(others.error()); }
  fitted->shortest = std::min(fitted->shortest, others->shortest);
  detail::bag_places const places(machines.nodes, search.largest_bag);

  constexpr std::size_t all_tried_up_to = 32;  // GPUs
  constexpr std::uint64_t most_candidates = 1000;
  std::uint64_t const usual_work =
      (std::uint64_t{1} << 20) + (std::uint64_t{1} << 12) * machines.gpus();
  std::uint64_t work =
      search.most_work != 0 ? search.most_work : std::min(usual_work, std::uint64_t{1} << 24);
  if (machines.gpus() <= all_tried_up_to) { work = std::numeric_limits<std::uint64_t>::max(); }
  detail::mix_search searcher(*fitted, places, search.short_ones == short_samples::admitted,
                              search.finalists, work);
  auto const found = searcher.run(most_candidates);
  bag_choice choice;
  choice.placed = searcher.placed();
  choice.mixes =
      detail::judge_mixes(found, search.finalists, places, *fitted, *others, choice.placed);
  choice.proven = searcher.proven();
  auto laid = lay_out(choice.mixes.front().mix.spec(), machines, misplaced_bags::largest_first);
  if (!laid) { return tl::unexpected(laid.error()); }
  choice.bags = laid->with_short_samples(search.short_ones);
  return choice;
}

/// The mean step of mixes on batches, priced as choose_bags() prices them. On batches that the
/// mixes were neither fitted to nor judged on, it says how good a choice is.
///
/// Expects     exchanges as for choose_bags; every mix has a bag.
/// Ensures     (1) one mean for each mix, in the order given
/// Errors      out_of_range as for choose_bags; infeasible: mix `position` has no bag small enough
///             for a sample, and short samples are refused.
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
  if (batches.empty()) {
    return fail(error_code::out_of_range, 0, "there is no batch to price bags on; give some");
  }
  auto const data = detail::read_mix_batches(batches, 0, exchanges, gpus, cost_of);
  if (!data) { return tl::unexpected(data.error()); }
  detail::mix_steps steps(exchanges);
  std::uint64_t placed = 0;
  std::vector<priced_mix> priced;
  for (bag_mix const& mix : mixes) {
    BALLAST_EXPECTS(mix.gpus() > 0, "mix ", priced.size(), " has no bag");
    std::uint32_t const smallest = mix.spec().groups().back().gpus;
    if (short_ones == short_samples::refused && data->shortest < smallest) {
      auto const shortest = data->shortest;  // nvcc 13 garbles the list below with it
      return fail(error_code::infeasible, priced.size(), "a sample of ",
                  detail::counted(shortest, "token"),
                  " is shorter than the smallest bag, which has ", detail::counted(smallest, "GPU"),
                  "; use smaller bags or admit short samples");
    }
    priced.push_back(
        {mix, detail::mean_step(steps.sum(mix, data->batches, placed), batches.size())});
  }
  return priced;
}

}  // namespace ballast::inline v0

#endif  // BALLAST_PARALLELISM_CHOOSE_BAGS_HPP
