# SPDX-License-Identifier: Apache-2.0
# awk -v root=<repository> -f page_filter.awk <page.md>: the page as Doxygen has to read it.
#
# * Every heading gets the anchor that it has on a host of repositories, after the name of its page, and
#   links name it, so that Doxygen complains of those that lead nowhere.
# * Links to headers lead to their pages of the reference. Other files of the repository are no part of
#   the site: their links become their paths.
# * Pages of docs/notes, docs/decisions and docs/results are listed behind those for users, by what they are.
# * Formulas are shown as the TeX that they are: Doxygen would need LaTeX for pictures of them.

function page_id(path) {
  sub(/\.md$/, "", path)
  gsub(/[^A-Za-z0-9]/, "_", path)
  return path == "README" ? "index" : "page_" path
}

# "docs/" and "../examples/a.cpp" are "examples/a.cpp".
function joined(folder, path) {
  while (path ~ /^\.\.\//) {
    sub(/^\.\.\//, "", path)
    sub(/[^\/]*\/$/, "", folder)
  }
  return folder path
}

function slug(heading) {
  heading = tolower(heading)
  gsub(/[^a-z0-9 _-]/, "", heading)
  gsub(/ /, "-", heading)
  return heading
}

function as_seen(name, target,    hash, path, anchor) {
  if (target ~ /^[a-z]+:/) { return "[" name "](" target ")" }
  hash = index(target, "#")
  path = hash ? substr(target, 1, hash - 1) : target
  anchor = hash ? "__" substr(target, hash + 1) : ""
  path = path == "" ? page : joined(folder, path)
  if (path ~ /\.md$/) { return "[" name "](@ref " page_id(path) anchor ")" }
  if (path ~ /^include\/.*\.(hpp|cuh)$/) {
    sub(/^include\//, "", path)
    return "[" name "](@ref " path ")"
  }
  return name == "`" path "`" || name == path ? name : name " (`" path "`)"
}

# The line with its links and formulas, outside of `code`; `open` is whether a formula is.
function prose(line,    out, at, end) {
  out = ""
  while (match(line, /`[^`]*`|!?\[[^]]*\]\([^) ]*\)|\$/)) {
    at = substr(line, RSTART, RLENGTH)
    out = out substr(line, 1, RSTART - 1)
    line = substr(line, RSTART + RLENGTH)
    if (at == "$") {
      out = out "`"
    } else if (at ~ /^\[/) {
      end = index(at, "](")
      out = out as_seen(substr(at, 2, end - 2), substr(at, end + 2, length(at) - end - 2))
    } else {
      out = out at
    }
  }
  return out line
}

FNR == 1 {
  page = FILENAME
  sub(root "/", "", page)
  folder = page
  sub(/[^\/]*$/, "", folder)
}
/^```/ { in_code = !in_code }
in_code || /^```/ { print; next }
/^\$\$/ || in_formula {
  formula = $0
  ends = formula ~ /\$\$[.,]?$/ && !(formula == "$$" && !in_formula)
  gsub(/\$\$/, "", formula)
  if (!in_formula) { print "```" }
  if (formula != "") { print formula }
  if (ends) { print "```" }
  in_formula = !ends
  next
}
/^#+ / {
  heading = $0
  sub(/^#+ /, "", heading)
  id = slug(heading)
  times = seen[id]++
  if (!headings && match(page, /^docs\/(notes|decisions|results)\//)) {
    kind = toupper(substr(page, 6, 1)) substr(page, 7, RLENGTH - 6 - 1)
    if (index($0, "# " kind) != 1) { sub(/^# /, "# " kind ": ") }
  }
  print $0 " {#" (headings++ ? page_id(page) "__" id (times ? "-" times : "") : page == "README.md" ? "mainpage" : page_id(page)) "}"
  next
}
pending != "" { $0 = pending " " $0 }
/\[[^]]*$/ { pending = $0; next }  # the name of a link goes on in the next line
{ print prose($0); pending = "" }
