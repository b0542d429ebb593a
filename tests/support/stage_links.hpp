// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_TESTS_SUPPORT_STAGE_LINKS_HPP
#define BALLAST_TESTS_SUPPORT_STAGE_LINKS_HPP

#include <ballast/core/ids.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/pipeline/stage_graph.hpp>

#include <cstdint>

namespace ballast_test {

[[nodiscard]] constexpr ballast::stage_link link(std::uint32_t from, std::uint32_t to,
                                                 ballast::time_units transfer = 0)
{
  return {ballast::stage_id{from}, ballast::stage_id{to}, transfer};
}

}  // namespace ballast_test

#endif  // BALLAST_TESTS_SUPPORT_STAGE_LINKS_HPP
