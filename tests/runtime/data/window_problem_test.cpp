// SPDX-License-Identifier: Apache-2.0
#include <ballast/runtime/data/data_setup.hpp>

#include <ballast/core.hpp>

namespace {

struct writes_elsewhere {
  void operator()(ballast::window_problem const&, std::span<ballast::cost_units>) const {}
};

static_assert(ballast::window_policy<ballast::long_rounds>);
static_assert(ballast::window_policy<ballast::even_rounds>);
static_assert(!ballast::window_policy<writes_elsewhere>);

}  // namespace
