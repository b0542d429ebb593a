// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARALLELISM_DETAIL_CHAINS_CHAIN_SEARCH_HPP
#define BALLAST_PARALLELISM_DETAIL_CHAINS_CHAIN_SEARCH_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/parallelism/detail/chains/chain_cutter.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

namespace ballast::inline v0::detail {

/// Searches where to cut a chain. As many consecutive stages as there are ranks lie on different
/// ones, so what the other stages of these ranks hold is fixed, and the cuts between them are found
/// exactly. Windows of so many stages are cut again and again, until none helps; with one chunk a
/// rank the only window is the whole chain. With several, all cuts are then tried, as far as the work
/// goes.
///
/// Expects     arguments that check_chain accepts.
class chain_search {
 public:
  chain_search(chain_cutter cutter, std::size_t ranks, std::size_t chunks,
               std::span<std::int64_t const> capacities, std::span<std::int64_t const> held)
      : cutter_(std::move(cutter)),
        ranks_(ranks),
        capacities_(capacities),
        held_(held),
        first_(ranks * chunks + 1, 0),
        loads_(ranks, 0),
        bytes_(ranks, 0),
        limits_(ranks * chunks)
  {
    first_.back() = cutter_.layers();
    for (std::size_t stage = 0; stage < stages(); ++stage) { limits_[stage] = {0, most, 0}; }
    auto const of_stages = [this](std::int64_t load) {
      for (stage_limit& limit : limits_) { limit.cost = load; }
    };
    static_cast<void>(cut_least(mutable_span_of(first_), 0, cutter_.cost(0, cutter_.layers()),
                                of_stages, span_of(limits_)));
    count();
  }

  [[nodiscard]] std::span<std::size_t const> first() const { return span_of(first_); }
  [[nodiscard]] std::span<std::int64_t const> loads() const { return span_of(loads_); }

  /// Brings the ranks within their capacities. Returns by how much one is above at the end.
  std::int64_t fit_memory()
  {
    if (capacities_.empty() || overrun() == 0) { return 0; }
    return sweep(
        0, [this] { return overrun(); },
        [](stage_limit& limit, std::int64_t above, std::int64_t, std::int64_t room) {
          limit = {most, room + above, limit.held};
        });
  }

  /// Tries all cuts within the capacities whose largest load is below `value`, and keeps the best,
  /// which becomes the value. Returns whether it came to the end.
  [[nodiscard]] bool try_all(std::int64_t& value, std::int64_t bound)
  {
    work_budget left(most_tried);
    std::vector<std::size_t> tried(first_.size(), 0);
    std::fill(loads_.begin(), loads_.end(), 0);
    std::fill(bytes_.begin(), bytes_.end(), 0);
    try_stages(tried, 0, value, bound, left);
    count();
    return !left.spent();
  }

  /// Tries all cuts that lack fewer bytes on each rank than `above`, which becomes the least that is
  /// found. Returns whether it came to the end.
  ///
  /// Expects     no cut keeps to the capacities.
  [[nodiscard]] bool lack_least(std::int64_t& above)
  {
    allowed_ = above - 1;
    for_memory_ = true;
    std::int64_t value = cutter_.cost(0, cutter_.layers()) + 1;
    bool const is_all = try_all(value, 0);
    above = allowed_ + 1;
    return is_all;
  }

  /// Makes the largest load less, within the capacities, and returns it.
  std::int64_t least_load(std::int64_t bound)
  {
    return sweep(
        bound, [this] { return *std::max_element(loads_.begin(), loads_.end()); },
        [](stage_limit& limit, std::int64_t load, std::int64_t others, std::int64_t room) {
          limit = {load - others, room, limit.held};
        });
  }

 private:
  static constexpr std::uint64_t most_tried = std::uint64_t{1} << 20;  // stages times ranks
  static constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max() / 2;

  [[nodiscard]] std::size_t stages() const noexcept { return first_.size() - 1; }
  [[nodiscard]] std::int64_t held(std::size_t stage) const
  {
    return held_.empty() ? 1 : held_[stage];
  }

  void try_stages(std::vector<std::size_t>& tried, std::size_t stage, std::int64_t& value,
                  std::int64_t bound, work_budget& left)
  {
    std::size_t const begin = tried[stage];
    if (stage == stages()) {
      first_ = tried;
      if (for_memory_) {
        allowed_ = overrun() - 1;
      } else {
        value = *std::max_element(loads_.begin(), loads_.end());
      }
      return;
    }
    // What the ranks can still get must suffice for the layers that are left.
    uint128 room = 0;
    for (std::int64_t const load : loads_) { room += static_cast<std::uint64_t>(value - 1 - load); }
    auto const rest = static_cast<std::uint64_t>(cutter_.cost(begin, cutter_.layers()));
    if (room < rest) { return; }
    std::size_t const rank = stage % ranks_;
    std::int64_t const load = loads_[rank];
    std::int64_t const bytes = bytes_[rank];
    bool const is_last = stage + 1 == stages();
    std::size_t const last = cutter_.layers() - (stages() - stage - 1);
    for (std::size_t end = is_last ? last : begin + 1; end <= last; ++end) {
      left.spend(ranks_);
      loads_[rank] = load + cutter_.cost(begin, end);
      bytes_[rank] = bytes + cutter_.bytes(begin, end, held(stage));
      bool const fits =
          capacities_.empty() || bytes_[rank] - std::min(capacities_[rank], most) <= allowed_;
      if (left.spent() || value <= bound || loads_[rank] >= value || !fits) { break; }
      tried[stage + 1] = end;
      try_stages(tried, stage + 1, value, bound, left);
    }
    loads_[rank] = load;
    bytes_[rank] = bytes;
  }

  void count()
  {
    std::fill(loads_.begin(), loads_.end(), 0);
    std::fill(bytes_.begin(), bytes_.end(), 0);
    for (std::size_t stage = 0; stage < stages(); ++stage) {
      loads_[stage % ranks_] += cutter_.cost(first_[stage], first_[stage + 1]);
      bytes_[stage % ranks_] += cutter_.bytes(first_[stage], first_[stage + 1], held(stage));
    }
  }

  [[nodiscard]] std::int64_t overrun() const
  {
    std::int64_t above = 0;
    for (std::size_t rank = 0; rank < ranks_; ++rank) {
      above = std::max(above, bytes_[rank] - std::min(capacities_[rank], most));
    }
    return above;
  }

  /// The least value from `low` to `high` for whose limits the piece can be cut, and cuts it so; or
  /// `high`, where none is found.
  template <class SetLimits>
  std::int64_t cut_least(std::span<std::size_t> first, std::int64_t low, std::int64_t high,
                         SetLimits const& set_limits, std::span<stage_limit const> limits)
  {
    while (low < high) {
      std::int64_t const value = low + (high - low) / 2;
      set_limits(value);
      if (cutter_.cut(first, limits)) {
        high = value;
      } else {
        low = value + 1;
      }
    }
    set_limits(high);  // also where nothing is gained: another cut as good may lead further
    static_cast<void>(cutter_.cut(first, limits));
    return high;
  }

  /// Cuts window after window, until a sweep over all gains nothing or the value is the bound.
  template <class Value, class SetLimit>
  std::int64_t sweep(std::int64_t bound, Value const& value_of, SetLimit const& set_limit)
  {
    std::int64_t value = value_of();
    bool gained = false;
    do {
      gained = false;
      for (std::size_t from = 0; from + ranks_ <= stages(); ++from) {
        std::int64_t const before = value;
        cut_window(from, bound, before, set_limit);
        value = value_of();
        gained = gained || value < before;
      }
    } while (gained && value > bound);
    return value;
  }

  template <class SetLimit>
  void cut_window(std::size_t from, std::int64_t low, std::int64_t high, SetLimit const& set_limit)
  {
    std::span<stage_limit> const limits = mutable_span_of(limits_, from, ranks_);
    for (std::size_t at = 0; at < ranks_; ++at) {
      std::size_t const stage = from + at;
      loads_[stage % ranks_] -= cutter_.cost(first_[stage], first_[stage + 1]);
      bytes_[stage % ranks_] -= cutter_.bytes(first_[stage], first_[stage + 1], held(stage));
      limits[at].held = held(stage);
    }
    auto const set_limits = [&](std::int64_t value) {
      for (std::size_t at = 0; at < ranks_; ++at) {
        std::size_t const rank = (from + at) % ranks_;
        std::int64_t const capacity =
            capacities_.empty() ? most : std::min(capacities_[rank], most);
        set_limit(limits[at], value, loads_[rank], capacity - bytes_[rank]);
      }
    };
    static_cast<void>(
        cut_least(mutable_span_of(first_, from, ranks_ + 1), low, high, set_limits, limits));
    count();
  }

  chain_cutter cutter_;
  std::size_t ranks_;
  std::span<std::int64_t const> capacities_;
  std::span<std::int64_t const> held_;
  std::vector<std::size_t> first_;
  std::vector<std::int64_t> loads_;
  std::vector<std::int64_t> bytes_;
  std::vector<stage_limit> limits_;
  std::int64_t allowed_ = 0;  ///< bytes that a rank may lack in cuts that are tried
  bool for_memory_ = false;   ///< whether they are tried for fewer of these, or for less load
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARALLELISM_DETAIL_CHAINS_CHAIN_SEARCH_HPP
