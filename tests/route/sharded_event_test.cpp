// SPDX-License-Identifier: Apache-2.0
#include <ballast/route/sharded_exchange.hpp>

#include "../support/test.hpp"

namespace {

using ballast::group_id;
using ballast::sharded_event;
using ballast::sharded_phase;

static_assert(std::is_trivially_copyable_v<sharded_event>);
static_assert(std::invocable<ballast::ignore_sharded_events const&, sharded_event>);
static_assert(std::is_empty_v<ballast::ignore_sharded_events>);

TEST(ShardedEvent, DiffersInEveryPart)
{
  constexpr sharded_event event{sharded_phase::compute, false, group_id{3}};
  static_assert(event == sharded_event{sharded_phase::compute, false, group_id{3}});
  EXPECT_NE(event, (sharded_event{sharded_phase::end_to_heads, false, group_id{3}}));
  EXPECT_NE(event, (sharded_event{sharded_phase::compute, true, group_id{3}}));
  EXPECT_NE(event, (sharded_event{sharded_phase::compute, false, group_id{4}}));
}

}  // namespace
