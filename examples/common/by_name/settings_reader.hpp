// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "policy_expression.hpp"

#include <ballast/core.hpp>
#include <ballast/text/excerpt.hpp>

#include <charconv>
#include <initializer_list>
#include <system_error>

namespace by_name {

/// Reads what is written after one name, `work=100` for example, key by key.
///
/// A key that is not written leaves its target as it is, and so does a value that is refused. The
/// reader keeps the first error, which `finish` returns, so the caller reads all keys without
/// looking at errors in between.
///
/// Ensures     (1) finish refuses keys that nobody read, keys that are given twice, and inner
///                 expressions that nobody asked for
///             (2) the error that finish returns is the first that was found
/// Errors      unknown_name: a key or an inner expression that does not belong here; syntax: a key
///             that is given twice; out_of_range: a value that is refused. Positions are offsets.
class settings_reader {
 public:
  /// `arguments` is what the name takes, for people: "POLICY,work=N", or nothing.
  settings_reader(policy_expression const& text, std::string_view arguments)
      : text_(text), arguments_(arguments)
  {}

  /// A whole number from `low` to `high`.
  template <std::integral Number>
  void number(std::string_view key, Number& target, Number low = 0,
              Number high = std::numeric_limits<Number>::max())
  {
    auto const* const written = find(key);
    if (written == nullptr) { return; }
    auto const value = whole_text_as<Number>(written->value);
    if (!value || *value < low || *value > high) {
      return refuse_value(
          *written, "a whole number from " + std::to_string(low) + " to " + std::to_string(high));
    }
    target = *value;
  }

  /// The index of one of these words; 0 where none is written.
  [[nodiscard]] std::size_t choice(std::string_view key, std::initializer_list<char const*> words)
  {
    auto const* const written = find(key);
    if (written == nullptr) { return 0; }
    std::string known;
    std::size_t index = 0;
    for (std::string_view const word : words) {
      if (written->value == word) { return index; }
      known.append(index == 0 ? "" : " or ").append(word);
      ++index;
    }
    refuse_value(*written, known);
    return 0;
  }

  /// The expressions between the settings, which are then the caller's to read.
  [[nodiscard]] std::vector<policy_expression> const& inner() noexcept
  {
    inner_asked_for_ = true;
    return text_.inner;
  }

  void refuse(ballast::error_code code, std::size_t offset, std::string const& reason)
  {
    if (!wrong_) { wrong_ = text_error(code, text_.text, offset, reason); }
  }

  void refuse(ballast::error wrong)
  {
    if (!wrong_) { wrong_ = std::move(wrong); }
  }

  /// What was read, or what is wrong with it.
  template <class Value>
  [[nodiscard]] ballast::result<Value> finish(Value value)
  {
    auto const& settings = text_.settings;
    for (auto each = settings.begin(); each != settings.end(); ++each) {
      auto const same_key = [each](auto const& other) { return other.key == each->key; };
      if (std::find(keys_read_.begin(), keys_read_.end(), each->key) == keys_read_.end()) {
        refuse(ballast::error_code::unknown_name, each->position,
               ballast::excerpt(each->key) + " is no parameter of " + what_it_takes());
      } else if (std::any_of(settings.begin(), each, same_key)) {
        refuse(ballast::error_code::syntax, each->position,
               ballast::excerpt(each->key) + " is given twice; remove one of the two");
      }
    }
    if (!inner_asked_for_ && !text_.inner.empty()) {
      refuse(ballast::error_code::unknown_name, text_.inner.front().position,
             ballast::excerpt(text_.inner.front().name) + " has no place in " + what_it_takes());
    }
    if (wrong_) { return tl::unexpected(*wrong_); }
    return value;
  }

  /// The name whose settings these are.
  [[nodiscard]] std::string name() const { return std::string(text_.name); }

 private:
  using setting = policy_expression::setting;

  template <std::integral Number>
  [[nodiscard]] static std::optional<Number> whole_text_as(std::string_view text)
  {
    Number number{};
    char const* const begin = text.data();
    char const* const end = begin + text.size();
    auto const [stopped, problem] = std::from_chars(begin, end, number);
    if (problem != std::errc{} || stopped != end) { return std::nullopt; }
    return number;
  }

  [[nodiscard]] setting const* find(std::string_view key)
  {
    keys_read_.push_back(key);
    auto const found = std::find_if(text_.settings.begin(), text_.settings.end(),
                                    [key](setting const& each) { return each.key == key; });
    return found == text_.settings.end() ? nullptr : &*found;
  }

  void refuse_value(setting const& written, std::string const& expected)
  {
    refuse(
        ballast::error_code::out_of_range, written.position,
        std::string(written.key) + " is " + ballast::excerpt(written.value) + "; give " + expected);
  }

  [[nodiscard]] std::string what_it_takes() const
  {
    return name().append(", which takes ").append(arguments_.empty() ? "nothing" : arguments_);
  }

  policy_expression const& text_;
  std::string_view arguments_;
  std::vector<std::string_view> keys_read_;
  bool inner_asked_for_ = false;
  std::optional<ballast::error> wrong_;
};

}  // namespace by_name
