// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_REPORT_HTML_TABLE_HPP
#define BALLAST_REPORT_HTML_TABLE_HPP

#include <ballast/core/contract.hpp>
#include <ballast/text/detail/text_escape.hpp>

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace ballast::inline v0::report {

/// A table whose first column names the row and whose other columns are numbers.
///
/// Ensures     (1) markup() is one well-formed element that scrolls sideways where it is too wide
///             (2) texts are escaped
class html_table {
 public:
  explicit html_table(std::vector<std::string_view> const& columns) : columns_(columns.size())
  {
    markup_ =
        "<div class=\"scroll\" tabindex=\"0\" role=\"group\" aria-label=\"Table\"><table>\n"
        "<thead><tr>";
    for (std::string_view const column : columns) {
      detail::append_xml_text(markup_ += "<th scope=\"col\">", column);
      markup_ += "</th>";
    }
    markup_ += "</tr></thead>\n<tbody>\n";
  }

  /// Expects one cell per column.
  void add_row(std::vector<std::string> const& cells)
  {
    BALLAST_EXPECTS(cells.size() == columns_, "a row of ", cells.size(), " cells for a table of ",
                    columns_, " columns");
    markup_ += "<tr>";
    for (std::string const& cell : cells) {
      bool const names_row = &cell == cells.data();
      detail::append_xml_text(markup_ += names_row ? "<th scope=\"row\">" : "<td>", cell);
      markup_ += names_row ? "</th>" : "</td>";
    }
    markup_ += "</tr>\n";
  }

  [[nodiscard]] std::string markup() const { return markup_ + "</tbody>\n</table></div>\n"; }

 private:
  std::size_t columns_;
  std::string markup_;
};

}  // namespace ballast::inline v0::report

#endif  // BALLAST_REPORT_HTML_TABLE_HPP
