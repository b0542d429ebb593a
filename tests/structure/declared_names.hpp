// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_TESTS_STRUCTURE_DECLARED_NAMES_HPP
#define BALLAST_TESTS_STRUCTURE_DECLARED_NAMES_HPP

#include "source_tree.hpp"
#include "tokens.hpp"

#include <cstddef>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace structure {

/// A name that a header declares in a namespace.
struct declared_name {
  std::string name;   // of a literal operator: its suffix
  std::string space;  // "ballast::v0::detail"
  std::size_t token;  // where; none of a macro
  bool forward;       // `struct name;`
};

struct declared_names {
  std::vector<declared_name> names;
  std::set<std::string> spaces;  // last parts: "detail"
};

namespace detail {

class declaration_reader {
 public:
  explicit declaration_reader(token_list const& tokens) : tokens_(tokens) {}

  declared_names operator()()
  {
    walk(0, tokens_.size(), "");
    return std::move(found_);
  }

 private:
  // The declarations from `at` to `end`, all in namespace `space`.
  void walk(std::size_t at, std::size_t end, std::string const& space)
  {
    while (at < end) {
      std::size_t const before = at;
      if (look(at) == ";") {
        ++at;
      } else if (look(at) == "namespace" || (look(at) == "inline" && look(at + 1) == "namespace")) {
        at = read_namespace(at, space);
      } else if (look(at) == "extern" && look(at + 2) == "{") {
        walk(at + 3, tokens_.partner[at + 2], space);
        at = tokens_.behind(at + 2);
      } else {
        space_ = &space;
        at = read_declaration(at);
      }
      if (at <= before) { at = before + 1; }
    }
  }

  std::size_t read_namespace(std::size_t at, std::string space)
  {
    for (; at < tokens_.size() && look(at) != "{" && look(at) != ";"; ++at) {
      if (!tokens_.is_word(at) || look(at) == "inline" || look(at) == "namespace") { continue; }
      space += (space.empty() ? "" : "::") + std::string(look(at));
      found_.spaces.insert(std::string(look(at)));
    }
    if (look(at) != "{") { return at + 1; }
    walk(at + 1, tokens_.partner[at], space);
    return tokens_.behind(at);
  }

  std::size_t read_declaration(std::size_t at)
  {
    while (look(at) == "template") {
      if (look(at + 1) != "<") { return behind_semicolon(at); }
      at = tokens_.behind_angle(at + 1);
      if (look(at) == "requires") { at = behind_requires(at); }
    }
    std::string_view const first = look(at);
    if (first == "static_assert") { return behind_semicolon(at); }
    if (first == "concept") {
      add(at + 1);
      return behind_semicolon(at);
    }
    if (first == "using") { return read_using(at); }
    if (first == "enum") { return read_enum(at); }
    if (first == "struct" || first == "class" || first == "union") { return read_class(at); }
    return read_declarator(at);
  }

  std::size_t read_using(std::size_t at)
  {
    std::size_t const end = behind_semicolon(at);
    if (look(at + 2) == "=" || look(at + 2) == "[") {
      add(at + 1);
    } else if (look(at + 1) != "namespace") {
      add(end - 2);  // `using other::name;`
    }
    return end;
  }

  std::size_t read_enum(std::size_t at)
  {
    bool const scoped = look(at + 1) == "class" || look(at + 1) == "struct";
    at = behind_attributes(at + (scoped ? 2U : 1U));
    bool forward = true;
    std::size_t const name = at;
    for (; at < tokens_.size() && look(at) != ";"; ++at) {
      if (look(at) != "{") { continue; }
      forward = false;
      std::size_t const close = tokens_.partner[at];
      for (std::size_t i = at + 1; !scoped && i < close; ++i) {
        bool const first = look(i - 1) == "{" || look(i - 1) == ",";
        if (first && tokens_.is_word(i)) { add(i); }
      }
      at = close;
    }
    add(name, forward);
    return at + 1;
  }

  std::size_t read_class(std::size_t at)
  {
    at = behind_attributes(at + 1);
    std::size_t const name = at;
    bool const primary = look(at + 1) != "<" && look(at + 1) != "::";
    for (; at < tokens_.size() && look(at) != "{" && look(at) != ";"; ++at) {
      if (look(at) == "(") { at = tokens_.behind(at) - 1; }
    }
    bool const forward = look(at) != "{";
    if (primary) { add(name, forward); }
    return forward ? at + 1 : behind_semicolon(tokens_.partner[at]);
  }

  // A function, a variable or a deduction guide: the name is what stands before its ( = { [ or ;.
  std::size_t read_declarator(std::size_t at)
  {
    bool qualified = false;
    while (at < tokens_.size()) {
      std::string_view const text = look(at);
      std::string_view const next = look(at + 1);
      if (text == ";") { return at + 1; }
      if (text == "requires") {
        at = behind_requires(at);
      } else if (text == "[" || text == "(" || text == "{") {
        at = tokens_.behind(at);
      } else if (text == "operator") {
        return read_operator(at, qualified);
      } else if (!tokens_.is_word(at)) {
        ++at;
      } else if (next == "::") {
        qualified = true;
        at += 2;
      } else if (takes_parentheses(text)) {
        at = next == "(" ? tokens_.behind(at + 1) : at + 1;
      } else if (next == "<") {
        at = tokens_.behind_angle(at + 1);
        if (look(at) == "::") {
          qualified = true;
          ++at;
          continue;
        }
        qualified = false;
        if (look(at) == "(") { return behind_function(at); }
        if (look(at) == "=" || look(at) == "{") { return behind_semicolon(at); }
      } else if (next == "(") {
        if (!qualified) { add(at); }
        return behind_function(at + 1);
      } else if (next == "=" || next == "{" || next == ";" ||
                 (next == "[" && look(at + 2) != "[")) {
        if (!qualified) { add(at); }
        return behind_semicolon(at);
      } else {
        qualified = false;
        ++at;
      }
    }
    return at;
  }

  std::size_t read_operator(std::size_t at, bool qualified)
  {
    if (look(at + 1) == "\"\"" && !qualified) { add(at + 2); }
    at += look(at + 1) == "(" ? 3U : 1U;
    while (at < tokens_.size() && look(at) != "(") { ++at; }
    return behind_function(at);
  }

  // From the ( of the parameters to behind the body or the semicolon.
  std::size_t behind_function(std::size_t at)
  {
    bool initialisers = false;
    for (at = tokens_.behind(at); at < tokens_.size(); ++at) {
      std::string_view const text = look(at);
      if (text == ";") { return at + 1; }
      if (text == "requires") {
        at = behind_requires(at) - 1;
      } else if (text == ":") {
        initialisers = true;
      } else if (text == "(" || text == "[") {
        at = tokens_.behind(at) - 1;
      } else if (text == "{") {
        if (!initialisers || look(at - 1) == ")" || look(at - 1) == "}") {
          return tokens_.behind(at);
        }
        at = tokens_.behind(at) - 1;
      }
    }
    return at;
  }

  // `requires` and a conjunction or disjunction of concepts, parentheses and requires-expressions.
  std::size_t behind_requires(std::size_t at)
  {
    do {
      ++at;
      if (look(at) == "(") {
        at = tokens_.behind(at);
      } else if (look(at) == "requires") {
        ++at;
        if (look(at) == "(") { at = tokens_.behind(at); }
        at = tokens_.behind(at);
      } else {
        while (look(at) == "!" || look(at) == "::" ||
               (tokens_.is_word(at) && (look(at - 1) == "::" || look(at + 1) == "::" ||
                                        look(at + 1) == "<" || is_junction(at + 1)))) {
          at = look(at + 1) == "<" ? tokens_.behind_angle(at + 1) : at + 1;
        }
      }
    } while (is_junction(at));
    return at;
  }

  std::size_t behind_semicolon(std::size_t at)
  {
    for (; at < tokens_.size() && look(at) != ";"; ++at) {
      if (look(at) == "(" || look(at) == "[" || look(at) == "{") { at = tokens_.behind(at) - 1; }
    }
    return at + 1;
  }

  std::size_t behind_attributes(std::size_t at)
  {
    while (true) {
      if (look(at) == "[") {
        at = tokens_.behind(at);
      } else if (takes_parentheses(look(at)) && look(at + 1) == "(") {
        at = tokens_.behind(at + 1);
      } else {
        return at;
      }
    }
  }

  static bool takes_parentheses(std::string_view word)
  {
    return word == "alignas" || word == "decltype" || word == "noexcept" || word == "explicit" ||
           word == "__attribute__" || word == "__launch_bounds__";
  }

  [[nodiscard]] bool is_junction(std::size_t at) const
  {
    return look(at) == "&&" || look(at) == "||";
  }
  [[nodiscard]] std::string_view look(std::size_t at) const { return tokens_.at(at); }

  void add(std::size_t at, bool forward = false)
  {
    if (tokens_.is_word(at)) {
      found_.names.push_back({std::string(look(at)), *space_, at, forward});
    }
  }

  token_list const& tokens_;
  std::string const* space_ = nullptr;
  declared_names found_;
};

}  // namespace detail

/// Types, aliases, concepts, functions, variables, enumerators without a scope of their own, and
/// suffixes of literals that are declared in namespaces; members are not.
inline declared_names names_declared_by(token_list const& tokens)
{
  return detail::declaration_reader(tokens)();
}

struct parsed_text {
  token_list tokens;
  declared_names declared;
};

/// The tokens of a text and what it declares; kept, since many checks ask for the same files.
inline parsed_text const& parsed(std::string const& text)
{
  static std::unordered_map<std::string, parsed_text> known;
  auto const [entry, is_new] = known.try_emplace(text);
  if (is_new) {
    entry->second.tokens = tokens_of(entry->first);
    entry->second.declared = names_declared_by(entry->second.tokens);
  }
  return entry->second;
}

/// Macros that the text defines, but for its guard `guard`.
inline std::vector<std::string> macros_defined_by(std::string_view text, std::string_view guard)
{
  std::vector<std::string> macros;
  for (std::string const& line : lines_of(text)) {
    std::istringstream words(line);
    std::string directive;
    words >> directive;
    if (directive == "#") {
      words >> directive;
      directive.insert(0, "#");
    }
    if (directive != "#define") { continue; }
    std::string name;
    words >> name;
    name = name.substr(0, name.find('('));
    if (name != guard) { macros.push_back(name); }
  }
  return macros;
}

}  // namespace structure

#endif  // BALLAST_TESTS_STRUCTURE_DECLARED_NAMES_HPP
