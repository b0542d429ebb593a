// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_RUNTIME_STEP_OPTIONS_HPP
#define BALLAST_RUNTIME_STEP_OPTIONS_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/partition/partition_constraints.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace ballast::inline v0 {

namespace detail {

/// The length of a sample that is a number; null for others, whose length only the caller knows.
template <class Sample>
[[nodiscard]] constexpr auto own_length() -> tokens (*)(Sample const&)
{
  if constexpr (std::integral<Sample>) {
    return [](Sample const& number) { return static_cast<tokens>(number); };
  } else {
    return nullptr;
  }
}

/// What value_of says of each sample; nothing where it is null.
template <class Sample>
void read_into(std::vector<std::int64_t>& values, std::span<Sample const> samples,
               std::int64_t (*value_of)(Sample const&))
{
  values.clear();
  if (value_of == nullptr) { return; }
  values.reserve(samples.size());
  for (Sample const& sample : samples) { values.push_back(value_of(sample)); }
}

}  // namespace detail

/// What a job says of its steps, once: the same on every rank.
///
///     step_options<document>{.length_of = [](document const& d) { return d.length(); },
///                            .together = [](document const& d) { return d.prompt; },
///                            .most_per_gpu = 40'000}
///
/// The functions are pure, and null where there is nothing to say.
template <class Sample = tokens>
struct step_options {
  /// How many tokens a bag splits; a sample that is a number is its own length.
  tokens (*length_of)(Sample const&) = detail::own_length<Sample>();
  /// How many of its tokens have a loss, as those of an answer; null: all.
  tokens (*loss_tokens_of)(Sample const&) = nullptr;
  /// Samples with the same key stay in one bag, as the answers to one prompt.
  std::int64_t (*together)(Sample const&) = nullptr;
  /// What counts against most_per_gpu, and only with it; null: the length.
  std::int64_t (*weight_of)(Sample const&) = nullptr;
  /// A bag of G GPUs gets at most G times this weight; `capped` makes every policy keep to it.
  std::int64_t most_per_gpu = partition_constraints::no_limit;
  /// Whether the policy is told that the rank which has read a sample is its home, as
  /// `least_movement` has to be; then planned().moved says what moves.
  bool homes = false;
  /// Query heads of the model, for to_heads and to_tokens; 0: they are not called.
  std::uint32_t query_heads = 0;
  /// Key-value heads of the model, if groups of its attention stay whole (head_split); 0: not.
  std::uint32_t kv_heads = 0;
  /// GPUs of each rank, where ranks are processes that have several: bags are laid out over the
  /// GPUs, rank 0's first. More than 1 takes no homes, since a rank is home to all bags on its
  /// GPUs.
  std::uint32_t gpus_per_rank = 1;
  /// The most samples that a rank reads in a step.
  std::size_t most_samples = 256;
};

}  // namespace ballast::inline v0

#endif  // BALLAST_RUNTIME_STEP_OPTIONS_HPP
