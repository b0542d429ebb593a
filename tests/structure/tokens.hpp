// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_TESTS_STRUCTURE_TOKENS_HPP
#define BALLAST_TESTS_STRUCTURE_TOKENS_HPP

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace structure {

enum class token_kind { word, number, quoted, sign };

struct token {
  std::string_view text;
  token_kind kind;
  bool spaced;  // white space or a comment stands before it
};

/// C++ as tokens, without comments and directives. Brackets know their partners.
struct token_list {
  static constexpr std::size_t none = static_cast<std::size_t>(-1);

  std::vector<token> all;
  std::vector<std::size_t> partner;    // of a bracket: of ( [ {, and of what closes them
  std::vector<std::size_t> enclosing;  // the innermost ( [ { around a token

  [[nodiscard]] std::size_t size() const { return all.size(); }
  [[nodiscard]] std::string_view at(std::size_t i) const
  {
    return i < all.size() ? all[i].text : std::string_view();
  }
  [[nodiscard]] bool is_word(std::size_t i) const
  {
    return i < all.size() && all[i].kind == token_kind::word;
  }

  /// The token behind a group that opens at `i`.
  [[nodiscard]] std::size_t behind(std::size_t i) const
  {
    return partner[i] == none ? all.size() : partner[i] + 1;
  }

  /// The token behind the template arguments that open with the < at `i`.
  [[nodiscard]] std::size_t behind_angle(std::size_t i) const
  {
    for (int depth = 0; i < all.size();) {
      std::string_view const sign = at(i);
      if (sign == "(" || sign == "[" || sign == "{") {
        i = behind(i);
        continue;
      }
      if (sign == ";" || sign == "}") { return i; }
      if (sign == "<") { ++depth; }
      if (sign == ">") { --depth; }
      ++i;
      if (depth == 0) { return i; }
    }
    return i;
  }
};

namespace detail {

inline bool in_word(char c)
{
  return c == '_' || std::isalnum(static_cast<unsigned char>(c)) != 0;
}

class token_reader {
 public:
  explicit token_reader(std::string_view text) : text_(text) {}

  token_list operator()()
  {
    while (skip_blanks()) { read(); }
    match();
    return std::move(tokens_);
  }

 private:
  [[nodiscard]] char look(std::size_t ahead = 0) const
  {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
  }

  // To the next token; whether there is one.
  bool skip_blanks()
  {
    spaced_ = at_ == 0;
    while (at_ < text_.size()) {
      if (look() == '\n') {
        fresh_line_ = true;
        ++at_;
      } else if (std::isspace(static_cast<unsigned char>(look())) != 0) {
        ++at_;
      } else if (look() == '/' && look(1) == '/') {
        at_ = std::min(text_.find('\n', at_), text_.size());
      } else if (look() == '/' && look(1) == '*') {
        std::size_t const end = text_.find("*/", at_ + 2);
        at_ = end == std::string_view::npos ? text_.size() : end + 2;
      } else if (look() == '#' && fresh_line_) {
        skip_directive();
      } else {
        return true;
      }
      spaced_ = true;
    }
    return false;
  }

  void skip_directive()
  {
    while (at_ < text_.size() && look() != '\n') { at_ += look() == '\\' ? 2 : 1; }
  }

  void read()
  {
    fresh_line_ = false;
    std::size_t const first = at_;
    if (look() == 'R' && look(1) == '"') {
      std::size_t const open = std::min(text_.find('(', at_), text_.size());
      std::string end(")");
      end.append(text_.substr(at_ + 2, open - at_ - 2)).append("\"");
      std::size_t const close = text_.find(end, open);
      at_ = close == std::string_view::npos ? text_.size() : close + end.size();
      add(first, token_kind::quoted);
    } else if (std::isdigit(static_cast<unsigned char>(look())) != 0) {
      while (in_word(look()) || look() == '.' || (look() == '\'' && in_word(look(1)))) { ++at_; }
      add(first, token_kind::number);
    } else if (in_word(look())) {
      while (in_word(look())) { ++at_; }
      add(first, token_kind::word);
    } else if (look() == '"' || look() == '\'') {
      char const quote = look();
      for (++at_; at_ < text_.size() && look() != quote; ++at_) { at_ += look() == '\\' ? 1U : 0U; }
      at_ = std::min(at_ + 1, text_.size());
      add(first, token_kind::quoted);
    } else {
      // No >> and no >=, which close two lists of template arguments or one.
      for (std::string_view const sign :
           {"...", "<=>", "::", "->", "&&", "||", "<<", "<=", "==", "!=", "+=", "-="}) {
        if (text_.substr(at_).starts_with(sign)) {
          at_ += sign.size();
          break;
        }
      }
      at_ += at_ == first ? 1U : 0U;
      add(first, token_kind::sign);
    }
  }

  void add(std::size_t first, token_kind kind)
  {
    tokens_.all.push_back({text_.substr(first, at_ - first), kind, spaced_});
  }

  void match()
  {
    tokens_.partner.assign(tokens_.size(), token_list::none);
    tokens_.enclosing.assign(tokens_.size(), token_list::none);
    std::vector<std::size_t> open;
    for (std::size_t i = 0; i < tokens_.size(); ++i) {
      bool const is_sign = tokens_.all[i].kind == token_kind::sign;
      char const c = is_sign ? tokens_.at(i)[0] : ' ';
      if ((c == ')' || c == ']' || c == '}') && !open.empty()) {
        tokens_.partner[i] = open.back();
        tokens_.partner[open.back()] = i;
        open.pop_back();
      }
      if (!open.empty()) { tokens_.enclosing[i] = open.back(); }
      if (c == '(' || c == '[' || c == '{') { open.push_back(i); }
    }
  }

  std::string_view text_;
  std::size_t at_ = 0;
  bool spaced_ = true;
  bool fresh_line_ = true;
  token_list tokens_;
};

}  // namespace detail

/// The tokens view `text`.
inline token_list tokens_of(std::string_view text)
{
  return detail::token_reader(text)();
}

}  // namespace structure

#endif  // BALLAST_TESTS_STRUCTURE_TOKENS_HPP
