// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cctype>

#include "../../support/test.hpp"

#include <stdexcept>

namespace markup {

struct element {
  std::string name;
  std::map<std::string, std::string> attributes;
  std::string text;  // without that of its children

  [[nodiscard]] double number(std::string const& attribute) const
  {
    return std::strtod(attributes.at(attribute).c_str(), nullptr);
  }
  [[nodiscard]] std::vector<std::string> classes() const
  {
    auto const found = attributes.find("class");
    std::istringstream words(found == attributes.end() ? "" : found->second);
    std::vector<std::string> names;
    for (std::string word; words >> word;) { names.push_back(word); }
    return names;
  }
  [[nodiscard]] bool has_class(std::string_view wanted) const
  {
    auto const names = classes();
    return std::ranges::find(names, wanted) != names.end();
  }
};

/// Reads the strict part of XML that the library writes, and throws on anything else: elements that
/// do not balance, attributes without quotes or given twice, references it does not know.
class parser {
 public:
  explicit parser(std::string_view source) : source_(source) {}

  [[nodiscard]] std::vector<element> parse()
  {
    if (rest().substr(0, 9) == "<!DOCTYPE") { at_ = source_.find('>') + 1; }
    skip_space();
    content_of({});
    skip_space();
    require(at_ == source_.size() && elements_.size() > 0, "one element");
    return elements_;
  }

 private:
  [[nodiscard]] std::string_view rest() const { return source_.substr(at_); }

  void require(bool holds, char const* expected) const
  {
    if (holds) { return; }
    throw std::runtime_error(std::string("expected ") + expected +
                             " at: " + std::string(rest().substr(0, 60)));
  }
  void skip_space()
  {
    while (at_ < source_.size() && std::isspace(static_cast<unsigned char>(source_[at_])) != 0) {
      ++at_;
    }
  }
  void expect(std::string_view token)
  {
    require(rest().substr(0, token.size()) == token, std::string(token).c_str());
    at_ += token.size();
  }
  [[nodiscard]] std::string name()
  {
    std::size_t const first = at_;
    while (at_ < source_.size() &&
           (std::isalnum(static_cast<unsigned char>(source_[at_])) != 0 || source_[at_] == '-')) {
      ++at_;
    }
    require(at_ > first, "a name");
    return std::string(source_.substr(first, at_ - first));
  }
  [[nodiscard]] std::string text_until(char end)
  {
    std::string text;
    while (at_ < source_.size() && source_[at_] != end) {
      require(source_[at_] != '<', "no < in text");
      if (source_[at_] != '&') {
        text += source_[at_++];
        continue;
      }
      std::size_t const semicolon = rest().find(';');
      std::map<std::string_view, char> const known = {
          {"&amp", '&'}, {"&lt", '<'}, {"&gt", '>'}, {"&quot", '"'}, {"&#39", '\''}};
      auto const found = known.find(rest().substr(0, semicolon));
      require(found != known.end(), "a known reference");
      text += found->second;
      at_ += semicolon + 1;
    }
    return text;
  }

  // Reads the children of the element `parent`; the outermost call reads the single root.
  void content_of(std::string_view parent)
  {
    std::size_t const self = elements_.size() - 1;
    for (;;) {
      if (!parent.empty()) { elements_[self].text += text_until('<'); }
      expect("<");
      if (rest().substr(0, 1) == "/") {
        expect("/");
        require(name() == parent, "the end of the open element");
        expect(">");
        return;
      }
      element opened{name(), {}, {}};
      for (skip_space(); source_[at_] != '>' && source_[at_] != '/'; skip_space()) {
        std::string const attribute = name();
        expect("=\"");
        require(opened.attributes.emplace(attribute, text_until('"')).second, "a new attribute");
        expect("\"");
      }
      elements_.push_back(opened);
      if (source_[at_] == '/') {
        expect("/>");
      } else {
        expect(">");
        content_of(opened.name);
      }
      if (parent.empty()) { return; }
    }
  }

  std::string_view source_;
  std::size_t at_ = 0;
  std::vector<element> elements_;
};

/// Every element, in document order. Throws where `source` is not one well-formed element.
[[nodiscard]] inline std::vector<element> parse(std::string_view source)
{
  return parser(source).parse();
}

/// The elements that a selector names: "rect", ".before" or "rect.before".
[[nodiscard]] inline std::vector<element> all(std::vector<element> const& elements,
                                              std::string_view selector)
{
  std::string_view const name = selector.substr(0, selector.find('.'));
  std::string_view const its_class = selector.substr(std::min(name.size() + 1, selector.size()));
  std::vector<element> found;
  std::ranges::copy_if(elements, std::back_inserter(found), [&](element const& each) {
    return (name.empty() || each.name == name) && (its_class.empty() || each.has_class(its_class));
  });
  return found;
}

[[nodiscard]] inline std::vector<element> all(std::string_view source, std::string_view selector)
{
  return all(parse(source), selector);
}

[[nodiscard]] inline std::vector<std::string> texts(auto const& source, std::string_view selector)
{
  std::vector<std::string> found;
  for (element const& each : all(source, selector)) { found.push_back(each.text); }
  return found;
}

/// The corners in the attribute `points` of a shape.
[[nodiscard]] inline std::vector<std::pair<double, double>> corners(element const& shape)
{
  std::istringstream points(shape.attributes.at("points"));
  std::vector<std::pair<double, double>> found;
  char comma = '\0';
  for (double x = 0, y = 0; points >> x >> comma >> y;) { found.emplace_back(x, y); }
  return found;
}

}  // namespace markup

/// Tests stand in the namespace of what they test, with these names.
namespace pages {

using ballast::cost_units;
using ballast::rank_id;
using ballast::tokens;
using markup::all;
using markup::corners;
using markup::element;
using markup::parse;
using markup::texts;
using testing::AllOf;
using testing::AnyOf;
using testing::Contains;
using testing::DoubleEq;
using testing::DoubleNear;
using testing::ElementsAre;
using testing::EndsWith;
using testing::Field;
using testing::HasSubstr;
using testing::Not;
using testing::Pointwise;

}  // namespace pages
