# SPDX-License-Identifier: Apache-2.0
# From the JSON of Google Benchmark, which has a line for each value, to tables in Markdown: one for
# each set of counters.

function value_of(line) {
  sub(/^[^:]*: */, "", line)
  sub(/,$/, "", line)
  gsub(/"/, "", line)
  return line
}

function number(text) {
  if (text !~ /^[-+0-9.e]+$/) { return text }
  text += 0
  return text == int(text) && text < 1e9 ? int(text) : sprintf("%.4g", text)
}

function readable(nanoseconds) {
  if (nanoseconds < 1e3) { return sprintf("%.3g ns", nanoseconds) }
  if (nanoseconds < 1e6) { return sprintf("%.3g us", nanoseconds / 1e3) }
  if (nanoseconds < 1e9) { return sprintf("%.3g ms", nanoseconds / 1e6) }
  return sprintf("%.3g s", nanoseconds / 1e9)
}

function keep_row() {
  if (!(counters in table)) {
    order[++tables] = counters
    rules[counters] = rule
  }
  table[counters] = table[counters] "| `" name "` | " \
      (failed != "" ? "failed: " failed : readable(time * in_ns[unit])) " |" values "\n"
}

BEGIN { in_ns["ns"] = 1; in_ns["us"] = 1e3; in_ns["ms"] = 1e6; in_ns["s"] = 1e9 }

/^  "benchmarks": \[/ { rows = 1 }
!rows { next }

/^    \{/ { name = failed = counters = values = rule = ""; is_counter = aggregate = 0 }
/^    \}/ && !aggregate { keep_row() }
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

END {
  for (each = 1; each <= tables; ++each) {
    if (each > 1) { print "" }
    print "| row | CPU time |" order[each]
    print "|---|---:|" rules[order[each]]
    printf "%s", table[order[each]]
  }
}
