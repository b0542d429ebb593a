# SPDX-License-Identifier: Apache-2.0
# From the CSV of Google Benchmark to tables in Markdown: one for each set of counters.

# Splits a line of CSV whose fields may be quoted into `field`.
function split_csv(line, field,    count, at, quoted, each, character) {
  count = 0
  quoted = 0
  each = ""
  for (at = 1; at <= length(line); ++at) {
    character = substr(line, at, 1)
    if (character == "\"") { quoted = !quoted; continue }
    if (character == "," && !quoted) { field[++count] = each; each = ""; continue }
    each = each character
  }
  field[++count] = each
  return count
}

function number(text) { return text == "" ? "" : sprintf("%.4g", text) }

!header && /^name,/ {
  columns = split_csv($0, names)
  header = 1
  next
}

header {
  split_csv($0, row)
  counters = ""
  values = ""
  for (column = 7; column <= columns; ++column) {
    if (row[column] == "" || (column > 7 && column < 11)) { continue }
    counters = counters " `" names[column] "` |"
    values = values " " number(row[column]) " |"
  }
  time = number(row[4]) " " row[5]
  if (row[9] != "") { time = "failed: " row[10] }
  if (counters != previous) {
    if (previous != "") { print "" }
    print "| row | CPU time |" counters
    rule = "|---|---:|"
    for (each = gsub(/\|/, "|", counters); each > 0; --each) { rule = rule "---:|" }
    print rule
    previous = counters
  }
  print "| `" row[1] "` | " time " |" values
}
