// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/parallelism/detail/replica_search.hpp>
#include <ballast/parallelism/share_experts.hpp>

#include <set>

namespace ballast::inline v0 {

namespace detail {

/// Finds GPUs for so many replicas of each expert as were asked for, if there are any: most replicas
/// first. Of the GPUs of one node an expert takes those with most empty slots, which is never wrong;
/// so what is searched is how many of its replicas go to which node, those with most GPUs that have
/// an empty slot first. Without a limit of nodes all GPUs are one node, and nothing is searched.
///
/// Expects     a problem that was checked and outlives the dealer.
/// Complexity  O(experts (experts + gpus log gpus)), and as much work as `left` has where some
///             choice was wrong.
/// Source      D. Gale, "A theorem on flows in networks", Pacific J. Math. 7, 1957: the greedy
///             filling that finds a 0-1 matrix of given sums of rows and columns, and when none is.
class counts_dealer {
 public:
  counts_dealer(expert_problem const& problem, work_budget& left)
      : most_nodes_(problem.most_nodes == 0 ? 1 : problem.most_nodes),
        left_(left),
        empty_(problem.slots.begin(), problem.slots.end())
  {
    first_gpu_.push_back(0);
    for (std::uint32_t const gpus : problem.nodes) {
      if (problem.most_nodes != 0) { first_gpu_.push_back(first_gpu_.back() + gpus); }
    }
    if (problem.most_nodes == 0) { first_gpu_.push_back(empty_.size()); }
    for (std::uint32_t const replicas : problem.replicas) {
      experts_.push_back({replicas, experts_.size(), {}, {}});
    }
    std::sort(experts_.begin(), experts_.end(), [](expert const& a, expert const& b) {
      return std::pair(b.replicas, a.id) < std::pair(a.replicas, b.id);
    });
  }

  /// Returns whether it found places. If not, and the work is not spent, there are none.
  [[nodiscard]] bool deal()
  {
    if (!begin_expert(0)) { return false; }
    while (!choices_.empty() && !left_.spent()) {
      choice& last = choices_.back();
      give_back(last);
      if (last.next == 0) {
        end_choice();
        continue;
      }
      take(last, --last.next);
      std::size_t const rest = last.rest - last.taken;
      std::size_t const nodes = last.nodes - (last.taken > 0 ? 1U : 0U);
      if (rest > 0) {
        add_choice({last.at, last.node + 1, rest, nodes});
      } else if (last.at + 1 == experts_.size()) {
        return true;
      } else if (!begin_expert(last.at + 1)) {
        left_.spend(experts_.size() + empty_.size());
      }
    }
    return false;
  }

  void fill(replica_slots& slots) const
  {
    std::vector<std::size_t> filled(slots.gpus(), 0);
    for (expert const& each : experts_) {
      for (std::size_t const gpu : each.gpus) {
        slots.add(slots.first_slot(gpu) + filled[gpu]++, each.id);
      }
    }
  }

 private:
  struct expert {
    std::size_t replicas;
    std::size_t id;
    std::vector<std::size_t> gpus;
    /// GPUs that have an empty slot, and the node, in the order in which nodes are tried.
    std::vector<std::pair<std::size_t, std::size_t>> nodes;
  };

  /// How many replicas of an expert go to one node.
  struct choice {
    std::size_t at;        ///< of experts_
    std::size_t node;      ///< of its nodes
    std::size_t rest;      ///< of its replicas
    std::size_t nodes;     ///< that it may still use
    std::size_t next = 0;  ///< one more than the number that is tried next
    std::size_t taken = 0;
  };

  [[nodiscard]] bool begin_expert(std::size_t at)
  {
    if (!leaves_room(at) || (!failed_.empty() && failed_.count(state_of(at)) > 0)) { return false; }
    expert& next = experts_[at];
    next.nodes.clear();
    for (std::size_t node = 0; node + 1 < first_gpu_.size(); ++node) {
      auto const begin = empty_.begin() + static_cast<std::ptrdiff_t>(first_gpu_[node]);
      auto const end = empty_.begin() + static_cast<std::ptrdiff_t>(first_gpu_[node + 1]);
      auto const full = std::count(begin, end, 0U);
      next.nodes.emplace_back(static_cast<std::size_t>(end - begin - full), node);
    }
    std::sort(next.nodes.begin(), next.nodes.end(), [](auto const& a, auto const& b) {
      return std::pair(b.first, a.second) < std::pair(a.first, b.second);
    });
    add_choice({at, 0, next.replicas, most_nodes_});
    return true;
  }

  void add_choice(choice next)
  {
    auto const& nodes = experts_[next.at].nodes;
    std::size_t room = 0;
    for (std::size_t node = next.node; node < std::min(nodes.size(), next.node + next.nodes);
         ++node) {
      room += nodes[node].first;
    }
    if (room < next.rest) {
      left_.spend(1);
      return;
    }
    next.next = std::min(next.rest, nodes[next.node].first) + 1;
    choices_.push_back(next);
  }

  void end_choice()
  {
    left_.spend(1);
    choice const last = choices_.back();
    choices_.pop_back();
    if (last.node > 0) { return; }
    left_.spend(experts_.size() + empty_.size());
    failed_.insert(state_of(last.at));
  }

  void take(choice& made, std::size_t count)
  {
    expert& dealt = experts_[made.at];
    std::size_t const node = dealt.nodes[made.node].second;
    std::vector<std::size_t> gpus(first_gpu_[node + 1] - first_gpu_[node]);
    std::iota(gpus.begin(), gpus.end(), first_gpu_[node]);
    std::sort(gpus.begin(), gpus.end(), [this](std::size_t a, std::size_t b) {
      return std::pair(empty_[b], a) < std::pair(empty_[a], b);
    });
    gpus.resize(count);
    for (std::size_t const gpu : gpus) { --empty_[gpu]; }
    dealt.gpus.insert(dealt.gpus.end(), gpus.begin(), gpus.end());
    made.taken = count;
  }

  void give_back(choice& made)
  {
    std::vector<std::size_t>& gpus = experts_[made.at].gpus;
    for (; made.taken > 0; --made.taken) {
      ++empty_[gpus.back()];
      gpus.pop_back();
    }
  }

  /// Whether experts from `at` on would fit if they could use all nodes.
  [[nodiscard]] bool leaves_room(std::size_t at) const
  {
    std::size_t const rest = experts_.size() - at;
    std::vector<std::size_t> with(rest + 1, 0);  // GPUs with so many empty slots, or more than rest
    for (std::uint32_t const slots : empty_) { ++with[std::min<std::size_t>(slots, rest)]; }
    std::size_t gpus = empty_.size() - with[0];
    std::size_t room = 0;
    std::size_t asked = 0;
    for (std::size_t count = 1; count <= rest; ++count) {
      room += gpus;
      asked += experts_[at + count - 1].replicas;
      if (asked > room) { return false; }
      gpus -= with[count];
    }
    return true;
  }

  /// An expert, and the empty slots of each node's GPUs, whichever GPU has them.
  [[nodiscard]] std::vector<std::uint32_t> state_of(std::size_t at) const
  {
    std::vector<std::uint32_t> state = empty_;
    for (std::size_t node = 0; node + 1 < first_gpu_.size(); ++node) {
      std::sort(state.begin() + static_cast<std::ptrdiff_t>(first_gpu_[node]),
                state.begin() + static_cast<std::ptrdiff_t>(first_gpu_[node + 1]));
    }
    state.push_back(static_cast<std::uint32_t>(at));
    return state;
  }

  std::size_t most_nodes_;
  work_budget& left_;
  std::vector<std::uint32_t> empty_;  ///< slots of each GPU
  std::vector<std::size_t> first_gpu_;
  std::vector<expert> experts_;  ///< most replicas first
  std::vector<choice> choices_;
  std::set<std::vector<std::uint32_t>> failed_;
};

/// Adds few replicas to those that there are, such that no GPU has more than a cap, where shares may
/// differ. The GPU of the largest load gives, over and over, to one below the cap: what it has too
/// much, to where that fits best; or as much as the other has room for, most first, which may leave
/// the giver below the cap, to be filled in its turn. Some tries choose at random among these.
///
/// Expects     slots in which every expert has a replica; loads times GPUs below 2^62.
/// Complexity  a try O(replicas added x slots), a small search O(2^12) flows.
/// Source      A. J. Walker, ACM TOMS 3(3), 1977, for one slot a GPU.
class copy_search {
 public:
  struct copy {
    std::size_t expert;
    std::size_t gpu;
  };

  copy_search(expert_problem const& problem, replica_slots const& slots)
      : problem_(problem),
        slots_(slots),
        start_(slots.gpus()),
        mean_(problem.total + problem.shared),
        free_(problem.slots.begin(), problem.slots.end())
  {
    auto const hosts = static_cast<std::int64_t>(problem.hosts);
    std::vector<std::int64_t> left(problem.loads.size());
    std::vector<std::size_t> places(problem.loads.size());
    for (std::size_t expert = 0; expert < left.size(); ++expert) {
      left[expert] = problem.loads[expert] * hosts;
      places[expert] = slots.replicas(expert);
    }
    for (std::size_t gpu = 0; gpu < slots.gpus(); ++gpu) {
      for (std::size_t slot = slots.first_slot(gpu); slot < slots.first_slot(gpu + 1); ++slot) {
        std::size_t const expert = slots.expert_at(slot);
        if (expert == replica_slots::none) { continue; }
        std::int64_t const own = left[expert] / static_cast<std::int64_t>(places[expert]--);
        left[expert] -= own;
        start_[gpu].push_back({expert, own});
        --free_[gpu];
      }
    }
  }

  /// Replicas to add so that no GPU is above the least load that was found by more than the
  /// tolerance.
  [[nodiscard]] std::vector<copy> run(ratio tolerance)
  {
    std::int64_t least = mean_;
    if (!add_copies(problem_.above(least, tolerance), 6)) {
      least = reset();
      for (std::int64_t low = mean_; least - low > mean_ / 4096 + 1;) {
        std::int64_t const middle = low + (least - low) / 2;
        if (add_copies(middle, 6)) {
          least = middle;
        } else {
          low = middle;
        }
      }
    }
    is_least_ = least == mean_;
    std::int64_t const most = problem_.above(least, tolerance);
    std::vector<copy> fewest = best_;  // of a smaller cap, and so enough
    if (add_copies(most, 16) && best_.size() < fewest.size()) { fewest = best_; }
    least_added_ = bound(most);
    work_budget flows(most_flows);
    while (least_added_ < fewest.size() && !flows.spent() && has_few_sets(least_added_)) {
      added_.clear();
      if (any_of_so_many(most, least_added_, 0, flows)) {
        fewest = added_;
      } else if (!flows.spent()) {
        ++least_added_;
      }
    }
    return fewest;
  }

  /// After run: no fewer replicas are enough within the tolerance.
  [[nodiscard]] std::size_t least_added() const noexcept { return least_added_; }
  /// Whether GPUs can be as even as if replicas were everywhere.
  [[nodiscard]] bool is_least() const noexcept { return is_least_; }

 private:
  struct part {
    std::size_t expert;
    std::int64_t amount;
  };
  static constexpr std::uint64_t most_flows = 1 << 12;

  /// What a giver does that has more than the cap.
  enum class rule { ends_first, fills, fills_last_slots };
  struct move {
    int kind = 0;  ///< larger is better, then `fit`
    std::int64_t fit = 0;
    std::size_t gpu = 0;
    std::size_t expert = 0;
    std::int64_t amount = 0;
  };

  /// Returns the largest load.
  std::int64_t reset()
  {
    on_ = start_;
    room_ = free_;
    added_.clear();
    load_.assign(on_.size(), 0);
    for (std::size_t gpu = 0; gpu < on_.size(); ++gpu) {
      for (part const& each : on_[gpu]) { load_[gpu] += each.amount; }
    }
    return *std::max_element(load_.begin(), load_.end());
  }

  /// The fewest replicas of so many tries are best_. Returns whether one was within the cap.
  bool add_copies(std::int64_t most, std::uint64_t tries)
  {
    bool found = false;
    for (std::uint64_t attempt = 0; attempt < tries; ++attempt) {
      random_source random(attempt);
      auto const how = most == problem_.total ? rule::fills : static_cast<rule>(attempt % 3);
      reset();
      if (spread(most, how, attempt < 3 ? nullptr : &random) &&
          (!found || added_.size() < best_.size())) {
        best_ = added_;
        found = true;
      }
    }
    return found;
  }

  [[nodiscard]] bool spread(std::int64_t most, rule how, random_source* random)
  {
    while (added_.size() <= problem_.places) {
      std::size_t giver = 0;
      for (std::size_t gpu = 1; gpu < on_.size(); ++gpu) {
        if (load_[gpu] > load_[giver]) { giver = gpu; }
      }
      if (load_[giver] <= most) { return true; }
      if (random != nullptr) {
        std::size_t const other = random->below(on_.size());
        if (load_[other] > most) { giver = other; }
      }
      move const best = best_move(giver, most, how, random);
      if (best.kind == 0) { return false; }
      carry_out(giver, best);
    }
    return false;
  }

  [[nodiscard]] move best_move(std::size_t giver, std::int64_t most, rule how,
                               random_source* random) const
  {
    std::int64_t const excess = load_[giver] - most;
    move best;
    for (std::size_t gpu = 0; gpu < on_.size(); ++gpu) {
      std::int64_t const room = most - load_[gpu];
      if (room <= 0 || problem_.slots[gpu] == 0) { continue; }
      bool const fills = how == rule::fills || (how == rule::fills_last_slots && room_[gpu] == 1);
      for (part const& each : on_[giver]) {
        if (each.amount == 0) { continue; }
        bool const is_there = has(gpu, each.expert);
        if (!is_there && room_[gpu] == 0) { continue; }
        if (random != nullptr && random->below(4) == 0) { continue; }
        std::int64_t const fitting = std::min(each.amount, room);
        move next{1, fitting, gpu, each.expert, fitting};
        if (is_there) {
          next.amount = std::min(fitting, excess);
          next.kind = 5;
          next.fit = next.amount;
        } else if (room == excess && fitting == excess) {
          next.kind = 4;
        } else if (!fills && fitting >= excess) {
          next.amount = excess;
          next.kind = 3;
          next.fit = -room;
        } else if (fitting == room && (how != rule::ends_first || room <= excess)) {
          next.kind = 2;
          next.fit = room <= excess ? room : -room;
        }
        if (std::pair(next.kind, next.fit) > std::pair(best.kind, best.fit) || best.kind == 0) {
          best = next;
        }
      }
    }
    return best;
  }

  void carry_out(std::size_t giver, move const& made)
  {
    auto const part_on = [&](std::size_t gpu) {
      return std::find_if(on_[gpu].begin(), on_[gpu].end(),
                          [&](part const& each) { return each.expert == made.expert; });
    };
    part_on(giver)->amount -= made.amount;
    load_[giver] -= made.amount;
    load_[made.gpu] += made.amount;
    if (auto const there = part_on(made.gpu); there != on_[made.gpu].end()) {
      there->amount += made.amount;
      return;
    }
    on_[made.gpu].push_back({made.expert, made.amount});
    --room_[made.gpu];
    added_.push_back({made.expert, made.gpu});
  }

  [[nodiscard]] bool has(std::size_t gpu, std::size_t expert) const
  {
    return std::any_of(on_[gpu].begin(), on_[gpu].end(),
                       [expert](part const& each) { return each.expert == expert; });
  }

  /// GPUs that get nothing keep at most what they have, and the others take at most the cap. What is
  /// above the cap on GPUs whose experts are nowhere else leaves in replicas of at most the cap.
  [[nodiscard]] std::size_t bound(std::int64_t most)
  {
    reset();
    std::vector<std::int64_t> rooms;
    std::int64_t excess = 0;
    std::size_t leaving = 0;
    for (std::size_t gpu = 0; gpu < on_.size(); ++gpu) {
      bool const alone = std::all_of(on_[gpu].begin(), on_[gpu].end(), [this](part const& each) {
        return slots_.replicas(each.expert) == 1;
      });
      if (!alone) { return 0; }
      std::int64_t const more = std::max<std::int64_t>(load_[gpu] - most, 0);
      excess += more;
      leaving += static_cast<std::size_t>((more + most - 1) / std::max<std::int64_t>(most, 1));
      if (room_[gpu] > 0) { rooms.push_back(most - std::min(load_[gpu], most)); }
    }
    std::sort(rooms.begin(), rooms.end(), std::greater<>());
    std::size_t taking = 0;
    while (excess > 0 && taking < rooms.size()) { excess -= rooms[taking++]; }
    return std::max(leaving, taking);
  }

  /// Whether all sets of so many replicas can be tried.
  [[nodiscard]] bool has_few_sets(std::size_t count) const
  {
    std::uint64_t const pairs = problem_.loads.size() * on_.size();
    std::uint64_t sets = 1;
    for (std::uint64_t taken = 0; taken < count && sets <= most_flows; ++taken) {
      sets = sets * (pairs - std::min(pairs, taken)) / (taken + 1);
    }
    return sets <= most_flows;
  }

  /// Whether so many more replicas, of the pairs of expert and GPU from `first` on, are enough.
  [[nodiscard]] bool any_of_so_many(std::int64_t most, std::size_t count, std::size_t first,
                                    work_budget& flows)
  {
    if (count == 0) { return are_enough(most, flows); }
    std::size_t const pairs = problem_.loads.size() * on_.size();
    for (std::size_t pair = first; pair + count <= pairs && !flows.spent(); ++pair) {
      copy const next{pair / on_.size(), pair % on_.size()};
      if (free_[next.gpu] == 0 || problem_.loads[next.expert] == 0 ||
          !slots_.admits(next.expert, next.gpu)) {
        continue;
      }
      --free_[next.gpu];
      added_.push_back(next);
      bool const found = any_of_so_many(most, count - 1, pair + 1, flows);
      ++free_[next.gpu];
      if (found) { return true; }
      added_.pop_back();
    }
    return false;
  }

  [[nodiscard]] bool are_enough(std::int64_t most, work_budget& flows) const
  {
    flows.spend(1);
    if (flows.spent()) { return false; }
    replica_flow flow(problem_.loads.size(), on_.size());
    for (std::size_t gpu = 0; gpu < start_.size(); ++gpu) {
      for (part const& each : start_[gpu]) { flow.add(each.expert, gpu); }
    }
    for (copy const& each : added_) { flow.add(each.expert, each.gpu); }
    auto const hosts = static_cast<std::int64_t>(problem_.hosts);
    return flow.run([&](std::size_t expert) { return problem_.loads[expert] * hosts; }, most);
  }

  expert_problem const& problem_;
  replica_slots const& slots_;
  std::vector<std::vector<part>> start_;  ///< of each GPU, in units of load / hosts
  std::int64_t mean_;
  std::vector<std::uint32_t> free_;  ///< slots of each GPU
  std::size_t least_added_ = 0;
  bool is_least_ = false;

  std::vector<std::vector<part>> on_;
  std::vector<std::int64_t> load_;
  std::vector<std::uint32_t> room_;  ///< slots of each GPU that are still empty
  std::vector<copy> added_;
  std::vector<copy> best_;
};

/// Places experts from several starts, and goes on from the best.
///
/// Expects     a problem that was checked and prepared, and outlives the search.
class placement_search {
 public:
  placement_search(expert_problem const& problem, work_budget& left)
      : problem_(problem), left_(left), slots_(problem.empty_slots())
  {}

  /// Returns false where no places were found for the numbers of replicas that were asked for: there
  /// are none, unless `dealing` is spent.
  [[nodiscard]] bool place(work_budget& dealing)
  {
    if (problem_.loads.empty()) { return true; }
    std::int64_t const bound = problem_.scaled(problem_.lower_bound);
    bool const is_given = !problem_.replicas.empty();
    if (is_given) {
      counts_dealer dealer(problem_, dealing);
      if (!dealer.deal()) { return false; }
      dealer.fill(slots_);
    } else {
      best_of_starts(bound);
    }
    replica_search(slots_, is_given, bound, left_).run();
    return true;
  }

  /// Fills GPU after GPU up to the mean load, where shares may differ: with the smallest experts, as
  /// long as one more slot is left, and with a part of the largest. Returns whether that places all.
  ///
  /// Complexity  O(slots log experts).
  /// Source      A. J. Walker, "An Efficient Method for Generating Discrete Random Variables with
  ///             General Distributions", ACM TOMS 3(3), 1977: it splits n numbers over n cells of two.
  [[nodiscard]] bool fill_to_mean()
  {
    std::set<std::pair<uint128, std::size_t>> left;  // of each expert, in parts of a GPU's number
    for (std::size_t expert = 0; expert < problem_.loads.size(); ++expert) {
      left.emplace(static_cast<uint128>(problem_.loads[expert]) * problem_.hosts, expert);
    }
    std::vector<std::size_t> filled(slots_.slots(), none);
    for (std::size_t gpu = 0; gpu < slots_.gpus(); ++gpu) {
      auto room = static_cast<uint128>(problem_.total);
      std::size_t const end = slots_.first_slot(gpu + 1);
      for (std::size_t slot = slots_.first_slot(gpu); slot < end && !left.empty(); ++slot) {
        bool const is_whole = slot + 1 < end && left.begin()->first <= room;
        auto const taken = is_whole ? left.begin() : std::prev(left.end());
        auto const [load, expert] = *taken;
        left.erase(taken);
        filled[slot] = expert;
        if (load > room) { left.emplace(load - room, expert); }
        room -= std::min(load, room);
        if (room == 0) { break; }
      }
    }
    if (left.empty()) { slots_.assign(filled); }
    return left.empty();
  }

  /// Where shares may differ: the replicas that there are, and few more. Returns whether GPUs are as
  /// even as they can be, up to the tolerance.
  [[nodiscard]] bool copy(jagged<rank_id, expert_id> const& now, ratio tolerance)
  {
    slots_.want(now);
    most_kept_ = slots_.all_wanted();
    if (problem_.loads.empty()) { return true; }
    if (!restore(now)) { return false; }
    bool const keeps_all = slots_.kept() == most_kept_ && slots_.filled() == most_kept_;
    copy_search search(problem_, slots_);
    for (copy_search::copy const& each : search.run(tolerance)) {
      std::size_t slot = slots_.first_slot(each.gpu);
      while (slots_.expert_at(slot) != none) { ++slot; }
      slots_.add(slot, each.expert);
    }
    if (keeps_all) { least_added_ = search.least_added(); }
    return search.is_least();
  }

  /// Takes a placement that is no further above this one than the tolerance and keeps as many
  /// replicas as are found to: made from the one that there is now, or else from this one with its
  /// GPUs in another order. Few slots are searched whole.
  void keep(jagged<rank_id, expert_id> const& now, ratio tolerance)
  {
    if (problem_.loads.empty()) { return; }
    constexpr std::size_t few_slots = 24;
    constexpr std::uint64_t work_of_few = 1 << 18;
    std::int64_t const most = problem_.above(slots_.load(slots_.busiest()), tolerance);
    slots_.want(now);
    most_kept_ = slots_.all_wanted();
    if (slots_.slots() <= few_slots) {
      work_budget left(work_of_few);
      kept_search(slots_, problem_.replicas, most, left).run();
      if (!left.spent()) {
        most_kept_ = slots_.kept();
        return;
      }
    }
    std::vector<std::size_t> const best = slots_.all();
    std::size_t const kept = slots_.kept();
    auto const improve = [&] {
      work_budget left(2 * problem_.usual_work());
      return replica_search(slots_, !problem_.replicas.empty(), most, left).run() <= most;
    };
    if (restore(now) && improve() && slots_.kept() >= kept) { return; }
    slots_.assign(best);
    if (problem_.most_nodes == 0) { rename_gpus(); }
    static_cast<void>(improve());
  }

  [[nodiscard]] expert_placement placement() const
  {
    expert_placement placed;
    placed.lower_bound = problem_.lower_bound;
    placed.kept = slots_.kept();
    placed.most_kept = most_kept_;
    placed.least_added = least_added_;
    auto const each_replica = [this](auto const& visit) {
      std::vector<std::size_t> row;
      for (std::size_t gpu = 0; gpu < slots_.gpus(); ++gpu) {
        row.clear();
        for (std::size_t slot = slots_.first_slot(gpu); slot < slots_.first_slot(gpu + 1); ++slot) {
          if (slots_.expert_at(slot) != none) { row.push_back(slots_.expert_at(slot)); }
        }
        std::sort(row.begin(), row.end());
        for (std::size_t const expert : row) {
          visit(to_id<rank_id>(gpu), to_id<expert_id>(expert));
        }
      }
    };
    placed.experts.fill(slots_.gpus(), each_replica);
    placed.gpus.fill(slots_.experts(), [&](auto const& visit) {
      each_replica([&](rank_id gpu, expert_id expert) { visit(expert, gpu); });
    });
    for (std::size_t gpu = 0; gpu < slots_.gpus(); ++gpu) {
      placed.makespan = std::max(placed.makespan, load_of(placed.experts[to_id<rank_id>(gpu)]));
    }
    return placed;
  }

 private:
  static constexpr std::size_t none = replica_slots::none;

  struct start {
    std::vector<std::size_t> slots;
    std::int64_t largest = std::numeric_limits<std::int64_t>::max();
    uint128 excess = std::numeric_limits<uint128>::max();  // of all GPUs above the bound
  };

  /// Leaves the start with the least largest load, after a short search from each. Where another one
  /// has less excess, a long search may bring it further down: it gets half of the work that is left.
  void best_of_starts(std::int64_t bound)
  {
    // All slots filled; and shares that leave room beside them, which only need so many: dealt to
    // the GPU of the least load, and once to the fullest.
    struct kind {
      std::int64_t tenths;
      bool to_fullest;
    };
    constexpr std::array<kind, 5> kinds = {
        {{0, false}, {9, false}, {5, false}, {3, false}, {5, true}}};
    std::uint64_t const part = left_.left() / 32;
    start best;
    start lightest;
    for (auto const [tenths, to_fullest] : kinds) {
      ratio const enough{tenths * (problem_.lower_bound.numerator / 10),
                         problem_.lower_bound.denominator};
      slots_.assign(std::vector<std::size_t>(slots_.slots(), none));
      deal_replicas(slots_,
                    even_shares(problem_.loads, problem_.places, problem_.most_replicas, enough),
                    to_fullest ? bound + bound / 200 : -1);
      start const found = descend_from(bound, part);
      if (found.largest < best.largest) { best = found; }
      if (found.excess < lightest.excess) { lightest = found; }
      if (best.largest <= bound) { break; }
    }
    if (lightest.slots != best.slots) {
      slots_.assign(lightest.slots);
      start const found = descend_from(bound, left_.left() / 2);
      if (found.largest < best.largest) { return; }
    }
    slots_.assign(best.slots);
  }

  /// Searches from the slots as they are, within so much work.
  [[nodiscard]] start descend_from(std::int64_t bound, std::uint64_t work)
  {
    work_budget part(work);
    std::int64_t const largest = replica_search(slots_, false, bound, part).descend();
    left_.spend(work - part.left());
    uint128 excess = 0;
    for (std::size_t gpu = 0; gpu < slots_.gpus(); ++gpu) {
      excess += static_cast<uint128>(std::max<std::int64_t>(slots_.load(gpu) - bound, 0));
    }
    return {slots_.all(), largest, excess};
  }

  /// Exchanges all replicas of two GPUs with as many slots where more of them are kept then.
  void rename_gpus()
  {
    work_budget left(problem_.usual_work());
    auto const kept_on = [this](std::size_t of, std::size_t gpu) {
      std::size_t kept = 0;
      for (std::size_t slot = slots_.first_slot(of); slot < slots_.first_slot(of + 1); ++slot) {
        kept += slots_.wants(slots_.expert_at(slot), gpu);
      }
      return kept;
    };
    for (bool gains = true; gains && !left.spent();) {
      gains = false;
      for (std::size_t a = 0; a < slots_.gpus(); ++a) {
        for (std::size_t b = a + 1; b < slots_.gpus(); ++b) {
          left.spend(problem_.slots[a]);
          if (problem_.slots[a] != problem_.slots[b] ||
              kept_on(a, b) + kept_on(b, a) <= kept_on(a, a) + kept_on(b, b)) {
            continue;
          }
          auto const at = [this](std::size_t gpu) {
            return static_cast<std::ptrdiff_t>(slots_.first_slot(gpu));
          };
          std::vector<std::size_t> all = slots_.all();
          std::swap_ranges(all.begin() + at(a), all.begin() + at(a + 1), all.begin() + at(b));
          slots_.assign(all);
          gains = true;
        }
      }
    }
  }

  /// Puts replicas where they are now, and experts that have none where there is room. Returns
  /// whether every expert has a replica, or as many as were asked for.
  [[nodiscard]] bool restore(jagged<rank_id, expert_id> const& now)
  {
    slots_.assign(std::vector<std::size_t>(slots_.slots(), none));
    for (std::size_t gpu = 0; gpu < std::min(now.size(), slots_.gpus()); ++gpu) {
      std::size_t slot = slots_.first_slot(gpu);
      for (expert_id const id : now[to_id<rank_id>(gpu)]) {
        std::size_t const expert = to_index(id);
        if (slot < slots_.first_slot(gpu + 1) && expert < slots_.experts() &&
            slots_.admits(expert, gpu)) {
          slots_.add(slot++, expert);
        }
      }
    }
    for (std::size_t expert = 0; expert < slots_.experts(); ++expert) {
      if (slots_.replicas(expert) == 0) { make_room(expert); }
      if (!problem_.replicas.empty() && slots_.replicas(expert) != problem_.replicas[expert]) {
        return false;
      }
    }
    return true;
  }

  /// Puts an expert without replicas into an empty slot, or in place of the smallest share that is not
  /// the only one. There is such a slot, since all experts have room.
  void make_room(std::size_t expert)
  {
    std::size_t chosen = none;
    for (std::size_t slot = 0; slot < slots_.slots(); ++slot) {
      std::size_t const there = slots_.expert_at(slot);
      if (there == none) { return slots_.add(slot, expert); }
      if (slots_.replicas(there) > 1 &&
          (chosen == none || slots_.share(there) < slots_.share(slots_.expert_at(chosen)))) {
        chosen = slot;
      }
    }
    slots_.remove(chosen);
    slots_.add(chosen, expert);
  }

  /// The sum of the shares of these experts: a fraction, or, where that needs more than 63 bits, the
  /// next larger one in units of the search.
  template <class Experts>
  [[nodiscard]] ratio load_of(Experts const& experts) const
  {
    constexpr auto most = static_cast<uint128>(std::numeric_limits<std::int64_t>::max());
    uint128 numerator = 0;
    std::uint64_t denominator = 1;
    std::int64_t rounded = 0;
    bool is_exact = true;
    for (expert_id const id : experts) {
      auto const load = static_cast<std::uint64_t>(problem_.loads[to_index(id)]);
      std::uint64_t const replicas = slots_.replicas(to_index(id));
      rounded += slots_.share(to_index(id));
      std::uint64_t const missing = replicas / std::gcd(denominator, replicas);
      uint128 const common = static_cast<uint128>(denominator) * missing;
      is_exact = is_exact && common <= most;
      if (!is_exact) { continue; }
      numerator = numerator * missing +
                  static_cast<uint128>(load) * (static_cast<std::uint64_t>(common) / replicas);
      denominator = static_cast<std::uint64_t>(common);
      is_exact = numerator <= most;
    }
    if (!is_exact) { return {rounded, problem_.scale}; }
    auto const shared = std::gcd(static_cast<std::uint64_t>(numerator), denominator);
    return {static_cast<std::int64_t>(static_cast<std::uint64_t>(numerator) / shared),
            static_cast<std::int64_t>(denominator / shared)};
  }

  expert_problem const& problem_;
  work_budget& left_;
  replica_slots slots_;
  std::size_t most_kept_ = 0;
  std::size_t least_added_ = 0;
};

}  // namespace detail

/// What a placement of experts has to keep to: all of it optional.
///
/// Shapes      replicas[experts] or empty; nodes: GPUs of each node, which add up to all, or empty.
/// Expects     `now` outlives the call.
struct expert_rules {
  std::span<std::uint32_t const> replicas = {};  ///< of each expert; empty: they are chosen
  std::span<std::uint32_t const> nodes = {};
  std::size_t most_nodes = 0;  ///< for the replicas of an expert; 0: no limit
  /// Where replicas are: of the placements found whose largest load is above the least by this part
  /// of it at most, that is returned which keeps most of them.
  jagged<rank_id, expert_id> const* now = nullptr;
  ratio tolerance = {1, 100};
  bool uneven = false;      ///< shares of an expert may differ, as those of share_experts() do
  std::int64_t shared = 0;  ///< work that any GPU takes, as that of experts of all tokens
  std::uint64_t work = 0;  ///< slots that the search looks at; 0: 2^11 for each slot, at least 2^19
};

/// How many replicas each expert of a mixture gets, and on which GPUs, so that the busiest GPU has
/// least: numbers and places together.
///
///     place_experts(loads, slots)            // slots[g]: replicas that fit GPU g
///     place_experts(batch, slots, {.now = &homes, .uneven = true})  // copies for one batch
///
/// The load of an expert is split evenly over its replicas, or as is best with `uneven`: then, with
/// `now`, as few replicas as are found to be enough are added to those that there are. A slot may
/// stay empty: where its neighbour is full, a replica in it would only take from where there is room.
///
/// Shapes      loads[experts], slots[gpus].
/// Units       loads: any, as tokens of the last steps.
/// Ensures     (1) those of expert_placement; GPU g has at most slots[g] replicas
///             (2) no placement has a makespan below lower_bound: the mean load, with what is shared,
///                 of the GPUs that have slots, or the least that the largest share of an expert can be
///             (3) the same on every machine: nothing depends on time
/// Errors      infeasible: there are fewer slots than experts, more replicas of an expert asked for
///             than GPUs have slots, or replicas that do not fit, and the sentence has the numbers,
///             or, with most_nodes, that the search for their places gave up; out_of_range: a load
///             is negative, loads add up to 2^61 or more, or an array has another size. Position is
///             that of the expert, GPU or entry.
/// Complexity  O(slots log gpus + work), for copies about 100 tries of O(copies x slots), and for
///             given replicas O(experts (experts + gpus log gpus)), and at most the usual work where
///             most_nodes makes it search; experts x gpus bytes.
/// Source      starts as DeepSeek's EPLB does, "Expert Parallelism Load Balancer", 2025: replicas for
///             the largest share, the largest share to the GPU of the least load.
[[nodiscard]] inline result<expert_placement> place_experts(std::span<std::int64_t const> loads,
                                                            std::span<std::uint32_t const> slots,
                                                            expert_rules const& rules = {})
{
  detail::expert_problem problem{loads,       slots, rules.replicas, rules.nodes, rules.most_nodes,
                                 rules.shared};
  if (auto checked = problem.check(); !checked) { return tl::unexpected(checked.error()); }
  if (rules.tolerance.numerator < 0 || rules.tolerance.denominator <= 0) {
    return fail(error_code::out_of_range, 0, "the tolerance is ", rules.tolerance.numerator, "/",
                rules.tolerance.denominator, "; give a fraction of at least 0");
  }
  problem.prepare();
  // The placement with the best shares for it.
  auto const with_shares = [&](expert_placement placed) -> result<expert_placement> {
    if (rules.uneven) {
      auto const shares = share_experts(loads, placed.gpus, slots.size());
      if (!shares) { return tl::unexpected(shares.error()); }
      placed.makespan = shares->makespan;
    }
    placed.makespan = std::max(placed.makespan, problem.mean());
    return placed;
  };
  detail::work_budget left(rules.work != 0 ? rules.work : problem.usual_work());
  bool const is_free = rules.uneven && rules.replicas.empty() && rules.most_nodes == 0;
  std::optional<expert_placement> copied;
  if (is_free && rules.now != nullptr && problem.has_parts()) {
    detail::placement_search search(problem, left);
    bool const is_least = search.copy(*rules.now, rules.tolerance);
    auto placed = with_shares(search.placement());
    if (!placed || is_least) { return placed; }
    copied = std::move(*placed);
  }
  detail::placement_search search(problem, left);
  detail::work_budget dealing(problem.usual_work());
  bool const has_places =
      (is_free && rules.now == nullptr && search.fill_to_mean()) || search.place(dealing);
  if (detail::cancel_scope::is_cancelled()) { return detail::cancelled(); }
  if (!has_places) {
    auto const where = detail::concat(detail::counted(problem.places, "slot"), " on ",
                                      detail::counted(slots.size(), "GPU"));
    if (rules.most_nodes == 0) {
      return fail(error_code::infeasible, 0, "the replicas that were asked for do not fit: of ",
                  where, " no two replicas of an expert may take those of one GPU; ask for fewer");
    }
    return fail(error_code::infeasible, 0,
                dealing.spent()
                    ? "the search gave up: it found no places for the replicas that were "
                      "asked for in "
                    : "the replicas that were asked for do not fit ",
                where, ", where those of an expert lie on different GPUs of at most ",
                detail::counted(rules.most_nodes, "node"), "; ask for fewer, or raise most_nodes");
  }
  if (rules.now != nullptr) { search.keep(*rules.now, rules.tolerance); }
  if (detail::cancel_scope::is_cancelled()) { return detail::cancelled(); }
  auto placed = with_shares(search.placement());
  // Replicas are only moved where that makes the busiest GPU's load less by more than the tolerance.
  if (placed && copied &&
      problem.scaled(copied->makespan) <=
          problem.above(problem.scaled(placed->makespan), rules.tolerance)) {
    return *std::move(copied);
  }
  return placed;
}

}  // namespace ballast::inline v0
