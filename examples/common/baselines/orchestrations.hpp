// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/parallelism/model_layout.hpp>
#include <ballast/parallelism/orchestrate.hpp>
#include <ballast/parallelism/orchestration_problem.hpp>

namespace baselines {

/// The best orchestration in which all modules have one degree and one dp, each with stages of its
/// own.
struct homogeneous {
  [[nodiscard]] ballast::result<ballast::orchestration> operator()(
      ballast::orchestration_problem const& problem) const
  {
    return ballast::best_units{{.has_one_degree = true}}(problem);
  }
};

/// The best orchestration in which all modules have one degree and one dp, and modules other than
/// the LLM are one stage each: the first and the last stages of the LLM's pipelines.
///
/// Source      Megatron-LM, as Z. Zhang et al., "DistTrain", SIGCOMM 2025, compare with it.
struct monolithic {
  std::uint32_t tp = 0;  ///< 0: the best; with any sp and ep
  std::uint32_t pp = 0;  ///< of the LLM; 0: the best

  [[nodiscard]] ballast::result<ballast::orchestration> operator()(
      ballast::orchestration_problem const& problem) const
  {
    return ballast::best_units{{.has_one_degree = true, .has_one_stage = true, .tp = tp, .pp = pp}}(
        problem);
  }
};

/// The best orchestration in which the modules share the GPUs of their kind in proportion to the
/// FLOP that they compute: forward_flops, twice or three times for what passes backward. Shares are
/// rounded down, and what is left goes to the largest remainders. Of several assignments of kinds
/// the best is taken.
///
/// Where no orchestration keeps to these, every module may have more GPUs than its share, equally
/// many, and as few more as let one be.
///
/// Ensures     (1) it finds one where best_units does
/// Errors      also out_of_range, position of the module: it has no forward_flops.
/// Source      J. Huang et al., "DistMM: Accelerating Distributed Multimodal Model Training", NSDI
///             2024, as DistTrain compares with it.
struct by_flops {
  [[nodiscard]] ballast::result<ballast::orchestration> operator()(
      ballast::orchestration_problem const& problem) const
  {
    std::vector<ballast::uint128> work;
    bool is_trained_before = false;
    for (std::size_t module = 0; module < problem.modules.size(); ++module) {
      auto const& of = problem.modules[module];
      if (of.forward_flops == 0) {
        return ballast::fail(ballast::error_code::out_of_range, module,
                             "module " + of.name +
                                 " has no FLOP to share out GPUs by; give those of a "
                                 "sample's forward pass");
      }
      is_trained_before = is_trained_before || of.is_input_trained;
      int const times = of.is_trained ? 3 : is_trained_before ? 2 : 1;
      is_trained_before = is_trained_before || of.is_trained;
      work.push_back(static_cast<ballast::uint128>(of.forward_flops) *
                     static_cast<unsigned>(times));
    }
    auto const with_more = [&](std::uint64_t more) {
      return ballast::best_units{{.most_gpus = [&](std::vector<std::size_t> const& kinds) {
        auto shares = shares_of(problem, kinds, work);
        for (std::uint64_t& gpus : shares) { gpus += more; }
        return shares;
      }}}(problem);
    };
    auto found = with_more(0);
    if (found) { return found; }
    std::uint64_t too_few = 0;
    std::uint64_t enough = 0;  // so many more that no module is held to its share
    for (ballast::gpu_kind const& kind : problem.kinds) {
      enough = std::max<std::uint64_t>(enough, kind.gpus);
    }
    found = with_more(enough);
    if (!found) { return ballast::best_units{}(problem); }  // which says why
    while (enough - too_few > 1) {
      std::uint64_t const more = too_few + (enough - too_few) / 2;
      auto fewer = with_more(more);
      (fewer ? enough : too_few) = more;
      if (fewer) { found = std::move(fewer); }
    }
    return found;
  }

 private:
  [[nodiscard]] static std::vector<std::uint64_t> shares_of(
      ballast::orchestration_problem const& problem, std::vector<std::size_t> const& kinds,
      std::vector<ballast::uint128> const& work)
  {
    std::vector<std::uint64_t> shares(work.size());
    for (std::size_t kind = 0; kind < problem.kinds.size(); ++kind) {
      share_out(problem.kinds[kind].gpus, kind, kinds, work, shares);
    }
    return shares;
  }

  /// Shares out the GPUs of one kind to the modules that get it.
  static void share_out(std::uint64_t gpus, std::size_t kind, std::vector<std::size_t> const& kinds,
                        std::vector<ballast::uint128> const& work,
                        std::vector<std::uint64_t>& shares)
  {
    ballast::uint128 total = 0;
    for (std::size_t module = 0; module < work.size(); ++module) {
      if (kinds[module] == kind) { total += work[module]; }
    }
    if (total == 0) { return; }  // no module gets GPUs of this kind
    std::uint64_t left = gpus;
    std::vector<ballast::uint128> remainders(work.size());
    std::vector<std::size_t> largest_first;
    for (std::size_t module = 0; module < work.size(); ++module) {
      if (kinds[module] != kind) { continue; }
      ballast::uint128 const product = work[module] * gpus;
      shares[module] = static_cast<std::uint64_t>(product / total);
      left -= shares[module];
      remainders[module] = product % total;
      largest_first.push_back(module);
    }
    std::sort(largest_first.begin(), largest_first.end(), [&](std::size_t a, std::size_t b) {
      return remainders[b] < remainders[a] || (remainders[a] == remainders[b] && a < b);
    });
    for (std::size_t each = 0; each < left; ++each) { ++shares[largest_first[each]]; }
  }
};

}  // namespace baselines
