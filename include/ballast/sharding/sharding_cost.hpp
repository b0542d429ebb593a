// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/core/detail/radix_sort.hpp>
#include <ballast/cost/latency_fit.hpp>
#include <ballast/topology/device_groups.hpp>

namespace ballast::inline v0 {

/// What the exchanges of a group depend on: how many GPUs it has, and how these lie on nodes.
struct group_shape {
  std::uint32_t gpus = 1;
  std::uint32_t fewest_in_node = 1;  ///< of the group's GPUs, in the node with fewest of them
  std::uint32_t most_in_node = 1;    ///< and in that with most

  friend constexpr bool operator==(group_shape, group_shape) = default;
};

/// The shape of a group over nodes. O(nodes of the group).
[[nodiscard]] inline group_shape shape_of(device_group group, node_sizes const& nodes)
{
  group_shape shape{group.gpus, group.gpus, 1};
  std::size_t const end = to_index(group.first) + group.gpus;
  for (std::size_t rank = to_index(group.first); rank < end;) {
    node_id const node = nodes.node_of(to_id<rank_id>(rank));
    std::size_t const next = std::min(end, to_index(nodes.first(node)) + nodes[node]);
    auto const here = static_cast<std::uint32_t>(next - rank);
    shape.fewest_in_node = std::min(shape.fewest_in_node, here);
    shape.most_in_node = std::max(shape.most_in_node, here);
    rank = next;
  }
  return shape;
}

/// What a sequence takes each GPU of a group of one shape, as a function of its length.
struct degree_cost {
  quadratic_cost work;       ///< of one GPU
  quadratic_cost exchanges;  ///< its bytes on the slower kind of link
  cost_units latency = 0;

  [[nodiscard]] constexpr cost_units operator()(tokens length) const
  {
    if (length == 0) { return 0; }
    return saturating_sum(saturating_sum(work(length), exchanges(length)), latency);
  }

  friend bool operator==(degree_cost const&, degree_cost const&) = default;
};

/// What a sequence takes each GPU of the group that it is split over, as in Ulysses: tokens are
/// split evenly, attention by heads, and around attention the GPUs exchange queries, keys, values
/// and outputs.
///
/// Units       of `work`, for example picoseconds; units_per_second says how many make a second.
/// Expects     heads >= kv_heads >= 1; bandwidths and units_per_second at least 1; latency not
///             negative.
struct sharding_cost {
  quadratic_cost work;         ///< of the whole sequence on one GPU: per token and per token^2
  std::uint32_t heads = 1;     ///< of queries: no group has more GPUs
  std::uint32_t kv_heads = 1;  ///< of keys and values
  std::uint64_t bytes_per_head =
      0;  ///< of one token's part of an array, all exchanges of it together
  std::uint64_t within_node_bytes_per_second = 1;
  std::uint64_t between_nodes_bytes_per_second = 1;
  std::uint64_t units_per_second = 1'000'000'000'000;
  cost_units latency = 0;  ///< of all exchanges of a sequence
  /// Whether the query heads of one key-value head stay together, on one GPU while there are at most
  /// as many GPUs as key-value heads, and otherwise without heads of another (head_split).
  bool whole_groups = false;
  /// Whether attention is split by rows instead of heads, as in a ring: each GPU has its rows'
  /// part of the pairs, and the rows of keys and values pass by all GPUs. Heads then limit nothing.
  bool by_rows = false;

  /// The most query heads that a GPU of a group has: ceil(heads / gpus) or, of whole groups of
  /// g = heads / kv_heads, ceil(kv_heads / gpus) g, and ceil(g / floor(gpus / kv_heads)) where there
  /// are more GPUs than key-value heads.
  ///
  /// Expects     1 <= gpus <= heads; with whole_groups, heads are a multiple of kv_heads.
  [[nodiscard]] constexpr std::uint32_t heads_of_gpu(std::uint32_t gpus) const
  {
    if (!whole_groups) { return (heads + gpus - 1) / gpus; }
    std::uint32_t const group = heads / kv_heads;
    if (gpus <= kv_heads) { return (kv_heads + gpus - 1) / gpus * group; }
    std::uint32_t const fewest = gpus / kv_heads;
    return (group + fewest - 1) / fewest;
  }

  /// The cost at a degree, that is for groups of one shape.
  ///
  /// A sequence of l tokens on k GPUs takes each linear l / k + quadratic l^2 heads_of_gpu(k) /
  /// heads. A GPU has l / k rows and sends (k - 1) / k of each: 2 heads of queries and outputs, and
  /// twice the heads of keys and values, of which every GPU needs one at least. Links inside a node
  /// and between nodes work at the same time, and the GPU whose share of one of them takes longest
  /// counts. With k = 1 nothing is exchanged.
  ///
  /// Split by rows it takes linear l / k + quadratic l^2 / k, and each GPU passes k - 1 times l / k
  /// rows of keys and values to its neighbour; of a group in several nodes, the slower link counts.
  ///
  /// Expects     1 <= gpus, and gpus <= heads unless split by rows; fewest_in_node <=
  ///             most_in_node <= gpus; with whole_groups, heads are a multiple of kv_heads.
  /// Ensures     (1) for one GPU `work` itself, otherwise the formula within a unit for each of its
  ///                 terms and 2^-50 of it
  /// Complexity  O(1).
  [[nodiscard]] degree_cost at(group_shape shape) const;

  friend bool operator==(sharding_cost const&, sharding_cost const&) = default;
};

namespace detail {

/// numerator / denominator, too small by less than one part in 2^61. Expects 0 < denominator <
/// 2^127.
[[nodiscard]] inline scaled_number scaled_quotient(uint128 numerator, uint128 denominator)
{
  if (numerator == 0) { return {}; }
  uint128 quotient = numerator / denominator;
  uint128 rest = numerator % denominator;
  int exponent = 0;
  for (; quotient >> 62 == 0; --exponent) {
    rest <<= 1;
    bool const has_bit = rest >= denominator;
    if (has_bit) { rest -= denominator; }
    quotient = (quotient << 1) + (has_bit ? 1 : 0);
  }
  for (; quotient >> 64 != 0; ++exponent) { quotient >>= 1; }
  return scaled_number(static_cast<std::uint64_t>(quotient)).shifted(exponent);
}

/// The cost with these coefficients; where they do not fit, one that no sample has.
[[nodiscard]] inline quadratic_cost quantise_or_refuse(scaled_number per_token,
                                                       scaled_number per_token_squared)
{
  constexpr std::uint64_t largest = std::numeric_limits<std::uint64_t>::max();
  return quantise(per_token, per_token_squared).value_or(quadratic_cost{largest, largest, 0});
}

}  // namespace detail

inline degree_cost sharding_cost::at(group_shape shape) const
{
  auto const [gpus, fewest, most] = shape;
  BALLAST_EXPECTS(gpus >= 1 && (by_rows || gpus <= heads), "a sequence cannot be split over ",
                  detail::counted(gpus, "GPU"), " by its ", detail::counted(heads, "head"));
  BALLAST_EXPECTS(1 <= fewest && fewest <= most && most <= gpus, "a group of ",
                  detail::counted(gpus, "GPU"), " has from ", fewest, " to ", most,
                  " in its nodes");
  BALLAST_EXPECTS(kv_heads >= 1 && kv_heads <= heads, "a split has ",
                  detail::counted(kv_heads, "head"), " of keys and values, and ", heads,
                  " of queries");
  BALLAST_EXPECTS(within_node_bytes_per_second >= 1 && between_nodes_bytes_per_second >= 1 &&
                      units_per_second >= 1 && latency >= 0,
                  "links and times of a sharding_cost are positive");
  BALLAST_EXPECTS(!whole_groups || heads % kv_heads == 0, "groups of ",
                  detail::counted(heads, "query head"), " and ",
                  detail::counted(kv_heads, "key-value head"),
                  " cannot stay whole; the first are no multiple of the "
                  "second");
  if (gpus == 1) { return {work, {}, 0}; }

  auto const fraction_bits = static_cast<int>(work.fraction_bits);
  degree_cost cost;
  cost.work = detail::quantise_or_refuse(
      detail::scaled_quotient(work.linear, gpus).shifted(-fraction_bits),
      (by_rows ? detail::scaled_quotient(work.quadratic, gpus)
               : detail::scaled_quotient(static_cast<uint128>(work.quadratic) * heads_of_gpu(gpus),
                                         heads))
          .shifted(-fraction_bits));
  cost.latency = latency;

  if (by_rows) {
    bool const is_within = fewest == gpus;
    cost.exchanges = detail::quantise_or_refuse(
        detail::scaled_quotient(
            static_cast<uint128>(gpus - 1) * 2 * kv_heads,
            static_cast<uint128>(gpus) *
                (is_within ? within_node_bytes_per_second : between_nodes_bytes_per_second)) *
            detail::scaled_number(bytes_per_head) * detail::scaled_number(units_per_second),
        detail::scaled_number());
    return cost;
  }

  std::uint64_t const kv_copies = std::min(heads, std::max(kv_heads, gpus));
  std::uint64_t const sent_heads = 2 * (heads + kv_copies);
  // Units per byte and token; the larger factors join it as scaled numbers, which cannot overflow.
  auto const units = [&](std::uint32_t others, std::uint64_t bytes_per_second) {
    uint128 const square = static_cast<uint128>(gpus) * gpus;
    return detail::scaled_quotient(static_cast<uint128>(others) * sent_heads,
                                   square * bytes_per_second) *
           detail::scaled_number(bytes_per_head) * detail::scaled_number(units_per_second);
  };
  // The bytes that a GPU sends inside its node are most in the node with most of them, and those
  // that it sends to others in the node with fewest.
  quadratic_cost const within = detail::quantise_or_refuse(
      units(most - 1, within_node_bytes_per_second), detail::scaled_number());
  quadratic_cost const between = detail::quantise_or_refuse(
      units(gpus - fewest, between_nodes_bytes_per_second), detail::scaled_number());
  // Both are lines through 0.
  bool const within_is_longer = between(longest_sample) < within(longest_sample);
  cost.exchanges = within_is_longer ? within : between;
  return cost;
}

/// The cost of a transformer on a cluster, in picoseconds: `llama3-8b` measured by `fit`, with the
/// exchanges of all its layers in both directions.
///
/// Expects     bytes_per_element >= 1, of activations.
/// Errors      those of forward_flops, step_flops and latency_cost; out_of_range: a bandwidth is
///             not from 1 to 2^64 bytes per second, or a latency is negative or too long.
/// Complexity  O(1).
/// Source      S. A. Jacobs et al., "DeepSpeed Ulysses: System Optimizations for Enabling Training
///             of Extreme Long Sequence Transformer Models", arXiv:2309.14509, 2023 (the
///             exchanges).
[[nodiscard]] inline result<sharding_cost> sharding_cost_of(transformer_shape const& shape,
                                                            gamma_fit const& fit,
                                                            cluster const& machines,
                                                            training_passes passes = {},
                                                            std::uint32_t bytes_per_element = 2)
{
  auto const forward = forward_flops(shape);
  if (!forward) { return tl::unexpected(forward.error()); }
  auto const step = step_flops(*forward, passes);
  if (!step) { return tl::unexpected(step.error()); }
  auto const work = latency_cost(fit, *step);
  if (!work) { return tl::unexpected(work.error()); }

  bool const is_trained = passes.backward + passes.attention_backward > 0;
  std::uint64_t const runs =
      std::uint64_t{passes.forward} + passes.recompute + (is_trained ? 1 : 0);
  sharding_cost cost;
  cost.work = *work;
  cost.heads = shape.heads;
  cost.kv_heads = shape.kv_heads;
  cost.bytes_per_head = std::uint64_t{shape.head_dim} * bytes_per_element * shape.layers * runs;
  auto const rounded = [](std::optional<detail::scaled_number> number) {
    return number ? number->rounded() : std::nullopt;
  };
  auto const within = rounded(detail::scaled_number::from(machines.within_node_bytes_per_second));
  auto const between =
      rounded(detail::scaled_number::from(machines.between_nodes_bytes_per_second));
  if (within.value_or(0) == 0 || between.value_or(0) == 0) {
    return fail(error_code::out_of_range, 0,
                "a bandwidth of the cluster is not from 1 to 2^64 bytes per second; correct it");
  }
  cost.within_node_bytes_per_second = *within;
  cost.between_nodes_bytes_per_second = *between;
  auto const seconds = detail::scaled_number::from(machines.latency_seconds);
  auto const calls = detail::scaled_number(2 * runs * shape.layers);
  auto const latency =
      seconds ? (*seconds * detail::scaled_number(cost.units_per_second) * calls).rounded()
              : std::nullopt;
  if (!latency || *latency >= static_cast<std::uint64_t>(no_cost)) {
    return fail(error_code::out_of_range, 0,
                "the latency of the cluster is negative or too long; give seconds, such as 1e-5");
  }
  cost.latency = static_cast<cost_units>(*latency);
  return cost;
}

namespace detail {

/// The positions of lengths, the longest first and of equal ones the first, in an array of the
/// frame's.
///
/// Expects     lengths from 0 to longest_sample.
[[nodiscard]] inline std::span<std::uint32_t> by_length(std::span<tokens const> lengths,
                                                        workspace::frame& scratch)
{
  std::span<std::uint64_t> const words = scratch.take<std::uint64_t>(lengths.size());
  for (std::size_t at = 0; at < words.size(); ++at) {
    words[at] = static_cast<std::uint64_t>(longest_sample - lengths[at]) << 32 | at;
  }
  radix_sort(words, scratch.take<std::uint64_t>(words.size()));
  std::span<std::uint32_t> const order = scratch.take<std::uint32_t>(words.size());
  std::transform(words.begin(), words.end(), order.begin(),
                 [](std::uint64_t word) { return static_cast<std::uint32_t>(word); });
  return order;
}

}  // namespace detail

}  // namespace ballast::inline v0
