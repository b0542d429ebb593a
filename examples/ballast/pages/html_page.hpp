// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "chart_style.hpp"
#include "escaped_text.hpp"
#include "plot_frame.hpp"

#include <fmt/format.h>

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace pages {

/// A table whose first column names the row and whose other columns are numbers. Narrow pages show
/// each row as a list, with the name of its column before each cell: of at most 16 columns. Texts are
/// escaped.
class html_table {
 public:
  explicit html_table(std::vector<std::string> const& columns)
  {
    std::string head;
    for (std::string const& column : columns) {
      std::string name;  // as a text of CSS
      for (char const letter : column) {
        if (letter == '\\' || letter == '\'') { name += '\\'; }
        name += letter == '\n' ? ' ' : letter;
      }
      std::size_t const number = static_cast<std::size_t>(&column - columns.data()) + 1;
      markup_ +=
          fmt::format("{0}--c{1}: '{2}'", number == 1 ? "" : "; ", number, escaped_text(name));
      head += fmt::format("<th scope=\"col\">{}</th>", escaped_text(column));
    }
    markup_ += "\">\n<thead><tr>" + head + "</tr></thead>\n<tbody>\n";
  }

  /// Expects one cell per column.
  void add_row(std::vector<std::string> const& cells)
  {
    ++rows_;
    markup_ += fmt::format("<tr><th scope=\"row\">{}</th>", escaped_text(cells.front()));
    for (std::size_t cell = 1; cell < cells.size(); ++cell) {
      markup_ += fmt::format("<td>{}</td>", escaped_text(cells[cell]));
    }
    markup_ += "</tr>\n";
  }

  [[nodiscard]] std::string markup() const
  {
    constexpr std::size_t most_rows = 30;  // beside which the table scrolls in a box of its own
    return fmt::format("<div class=\"scroll{}\" {}</tbody>\n</table></div>\n",
                       rows_ > most_rows ? " tall" : "", markup_);
  }

 private:
  std::string markup_ = "tabindex=\"0\" role=\"group\" aria-label=\"Table\"><table style=\"";
  std::size_t rows_ = 0;
};

inline constexpr std::string_view page_style = R"css(* { box-sizing: border-box; }
body {
  margin: 0; background: var(--page); color: var(--ink);
  font: 16px/1.55 system-ui, "Segoe UI", Roboto, "DejaVu Sans", sans-serif;
}
main { max-width: 1060px; margin: 0 auto; padding: 40px 20px 56px; }
h1 {
  margin: 0 0 10px; font-size: 30px; line-height: 1.2; letter-spacing: -0.01em;
  overflow-wrap: anywhere;
}
h2 { margin: 0 0 4px; font-size: 19px; line-height: 1.3; }
p { margin: 0; max-width: 88ch; text-wrap: pretty; }
.brand { color: var(--muted); font-size: 14px; font-weight: 600; margin-bottom: 6px; }
.lead { font-size: 18px; overflow-wrap: anywhere; }
.figures {
  display: grid; grid-template-columns: repeat(auto-fit, minmax(190px, 1fr)); gap: 14px;
  margin: 28px 0 0;
}
.figures > div, section {
  background: var(--card); border: 1px solid var(--grid); border-radius: 12px;
}
.figures > div { padding: 14px 15px; }
dt, dd { margin: 0; }
.figures dt { color: var(--muted); font-size: 14px; }
.figures .value {
  font-size: 24px; line-height: 1.4; font-weight: 650; font-variant-numeric: tabular-nums;
}
.figures .value span {
  color: var(--muted); font-size: 16px; font-weight: 400; white-space: nowrap;
}
section .figures { margin-top: 18px; }
.figures .hint { color: var(--muted); font-size: 13px; line-height: 1.4; }
section { margin-top: 18px; padding: 20px 22px; break-inside: avoid; }
section > p { color: var(--muted); font-size: 15px; }
figure { margin: 18px 0 0; }
figure svg { display: block; width: 100%; height: auto; }
figure.narrow { display: none; max-width: 480px; }
.scroll { overflow: auto; margin-top: 14px; }
.tall { max-height: 640px; border-bottom: 1px solid var(--grid); }
table { border-collapse: collapse; width: 100%; font-size: 14px; }
table { font-variant-numeric: tabular-nums; }
th, td { padding: 6px 8px; text-align: right; overflow-wrap: anywhere; border-bottom: 1px solid var(--grid); }
th:first-child, td:first-child { text-align: left; padding-left: 0; }
thead th {
  position: sticky; top: 0; background: var(--card); color: var(--muted); font-weight: 600;
}
tbody th { font-weight: 400; }
.settings {
  display: grid; grid-template-columns: max-content 1fr; gap: 4px 20px; margin: 14px 0 0;
  font-size: 15px;
}
.settings dt { color: var(--muted); }
.verdict { list-style: none; margin: 14px 0 0; padding: 0; }
.verdict li {
  display: grid; grid-template-columns: 80px 1fr; gap: 12px; padding: 8px 0;
  border-top: 1px solid var(--grid);
}
.verdict b { color: var(--before-ink); font-size: 18px; font-variant-numeric: tabular-nums; }
.verdict strong { display: block; font-weight: 600; overflow-wrap: anywhere; }
.settings dd { overflow-wrap: anywhere; }
@media (max-width: 600px) {
  main { padding: 20px 12px 40px; }
  section { padding: 16px 12px; }
  h1 { font-size: 24px; }
  .figures { grid-template-columns: 1fr 1fr; gap: 10px; }
  .figures > div { padding: 12px; }
  .figures .value { font-size: 20px; }
}
@media screen and (max-width: 600px) {  /* tables as lists, a row below the other */
  table, tbody, tr { display: block; }
  thead { display: none; }
  tr { padding: 8px 0; border-bottom: 1px solid var(--grid); }
  tbody th, td, tbody th:first-child {
    display: flex; justify-content: space-between; gap: 16px; padding: 1px 0; border: 0;
  }
  tbody th { font-weight: 600; }
  tbody th::before, td::before { color: var(--muted); font-weight: 400; text-align: left; }
  tbody th::before, td::before { content: var(--name); }
}
@media screen and (max-width: 760px) {
  figure.wide { display: none; }
  figure.narrow { display: block; }
}
@media print {
  body { background: none; }
  main { max-width: none; padding: 0; }
  .scroll { max-height: none; overflow: visible; }
}
)css";

/// One HTML file that needs nothing else: no script, no font, no network; light and dark, for
/// screens of any width, and for paper.
///
/// Ensures     (1) markup() is well-formed if the pictures and bodies given to it are
///             (2) texts are escaped; only pictures and bodies are taken as markup
///             (3) its content security policy forbids scripts and every request, whatever it shows
///             (4) equal calls give equal bytes
class html_page {
 public:
  /// A number that the reader sees first.
  struct figure {
    std::string name;
    std::string value;
    std::string hint;         ///< how to read it
    std::string before = {};  ///< the value before, or empty
  };

  struct setting {
    std::string name;
    std::string value;
  };

  html_page(std::string_view title, std::string_view lead)
      : markup_(fmt::format(
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n"
            "<meta http-equiv=\"Content-Security-Policy\" "
            "content=\"default-src 'none'; style-src 'unsafe-inline'\"/>\n"
            "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n"
            "<title>{0}</title>\n<style>\n{1}{2}</style>\n</head>\n<body>\n<main>\n<header>\n"
            "<p class=\"brand\">ballast</p>\n<h1>{0}</h1>\n<p class=\"lead\">{3}</p>\n</header>\n",
            escaped_text(title), chart_style, std::string(page_style) + names_of_cells(),
            escaped_text(lead)))
  {}

  /// Adds numbers that the reader sees first, as a row of cards.
  void add_figures(std::vector<figure> const& figures)
  {
    markup_ += "<dl class=\"figures\">\n";
    for (figure const& shown : figures) {
      std::string const before =
          shown.before.empty() ? ""
                               : fmt::format("<span>{} \u2192</span> ", escaped_text(shown.before));
      markup_ += fmt::format(
          "<div><dt>{}</dt><dd class=\"value\">{}{}</dd><dd class=\"hint\">{}</dd></div>\n",
          escaped_text(shown.name), before, escaped_text(shown.value), escaped_text(shown.hint));
    }
    markup_ += "</dl>\n";
  }

  /// Adds a section: a heading, one or two sentences on how to read what follows, the numbers that
  /// belong to the picture, if any, and the picture.
  /// `draw` is called with the size of the chart for wide pages, and with that for narrow ones.
  template <class Draw>
  void add_chart(std::string_view heading, std::string_view explanation, Draw const& draw,
                 std::vector<figure> const& figures = {})
  {
    open_section(heading, explanation);
    if (!figures.empty()) { add_figures(figures); }
    markup_ += fmt::format(
        "<figure class=\"wide\">\n{}</figure>\n<figure "
        "class=\"narrow\">\n{}</figure>\n</section>\n",
        draw(wide_chart), draw(narrow_chart));
  }

  /// Adds a section with any other markup, such as an `html_table`.
  void add_section(std::string_view heading, std::string_view explanation, std::string_view body)
  {
    open_section(heading, explanation);
    markup_ += fmt::format("{}</section>\n", body);
  }

  /// Adds a section with a list of names and values.
  void add_settings(std::string_view heading, std::string_view explanation,
                    std::vector<setting> const& settings)
  {
    open_section(heading, explanation);
    markup_ += "<dl class=\"settings\">\n";
    for (setting const& each : settings) {
      markup_ += fmt::format("<dt>{}</dt><dd>{}</dd>\n", escaped_text(each.name),
                             escaped_text(each.value));
    }
    markup_ += "</dl>\n</section>\n";
  }

  [[nodiscard]] std::string markup() const { return markup_ + "</main>\n</body>\n</html>\n"; }

 private:
  /// Where a cell of a table finds the name of its column.
  [[nodiscard]] static std::string names_of_cells()
  {
    std::string rules;
    for (int column = 1; column <= 16; ++column) {
      rules += fmt::format("tr > :nth-child({0}) {{ --name: var(--c{0}); }}\n", column);
    }
    return rules;
  }

  void open_section(std::string_view heading, std::string_view explanation)
  {
    markup_ += fmt::format("<section>\n<h2>{}</h2>\n<p>{}</p>\n", escaped_text(heading),
                           escaped_text(explanation));
  }

  std::string markup_;
};

}  // namespace pages
