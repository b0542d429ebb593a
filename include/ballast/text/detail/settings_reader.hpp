// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_TEXT_DETAIL_SETTINGS_READER_HPP
#define BALLAST_TEXT_DETAIL_SETTINGS_READER_HPP

#include <ballast/core/detail/concat.hpp>
#include <ballast/core/result.hpp>
#include <ballast/text/decimal.hpp>
#include <ballast/text/detail/nearest_double.hpp>
#include <ballast/text/detail/policy_expression.hpp>
#include <ballast/text/detail/text_error.hpp>
#include <ballast/text/excerpt.hpp>

#include <algorithm>
#include <charconv>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace ballast::inline v0::detail {

/// Where the error of a value points: at the first byte of `key=value`, or at that of the value.
enum class value_errors : std::uint8_t { at_the_key, at_the_value };

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
  settings_reader(policy_expression const& text, std::string_view arguments,
                  value_errors point = value_errors::at_the_key)
      : text_(text), arguments_(arguments), point_(point)
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
      return refuse_value(*written, concat("a whole number from ", low, " to ", high));
    }
    target = *value;
  }

  /// A decimal number such as 0.005, in millionths: digits, and up to six more after a point.
  void per_million(std::string_view key, std::uint32_t& target)
  {
    constexpr unsigned places = 6;
    constexpr std::uint32_t most = std::numeric_limits<std::uint32_t>::max();
    auto const* const written = find(key);
    if (written == nullptr) { return; }
    std::string_view const text = written->value;
    bool const plain = text.find_first_not_of("0123456789.") == text.npos &&
                       !text.starts_with('.') && !text.ends_with('.') &&
                       text.size() - std::min(text.find('.'), text.size()) <= places + 1;
    auto const value = parse_decimal(text);
    if (!plain || !value || value->in_units(places) > most) {
      return refuse_value(*written, "a decimal number from 0 to " +
                                        decimal::make(most, places).text() +
                                        " with up to six decimals, such as 0.005");
    }
    target = static_cast<std::uint32_t>(value->in_units(places));
  }

  /// A floating-point number such as 0.405 or 4e-1; "inf" and "nan" are read as such.
  void floating_point(std::string_view key, double& target)
  {
    auto const* const written = find(key);
    if (written == nullptr) { return; }
    auto const value = nearest_double(written->value);
    if (!value) { return refuse_value(*written, "a decimal number such as 0.405"); }
    target = *value;
  }

  /// 1 for yes, 0 for no.
  void flag(std::string_view key, bool& target)
  {
    auto const* const written = find(key);
    if (written == nullptr) { return; }
    auto const value = whole_text_as<std::uint32_t>(written->value);
    if (!value || *value > 1) { return refuse_value(*written, "0 or 1"); }
    target = *value == 1;
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

  [[nodiscard]] bool is_written(std::string_view key) { return find(key) != nullptr; }

  /// Where the error of this key's value points; `otherwise` where the key is not written.
  [[nodiscard]] std::size_t offset_of(std::string_view key, std::size_t otherwise)
  {
    auto const* const written = find(key);
    return written == nullptr ? otherwise : offset_of(*written);
  }

  /// Refuses every key but these, and those that are given twice, in the order of the text. finish
  /// does so with the keys that were read.
  void refuse_others(std::vector<std::string_view> const& known)
  {
    auto const& settings = text_.settings;
    for (auto each = settings.begin(); each != settings.end(); ++each) {
      auto const same_key = [each](auto const& other) { return other.key == each->key; };
      if (std::find(known.begin(), known.end(), each->key) == known.end()) {
        refuse(error_code::unknown_name, each->position,
               excerpt(each->key) + " is no parameter of " + what_it_takes());
      } else if (std::any_of(settings.begin(), each, same_key)) {
        refuse(error_code::syntax, each->position,
               excerpt(each->key) + " is given twice; remove one of the two");
      }
    }
  }

  /// Refuses a value that is a number or a word of its kind but is not possible here. Expects that
  /// the key is written.
  void refuse_value(std::string_view key, std::string const& expected)
  {
    refuse_value(*find(key), expected);
  }

  void refuse(error_code code, std::size_t offset, std::string const& reason)
  {
    if (!wrong_) { wrong_ = text_error(code, text_.text, offset, reason); }
  }

  void refuse(error wrong)
  {
    if (!wrong_) { wrong_ = std::move(wrong); }
  }

  /// What was read, or what is wrong with it.
  template <class Value>
  [[nodiscard]] result<Value> finish(Value value)
  {
    refuse_others(keys_read_);
    if (!inner_asked_for_ && !text_.inner.empty()) {
      refuse(error_code::unknown_name, text_.inner.front().position,
             excerpt(text_.inner.front().name) + " has no place in " + what_it_takes());
    }
    if (wrong_) { return tl::unexpected(*wrong_); }
    return value;
  }

  /// The name whose settings these are.
  [[nodiscard]] std::string name() const { return std::string(text_.name); }
  [[nodiscard]] std::size_t position() const noexcept { return text_.position; }

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

  [[nodiscard]] std::size_t offset_of(setting const& written) const noexcept
  {
    if (point_ == value_errors::at_the_key) { return written.position; }
    return static_cast<std::size_t>(written.value.data() - text_.text.data());
  }

  void refuse_value(setting const& written, std::string const& expected)
  {
    refuse(error_code::out_of_range, offset_of(written),
           std::string(written.key) + " is " + excerpt(written.value) + "; give " + expected);
  }

  [[nodiscard]] std::string what_it_takes() const
  {
    return name().append(", which takes ").append(arguments_.empty() ? "nothing" : arguments_);
  }

  policy_expression const& text_;
  std::string_view arguments_;
  value_errors point_;
  std::vector<std::string_view> keys_read_;
  bool inner_asked_for_ = false;
  std::optional<error> wrong_;
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_TEXT_DETAIL_SETTINGS_READER_HPP
