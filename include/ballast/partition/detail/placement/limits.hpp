// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/partition/placement_limits.hpp>
#include <ballast/topology/bag_layout.hpp>

namespace ballast::inline v0::detail {

/// The caps of a call: most_per_gpu, which counts lengths, and those beside it.
class all_caps {
 public:
  explicit all_caps(placement_limits const& limits)
  {
    if (limits.most_per_gpu != no_limit) { caps_[size_++] = {.most_per_gpu = limits.most_per_gpu}; }
    for (std::size_t at = 0; at < limits.also.size(); ++at) { caps_[size_++] = limits.also[at]; }
  }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] cap const& operator[](std::size_t at) const noexcept { return caps_[at]; }

 private:
  std::array<cap, caps::most + 1> caps_;
  std::size_t size_ = 0;
};

/// What a bag can hold of something that is limited per GPU, per bag, or both.
[[nodiscard]] inline std::int64_t room_of_bag(bag_layout const& bags, std::size_t bag,
                                              cap const& of)
{
  std::int64_t const gpus = bags.sizes()[bag];
  std::int64_t const room = of.most_per_gpu > no_limit / gpus ? no_limit : of.most_per_gpu * gpus;
  return of.most.empty() ? room : std::min(room, of.most[bag]);
}

/// The same of every bag; the frame keeps it.
[[nodiscard]] inline std::span<std::int64_t const> rooms_of_bags(bag_layout const& bags,
                                                                 cap const& of,
                                                                 workspace::frame& scratch)
{
  std::span<std::int64_t> const rooms = scratch.take<std::int64_t>(bags.size());
  for (std::size_t bag = 0; bag < rooms.size(); ++bag) { rooms[bag] = room_of_bag(bags, bag, of); }
  return rooms;
}

#ifndef BALLAST_COMPILED

/// Refuses numbers of bags that are negative, or of other bags.
[[nodiscard]] inline result<void> check_bag_numbers(char const* name,
                                                    std::span<std::int64_t const> numbers,
                                                    std::size_t bags, std::int64_t most,
                                                    std::size_t quantities = 1)
{
  if (!numbers.empty() && numbers.size() != bags * quantities) {
    return fail(error_code::out_of_range, std::min(numbers.size(), bags * quantities), "limits.",
                name, " has ", counted(numbers.size(), "entry"), " for ", counted(bags, "bag"),
                "; give ", quantities == 1 ? std::string("one") : concat(quantities),
                " for each bag, or none");
  }
  for (std::size_t at = 0; at < numbers.size(); ++at) {
    if (numbers[at] < 0 || numbers[at] > most) {
      return fail(error_code::out_of_range, at, "limits.", name, " has ", numbers[at], " for bag ",
                  at / quantities,
                  ", which is negative or brings the sum above 62 bits; correct it");
    }
    if (most != std::numeric_limits<std::int64_t>::max()) { most -= numbers[at]; }
  }
  return {};
}

BALLAST_ONCE result<void> check_limits(placement_limits const& limits, std::size_t samples,
                                       std::size_t bags, std::size_t gpus, std::size_t quantities)
{
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  auto const refuse = [](auto const&... pieces) {
    return fail(error_code::out_of_range, 0, pieces...);
  };
  if (limits.also.size() > caps::most) {
    return refuse("limits.also has ", limits.also.size(), " caps; give at most ", caps::most);
  }
  // One number for each sample, not negative, with a sum of 63 bits.
  auto const check_numbers = [samples](std::size_t cap_at, std::span<std::int64_t const> numbers,
                                       std::int64_t rounding) -> result<void> {
    bool const is_cap = cap_at < caps::most;
    auto const name = [&] {
      return is_cap ? concat("limits.also[", cap_at, "].of") : "limits.then = least(...)";
    };
    if ((!is_cap || !numbers.empty()) && numbers.size() != samples) {
      return fail(error_code::out_of_range, std::min(numbers.size(), samples), name(), " has ",
                  counted(numbers.size(), "entry"), " for ", counted(samples, "sample"),
                  "; give one for each sample", is_cap ? ", or none" : "");
    }
    std::int64_t left = most - 1;
    for (std::size_t sample = 0; sample < numbers.size(); ++sample) {
      if (numbers[sample] < 0 || rounding > left || numbers[sample] > left - rounding) {
        return fail(error_code::out_of_range, sample, name(), " of sample ", sample, " is ",
                    numbers[sample],
                    ", which is negative or brings the sum above 63 bits; correct it");
      }
      left -= numbers[sample] + rounding;
    }
    return {};
  };
  for (std::size_t at = 0; at < limits.also.size(); ++at) {
    cap const& each = limits.also[at];
    if (each.most_per_gpu == no_limit && each.most.empty()) {
      return refuse("limits.also[", at, "] has neither most_per_gpu nor most; give one");
    }
    if (each.rounded_to < 1) {
      return refuse("limits.also[", at, "].rounded_to is ", each.rounded_to, "; give 1 or more");
    }
    if (each.most_per_gpu < 0) {
      return refuse("a GPU cannot hold ", each.most_per_gpu,
                    "; give the most that it holds in limits.also[", at, "]");
    }
    if (auto checked = check_numbers(at, each.of, each.rounded_to - 1); !checked) {
      return checked;
    }
    if (auto checked = check_bag_numbers("also.most", each.most, bags, most); !checked) {
      return checked;
    }
  }
  auto const check_count = [samples](char const* name, std::size_t count) -> result<void> {
    if (count == 0 || count == samples) { return {}; }
    return fail(error_code::out_of_range, std::min(count, samples), "limits.", name, " has ",
                counted(count, "entry"), " for ", counted(samples, "sample"),
                "; give one for each sample, or none");
  };
  for (auto const& [name, count] :
       {std::pair("apart", limits.apart.size()), std::pair("together", limits.together.size()),
        std::pair("home", limits.home.size())}) {
    if (auto checked = check_count(name, count); !checked) { return checked; }
  }
  if (limits.samples.number < 1) {
    return refuse("limits.samples asks for ", limits.samples.number, " samples; give 1 or more");
  }
  if (limits.samples.kind != counts::rule::at_most &&
      limits.samples.number > std::numeric_limits<std::int32_t>::max()) {
    return refuse("limits.samples asks for counts in multiples of ", limits.samples.number,
                  "; give less than 2^31");
  }
  if (limits.then.what() == second_objective::kind::least) {
    if (auto checked = check_numbers(caps::most, limits.then.of(), 0); !checked) { return checked; }
  }
  if (limits.then.what() == second_objective::kind::fewest_moves && limits.home.empty() &&
      samples > 0) {
    return refuse("limits.then = fewest_moves needs limits.home, the rank that holds each sample");
  }
  if (samples >= (std::uint64_t{1} << 32)) {
    return refuse("a step has more than 2^32 - 1 samples; split it");
  }
  if (bags == 0) {
    return fail(error_code::infeasible, 0, "there are no bags to place samples in; lay out some");
  }
  if (auto checked =
          check_bag_numbers("starting_loads", limits.starting_loads, bags, most / 2, quantities);
      !checked) {
    return checked;
  }
  for (std::size_t sample = 0; sample < limits.home.size(); ++sample) {
    if (to_index(limits.home[sample]) >= gpus) {
      return fail(error_code::out_of_range, sample, "sample ", sample, " lies on rank ",
                  to_index(limits.home[sample]), " of a job of ", counted(gpus, "GPU"),
                  "; correct its home");
    }
  }
  if (limits.most_per_gpu < 0) {
    return refuse("a GPU cannot hold ", limits.most_per_gpu,
                  "; give the most that it holds, or no limit");
  }
  return {};
}

BALLAST_ONCE bool counts_lengths(placement_limits const& limits)
{
  all_caps const caps(limits);
  for (std::size_t at = 0; at < caps.size(); ++at) {
    if (caps[at].of.empty()) { return true; }
  }
  return false;
}

#endif

/// What limits ask for.
struct called_limits {
  bool is_any = false;      ///< something beside together, home and starting loads
  bool is_one_cap = false;  ///< and no more than one hard cap

  explicit called_limits(placement_limits const& limits)
  {
    all_caps const caps(limits);
    bool const has_rules = !limits.apart.empty() || !limits.fits.empty() || !limits.mixes.empty() ||
                           limits.samples.kind != counts::rule::any ||
                           limits.then.what() != second_objective::kind::none;
    is_any = has_rules || caps.size() > 0;
    is_one_cap = !has_rules && caps.size() == 1 && !caps[0].is_soft && caps[0].rounded_to == 1;
  }
};

}  // namespace ballast::inline v0::detail
