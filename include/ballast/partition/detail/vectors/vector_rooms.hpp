// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_DETAIL_VECTORS_VECTOR_ROOMS_HPP
#define BALLAST_PARTITION_DETAIL_VECTORS_VECTOR_ROOMS_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/partition/cost_vector.hpp>
#include <ballast/partition/detail/vectors/vector_bin_contents.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace ballast::inline v0::detail {

/// Quantities in which the loads of bins are limited while others become smaller.
template <std::size_t D>
struct settled_loads {
  std::span<cost_vector<D> const> costs = {};  ///< of each sample; 0 in quantities without limits
  std::span<cost_vector<D>> room = {};         ///< of each bin; a search keeps it up to date
};

/// Which samples bins may hold: those that fit, up to their capacities, and up to their room in
/// settled quantities. Places may be free ones, whose sample is no_sample.
template <std::size_t D>
class vector_rooms {
 public:
  using place = bin_place<D>;

  vector_rooms(cost_vector_problem<D> const& problem, std::span<bag_id const> owner,
               settled_loads<D> const& settled, workspace::frame& scratch)
      : problem_(problem),
        settled_(settled),
        room_(scratch.take<std::int64_t>(problem.capacities.size()))
  {
    std::copy(problem.capacities.begin(), problem.capacities.end(), room_.begin());
    for (std::size_t sample = 0; sample < problem.weights.size(); ++sample) {
      room_[to_index(owner[sample])] -= problem.weights[sample];
    }
  }

  /// Whether every bin is open to every sample.
  [[nodiscard]] bool admit_all() const { return open_; }

  /// Whether what leaves one bin for the other fits there and has room.
  template <std::size_t N>
  [[nodiscard]] bool admit(std::uint32_t heavy, std::array<place, N> const& given,
                           std::uint32_t light, std::array<place, N> const& taken) const
  {
    if (open_) { return true; }
    std::int64_t moved = 0;
    cost_vector<D> settled{};
    auto const move = [&](place const& each, std::uint32_t to, std::int64_t sign) {
      if (each.sample == place::no_sample) { return true; }
      if (!room_.empty()) { moved += sign * problem_.weights[each.sample]; }
      if (!settled_.room.empty()) { add(settled, settled_.costs[each.sample], sign); }
      return problem_.fits(each.sample, to);
    };
    for (place const& each : given) {
      if (!move(each, light, 1)) { return false; }
    }
    for (place const& each : taken) {
      if (!move(each, heavy, -1)) { return false; }
    }
    auto const has_room = [](std::int64_t more, std::int64_t in_light, std::int64_t in_heavy) {
      return more > 0 ? more <= in_light : -more <= in_heavy;
    };
    if (!room_.empty() && !has_room(moved, room_[light], room_[heavy])) { return false; }
    for (std::size_t d = 0; d < D && !settled_.room.empty(); ++d) {
      if (!has_room(settled[d], settled_.room[light][d], settled_.room[heavy][d])) { return false; }
    }
    return true;
  }

  void move(std::uint32_t sample, std::uint32_t from, std::uint32_t to)
  {
    if (!room_.empty()) {
      room_[from] += problem_.weights[sample];
      room_[to] -= problem_.weights[sample];
    }
    if (!settled_.room.empty()) {
      add(settled_.room[from], settled_.costs[sample], 1);
      add(settled_.room[to], settled_.costs[sample], -1);
    }
  }

 private:
  static void add(cost_vector<D>& to, cost_vector<D> const& what, std::int64_t sign)
  {
    for (std::size_t d = 0; d < D; ++d) { to[d] += sign * what[d]; }
  }

  cost_vector_problem<D> problem_;
  settled_loads<D> settled_;
  bool open_ = problem_.any_bag_is_open() && settled_.room.empty();
  std::span<std::int64_t> room_;  // by bin, or empty where bins hold everything
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARTITION_DETAIL_VECTORS_VECTOR_ROOMS_HPP
