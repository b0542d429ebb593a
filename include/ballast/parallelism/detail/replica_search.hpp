// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/parallelism/detail/replica_slots.hpp>

namespace ballast::inline v0::detail {

/// Of every expert the largest load of its GPUs, that GPU, and the next load.
class busiest_hosts {
 public:
  explicit busiest_hosts(std::size_t experts) : of_(experts) {}

  /// In time of the slots.
  void read(replica_slots const& slots)
  {
    std::fill(of_.begin(), of_.end(), loads{});
    for (std::size_t slot = 0; slot < slots.slots(); ++slot) {
      if (slots.expert_at(slot) == replica_slots::none) { continue; }
      loads& now = of_[slots.expert_at(slot)];
      std::int64_t const load = slots.load(slots.gpu_of(slot));
      if (now.gpu == replica_slots::none || load > now.largest) {
        now = {load, now.largest, slots.gpu_of(slot)};
      } else {
        now.next = std::max(now.next, load);
      }
    }
  }

  /// Of the GPUs of an expert without this one.
  [[nodiscard]] std::int64_t largest_besides(std::size_t expert, std::size_t gpu) const
  {
    return of_[expert].gpu == gpu ? of_[expert].next : of_[expert].largest;
  }

 private:
  struct loads {
    std::int64_t largest = 0;
    std::int64_t next = 0;
    std::size_t gpu = replica_slots::none;  ///< with the largest load
  };

  std::vector<loads> of_;
};

/// Changes slots, and takes the changes back.
class slot_changes {
 public:
  explicit slot_changes(replica_slots& slots) : slots_(slots) {}

  void swap(std::size_t a, std::size_t b)
  {
    slots_.swap(a, b);
    made_.push_back({a, b, none});
  }
  void add(std::size_t slot, std::size_t expert)
  {
    slots_.add(slot, expert);
    made_.push_back({slot, none, none});
  }
  void remove(std::size_t slot)
  {
    made_.push_back({slot, none, slots_.expert_at(slot)});
    slots_.remove(slot);
  }

  /// Changes so far stay.
  void keep() { made_.clear(); }

  /// Undoes all changes since keep(), the latest first; returns how many.
  std::size_t take_back()
  {
    std::size_t const count = made_.size();
    for (; !made_.empty(); made_.pop_back()) {
      change const& last = made_.back();
      if (last.other != none) {
        slots_.swap(last.slot, last.other);
      } else if (last.left == none) {
        slots_.remove(last.slot);
      } else {
        slots_.add(last.slot, last.left);
      }
    }
    return count;
  }

 private:
  static constexpr std::size_t none = replica_slots::none;

  struct change {
    std::size_t slot;
    std::size_t other;  ///< slot of an exchange, or none
    std::size_t left;   ///< expert that left the slot, or none where one came
  };

  replica_slots& slots_;
  std::vector<change> made_;
};

/// Makes the busiest GPU less busy, again and again: by an exchange of two replicas, by one replica
/// less on it, or by one more of an expert that it has, in an empty slot or in place of another
/// replica. Where nothing helps, it changes some slots at random and starts from there.
///
/// Where slots want replicas, all loads within the bound are as good, and of changes that bring a
/// GPU there, that is made which moves fewest of them.
class replica_search {
 public:
  /// Whether numbers of replicas may change. `bound`: no load is worth making less than that.
  replica_search(replica_slots& slots, bool keeps_counts, std::int64_t bound, work_budget& left)
      : slots_(slots),
        keeps_counts_(keeps_counts),
        bound_(bound),
        left_(left),
        made_(slots),
        hosts_(slots.experts()),
        partners_(slots.gpus())
  {
    std::iota(partners_.begin(), partners_.end(), std::size_t{0});
  }

  /// Improves until nothing does; returns the largest load.
  std::int64_t descend()
  {
    while (!left_.spent()) {
      std::size_t const gpu = slots_.busiest();
      if (slots_.load(gpu) <= bound_ || !relieve(gpu)) { break; }
    }
    return slots_.load(slots_.busiest());
  }

  /// Leaves the best that it finds until the work is spent, and returns its largest load.
  std::int64_t run()
  {
    std::int64_t best = descend();
    if (slots_.gpus() < 2) { return best; }
    random_source random(best_seed);
    while ((best > bound_ || slots_.kept() < slots_.all_wanted()) && !left_.spent()) {
      left_.spend(slots_.gpus());
      made_.keep();
      std::size_t const kept = slots_.kept();
      for (std::uint64_t kicks = 1 + random.below(3); kicks > 0; --kicks) {
        if (!slots_.wants_some() || random.below(2) == 0 || !bring_back(random)) { kick(random); }
      }
      std::int64_t const found = descend();
      if (worth(found) > worth(best) || (worth(found) == worth(best) && slots_.kept() < kept)) {
        left_.spend(made_.take_back());
      } else {
        best = found;
      }
    }
    return best;
  }

 private:
  static constexpr std::uint64_t best_seed = 0x5eed;
  static constexpr std::uint64_t sorted_for = 16;
  static constexpr std::size_t none = replica_slots::none;

  enum class kind : std::uint8_t { nothing, exchange, replace_here, replace_there };

  struct change {
    kind what = kind::nothing;
    std::size_t here = none;    ///< a slot of the GPU that is relieved
    std::size_t there = none;   ///< the slot exchanged with, or that gets one more replica
    std::size_t expert = none;  ///< that comes to `here`
    std::int64_t largest = 0;   ///< load of the GPUs that change
    int moved = 0;              ///< wanted replicas fewer
  };

  /// The best change for a GPU, or the first that takes half of what it has above the bound.
  bool relieve(std::size_t gpu)
  {
    relieved_gpu_ = gpu;
    best_ = {};
    best_.largest = slots_.load(gpu);
    enough_ = bound_ + (best_.largest - bound_) / 2;
    if (relieved_++ % sorted_for == 0) { sort_partners(); }
    std::size_t const first = slots_.first_slot(gpu);
    std::size_t const last = slots_.first_slot(gpu + 1);
    for (std::size_t here = first; here < last && !found_enough(); ++here) {
      if (slots_.expert_at(here) != none) { try_exchanges(gpu, here); }
    }
    if (!keeps_counts_ && !found_enough()) {
      left_.spend(slots_.slots());
      hosts_.read(slots_);
      for (std::size_t here = first; here < last && !found_enough(); ++here) {
        try_replacing_here(gpu, here);
        if (slots_.expert_at(here) != none && !found_enough()) { try_replacing_there(gpu, here); }
      }
    }
    carry_out(best_);
    return best_.what != kind::nothing;
  }

  [[nodiscard]] bool found_enough() const
  {
    if (best_.what == kind::nothing) { return false; }
    return slots_.wants_some() ? best_.largest <= bound_ && best_.moved < 0
                               : best_.largest <= enough_;
  }

  /// A load as it counts in comparisons.
  [[nodiscard]] std::int64_t worth(std::int64_t largest) const
  {
    return slots_.wants_some() ? std::max(largest, bound_) : largest;
  }

  /// Whether no change with this load is better than the best so far.
  [[nodiscard]] bool is_hopeless(std::int64_t largest) const
  {
    bool const ties = slots_.wants_some() && best_.what != kind::nothing;
    return ties ? worth(largest) > worth(best_.largest) : worth(largest) >= worth(best_.largest);
  }

  void consider(change next)
  {
    if (is_hopeless(next.largest)) { return; }
    next.moved = moved_by(next);
    if (worth(next.largest) < worth(best_.largest) ||
        std::pair(next.moved, next.largest) < std::pair(best_.moved, best_.largest)) {
      best_ = next;
    }
  }

  [[nodiscard]] int moved_by(change const& next) const
  {
    if (!slots_.wants_some()) { return 0; }
    auto const wants = [this](std::size_t expert, std::size_t gpu) {
      return static_cast<int>(slots_.wants(expert, gpu));
    };
    std::size_t const gpu = relieved_gpu_;
    std::size_t const mine = slots_.expert_at(next.here);
    if (next.what == kind::replace_here) { return wants(mine, gpu) - wants(next.expert, gpu); }
    std::size_t const other = slots_.gpu_of(next.there);
    std::size_t const theirs = slots_.expert_at(next.there);
    int const moved = wants(theirs, other) - wants(mine, other);
    return next.what == kind::exchange ? moved + wants(mine, gpu) - wants(theirs, gpu) : moved;
  }

  void carry_out(change const& chosen)
  {
    switch (chosen.what) {
      case kind::nothing: break;
      case kind::exchange: made_.swap(chosen.here, chosen.there); break;
      case kind::replace_here:
        if (slots_.expert_at(chosen.here) != none) { made_.remove(chosen.here); }
        if (chosen.expert != none) { made_.add(chosen.here, chosen.expert); }
        break;
      case kind::replace_there:
        if (slots_.expert_at(chosen.there) != none) { made_.remove(chosen.there); }
        made_.add(chosen.there, slots_.expert_at(chosen.here));
        break;
    }
  }

  /// GPUs by their loads, the least first. The order is good enough for some changes.
  void sort_partners()
  {
    left_.spend(slots_.gpus());
    std::sort(partners_.begin(), partners_.end(), [this](std::size_t a, std::size_t b) {
      return slots_.load(a) < slots_.load(b) || (slots_.load(a) == slots_.load(b) && a < b);
    });
  }

  /// How much the share of an expert grows by one replica less.
  [[nodiscard]] std::int64_t growth(std::size_t expert) const
  {
    return slots_.share_of(expert, slots_.replicas(expert) - 1) - slots_.share(expert);
  }

  template <class Visit>
  void for_other_slots(std::size_t gpu, std::size_t expert, Visit const& visit)
  {
    for (std::size_t const other : partners_) {
      if (found_enough()) { return; }
      left_.spend(1);
      if (other == gpu || slots_.has(expert, other)) { continue; }
      for (std::size_t slot = slots_.first_slot(other); slot < slots_.first_slot(other + 1);
           ++slot) {
        left_.spend(1);
        visit(other, slot);
      }
    }
  }

  void try_exchanges(std::size_t gpu, std::size_t here)
  {
    std::size_t const mine = slots_.expert_at(here);
    std::int64_t const my_share = slots_.share(mine);
    for_other_slots(gpu, mine, [&](std::size_t other, std::size_t there) {
      std::size_t const theirs = slots_.expert_at(there);
      std::int64_t const less = my_share - (theirs == none ? 0 : slots_.share(theirs));
      std::int64_t const largest = std::max(slots_.load(gpu) - less, slots_.load(other) + less);
      if (less <= 0 || is_hopeless(largest) || !slots_.admits(mine, other, gpu) ||
          (theirs != none && !slots_.admits(theirs, gpu, other))) {
        return;
      }
      consider({kind::exchange, here, there, none, largest});
    });
  }

  /// One replica less of what is here, and perhaps another expert instead.
  void try_replacing_here(std::size_t gpu, std::size_t here)
  {
    std::size_t const mine = slots_.expert_at(here);
    std::int64_t rest = slots_.load(gpu);
    std::int64_t others = 0;
    if (mine != none) {
      if (slots_.replicas(mine) < 2) { return; }
      rest -= slots_.share(mine);
      others = hosts_.largest_besides(mine, gpu) + growth(mine);
      if (is_hopeless(others)) { return; }
      consider({kind::replace_here, here, none, none, std::max(rest, others)});
    }
    left_.spend(slots_.experts());
    for (std::size_t expert = 0; expert < slots_.experts(); ++expert) {
      if (expert == mine) { continue; }
      // Where it lies on GPUs of `mine` too, these become lighter than `others` says.
      std::int64_t const share = slots_.share_of(expert, slots_.replicas(expert) + 1);
      std::int64_t const largest = std::max(rest + share, others);
      if (is_hopeless(largest) || !slots_.admits(expert, gpu)) { continue; }
      consider({kind::replace_here, here, none, expert, largest});
    }
  }

  /// One more replica of what is here, on another GPU, perhaps instead of one that is there.
  void try_replacing_there(std::size_t gpu, std::size_t here)
  {
    std::size_t const mine = slots_.expert_at(here);
    if (slots_.replicas(mine) == slots_.gpus()) { return; }
    std::int64_t const share = slots_.share_of(mine, slots_.replicas(mine) + 1);
    std::int64_t const rest = slots_.load(gpu) - slots_.share(mine) + share;
    if (is_hopeless(rest)) { return; }
    for_other_slots(gpu, mine, [&](std::size_t other, std::size_t there) {
      std::size_t const theirs = slots_.expert_at(there);
      std::int64_t largest = std::max(rest, slots_.load(other) + share);
      if (theirs != none) {
        if (slots_.replicas(theirs) < 2) { return; }
        largest = std::max(rest, slots_.load(other) + share - slots_.share(theirs));
        if (is_hopeless(largest)) { return; }
        std::int64_t const more = growth(theirs);
        bool const is_here = slots_.has(theirs, gpu);
        largest = std::max(largest, is_here ? rest + more : 0);
        // With itself among the GPUs that grow, the busiest one would never seem to gain.
        largest = std::max(largest, (is_here ? largest_of_others(theirs, gpu, other)
                                             : hosts_.largest_besides(theirs, other)) +
                                        more);
      }
      if (is_hopeless(largest) || !slots_.admits(mine, other)) { return; }
      consider({kind::replace_there, here, there, none, largest});
    });
  }

  [[nodiscard]] std::int64_t largest_of_others(std::size_t expert, std::size_t a, std::size_t b)
  {
    std::int64_t largest = 0;
    left_.spend(slots_.replicas(expert));
    for (std::size_t const gpu : slots_.gpus_of(expert)) {
      if (gpu != a && gpu != b) { largest = std::max(largest, slots_.load(gpu)); }
    }
    return largest;
  }

  /// A random change of a slot of the busiest GPU or of another one.
  void kick(random_source& random)
  {
    auto const below = [&random](std::size_t count) {
      return static_cast<std::size_t>(random.below(count));
    };
    std::size_t const gpu = random.below(2) == 0 ? slots_.busiest() : below(slots_.gpus());
    std::size_t const width = slots_.first_slot(gpu + 1) - slots_.first_slot(gpu);
    if (width == 0) { return; }
    std::size_t const here = slots_.first_slot(gpu) + below(width);
    std::size_t const there = below(slots_.slots());
    std::size_t const other = slots_.gpu_of(there);
    std::size_t const mine = slots_.expert_at(here);
    std::size_t const theirs = slots_.expert_at(there);
    if (other == gpu || mine == theirs) { return; }
    if (keeps_counts_ || random.below(2) == 0) {
      if ((mine == none || slots_.admits(mine, other, gpu)) &&
          (theirs == none || slots_.admits(theirs, gpu, other))) {
        made_.swap(here, there);
      }
      return;
    }
    if (mine != none && slots_.replicas(mine) < 2) { return; }
    bool const adds = theirs != none && random.below(4) != 0;
    if (adds && !slots_.admits(theirs, gpu)) { return; }
    if (mine != none) { made_.remove(here); }
    if (adds) { made_.add(here, theirs); }
  }

  /// Puts a random replica that is wanted on a GPU there, in place of one that is not. Returns whether
  /// it has found one.
  [[nodiscard]] bool bring_back(random_source& random)
  {
    auto const below = [&random](std::size_t count) {
      return static_cast<std::size_t>(random.below(count));
    };
    std::size_t const here = below(slots_.slots());
    std::size_t const gpu = slots_.gpu_of(here);
    std::size_t const mine = slots_.expert_at(here);
    std::size_t expert = none;
    std::size_t missing = 0;
    left_.spend(slots_.experts() / 8);
    for (std::size_t each = 0; each < slots_.experts(); ++each) {
      if (slots_.wants(each, gpu) != 0 && !slots_.has(each, gpu) && below(++missing) == 0) {
        expert = each;
      }
    }
    if (expert == none || slots_.wants(mine, gpu) != 0) { return false; }
    bool const can_leave = mine == none || slots_.replicas(mine) > 1;
    if (!keeps_counts_ && can_leave && random.below(2) == 0 && slots_.admits(expert, gpu)) {
      if (mine != none) { made_.remove(here); }
      made_.add(here, expert);
      return true;
    }
    std::size_t const other = slots_.gpus_of(expert)[below(slots_.replicas(expert))];
    std::size_t there = slots_.first_slot(other);
    while (slots_.expert_at(there) != expert) { ++there; }
    if ((mine != none && !slots_.admits(mine, other, gpu)) || !slots_.admits(expert, gpu, other)) {
      return false;
    }
    made_.swap(here, there);
    return true;
  }

  replica_slots& slots_;
  bool keeps_counts_;
  std::int64_t bound_;
  work_budget& left_;
  slot_changes made_;  // since the best placement
  busiest_hosts hosts_;
  change best_;
  std::size_t relieved_gpu_ = none;
  std::int64_t enough_ = 0;
  std::vector<std::size_t> partners_;  // all GPUs
  std::uint64_t relieved_ = 0;
};

/// Looks through all placements of a few experts whose loads are within a limit, for those that keep
/// more of what slots want.
class kept_search {
 public:
  kept_search(replica_slots& slots, std::span<std::uint32_t const> replicas, std::int64_t most,
              work_budget& left)
      : slots_(slots), replicas_(replicas), most_(most), left_(left), best_(slots.all())
  {}

  /// Leaves the best. Unless the work is spent, no placement within the limit keeps more.
  void run()
  {
    best_kept_ = slots_.kept();
    slots_.assign(std::vector<std::size_t>(slots_.slots(), replica_slots::none));
    place(0, 0, slots_.all_wanted());
    slots_.assign(best_);
  }

 private:
  /// Tries this GPU and the next ones for an expert, then the next experts; `most_kept` is what all
  /// that follows may bring it to.
  void place(std::size_t expert, std::size_t gpu, std::size_t most_kept)
  {
    if (most_kept <= best_kept_ || left_.spent()) { return; }
    left_.spend(1);
    if (expert == slots_.experts()) {
      best_ = slots_.all();
      best_kept_ = slots_.kept();
      return;
    }
    if (gpu == slots_.gpus()) {
      auto const& gpus = slots_.gpus_of(expert);
      bool const fits = replicas_.empty() ? !gpus.empty() : gpus.size() == replicas_[expert];
      if (fits && std::all_of(gpus.begin(), gpus.end(),
                              [this](std::size_t each) { return slots_.load(each) <= most_; })) {
        place(expert + 1, 0, most_kept);
      }
      return;
    }
    std::size_t const end = slots_.first_slot(gpu + 1);
    std::size_t slot = slots_.first_slot(gpu);
    while (slot < end && slots_.expert_at(slot) != replica_slots::none) { ++slot; }
    if (slot < end && slots_.admits(expert, gpu)) {
      slots_.add(slot, expert);
      place(expert, gpu + 1, most_kept);
      slots_.remove(slot);
    }
    place(expert, gpu + 1, most_kept - slots_.wants(expert, gpu));
  }

  replica_slots& slots_;
  std::span<std::uint32_t const> replicas_;
  std::int64_t most_;
  work_budget& left_;
  std::vector<std::size_t> best_;
  std::size_t best_kept_ = 0;
};

}  // namespace ballast::inline v0::detail
