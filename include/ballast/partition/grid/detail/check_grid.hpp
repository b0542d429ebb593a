// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_GRID_DETAIL_CHECK_GRID_HPP
#define BALLAST_PARTITION_GRID_DETAIL_CHECK_GRID_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/core/result.hpp>
#include <ballast/partition/grid/grid_options.hpp>
#include <ballast/partition/partition_constraints.hpp>
#include <ballast/core/contract.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>

namespace ballast::inline v0::detail {

/// Why a grid cannot be planned, whatever its samples are, if so.
[[nodiscard]] inline result<void> check_grid(grid_options const& given, std::size_t samples,
                                             std::size_t ranks)
{
  constexpr auto limit = std::size_t{1} << 32;
  auto const refuse = [](auto const&... pieces) {
    return fail(error_code::out_of_range, 0, pieces...);
  };
  if (samples >= limit) { return refuse("a step has more than 2^32 - 1 samples; split it"); }
  if (ranks == 0) { return refuse("a grid of 0 ranks computes nothing; give at least one"); }
  std::size_t const slots = given.microbatches.value_or(1);
  if (slots == 0) {
    return refuse("options.microbatches is 0; give at least 1, or none to find the least");
  }
  if (given.multiple_of == 0) {
    return refuse("options.multiple_of is 0, and only 0 is a multiple of it; give 1 or more");
  }
  if (given.microbatches && slots % given.multiple_of != 0) {
    return refuse("options.microbatches is ", slots, " and options.multiple_of ", given.multiple_of,
                  "; give a multiple, or no number of microbatches");
  }
  if (slots >= limit / ranks || given.multiple_of >= limit / ranks) {
    return refuse("a grid of ", counted(ranks, "rank"), " and ",
                  counted(std::max(slots, given.multiple_of), "slot"),
                  " has more than 2^32 - 1 cells; use fewer");
  }
  std::size_t const cells = ranks * std::max(slots, given.multiple_of);
  if (given.fill_cells && samples < cells) {
    return fail(error_code::infeasible, 0, "options.fill_cells asks for a sample in each of ",
                counted(cells, "cell"), ", and a step has ", counted(samples, "sample"),
                "; give fewer ranks or microbatches, or leave it out");
  }
  if (given.weight_multiple < 1) {
    return refuse("options.weight_multiple is ", given.weight_multiple, "; give 1 or more");
  }
  bool const by_rank = !given.most_weights.empty();
  if (by_rank && (given.most_weights.size() != ranks ||
                  given.most_weight != partition_constraints::no_limit)) {
    return refuse("options.most_weights has ", counted(given.most_weights.size(), "entry"), " for ",
                  counted(ranks, "rank"),
                  ", or stands beside most_weight; give one for each rank, or one for all");
  }
  std::int64_t const least =
      by_rank ? *std::min_element(given.most_weights.begin(), given.most_weights.end())
              : given.most_weight;
  if (least < 0) { return refuse("a cell cannot hold ", least, "; give the most that it holds"); }
  bool const has_number = given.counts.kind == cell_counts::rule::at_most ||
                          given.counts.kind == cell_counts::rule::multiple_of;
  if (has_number && given.counts.number == 0) {
    return refuse("options.counts asks for 0 samples in a cell; give at least 1");
  }
  if (given.counts.kind == cell_counts::rule::multiple_of && samples % given.counts.number != 0) {
    return fail(error_code::infeasible, 0, "a step has ", counted(samples, "sample"),
                ", no multiple of ", given.counts.number,
                ", as options.counts asks of every cell; leave out ",
                samples % given.counts.number);
  }
  auto const lists =
      std::to_array<std::pair<char const*, std::size_t>>({{"together", given.together.size()},
                                                          {"home", given.home.size()},
                                                          {"kinds", given.kinds.size()}});
  for (auto const& [name, size] : lists) {
    if (size != 0 && size != samples) {
      return fail(error_code::out_of_range, std::min(size, samples), "options.", name, " has ",
                  counted(size, "entry"), " for ", counted(samples, "sample"),
                  "; give one for each sample, or none");
    }
  }
  for (std::size_t sample = 0; sample < given.home.size(); ++sample) {
    if (to_index(given.home[sample]) >= ranks) {
      return fail(error_code::out_of_range, sample, "sample ", sample, " lies on rank ",
                  to_index(given.home[sample]), " of a grid of ", counted(ranks, "rank"),
                  "; correct its home");
    }
  }
  return {};
}

/// A weight, rounded up as the options say, or why it cannot be.
[[nodiscard]] inline result<std::int64_t> rounded_weight(std::size_t sample, std::int64_t weight,
                                                         std::int64_t multiple, std::int64_t total)
{
  std::int64_t const most = std::numeric_limits<std::int64_t>::max() - 1 - total;
  if (weight < 0) {
    return fail(error_code::out_of_range, sample, "sample ", sample, " has the weight ", weight,
                ", which is negative; correct it");
  }
  std::int64_t const units = weight / multiple + (weight % multiple != 0 ? 1 : 0);
  if (units > most / multiple) {
    return fail(error_code::out_of_range, sample, "sample ", sample, " of weight ", weight,
                " brings the total above 63 bits; use a coarser unit or fewer samples");
  }
  return units * multiple;
}

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARTITION_GRID_DETAIL_CHECK_GRID_HPP
