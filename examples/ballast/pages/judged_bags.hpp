// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "html_page.hpp"
#include "number_text.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace pages {

/// Bags that a job might have, and how long its steps would be.
struct judged_bags {
  std::string bags;           ///< "g4n2+g1n8"
  double fitted_seconds = 0;  ///< mean step over the batches that bags were chosen from
  double scored_seconds = 0;  ///< and over others

  friend bool operator==(judged_bags const&, judged_bags const&) = default;
};

/// A table of bags, a row each: how long their steps are, and how much longer than those of the
/// first.
///
/// Expects     times are finite and not negative.
/// Complexity  O(bags).
[[nodiscard]] inline std::string judged_bags_table(std::vector<judged_bags> const& judged)
{
  html_table table(
      {"Bags", "Step, other batches", "Longer than the first", "Step, batches chosen from"});
  for (judged_bags const& each : judged) {
    double const least = judged.front().scored_seconds;
    double const longer = least > 0 ? each.scored_seconds / least - 1 : 0;
    table.add_row({each.bags, si_text(each.scored_seconds, "s"),
                   &each == judged.data() ? "" : percent_text(longer, true),
                   si_text(each.fitted_seconds, "s")});
  }
  return table.markup();
}

}  // namespace pages
