// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/cost/cost_model.hpp>
#include <ballast/parallelism/bag_mix.hpp>
#include <ballast/partition/descending_order.hpp>
#include <ballast/partition/longest_processing_time.hpp>
#include <ballast/partition/partition.hpp>
#include <ballast/workload/sample_batch.hpp>

#include <bit>
#include <functional>

namespace ballast::inline v0::detail {

/// A sample as a policy that is given sees it.
struct mix_sample {
  cost_units cost = 0;
  cost_units attention = -1;  ///< none, which policies that need it refuse
  tokens length = 0;
};

struct mix_sample_cost {
  [[nodiscard]] cost_units operator()(mix_sample const& sample) const { return sample.cost; }
  [[nodiscard]] cost_units attention_part(mix_sample const& sample) const
  {
    return sample.attention;
  }
};

/// The samples of one batch, heaviest first: what the first so many of them cost, and how many
/// tokens they have.
///
/// Shapes      cost_before[n + 1], tokens_before[n + 1].
struct mix_batch {
  std::vector<mix_sample> as_given;
  std::vector<std::uint64_t> cost_before;
  std::vector<std::uint64_t> tokens_before;

  [[nodiscard]] std::size_t size() const noexcept { return cost_before.size() - 1; }
  [[nodiscard]] std::uint64_t cost(std::size_t sample) const noexcept
  {
    return cost_before[sample + 1] - cost_before[sample];
  }
  [[nodiscard]] tokens length(std::size_t sample) const noexcept
  {
    return static_cast<tokens>(tokens_before[sample + 1] - tokens_before[sample]);
  }
};

/// What mixes are judged on: batches that are priced and sorted once for all of them.
struct mix_batches {
  std::vector<mix_batch> batches;
  bag_exchange_work exchanges;
  std::size_t samples = 0;                               ///< of all batches
  tokens shortest = std::numeric_limits<tokens>::max();  ///< of those that have tokens
};

[[nodiscard]] inline tl::unexpected<error> refused_sample(std::size_t batch, std::size_t sample,
                                                          std::string const& why)
{
  return fail(error_code::out_of_range, batch, "sample ", sample, " of batch ", batch, why);
}

inline void fill_batch(mix_batches& all, std::size_t number, std::span<tokens const> lengths,
                       std::span<cost_units const> costs, workspace& memory)
{
  auto scratch = memory.open();
  std::span<priced_sample> const order = scratch.take<priced_sample>(costs.size());
  descending_order_into(order, costs, memory);
  mix_batch& added = all.batches[number];
  added.cost_before.reserve(order.size() + 1);
  added.tokens_before.reserve(order.size() + 1);
  std::uint64_t cost_sum = 0;
  std::uint64_t token_sum = 0;
  for (auto const [cost, sample] : order) {
    tokens const length = lengths[to_index(sample)];
    added.cost_before.push_back(cost_sum);
    added.tokens_before.push_back(token_sum);
    cost_sum += static_cast<std::uint64_t>(cost);
    token_sum += static_cast<std::uint64_t>(length);
    if (length > 0) { all.shortest = std::min(all.shortest, length); }
  }
  added.cost_before.push_back(cost_sum);
  added.tokens_before.push_back(token_sum);
  all.samples += order.size();
}

/// Prices and sorts batches for a job of so many GPUs. Errors count them from `first`.
///
/// Ensures     (1) no step of any mix, in eighths of a cost unit, and no sum of one step for each
///                 batch is 2^62 or more
/// Errors      out_of_range: batch `position` has a sample whose length is not in [0,
///             longest_sample] or that has no cost, or costs and exchanges of the batches up to it
///             add up to 2^59 or more.
template <cost_model CostOf>
[[nodiscard]] result<mix_batches> read_mix_batches(std::span<sample_batch const> batches,
                                                   std::size_t first,
                                                   bag_exchange_work const& exchanges,
                                                   std::size_t gpus, CostOf const& cost_of)
{
  mix_batches all;
  all.exchanges = exchanges;
  all.batches = std::vector<mix_batch>(batches.size());
  cost_units const slowest = *std::max_element(exchanges.once.begin(), exchanges.once.end());
  std::uint64_t const dearest =
      *std::max_element(exchanges.per_token.begin(), exchanges.per_token.end());
  std::uint64_t const dearest_sample =
      *std::max_element(exchanges.per_sample.begin(), exchanges.per_sample.end());
  workspace memory;
  std::vector<cost_units> costs;
  uint128 sum = 0;
  for (std::size_t batch = first; batch < first + batches.size(); ++batch) {
    std::span<tokens const> const lengths = span_of(batches[batch - first].lengths);
    costs.clear();
    uint128 token_sum = 0;
    for (std::size_t sample = 0; sample < lengths.size(); ++sample) {
      tokens const length = lengths[sample];
      if (length < 0 || length > longest_sample) {
        return refused_sample(batch, sample,
                              concat(" has ", counted(length, "token"),
                                     ", which is not from 0 to 2147483647; leave it out"));
      }
      auto const cost = static_cast<cost_units>(std::invoke(cost_of, length));
      if (cost < 0 || cost == no_cost) {
        return refused_sample(batch, sample,
                              concat(" of ", counted(length, "token"),
                                     " has no cost from 0 to 2^63 - 2; correct the cost model"));
      }
      costs.push_back(cost);
      mix_sample& given = all.batches[batch - first].as_given.emplace_back();
      given = {.cost = cost, .length = length};
      if constexpr (attention_cost_model<CostOf>) {
        given.attention = static_cast<cost_units>(cost_of.attention_part(length));
      }
      sum += static_cast<std::uint64_t>(cost);
      token_sum += static_cast<std::uint64_t>(length);
    }
    // Every bag rounds its exchanges up by less than a unit.
    sum += ((token_sum * dearest + uint128{lengths.size()} * dearest_sample) >>
            bag_exchange_work::fraction_bits) +
           gpus + uint128{bag_mix::largest} * static_cast<std::uint64_t>(slowest);
    if (sum >> 59 != 0) {
      return fail(error_code::out_of_range, batch,
                  "the costs and exchanges of the batches up to batch ", batch,
                  " add up to 2^59 units or more; give fewer batches or use a coarser unit");
    }
    fill_batch(all, batch - first, lengths, span_of(costs), memory);
  }
  return all;
}

/// A step as mixes are compared by it: in eighths of a cost unit, so that load / G is whole.
using step_eighths = std::uint64_t;

/// A step that is longer than the limit, by how much nobody asked.
inline constexpr step_eighths over_the_limit = std::numeric_limits<step_eighths>::max();

[[nodiscard]] constexpr std::uint64_t eighths_of(std::size_t size) noexcept
{
  return bag_mix::largest / bag_mix::gpus_of(size);
}

/// Steps of mixes on one batch, as a policy plans them over bags that are laid inside the nodes.
///
/// Those of `longest_processing_time` need no plan: it gives a sample to the bag of the size that
/// would finish it earliest, exchanges aside. Only the loads, tokens and samples of the bags are
/// counted, not which sample is where. Bags of one size are a heap, the least loaded in front. A bag
/// in it is a number, its load above its own number, for which 64 bits are enough but for extreme
/// costs.
///
/// Complexity  one step by longest_processing_time O(n (sizes + log bags)), and less where it is over
///             the limit; by another policy that of partition_into().
class mix_steps {
 public:
  /// Expects     what is given outlives it.
  template <partition_policy Policy>
  mix_steps(bag_exchange_work const& exchanges, cluster const& machines, short_samples short_ones,
            Policy const& policy)
      : exchanges_(exchanges), machines_(machines), short_ones_(short_ones)
  {
    if constexpr (!std::same_as<Policy, longest_processing_time>) { policy_.emplace(policy); }
  }

  /// Why the policy could not plan a step, where it could not.
  [[nodiscard]] std::optional<error> const& refused() const noexcept { return refused_; }

  /// The step, or over_the_limit. Adds the samples that were placed to `placed`.
  ///
  /// Expects     a mix with a bag; batches as read_mix_batches ensures.
  [[nodiscard]] step_eighths plan(bag_mix const& mix, mix_batch const& batch, step_eighths limit,
                                  std::uint64_t& placed)
  {
    if (policy_) {
      placed += batch.size();
      step_eighths const step = step_of_plan(mix, batch);
      return step <= limit ? step : over_the_limit;
    }
    std::size_t bags = 0;
    for (std::uint32_t const count : mix.bags) { bags += count; }
    auto const number_bits = static_cast<int>(std::bit_width(bags));
    auto const cost_bits = static_cast<int>(std::bit_width(batch.cost_before.back()));
    if (cost_bits + number_bits <= 64) {
      return plan_with<std::uint64_t>(mix, batch, limit, placed, bags, number_bits);
    }
    return plan_with<uint128>(mix, batch, limit, placed, bags, number_bits);
  }

  [[nodiscard]] step_eighths sum(bag_mix const& mix, std::vector<mix_batch> const& batches,
                                 std::uint64_t& placed)
  {
    step_eighths steps = 0;
    for (mix_batch const& batch : batches) {
      step_eighths const step = plan(mix, batch, over_the_limit, placed);
      if (step == over_the_limit) { return step; }
      steps += step;
    }
    return steps;
  }

 private:
  /// By the policy; over_the_limit where it has no plan.
  [[nodiscard]] step_eighths step_of_plan(bag_mix const& mix, mix_batch const& batch)
  {
    if (laid_ != mix) {
      auto laid = lay_out(mix.spec(), machines_, misplaced_bags::largest_first);
      if (!laid) {
        refused_ = refused_ ? refused_ : laid.error();
        return over_the_limit;
      }
      bags_ = laid->with_short_samples(short_ones_);
      laid_ = mix;
    }
    auto const done = partition_into(plan_, memory_, batch.as_given, bags_, mix_sample_cost{},
                                     &mix_sample::length, {}, *policy_);
    if (!done) {
      refused_ = refused_ ? refused_ : done.error();
      return over_the_limit;
    }
    tokens_of_.assign(bags_.size(), 0);
    for (std::size_t sample = 0; sample < batch.size(); ++sample) {
      tokens_of_[to_index(plan_.owner[to_id<sample_id>(sample)])] += batch.as_given[sample].length;
    }
    step_eighths step = 0;
    for (std::size_t bag = 0; bag < bags_.size(); ++bag) {
      auto const id = to_id<bag_id>(bag);
      auto const size = static_cast<std::size_t>(std::bit_width(bags_[id].gpus) - 1);
      cost_units const work =
          plan_.loads[bag] + exchanges_.work(size, tokens_of_[bag], plan_.samples[id].size());
      step = std::max(step, step_of(size, static_cast<std::uint64_t>(work)));
    }
    return step;
  }

  /// Of a bag of this size that has so much work.
  [[nodiscard]] step_eighths step_of(std::size_t size, std::uint64_t work) const
  {
    return work * eighths_of(size) +
           bag_mix::largest * static_cast<std::uint64_t>(exchanges_.once[size]);
  }

  template <class Word>
  struct bags_of_size {
    std::size_t size;
    tokens gpus;
    std::uint64_t eighths;  ///< of a unit, that one of load takes
    step_eighths longest;   ///< that a load may take within the limit
    std::span<Word> heap;
  };

  template <class Word>
  [[nodiscard]] step_eighths plan_with(bag_mix const& mix, mix_batch const& batch,
                                       step_eighths limit, std::uint64_t& placed, std::size_t bags,
                                       int number_bits)
  {
    auto const load = [number_bits](Word bag) {
      return static_cast<std::uint64_t>(bag >> number_bits);
    };
    auto const number = [mask = (Word{1} << number_bits) - 1](Word bag) {
      return static_cast<std::size_t>(bag & mask);
    };
    std::array<bags_of_size<Word>, bag_mix::sizes> kinds;
    std::size_t count = 0;
    auto scratch = memory_.open();
    std::span<Word> const all = scratch.take<Word>(bags);
    std::span<tokens> const tokens_of = scratch.take<tokens>(bags);
    std::span<std::size_t> const samples_of = scratch.take<std::size_t>(bags);
    std::fill(tokens_of.begin(), tokens_of.end(), tokens{0});
    std::fill(samples_of.begin(), samples_of.end(), std::size_t{0});
    std::size_t first = 0;
    for (std::size_t size = 0; size < bag_mix::sizes; ++size) {
      if (mix.bags[size] == 0) { continue; }
      auto const once = bag_mix::largest * static_cast<std::uint64_t>(exchanges_.once[size]);
      if (once > limit) { return over_the_limit; }
      kinds[count++] = {size, bag_mix::gpus_of(size), eighths_of(size), limit - once,
                        all.subspan(first, mix.bags[size])};
      for (std::size_t bag = 0; bag < mix.bags[size]; ++bag) { all[first + bag] = first + bag; }
      first += mix.bags[size];
    }

    std::uint64_t done = 0;
    for (std::size_t sample = 0; sample < batch.size(); ++sample) {
      std::uint64_t const units = batch.cost(sample);
      tokens const length = batch.length(sample);
      bags_of_size<Word>* best = kinds.data();
      step_eighths least = (load(best->heap.front()) + units) * best->eighths;
      for (std::size_t kind = 1; kind < count; ++kind) {
        // The smallest bags take every sample: mixes whose bags take none of it are left out.
        if (length < kinds[kind].gpus && length != 0) { break; }
        step_eighths const finish = (load(kinds[kind].heap.front()) + units) * kinds[kind].eighths;
        if (finish < least) {
          least = finish;
          best = &kinds[kind];
        }
      }
      ++done;
      if (least > best->longest) {
        placed += done;
        return over_the_limit;
      }
      Word const lightest = best->heap.front();
      tokens_of[number(lightest)] += length;
      ++samples_of[number(lightest)];
      replace_front(best->heap, lightest + (Word{units} << number_bits));
    }
    placed += done;

    step_eighths step = 0;
    for (std::size_t at = 0; at < count; ++at) {
      bags_of_size<Word> const& kind = kinds[at];
      step_eighths busiest = 0;
      for (Word const bag : kind.heap) {
        auto const exchanged = static_cast<std::uint64_t>(
            exchanges_.work(kind.size, tokens_of[number(bag)], samples_of[number(bag)]));
        busiest = std::max(busiest, load(bag) + exchanged);
      }
      step = std::max(step, step_of(kind.size, busiest));
    }
    return step <= limit ? step : over_the_limit;
  }

  bag_exchange_work exchanges_;
  cluster const& machines_;
  short_samples short_ones_;
  std::optional<policy_ref<cost_units>> policy_;  // none: longest_processing_time
  workspace memory_;
  bag_layout bags_;  // of the mix that was laid last
  bag_mix laid_;
  partition_plan plan_;
  std::vector<tokens> tokens_of_;  // of each bag
  std::optional<error> refused_;
};

/// A step that no plan of the batch over these bags gets below.
///
/// Bags of G GPUs and more have to do all samples that take longer than the step on any smaller
/// bag, with the exchanges that these cost on G. And the heaviest sample takes its time on its best
/// bag.
///
/// Expects     a mix with a bag; per_token and per_sample do not decrease with the size.
/// Complexity  O(sizes log n).
[[nodiscard]] inline step_eighths step_bound(bag_mix const& mix, mix_batch const& batch,
                                             bag_exchange_work const& exchanges)
{
  std::uint64_t gpus = 0;
  uint128 once = 0;  // that GPUs spend on exchanges whatever the samples are
  for (std::size_t size = 0; size < bag_mix::sizes; ++size) {
    std::uint64_t const of_size = std::uint64_t{mix.bags[size]} << size;
    gpus += of_size;
    once += uint128{of_size} * static_cast<std::uint64_t>(exchanges.once[size]);
  }
  std::size_t const samples = batch.size();
  step_eighths heaviest = over_the_limit;
  step_eighths bound = 0;
  std::size_t smaller = bag_mix::sizes;  // the next smaller size that the mix has
  for (std::size_t size = 0; size < bag_mix::sizes; ++size) {
    if (mix.bags[size] == 0) { continue; }
    // What these bags take for the first so many samples, were these spread evenly.
    auto const spread = [&](std::size_t first) {
      uint128 const exchanged = (uint128{exchanges.per_token[size]} * batch.tokens_before[first] +
                                 uint128{exchanges.per_sample[size]} * first) >>
                                bag_exchange_work::fraction_bits;
      return static_cast<step_eighths>(
          divided_up(bag_mix::largest * (batch.cost_before[first] + exchanged + once), gpus));
    };
    auto const on_smaller = [&](std::size_t sample) {
      return batch.cost(sample) * eighths_of(smaller);
    };
    if (smaller == bag_mix::sizes) {
      bound = spread(samples);
    } else {
      // Below both, sample `middle` and those before it fit no smaller bag, and then they do not
      // fit these. The one falls and the other rises with `middle`: they cross at `low`.
      std::size_t low = 0;
      std::size_t high = samples;
      while (low < high) {
        std::size_t const middle = low + (high - low) / 2;
        if (on_smaller(middle) > spread(middle + 1)) {
          low = middle + 1;
        } else {
          high = middle;
        }
      }
      if (low > 0) { bound = std::max(bound, spread(low)); }
      if (low < samples) { bound = std::max(bound, on_smaller(low)); }
    }
    auto const own_once = bag_mix::largest * static_cast<std::uint64_t>(exchanges.once[size]);
    bound = std::max(bound, own_once);
    if (samples > 0) {
      auto const exchanged = static_cast<std::uint64_t>(exchanges.work(size, batch.length(0), 1));
      std::uint64_t const work = batch.cost(0) + exchanged;
      heaviest = std::min(heaviest, work * eighths_of(size) + own_once);
    }
    std::uint64_t const of_size = std::uint64_t{mix.bags[size]} << size;
    gpus -= of_size;
    once -= uint128{of_size} * static_cast<std::uint64_t>(exchanges.once[size]);
    smaller = size;
  }
  return samples > 0 ? std::max(bound, heaviest) : bound;
}

}  // namespace ballast::inline v0::detail
