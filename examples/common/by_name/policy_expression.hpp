// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/text/excerpt.hpp>

namespace by_name {

/// What is wrong with a text of one line, and where: "at offset 4 of 'lpt:': expected a name".
[[nodiscard]] inline ballast::error text_error(ballast::error_code code, std::string_view text,
                                               std::size_t offset, std::string const& reason)
{
  return {code, offset,
          "at offset " + std::to_string(offset) + " of " + ballast::excerpt(text) + ": " + reason};
}

/// A policy, a schedule or an order as a command line writes it: names that nobody has looked up
/// yet.
///
/// Shapes      settings and inner in the order in which they are written; views into the text.
/// Units       positions are byte offsets into the text.
struct policy_expression {
  struct setting {
    std::string_view key;
    std::string_view value;
    std::size_t position = 0;
  };

  std::string_view text;  ///< all of it, not just what this expression is written as
  std::string_view name;
  std::size_t position = 0;
  std::vector<setting> settings;
  std::vector<policy_expression> inner;
};

/// Reads by recursive descent:
///
///     policy    = name | name ":" arguments | name "(" arguments ")" | "(" policy ")"
///     arguments = argument { "," argument }
///     argument  = key "=" value | policy
class policy_parser {
 public:
  policy_parser(std::string_view text, std::string_view example) : text_(text), example_(example) {}

  [[nodiscard]] ballast::result<policy_expression> parse()
  {
    auto parsed = policy(1);
    if (parsed && at_ != text_.size()) {
      return refuse(next() == ')' ? "this parenthesis was never opened"
                                  : "expected the end; arguments stand after one ':' or between "
                                    "parentheses");
    }
    return parsed;
  }

 private:
  // Far more than any policy needs, and few enough for any stack.
  static constexpr int most_nested = 32;

  [[nodiscard]] char next() const noexcept { return at_ < text_.size() ? text_[at_] : '\0'; }

  [[nodiscard]] tl::unexpected<ballast::error> refuse(std::string_view reason) const
  {
    return tl::unexpected(text_error(ballast::error_code::syntax, text_, at_,
                                     std::string(reason) + ", as in " + std::string(example_)));
  }

  [[nodiscard]] std::string_view take_word() noexcept
  {
    std::size_t const first = at_;
    auto const in_word = [](char byte) {
      return (byte >= 'a' && byte <= 'z') || (byte >= '0' && byte <= '9') || byte == '_';
    };
    while (in_word(next())) { ++at_; }
    return text_.substr(first, at_ - first);
  }

  [[nodiscard]] ballast::result<policy_expression> policy(int depth)
  {
    if (depth > most_nested) {
      return tl::unexpected(text_error(ballast::error_code::syntax, text_, at_,
                                       "there are more than " + std::to_string(most_nested) +
                                           " names inside each other; remove some"));
    }
    if (next() == '(') {
      ++at_;
      auto inside = policy(depth + 1);
      if (inside && !close()) { return refuse("expected ')'"); }
      return inside;
    }
    policy_expression parsed;
    parsed.text = text_;
    parsed.position = at_;
    parsed.name = take_word();
    if (parsed.name.empty()) { return refuse("expected a name"); }
    bool const enclosed = next() == '(';
    if (!enclosed && next() != ':') { return parsed; }
    do {
      ++at_;
      if (auto const read = argument(parsed, depth); !read) { return tl::unexpected(read.error()); }
    } while (next() == ',');
    if (enclosed && !close()) { return refuse("expected ',' or ')'"); }
    return parsed;
  }

  [[nodiscard]] bool close() noexcept
  {
    bool const closed = next() == ')';
    at_ += closed ? 1 : 0;
    return closed;
  }

  [[nodiscard]] ballast::result<void> argument(policy_expression& of, int depth)
  {
    std::size_t const first = at_;
    std::string_view const key = take_word();
    if (key.empty() || next() != '=') {
      at_ = first;
      auto inner = policy(depth + 1);
      if (!inner) { return tl::unexpected(inner.error()); }
      of.inner.push_back(std::move(*inner));
      return {};
    }
    ++at_;
    std::size_t const value = at_;
    at_ = std::min(text_.find_first_of(",()", at_), text_.size());
    if (at_ == value) { return refuse("expected a value"); }
    of.settings.push_back({key, text_.substr(value, at_ - value), first});
    return {};
  }

  std::string_view text_;
  std::string_view example_;
  std::size_t at_ = 0;
};

/// Reads the text of a policy: a name, and after a colon or in parentheses its parameters and the
/// policies that it works with. `refine:kk,work=100000` and `refine(kk,work=100000)`
/// are the same. After several colons, arguments belong to the innermost policy; parentheses give
/// them to another.
///
/// Expects     the text outlives the expression; the example is what an error shows as right.
/// Errors      syntax, with a byte offset.
/// Complexity  O(bytes).
[[nodiscard]] inline ballast::result<policy_expression> parse_policy_expression(
    std::string_view text, std::string_view example = "refine:(refine:kk,work=100000),nodes=9")
{
  return policy_parser(text, example).parse();
}

}  // namespace by_name
