// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "any_schedule.hpp"
#include "named_value.hpp"
#include "policy_expression.hpp"
#include "settings_reader.hpp"

#include <ballast/core.hpp>
#include <ballast/pipeline/schedule_policies.hpp>
#include <ballast/pipeline/stage_graph.hpp>

namespace by_name {

using named_schedule = named_value<any_schedule, settings_reader>;

inline constexpr std::array named_schedules = {
    named_schedule{"gpipe", "", "",
                   [](settings_reader&) { return any_schedule{ballast::gpipe{}}; }},
    named_schedule{
        "1f1b", "", "",
        [](settings_reader&) { return any_schedule{ballast::one_forward_one_backward{}}; }},
    named_schedule{"interleaved", "", "v=N",
                   [](settings_reader& read) {
                     any_schedule schedule{ballast::interleaved_one_forward_one_backward{}, 0};
                     read.number("v", schedule.virtual_stages, std::size_t{1},
                                 ballast::stage_graph::most_stages);
                     return schedule;
                   }},
};

/// The names that parse_schedule knows and what each takes, as a sentence can list them.
[[nodiscard]] inline std::string schedule_names()
{
  return list_names(named_schedules);
}

/// The schedule that a text names: `gpipe`, `1f1b`, or `interleaved:v=2`, which needs the stages of
/// chain_of_stages(stages, stages / v).
///
/// Errors      unknown_name, syntax or out_of_range with a byte offset: a name or parameter that
///             does not exist, the two-way DualPipe, no v where it is needed, or a v outside [1,
///             stage_graph::most_stages].
/// Complexity  O(bytes).
[[nodiscard]] inline ballast::result<any_schedule> parse_schedule(std::string_view text)
{
  // The name comes first: one that is not known may not even have the form of a name, such as 1F1B.
  std::string_view const name = text.substr(0, text.find_first_of(":("));
  if (name == "dualpipe") {
    return tl::unexpected(text_error(ballast::error_code::unknown_name, text, 0,
                                     "the two-way DualPipe has each stage on two ranks, and "
                                     "schedules have it on one; write its V by dual_pipe_v"));
  }
  if (find_named(named_schedules, name) == nullptr) {
    return tl::unexpected(no_such_name(named_schedules, "schedule", text, 0, name));
  }
  auto const parsed = parse_policy_expression(text, "interleaved:v=2");
  if (!parsed) { return tl::unexpected(parsed.error()); }
  auto schedule = read_named(named_schedules, *parsed, "schedule");
  if (schedule && schedule->virtual_stages == 0) {
    return tl::unexpected(
        text_error(ballast::error_code::syntax, text, text.size(),
                   "interleaved takes the number of stages per rank, as in interleaved:v=2"));
  }
  return schedule;
}

}  // namespace by_name
