# SPDX-License-Identifier: Apache-2.0
# From the JSON of Google Benchmark, which has a line for each value, to tables in Markdown: one for
# each set of counters.

function value_of(line) {
  sub(/^[^:]*: */, "", line)
  sub(/,$/, "", line)
  gsub(/"/, "", line)
  return line
}

function number(text) { return text ~ /^[-+0-9.e]+$/ ? sprintf("%.4g", text) : text }

function print_row() {
  if (counters != previous) {
    if (previous != "none") { print "" }
    print "| row | CPU time |" counters
    print "|---|---:|" rule
    previous = counters
  }
  print "| `" name "` | " (failed != "" ? "failed: " failed : number(time) " " unit) " |" values
}

BEGIN { previous = "none" }

/^  "benchmarks": \[/ { rows = 1 }
!rows { next }

/^    \{/ { name = failed = counters = values = rule = ""; is_counter = aggregate = 0 }
/^    \}/ && !aggregate { print_row() }
/^      "name":/ { name = value_of($0) }
/^      "run_type": "aggregate"/ { aggregate = 1 }
/^      "cpu_time":/ { time = value_of($0) }
/^      "error_message":/ { failed = value_of($0) }
/^      "time_unit":/ { unit = value_of($0); is_counter = 1; next }
is_counter && /^      "/ {
  split($0, quoted, "\"")
  counters = counters " `" quoted[2] "` |"
  rule = rule "---:|"
  values = values " " number(value_of($0)) " |"
}
