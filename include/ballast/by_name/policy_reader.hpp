// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_BY_NAME_POLICY_READER_HPP
#define BALLAST_BY_NAME_POLICY_READER_HPP

#include <ballast/by_name/any_policy.hpp>
#include <ballast/core/result.hpp>
#include <ballast/text/excerpt.hpp>
#include <ballast/text/policy_expression.hpp>

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
#include <vector>

namespace ballast::inline v0::detail {

/// What is written behind the name of one policy, to be asked for piece by piece.
///
/// A parameter that is not written leaves its target as it is. The first thing that is wrong is
/// kept, and `finish` answers it, so that whoever asks need not look after every question. It also
/// refuses what nobody has asked for.
class policy_reader {
 public:
  using read_policy = result<any_policy>(policy_expression const&);

  policy_reader(policy_expression const& text, std::string_view arguments, read_policy* read)
      : text_(text), arguments_(arguments), read_(read), asked_for_(text.settings.size(), false)
  {}

  /// A whole number.
  template <std::integral Number>
  void number(std::string_view key, Number& target, Number low = 0,
              Number high = std::numeric_limits<Number>::max())
  {
    auto const* const written = find(key);
    if (written == nullptr) { return; }
    Number value{};
    std::string_view const digits = written->value;
    auto const parsed = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (parsed.ec != std::errc{} || parsed.ptr != digits.data() + digits.size() || value < low ||
        value > high) {
      return refuse_value(
          *written, "a whole number from " + std::to_string(low) + " to " + std::to_string(high));
    }
    target = value;
  }

  /// A decimal number such as 0.005, in millionths.
  void per_million(std::string_view key, std::uint32_t& target)
  {
    constexpr std::size_t places = 6;
    auto const* const written = find(key);
    if (written == nullptr) { return; }
    std::string_view const text = written->value;
    std::size_t const point = std::min(text.find('.'), text.size());
    std::size_t const after = point == text.size() ? 0 : text.size() - point - 1;
    // All digits in a row, with zeros for those that are not written.
    std::string digits(text.substr(0, point));
    if (after > 0) { digits += text.substr(point + 1); }
    bool const whole = point > 0 && after <= places && (after > 0 || point == text.size()) &&
                       digits.find_first_not_of("0123456789") == digits.npos;
    digits.append(after <= places ? places - after : 0, '0');
    std::uint32_t value = 0;
    auto const parsed = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (!whole || parsed.ec != std::errc{}) {
      return refuse_value(*written,
                          "a decimal number from 0 to 4294 of at most six places, such as 0.005");
    }
    target = value;
  }

  /// One of some words: which; the first where none is written.
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

  /// The policy to work with, or the usual one where none is written.
  [[nodiscard]] any_policy policy(any_policy const& usual = {})
  {
    std::vector<any_policy> const all = policies();
    if (all.size() > 1) {
      refuse(error_code::syntax, text_.inner[1].position,
             std::string(text_.name) +
                 " works with one policy; put parentheses around what "
                 "belongs together");
    }
    return all.empty() ? usual : all.front();
  }

  /// The same, where it has to leave its plan free to change: loads are sums, of any samples.
  [[nodiscard]] any_policy free_policy(any_policy const& usual = {})
  {
    any_policy const inner = policy(usual);
    check_free(inner, 0);
    return inner;
  }

  /// The policies to work with, free ones, at least one.
  [[nodiscard]] std::vector<any_policy> free_policies()
  {
    std::vector<any_policy> all = policies();
    for (std::size_t index = 0; index < all.size(); ++index) { check_free(all[index], index); }
    if (all.empty()) {
      refuse(error_code::syntax, text_.position,
             std::string(text_.name) + " takes policies to choose from, as in best_of:kk,lpt");
      all.emplace_back();
    }
    return all;
  }

  [[nodiscard]] result<any_policy> finish(any_policy const& policy)
  {
    for (std::size_t index = 0; index < asked_for_.size(); ++index) {
      if (asked_for_[index]) { continue; }
      auto const& setting = text_.settings[index];
      if (&setting !=
          &*std::ranges::find(text_.settings, setting.key, &policy_expression::setting::key)) {
        refuse(error_code::syntax, setting.position, excerpt(setting.key) + " is given twice");
      } else {
        refuse(error_code::unknown_name, setting.position,
               excerpt(setting.key) + " is no parameter of " + what_it_takes());
      }
    }
    if (!policies_asked_for_ && !text_.inner.empty()) {
      refuse(error_code::unknown_name, text_.inner.front().position,
             excerpt(text_.inner.front().name) + " has no place in " + what_it_takes());
    }
    if (wrong_) { return tl::unexpected(*wrong_); }
    return policy;
  }

 private:
  [[nodiscard]] std::string what_it_takes() const
  {
    return std::string(text_.name)
        .append(", which takes ")
        .append(arguments_.empty() ? "nothing" : arguments_);
  }

  [[nodiscard]] policy_expression::setting const* find(std::string_view key)
  {
    for (std::size_t index = 0; index < asked_for_.size(); ++index) {
      if (text_.settings[index].key == key) {
        asked_for_[index] = true;
        return &text_.settings[index];
      }
    }
    return nullptr;
  }

  [[nodiscard]] std::vector<any_policy> policies()
  {
    policies_asked_for_ = true;
    std::vector<any_policy> all;
    for (policy_expression const& each : text_.inner) {
      auto const inner = read_(each);
      if (!inner && !wrong_) { wrong_ = inner.error(); }
      all.push_back(inner ? *inner : any_policy{});
    }
    return all;
  }

  void check_free(any_policy const& inner, std::size_t index)
  {
    if (!restricts_plans(inner) && batching_of(inner) == batching::packed) { return; }
    refuse(error_code::out_of_range, text_.inner[index].position,
           std::string(text_.name) + " would break what " + excerpt(text_.inner[index].name) +
               " keeps to; use that by itself");
  }

  void refuse_value(policy_expression::setting const& written, std::string const& expected)
  {
    refuse(error_code::out_of_range, written.position,
           std::string(written.key) + " is " + excerpt(written.value) + "; give " + expected);
  }

  void refuse(error_code code, std::size_t position, std::string const& reason)
  {
    if (wrong_) { return; }
    wrong_ = error{code, position, "offset " + std::to_string(position) + ": " + reason};
  }

  policy_expression const& text_;
  std::string_view arguments_;
  read_policy* read_;
  std::vector<bool> asked_for_;
  bool policies_asked_for_ = false;
  std::optional<error> wrong_;
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_BY_NAME_POLICY_READER_HPP
