// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_DETAIL_PADDING_LEAST_PADDING_HPP
#define BALLAST_PARTITION_DETAIL_PADDING_LEAST_PADDING_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/partition/detail/padding/padded_filling.hpp>
#include <ballast/partition/priced_sample.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

namespace ballast::inline v0::detail {

/// Cuts samples into padded batches, as many as there are bags or samples, that together cost least
/// of those of which none costs more than `most`. A run cut in two costs no more than before.
///
/// Expects     samples descend in cost and can be cut so; at_most(s) is the most samples that a batch
///             which begins with sample s may have besides, and does not fall along them.
/// Ensures     (1) calls place(padded_batch) for each bag that gets samples, heaviest first
///             (2) no plan that keeps to `most` and at_most costs less: batches are runs of samples,
///                 since each is best off in the batch with the least longest that is no shorter
/// Complexity  O(m n log n), as the best beginnings of batches do not fall with where these end: of
///             two, the later one costs less for each further sample; 4 m n bytes of scratch
template <class AtMost, class Place>
void place_with_least_padding(std::span<priced_sample const> samples, std::size_t bags,
                              cost_units most, AtMost const& at_most, workspace::frame& scratch,
                              Place const& place)
{
  std::size_t const count = samples.size();
  std::size_t const batches = std::min(bags, count);
  std::span<std::uint32_t> const first_of = scratch.take<std::uint32_t>(batches * (count + 1));
  std::span<std::size_t> const last_of = scratch.take<std::size_t>(count);
  std::span<cost_units> before = scratch.take<cost_units>(count + 1);  // one batch fewer
  std::span<cost_units> least = scratch.take<cost_units>(count + 1);   // for so many first samples
  for (std::size_t first = 0; first < count; ++first) {
    auto const waiting = samples.subspan(first);
    last_of[first] = first + std::min({padded_batch::most_samples(waiting, most),
                                       at_most(waiting.front()), waiting.size()});
  }
  std::fill(before.begin(), before.end(), no_cost);
  before[0] = 0;
  // Sets where a batch begins that has its end between two places, its beginning between others.
  auto const begin = [&](auto const& again, std::size_t batch, std::size_t from, std::size_t to,
                         std::size_t low, std::size_t high) -> void {
    if (from > to) { return; }
    std::size_t const end = from + (to - from) / 2;
    std::size_t best = high;
    for (std::size_t first = low; first <= std::min(high, end - 1); ++first) {
      if (before[first] == no_cost || last_of[first] < end) { continue; }
      cost_units const in_all =
          before[first] + padded_batch{0, samples.subspan(first, end - first)}.load();
      if (in_all >= least[end]) { continue; }
      least[end] = in_all;
      best = first;
    }
    first_of[batch * (count + 1) + end] = static_cast<std::uint32_t>(best);
    again(again, batch, from, end - 1, low, best);
    if (least[end] != no_cost) { again(again, batch, end + 1, to, best, high); }  // else none
  };
  for (std::size_t batch = 0; batch < batches; ++batch) {
    std::fill(least.begin(), least.end(), no_cost);
    bool const is_last = batch + 1 == batches;
    begin(begin, batch, is_last ? count : batch + 1, count, batch, count - 1);
    std::swap(before, least);
  }
  for (std::size_t end = count, batch = batches; batch-- > 0;) {
    std::size_t const first = first_of[batch * (count + 1) + end];
    place(padded_batch{batch, samples.subspan(first, end - first)});
    end = first;
  }
}

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARTITION_DETAIL_PADDING_LEAST_PADDING_HPP
