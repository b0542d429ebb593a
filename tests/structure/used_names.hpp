// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_TESTS_STRUCTURE_USED_NAMES_HPP
#define BALLAST_TESTS_STRUCTURE_USED_NAMES_HPP

#include "declared_names.hpp"
#include "tokens.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace structure {

/// A use of a name that may be one of a namespace of ours.
struct used_name {
  std::string_view name;
  std::string_view space;  // the qualifier's last part; empty where there is none
};

namespace detail {

template <std::size_t N>
bool any_of(std::array<std::string_view, N> const& words, std::string_view word)
{
  return std::ranges::find(words, word) != words.end();
}

// Names are read without types: a word that follows a type declares something, and hides the name
// of a namespace as far as the scope reaches in which it stands.
class use_reader {
 public:
  use_reader(token_list const& tokens, std::set<std::string> const& spaces)
      : tokens_(tokens), spaces_(spaces)
  {
    find_template_headers();
    for (std::size_t i = 0; i < tokens_.size(); ++i) {
      if (look(i) == "namespace" && look(i + 2) == "=") {
        spaces_.insert(std::string(look(i + 1)));
      }
    }
  }

  std::vector<used_name> operator()(std::function<bool(std::string_view)> const& is_known,
                                    declared_names const& own)
  {
    std::set<std::size_t> declarations;
    for (declared_name const& each : own.names) { declarations.insert(each.token); }

    std::vector<std::size_t> candidates;
    for (std::size_t i = 0; i < tokens_.size(); ++i) {
      if (!tokens_.is_word(i) || !is_known(look(i)) || declarations.contains(i)) { continue; }
      if (is_hiding(i)) {
        hide(i);
      } else if (may_be_of_a_namespace(i)) {
        candidates.push_back(i);
      }
    }
    std::vector<used_name> uses;
    for (std::size_t const i : candidates) {
      std::string_view const space = look(i - 1) == "::" ? look(i - 2) : std::string_view();
      if (!space.empty() || !is_hidden(i)) { uses.push_back({look(i), space}); }
    }
    return uses;
  }

 private:
  struct hidden {
    std::string_view name;
    std::size_t first, last;
  };

  void find_template_headers()
  {
    in_header_.assign(tokens_.size(), false);
    for (std::size_t i = 0; i + 1 < tokens_.size(); ++i) {
      bool const lambda = look(i) == "]" && look(i + 1) == "<";
      if ((look(i) != "template" && !lambda) || look(i + 1) != "<") { continue; }
      std::size_t const end = tokens_.behind_angle(i + 1);
      for (std::size_t j = i + 1; j < end; ++j) { in_header_[j] = true; }
    }
  }

  [[nodiscard]] bool may_be_of_a_namespace(std::size_t i) const
  {
    std::string_view const before = look(i - 1);
    if (before == "." || before == "->" || before == "goto") { return false; }
    if (look(i + 1) == "::" && spaces_.contains(std::string(look(i)))) { return false; }
    if (look(i - 2) == "friend" && (before == "class" || before == "struct")) { return false; }
    if (before != "::") { return true; }
    return spaces_.contains(std::string(look(i - 2)));  // not std::x, not type::x, not ::x
  }

  // Whether the word at `i` declares a member, a parameter or a local variable.
  [[nodiscard]] bool is_hiding(std::size_t i) const
  {
    std::string_view const before = look(i - 1);
    std::string_view const next = look(i + 1);
    std::size_t const around = tokens_.enclosing[i];
    if (around != token_list::none) {
      if (look(around) == "{" && is_enum(around) && (before == "{" || before == ",")) {
        return true;
      }
      if (look(around) == "[" && !in_header_[i] && (next == "," || next == "]" || next == "=")) {
        if (is_binding(around) || (next == "=" && look(i + 2) != "=")) { return true; }
      }
    }
    // A pointer to a function, `int (*name)(int)`.
    if (before == "*" && look(i - 2) == "(" && next == ")" && look(i + 2) == "(") {
      return tokens_.is_word(i - 3);
    }
    constexpr auto ends = std::to_array<std::string_view>({";", "=", "{", "(", "[", ",", ")", ":"});
    if (!any_of(ends, next) && !(in_header_[i] && next == ">")) { return false; }
    return follows_a_type(i);
  }

  [[nodiscard]] bool follows_a_type(std::size_t i) const
  {
    constexpr auto no_types = std::to_array<std::string_view>({"return",
                                                               "co_return",
                                                               "co_yield",
                                                               "co_await",
                                                               "throw",
                                                               "new",
                                                               "delete",
                                                               "else",
                                                               "case",
                                                               "goto",
                                                               "do",
                                                               "sizeof",
                                                               "alignof",
                                                               "operator",
                                                               "namespace",
                                                               "requires",
                                                               "inline",
                                                               "static",
                                                               "virtual",
                                                               "explicit",
                                                               "constexpr",
                                                               "consteval",
                                                               "constinit",
                                                               "friend",
                                                               "template",
                                                               "noexcept",
                                                               "mutable",
                                                               "extern",
                                                               "concept",
                                                               "public",
                                                               "private",
                                                               "not",
                                                               "and",
                                                               "or",
                                                               "BALLAST_HOST_DEVICE",
                                                               "__device__",
                                                               "__global__",
                                                               "__host__",
                                                               "__forceinline__"});
    constexpr auto introducers =
        std::to_array<std::string_view>({"struct", "class", "enum", "union", "typename"});
    std::string_view const before = look(i - 1);
    std::string_view const next = look(i + 1);
    if (i == 0) { return false; }
    if (tokens_.is_word(i - 1)) {
      if (before == "using") { return next == "="; }
      if (any_of(introducers, before)) {
        return in_header_[i] || next == "{" || next == ":" || next == ";";
      }
      return !any_of(no_types, before);
    }
    bool const closes =
        before == ">" || before == "&" || before == "*" || before == "&&" || before == "...";
    return closes && !tokens_.all[i - 1].spaced && tokens_.all[i].spaced;
  }

  // `auto const& [a, b]`
  [[nodiscard]] bool is_binding(std::size_t open) const
  {
    std::string_view before = look(open - 1);
    if (before == "&" || before == "&&") { before = look(open - 2); }
    if (before == "const") { return look(open - 2) == "auto" || look(open - 3) == "auto"; }
    return before == "auto";
  }

  void hide(std::size_t i)
  {
    std::size_t open = tokens_.enclosing[i];
    std::size_t first = i;
    if (open != token_list::none && look(open) == "[" && is_binding(open)) {
      open = tokens_.enclosing[open];
    }
    if (open != token_list::none && look(i + 1) == ")" && look(i + 2) == "(") {
      open = tokens_.enclosing[open];  // of a pointer to a function
    }
    std::size_t last = tokens_.size();
    if (in_header_[i]) {
      last = end_of_body(i);
    } else if (open == token_list::none) {
      return;
    } else if (look(open) == "{") {
      if (is_namespace(open)) { return; }
      if (is_class(open) || is_enum(open)) { first = open; }
      last = tokens_.partner[open];
    } else {
      last = end_of_body(tokens_.behind(open));
    }
    hidden_.push_back({look(i), first, last});
  }

  // From behind the parameters to the end of the body, or of the declaration if there is none.
  [[nodiscard]] std::size_t end_of_body(std::size_t at) const
  {
    bool initialisers = false;
    bool trailing = false;
    for (; at < tokens_.size(); ++at) {
      std::string_view const text = look(at);
      if (text == "->") { trailing = true; }
      if (text == ":") { initialisers = true; }
      if (text == ";" || text == ")" || text == "}" || text == "]") { return at; }
      if (text == "," && !initialisers && !trailing && !in_header_[at]) { return at; }
      if (text == "{") {
        bool const initialiser = (initialisers && look(at - 1) != ")" && look(at - 1) != "}") ||
                                 look(at - 1) == "requires";
        if (!initialiser) { return tokens_.partner[at]; }
      }
      if (text == "(" || text == "[" || text == "{") { at = tokens_.behind(at) - 1; }
    }
    return at;
  }

  // What the { at `open` belongs to, by the words before it.
  [[nodiscard]] bool has_before(std::size_t open, std::string_view word,
                                std::string_view other = {}) const
  {
    for (std::size_t i = open; i-- > 0;) {
      std::string_view const text = look(i);
      if (text == word || (!other.empty() && text == other)) { return !in_header_[i]; }
      if (text == ")") {
        i = tokens_.partner[i];
        if (look(i - 1) != "alignas" && look(i - 1) != "__align__") { return false; }
      } else if (text == ";" || text == "{" || text == "}" || text == "=" || text == "(") {
        return false;
      }
    }
    return false;
  }
  [[nodiscard]] bool is_namespace(std::size_t open) const { return has_before(open, "namespace"); }
  [[nodiscard]] bool is_enum(std::size_t open) const { return has_before(open, "enum"); }
  [[nodiscard]] bool is_class(std::size_t open) const
  {
    return has_before(open, "struct", "class") || has_before(open, "union");
  }

  [[nodiscard]] bool is_hidden(std::size_t i) const
  {
    return std::ranges::any_of(hidden_, [&](hidden const& each) {
      return each.name == look(i) && each.first <= i && i <= each.last;
    });
  }

  [[nodiscard]] std::string_view look(std::size_t at) const { return tokens_.at(at); }

  token_list const& tokens_;
  std::set<std::string> spaces_;
  std::vector<bool> in_header_;  // whether a token is in template <...>
  std::vector<hidden> hidden_;
};

}  // namespace detail

/// Uses of known names in a file that itself declares `own`: what follows a dot, an arrow, std:: or
/// a type's :: is left out, and so are names that a member, a parameter or a local variable hides.
/// `spaces` are the namespaces whose names count.
inline std::vector<used_name> names_used_by(token_list const& tokens, declared_names const& own,
                                            std::set<std::string> const& spaces,
                                            std::function<bool(std::string_view)> const& is_known)
{
  return detail::use_reader(tokens, spaces)(is_known, own);
}

}  // namespace structure

#endif  // BALLAST_TESTS_STRUCTURE_USED_NAMES_HPP
