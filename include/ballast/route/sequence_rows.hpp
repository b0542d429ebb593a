// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_ROUTE_SEQUENCE_ROWS_HPP
#define BALLAST_ROUTE_SEQUENCE_ROWS_HPP

#include <ballast/core/contract.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/route/place.hpp>
#include <ballast/route/route_plan.hpp>
#include <ballast/topology/bag_layout.hpp>

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

namespace ballast::inline v0 {

/// How rows of sequences travel beside rows of tokens: one row for each sequence, such as the
/// timestep and the pooled text by which a diffusion transformer modulates all its tokens. Every GPU
/// of a bag has tokens of each of its sequences, so every one gets the row.
///
///     auto const beside = plan_sequence_rows(source, owner, bags, comm.rank());
///     repeat_rows(beside.copies, rows, repeated);                     // forward
///     route(comm, beside.route, memory, rows_of(repeated, there, width));
///     reverse_route(comm, beside.route, memory, rows_of(dthere, drepeated, width));  // backward
///     sum_rows(beside.copies, drepeated, drows);
///
/// The route is one like any other, so a device_route takes it too.
struct sequence_rows {
  std::vector<tokens> copies;  ///< of each sequence that the rank read, in order: its bag's GPUs
  route_plan route;  ///< from all copies, to a row for each sequence of the rank's bag, in order
};

/// Plans the rows of sequences for one rank.
///
/// Shapes      source[sequences]: who read each; owner[sequences]: which bag computes it.
/// Ensures     (1) `there` has as many rows as the rank's bag has sequences, by ascending number
///             (2) all ranks that plan from the same arguments plan one exchange
/// Complexity  O(sequences x GPUs of a bag + ranks).
[[nodiscard]] inline sequence_rows plan_sequence_rows(std::span<rank_id const> source,
                                                      std::span<bag_id const> owner,
                                                      bag_layout const& bags, rank_id rank)
{
  BALLAST_EXPECTS(source.size() == owner.size(), "there are sources of ",
                  detail::counted(source.size(), "sequence"), " and bags of ", owner.size());
  // A sequence with a token for each GPU of its bag is split into one token for each.
  std::vector<tokens> lengths;
  sequence_rows made;
  for (std::size_t sequence = 0; sequence < source.size(); ++sequence) {
    lengths.push_back(bags[owner[sequence]].gpus);
    if (source[sequence] == rank) { made.copies.push_back(lengths.back()); }
  }
  plan_route_into(made.route, place(lengths, source, bags.gpus()), place(lengths, owner, bags),
                  rank);
  return made;
}

/// Writes each row as often as it has copies.
///
/// Shapes      rows[sequences][width], repeated[sum of copies][width]; the width follows.
template <class T>
void repeat_rows(std::span<tokens const> copies, std::span<T const> rows, std::span<T> repeated)
{
  std::size_t const width = copies.empty() ? 0 : rows.size() / copies.size();
  auto to = repeated.begin();
  for (std::size_t sequence = 0; sequence < copies.size(); ++sequence) {
    auto const row = rows.subspan(sequence * width, width);
    for (tokens copy = 0; copy < copies[sequence]; ++copy) { to = std::ranges::copy(row, to).out; }
  }
  BALLAST_EXPECTS(to == repeated.end(), "the copies take ", to - repeated.begin(),
                  " elements, and there is room for ", repeated.size());
}

/// Sums the copies of each row, in the order of the bag's GPUs: the gradient of repeat_rows.
///
/// Shapes      repeated[sum of copies][width], rows[sequences][width]; the width follows.
/// Ensures     the same bits in every run
template <class T>
void sum_rows(std::span<tokens const> copies, std::span<T const> repeated, std::span<T> rows)
{
  std::size_t const width = copies.empty() ? 0 : rows.size() / copies.size();
  std::size_t at = 0;
  for (std::size_t sequence = 0; sequence < copies.size(); ++sequence) {
    auto const row = rows.subspan(sequence * width, width);
    std::ranges::fill(row, T{});
    for (tokens copy = 0; copy < copies[sequence]; ++copy) {
      for (T& element : row) {
        T const next = repeated[at++];
        element = copy == 0 ? next : element + next;
      }
    }
  }
}

}  // namespace ballast::inline v0

#endif  // BALLAST_ROUTE_SEQUENCE_ROWS_HPP
