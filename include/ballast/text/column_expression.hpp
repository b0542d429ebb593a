// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/text/csv.hpp>
#include <ballast/text/excerpt.hpp>

#include <system_error>

namespace ballast::inline v0 {

/// A number for every row of a trace, computed from its columns: `text_tokens+4*patches14`.
///
/// Grammar     sum = product (("+" | "-") product)*, product = value ("*" value)*,
///             value = whole number | name | "`" any name "`" | "(" sum ")"; a plain name is
///             [A-Za-z_][A-Za-z0-9_.]*, and of any name each backtick is written twice; spaces and
///             tabs between these do not matter.
/// Expects     a row to evaluate has as many fields as the header had.
/// Ensures     (1) the value is that of 64-bit signed arithmetic in which nothing wrapped
///             (2) only the columns that occur in the expression are read
/// Errors      parse: syntax, unknown_name or out_of_range with a byte offset into the expression.
///             evaluate: bad_row with the line of the row; the message names the column.
/// Complexity  parse: O(bytes x columns). evaluate: O(terms); it allocates only to report an error.
class column_expression {
 public:
  [[nodiscard]] result<std::int64_t> evaluate(csv_row const& row) const
  {
    std::array<std::int64_t, most_pending> pending;  // each step writes before a later one reads
    std::size_t count = 0;
    for (step const& next : steps_) {
      if (next.kind == 'c') {
        pending[count++] = next.operand;
      } else if (next.kind == 'f') {
        auto const column = static_cast<std::size_t>(next.operand);
        BALLAST_EXPECTS(column < row.fields.size(), "the expression reads column ", column,
                        " of a row of ", row.fields.size(), " fields");
        std::string_view const field = row.fields[column];
        char const* const begin = field.data();
        char const* const end = begin + field.size();
        auto const parsed = std::from_chars(begin, end, pending[count++]);
        if (parsed.ec != std::errc{} || parsed.ptr != end) {
          return fail(error_code::bad_row, row.line, "line ", row.line, ": column ",
                      excerpt(names_[column]), " holds ", excerpt(field),
                      ", expected a whole number that fits 64 bits; fix the row or choose ",
                      "another column");
        }
      } else {
        --count;
        if (!combine(next.kind, pending[count - 1], pending[count])) {
          return fail(error_code::bad_row, row.line, "line ", row.line, ": ", excerpt(text_),
                      " does not fit 64 bits; fix the row or choose other columns");
        }
      }
    }
    return pending[0];
  }

  /// Whether rows can differ at all: 4 * 1024 is the same for every row.
  [[nodiscard]] bool names_a_column() const noexcept
  {
    for (step const& each : steps_) {
      if (each.kind == 'f') { return true; }
    }
    return false;
  }

 private:
  column_expression() = default;
  class parser;
  friend result<column_expression> parse_column_expression(std::string_view,
                                                           std::span<std::string_view const>);

  // Postfix order: 'c' a constant, 'f' a field, or an operator on the two values before it.
  struct step {
    char kind;
    std::int64_t operand;
  };

  // Inside each open parenthesis a sum and a product can wait for their right-hand side.
  static constexpr std::size_t most_nested = 32;
  static constexpr std::size_t most_pending = 2 * (most_nested + 1) + 1;

  [[nodiscard]] static bool combine(char kind, std::int64_t& left, std::int64_t right) noexcept
  {
    if (kind == '+') { return !__builtin_add_overflow(left, right, &left); }
    if (kind == '-') { return !__builtin_sub_overflow(left, right, &left); }
    return !__builtin_mul_overflow(left, right, &left);
  }

  std::string text_;
  std::vector<std::string> names_;  // of all columns
  std::vector<step> steps_;
};

/// Recursive descent: every member returns whether to go on; where not, error_ says why.
class column_expression::parser {
 public:
  parser(std::string_view text, std::span<std::string_view const> header)
      : text_(text), header_(header)
  {}

  [[nodiscard]] result<column_expression> parse()
  {
    if (sum(0) && at_ < text_.size()) {
      bool const after_a_name = at_ > 0 && text_[at_ - 1] == '`';
      refuse(error_code::syntax, at_,
             std::string("expected '+', '-', '*' or the end") +
                 (after_a_name ? "; a backtick in a name is written twice, as in `a``b`" : ""));
    }
    if (error_) { return tl::unexpected<error>(*error_); }
    expression_.text_ = text_;
    expression_.names_.assign(header_.begin(), header_.end());
    return std::move(expression_);
  }

 private:
  bool sum(std::size_t nested)
  {
    if (!product(nested)) { return false; }
    while (next_is('+') || next_is('-')) {
      char const operation = text_[at_++];
      if (!product(nested)) { return false; }
      expression_.steps_.push_back({operation, 0});
    }
    return true;
  }

  bool product(std::size_t nested)
  {
    if (!value(nested)) { return false; }
    while (next_is('*')) {
      ++at_;
      if (!value(nested)) { return false; }
      expression_.steps_.push_back({'*', 0});
    }
    return true;
  }

  bool value(std::size_t nested)
  {
    if (next_is('(')) { return parentheses(nested); }
    if (next_is('`')) { return quoted(); }
    std::size_t const first = at_;
    if (at_ < text_.size() && is_digit(text_[at_])) { return constant(); }
    while (at_ < text_.size() &&
           (is_letter(text_[at_]) || is_digit(text_[at_]) || text_[at_] == '.')) {
      ++at_;
    }
    if (needs_backticks(first)) {
      return refuse(error_code::syntax, first,
                    "put a name with other characters than letters, digits, '_' and '.' between "
                    "backticks, as in `a-b`");
    }
    if (at_ > first) { return column(first, text_.substr(first, at_ - first)); }
    return refuse(error_code::syntax, at_, "expected a column, a whole number or '('");
  }

  bool quoted()
  {
    std::size_t const first = at_;
    std::string name;
    do {
      std::size_t const begin = at_ + 1;
      at_ = text_.find('`', begin);
      if (at_ == std::string_view::npos) {
        return refuse(error_code::syntax, first,
                      "this '`' is never closed; add one after the name");
      }
      // With the second of two backticks, which stand for one.
      name += text_.substr(begin, at_ - begin + (text_.substr(at_).starts_with("``") ? 1 : 0));
      ++at_;
    } while (at_ < text_.size() && text_[at_] == '`');
    return column(first, name);
  }

  /// Whether a column begins here whose name is no plain one, or a character of such a name ended
  /// the plain one.
  [[nodiscard]] bool needs_backticks(std::size_t first) const
  {
    std::string_view const plain = text_.substr(first, at_ - first);
    for (std::string_view const name : header_) {
      if (name == plain) { return false; }
    }
    for (std::string_view const name : header_) {
      if (name.size() > plain.size() && text_.substr(first).starts_with(name)) { return true; }
    }
    return at_ < text_.size() &&
           (text_[at_] < ' ' || text_[at_] > '~' || text_[at_] == '"' || text_[at_] == '\'');
  }

  bool parentheses(std::size_t nested)
  {
    if (nested == most_nested) {
      return refuse(error_code::syntax, at_, "too many parentheses inside each other; remove some");
    }
    ++at_;
    if (!sum(nested + 1)) { return false; }
    if (!next_is(')')) { return refuse(error_code::syntax, at_, "expected '+', '-', '*' or ')'"); }
    ++at_;
    return true;
  }

  bool constant()
  {
    std::int64_t number = 0;
    auto const parsed = std::from_chars(text_.data() + at_, text_.data() + text_.size(), number);
    if (parsed.ec != std::errc{}) {
      return refuse(error_code::out_of_range, at_, "this number does not fit 64 bits");
    }
    expression_.steps_.push_back({'c', number});
    at_ = static_cast<std::size_t>(parsed.ptr - text_.data());
    return true;
  }

  bool column(std::size_t first, std::string_view name)
  {
    std::size_t found = header_.size();
    for (std::size_t column = 0; column < header_.size(); ++column) {
      if (header_[column] != name) { continue; }
      if (found != header_.size()) {
        return refuse(error_code::unknown_name, first,
                      "the header has two columns " + excerpt(name) + "; rename one of them");
      }
      found = column;
    }
    if (found == header_.size()) { return unknown(first, name); }
    expression_.steps_.push_back({'f', static_cast<std::int64_t>(found)});
    return true;
  }

  bool unknown(std::size_t first, std::string_view name)
  {
    constexpr std::size_t most_listed = 40;
    std::string reason = "there is no column " + excerpt(name) + "; there are ";
    for (std::size_t column = 0; column < header_.size() && column < most_listed; ++column) {
      reason += (column == 0 ? "" : ", ") + excerpt(header_[column]);
    }
    if (header_.size() > most_listed) {
      reason += detail::concat(" and ", header_.size() - most_listed, " more");
    }
    return refuse(error_code::unknown_name, first, reason);
  }

  [[nodiscard]] bool next_is(char expected)
  {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t')) { ++at_; }
    return at_ < text_.size() && text_[at_] == expected;
  }

  // Not std::isalpha and its like, which depend on the locale.
  [[nodiscard]] static bool is_digit(char c) noexcept { return c >= '0' && c <= '9'; }
  [[nodiscard]] static bool is_letter(char c) noexcept
  {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  }

  bool refuse(error_code code, std::size_t position, std::string const& reason)
  {
    error_ = detail::text_error(code, text_, position, reason);
    return false;
  }

  std::string_view text_;
  std::span<std::string_view const> header_;
  std::size_t at_ = 0;
  column_expression expression_;
  std::optional<error> error_;
};

/// Reads an expression and finds its columns in the header; see `column_expression`.
[[nodiscard]] inline result<column_expression> parse_column_expression(
    std::string_view text, std::span<std::string_view const> header)
{
  return column_expression::parser(text, header).parse();
}

}  // namespace ballast::inline v0
