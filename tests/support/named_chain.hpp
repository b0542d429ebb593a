// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_TESTS_SUPPORT_NAMED_CHAIN_HPP
#define BALLAST_TESTS_SUPPORT_NAMED_CHAIN_HPP

#include <ballast/core/ids.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/pipeline/stage_graph.hpp>

#include <cstddef>
#include <utility>
#include <vector>

namespace ballast_test {

/// A chain whose first stages are an encoder and whose last ones a generator.
[[nodiscard]] inline ballast::stage_graph named_chain(std::size_t stages, std::size_t ranks,
                                                      std::size_t encoder, std::size_t generator,
                                                      ballast::time_units transfer = 0)
{
  auto const chain = ballast::chain_of_stages(stages, ranks, transfer);
  std::vector<ballast::pipeline_stage> named;
  for (std::size_t stage = 0; stage < stages; ++stage) {
    named.push_back(chain[ballast::to_id<ballast::stage_id>(stage)]);
    if (stage < encoder) {
      named.back().part = ballast::model_part::encoder;
    } else if (stage + generator >= stages) {
      named.back().part = ballast::model_part::generator;
    }
  }
  return ballast::stage_graph::make(std::move(named), {chain.links().begin(), chain.links().end()})
      .value();
}

}  // namespace ballast_test

#endif  // BALLAST_TESTS_SUPPORT_NAMED_CHAIN_HPP
