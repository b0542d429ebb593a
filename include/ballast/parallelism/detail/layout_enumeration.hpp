// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/parallelism/detail/dealt_times.hpp>

namespace ballast::inline v0::detail {

/// A parallel degree that a module can have, and what memory then asks for.
struct stage_choice {
  static constexpr std::uint64_t never = std::numeric_limits<std::uint64_t>::max();

  std::size_t degree = 0;  ///< position among the measured ones
  parallel_degree parallel{};
  bool is_sharded = false;
  std::uint32_t group = 1;         ///< its GPUs
  std::uint64_t memory_bytes = 0;  ///< of one of them
  std::uint32_t fewest_stages = 1;
  /// For each number of stages, the fewest parts into which the global batch has to be divided, for
  /// one microbatch to fit; `never` where none does.
  std::vector<std::uint64_t> least_parts{};
};

/// Which degrees and stages modules can have at all.
///
/// Expects     `memory` outlives it.
/// Complexity  O(modules degrees layers log batch + GPUs log layers) to build.
class stage_choices {
 public:
  stage_choices(assigned_job const& problem, stage_memory& memory)
      : memory_(memory), choices_(problem.modules.size())
  {
    std::uint32_t most_layers = 1;
    std::uint32_t largest_kind = 1;
    for (std::size_t module = problem.modules.size(); module-- > 0;) {
      module_profile const& profile = problem.modules[module];
      gpu_kind const& kind = problem.kind(module);
      most_layers = std::max(most_layers, profile.layers);
      largest_kind = std::max(largest_kind, kind.gpus);
      for (std::size_t degree = 0; degree < profile.degrees.size(); ++degree) {
        parallel_degree const parallel = degree_of(profile.degrees[degree]);
        auto const group = static_cast<std::uint32_t>(parallel.gpus());
        if (group > kind.gpus || kind.gpus_per_node % group != 0) { continue; }
        for (bool const is_sharded : problem.shardings(module)) {
          stage_choice choice{
              degree, parallel, is_sharded, group, kind.memory_bytes, 0, {stage_choice::never}};
          for (std::uint32_t pp = 1; pp <= profile.layers; ++pp) {
            std::uint64_t parts = 0;
            module_layout const most = layout_at(parallel, pp, kind.gpus / group / pp, is_sharded);
            if (most.dp > 0 &&
                has_virtual_stages(profile, most, problem.virtual_stages(module, pp))) {
              tokens const largest =
                  memory.largest_size(kind.memory_bytes, module, degree, most, 1);
              parts = memory.least_parts(module, largest);
            }
            choice.least_parts.push_back(parts == 0 ? stage_choice::never : parts);
            if (parts != 0 && choice.fewest_stages == 0) { choice.fewest_stages = pp; }
          }
          if (choice.fewest_stages != 0) { choices_[module].push_back(choice); }
        }
      }
    }
    divisors_.fill(std::size_t{largest_kind} + 1, [&](auto const& visit) {
      for (std::uint32_t divisor = 1; divisor <= std::min(most_layers, largest_kind); ++divisor) {
        for (std::size_t number = divisor; number <= largest_kind; number += divisor) {
          visit(number, divisor);
        }
      }
    });
  }

  [[nodiscard]] std::vector<stage_choice> const& of(std::size_t module) const noexcept
  {
    return choices_[module];
  }

  /// The fewest parts into which the batch has to be divided, where `held` microbatches are kept.
  [[nodiscard]] std::uint64_t least_parts(std::size_t module, stage_choice const& choice,
                                          std::uint32_t pp, std::uint32_t dp,
                                          std::uint64_t held) const
  {
    tokens const largest =
        memory_.largest_size(choice.memory_bytes, module, choice.degree,
                             layout_at(choice.parallel, pp, dp, choice.is_sharded), held);
    std::uint64_t const parts = memory_.least_parts(module, largest);
    return parts == 0 ? stage_choice::never : parts;
  }

  /// The divisors of a number of GPUs that can be numbers of stages, ascending.
  [[nodiscard]] std::span<std::uint32_t const> divisors(std::uint64_t number) const noexcept
  {
    return divisors_[std::size_t{number}];
  }

 private:
  stage_memory& memory_;
  std::vector<std::vector<stage_choice>> choices_;  // of each module
  jagged<std::size_t, std::uint32_t> divisors_;     // of each number of GPUs
};

/// All layouts that fit and whose replicas have no more work than a limit.
///
/// The work of a module on its costliest stage is divided among its replicas, so the fullest has
/// that over dp at least, however samples are dealt, and reduces its gradients then. That bounds a
/// step from below for every number of microbatches. Modules are placed from the last to the first,
/// since what a stage holds depends on the stages after it; the first takes the GPUs that are left,
/// and none gets fewer than its work needs within the limit.
class layout_enumeration {
 public:
  /// Expects     all outlive it.
  layout_enumeration(assigned_job const& problem, dealt_times& times, stage_memory& memory,
                     layout_limits const& limits)
      : problem_(problem),
        limits_(limits),
        most_gpus_(limits.most_gpus ? limits.most_gpus(problem.assigned)
                                    : std::vector<std::uint64_t>()),
        batches_(times.batches()),
        choices_(problem, memory),
        work_(problem.modules.size()),
        chosen_(problem.modules.size()),
        others_(problem.modules.size() + 1),
        held_(problem.modules.size())
  {
    for (std::size_t module = 0; module < problem.modules.size(); ++module) {
      for (std::size_t degree = 0; degree < problem.modules[module].degrees.size(); ++degree) {
        degree_work& work = work_[module].emplace_back();
        work.of_batch = times.least_work(module, degree);
        for (time_units const each : work.of_batch) { work.all += static_cast<uint128>(each); }
      }
    }
  }

  /// No step is shorter, whatever the layout: the GPUs of a kind divide the work of its modules
  /// evenly. no_cost where a module has no layout.
  [[nodiscard]] time_units least_step() const
  {
    std::vector<uint128> gpu_time(problem_.kinds.size(), 0);
    for (std::size_t module = 0; module < work_.size(); ++module) {
      if (choices_.of(module).empty()) { return no_cost; }
      uint128 least = ~uint128{0};
      for (stage_choice const& choice : choices_.of(module)) {
        least = std::min(least, work_[module][choice.degree].all * choice.group);
      }
      gpu_time[problem_.assigned[module]] += least;
    }
    uint128 step = 0;
    for (std::size_t kind = 0; kind < gpu_time.size(); ++kind) {
      uint128 const gpus = problem_.kinds[kind].gpus;
      step = std::max(step, gpu_time[kind] / (gpus * batches_));
    }
    return static_cast<time_units>(std::min(step, static_cast<uint128>(no_cost)));
  }

  /// A step of the layout is no shorter, for any number of microbatches and however the samples of
  /// each batch are dealt.
  [[nodiscard]] time_units bound_of(std::vector<chosen_layout> const& chosen) const
  {
    uint128 sum = 0;
    for (std::size_t batch = 0; batch < batches_; ++batch) {
      uint128 longest = 0;
      for (std::size_t module = 0; module < chosen.size(); ++module) {
        auto const& [degree, layout] = chosen[module];
        module_profile const& profile = problem_.modules[module];
        stage_shares const shares(profile, layout.pp);
        std::uint32_t const costliest = shares.costliest();
        uint128 const work = static_cast<uint128>(work_[module][degree].of_batch[batch]) *
                             shares.cost_of(costliest) /
                             (static_cast<uint128>(shares.whole()) * layout.dp);
        time_units const reducing =
            reducing_time(problem_, module, degree, shares.layers_of(costliest), layout);
        longest = std::max(longest, work + static_cast<uint128>(reducing));
      }
      sum += longest;
    }
    return static_cast<time_units>(
        std::min(divided_up(sum, batches_), static_cast<uint128>(no_cost - 1)));
  }

  /// The numbers of microbatches with which a layout may fit.
  struct counts {
    std::uint64_t least;   ///< with fewer, not even one microbatch does
    std::uint64_t steady;  ///< from it on it fits: a stage may keep as many as are on their way
    std::uint64_t most;
  };

  /// Calls found(chosen, bound, counts) for every layout with a bound up to the limit, until
  /// found() returns false or the budget is spent. Returns whether it has called it for all.
  template <class Found>
  [[nodiscard]] bool within(time_units limit, work_budget& budget, Found const& found)
  {
    limit_ = (static_cast<uint128>(limit) + 1) * batches_;  // roundings are less than 1 a batch
    left_.clear();
    for (gpu_kind const& kind : problem_.kinds) { left_.push_back(kind.gpus); }
    std::vector<std::uint64_t> before(problem_.kinds.size(), 0);
    for (std::size_t module = 0; module < chosen_.size(); ++module) {
      std::uint64_t& others = before[problem_.assigned[module]];
      others_[module] = others;
      std::uint64_t fewest = ~std::uint64_t{0};
      for (stage_choice const& choice : choices_.of(module)) {
        for (std::uint32_t pp = choice.fewest_stages; pp < choice.least_parts.size(); ++pp) {
          if (choice.least_parts[pp] == stage_choice::never) { continue; }
          fewest =
              std::min(fewest, std::uint64_t{choice.group} * pp * least_dp(module, choice, pp));
        }
      }
      std::uint64_t const most = std::uint64_t{problem_.kind(module).gpus} + 1;
      others = std::min(others + std::min(fewest, most), most);
    }
    auto const keep = [&](counts const& fitting) {
      layouts_.clear();
      for (chosen_layout const& each : chosen_) { layouts_.push_back(each.layout); }
      if (!fits_kinds(problem_, span_of(layouts_))) { return true; }
      constexpr std::uint64_t bounding = 16;  // as much work as so many tasks
      budget.spend(bounding * chosen_.size() * (batches_ + 2));
      time_units const bound = bound_of(chosen_);
      return bound > limit || found(chosen_, bound, fitting);
    };
    return place(problem_.modules.size(), {1, 1, 0}, budget, keep);
  }

 private:
  static constexpr std::uint64_t fitting_once = 16;  // as much work as so many tasks

  struct degree_work {
    std::vector<time_units> of_batch{};
    uint128 all = 0;
  };
  /// The fewest replicas with which the costliest stage's work keeps to the limit.
  [[nodiscard]] std::uint64_t least_dp(std::size_t module, stage_choice const& choice,
                                       std::uint32_t pp) const
  {
    stage_shares const shares(problem_.modules[module], pp);
    uint128 const costliest = work_[module][choice.degree].all * shares.cost_of(shares.costliest());
    uint128 const least = divided_up(costliest, limit_ * shares.whole());
    return static_cast<std::uint64_t>(
        std::clamp(least, uint128{1}, static_cast<uint128>(problem_.kind(module).gpus) + 1));
  }

  /// Whether a module fits with some number of microbatches that is less than the `held` that are
  /// kept of more.
  [[nodiscard]] bool fits_few(std::size_t module, stage_choice const& choice, std::uint32_t pp,
                              std::uint32_t dp, std::uint64_t held, counts const& allowed) const
  {
    for (std::uint64_t few = allowed.least; few <= allowed.most && few < held; ++few) {
      if (choices_.least_parts(module, choice, pp, dp, few) <= few * dp) { return true; }
    }
    return false;
  }

  /// Places the modules before `end` on the GPUs that are left.
  template <class Keep>
  [[nodiscard]] bool place(std::size_t end, counts allowed, work_budget& budget, Keep const& keep)
  {
    std::size_t const module = end - 1;
    bool const is_last = end == problem_.modules.size();
    std::uint64_t& left = left_[problem_.assigned[module]];
    std::uint32_t const layers = problem_.modules[module].layers;
    std::uint32_t const wanted = wanted_stages(limits_, is_last);
    // Of all modules, where they have one group and dp.
    std::uint32_t const group =
        limits_.has_one_group && !is_last ? chosen_.back().layout.group() : 0;
    std::uint32_t const same_dp = group == 0 ? 0 : chosen_.back().layout.dp;
    for (stage_choice const& choice : choices_.of(module)) {
      bool const has_group = (group == 0 || choice.group == group) &&
                             (limits_.group == 0 || choice.group == limits_.group);
      if (!has_group) { continue; }
      bool const is_shared = choice.is_sharded || problem_.state.is_optimizer_shared;
      auto const place_with = [&](std::uint32_t pp, std::uint64_t least_replicas,
                                  std::uint64_t most_replicas) {
        if (wanted != 0 && pp != wanted) { return true; }
        if (same_dp != 0) {
          least_replicas = std::max<std::uint64_t>(least_replicas, same_dp);
          most_replicas = std::min<std::uint64_t>(most_replicas, same_dp);
        }
        if (!most_gpus_.empty()) {
          most_replicas = std::min(most_replicas, most_gpus_[module] / choice.group / pp);
        }
        std::uint64_t const held = pp + (is_last ? 0 : held_[problem_.fed_by(module)]);
        held_[module] = held;
        std::uint64_t parts = choice.least_parts[pp];
        if (least_replicas > most_replicas || parts == stage_choice::never) { return true; }
        std::uint64_t all_parts = choices_.least_parts(module, choice, pp, 1, held);
        if (is_last) {
          most_replicas = std::min<std::uint64_t>(most_replicas, problem_.global_batch);
        }
        for (std::uint64_t dp = least_replicas; dp <= most_replicas; ++dp) {
          budget.spend(is_shared ? 2 * fitting_once : 2);
          if (budget.spent()) { return false; }
          auto const replicas = static_cast<std::uint32_t>(dp);
          if (is_shared) {  // then memory depends on the replicas
            parts = choices_.least_parts(module, choice, pp, replicas, 1);
            all_parts = choices_.least_parts(module, choice, pp, replicas, held);
            if (parts == stage_choice::never) { continue; }
          }
          counts now = allowed;
          if (is_last) { now.most = problem_.global_batch / dp; }
          now.least = std::max(now.least, static_cast<std::uint64_t>(divided_up(parts, dp)));
          now.steady =
              std::max(now.steady, all_parts == stage_choice::never
                                       ? all_parts
                                       : static_cast<std::uint64_t>(divided_up(all_parts, dp)));
          if (now.least > now.most) { continue; }
          if (now.steady > now.most && !fits_few(module, choice, pp, replicas, held, now)) {
            budget.spend(fitting_once * held);
            continue;
          }
          chosen_[module] = {choice.degree,
                             layout_at(choice.parallel, pp, replicas, choice.is_sharded)};
          std::uint64_t const own = chosen_[module].layout.gpus();
          left -= own;
          bool const is_whole = module == 0 ? keep(now) : place(module, now, budget, keep);
          left += own;
          if (!is_whole) { return false; }
        }
        return true;
      };
      if (problem_.is_first_of_kind(module) && !problem_.may_leave_gpus) {
        if (left % choice.group != 0) { continue; }
        std::uint64_t const chains = left / choice.group;
        for (std::uint32_t const pp : choices_.divisors(chains)) {
          if (pp < choice.fewest_stages || pp > layers) { continue; }
          std::uint64_t const dp = chains / pp;
          if (dp >= least_dp(module, choice, pp) && !place_with(pp, dp, dp)) { return false; }
        }
        continue;
      }
      if (others_[module] >= left) { return true; }
      for (std::uint32_t pp = choice.fewest_stages; pp <= layers; ++pp) {
        std::uint64_t const most = (left - others_[module]) / (std::uint64_t{choice.group} * pp);
        if (!place_with(pp, least_dp(module, choice, pp), most)) { return false; }
      }
    }
    return true;
  }

  assigned_job const& problem_;
  layout_limits const& limits_;
  std::vector<std::uint64_t> most_gpus_;  // of each module; none: all
  std::size_t batches_;
  stage_choices choices_;
  std::vector<std::vector<degree_work>> work_;  // of each module and degree
  std::vector<chosen_layout> chosen_;
  std::vector<module_layout> layouts_;
  std::vector<std::uint64_t> left_;    // GPUs of each kind
  std::vector<std::uint64_t> others_;  // the fewest of its kind of the modules before each
  std::vector<std::uint64_t> held_;    // stages from each module's first one to the end
  uint128 limit_ = 0;                  // of the work of all batches
};

/// Layouts in the order of their bounds, as layout_enumeration finds them, a part at a time.
class layout_list {
 public:
  struct entry {
    time_units bound;
    std::size_t first;  // in all_chosen_
    std::uint32_t least;
    std::uint32_t steady;
    std::uint32_t most;
    std::uint32_t likely = 0;          ///< microbatches of the shortest likely step; 0: none fits
    time_units likely_step = no_cost;  ///< with these
    bool is_tried = false;             ///< with these
  };

  /// Expects     the prices outlive it.
  layout_list(assigned_job const& problem, layout_prices& prices, time_units least_step)
      : modules_(problem.modules.size()),
        is_interleaved_(std::any_of(problem.roles.begin(), problem.roles.end(),
                                    [](auto const& role) { return role.virtual_stages > 1; })),
        prices_(prices),
        least_step_(least_step),
        beyond_(least_step / 4096 + 1)
  {}

  [[nodiscard]] std::size_t size() const noexcept { return entries_.size(); }
  [[nodiscard]] entry& operator[](std::size_t at) { return entries_[at]; }
  /// All layouts with a bound up to it are listed.
  [[nodiscard]] time_units listed_upto() const noexcept { return listed_upto_; }
  [[nodiscard]] bool is_cut_short() const noexcept { return is_cut_short_; }
  /// No layout has a bound below it, nor below `least`.
  [[nodiscard]] time_units first_bound(time_units least) const
  {
    return is_cut_short_ || entries_.empty() ? std::max(least, listed_upto_) : entries_[0].bound;
  }

  void read(std::size_t at, std::vector<chosen_layout>& chosen) const
  {
    auto const first = all_chosen_.begin() + static_cast<std::ptrdiff_t>(entries_[at].first);
    chosen.assign(first, first + static_cast<std::ptrdiff_t>(modules_));
  }

  /// Lists those with a bound above listed_upto() and up to another, which moves away from the least
  /// step by doubling and ends at the limit. Returns whether it could: not where they are too many
  /// or the budget is spent. Where not even the first part is whole, what there is of it is listed
  /// until it is called again.
  [[nodiscard]] bool extend(layout_enumeration& all, time_units limit, work_budget& budget)
  {
    if (std::exchange(is_cut_short_, false)) {
      entries_.clear();
      all_chosen_.clear();
      estimated_ = 0;
    }
    // Far above the bound there are not as many layouts as wanted: then take all.
    bool const is_last =
        beyond_ / 1024 >= least_step_ || beyond_ >= (no_cost - 1 - least_step_) / 2;
    time_units const next = is_last ? no_cost - 1 : least_step_ + beyond_;
    time_units upto = std::min(std::max(next, listed_upto_ + 1), limit);
    while (!append(all, upto, budget)) {
      // Too many at once: fewer first, if there is room for them and the budget is not spent.
      bool const is_half_full = size() > most / 2;
      if (budget.spent() || is_half_full || upto - listed_upto_ <= 1) { return false; }
      upto = listed_upto_ + (upto - listed_upto_) / 2;
    }
    beyond_ = is_last ? beyond_ : 2 * beyond_;
    listed_upto_ = upto;
    return true;
  }

  /// Whether a layout, as read() has it, fits. With fewer microbatches than are on their way stages
  /// keep no more than there are.
  [[nodiscard]] bool fits(entry const& layout, std::vector<chosen_layout> const& chosen,
                          std::uint32_t count)
  {
    if (!is_interleaved_) {
      if (count >= layout.steady) { return true; }
      std::uint64_t stages = 0;
      for (chosen_layout const& each : chosen) { stages += each.layout.pp; }
      if (count >= stages) { return false; }
    }
    (void)prices_.bytes(chosen, count);
    return prices_.suffices();
  }

  /// Finds with which number of microbatches the first `end` layouts have the shortest likely step,
  /// or fewer of them where the budget is spent before.
  void estimate(std::size_t end, work_budget& budget)
  {
    constexpr std::uint64_t pricing = 64;  // as much work as so many tasks
    for (; estimated_ < end && !budget.spent(); ++estimated_) {
      entry& layout = entries_[estimated_];
      read(estimated_, chosen_);
      std::uint64_t priced = 0;
      auto const look_at = [&](std::uint32_t count) {
        ++priced;
        if (!fits(layout, chosen_, count)) { return; }
        time_units const step = prices_.likely_step(chosen_, count);
        if (step < layout.likely_step) {
          layout.likely_step = step;
          layout.likely = count;
        }
      };
      // The first few, then some of each size, then those beside the best of these.
      std::uint32_t gap = 1;
      for (std::uint64_t count = layout.least; count <= layout.most; count += gap) {
        gap = static_cast<std::uint32_t>(1 + (count - layout.least) / 8);
        look_at(static_cast<std::uint32_t>(count));
      }
      for (std::uint32_t around = layout.likely; around != 0 && gap > 1;) {
        gap = (gap + 1) / 2;
        around = layout.likely;
        if (around - layout.least >= gap) { look_at(around - gap); }
        if (layout.most - around >= gap) { look_at(around + gap); }
      }
      shortest_likely_ = std::min(shortest_likely_, layout.likely_step);
      budget.spend(priced * modules_ * prices_.times.samples() * pricing);
    }
  }
  [[nodiscard]] std::size_t estimated() const noexcept { return estimated_; }
  [[nodiscard]] time_units shortest_likely() const noexcept { return shortest_likely_; }

 private:
  static constexpr std::size_t most = std::size_t{1} << 20;  // some 100 MB

  /// Appends those up to a bound; false, and none, where they are too many or the budget is spent.
  [[nodiscard]] bool append(layout_enumeration& all, time_units upto, work_budget& budget)
  {
    std::size_t const size = entries_.size();
    auto const keep = [&](std::vector<chosen_layout> const& chosen, time_units bound,
                          layout_enumeration::counts const& fitting) {
      if (bound <= listed_upto_) { return true; }
      if (entries_.size() >= most) { return false; }
      entries_.push_back({bound, all_chosen_.size(), static_cast<std::uint32_t>(fitting.least),
                          static_cast<std::uint32_t>(std::min(fitting.steady, fitting.most + 1)),
                          static_cast<std::uint32_t>(fitting.most)});
      all_chosen_.insert(all_chosen_.end(), chosen.begin(), chosen.end());
      return true;
    };
    bool const is_whole = all.within(upto, budget, keep);
    is_cut_short_ = !is_whole && size == 0 && budget.spent();
    if (!is_whole && !is_cut_short_) {
      entries_.resize(size);
      all_chosen_.resize(size * modules_);
      return false;
    }
    std::sort(entries_.begin() + static_cast<std::ptrdiff_t>(size), entries_.end(),
              [](entry const& a, entry const& b) {
                return precedes(a.bound, b.bound, a.first, b.first);
              });
    return is_whole;
  }

  std::size_t modules_;
  bool is_interleaved_;
  layout_prices& prices_;
  time_units least_step_;
  time_units beyond_;  // the least step, which the next part has bounds up to
  time_units listed_upto_ = -1;
  std::vector<entry> entries_;
  std::vector<chosen_layout> all_chosen_;  // modules_ for each
  std::vector<chosen_layout> chosen_;      // of the one that is estimated
  bool is_cut_short_ = false;              // the budget ended before even the first part was listed
  std::size_t estimated_ = 0;
  time_units shortest_likely_ = no_cost - 1;
};

}  // namespace ballast::inline v0::detail
