// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/partition/concepts.hpp>

namespace ballast::inline v0::detail {

/// When bags of several speeds finish, in whole numbers, for searches over the finishing time.
///
/// Units       in the time t, a bag of speed s does floor(t * s / unit). The unit is the least
///             common multiple of the speeds, so that no finishing time has a fraction; where that
///             takes more than 32 bits it is the largest speed, and finishing times are rounded up.
/// Expects     loads and work are not negative; times are at most enough().
/// Ensures     (1) work_until(t, b) is the largest w for which finish(b, w) <= t; 0 where the bag
///                 does not even finish what it has
///             (2) no plan finishes before least(): the mean, the heaviest sample, what bags have;
///                 of finishing times that are rounded up, as these are
///             (3) by enough() every bag can do n times the heaviest sample, or 2^63 - 1 units
/// Complexity  O(n + m) to build, 8 m bytes of scratch; O(1) to ask.
class finishing_times {
 public:
  finishing_times(partition_problem const& problem, std::span<cost_units const> starting_loads,
                  workspace::frame& scratch)
      : loads_(scratch.take<cost_units>(starting_loads.size())), speeds_(problem.speeds)
  {
    BALLAST_EXPECTS(!loads_.empty() && loads_.size() == speeds_.size());
    std::copy(starting_loads.begin(), starting_loads.end(), loads_.begin());
    std::uint32_t const fastest = *std::max_element(speeds_.begin(), speeds_.end());
    for (std::uint32_t const speed : speeds_) {
      if (unit_ % speed == 0) { continue; }
      std::uint64_t const multiple = std::lcm(unit_, std::uint64_t{speed});
      exact_ = multiple <= std::numeric_limits<std::uint32_t>::max();
      unit_ = exact_ ? multiple : fastest;
      if (!exact_) { break; }
    }

    cost_units const heaviest =
        problem.heaviest_first.empty() ? 0 : problem.heaviest_first.front().cost;
    // Where attention alone pads, the heaviest sample as often as there are samples may not fit.
    auto const all = static_cast<cost_units>(
        std::min(uint128{unsigned_of(heaviest)} * problem.heaviest_first.size(), uint128{no_cost}));
    least_ = uint128{unsigned_of(heaviest)} * unit_ / fastest;
    std::uint64_t work = 0;
    std::uint64_t all_speeds = 0;
    for (cost_units const cost : problem.costs) { work += unsigned_of(cost); }
    for (std::size_t bag = 0; bag < loads_.size(); ++bag) {
      work += unsigned_of(loads_[bag]);
      all_speeds += speeds_[bag];
      least_ = std::max(least_, finish(bag, 0));
      enough_ = std::max(enough_, finish(bag, all));
    }
    least_ = std::max(least_, (uint128{work} * unit_ + all_speeds - 1) / all_speeds);
  }

  [[nodiscard]] uint128 finish(std::size_t bag, cost_units work) const noexcept
  {
    uint128 const load = uint128{unsigned_of(loads_[bag])} + unsigned_of(work);
    std::uint32_t const speed = speeds_[bag];
    return speed == unit_ ? load : (load * unit_ + speed - 1) / speed;
  }

  [[nodiscard]] cost_units work_until(uint128 time, std::size_t bag) const noexcept
  {
    std::uint32_t const speed = speeds_[bag];
    uint128 const work = speed == unit_ ? time : time * speed / unit_;
    uint128 const load = unsigned_of(loads_[bag]);
    return work <= load ? 0 : static_cast<cost_units>(std::min<uint128>(work - load, no_cost));
  }

  [[nodiscard]] uint128 finish_anywhere(cost_units work) const noexcept
  {
    uint128 latest = 0;
    for (std::size_t bag = 0; bag < loads_.size(); ++bag) {
      latest = std::max(latest, finish(bag, work));
    }
    return latest;
  }

  /// What a bag of this speed does in this time, rounded up.
  [[nodiscard]] uint128 work_of_speed(uint128 time, std::uint32_t speed) const noexcept
  {
    return (time * speed + unit_ - 1) / unit_;
  }

  /// A time before which no plan finishes, as policies state what they prove, also where finishing
  /// times are rounded up: they are by less than a unit. 0, which proves nothing, where 63 bits do not
  /// hold it.
  [[nodiscard]] ratio makespan_of_rounded(uint128 time) const noexcept
  {
    constexpr auto most = static_cast<uint128>(std::numeric_limits<std::int64_t>::max());
    if (time > most || (!exact_ && time == 0)) { return {}; }
    return {static_cast<std::int64_t>(exact_ ? time : time - 1), static_cast<std::int64_t>(unit_)};
  }

  [[nodiscard]] uint128 least() const noexcept { return least_; }
  [[nodiscard]] uint128 enough() const noexcept { return enough_; }

  [[nodiscard]] bool exact() const noexcept { return exact_; }

  [[nodiscard]] bool alike(std::size_t a, std::size_t b) const noexcept
  {
    return speeds_[a] == speeds_[b] && loads_[a] == loads_[b];
  }

 private:
  [[nodiscard]] static std::uint64_t unsigned_of(cost_units work) noexcept
  {
    return static_cast<std::uint64_t>(work);
  }

  std::span<cost_units> loads_;
  std::span<std::uint32_t const> speeds_;
  std::uint64_t unit_ = 1;
  bool exact_ = true;
  uint128 least_ = 0;
  uint128 enough_ = 0;
};

/// How early bags of any speeds could finish if a bag could be used more than once for a price, as
/// long as all uses together cost no more than every bag once: no plan finishes before.
///
/// Sorted samples are cut into places. It is for problems in which, where some plan meets a time, a
/// chain of runs of places does, one run per bag and each no longer than its bag has time for. The
/// cheapest chain then costs no more than all bags. From the last place back, it is found place by
/// place. Any prices prove something; they begin as speeds, and where a time is not refuted, those of
/// bags that the chain has too often rise and those of others fall.
///
/// Expects     a valid partition_problem.
/// Complexity  O(m log m) to build and O(kinds x places) for every time tried, 48 m + 16 places
///             bytes of scratch. Bags of one speed and one load to start with are of one kind.
/// Source      prices follow B. T. Polyak, "Minimization of unsmooth functionals", USSR
///             Computational Mathematics and Mathematical Physics 9(3), 1969.
class cheapest_chain {
 public:
  cheapest_chain(partition_problem const& problem, finishing_times const& times,
                 workspace::frame& scratch)
      : times_(times), kinds_(scratch.take<kind>(problem.speeds.size()))
  {
    std::span<std::uint32_t> const bags = scratch.take<std::uint32_t>(problem.speeds.size());
    std::iota(bags.begin(), bags.end(), std::uint32_t{0});
    std::sort(bags.begin(), bags.end(), [&](std::uint32_t a, std::uint32_t b) {
      return precedes(problem.speeds[b], problem.speeds[a], times.finish(a, 0), times.finish(b, 0),
                      a, b);
    });
    std::uint64_t all_speed = 0;
    for (std::uint32_t const speed : problem.speeds) { all_speed += speed; }
    std::size_t kinds = 0;
    for (std::size_t place = 0; place < bags.size(); ++place) {
      std::uint32_t const bag = bags[place];
      if (place == 0 || !times.alike(bags[place - 1], bag)) {
        auto const price =
            static_cast<std::int64_t>(uint128{problem.speeds[bag]} * most_price / all_speed);
        kinds_[kinds++] = {bag, 0, price, 0, 0, 0};
      }
      ++kinds_[kinds - 1].bags;
    }
    kinds_ = kinds_.first(kinds);
  }

  [[nodiscard]] std::size_t kinds() const noexcept { return kinds_.size(); }

  /// A time before which no plan finishes, from `low`, of which that is known, up to the time of a
  /// plan; low where places and kinds are too many to try five times.
  ///
  /// `reach(first, end, work)` is where a run from place `first` ends at most that takes this work,
  /// if one from the place behind ends at `end` at most.
  template <class Reach>
  [[nodiscard]] uint128 least_time(uint128 low, uint128 plan, std::size_t places,
                                   Reach const& reach, workspace::frame& scratch)
  {
    constexpr std::size_t most_looks = std::size_t{1} << 21;
    std::size_t const looks = kinds_.size() * places + 1;
    if (looks * 5 > most_looks) { return low; }
    runs_ = scratch.take<run>(places + 1);
    std::size_t const tries = std::min<std::size_t>(most_looks / looks, 32);
    std::size_t const most_failures = kinds_.size() > 1 ? std::min<std::size_t>(tries / 8, 4) : 0;
    uint128 step = (plan - low + 1) / 2;
    std::size_t failures = 0;
    for (std::size_t tried = 0; tried < tries && low < plan; ++tried) {
      step = std::min(step, plan - low);
      if (!holds_all(low + step - 1, reach)) {
        low += step;
        failures = 0;
      } else if (failures < most_failures) {
        ++failures;
        move_prices();
      } else {
        if (step == 1 || step < low >> 13) { break; }
        step = (step + 1) / 2;
        failures = 0;
      }
    }
    return low;
  }

 private:
  struct kind {
    std::uint32_t bag;  // one of them
    std::uint32_t bags;
    std::int64_t price;
    std::int64_t used;  // how often by the cheapest chain
    cost_units work;    // that one can do in time
    std::size_t end;    // of a run that one can take
  };
  /// The first of the cheapest chain from a place on.
  struct run {
    std::int64_t price;  // of the whole chain
    std::uint32_t end;
    std::uint32_t kind;
  };

  static constexpr std::int64_t most_price = std::int64_t{1} << 40;

  [[nodiscard]] std::int64_t price_of_all() const
  {
    std::int64_t price = 0;
    for (kind const& each : kinds_) { price += each.bags * each.price; }
    return price;
  }

  template <class Reach>
  [[nodiscard]] bool holds_all(uint128 time, Reach const& reach)
  {
    constexpr std::int64_t never = std::numeric_limits<std::int64_t>::max();
    std::size_t const places = runs_.size() - 1;
    for (kind& each : kinds_) {
      each.work = times_.work_until(time, each.bag);
      each.end = places;
    }
    runs_[places] = {};
    for (std::size_t first = places; first-- > 0;) {
      run best{never, 0, 0};
      for (std::size_t number = 0; number < kinds_.size(); ++number) {
        kind& each = kinds_[number];
        each.end = reach(first, each.end, each.work);
        if (each.end == first) { continue; }
        std::int64_t const price = each.price + runs_[each.end].price;
        if (price < best.price) {
          best = {price, static_cast<std::uint32_t>(each.end), static_cast<std::uint32_t>(number)};
        }
      }
      if (best.price == never) { return false; }
      runs_[first] = best;
    }
    return runs_[0].price <= price_of_all();
  }

  void move_prices()
  {
    for (kind& each : kinds_) { each.used = 0; }
    for (std::size_t at = 0; at + 1 < runs_.size(); at = runs_[at].end) {
      ++kinds_[runs_[at].kind].used;
    }
    std::int64_t squares = 0;
    for (kind const& each : kinds_) {
      std::int64_t const over = each.used - each.bags;
      squares += over * over;
    }
    if (squares == 0) { return; }  // the chain is a plan
    std::int64_t const all = price_of_all();
    std::int64_t const change = (all - runs_[0].price + all / 1024) / squares;
    for (kind& each : kinds_) {
      std::int64_t const moved = each.price + change * (each.used - each.bags);
      each.price = std::clamp<std::int64_t>(moved, 0, most_price);
    }
  }

  finishing_times const& times_;
  std::span<kind> kinds_;
  std::span<run> runs_;
};

/// What a batch costs in which one part of every sample is packed and the other is padded to the
/// largest: sum of packed parts + number of samples x largest padded part.
///
/// Expects     parts are not negative, and n times the largest cost of a sample is below 2^63.
/// Ensures     (1) with nothing padded a sum, with nothing packed the number times the largest
/// Complexity  O(1).
struct padded_sum {
  cost_units packed = 0;   ///< the sum of these parts
  cost_units count = 0;    ///< how many samples
  cost_units largest = 0;  ///< of the padded parts

  constexpr void add(cost_units packed_part, cost_units padded_part) noexcept
  {
    packed += packed_part;
    ++count;
    largest = std::max(largest, padded_part);
  }

  [[nodiscard]] constexpr cost_units load() const noexcept { return packed + count * largest; }

  /// Whether the load is more than this, also where 63 bits do not hold it.
  [[nodiscard]] constexpr bool exceeds(std::int64_t most) const noexcept
  {
    return static_cast<uint128>(packed) +
               static_cast<uint128>(count) * static_cast<uint128>(largest) >
           static_cast<uint128>(most);
  }
};

/// Samples that are padded to the first of them, which is the heaviest, and the bag they are for.
struct padded_batch {
  std::size_t bag;
  std::span<priced_sample const> samples;

  [[nodiscard]] cost_units load() const noexcept
  {
    return static_cast<cost_units>(samples.size()) * samples.front().cost;
  }

  /// How many of the samples that wait, heaviest first, go into a batch of at most this work.
  [[nodiscard]] static std::size_t most_samples(std::span<priced_sample const> waiting,
                                                cost_units work) noexcept
  {
    cost_units const largest = waiting.front().cost;
    if (largest == 0) { return waiting.size(); }
    return std::min(waiting.size(),
                    static_cast<std::size_t>(work) / static_cast<std::size_t>(largest));
  }
};

/// Fills bag after bag with samples in descending order of cost, each as full as a finishing time
/// allows when its samples are padded to the heaviest of them.
///
/// It fills the bags with the most GPUs first, and of one size the fastest first. Each bag begins
/// with the heaviest sample that waits and fits it, takes as many of those that follow as it has
/// time for, and leaves the rest to the bags after it. A bag without time for one sample stays as
/// it is. Told to keep to most, each takes no more samples than it holds, padded to the weight
/// of the first; where some are then left at every time, outcome.next is the largest number.
///
/// Expects     a valid partition_problem; n times the largest cost is below 2^63; a time to fill to
///             is not before times.least().
/// Ensures     (1) every time from outcome.finish to before outcome.next gives the same batches
///             (2) nothing is left at times.enough()
/// Complexity  O((n + m) log m) to build and O(m) to fill, with k sizes of bags O(m + k n); 36 m
///             bytes of scratch, with several sizes 52 n more.
class padded_filling {
 public:
  struct outcome {
    std::span<priced_sample const> left;  ///< without room; valid until the next filling
    uint128 finish = 0;                   ///< when the last bag that got samples finishes
    uint128 next = std::numeric_limits<uint128>::max();  ///< when some bag could take one more

    [[nodiscard]] bool placed() const noexcept { return left.empty(); }
  };

  padded_filling(partition_problem const& problem, finishing_times const& times,
                 workspace::frame& scratch)
      : times_(times),
        bags_(scratch.take<std::uint32_t>(problem.gpus.size())),
        sizes_(scratch.take<bags_of_size>(problem.gpus.size()))
  {
    std::iota(bags_.begin(), bags_.end(), std::uint32_t{0});
    std::sort(bags_.begin(), bags_.end(), [&problem](std::uint32_t a, std::uint32_t b) {
      return precedes(problem.gpus[b], problem.gpus[a], problem.speeds[b], problem.speeds[a], a, b);
    });
    std::size_t sizes = 0;
    for (std::size_t first = 0; first < bags_.size();) {
      std::uint32_t const gpus = problem.gpus[bags_[first]];
      std::size_t last = first;
      while (last < bags_.size() && problem.gpus[bags_[last]] == gpus) { ++last; }
      sizes_[sizes++] = {gpus, bags_.subspan(first, last - first), {}};
      first = last;
    }
    sizes_ = sizes_.first(sizes);
    if (sizes == 1) {
      sizes_.front().fitting = problem.heaviest_first;
    } else {
      group_by_largest_fit(problem, scratch);
    }
  }

  /// From now on bags keep to the most of a problem, which outlives this.
  ///
  /// Expects     weights do not increase along heaviest_first.
  void keep_most(partition_problem const& problem) noexcept { limited_ = &problem; }

  /// The bags in the order in which they are filled, which may be changed where all_fit().
  [[nodiscard]] std::span<std::uint32_t> order() const noexcept { return bags_; }

  /// Calls place(padded_batch) for each bag that gets samples.
  template <class Place>
  outcome fill(uint128 time, Place const& place)
  {
    outcome filled;
    std::span<priced_sample const> waiting;
    bool into_first = true;  // a merge reads one of the two buffers and writes the other
    for (bags_of_size const& size : sizes_) {
      if (waiting.empty()) {
        waiting = size.fitting;
      } else if (!size.fitting.empty()) {
        std::span<priced_sample> const merged =
            merged_[into_first ? 0 : 1].first(waiting.size() + size.fitting.size());
        std::merge(waiting.begin(), waiting.end(), size.fitting.begin(), size.fitting.end(),
                   merged.begin(), heavier);
        waiting = merged;
        into_first = !into_first;
      }
      for (std::uint32_t const bag : size.bags) {
        if (waiting.empty()) { break; }
        std::size_t const in_time =
            padded_batch::most_samples(waiting, times_.work_until(time, bag));
        std::size_t const held = most_held(bag, waiting);
        std::size_t const taken = std::min(in_time, held);
        padded_batch const batch{bag, waiting.first(taken)};
        if (taken < waiting.size() && taken < held) {
          padded_batch const fuller{bag, waiting.first(taken + 1)};
          filled.next = std::min(filled.next, times_.finish(bag, fuller.load()));
        }
        if (taken == 0) { continue; }
        filled.finish = std::max(filled.finish, times_.finish(bag, batch.load()));
        place(batch);
        waiting = waiting.subspan(taken);
      }
    }
    filled.left = waiting;
    return filled;
  }

  /// Whether every sample fits every bag, so that sizes are no obstacle.
  [[nodiscard]] bool all_fit() const noexcept
  {
    return std::all_of(sizes_.begin() + 1, sizes_.end(),
                       [](bags_of_size const& size) { return size.fitting.empty(); });
  }

 private:
  struct bags_of_size {
    std::uint32_t gpus;
    std::span<std::uint32_t const> bags;
    std::span<priced_sample const> fitting;  // these bags and no larger ones, heaviest first
  };

  [[nodiscard]] std::size_t most_held(std::size_t bag, std::span<priced_sample const> waiting) const
  {
    if (limited_ == nullptr) { return waiting.size(); }
    std::int64_t const weight = limited_->weights[to_index(waiting.front().sample)];
    return weight == 0 ? waiting.size() : static_cast<std::size_t>(limited_->most[bag] / weight);
  }

  [[nodiscard]] static bool heavier(priced_sample a, priced_sample b) noexcept
  {
    return a.cost > b.cost || (a.cost == b.cost && a.sample < b.sample);
  }

  // A counting sort, which leaves the samples of a size in their order.
  void group_by_largest_fit(partition_problem const& problem, workspace::frame& scratch)
  {
    std::size_t const samples = problem.heaviest_first.size();
    for (auto& buffer : merged_) { buffer = scratch.take<priced_sample>(samples); }
    std::span<priced_sample> const grouped = scratch.take<priced_sample>(samples);
    std::span<std::uint32_t> const size_of = scratch.take<std::uint32_t>(samples);
    std::span<std::uint32_t> const first = scratch.take<std::uint32_t>(sizes_.size() + 1);
    std::fill(first.begin(), first.end(), 0);
    for (std::size_t place = 0; place < samples; ++place) {
      tokens const length = problem.lengths[to_index(problem.heaviest_first[place].sample)];
      auto const fitting =
          std::partition_point(sizes_.begin(), sizes_.end(), [length](bags_of_size const& size) {
            return !partition_problem::splits(length, size.gpus);
          });
      size_of[place] = static_cast<std::uint32_t>(fitting - sizes_.begin());
      ++first[size_of[place] + 1];
    }
    std::partial_sum(first.begin(), first.end(), first.begin());
    for (std::size_t size = 0; size < sizes_.size(); ++size) {
      sizes_[size].fitting = grouped.subspan(first[size], first[size + 1] - first[size]);
    }
    for (std::size_t place = 0; place < samples; ++place) {
      grouped[first[size_of[place]]++] = problem.heaviest_first[place];
    }
  }

  finishing_times const& times_;
  partition_problem const* limited_ = nullptr;
  std::span<std::uint32_t> bags_;
  std::span<bags_of_size> sizes_;
  std::array<std::span<priced_sample>, 2> merged_;
};

}  // namespace ballast::inline v0::detail
