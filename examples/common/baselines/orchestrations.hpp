// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/parallelism/orchestrate.hpp>

namespace baselines {

/// All modules have groups of as many GPUs and one dp, each with stages of its own.
[[nodiscard]] inline ballast::layout_limits homogeneous()
{
  return {.has_one_group = true};
}

/// All modules have groups of as many GPUs and one dp, and modules other than the LLM are one stage
/// each: the first and the last stages of the LLM's pipelines.
///
/// Source      Megatron-LM, as Z. Zhang et al., "DistTrain", SIGCOMM 2025, compare with it.
[[nodiscard]] inline ballast::layout_limits monolithic(ballast::layout_limits limits = {})
{
  limits.has_one_group = limits.has_one_stage = true;
  return limits;
}

/// The best layout in which the modules share the GPUs of their kind in proportion to the FLOP that
/// they compute for a mean sample. Shares are rounded down, and what is left goes to the largest
/// remainders. Of several assignments of kinds the best is taken.
///
/// Where no layout keeps to these, every module may have more GPUs than its share, equally many, and
/// as few more as let one be.
///
/// Ensures     (1) it finds one where orchestrate does
/// Errors      also out_of_range, position of the module: a mean sample takes no FLOP.
/// Source      J. Huang et al., "DistMM: Accelerating Distributed Multimodal Model Training", NSDI
///             2024, as DistTrain compares with it.
class by_flops {
 public:
  [[nodiscard]] ballast::result<ballast::orchestration> operator()(
      ballast::layout_problem const& problem, ballast::orchestrate_options options = {}) const
  {
    if (auto checked = check_layout_problem(problem); !checked) {
      return tl::unexpected(checked.error());
    }
    std::vector<ballast::uint128> work;
    bool is_trained_before = false;
    std::size_t const modules = problem.modules.size();
    for (std::size_t module = 0; module < modules; ++module) {
      auto const& of = problem.modules[module];
      ballast::module_role const role =
          problem.roles.empty() ? ballast::module_role{} : problem.roles[module];
      ballast::uint128 flops = 0;
      for (std::size_t at = module; at < problem.sizes.size(); at += modules) {
        flops += of.flops.exact(problem.sizes[at]) / problem.samples();
      }
      if (flops == 0) {
        return ballast::fail(ballast::error_code::out_of_range, module, "module ", of.name,
                             " has no FLOP to share out GPUs by; give samples that it computes");
      }
      is_trained_before = is_trained_before || role.is_input_trained;
      unsigned const times = role.is_trained ? 3 : is_trained_before ? 2 : 1;
      is_trained_before = is_trained_before || role.is_trained;
      work.push_back((flops + 2) / 3 * times);
    }
    ballast::uint128 all = 0;
    for (auto const each : work) { all += each; }
    for (; all >> 90 != 0; all >>= 1) {
      for (auto& each : work) { each = (each + 1) >> 1; }
    }
    auto const with_more = [&](std::uint64_t more) {
      options.limits.most_gpus = [&problem, &work, more](std::vector<std::size_t> const& kinds) {
        auto shares = shares_of(problem, kinds, work);
        for (std::uint64_t& gpus : shares) { gpus += more; }
        return shares;
      };
      return ballast::orchestrate(problem, {}, options);
    };
    auto found = with_more(0);
    if (found) { return found; }
    std::uint64_t too_few = 0;
    std::uint64_t enough = 0;  // so many more that no module is held to its share
    for (ballast::gpu_kind const& kind : problem.kinds) {
      enough = std::max<std::uint64_t>(enough, kind.gpus);
    }
    found = with_more(enough);
    if (!found) {  // which says why
      options.limits.most_gpus = nullptr;
      return ballast::orchestrate(problem, {}, options);
    }
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
      ballast::layout_problem const& problem, std::vector<std::size_t> const& kinds,
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
