// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/cost/module_profile.hpp>

namespace ballast::inline v0 {

namespace detail {

/// What one stage of a chain may hold, and how many microbatches' activations it holds.
struct stage_limit {
  std::int64_t cost = 0;
  std::int64_t bytes = 0;
  std::int64_t held = 1;
  std::int64_t least_cost = 0;
};

/// Cuts a piece of a chain into stages that keep to limits, if that can be done.
///
/// The limits above are kept by every part of a stage that keeps them, the one below by all that is
/// longer, so the ends that a stage can have from one begin are consecutive, and from a later begin
/// neither of them comes earlier: a window that only moves on. Stages that may hold different amounts and have to hold something make the ends
/// after several stages a set with holes, so the set is kept.
///
/// Expects     the sums of costs and of bytes at the largest `held` are below 2^63.
/// Complexity  cut: O(stages x layers).
class chain_cutter {
 public:
  void push_back(std::int64_t cost, std::int64_t state_bytes, std::int64_t activation_bytes)
  {
    costs_.push_back(costs_.back() + cost);
    states_.push_back(states_.back() + state_bytes);
    activations_.push_back(activations_.back() + activation_bytes);
  }

  [[nodiscard]] std::size_t layers() const noexcept { return costs_.size() - 1; }

  [[nodiscard]] std::int64_t cost(std::size_t begin, std::size_t end) const
  {
    return costs_[end] - costs_[begin];
  }
  [[nodiscard]] std::int64_t bytes(std::size_t begin, std::size_t end, std::int64_t held) const
  {
    return states_[end] - states_[begin] + held * (activations_[end] - activations_[begin]);
  }

  /// Cuts layers first[0] to first[limits.size()] - 1, of which each stage gets one or more, and
  /// writes where stages begin between. Returns whether it can be done; else first is unchanged. Of
  /// several cuts the last stage gets as many layers as it can, then the one before it.
  ///
  /// Shapes      first[limits.size() + 1].
  [[nodiscard]] bool cut(std::span<std::size_t> first, std::span<stage_limit const> limits)
  {
    std::size_t const begin = first.front();
    std::size_t const width = first.back() - begin + 1;
    // earliest_[s][e]: where stage s begins at the earliest if it ends at e; unset: it cannot.
    earliest_.assign(limits.size() * width, unset);
    for (std::size_t stage = 0; stage < limits.size(); ++stage) {
      mark_ends(stage, begin, width, limits[stage]);
    }
    std::size_t end = width - 1;
    if (earliest_[limits.size() * width - 1] == unset) { return false; }
    for (std::size_t stage = limits.size(); stage-- > 0;) {
      end = earliest_[stage * width + end];
      first[stage] = begin + end;
    }
    return true;
  }

 private:
  static constexpr std::size_t unset = static_cast<std::size_t>(-1);

  void mark_ends(std::size_t stage, std::size_t begin, std::size_t width, stage_limit const& limit)
  {
    std::size_t marked = 0;  // ends up to here are done
    for (std::size_t from = 0; from + 1 < width; ++from) {
      bool const is_end = stage == 0 ? from == 0 : earliest_[(stage - 1) * width + from] != unset;
      if (!is_end) { continue; }
      marked = std::max(marked, from);
      while (marked + 1 < width && cost(begin + from, begin + marked + 1) < limit.least_cost) {
        ++marked;
      }
      while (marked + 1 < width && cost(begin + from, begin + marked + 1) <= limit.cost &&
             bytes(begin + from, begin + marked + 1, limit.held) <= limit.bytes) {
        earliest_[stage * width + ++marked] = from;
      }
    }
  }

  std::vector<std::int64_t> costs_ = {0};        ///< sum of the layers before each
  std::vector<std::int64_t> states_ = {0};       ///< sum of the layers before each
  std::vector<std::int64_t> activations_ = {0};  ///< sum of the layers before each
  std::vector<std::size_t> earliest_;
};

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
        capacities_(ranks, most),
        held_(held),
        first_(ranks * chunks + 1, 0),
        loads_(ranks, 0),
        bytes_(ranks, 0),
        limits_(ranks * chunks)
  {
    for (std::size_t rank = 0; rank < capacities.size(); ++rank) {
      capacities_[rank] = std::min(capacities[rank], most);
    }
    first_.back() = cutter_.layers();
    for (std::size_t stage = 0; stage < stages(); ++stage) { limits_[stage] = {0, most, 0, 0}; }
    auto const of_stages = [this](std::int64_t load) {
      for (stage_limit& limit : limits_) { limit.cost = load; }
    };
    std::int64_t const least = cut_least(
        mutable_span_of(first_), 0, cutter_.cost(0, cutter_.layers()), of_stages, span_of(limits_));
    if (chunks == 1) { least_load_ = least; }
    count();
  }

  [[nodiscard]] std::span<std::size_t const> first() const { return span_of(first_); }
  [[nodiscard]] std::span<std::int64_t const> loads() const { return span_of(loads_); }

  /// Brings the ranks within their capacities. Returns by how much one is above at the end.
  std::int64_t fit_memory()
  {
    if (overrun() == 0) { return 0; }
    return sweep(
        0, [this] { return overrun(); },
        [](stage_limit& limit, std::int64_t above, std::int64_t, std::int64_t room) {
          limit = {most, room + above, limit.held, 0};
        });
  }

  /// With one chunk a rank: of the cuts with this largest load, keeps one whose smallest is largest.
  void level(std::int64_t largest)
  {
    std::int64_t least = *std::min_element(loads_.begin(), loads_.end());
    std::int64_t most_least = cutter_.cost(0, cutter_.layers()) / static_cast<std::int64_t>(ranks_);
    while (least < most_least) {
      std::int64_t const tried = least + (most_least - least + 1) / 2;
      for (std::size_t rank = 0; rank < ranks_; ++rank) {
        limits_[rank] = {largest, capacities_[rank], held(rank), tried};
      }
      if (cutter_.cut(mutable_span_of(first_), span_of(limits_))) {
        least = tried;
      } else {
        most_least = tried - 1;
      }
    }
    count();
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
        std::max(bound, least_load_),
        [this] { return *std::max_element(loads_.begin(), loads_.end()); },
        [](stage_limit& limit, std::int64_t load, std::int64_t others, std::int64_t room) {
          limit = {load - others, room, limit.held, 0};
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
      bool const fits = bytes_[rank] - capacities_[rank] <= allowed_;
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
      above = std::max(above, bytes_[rank] - capacities_[rank]);
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
        set_limit(limits[at], value, loads_[rank], capacities_[rank] - bytes_[rank]);
      }
    };
    static_cast<void>(
        cut_least(mutable_span_of(first_, from, ranks_ + 1), low, high, set_limits, limits));
    count();
  }

  chain_cutter cutter_;
  std::size_t ranks_;
  std::vector<std::int64_t> capacities_;  ///< of each rank
  std::span<std::int64_t const> held_;
  std::vector<std::size_t> first_;
  std::vector<std::int64_t> loads_;
  std::vector<std::int64_t> bytes_;
  std::vector<stage_limit> limits_;
  std::int64_t least_load_ = 0;  ///< no cut has less on each rank
  std::int64_t allowed_ = 0;     ///< bytes that a rank may lack in cuts that are tried
  bool for_memory_ = false;      ///< whether they are tried for fewer of these, or for less load
};

}  // namespace detail

/// A layer of a model that is cut into stages. The embedding, the head and the loss are layers too.
///
/// Units       cost: any, the same for all layers, as the time of a forward and a backward pass.
struct chain_layer {
  std::int64_t cost = 0;
  std::int64_t state_bytes = 0;       ///< weights, gradients and optimiser
  std::int64_t activation_bytes = 0;  ///< of one microbatch
};

/// The ranks of a pipeline that a chain of layers is cut for.
///
/// Shapes      most[ranks] or empty; held[ranks x chunks] or empty.
struct chain_ranks {
  std::size_t ranks = 1;
  std::size_t chunks = 1;                   ///< of each rank: stage s lies on rank s % ranks
  std::span<std::int64_t const> most = {};  ///< bytes that each rank holds; empty: no limits
  /// Microbatches whose activations a stage keeps at once; empty: one each. 1F1B without chunks
  /// keeps min(microbatches, ranks - s) on stage s.
  std::span<std::int64_t const> held = {};
};

/// Where the stages of a chain begin; makespan is the largest load of a rank.
///
/// Shapes      first[ranks x chunks + 1], loads[ranks].
/// Ensures     (1) stage s has layers first[s] to first[s + 1] - 1, one or more; first begins with 0
///                 and ends with the number of layers
///             (2) loads[r] is the cost of the layers of all stages of rank r
struct chain_cut : certified<std::int64_t> {
  std::vector<std::size_t> first;
  std::vector<std::int64_t> loads;
};

namespace detail {

/// Refuses numbers that cannot be used, and fewer layers than stages.
[[nodiscard]] inline result<void> check_chain(std::span<chain_layer const> layers,
                                              chain_ranks const& on)
{
  auto const refuse = [](std::size_t position, auto const&... pieces) {
    return fail(error_code::out_of_range, position, pieces...);
  };
  if (on.ranks == 0 || on.chunks == 0) {
    return refuse(0, "a chain is to be cut for ", counted(on.ranks, "rank"), " with ",
                  counted(on.chunks, "chunk"), " each; give at least one of both");
  }
  if (on.ranks > layers.size() || on.chunks > layers.size() / on.ranks) {
    return fail(error_code::infeasible, layers.size(), "a chain of ",
                counted(layers.size(), "layer"), " cannot be cut for ", counted(on.ranks, "rank"),
                " with ", counted(on.chunks, "chunk"),
                " each, since a stage has at least one layer; use fewer stages");
  }
  std::size_t const stages = on.ranks * on.chunks;
  if (!on.most.empty() && on.most.size() != on.ranks) {
    return refuse(on.most.size(), "most has ", counted(on.most.size(), "entry"), " for ",
                  counted(on.ranks, "rank"), "; give one for each, or none");
  }
  if (!on.held.empty() && on.held.size() != stages) {
    return refuse(on.held.size(), "held has ", counted(on.held.size(), "entry"), " for ",
                  counted(stages, "stage"), "; give one for each, or none");
  }
  std::int64_t most_held = 1;
  for (std::size_t stage = 0; stage < on.held.size(); ++stage) {
    if (on.held[stage] < 0) {
      return refuse(stage, "stage ", stage, " holds ", counted(on.held[stage], "microbatch"),
                    "; correct it");
    }
    most_held = std::max(most_held, on.held[stage]);
  }
  for (std::size_t rank = 0; rank < on.most.size(); ++rank) {
    if (on.most[rank] < 0) {
      return refuse(rank, "rank ", rank, " has ", counted(on.most[rank], "byte"), "; correct it");
    }
  }
  uint128 cost = 0;
  uint128 bytes = 0;
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max() / 2;
  for (std::size_t at = 0; at < layers.size(); ++at) {
    auto const& [own_cost, state, activation] = layers[at];
    if (std::min({own_cost, state, activation}) < 0) {
      return refuse(at, "layer ", at, " has a cost of ", own_cost, ", ", counted(state, "byte"),
                    " of state and ", activation, " of activations; none can be negative");
    }
    cost += static_cast<std::uint64_t>(own_cost);
    bytes += static_cast<std::uint64_t>(state);
    bytes += static_cast<uint128>(static_cast<std::uint64_t>(activation)) *
             static_cast<std::uint64_t>(most_held);
    if (cost > most || bytes > most) {
      return refuse(at, "layer ", at, " brings the sum of costs or bytes above 62 bits; use a ",
                    "coarser unit");
    }
  }
  return {};
}

}  // namespace detail

/// Cuts a chain of layers of unequal cost into the stages of a pipeline so that the largest load of
/// a rank is least.
///
///     cut_chain(layers, {.ranks = 4})
///
/// Stages are consecutive layers, at least one each, in the order of the chain. With several chunks
/// a rank, as interleaved 1F1B has them, stage s lies on rank s % ranks.
///
/// Ensures     (1) those of chain_cut, and no rank keeps more bytes than its most: state of its
///                 layers and activations times held of their stage
///             (2) with one chunk a rank no cut within them has a lesser makespan, and
///                 lower_bound says so. Of such cuts the smallest load is the largest that it can
///                 be; of these the last stage has as many layers as it can, then the one before,
///                 since the first stages of 1F1B keep most activations
///             (3) with several chunks all cuts are tried, as far as a budget of 2^20 goes: where it
///                 ends before, no shift of layers over the borders inside any `ranks` consecutive
///                 stages makes the largest load less, and lower_bound is the mean load, rounded up,
///                 or the costliest layer
/// Errors      infeasible: there are fewer layers than stages, or no cut keeps to most, and
///             the sentence says by how many bytes the nearest is above one, or, where not all cuts
///             could be tried, one that was found; or, with several chunks, the search gave up, and
///             says so. out_of_range: a number is negative, an array has another size, or sums are
///             above 2^62; position is its index.
/// Complexity  O(layers ranks log(sum of costs)) with one chunk; with several, times stages for each
///             sweep over them, and the budget.
/// Source      parametric search, as in A. Pinar, C. Aykanat, "Fast optimal load balancing
///             algorithms for 1D partitioning", J. Parallel Distrib. Comput. 64(8), 2004; stages of
///             different capacities ask for sets of ends instead of the furthest end.
[[nodiscard]] inline result<chain_cut> cut_chain(std::span<chain_layer const> layers,
                                                 chain_ranks const& on)
{
  if (auto checked = detail::check_chain(layers, on); !checked) {
    return tl::unexpected(checked.error());
  }
  auto const ranks = static_cast<std::int64_t>(on.ranks);
  std::int64_t total = 0;
  chain_cut plan;
  detail::chain_cutter cutter;
  for (chain_layer const& layer : layers) {
    cutter.push_back(layer.cost, layer.state_bytes, layer.activation_bytes);
    plan.lower_bound = std::max(plan.lower_bound, layer.cost);
    total += layer.cost;
  }
  plan.lower_bound = std::max(plan.lower_bound, total / ranks + (total % ranks != 0 ? 1 : 0));

  detail::chain_search search(std::move(cutter), on.ranks, on.chunks, on.most, on.held);
  std::int64_t overrun = search.fit_memory();
  plan.makespan = overrun > 0 ? total + 1 : search.least_load(plan.lower_bound);
  bool const is_proven = on.chunks == 1 || search.try_all(plan.makespan, plan.lower_bound);
  if (detail::cancel_scope::is_cancelled()) { return detail::cancelled(); }
  if (plan.makespan > total) {
    bool const is_nearest = on.chunks == 1 || (is_proven && search.lack_least(overrun));
    return fail(error_code::infeasible, 0,
                is_proven ? "no cut of " : "the search gave up: it found no cut of ",
                detail::counted(layers.size(), "layer"), " into ",
                detail::counted(on.ranks * on.chunks, "stage"), " within what ranks hold; ",
                is_nearest ? "the nearest" : "a cut that was found", " lacks ",
                detail::counted(overrun, "byte"), " on a rank, so raise most or use more ranks");
  }
  if (is_proven) { plan.lower_bound = plan.makespan; }
  if (on.chunks == 1) { search.level(plan.makespan); }
  plan.first.assign(search.first().begin(), search.first().end());
  plan.loads.assign(search.loads().begin(), search.loads().end());
  return plan;
}

/// The profile of a module whose layers do not all cost the same: its stages are cut so that the
/// costliest costs least, for every number of stages.
///
///     profile = cut_layers(profile, costs).value();  // the embedding and the head are layers too
///
/// Searches, prices, simulations and schedulers of layouts then give every stage the share of the
/// module's time that its layers cost. Its memory is that of the stage with most layers.
///
/// Shapes      costs[layers], in any unit.
/// Ensures     (1) cuts[pp - 1] are the parts of cut_chain for pp ranks
/// Errors      out_of_range: there are not as many costs as layers; cost `position` is negative or
///             brings the sum above most_cost; or all are 0.
/// Complexity  cut_chain, for each number of stages.
[[nodiscard]] inline result<module_profile> cut_layers(module_profile profile,
                                                       std::span<std::int64_t const> costs)
{
  auto const refuse = [&profile](std::size_t position, auto const&... pieces) {
    return fail(error_code::out_of_range, position, "module ", profile.name, pieces...);
  };
  if (costs.size() != profile.layers) {
    return refuse(0, " has ", detail::counted(profile.layers, "layer"),
                  ", and costs were given for ", costs.size(),
                  "; give one for each, the embedding and the head among them");
  }
  std::uint64_t sum = 0;
  std::vector<chain_layer> chain;
  for (std::size_t layer = 0; layer < costs.size(); ++layer) {
    std::int64_t const cost = costs[layer];
    if (cost < 0 || static_cast<std::uint64_t>(cost) > module_profile::most_cost - sum) {
      return refuse(layer, " has layer ", layer, " of cost ", cost,
                    ", and costs are not negative and at most 2^31 together; use a coarser unit");
    }
    sum += static_cast<std::uint64_t>(cost);
    chain.push_back({.cost = cost});
  }
  if (sum == 0) { return refuse(0, " has layers that all cost 0; give what they cost"); }
  profile.cuts.assign(costs.size(), {});
  for (std::size_t stages = 1; stages <= costs.size(); ++stages) {
    auto const cut = cut_chain(chain, {.ranks = stages});
    if (!cut) { return tl::unexpected(cut.error()); }
    for (std::size_t stage = 0; stage < stages; ++stage) {
      profile.cuts[stages - 1].push_back(
          {static_cast<std::uint32_t>(cut->first[stage + 1] - cut->first[stage]),
           static_cast<std::uint32_t>(cut->loads[stage])});
    }
  }
  return profile;
}

}  // namespace ballast::inline v0
