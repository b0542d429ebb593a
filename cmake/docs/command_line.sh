#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# command_line.sh PROGRAM [PAGE]
#
# Writes the commands' help below the marker of docs/command_line.md, or of another page. An option
# that says the same as that of an earlier command is only named.
set -euo pipefail
program=$1
page=${2:-$(dirname "$0")/../../docs/command_line.md}
new=$(mktemp)
trap 'rm -f "$new"' EXIT
sed '/^<!-- written by/q' "$page" >"$new"
for command in $("$program" --help | sed '1,/^Subcommands:/d' | awk '/^  [a-z]/ { print $1 }'); do
  "$program" "$command" --help | sed "s/^/$command\t/"
done | awk -F '\t' '
  # Lines of at most 118 columns, further ones indented as in a list.
  function wrapped(text,   words, count, at, line, all) {
    count = split(text, words, " ")
    for (at = 1; at <= count; ++at) {
      if (line != "" && length(line) + length(words[at]) + 1 > 118) { all = all line "\n"; line = " " }
      line = line == "" ? words[at] : line " " words[at]
    }
    return all line
  }
  function end_option() {
    gsub(/ - /, " `-` ", text)
    if (name == "") { return }
    known = first[name, text]
    if (known != "" && known != command) {
      as_of[known] = as_of[known] (as_of[known] == "" ? "" : ", ") "`" option "`"
    } else {
      first[name, text] = command
      listed = listed wrapped("* `" name "`: " text) "\n"
    }
    name = ""
  }
  function end_command(   other) {
    end_option()
    if (command == "") { return }
    for (other in as_of) { listed = listed wrapped("* As of `" other "`: " as_of[other] ".") "\n" }
    printf "\n## `ballast %s`\n\n%s\n\n%s", command, wrapped(about "."), listed
    split("", as_of)
    listed = ""
  }
  $1 != command { end_command(); command = $1; about = $2; next }
  $2 ~ /^  -/ && $2 !~ /^  -h,/ {
    end_option()
    name = $2
    sub(/^ +/, "", name)
    sub(/ Excludes:( --[a-z-]+)+/, "", name)
    needs = match(name, / Needs: --[a-z-]+/) ? substr(name, RSTART + 8, RLENGTH - 8) : ""
    sub(/ Needs: --[a-z-]+/, "", name)
    required = sub(/ REQUIRED/, "", name) ? "(required) " : needs == "" ? "" : "(with `" needs "`) "
    text = required
    if (match(name, /  +/)) { text = text substr(name, RSTART + RLENGTH); name = substr(name, 1, RSTART - 1) }
    else if (match(name, /^-[^ ]+ [^ ]+ [A-Z]/) && RLENGTH < length(name)) {
      text = text substr(name, RLENGTH)
      name = substr(name, 1, RLENGTH - 2)
    }
    else if (match(name, /^-[^ ]+ [A-Z][a-z]+ /)) {
      at = index(name, " ")
      text = text substr(name, at + 1)
      name = substr(name, 1, at - 1)
    }
    option = name
    sub(/ .*/, "", option)
    next
  }
  $2 ~ /^      / { more = $2; sub(/^ +/, "", more); text = text (text == "" || text ~ / $/ ? "" : " ") more }
  END { end_command() }
' >>"$new"
cat "$new" >"$page"
