// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/text/excerpt.hpp>

namespace ballast::inline v0::report {

/// A timeline in the Trace Event Format, which Perfetto and chrome://tracing open.
///
/// A process groups tracks (say, a plan before and after), a track is one GPU, and an event is an
/// interval on a track: a step, and within it its samples.
///
/// Units       nanoseconds from the start of the timeline.
/// Ensures     (1) times are written exactly, as microseconds with three decimals
///             (2) on each track, any two events are apart, or one lies inside the other
///             (3) an event is written after every event around it; of two events over the same
///                 interval, the one added first counts as the outer one
///             (4) processes and tracks that have a name are shown in the order of their numbers
/// Errors      json: out_of_range for an event that breaks (2); position is its number, from 0, in
///             the order of adding.
/// Complexity  add: O(size of its text). json: O(n log n) for n events.
/// Source      "Trace Event Format", the Chromium project: complete ("X") and metadata ("M")
///             events.
class chrome_trace {
 public:
  struct track {
    std::uint32_t process = 0;
    std::uint32_t thread = 0;
    friend auto operator<=>(track const&, track const&) = default;
    friend bool operator==(track const&, track const&) = default;
  };

  struct event {
    track on;
    std::string_view name;      ///< the text on the bar
    std::string_view category;  ///< a viewer can filter events by it
    std::int64_t start_nanoseconds = 0;
    std::int64_t duration_nanoseconds = 0;
  };

  /// A number that a viewer shows for the selected event.
  struct argument {
    std::string_view name;
    std::int64_t value = 0;
  };

  void name_process(std::uint32_t process, std::string_view name)
  {
    append_metadata("process", {process, 0}, name, process);
  }

  void name_track(track on, std::string_view name)
  {
    append_metadata("thread", on, name, on.thread);
  }

  /// Expects that start and duration are not negative and that their sum fits into 64 bits.
  void add(event const& added, std::initializer_list<argument> arguments = {})
  {
    std::int64_t const start = added.start_nanoseconds;
    std::int64_t const duration = added.duration_nanoseconds;
    BALLAST_EXPECTS(start >= 0 && duration >= 0, "an event starts at ", start, " ns and lasts ",
                    duration, " ns, and the least of both is 0");
    BALLAST_EXPECTS(duration <= std::numeric_limits<std::int64_t>::max() - start,
                    "an event starts at ", start, " ns and lasts ", duration,
                    " ns, and its end does not fit 64 bits");

    std::size_t const first = events_.size();
    events_ += R"({"ph":"X","name":)";
    detail::append_json_string(events_, added.name);
    detail::append_json_string(events_ += R"(,"cat":)", added.category);
    append_track(events_, added.on);
    append_microseconds(events_ += R"(,"ts":)", start);
    append_microseconds(events_ += R"(,"dur":)", duration);
    char separator = '{';
    for (argument const& shown : arguments) {
      if (separator == '{') { events_ += R"(,"args":)"; }
      detail::append_json_string(events_ += separator, shown.name);
      detail::append_integer(events_ += ':', shown.value);
      separator = ',';
    }
    events_ += separator == '{' ? "}" : "}}";
    intervals_.push_back({added.on, start, start + duration, first, events_.size() - first});
  }

  [[nodiscard]] std::size_t size() const noexcept { return intervals_.size(); }

  [[nodiscard]] result<std::string> json() const
  {
    std::vector<std::size_t> order(intervals_.size());
    for (std::size_t place = 0; place < order.size(); ++place) { order[place] = place; }
    std::sort(order.begin(), order.end(), [this](std::size_t a, std::size_t b) {
      interval const& of_a = intervals_[a];
      interval const& of_b = intervals_[b];
      return ballast::detail::precedes(of_a.on, of_b.on, of_a.start, of_b.start, of_b.end, of_a.end,
                                       a, b);
    });

    std::string out = R"({"displayTimeUnit":"ms","traceEvents":[)";
    out.reserve(out.size() + metadata_.size() + events_.size() + 2 * order.size() + 8);
    std::string_view separator = "\n";
    if (!metadata_.empty()) {
      out += metadata_;
      separator = ",\n";
    }
    std::vector<std::size_t> around;  // open events of the current track, outermost first
    for (std::size_t const number : order) {
      interval const& next = intervals_[number];
      while (!around.empty() && (intervals_[around.back()].on != next.on ||
                                 intervals_[around.back()].end <= next.start)) {
        around.pop_back();
      }
      if (!around.empty() && next.end > intervals_[around.back()].end) {
        return fail(error_code::out_of_range, number, overlap(number, around.back()));
      }
      around.push_back(number);
      out += separator;
      out.append(events_, next.first_byte, next.bytes);
      separator = ",\n";
    }
    return out += "\n]}\n";
  }

 private:
  struct interval {
    track on;
    std::int64_t start;
    std::int64_t end;
    std::size_t first_byte;  // of its text in events_
    std::size_t bytes;
  };

  static void append_track(std::string& out, track on)
  {
    detail::append_integer(out += R"(,"pid":)", on.process);
    detail::append_integer(out += R"(,"tid":)", on.thread);
  }

  static void append_microseconds(std::string& out, std::int64_t nanoseconds)
  {
    detail::append_integer(out, nanoseconds / 1000);
    std::string thousandths;
    detail::append_integer(thousandths, 1000 + nanoseconds % 1000);
    thousandths.front() = '.';
    out += thousandths;
  }

  /// Writes the name of a process or thread (`what` says which) and its place in a viewer's order.
  void append_metadata(std::string_view what, track on, std::string_view name, std::uint32_t place)
  {
    for (bool const naming : {true, false}) {
      metadata_ += metadata_.empty() ? "\n" : ",\n";
      (metadata_ += R"({"ph":"M","name":")") += what;
      metadata_ += naming ? R"(_name")" : R"(_sort_index")";
      append_track(metadata_, on);
      metadata_ += R"(,"args":{)";
      if (naming) {
        detail::append_json_string(metadata_ += R"("name":)", name);
      } else {
        detail::append_integer(metadata_ += R"("sort_index":)", place);
      }
      metadata_ += "}}";
    }
  }

  [[nodiscard]] std::string overlap(std::size_t number, std::size_t other) const
  {
    auto const named = [this](std::size_t event_number) {
      interval const& of = intervals_[event_number];
      std::string text = "event ";
      detail::append_integer(text, static_cast<std::int64_t>(event_number));
      append_microseconds(text += " (", of.start);
      append_microseconds(text += " to ", of.end);
      return text += " us)";
    };
    std::string text = "process ";
    detail::append_integer(text, intervals_[number].on.process);
    detail::append_integer(text += ", track ", intervals_[number].on.thread);
    return text + ": " + named(number) + " begins inside " + named(other) +
           " and ends after it; end it earlier or give it a track of its own";
  }

  std::string metadata_;
  std::string events_;
  std::vector<interval> intervals_;
};

}  // namespace ballast::inline v0::report
