// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARALLELISM_DETAIL_STAGE_MEMORY_HPP
#define BALLAST_PARALLELISM_DETAIL_STAGE_MEMORY_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/cost/module_profile.hpp>
#include <ballast/parallelism/detail/divided_up.hpp>
#include <ballast/parallelism/detail/stage_shares.hpp>
#include <ballast/parallelism/layout_problem.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <unordered_map>
#include <vector>

namespace ballast::inline v0::detail {

/// The least size up to which the share memory_quantile of all sizes is; sizes are then in another
/// order. Expects at least one.
template <class Size>
[[nodiscard]] Size memory_quantile_of(layout_problem const& problem, std::vector<Size>& sizes)
{
  auto const [share, whole] = problem.memory_quantile;
  uint128 const wanted =
      divided_up(static_cast<uint128>(sizes.size()) * static_cast<std::uint64_t>(share),
                 static_cast<std::uint64_t>(whole));
  auto const at = sizes.begin() + static_cast<std::ptrdiff_t>(wanted) - 1;
  std::nth_element(sizes.begin(), at, sizes.end());
  return *at;
}

/// What the fullest GPU of a module holds: the state of its stage, and the activations of the
/// microbatches that it keeps (joined_unit).
///
/// Complexity  microbatch_size(): O(samples) for the first call with a number of samples, then
///             O(1); the rest O(1) beside it.
class stage_memory {
 public:
  explicit stage_memory(layout_problem const& problem)
      : problem_(problem),
        sizes_(problem.modules.size(), std::vector<tokens>(few, unknown)),
        many_(problem.modules.size()),
        totals_(problem.modules.size())
  {
    std::size_t const modules = problem.modules.size();
    std::size_t const samples = problem.samples();
    for (std::size_t module = 0; module < modules; ++module) {
      totals_[module].push_back(0);
      for (std::size_t sample = 0; sample < samples; ++sample) {
        totals_[module].push_back(totals_[module].back() +
                                  problem.sizes[sample * modules + module]);
      }
    }
  }

  [[nodiscard]] static std::uint32_t stage_layers(module_profile const& module, std::uint32_t pp)
  {
    return stage_shares(module, pp).most_layers();
  }

  /// The size for which memory has to suffice where the global batch is divided into `parts`
  /// microbatches: the quantile over all drawn ones of ceil(batch / parts) samples.
  [[nodiscard]] tokens microbatch_size(std::size_t module, std::uint64_t parts)
  {
    std::uint64_t const batch = problem_.global_batch;
    return size_of(module, batch / parts + (batch % parts != 0 ? 1 : 0));
  }

  /// The fewest parts with which microbatches are no larger than `largest`; 0 if one sample is.
  /// Complexity  O(log batch) sizes.
  [[nodiscard]] std::uint64_t least_parts(std::size_t module, tokens largest)
  {
    std::uint64_t fitting = 0;
    std::uint64_t too_many = std::uint64_t{problem_.global_batch} + 1;
    while (too_many - fitting > 1) {
      std::uint64_t const samples = fitting + (too_many - fitting) / 2;
      (size_of(module, samples) <= largest ? fitting : too_many) = samples;
    }
    if (fitting == 0) { return 0; }
    return problem_.global_batch / fitting + (problem_.global_batch % fitting != 0 ? 1 : 0);
  }

  /// The largest microbatch with which a stage fits, if `held` are held at a time; -1 if none does.
  [[nodiscard]] tokens largest_size(std::size_t module, std::size_t degree, std::uint32_t pp,
                                    std::uint64_t held) const
  {
    module_memory const& memory = problem_.modules[module].degrees[degree].memory;
    std::uint32_t const layers = stage_layers(problem_.modules[module], pp);
    std::uint64_t const state = memory.state(layers);
    if (state > problem_.memory_bytes) { return -1; }
    return memory.largest_size(layers, (problem_.memory_bytes - state) / held);
  }

  /// What a stage holds; 2^64 - 1 where that does not fit. It holds activations `held` times, each
  /// of one of its virtual stages.
  [[nodiscard]] std::uint64_t bytes(std::size_t module, std::size_t degree, std::uint32_t pp,
                                    std::uint64_t held, std::uint64_t parts,
                                    std::uint32_t virtual_stages = 1)
  {
    return bytes_of(module, degree, pp, held, microbatch_size(module, parts), virtual_stages);
  }

  /// The same, where microbatches are of this size.
  [[nodiscard]] std::uint64_t bytes_of(std::size_t module, std::size_t degree, std::uint32_t pp,
                                       std::uint64_t held, tokens size,
                                       std::uint32_t virtual_stages = 1) const
  {
    module_memory const& memory = problem_.modules[module].degrees[degree].memory;
    std::uint32_t const layers = stage_layers(problem_.modules[module], pp);
    uint128 const of_stage = memory.activations(layers, size);
    uint128 const all = divided_up(of_stage, virtual_stages) * held + memory.state(layers);
    constexpr std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
    return all < most ? static_cast<std::uint64_t>(all) : most;
  }

 private:
  static constexpr tokens unknown = -1;
  static constexpr std::uint64_t few = 1 << 12;

  /// Of samples that follow each other, so many.
  [[nodiscard]] tokens size_of(std::size_t module, std::uint64_t samples)
  {
    tokens& known = samples < few ? sizes_[module][samples]
                                  : many_[module].try_emplace(samples, unknown).first->second;
    if (known == unknown) { known = quantile(module, samples); }
    return known;
  }

  [[nodiscard]] tokens quantile(std::size_t module, std::uint64_t batch) const
  {
    auto const& totals = totals_[module];
    std::size_t const samples = totals.size() - 1;
    std::uint64_t const rounds = batch / samples;
    std::size_t const rest = batch % samples;
    std::vector<uint128> drawn(samples);
    for (std::size_t first = 0; first < samples; ++first) {
      std::size_t const end = first + rest;
      std::int64_t const partial = end <= samples
                                       ? totals[end] - totals[first]
                                       : totals[samples] - totals[first] + totals[end - samples];
      drawn[first] = static_cast<uint128>(totals[samples]) * rounds + static_cast<uint128>(partial);
    }
    return static_cast<tokens>(
        std::min(memory_quantile_of(problem_, drawn), static_cast<uint128>(most_size)));
  }

  static constexpr tokens most_size = std::numeric_limits<tokens>::max() >> 1;

  layout_problem problem_;
  std::vector<std::vector<tokens>> sizes_;  // of each module, by the samples of a microbatch
  std::vector<std::unordered_map<std::uint64_t, tokens>> many_;  // the same, from few samples on
  std::vector<std::vector<tokens>> totals_;  // of each module: sizes of the samples before
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARALLELISM_DETAIL_STAGE_MEMORY_HPP
