// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_BY_NAME_PARSE_SCHEDULE_HPP
#define BALLAST_BY_NAME_PARSE_SCHEDULE_HPP

#include <ballast/by_name/any_policy.hpp>
#include <ballast/by_name/any_schedule.hpp>
#include <ballast/by_name/policy_reader.hpp>
#include <ballast/core/result.hpp>
#include <ballast/pipeline/gpipe.hpp>
#include <ballast/pipeline/interleaved_one_forward_one_backward.hpp>
#include <ballast/pipeline/one_forward_one_backward.hpp>
#include <ballast/pipeline/stage_graph.hpp>
#include <ballast/text/excerpt.hpp>
#include <ballast/text/policy_expression.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <string_view>

namespace ballast::inline v0 {

namespace detail {

/// A schedule that command lines know.
struct named_schedule {
  std::string_view name;
  bool virtual_stages;  ///< whether it takes v, and then needs it
  decltype(any_schedule::policy) policy;

  [[nodiscard]] std::string_view arguments() const noexcept { return virtual_stages ? "v=N" : ""; }
};

inline constexpr std::array named_schedules = {
    named_schedule{"gpipe", false, gpipe{}},
    named_schedule{"1f1b", false, one_forward_one_backward{}},
    named_schedule{"interleaved", true, interleaved_one_forward_one_backward{}},
};

}  // namespace detail

/// The names that parse_schedule knows and what each takes, as a sentence can list them.
[[nodiscard]] inline std::string schedule_names()
{
  std::string all;
  for (detail::named_schedule const& each : detail::named_schedules) {
    if (!all.empty()) { all += ", "; }
    all += each.name;
    if (each.virtual_stages) { all.append(":").append(each.arguments()); }
  }
  return all;
}

/// The schedule that a text names: `gpipe`, `1f1b`, or `interleaved:v=2`, which is meant for
/// chain_of_stages(stages, stages / v).
///
/// Errors      unknown_name, syntax or out_of_range with a byte offset: a name or parameter that
///             does not exist, no v where it is needed, or a v outside [1,
///             stage_graph::most_stages].
/// Complexity  O(bytes).
[[nodiscard]] inline result<any_schedule> parse_schedule(std::string_view text)
{
  auto const refuse = [](error_code code, std::size_t position, std::string const& why) {
    return fail(code, position, "offset " + std::to_string(position) + ": " + why);
  };
  std::string_view const name = text.substr(0, text.find_first_of(":("));
  auto const* const named =
      std::ranges::find(detail::named_schedules, name, &detail::named_schedule::name);
  if (named == detail::named_schedules.end()) {
    return refuse(error_code::unknown_name, 0,
                  "there is no schedule " + excerpt(name) + "; choose one of " + schedule_names());
  }
  auto const parsed = parse_policy_expression(text);
  if (!parsed) { return tl::unexpected(parsed.error()); }
  any_schedule schedule{named->policy};
  // No schedule works with another, so what would read that is never called.
  detail::policy_reader read(*parsed, named->arguments(), nullptr);
  if (named->virtual_stages) {
    schedule.virtual_stages = 0;
    read.number("v", schedule.virtual_stages, std::size_t{1}, stage_graph::most_stages);
  }
  if (auto const finished = read.finish(any_policy{}); !finished) {
    return tl::unexpected(finished.error());
  }
  if (schedule.virtual_stages == 0) {
    return refuse(error_code::syntax, text.size(),
                  "interleaved takes the number of stages per rank, as in interleaved:v=2");
  }
  return schedule;
}

}  // namespace ballast::inline v0

#endif  // BALLAST_BY_NAME_PARSE_SCHEDULE_HPP
