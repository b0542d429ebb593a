// SPDX-License-Identifier: Apache-2.0
#include "seeded_communicator.hpp"
#include "../comm/communicator_suite.hpp"  // defines: ballast_test::{Communicators, conformance}
#include "../support/test.hpp"
#include "../support/time_limits.hpp"

namespace ballast_test {

/// As in the list of communicators whose ranks are threads. Here these are the system's, and what
/// the seed says alone is how long messages take.
template <int Microseconds>
struct seeded_model : communicator_model<seeded_world::seeded_communicator> {
  static std::vector<std::size_t> sizes() { return {1, 2, 3, 5}; }
  static constexpr bool meets = true;
  static constexpr bool counts = false;
  struct group {
    group(std::size_t ranks, std::chrono::milliseconds deadline)
        : comms(communicator::make(
              std::make_shared<seeded_world::seeded_network>(
                  ranks,
                  seeded_world::network_options{
                      .seed = ranks, .usual_delay = std::chrono::microseconds(Microseconds)}),
              ranks, deadline))
    {}
    std::vector<communicator> comms;
  };
};

using seeded_models = testing::Types<seeded_model<0>, seeded_model<20>>;
INSTANTIATE_TYPED_TEST_SUITE_P(Seeded, Communicators, seeded_models);
INSTANTIATE_TYPED_TEST_SUITE_P(Seeded, CommunicatorsOfThreads, seeded_models);

}  // namespace ballast_test
