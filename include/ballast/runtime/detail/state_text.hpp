// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/text/excerpt.hpp>

#include <system_error>

namespace ballast::inline v0::detail {

/// Writes words and whole numbers, a line of each kind. What is saved calls a state_writer and a
/// state_reader alike, so that it says once what there is.
class state_writer {
 public:
  explicit state_writer(std::string_view title) : text_(title) {}

  state_writer& line(std::string_view name)
  {
    text_.append("\n").append(name);
    return *this;
  }
  /// A number that is at least one and at most the other.
  template <class T>
  state_writer& number(T value, std::int64_t /*least*/ = any_least,
                       std::int64_t /*most*/ = any_most)
  {
    text_.append(" ").append(std::to_string(static_cast<std::int64_t>(value)));
    return *this;
  }
  /// So many entries, each of which use(entry) writes.
  template <class List, class Use>
  void list(List& all, std::size_t /*fewest*/, std::size_t /*most*/, Use const& use)
  {
    number(all.size());
    for (auto& each : all) { use(each); }
  }

  [[nodiscard]] static bool failed() { return false; }
  [[nodiscard]] std::string text() const { return text_ + "\n"; }

  static constexpr std::int64_t any_least = std::numeric_limits<std::int64_t>::min();
  static constexpr std::int64_t any_most = std::numeric_limits<std::int64_t>::max();

 private:
  std::string text_;
};

/// Reads what state_writer wrote, word by word. After the first thing that is wrong it reads
/// nothing.
class state_reader {
 public:
  state_reader(std::string_view title, std::string_view text) : text_(text) { line(title); }

  state_reader& line(std::string_view words)
  {
    while (!words.empty()) {
      std::size_t const end = words.find(' ');
      expect_word(words.substr(0, end));
      words.remove_prefix(end == std::string_view::npos ? words.size() : end + 1);
    }
    return *this;
  }

  /// A whole number from `least` to `most`; `least` where it is none.
  template <class T>
  state_reader& number(T& value, std::int64_t least = state_writer::any_least,
                       std::int64_t most = state_writer::any_most)
  {
    std::size_t const begin = skip_space();
    std::string_view const word = next_word();
    std::int64_t read = 0;
    auto const [end, code] = std::from_chars(word.data(), word.data() + word.size(), read);
    if (code != std::errc{} || end != word.data() + word.size() || read < least || read > most) {
      refuse(begin, word, concat("a number from ", least, " to ", most));
      read = least;
    }
    value = static_cast<T>(read);
    return *this;
  }
  template <class List, class Use>
  void list(List& all, std::size_t fewest, std::size_t most, Use const& use)
  {
    all.clear();
    std::size_t count = 0;
    number(count, static_cast<std::int64_t>(fewest), static_cast<std::int64_t>(most));
    while (all.size() < count && !failed()) { use(all.emplace_back()); }
  }

  [[nodiscard]] bool failed() const { return !problem_.empty(); }

  /// Errors      syntax: byte `position` is not what was written.
  [[nodiscard]] result<void> finish()
  {
    if (std::size_t const begin = skip_space(); begin < text_.size()) {
      refuse(begin, next_word(), "the end");
    }
    if (failed()) { return fail(error_code::syntax, position_, problem_); }
    return {};
  }

 private:
  void expect_word(std::string_view wanted)
  {
    std::size_t const begin = skip_space();
    std::string_view const word = next_word();
    if (word != wanted) { refuse(begin, word, "'" + std::string(wanted) + "'"); }
  }

  std::size_t skip_space()
  {
    at_ = std::min(text_.find_first_not_of(" \n", at_), text_.size());
    return at_;
  }

  std::string_view next_word()
  {
    std::size_t const begin = at_;
    at_ = std::min(text_.find_first_of(" \n", at_), text_.size());
    return text_.substr(begin, at_ - begin);
  }

  void refuse(std::size_t position, std::string_view word, std::string const& wanted)
  {
    if (failed()) { return; }
    position_ = position;
    problem_ =
        concat("the saved state has ", excerpt(word), " at byte ", position, " and should have ",
               wanted, "; give what save() returned, of the same version and setup");
    at_ = text_.size();
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::size_t position_ = 0;
  std::string problem_;
};

}  // namespace ballast::inline v0::detail
