// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_REPORT_JUDGED_BAGS_HPP
#define BALLAST_REPORT_JUDGED_BAGS_HPP

#include <ballast/core/contract.hpp>
#include <ballast/report/html_table.hpp>
#include <ballast/report/number_text.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace ballast::inline v0::report {

/// Bags that a job might have, and how long its steps would be.
struct judged_bags {
  std::string bags;           ///< "g4n2+g1n8"
  double fitted_seconds = 0;  ///< mean step over the batches that bags were chosen from
  double scored_seconds = 0;  ///< and over others

  friend bool operator==(judged_bags const&, judged_bags const&) = default;
};

/// A table of bags, a row each: how long their steps are, and how much longer than those of the first.
///
/// Expects     times are finite and not negative.
/// Complexity  O(bags).
[[nodiscard]] inline std::string judged_bags_table(std::vector<judged_bags> const& judged)
{
  html_table table(
      {"Bags", "Step, other batches", "Longer than the first", "Step, batches chosen from"});
  for (judged_bags const& each : judged) {
    BALLAST_EXPECTS(each.fitted_seconds >= 0 && each.scored_seconds >= 0, "bags ",
                    &each - judged.data(), " have steps of ", each.fitted_seconds, " and ",
                    each.scored_seconds, " seconds, and the least is 0");
    double const least = judged.front().scored_seconds;
    double const longer = least > 0 ? each.scored_seconds / least - 1 : 0;
    table.add_row({each.bags, si_text(each.scored_seconds, "s"),
                   &each == judged.data() ? "" : percent_text(longer, true),
                   si_text(each.fitted_seconds, "s")});
  }
  return table.markup();
}

}  // namespace ballast::inline v0::report

#endif  // BALLAST_REPORT_JUDGED_BAGS_HPP
