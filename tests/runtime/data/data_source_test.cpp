// SPDX-License-Identifier: Apache-2.0
#include <ballast/runtime/data/data_setup.hpp>

#include <ballast/core.hpp>

namespace {

struct loads_only {
  [[nodiscard]] static ballast::result<ballast::loaded_sample> load(std::uint64_t)
  {
    return ballast::loaded_sample{};
  }
};
struct knows_lengths : loads_only {
  [[nodiscard]] static std::vector<ballast::tokens> lengths(std::uint64_t) { return {1}; }
};
struct gives_bytes {
  [[nodiscard]] static std::vector<char> load(std::uint64_t) { return {}; }
};

static_assert(ballast::data_source<loads_only>);
static_assert(!ballast::data_source_with_lengths<loads_only>);
static_assert(ballast::data_source_with_lengths<knows_lengths>);
static_assert(!ballast::data_source<gives_bytes>);

}  // namespace
