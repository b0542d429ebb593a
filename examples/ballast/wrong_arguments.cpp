// SPDX-License-Identifier: Apache-2.0
#include "wrong_arguments.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cli {
namespace {

/// How many letters have to be put in, left out, replaced or swapped with the next.
std::size_t edits(std::string_view a, std::string_view b)
{
  std::vector<std::vector<std::size_t>> least(a.size() + 1, std::vector(b.size() + 1, b.size()));
  for (std::size_t i = 0; i <= a.size(); ++i) {
    for (std::size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        least[i][j] = i + j;
        continue;
      }
      std::size_t const kept = least[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0U : 1U);
      least[i][j] = std::min({kept, least[i - 1][j] + 1, least[i][j - 1] + 1});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        least[i][j] = std::min(least[i][j], least[i - 2][j - 2] + 1);
      }
    }
  }
  return least[a.size()][b.size()];
}

/// The name that was probably meant; empty where none is near.
std::string nearest(std::string_view given, std::vector<std::string> const& names)
{
  std::string_view const word = given.substr(std::min(given.find_first_not_of('-'), given.size()));
  std::pair<std::size_t, std::string> best(std::max<std::size_t>(2, word.size() / 3) + 1, "");
  for (std::string const& name : names) {
    std::string_view const known = std::string_view(name).substr(name.find_first_not_of('-'));
    bool const begins = word.size() > 2 && known.starts_with(word);
    std::size_t const far = begins ? 1 : edits(word, known);
    if (far < word.size()) { best = std::min(best, {far, name}); }
  }
  return best.second;
}

std::vector<std::string> names_of(std::vector<CLI::App const*> const& commands)
{
  std::vector<std::string> names;
  for (CLI::App const* const each : commands) { names.push_back(each->get_name()); }
  return names;
}

/// What an option of older versions is now; of some commands where it names them.
struct renamed_option {
  std::string_view old;
  std::string_view now;
  std::string_view command = "";
};
constexpr renamed_option renamed[] = {
    {"--most-tokens-per-gpu", "--most-per-gpu N"},
    {"--most-tokens-per-microbatch", "--most-per-gpu N, of which a bag of G GPUs has G N"},
    {"--capacity", "--most-per-gpu N"},
    {"--most-samples", "--samples at_most:N"},
    {"--multiple-of", "--microbatches multiple_of:N", "plan"},
    {"--multiple-of", "--bins-multiple-of N"},
    {"--length-multiple", "--rounded-to N"},
    {"--top", "--print K, since all layouts are searched"},
};

std::string unknown_option(CLI::App const& command, std::string const& name,
                           std::string const& value)
{
  for (auto const& [old, now, only] : renamed) {
    if (name == old && (only.empty() || only == command.get_name())) {
      return fmt::format("{} is now {}", old, now);
    }
  }
  std::vector<std::string> names;
  for (CLI::Option const* const each : command.get_options()) {
    if (!each->get_lnames().empty()) { names.push_back("--" + each->get_lnames().front()); }
  }
  std::string const near = nearest(name, names);
  return fmt::format("{} has no option '{}'{}", command.get_name(), name,
                     near.empty()    ? ""
                     : value.empty() ? fmt::format("; did you mean {}?", near)
                                     : fmt::format("; did you mean {} {}?", near, value));
}

bool is_option(std::string_view argument)
{
  return argument.size() > 1 && argument.front() == '-' && (argument[1] < '0' || argument[1] > '9');
}

/// What CLI11 says, with what to do.
std::string advised(std::string const& why)
{
  constexpr std::string_view excludes = " excludes ";
  std::size_t const at = why.find(excludes);
  if (at == why.npos) { return why; }
  return fmt::format("{} and {} do not go together; leave one of them out", why.substr(0, at),
                     why.substr(at + excludes.size()));
}

/// What is wrong with what stands behind a subcommand; empty where it is not seen here.
std::string wrong_options(CLI::App const& command, std::vector<std::string> const& arguments,
                          std::string_view why)
{
  // What stands by itself.
  bool const takes_log = command.get_option_no_throw("log") != nullptr;
  bool lacks_word = takes_log || command.get_option_no_throw("shell") != nullptr;
  std::map<CLI::Option const*, int> given;
  auto const at = [&](std::size_t next) {
    return next < arguments.size() ? arguments[next] : std::string();
  };
  for (std::size_t next = 1; next < arguments.size(); ++next) {
    std::string const& argument = arguments[next];
    if (argument == "--") {
      return fmt::format("{} takes options by name alone, so that '--' has no place; leave it out",
                         command.get_name());
    }
    if (!is_option(argument)) {
      if (std::exchange(lacks_word, false)) { continue; }
      return fmt::format("{} does not take '{}'; a value stands behind its option",
                         command.get_name(), argument);
    }
    std::size_t const equals = argument.find('=');
    std::string const name = argument.substr(0, equals);
    auto const* const option = command.get_option_no_throw(name);
    if (option == nullptr) {
      bool const is_pair = equals != argument.npos;
      return unknown_option(command, name,
                            is_pair                   ? argument.substr(equals + 1)
                            : is_option(at(next + 1)) ? ""
                                                      : at(next + 1));
    }
    using CLI::MultiOptionPolicy;
    if (++given[option] > 1 && option->get_multi_option_policy() == MultiOptionPolicy::Throw &&
        option->get_items_expected_max() == 1) {
      return fmt::format("{} is given twice; give it once", name);
    }
    bool const is_flag = option->get_items_expected_max() == 0;
    if (is_flag && equals != argument.npos && why.starts_with("Could not convert")) {
      return fmt::format("{} takes no value; leave out '{}'", name, argument.substr(equals));
    }
    if (!is_flag && equals + 1 == argument.size()) {
      return fmt::format("{} has no value; write {} {}", name, name, option->get_type_name());
    }
    if (is_flag || equals != argument.npos) { continue; }
    std::string const value = at(next + 1);
    if (next + 1 == arguments.size() || is_option(value)) {
      return is_option(value) &&
                     command.get_option_no_throw(value.substr(0, value.find('='))) == nullptr
                 ? fmt::format("'{}' is no value of {}; write {}={} where it is meant", value, name,
                               name, value)
                 : fmt::format("{} has no value; write {} {}", name, name, option->get_type_name());
    }
    ++next;
    while (option->get_items_expected_max() > 1 && next + 1 < arguments.size() &&
           !is_option(at(next + 1))) {
      ++next;
    }
  }
  if (!lacks_word) { return ""; }
  return takes_log ? "there is no log; name the file that a step_log wrote"
                   : "there is no shell; choose one of bash, zsh";
}

}  // namespace

std::string wrong_arguments(CLI::App const& app, std::vector<std::string> const& arguments,
                            std::string const& why)
{
  auto const commands = names_of(app.get_subcommands([](CLI::App const*) { return true; }));
  std::string const choice = fmt::format("choose one of {}", fmt::join(commands, ", "));
  if (arguments.empty()) {
    return fmt::format("there is no subcommand; {}; see ballast --help", choice);
  }
  std::string const& first = arguments.front();
  if (std::ranges::find(commands, first) == commands.end()) {
    std::string const near = nearest(first, commands);
    return fmt::format("there is no subcommand '{}'{} {}{}; see ballast --help", first,
                       near.empty() ? ";" : fmt::format(", did you mean '{}'? Else", near), choice,
                       is_option(first) ? " first, and write options behind it" : "");
  }
  CLI::App const& command = *app.get_subcommand(first);
  std::string const wrong = wrong_options(command, arguments, why);
  std::string const said = wrong.empty() ? advised(why) : wrong;
  return fmt::format("{}{} ballast {} --help", said, said.ends_with('?') ? " See" : "; see", first);
}

}  // namespace cli
