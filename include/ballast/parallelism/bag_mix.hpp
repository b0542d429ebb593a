// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/cost/latency_fit.hpp>
#include <ballast/parallelism/model_layout.hpp>
#include <ballast/topology/bag_layout.hpp>

#include <compare>

namespace ballast::inline v0 {

/// How many bags of 1, 2, 4 and 8 GPUs a job has.
///
/// Shapes      bags[k] counts those of gpus_of(k) = 2^k GPUs.
/// Ensures     (1) ordered by the bags of one GPU, then of two, and so on
struct bag_mix {
  static constexpr std::size_t sizes = 4;
  static constexpr std::uint32_t largest = std::uint32_t{1} << (sizes - 1);

  std::array<std::uint32_t, sizes> bags{};

  [[nodiscard]] static constexpr std::uint32_t gpus_of(std::size_t size) noexcept
  {
    return std::uint32_t{1} << size;
  }

  [[nodiscard]] constexpr std::size_t gpus() const noexcept
  {
    std::size_t sum = 0;
    for (std::size_t size = 0; size < sizes; ++size) {
      sum += std::size_t{bags[size]} * gpus_of(size);
    }
    return sum;
  }

  /// Whether all bags have one size.
  [[nodiscard]] constexpr bool is_uniform() const noexcept
  {
    std::size_t different = 0;
    for (std::uint32_t const count : bags) { different += count != 0 ? 1 : 0; }
    return different <= 1;
  }

  /// The mix as a specification of one replica, larger bags first: `g4n2+g1n8`.
  ///
  /// Expects     gpus() <= bag_spec::max_gpus.
  [[nodiscard]] constexpr bag_spec spec() const
  {
    bag_spec written;
    for (std::size_t size = sizes; size-- > 0;) {
      if (bags[size] != 0) { (void)written.add({gpus_of(size), bags[size]}); }
    }
    return written;
  }

  friend constexpr bool operator==(bag_mix const&, bag_mix const&) = default;
  friend constexpr std::strong_ordering operator<=>(bag_mix const&, bag_mix const&) = default;
};

/// What the GPUs of a bag send while they compute what the costs of its samples stand for: a
/// forward pass of all layers, for example, or a whole training step.
///
/// Samples are brought to their bag and back once for all layers, but every layer has all-to-alls of
/// its own: a route weighs as much as a layer's exchanges only where the costs are those of one.
///
/// Units       bytes per token of all arrays together. heads: queries, keys, values and outputs of
///             attention in one layer's all-to-alls; routed: what is brought to the bag and back.
///             units_per_second: how much cost a GPU does.
struct bag_traffic {
  std::uint32_t layers = 0;  ///< that the costs stand for; at least 1
  std::uint64_t head_bytes_per_token_and_layer = 0;
  std::uint32_t all_to_alls_per_layer = 0;  ///< two for each pass
  std::uint64_t routed_bytes_per_token = 0;
  std::uint32_t routes = 0;  ///< there and back: two for each pass
  double units_per_second = 0;
};

/// The time of a bag's exchanges, for bags of 1, 2, 4 and 8 GPUs, as integers.
///
/// A bag of G GPUs whose n samples have T tokens adds once[G] to its time, and per_token[G] T +
/// per_sample[G] n to the work that its G GPUs share. All zero: exchanges take no time.
///
/// Shapes      by size, as in bag_mix.
/// Units       once: cost units that one GPU does in that time; per_token, per_sample:
///             2^-fraction_bits of a cost unit.
struct bag_exchange_work {
  static constexpr int fraction_bits = 20;

  std::array<cost_units, bag_mix::sizes> once{};
  std::array<std::uint64_t, bag_mix::sizes> per_token{};
  std::array<std::uint64_t, bag_mix::sizes> per_sample{};

  /// The work that so many samples of so many tokens are to a bag of 2^size GPUs beside their
  /// costs, rounded up.
  ///
  /// Expects     count >= 0 and a result below 2^63.
  [[nodiscard]] constexpr cost_units work(std::size_t size, tokens count,
                                          std::size_t samples) const noexcept
  {
    return static_cast<cost_units>(
        detail::divided_up(uint128{per_token[size]} * static_cast<std::uint64_t>(count) +
                               uint128{per_sample[size]} * samples,
                           uint128{1} << fraction_bits));
  }

  friend bool operator==(bag_exchange_work const&, bag_exchange_work const&) = default;
};

namespace detail {

/// The time to send part / whole of these bytes, as fixed-point cost units.
[[nodiscard]] constexpr std::optional<std::uint64_t> units_of_transfer(
    std::uint64_t bytes, std::uint64_t part, std::uint64_t whole, std::uint64_t bytes_per_second,
    scaled_number units_per_second)
{
  // bytes are below 2^32 and part below 2^48, so the dividend fits 128 bits.
  constexpr int bits = 48;
  uint128 const seconds = ((uint128{bytes} * part) << bits) / (uint128{bytes_per_second} * whole);
  if (seconds > std::numeric_limits<std::uint64_t>::max()) { return std::nullopt; }
  return (scaled_number(static_cast<std::uint64_t>(seconds)) * units_per_second)
      .shifted(bag_exchange_work::fraction_bits - bits)
      .rounded();
}

}  // namespace detail

/// The exchanges of bags that lie inside the nodes of a cluster, by the bandwidth of its links.
///
/// A GPU of a bag of G has 1/G of its tokens. In Ulysses' all-to-alls it sends (G - 1)/G of their
/// heads to the others of its bag, inside the node; a bag of one does not call them. In a route it
/// receives its tokens from all over the job, a share from GPUs of its own node and the others from
/// other nodes, over both kinds of links at once. Each call takes the cluster's latency besides.
///
/// Ensures     (1) integers, the same on every machine, also under -ffast-math
///             (2) a larger bag has no cheaper tokens: per_token does not decrease
/// Errors      out_of_range, position 0: there is no layer, a bandwidth is not from 1 to 2^60
///             bytes/s, the latency or units_per_second is negative or no number, a token has 2^32
///             bytes or more, or exchanging it, or the calls of one bag, take 2^40 cost units or
///             more.
/// Complexity  O(nodes).
/// Source      S. A. Jacobs et al., "DeepSpeed Ulysses", arXiv 2309.14509, 2023, section 3; the
///             share that crosses nodes is that of samples read by random GPUs.
[[nodiscard]] inline result<bag_exchange_work> price_bag_exchanges(bag_traffic const& traffic,
                                                                   cluster const& machines)
{
  using detail::scaled_number;
  constexpr std::uint64_t most = std::uint64_t{1} << 40;  // cost units
  auto const refuse = [](char const* why) { return fail(error_code::out_of_range, 0, why); };
  auto const whole_bandwidth = [](double bytes_per_second) -> std::uint64_t {
    auto const number = scaled_number::from(bytes_per_second);
    auto const whole = number ? number->rounded() : std::nullopt;
    return whole && *whole <= std::uint64_t{1} << 60 ? *whole : 0;
  };
  std::uint64_t const within = whole_bandwidth(machines.within_node_bytes_per_second);
  std::uint64_t const between = whole_bandwidth(machines.between_nodes_bytes_per_second);
  if (within == 0 || between == 0) {
    return refuse("a bandwidth of the cluster is not from 1 to 2^60 bytes per second; correct it");
  }
  auto const speed = scaled_number::from(traffic.units_per_second);
  auto const latency = scaled_number::from(machines.latency_seconds);
  if (!speed || !latency) {
    return refuse(
        "the cluster's latency and the cost units per second have to be numbers from 0 on; correct "
        "them");
  }
  std::uint64_t const layers = traffic.layers;
  if (layers == 0) {
    return refuse(
        "there is no layer; say for how many layers samples are brought to their bag once");
  }
  constexpr std::uint64_t most_bytes = std::uint64_t{1} << 32;
  if (traffic.head_bytes_per_token_and_layer > (most_bytes - 1) / layers ||
      traffic.routed_bytes_per_token >= most_bytes) {
    return refuse("a token has 2^32 bytes or more; give what the exchanges move of it");
  }

  // Of the tokens that a GPU gets in a route: those of other GPUs in its node, and of other nodes.
  auto const gpus = static_cast<std::uint64_t>(machines.gpus());
  std::uint64_t pairs_in_nodes = 0;
  for (std::size_t node = 0; node < machines.nodes.size(); ++node) {
    auto const of_node = static_cast<std::uint64_t>(machines.nodes[to_id<node_id>(node)]);
    pairs_in_nodes += of_node * of_node;
  }
  std::uint64_t const pairs = gpus * gpus;
  auto const routed = traffic.routed_bytes_per_token;
  auto const inside =
      detail::units_of_transfer(routed, pairs_in_nodes - gpus, pairs, within, *speed);
  auto const across =
      detail::units_of_transfer(routed, pairs - pairs_in_nodes, pairs, between, *speed);
  bag_exchange_work priced;
  bool fits = inside && across;
  for (std::size_t size = 0; size < bag_mix::sizes; ++size) {
    std::uint64_t const others = bag_mix::gpus_of(size) - 1;
    auto const heads = detail::units_of_transfer(layers * traffic.head_bytes_per_token_and_layer,
                                                 others, others + 1, within, *speed);
    std::uint64_t const calls =
        std::uint64_t{traffic.routes} + (size == 0 ? 0 : layers * traffic.all_to_alls_per_layer);
    auto const once = (scaled_number(calls) * *latency * *speed).rounded();
    fits = fits && heads && once && *once < most &&
           uint128{*heads} + std::max(*inside, *across) < uint128{most}
                                                              << bag_exchange_work::fraction_bits;
    if (!fits) {
      return refuse(
          "an exchange takes 2^40 cost units or more; check bandwidths, bytes and the unit of "
          "cost");
    }
    priced.per_token[size] = *heads + std::max(*inside, *across);
    priced.once[size] = static_cast<cost_units>(*once);
  }
  return priced;
}

/// The same as steps were measured to take, whatever is between the GPUs: what fit_steps() found.
///
/// Units       those of step_fit::cost: nanoseconds.
/// Ensures     (1) a step of choose_bags() then is what the fit says of it
///             (2) as above
/// Errors      out_of_range, position 0: a number of the fit is negative or none, or stands for
///             2^40 units or more.
/// Complexity  O(1).
[[nodiscard]] inline result<bag_exchange_work> price_bag_exchanges(step_fit const& fit)
{
  using detail::scaled_number;
  constexpr std::uint64_t nanoseconds = 1'000'000'000;
  constexpr std::uint64_t most = std::uint64_t{1} << 40;
  auto const once = scaled_number::from(fit.compute.seconds_per_call);
  auto const per_token = scaled_number::from(fit.seconds_per_exchanged_token);
  auto const per_sample = scaled_number::from(fit.seconds_per_sequence);
  bag_exchange_work priced;
  bool fits = once && per_token && per_sample;
  for (std::size_t size = 0; fits && size < bag_mix::sizes; ++size) {
    std::uint64_t const gpus = bag_mix::gpus_of(size);
    auto const units = [](scaled_number seconds, std::uint64_t times, int shift) {
      return (seconds * scaled_number(nanoseconds * times)).shifted(shift).rounded();
    };
    constexpr int bits = bag_exchange_work::fraction_bits;
    auto const of_step = units(*once, 1, 0);
    auto const of_token = units(*per_token, gpus - 1, bits - static_cast<int>(size));
    auto const of_sample = units(*per_sample, gpus, bits);
    fits = of_step && of_token && of_sample && *of_step < most && *of_token < most << bits &&
           *of_sample < most << bits;
    if (!fits) { break; }
    priced.once[size] = static_cast<cost_units>(*of_step);
    priced.per_token[size] = *of_token;
    priced.per_sample[size] = *of_sample;
  }
  if (!fits) {
    return fail(error_code::out_of_range, 0,
                "a term of the fit is negative, no number, or 1,000 seconds or more; check where "
                "these numbers were saved");
  }
  return priced;
}

}  // namespace ballast::inline v0
