// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/runtime/data/data_setup.hpp>
#include <ballast/runtime/detail/ahead.hpp>

#include <deque>

namespace ballast::inline v0::detail {

/// Calls what a user gave; `name` says what that is.
///
/// Errors      failed: it threw.
template <class F>
[[nodiscard]] result<void> call_user(std::string_view name, F f)
{
  auto const thrown = thrown_by(f);
  if (!thrown) { return {}; }
  return fail(error_code::failed, 0, name, " threw: ", thrown_text(thrown));
}

/// Whether such a call gave as many lengths as a sample has.
///
/// Errors      out_of_range: it gave another number, or one below 0 or above longest_sample.
[[nodiscard]] inline result<void> expect_lengths(std::string_view call, std::uint64_t sample,
                                                 std::span<tokens const> lengths,
                                                 std::size_t modules)
{
  bool const valid = std::all_of(lengths.begin(), lengths.end(), [](tokens length) {
    return length >= 0 && length <= longest_sample;
  });
  if (valid && lengths.size() == modules) { return {}; }
  return fail(error_code::out_of_range, static_cast<std::size_t>(sample), "sample ", sample,
              " has ", counted(lengths.size(), "length"), valid ? "" : ", not all in range", "; ",
              call, " has to give ", modules, ", from 0 to ", longest_sample);
}

enum class sample_place : std::uint8_t {
  waiting,    // to be dealt
  dealt,      // at a loader, which has not reported
  held,       // at a loader, decoded
  delivered,  // away from its loader
  left_out,   // cannot be decoded, or one of its group cannot
  gone,       // trained
};

struct window_sample {
  std::uint32_t sample = 0;
  std::uint32_t unit = 0;
  std::uint32_t loader = 0;
  std::uint32_t first_part = 0;  // of the window's, once it is decoded
  std::uint32_t parts = 0;
  sample_place place = sample_place::waiting;
  bool reported = false;  // its lengths are known, or it is left out
};

/// A word of a window policy: of what it does with a drawn window.
///
/// Errors      failed: it threw.
[[nodiscard]] inline result<std::uint64_t> word_of_policy(data_windows const& windows)
{
  constexpr std::size_t steps = 4;
  random_source random(1);
  std::vector<cost_units> costs(4 * steps);
  std::vector<std::uint32_t> arrived(costs.size());
  for (std::size_t unit = 0; unit < costs.size(); ++unit) {
    costs[unit] = random.between(0, 1000);
    arrived[unit] = static_cast<std::uint32_t>(unit / 4);
  }
  std::vector<cost_units> loads(steps);
  std::vector<std::uint32_t> step(costs.size());
  return call_user("the policy of data_windows",
                   [&] {
                     windows.policy(window_problem{costs, arrived, steps, 2}, std::span(loads),
                                    std::span(step));
                   })
      .map([&] { return digest{}.add(std::span(std::as_const(step))).value(); });
}

/// The steps that are planned together, from the first sample that is dealt to the last step that
/// is taken. Samples lie in the order in which they arrive; a unit's lie side by side.
struct open_window {
  std::uint64_t epoch = 0;
  std::uint64_t first_position = 0;  // of its first step in the epoch
  std::uint64_t first_number = 0;    // of its first step
  std::uint64_t first_ticket = 0;    // of its first sample
  bool ends_epoch = false;
  bool planned = false;
  std::size_t steps = 0;
  std::size_t made = 0;   // steps
  std::size_t taken = 0;  // steps; those that were taken before a restore too
  std::vector<window_sample> samples;
  std::vector<tokens> lengths;
  std::vector<data_part> parts;                // of samples as they are decoded
  std::vector<std::uint32_t> unit_begins;      // samples
  std::vector<std::uint32_t> unit_steps;       // in which they arrive, then train
  jagged<std::size_t, std::uint32_t> of_step;  // samples
  std::size_t next = 0;                        // of these; all before it have been dealt
  std::size_t unreported = 0;
  std::vector<std::size_t> unreported_in;  // each step, once it is planned
  std::uint64_t word = 0;                  // of what trains when, and by which lengths

  [[nodiscard]] std::size_t units() const { return unit_begins.size() - 1; }
  [[nodiscard]] std::span<window_sample> of_unit(std::size_t unit)
  {
    return std::span(samples).subspan(unit_begins[unit], unit_begins[unit + 1] - unit_begins[unit]);
  }

  /// Asks for the lengths of all samples before they are decoded.
  ///
  /// Errors      failed: lengths_of threw; out_of_range: it gave no lengths of a sample.
  [[nodiscard]] result<void> measure(known_lengths const& lengths_of, std::size_t modules)
  {
    lengths.clear();
    for (window_sample const& each : samples) {
      std::vector<tokens> own;
      auto done = call_user("lengths()", [&] { own = lengths_of(each.sample); });
      if (done) { done = expect_lengths("lengths()", each.sample, own, modules); }
      if (!done) { return done; }
      lengths.insert(lengths.end(), own.begin(), own.end());
    }
    return {};
  }

  /// Keeps the lengths of a sample that was decoded.
  ///
  /// Errors      out_of_range: these are none; mismatch: it has had others.
  [[nodiscard]] result<void> keep_lengths(window_sample const& own, std::span<tokens const> given,
                                          std::size_t modules)
  {
    if (auto valid = expect_lengths("load()", own.sample, given, modules); !valid) { return valid; }
    auto const at =
        lengths.begin() + (&own - samples.data()) * static_cast<std::ptrdiff_t>(modules);
    if (own.reported && !std::equal(given.begin(), given.end(), at)) {
      return fail(error_code::mismatch, own.sample, "sample ", own.sample,
                  " was loaded twice, with different lengths; make load() depend on the index "
                  "alone");
    }
    std::copy(given.begin(), given.end(), at);
    return {};
  }

  /// Keeps the parts of a sample that was decoded. A sample in no parts is one, as long as all of
  /// its lengths.
  ///
  /// Errors      out_of_range: they are not all of the payload, or have impossible lengths or
  ///             modules; mismatch: it has had others.
  [[nodiscard]] result<void> keep_parts(window_sample& own, std::span<data_part const> given,
                                        std::uint64_t bytes, std::size_t modules)
  {
    auto const row =
        lengths.begin() + (&own - samples.data()) * static_cast<std::ptrdiff_t>(modules);
    auto const row_end = row + static_cast<std::ptrdiff_t>(modules);
    data_part const whole{0, std::accumulate(row, row_end, tokens{0}), bytes};
    std::uint64_t left = bytes;
    bool valid = true;
    for (auto const& [module, length, size] : given) {
      valid = valid && module < modules && length >= 0 && length <= longest_sample && size <= left;
      left -= valid ? size : 0;
    }
    if (!given.empty() && (!valid || left > 0)) {
      return fail(error_code::out_of_range, own.sample, "sample ", own.sample, " has ",
                  counted(given.size(), "part"), " of a payload of ", bytes,
                  " bytes; load() has to give parts of modules below ", modules,
                  ", of lengths from 0 to ", longest_sample,
                  ", whose bytes are those of the payload");
    }
    if (given.empty()) { given = {&whole, 1}; }
    if (own.parts == 0) {
      own.first_part = static_cast<std::uint32_t>(parts.size());
      own.parts = static_cast<std::uint32_t>(given.size());
      for (data_part const& each : given) { parts.push_back(each); }
      return {};
    }
    auto const kept = parts_of(own);
    if (std::equal(given.begin(), given.end(), kept.begin(), kept.end())) { return {}; }
    return fail(error_code::mismatch, own.sample, "sample ", own.sample,
                " was loaded twice, in different parts; make load() depend on the index alone");
  }

  [[nodiscard]] std::span<data_part const> parts_of(window_sample const& own) const
  {
    return std::span(parts).subspan(own.first_part, own.parts);
  }

  void sort_by_step()
  {
    of_step.fill(steps, [this](auto const& visit) {
      for (std::uint32_t at = 0; at < samples.size(); ++at) {
        visit(std::size_t{unit_steps[samples[at].unit]}, at);
      }
    });
    next = 0;
    unreported_in.assign(steps, 0);
    for (window_sample const& each : samples) {
      if (!each.reported) { ++unreported_in[unit_steps[each.unit]]; }
    }
  }

  /// Writes the next step, and returns how many of its samples are left out.
  std::size_t make(data_step& step, std::vector<std::uint64_t>& tickets, std::size_t modules)
  {
    step.number = first_number + made;
    step.epoch = epoch;
    step.position = first_position + made;
    step.ends_epoch = ends_epoch && made + 1 == steps;
    step.modules = modules;
    step.samples.clear();
    step.lengths.clear();
    step.parts.clear();
    step.part_begins.assign(1, 0);
    step.shares.clear();
    tickets.clear();
    std::span<std::uint32_t const> const all = of_step[made++];
    step.parts.reserve(all.size());
    step.part_begins.reserve(all.size() + 1);
    for (std::uint32_t const at : all) {
      if (samples[at].place == sample_place::left_out) { continue; }
      auto const own = std::span<tokens const>(lengths).subspan(at * modules, modules);
      step.samples.push_back(samples[at].sample);
      step.lengths.insert(step.lengths.end(), own.begin(), own.end());
      for (data_part const& part : parts_of(samples[at])) { step.parts.push_back(part); }
      step.part_begins.push_back(step.parts.size());
      tickets.push_back(first_ticket + at);
    }
    return all.size() - tickets.size();
  }

  /// Asks the policy in which steps units train, those of each size by themselves.
  ///
  /// Errors      out_of_range: a cost is below 0, or the costs together are above 2^62; infeasible:
  ///             the policy broke its promise; failed: the cost or the policy threw.
  [[nodiscard]] result<void> plan(data_windows const& windows, std::size_t modules)
  {
    std::vector<cost_units> costs(units());
    cost_units total = 0;
    for (std::size_t at = 0; at < samples.size(); ++at) {
      if (samples[at].place == sample_place::left_out) { continue; }
      cost_units cost = 0;
      auto called = call_user("the cost of data_windows", [&] {
        cost = windows.cost(std::span<tokens const>(lengths).subspan(at * modules, modules));
      });
      if (!called) { return called; }
      constexpr cost_units most = cost_units{1} << 62;
      if (cost < 0 || cost > most - total) {
        return fail(error_code::out_of_range, samples[at].sample, "sample ", samples[at].sample,
                    " has the cost ", cost,
                    " in its window, whose costs have to be at least 0 and "
                    "together at most 2^62; give data_windows a smaller cost");
      }
      total += cost;
      costs[samples[at].unit] += cost;
    }
    std::vector<std::uint32_t> sizes(units());
    std::adjacent_difference(unit_begins.begin() + 1, unit_begins.end(), sizes.begin());
    std::vector<std::uint32_t> classes = sizes;
    std::sort(classes.begin(), classes.end());
    classes.erase(std::unique(classes.begin(), classes.end()), classes.end());
    std::vector<cost_units> loads(steps);
    for (std::uint32_t const size : classes) {
      auto done = plan_units(windows, sizes, size, costs, loads);
      if (!done) { return done; }
    }
    digest said;
    for (std::size_t at = 0; at < samples.size(); ++at) {
      bool const left_out = samples[at].place == sample_place::left_out;
      said.add(samples[at].sample).add(left_out ? 1U : 0U).add(unit_steps[samples[at].unit]);
      for (std::size_t module = 0; module < modules && !left_out; ++module) {
        said.add(static_cast<std::uint64_t>(lengths[at * modules + module]));
      }
    }
    word = said.value();
    sort_by_step();
    return {};
  }

 private:
  [[nodiscard]] result<void> plan_units(data_windows const& windows,
                                        std::span<std::uint32_t const> sizes, std::uint32_t size,
                                        std::span<cost_units const> costs,
                                        std::span<cost_units> loads)
  {
    std::vector<std::uint32_t> chosen;
    std::vector<cost_units> chosen_costs;
    std::vector<std::uint32_t> arrived;
    for (std::size_t unit = 0; unit < sizes.size(); ++unit) {
      if (sizes[unit] != size) { continue; }
      chosen.push_back(static_cast<std::uint32_t>(unit));
      chosen_costs.push_back(costs[unit]);
      arrived.push_back(unit_steps[unit]);
    }
    std::vector<std::uint32_t> step(chosen.size(), static_cast<std::uint32_t>(steps));
    auto called = call_user("the policy of data_windows", [&] {
      windows.policy(window_problem{chosen_costs, arrived, steps, windows.held_back}, loads,
                     std::span(step));
    });
    if (!called) { return called; }
    std::vector<std::size_t> counts(steps);
    for (std::uint32_t const each : arrived) { ++counts[each]; }
    for (std::size_t unit = 0; unit < step.size(); ++unit) {
      bool const kept = step[unit] < steps && step[unit] <= arrived[unit] + windows.held_back &&
                        counts[step[unit]]-- > 0;
      if (!kept) {
        return fail(error_code::infeasible, unit,
                    "the window policy put a unit that arrived in step ", arrived[unit], " of ",
                    steps, " into step ", step[unit],
                    "; every step must train as many as arrive in it, none more than ",
                    counted(windows.held_back, "step"), " late");
      }
      unit_steps[chosen[unit]] = step[unit];
    }
    return {};
  }
};

/// The windows that are open, the oldest first, and where their samples are.
struct open_windows {
  std::deque<open_window> all;
  std::size_t fetched = 0;                                       // dealt, and not taken
  std::vector<std::pair<std::uint64_t, std::uint32_t>> dropped;  // ticket and loader

  /// Deals a waiting sample of a window, if there is one, the one that is needed first.
  [[nodiscard]] bool deal(open_window& window, std::uint32_t loader, data_deal& dealt)
  {
    auto const needed = window.of_step.values();
    for (; window.next < needed.size(); ++window.next) {
      std::uint32_t const at = needed[window.next];
      window_sample& each = window.samples[at];
      if (each.place != sample_place::waiting) { continue; }
      each.place = sample_place::dealt;
      each.loader = loader;
      ++fetched;
      dealt = {window.first_ticket + at, each.sample};
      return true;
    }
    return false;
  }

  /// The window of a sample; null if it is not open any more.
  [[nodiscard]] open_window* find(std::uint64_t ticket)
  {
    for (open_window& window : all) {
      if (ticket >= window.first_ticket && ticket - window.first_ticket < window.samples.size()) {
        return &window;
      }
    }
    return nullptr;
  }

  /// Has all that a loader has wait again, and returns how many samples these are.
  [[nodiscard]] std::size_t lose(std::uint32_t loader)
  {
    std::size_t lost = 0;
    for (open_window& window : all) {
      for (window_sample& each : window.samples) {
        bool const has = each.place == sample_place::dealt || each.place == sample_place::held;
        if (!has || each.loader != loader) { continue; }
        each.place = sample_place::waiting;
        window.next = 0;
        ++lost;
      }
    }
    fetched -= lost;
    return lost;
  }

  /// Takes a sample away from where it is, since it is left out or gone.
  void put(open_window const& window, window_sample& each, sample_place place)
  {
    if (each.place == sample_place::held || each.place == sample_place::delivered) {
      auto const at = static_cast<std::uint64_t>(&each - window.samples.data());
      dropped.emplace_back(window.first_ticket + at, each.loader);
    }
    fetched -= is_fetched(each) ? 1U : 0U;
    each.place = place;
  }

  [[nodiscard]] static bool is_fetched(window_sample const& each)
  {
    return each.place == sample_place::dealt || each.place == sample_place::held ||
           each.place == sample_place::delivered;
  }

  /// A payload is where it is computed, perhaps after its loader was lost.
  void deliver(window_sample& each)
  {
    if (each.place == sample_place::left_out || each.place == sample_place::gone) { return; }
    fetched += each.place == sample_place::waiting ? 1U : 0U;
    each.place = sample_place::delivered;
  }

  /// Those of the oldest step that was made are trained.
  void take()
  {
    open_window& window = all.front();
    for (std::uint32_t const at : window.of_step[window.taken]) {
      fetched -= is_fetched(window.samples[at]) ? 1U : 0U;
      window.samples[at].place = sample_place::gone;
    }
    if (++window.taken == window.steps) { all.pop_front(); }
  }
};

}  // namespace ballast::inline v0::detail
