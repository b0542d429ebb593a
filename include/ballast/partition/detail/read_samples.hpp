// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/cost/cost_model.hpp>
#include <ballast/partition/concepts.hpp>
#include <ballast/topology/bag_layout.hpp>

namespace ballast::inline v0::detail {

/// A cost or a length as 64 bits with a sign; what they cannot hold is no_cost, and too long.
template <std::integral Number>
[[nodiscard]] constexpr std::int64_t saturated(Number number)
{
  if constexpr (std::unsigned_integral<Number> && sizeof(Number) >= sizeof(std::int64_t)) {
    constexpr auto most = static_cast<Number>(std::numeric_limits<std::int64_t>::max());
    return static_cast<std::int64_t>(std::min(number, most));
  } else {
    return static_cast<std::int64_t>(number);
  }
}

/// What an error says of a sample.
struct named_sample {
  static constexpr tokens no_length = std::numeric_limits<tokens>::min();

  std::size_t sample;
  tokens length = no_length;  ///< where only its costs count
  int dimension = -1;         ///< of the cost in question, where there are several

  [[nodiscard, gnu::cold]] tl::unexpected<error> refuse(error_code code,
                                                        std::string const& why) const
  {
    std::string const tokens_of =
        length == no_length ? std::string() : concat(" of ", counted(length, "token"));
    return fail(code, sample, "sample ", sample, tokens_of, " ", why);
  }
};

/// Why a sample of this length cannot be planned, if so.
[[nodiscard]] inline result<void> check_length(std::size_t sample, tokens length,
                                               bag_layout const& bags)
{
  if (length < 0 || length > longest_sample) {
    return named_sample{sample, length}.refuse(
        error_code::out_of_range,
        concat("has a length that is not from 0 to ", longest_sample, "; correct its length"));
  }
  if (bags.is_short(length) && !bags.admits_short_samples()) {
    return named_sample{sample, length}.refuse(
        error_code::infeasible,
        concat("is shorter than the smallest bag, which has ", counted(bags.smallest_bag(), "GPU"),
               "; add smaller bags, admit it by "
               "bags.with_short_samples(short_samples::admitted), or leave it out"));
  }
  return {};
}

/// Why a cost cannot be planned, if so; `total` is that of the samples before it.
[[nodiscard]] inline result<void> check_cost(named_sample const& of, cost_units cost,
                                             cost_units total)
{
  if (cost >= 0 && cost != no_cost && cost <= no_cost - 1 - total) { return {}; }
  std::string const in = of.dimension < 0 ? std::string() : concat(" in dimension ", of.dimension);
  return of.refuse(
      error_code::out_of_range,
      cost < 0 ? concat("has a negative cost", in, "; correct the cost model")
      : cost == no_cost
          ? concat("has no cost", in,
                   ": a length that the cost model looks at is negative or too long, or its unit "
                   "is too fine; correct the sample or use a coarser unit")
          : concat("brings the total cost", in,
                   " above 63 bits; use a cost model with a coarser unit or plan fewer samples at "
                   "once"));
}

/// A cost as numbers, one for each quantity.
template <class Cost>
[[nodiscard]] constexpr auto numbers_of(Cost& cost)
{
  if constexpr (std::integral<Cost>) {
    return std::span<Cost, 1>(&cost, 1);
  } else {
    return std::span(cost);
  }
}

/// Prices the samples that read_samples reads. (A lambda's names would be seen to hide those of a
/// program that includes it, under g++.)
///
/// Shapes      costs[n]; attention[n], or empty where nothing asks what of a cost is attention. A
///             cost model that cannot say has none.
template <class Cost, class CostOf>
struct sample_prices {
  CostOf const& cost_of;
  std::span<Cost> costs;
  std::span<cost_units> attention = {};
  Cost total{};  ///< of the samples so far

  template <class Sample>
  [[nodiscard]] result<void> operator()(std::size_t at, Sample& sample, tokens length)
  {
    constexpr bool is_one = std::same_as<Cost, cost_units>;
    if constexpr (is_one) {
      costs[at] = saturated(std::invoke(cost_of, sample));
    } else {
      costs[at] = std::invoke(cost_of, sample);
    }
    auto const prices = numbers_of(costs[at]);
    for (std::size_t d = 0; d < prices.size(); ++d) {
      cost_units& sum = numbers_of(total)[d];
      auto checked = check_cost({at, length, is_one ? -1 : static_cast<int>(d)}, prices[d], sum);
      if (!checked) { return checked; }
      sum += prices[d];
    }
    if constexpr (is_one && attention_cost_model<CostOf, Sample>) {
      if (attention.empty()) { return {}; }
      attention[at] = saturated(cost_of.attention_part(sample));
      if (attention[at] < 0 || attention[at] > costs[at]) {
        return named_sample{at, length}.refuse(
            error_code::out_of_range,
            "has an attention part of its cost that is not from 0 to that "
            "cost; correct the cost model");
      }
    }
    return {};
  }
};

struct sample_lengths {
  std::span<tokens> own;
  /// What policies look at: where the bags admit short samples, such a one has a token for every
  /// GPU of a smallest bag.
  std::span<tokens> fitting;
  std::size_t short_samples = 0;
};

/// Reads the lengths of a step's samples, and has each priced once its length is known to be good,
/// so that a user's cost model is not called with one that is out of range.
///
/// Shapes      samples[n].
/// Expects     price(i, sample, length) takes the cost of sample i, and returns an error where it
///             has none.
/// Ensures     (1) `own` and `fitting` are one array where no sample can be short
/// Errors      the first of all samples: out_of_range or infeasible for its length, or what `price`
///             returns.
/// Complexity  O(n); 8 or 16 bytes of scratch per sample that the caller's frame keeps.
template <class Samples, class LengthOf, class Price>
[[nodiscard]] result<sample_lengths> read_samples(Samples&& samples, std::size_t count,
                                                  bag_layout const& bags, LengthOf const& length_of,
                                                  workspace::frame& scratch, Price&& price)
{
  bool const admits = bags.admits_short_samples();
  std::span<tokens> const own = scratch.take<tokens>(count);
  sample_lengths lengths{own, admits ? scratch.take<tokens>(count) : own};
  std::size_t next = 0;
  for (auto&& sample : samples) {
    tokens const length = saturated(std::invoke(length_of, sample));
    if (auto checked = check_length(next, length, bags); !checked) {
      return tl::unexpected(std::move(checked).error());
    }
    tokens const named = std::same_as<LengthOf, no_length> ? named_sample::no_length : length;
    if (auto checked = price(next, sample, named); !checked) {
      return tl::unexpected(std::move(checked).error());
    }
    bool const is_short = bags.is_short(length);
    own[next] = length;
    if (admits) { lengths.fitting[next] = is_short ? tokens{bags.smallest_bag()} : length; }
    lengths.short_samples += is_short ? 1 : 0;
    ++next;
  }
  return lengths;
}

}  // namespace ballast::inline v0::detail
