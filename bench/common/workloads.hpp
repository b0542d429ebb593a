// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/cost/quadratic_cost.hpp>
#include <ballast/workload/synthetic_lengths.hpp>

#include <chrono>

namespace bench {

/// Long-tailed sample lengths, the usual stand-in for documents and videos: median 1024 tokens.
inline std::vector<ballast::tokens> lognormal_lengths(std::size_t samples, double sigma,
                                                      std::uint64_t seed)
{
  ballast::random_source random(seed);
  return ballast::draw_lengths(
      ballast::clamped_lengths{ballast::lognormal_lengths{.median = 1024, .sigma = sigma}, 1,
                               1 << 20},
      samples, random);
}

/// 24 l d^2 + gamma 4 l^2 d at d = 3072 and gamma = 0.405, the model of KnapFormer's experiments.
inline ballast::quadratic_cost transformer_cost()
{
  ballast::flop_polynomial const layer{24ULL * 3072 * 3072, 4ULL * 3072};
  return ballast::gamma_corrected(layer, 0.405).value().cost;
}

/// Median seconds of `repeats` runs of something that is too slow to leave to the framework, or
/// that must be timed beside its baseline in one run.
template <class Work>
double median_seconds(int repeats, Work const& work)
{
  std::vector<double> seconds;
  for (int repeat = 0; repeat < repeats; ++repeat) {
    auto const start = std::chrono::steady_clock::now();
    work();
    seconds.push_back(
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  std::ranges::nth_element(seconds, seconds.begin() + repeats / 2);
  return seconds[static_cast<std::size_t>(repeats / 2)];
}

}  // namespace bench
