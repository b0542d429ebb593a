// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/parallelism/detail/mix_step.hpp>

namespace ballast::inline v0 {

namespace detail {

/// Which mixes fit inside the nodes of a job, with every bag aligned to its size.
///
/// Bags of powers of two fit, laid largest first, exactly if no size and those above it take more
/// places of that size than the nodes have: floor(GPUs of node / size) each.
class bag_places {
 public:
  /// Expects     largest is 1, 2, 4 or 8; at most 2^24 GPUs.
  bag_places(node_sizes const& nodes, std::uint32_t largest)
  {
    for (std::size_t node = 0; node < nodes.size(); ++node) {
      std::size_t const gpus = nodes[to_id<node_id>(node)];
      for (std::size_t size = 0; size < bag_mix::sizes; ++size) {
        std::uint32_t const of_size = bag_mix::gpus_of(size);
        if (of_size <= largest) { places_[size] += static_cast<std::uint32_t>(gpus / of_size); }
      }
    }
  }

  [[nodiscard]] std::uint32_t gpus() const noexcept { return places_[0]; }

  /// The most bags of a size beside the larger ones that the mix has.
  [[nodiscard]] std::uint32_t left(bag_mix const& mix, std::size_t size) const noexcept
  {
    std::uint64_t const taken = std::min<std::uint64_t>(taken_by(mix, size), places_[size]);
    return places_[size] - static_cast<std::uint32_t>(taken);
  }

  /// The mix with bags of one GPU for what its larger ones leave; false where these do not fit.
  [[nodiscard]] bool complete(bag_mix& mix) const noexcept
  {
    mix.bags[0] = 0;
    for (std::size_t size = bag_mix::sizes; size-- > 0;) {
      if (taken_by(mix, size) > places_[size]) { return false; }
    }
    mix.bags[0] = left(mix, 0);
    return true;
  }

  /// As many bags of this size as fit, then of the next smaller, and so on: all of one size where
  /// it divides every node.
  [[nodiscard]] bag_mix most_of(std::size_t size) const noexcept
  {
    bag_mix mix;
    for (std::size_t next = size + 1; next-- > 0;) { mix.bags[next] = left(mix, next); }
    return mix;
  }

  /// Calls visit(mix) for every mix whose bags of 2 GPUs and more take multiples of `step` GPUs in
  /// every size, or as many of a size as fit. The step is a power of two; 1 visits all mixes.
  template <class Visit>
  void for_each(std::uint32_t step, Visit&& visit) const
  {
    visit_size(bag_mix::sizes - 1, step, bag_mix{}, visit);
  }

  /// How many mixes there are, but at most `most`.
  [[nodiscard]] std::uint64_t count(std::uint64_t most) const
  {
    // With l bags of 2 at most, l + 1 mixes have the same larger bags.
    std::uint64_t mixes = 0;
    bag_mix mix;
    for (mix.bags[3] = 0; mix.bags[3] <= places_[3] && mixes < most; ++mix.bags[3]) {
      mix.bags[2] = 0;
      for (std::uint32_t const most_fours = left(mix, 2); mix.bags[2] <= most_fours && mixes < most;
           ++mix.bags[2]) {
        mixes += left(mix, 1) + 1;
      }
    }
    return std::min(mixes, most);
  }

 private:
  /// Places of a size that bags of it and larger ones take.
  [[nodiscard]] static std::uint64_t taken_by(bag_mix const& mix, std::size_t size) noexcept
  {
    std::uint64_t taken = 0;
    for (std::size_t other = size; other < bag_mix::sizes; ++other) {
      taken += std::uint64_t{mix.bags[other]} << (other - size);
    }
    return taken;
  }

  template <class Visit>
  void visit_size(std::size_t size, std::uint32_t step, bag_mix mix, Visit& visit) const
  {
    if (size == 0) {
      mix.bags[0] = left(mix, 0);
      visit(mix);
      return;
    }
    std::uint32_t const most = left(mix, size);
    std::uint32_t const stride = std::max<std::uint32_t>(step >> size, 1);
    for (std::uint32_t bags = 0; bags < most; bags += stride) {
      mix.bags[size] = bags;
      visit_size(size - 1, step, mix, visit);
    }
    mix.bags[size] = most;
    visit_size(size - 1, step, mix, visit);
  }

  std::array<std::uint32_t, bag_mix::sizes> places_{};
};

/// A mix and the sum of its steps, one for each batch. The shorter sum comes first, and of equal
/// sums the mix with more of the smaller bags.
struct summed_mix {
  step_eighths sum;
  bag_mix mix;

  friend bool operator<(summed_mix const& a, summed_mix const& b)
  {
    return precedes(a.sum, b.sum, b.mix, a.mix);
  }
};

/// Looks for the mix with the least sum of steps.
///
/// Of every size, the mix with as many bags of it as fit is priced first. Where there are few mixes
/// all are candidates; where there are many, those in which every size has a multiple of `grid`
/// GPUs. Candidates are priced in the order of a bound, each only until it is seen to be longer
/// than the best so far, and not at all where the bound says so. Where not all were candidates,
/// GPUs are then moved between sizes of the best mixes, half as many each time that this does not
/// help.
///
/// Expects     kept >= 1.
/// Ensures     (1) of every size, the mix with the most bags is priced completely, if it is allowed
///             (2) without a limit on the work, and with all mixes as candidates, the first `kept`
///                 are the best ones
/// Complexity  `work` placements of a sample, and a few mixes more.
class mix_search {
 public:
  mix_search(mix_batches const& data, bag_places const& places, mix_steps& steps, bool admits_short,
             std::size_t kept, std::uint64_t work)
      : data_(data),
        places_(places),
        admits_short_(admits_short),
        kept_(kept),
        budget_(work),
        steps_(steps),
        bounds_(data.batches.size()),
        order_(data.batches.size())
  {
    std::iota(order_.begin(), order_.end(), std::size_t{0});
  }

  /// All mixes that were priced completely, best first.
  [[nodiscard]] std::vector<summed_mix> run(std::uint64_t most_candidates)
  {
    for (std::size_t size = 0; size < bag_mix::sizes; ++size) {
      try_mix(places_.most_of(size), over_the_limit);
    }
    std::vector<summed_mix> candidates;
    auto const add = [&](bag_mix const& mix) { add_candidate(candidates, mix); };
    if (places_.count(most_candidates + 1) <= most_candidates) {
      places_.for_each(1, add);
      proven_ = price(candidates, 0);
      return std::move(priced_);
    }
    kept_ = 1;
    std::uint32_t grid = bag_mix::largest;
    while (places_.gpus() / grid > 16) { grid *= 2; }
    places_.for_each(grid, add);
    (void)price(candidates, budget_.left() / 2);
    improve(grid);
    return std::move(priced_);
  }

  /// Whether no mix is better than the best of run().
  [[nodiscard]] bool proven() const noexcept { return proven_; }

  [[nodiscard]] std::uint64_t placed() const noexcept { return placed_; }

 private:
  [[nodiscard]] bool allowed(bag_mix const& mix) const noexcept
  {
    std::size_t smallest = 0;
    while (mix.bags[smallest] == 0) { ++smallest; }
    return admits_short_ || data_.shortest >= bag_mix::gpus_of(smallest);
  }

  [[nodiscard]] step_eighths bound_of(bag_mix const& mix)
  {
    step_eighths sum = 0;
    for (std::size_t batch = 0; batch < bounds_.size(); ++batch) {
      bounds_[batch] = step_bound(mix, data_.batches[batch], data_.exchanges);
      sum += bounds_[batch];
    }
    budget_.spend(4 * bounds_.size());
    return sum;
  }

  /// What a mix has to come before to be among those that are kept.
  [[nodiscard]] summed_mix worst_kept() const
  {
    return priced_.size() < kept_ ? summed_mix{over_the_limit, {}} : priced_[kept_ - 1];
  }

  [[nodiscard]] bool is_tried(bag_mix const& mix) const
  {
    return std::binary_search(tried_.begin(), tried_.end(), mix);
  }

  void add_candidate(std::vector<summed_mix>& candidates, bag_mix const& mix)
  {
    if (!allowed(mix) || is_tried(mix)) { return; }
    summed_mix const bounded{bound_of(mix), mix};
    if (bounded < worst_kept()) { candidates.push_back(bounded); }
  }

  /// Prices candidates in the order of their bounds, until so much work is left. Returns whether
  /// all that could be kept were.
  bool price(std::vector<summed_mix>& candidates, std::uint64_t work_left)
  {
    std::sort(candidates.begin(), candidates.end(),
              [](summed_mix const& a, summed_mix const& b) { return a < b; });
    for (summed_mix const& candidate : candidates) {
      if (!(candidate < worst_kept())) { return true; }
      if (budget_.left() <= work_left) { return false; }
      try_mix(candidate.mix, worst_kept().sum);
    }
    return true;
  }

  /// Prices a mix, as long as its steps may add up to no more than the limit.
  void try_mix(bag_mix const& mix, step_eighths limit)
  {
    if (!allowed(mix) || is_tried(mix)) { return; }
    insert_ordered(tried_, mix, [](auto const& a, auto const& b) { return a < b; });
    step_eighths rest = bound_of(mix);
    summed_mix tried{0, mix};
    for (std::size_t place = 0; place < order_.size(); ++place) {
      std::size_t const batch = order_[place];
      rest -= bounds_[batch];
      std::uint64_t const placed_before = placed_;
      step_eighths const step =
          tried.sum + rest > limit
              ? over_the_limit
              : steps_.plan(mix, data_.batches[batch],
                            limit == over_the_limit ? limit : limit - tried.sum - rest, placed_);
      budget_.spend(placed_ - placed_before);
      if (step == over_the_limit) {
        // What is too long for one mix is often too long for the next: that batch goes first.
        for (; place > 0; --place) { order_[place] = order_[place - 1]; }
        order_[0] = batch;
        return;
      }
      tried.sum += step;
    }
    insert_ordered(priced_, tried, [](auto const& a, auto const& b) { return a < b; });
  }

  /// Moves GPUs between sizes, from the best mix; where that helps no more, from the next best.
  void improve(std::uint32_t grid)
  {
    for (std::size_t place = 0; place < priced_.size() && !budget_.spent();) {
      bag_mix const best = priced_.front().mix;
      bag_mix const from = priced_[place].mix;
      for (std::uint32_t gpus = grid; gpus >= 1 && best == priced_.front().mix; gpus /= 2) {
        std::vector<summed_mix> candidates;
        add_neighbours(candidates, from, gpus);
        (void)price(candidates, 0);
      }
      place = best == priced_.front().mix ? place + 1 : 0;
    }
  }

  /// The mixes in which so many GPUs, or those of one bag, have gone from one size to another.
  void add_neighbours(std::vector<summed_mix>& candidates, bag_mix const& from, std::uint32_t gpus)
  {
    for (std::size_t to = 0; to < bag_mix::sizes; ++to) {
      for (std::size_t of = 0; of < bag_mix::sizes; ++of) {
        std::uint32_t const moved = std::max({gpus, bag_mix::gpus_of(to), bag_mix::gpus_of(of)});
        if (of == to || from.bags[of] < moved >> of) { continue; }
        bag_mix next = from;
        next.bags[of] -= moved >> of;
        next.bags[to] += moved >> to;
        if (places_.complete(next)) { add_candidate(candidates, next); }
      }
    }
  }

  mix_batches const& data_;
  bag_places const& places_;
  bool admits_short_;
  std::size_t kept_;
  work_budget budget_;
  mix_steps& steps_;
  std::vector<step_eighths> bounds_;  // of the mix that was bounded last, by batch
  std::vector<std::size_t> order_;    // of batches
  std::vector<bag_mix> tried_;        // in order
  std::vector<summed_mix> priced_;    // completely, best first
  std::uint64_t placed_ = 0;
  bool proven_ = false;
};

}  // namespace detail

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

/// What choose_bags() found.
struct bag_choice {
  /// A mix that came to the last round.
  ///
  /// Units       steps: cost units that one GPU does in that time.
  struct judged_mix {
    bag_mix mix;
    ratio fitted_step;  ///< mean over the batches that mixes were fitted to
    ratio judged_step;  ///< mean over bag_search::judged_on, or the same where that is empty

    friend bool operator==(judged_mix const&, judged_mix const&) = default;
  };

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
[[nodiscard]] inline std::vector<bag_choice::judged_mix> judge_mixes(
    std::vector<summed_mix> const& found, std::size_t finalists, bag_places const& places,
    mix_steps& steps, mix_batches const& fitted, mix_batches const& others, std::uint64_t& placed)
{
  std::array<bag_mix, bag_mix::sizes> uniform;
  for (std::size_t size = 0; size < bag_mix::sizes; ++size) {
    uniform[size] = places.most_of(size);
  }
  std::vector<bag_choice::judged_mix> judged;
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
  std::sort(judged.begin(), judged.end(), [](auto const& a, auto const& b) {
    return precedes(a.judged_step, b.judged_step, a.fitted_step, b.fitted_step, b.mix, a.mix);
  });
  return judged;
}

}  // namespace detail

/// The mix of bags of 1, 2, 4 and 8 GPUs under which steps like these are shortest.
///
/// A step is planned by the policy that will run, and takes as long as its slowest bag:
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
///             (2) steps are those of the plans of partition() with the policy, without limits
///             (3) those with as many bags of one size as fit are always judged, for each size: on
///                 judged_on, none of them has shorter steps than the first
///             (4) of equal means on judged_on, the mix with the lesser one on the fitted batches
///                 comes first, and of these the one with more of the smaller bags
///             (5) the same on every machine: nothing depends on time
/// Errors      out_of_range: there is no batch, the cluster has GPUs of several speeds, or batch
///             `position` has a sample without a length or a cost, or the batches up to it cost
///             2^59 units or more. Batches of judged_on are counted on from the fitted ones. Those
///             of partition(), where the policy has no plan for a batch.
/// Complexity  O(most_work + (finalists + sizes) samples of judged_on) placements in bags, each
///             O(sizes + log bags), after sorting; by another policy than longest_processing_time
///             what its plans take.
/// Source      the objective is that of the layouts in K. Zhang et al., "KnapFormer", arXiv
///             2508.06001, 2025, which leaves their choice as future work.
///
///     auto const found = choose_bags(batches, machines, exchanges, cost, {}, greedy_knapsack{});
template <cost_model CostOf, partition_policy Policy = longest_processing_time>
[[nodiscard]] result<bag_choice> choose_bags(std::span<sample_batch const> batches,
                                             cluster const& machines,
                                             bag_exchange_work const& exchanges,
                                             CostOf const& cost_of, bag_search const& search = {},
                                             Policy const& policy = {})
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
  detail::mix_steps steps(exchanges, machines, search.short_ones, policy);
  detail::mix_search searcher(*fitted, places, steps, search.short_ones == short_samples::admitted,
                              search.finalists, work);
  auto const found = searcher.run(most_candidates);
  bag_choice choice;
  choice.placed = searcher.placed();
  choice.mixes =
      detail::judge_mixes(found, search.finalists, places, steps, *fitted, *others, choice.placed);
  choice.proven = searcher.proven();
  if (detail::cancel_scope::is_cancelled()) { return detail::cancelled(); }
  if (steps.refused()) { return tl::unexpected(*steps.refused()); }
  auto laid = lay_out(choice.mixes.front().mix.spec(), machines, misplaced_bags::largest_first);
  if (!laid) { return tl::unexpected(laid.error()); }
  choice.bags = laid->with_short_samples(search.short_ones);
  return choice;
}

/// The mean step of mixes on batches, priced as choose_bags() prices them. On batches that the
/// mixes were neither fitted to nor judged on, it says how good a choice is.
///
/// Units       cost units that one GPU does in that time.
/// Expects     exchanges as for choose_bags; every mix has a bag.
/// Ensures     (1) one mean for each mix, in the order given
/// Errors      those of choose_bags; infeasible: mix `position` has no bag small enough
///             for a sample, and short samples are refused.
/// Complexity  O(mixes samples (sizes + log bags)), after sorting; by another policy that of its
///             plans.
template <cost_model CostOf, partition_policy Policy = longest_processing_time>
[[nodiscard]] result<std::vector<ratio>> price_bags(
    std::span<bag_mix const> mixes, std::span<sample_batch const> batches,
    bag_exchange_work const& exchanges, CostOf const& cost_of,
    short_samples short_ones = short_samples::refused, Policy const& policy = {})
{
  detail::expect_exchanges(exchanges);
  std::size_t gpus = 0;
  for (bag_mix const& mix : mixes) { gpus = std::max(gpus, mix.gpus()); }
  if (batches.empty()) {
    return fail(error_code::out_of_range, 0, "there is no batch to price bags on; give some");
  }
  auto const data = detail::read_mix_batches(batches, 0, exchanges, gpus, cost_of);
  if (!data) { return tl::unexpected(data.error()); }
  std::uint64_t placed = 0;
  std::vector<ratio> priced;
  for (bag_mix const& mix : mixes) {
    BALLAST_EXPECTS(mix.gpus() > 0, "mix ", priced.size(), " has no bag");
    cluster const one_node{.nodes = node_sizes::equal(1, static_cast<std::uint32_t>(mix.gpus()))};
    detail::mix_steps steps(exchanges, one_node, short_ones, policy);
    std::uint32_t const smallest = mix.spec().groups().back().gpus;
    if (short_ones == short_samples::refused && data->shortest < smallest) {
      auto const shortest = data->shortest;  // nvcc 13 garbles the list below with it
      return fail(error_code::infeasible, priced.size(), "a sample of ",
                  detail::counted(shortest, "token"),
                  " is shorter than the smallest bag, which has ", detail::counted(smallest, "GPU"),
                  "; use smaller bags or admit short samples");
    }
    priced.push_back(detail::mean_step(steps.sum(mix, data->batches, placed), batches.size()));
    if (steps.refused()) { return tl::unexpected(*steps.refused()); }
  }
  return priced;
}

}  // namespace ballast::inline v0
