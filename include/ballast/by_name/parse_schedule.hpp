// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_BY_NAME_PARSE_SCHEDULE_HPP
#define BALLAST_BY_NAME_PARSE_SCHEDULE_HPP

#include <ballast/by_name/any_schedule.hpp>
#include <ballast/by_name/detail/named_value.hpp>
#include <ballast/core/result.hpp>
#include <ballast/pipeline/gpipe.hpp>
#include <ballast/pipeline/interleaved_one_forward_one_backward.hpp>
#include <ballast/pipeline/one_forward_one_backward.hpp>
#include <ballast/pipeline/stage_graph.hpp>
#include <ballast/text/detail/policy_expression.hpp>
#include <ballast/text/detail/settings_reader.hpp>
#include <ballast/text/detail/text_error.hpp>

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

namespace ballast::inline v0 {

namespace detail {

using named_schedule = named_value<any_schedule, settings_reader>;

inline constexpr std::array named_schedules = {
    named_schedule{"gpipe", "", "", [](settings_reader&) { return any_schedule{gpipe{}}; }},
    named_schedule{"1f1b", "", "",
                   [](settings_reader&) { return any_schedule{one_forward_one_backward{}}; }},
    named_schedule{"interleaved", "", "v=N",
                   [](settings_reader& read) {
                     any_schedule schedule{interleaved_one_forward_one_backward{}, 0};
                     read.number("v", schedule.virtual_stages, std::size_t{1},
                                 stage_graph::most_stages);
                     return schedule;
                   }},
};

}  // namespace detail

/// The names that parse_schedule knows and what each takes, as a sentence can list them.
[[nodiscard]] inline std::string schedule_names()
{
  return detail::list_names(detail::named_schedules);
}

/// The schedule that a text names: `gpipe`, `1f1b`, or `interleaved:v=2`, which needs the stages of
/// chain_of_stages(stages, stages / v).
///
/// Errors      unknown_name, syntax or out_of_range with a byte offset: a name or parameter that
///             does not exist, no v where it is needed, or a v outside [1,
///             stage_graph::most_stages].
/// Complexity  O(bytes).
[[nodiscard]] inline result<any_schedule> parse_schedule(std::string_view text)
{
  // The name comes first: one that is not known may not even have the form of a name, such as 1F1B.
  std::string_view const name = text.substr(0, text.find_first_of(":("));
  if (detail::find_named(detail::named_schedules, name) == nullptr) {
    return tl::unexpected(detail::no_such_name(detail::named_schedules, "schedule", text, 0, name));
  }
  auto const parsed = detail::parse_policy_expression(text, "interleaved:v=2");
  if (!parsed) { return tl::unexpected(parsed.error()); }
  auto schedule = detail::read_named(detail::named_schedules, *parsed, "schedule");
  if (schedule && schedule->virtual_stages == 0) {
    return tl::unexpected(detail::text_error(
        error_code::syntax, text, text.size(),
        "interleaved takes the number of stages per rank, as in interleaved:v=2"));
  }
  return schedule;
}

}  // namespace ballast::inline v0

#endif  // BALLAST_BY_NAME_PARSE_SCHEDULE_HPP
