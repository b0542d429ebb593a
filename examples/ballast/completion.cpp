// SPDX-License-Identifier: Apache-2.0
#include "completion.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cli {
namespace {

/// What a script does where a pattern of the subcommand and the word before matches.
struct completion_case {
  std::vector<std::string> patterns;
  std::string words;     ///< to choose from; nothing and no file: anything, which no shell knows
  bool is_file = false;  ///< a path as well, or alone where there are no words
};

/// "step microbatch" of WHEN:{step,microbatch}, and nothing where the parser knows no choices.
std::string choices_of(CLI::Option const& option)
{
  std::string const type = option.get_type_name();
  std::size_t const begin = type.find('{');
  std::size_t const end = type.find('}');
  if (begin == type.npos || end == type.npos) { return ""; }
  std::string choices = type.substr(begin + 1, end - begin - 1);
  std::ranges::replace(choices, ',', ' ');
  return choices;
}

/// The cases of a subcommand: options that take something, then all the rest.
std::vector<completion_case> cases_of(CLI::App const& command)
{
  std::string const& name = command.get_name();
  std::vector<completion_case> cases;
  completion_case files{{}, "", true};
  completion_case values;
  completion_case options{{name + "\\ *"}, ""};
  for (CLI::Option const* const each : command.get_options()) {
    if (each->get_group().empty() && !each->get_positional()) { continue; }
    bool const is_file = each->get_type_name().starts_with("FILE");
    std::string const choices = choices_of(*each);
    if (each->get_positional() || (is_file && each->get_items_expected_max() > 1)) {
      options.is_file = options.is_file || is_file;
      if (!is_file) { options.words += choices + " "; }
    }
    for (std::string const& option : each->get_lnames()) {
      options.words += "--" + option + " ";
      if (each->get_items_expected_max() == 0) { continue; }
      std::string const pattern = fmt::format("'{} --{}'", name, option);
      if (!choices.empty()) {
        cases.push_back({{pattern}, choices});
      } else {
        (is_file ? files : values).patterns.push_back(pattern);
      }
    }
  }
  for (completion_case const& each : {files, values}) {
    if (!each.patterns.empty()) { cases.push_back(each); }
  }
  if (!options.words.empty()) { options.words.pop_back(); }
  cases.push_back(std::move(options));
  return cases;
}

constexpr std::string_view bash_script =
    R"(# Words of ballast for bash: source <(ballast completion bash)
_ballast() {{
  local word="${{COMP_WORDS[COMP_CWORD]}}" before="${{COMP_WORDS[COMP_CWORD-1]}}" words='' files=''
  if [ "$word" = '=' ]; then
    word=''
  elif [ "$before" = '=' ]; then
    before="${{COMP_WORDS[COMP_CWORD-2]}}"
  fi
  COMPREPLY=()
  if [ "$COMP_CWORD" -eq 1 ]; then
    words='{commands} help --help --version'
  else
    case "${{COMP_WORDS[1]}} $before" in
      'help help') words='{commands}' ;;
{cases}    esac
  fi
  if [ -n "$files" ] && [ "${{word#-}}" = "$word" ]; then
    local IFS=$'\n'
    compopt -o filenames 2>/dev/null
    COMPREPLY=($(compgen -f -- "$word"))
  else
    COMPREPLY=($(compgen -W "$words" -- "$word"))
  fi
}}
complete -F _ballast ballast
)";

constexpr std::string_view zsh_script = R"(#compdef ballast
# Words of ballast for zsh: source <(ballast completion zsh), after compinit
_ballast() {{
  local word="${{words[CURRENT]}}" before="${{words[CURRENT-1]}}" choice='' files=''
  if [[ "$word" == --*=* ]]; then
    before="${{word%%=*}}"
    word="${{word#*=}}"
    compset -P '*='
  fi
  if (( CURRENT == 2 )); then
    choice='{commands} help --help --version'
  else
    case "${{words[2]}} $before" in
      'help help') choice='{commands}' ;;
{cases}    esac
  fi
  if [[ -n "$files" && "$word" != -* ]]; then
    _files
  else
    compadd -- ${{=choice}}
  fi
}}
if [[ "${{funcstack[1]}}" == _ballast ]]; then _ballast "$@"; else compdef _ballast ballast; fi
)";

}  // namespace

std::string completion_script(CLI::App const& app, std::string_view shell)
{
  bool const is_zsh = shell == "zsh";
  std::vector<std::string> commands;
  std::string cases;
  for (CLI::App const* const command : app.get_subcommands([](CLI::App const*) { return true; })) {
    commands.push_back(command->get_name());
    for (completion_case const& each : cases_of(*command)) {
      cases += fmt::format("      {})", fmt::join(each.patterns, "|"));
      if (!each.words.empty()) {
        cases += fmt::format(" {}='{}'", is_zsh ? "choice" : "words", each.words);
      }
      if (each.is_file) { cases += fmt::format("{} files=1", each.words.empty() ? "" : ";"); }
      cases += " ;;\n";
    }
  }
  return fmt::format(fmt::runtime(is_zsh ? zsh_script : bash_script),
                     fmt::arg("commands", fmt::format("{}", fmt::join(commands, " "))),
                     fmt::arg("cases", cases));
}

}  // namespace cli
