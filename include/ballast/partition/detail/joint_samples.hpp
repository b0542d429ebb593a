// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/partition/concepts.hpp>
#include <ballast/partition/placement_limits.hpp>

namespace ballast::inline v0::detail {

/// What a policy plans: samples, or sets of samples that stay together, each as if it were one.
///
/// Shapes      costs[k], lengths[k]; weights[k] and home[k] or empty; first_sample[k] and
///             joint_lengths[k], or empty where items are samples; joint_lengths[k] also where some
///             of these are short; first_part[k + 1] and parts, or empty where no item lies in
///             several bags; attention[k] for policies that pad attention alone, which join none.
struct planned_items {
  std::span<cost_units const> costs;
  std::span<tokens const> lengths;
  std::span<std::int64_t const> weights = {};
  std::span<bag_id const> home = {};
  std::span<std::uint32_t const> first_sample = {};
  std::span<tokens const> joint_lengths = {};
  std::span<std::uint32_t const> first_part = {};
  std::span<partition_problem::part const> parts = {};
  std::span<cost_units const> attention = {};

  [[nodiscard]] tokens tokens_of(std::size_t item) const noexcept
  {
    return joint_lengths.empty() ? lengths[item] : joint_lengths[item];
  }

  /// The sample that an error names for an item.
  [[nodiscard]] std::size_t sample_of(std::size_t item) const noexcept
  {
    return first_sample.empty() ? item : first_sample[item];
  }
};

/// Joins the samples of each key to one item, so that every policy keeps them together.
///
/// An item weighs what its samples do together; costs are the caller's to join. Its length is that
/// of its shortest sample that has tokens, since a bag splits each sample by itself. Its home is the
/// bag that holds most of its tokens, of equals the first; its parts are the tokens in every bag
/// that holds some.
///
/// Shapes      together[n], item_of[n].
/// Ensures     (1) item_of[i] == item_of[j] exactly where the keys of i and j are equal
///             (2) items are numbered by their first samples
///             (3) first_sample of an item is the first of its samples
///             (4) the parts of an item are in the order of bags, and each has tokens
/// Complexity  O(n log n); up to 84 n bytes of scratch that the caller's frame keeps.
inline planned_items join_samples(sample_keys const& together, planned_items const& samples,
                                  std::span<std::uint32_t> item_of, workspace::frame& scratch)
{
  std::size_t const count = together.size();
  BALLAST_EXPECTS(samples.lengths.size() == count && item_of.size() == count);
  std::span<std::int64_t> const keys = scratch.take<std::int64_t>(count);
  together.read_into(keys);
  std::span<std::uint32_t> const by_key = scratch.take<std::uint32_t>(count);
  std::iota(by_key.begin(), by_key.end(), std::uint32_t{0});
  std::sort(by_key.begin(), by_key.end(), [keys](std::uint32_t a, std::uint32_t b) {
    return keys[a] != keys[b] ? keys[a] < keys[b] : a < b;
  });
  std::span<std::uint32_t> const first_of = scratch.take<std::uint32_t>(count);
  for (std::size_t place = 0; place < count; ++place) {
    bool const same = place > 0 && keys[by_key[place]] == keys[by_key[place - 1]];
    first_of[by_key[place]] = same ? first_of[by_key[place - 1]] : by_key[place];
  }
  std::uint32_t items = 0;
  for (std::size_t sample = 0; sample < count; ++sample) {
    item_of[sample] = first_of[sample] == sample ? items++ : item_of[first_of[sample]];
  }

  std::span<tokens> const lengths = scratch.take<tokens>(items);
  std::span<std::int64_t> const weights =
      scratch.take<std::int64_t>(samples.weights.empty() ? 0 : items);
  std::span<std::uint32_t> const first_sample = scratch.take<std::uint32_t>(items);
  std::span<tokens> const joint_lengths = scratch.take<tokens>(items);
  std::fill(lengths.begin(), lengths.end(), 0);
  std::fill(joint_lengths.begin(), joint_lengths.end(), 0);
  std::fill(weights.begin(), weights.end(), 0);
  for (std::size_t sample = 0; sample < count; ++sample) {
    std::uint32_t const item = item_of[sample];
    tokens const length = samples.lengths[sample];
    first_sample[item] = first_of[sample];
    joint_lengths[item] += samples.tokens_of(sample);
    if (length > 0 && (lengths[item] == 0 || length < lengths[item])) { lengths[item] = length; }
    if (!weights.empty()) { weights[item] += samples.weights[sample]; }
  }
  if (samples.home.empty()) { return {{}, lengths, weights, {}, first_sample, joint_lengths}; }

  std::span<bag_id> const home = scratch.take<bag_id>(items);
  std::span<tokens> const most = scratch.take<tokens>(items);
  std::fill(most.begin(), most.end(), -1);
  std::sort(by_key.begin(), by_key.end(), [&](std::uint32_t a, std::uint32_t b) {
    if (item_of[a] != item_of[b]) { return item_of[a] < item_of[b]; }
    return samples.home[a] != samples.home[b] ? samples.home[a] < samples.home[b] : a < b;
  });
  auto const parts = scratch.take<partition_problem::part>(count);
  std::span<std::uint32_t> const first_part = scratch.take<std::uint32_t>(std::size_t{items} + 1);
  std::fill(first_part.begin(), first_part.end(), 0);
  std::size_t part_count = 0;
  bool several_homes = false;
  tokens held = 0;
  for (std::size_t place = 0; place < count; ++place) {
    std::uint32_t const sample = by_key[place];
    std::uint32_t const item = item_of[sample];
    bool const same = place > 0 && item_of[by_key[place - 1]] == item &&
                      samples.home[by_key[place - 1]] == samples.home[sample];
    tokens const length = samples.tokens_of(sample);
    held = length + (same ? held : 0);
    if (held > most[item]) {
      most[item] = held;
      home[item] = samples.home[sample];
    }
    if (length == 0) { continue; }
    if (held == length) {  // the first tokens in this bag
      several_homes = several_homes || first_part[item + 1] > 0;
      ++first_part[item + 1];
      ++part_count;
    }
    parts[part_count - 1] = {samples.home[sample], held};
  }
  planned_items joined{{}, lengths, weights, home, first_sample, joint_lengths};
  if (several_homes) {
    std::partial_sum(first_part.begin(), first_part.end(), first_part.begin());
    joined.first_part = first_part;
    joined.parts = {parts.data(), part_count};
  }
  return joined;
}

}  // namespace ballast::inline v0::detail
