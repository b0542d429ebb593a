// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/parallelism/detail/dealt_times.hpp>

namespace ballast::inline v0::detail {

/// A module of one group of replicas: how long each of them takes for each microbatch.
///
/// Shapes      whole[microbatch * stride + replica]: all layers, forward and backward; sent so too:
///             what a replica sends to the module that it feeds, and received, by that module's
///             replicas and stride: what each of those receives. Both null where it takes no time.
struct group_module {
  std::uint32_t layers = 1;
  std::uint32_t pp = 1;
  std::uint32_t virtual_stages = 1;  ///< of each stage
  module_passes passes = module_passes::all;
  module_profile::stage_part const* parts =
      nullptr;  ///< [pp], where layers were cut by their costs
  std::uint32_t replicas = 1;
  time_units const* whole = nullptr;
  std::size_t stride = 1;
  time_units const* sent = nullptr;
  time_units const* received = nullptr;
  time_units const* reducing = nullptr;  ///< gradients of a stage, by its kind (stage_shares)
  std::size_t feeds = 0;                 ///< a later module; the last one's is not read
};

/// Of the replicas of a module, what the one takes that takes longest.
[[nodiscard]] inline time_units most_of(time_units const* times, group_module const& of,
                                        std::size_t microbatch)
{
  times += microbatch * of.stride;
  return *std::max_element(times, times + of.replicas);
}

/// What the module takes to hand a microbatch to the one that it feeds: as long as the replica that
/// sends or receives most of it.
[[nodiscard]] inline time_units handing_time(group_module const& from, group_module const& to,
                                             std::size_t microbatch)
{
  return std::max(most_of(from.sent, from, microbatch), most_of(from.received, to, microbatch));
}

/// The makespan of interleaved 1F1B on one group of replicas, where modules have virtual stages.
/// The schedules that were asked for last are kept.
///
/// Expects     all times of a group add up to less than 2^62.
/// Ensures     (1) layout_pipeline's end_of() for the timeline of its schedule(); no_cost where
///                 that has too many stages or tasks
///             (2) of one replica of each module, linked with each other, no more than of all
/// Complexity  O(tasks + links).
class interleaved_simulation {
 public:
  [[nodiscard]] time_units makespan(std::span<group_module const> modules,
                                    std::uint32_t microbatches)
  {
    std::vector<replicated_module> replicated;
    for (group_module const& each : modules) {
      replicated.push_back({each.pp, each.virtual_stages, each.replicas, each.feeds,
                            each.sent != nullptr, each.passes != module_passes::forward});
    }
    auto const& [graph, order, compiled] = schedule_of(std::move(replicated), microbatches);
    if (!compiled) { return no_cost; }
    pipeline_times times(microbatches, graph.stages());
    for (std::uint32_t microbatch = 0; microbatch < microbatches; ++microbatch) {
      for (std::size_t module = 0; module < modules.size(); ++module) {
        set_times(times[to_id<microbatch_id>(microbatch)], graph, modules, module, microbatch);
      }
    }
    simulate_into(timeline_, *compiled, times, span_of(order));
    time_units end = timeline_.makespan;
    for (std::size_t module = 0; module < modules.size(); ++module) {
      group_module const& own = modules[module];
      stage_shares const shares(own.layers, own.pp, own.parts);
      for (std::uint32_t replica = 0; replica < own.replicas; ++replica) {
        for (std::uint32_t stage = 0; stage < own.pp; ++stage) {
          auto const last = compiled->tasks_on(graph.rank_of(module, replica, stage)).back();
          end = std::max(end, timeline_.end[last] + own.reducing[shares.kind_of(stage)]);
        }
      }
    }
    return end;
  }

 private:
  struct known_schedule {
    replica_graph graph{{}};
    std::vector<microbatch_id> order{};
    std::optional<compiled_schedule> compiled{};
  };

  static void set_times(std::span<stage_time> row, replica_graph const& graph,
                        std::span<group_module const> modules, std::size_t module,
                        std::uint32_t microbatch)
  {
    group_module const& own = modules[module];
    std::uint32_t const parts = graph.modules()[module].parts();
    stage_shares const shares(own.layers, parts, own.parts);
    for (std::uint32_t replica = 0; replica < own.replicas; ++replica) {
      time_units const whole = own.whole[microbatch * own.stride + replica];
      for (std::uint32_t part = 0; part < parts; ++part) {
        time_units const share = shares.of(whole, shares.kind_of(part));
        time_units const forward = forward_of(share, own.passes);
        row[graph.stage_of(module, replica, part)] = {forward, share - forward};
      }
    }
    if (own.sent == nullptr) { return; }
    time_units const time = handing_time(own, modules[own.feeds], microbatch);
    std::size_t const there = graph.transfer_of(module);
    row[there].forward = time;
    if (own.passes != module_passes::forward) { row[there + 1].backward = time; }
  }

  [[nodiscard]] known_schedule const& schedule_of(std::vector<replicated_module> modules,
                                                  std::uint32_t microbatches)
  {
    for (known_schedule const& each : known_) {
      if (each.graph.modules() == modules && each.order.size() == microbatches) { return each; }
    }
    known_schedule& made = known_[next_];
    next_ = (next_ + 1) % known_.size();
    made = {replica_graph(std::move(modules))};
    for (std::uint32_t each = 0; each < microbatches; ++each) {
      made.order.push_back(to_id<microbatch_id>(each));
    }
    auto const stages = made.graph.graph();
    if (!stages) { return made; }
    auto compiled =
        compiled_schedule::make(*stages, interleaved_one_forward_one_backward{}, microbatches);
    if (compiled) { made.compiled.emplace(*std::move(compiled)); }
    return made;
  }

  std::array<known_schedule, 2> known_;  // a chain of replicas, and a group
  std::size_t next_ = 0;                 // of these to be replaced
  pipeline_timeline timeline_;
};

/// The makespan of 1F1B on one group of replicas, without tasks and waits.
///
/// With d stages behind it, a stage does forward k in slot 2 k - d and backward k in slot
/// 2 k + d + 1. What a task waits for on other ranks is then done in the slot before, by the stages
/// beside it: in each slot a stage before its forward, and those that feed it, each before its
/// backward, wait for each other and go on. Between modules all replicas wait for each
/// other so, or for a link, which begins with a microbatch when the last replica has done it and
/// the one before is over. A stage that has no backward waits for nothing behind it.
///
/// Expects     all times of a group add up to less than 2^62.
/// Ensures     (1) layout_pipeline's end_of() for the timeline of its stages() and
///                 one_forward_one_backward
///             (2) of one replica of each module, linked with each other, no more than of all
/// Complexity  O(microbatches stages).
class slot_simulation {
 public:
  [[nodiscard]] time_units makespan(std::span<group_module const> modules,
                                    std::uint32_t microbatches)
  {
    prepare(modules, microbatches);
    auto const stages = static_cast<std::int64_t>(first_meeting_.size()) - 2;  // on the longest way
    std::int64_t const count = microbatches;
    for (std::int64_t slot = 1 - stages; slot < 2 * count + stages - 1; ++slot) {
      // With `at` as many before it as there can be, a stage does forward (slot + stages - 1 - at)
      // / 2, and those that feed it backward (slot - 1 - stages + at) / 2.
      std::int64_t const offset = slot + stages - 1;
      std::int64_t const end = slot - 1 - stages;
      for (std::int64_t at = offset % 2; at <= stages; at += 2) {
        std::int64_t const forward = offset - at;
        std::int64_t const backward = end + at;
        bool const runs_forward = forward >= 0 && forward < 2 * count;
        bool const runs_backward = backward >= 0 && backward < 2 * count;
        if (!runs_forward && !runs_backward) { continue; }
        auto const place = static_cast<std::size_t>(at);
        for (std::size_t each = first_meeting_[place]; each < first_meeting_[place + 1]; ++each) {
          meet(meetings_[each], runs_forward ? forward / 2 : none,
               runs_backward ? backward / 2 : none);
        }
      }
    }
    time_units end = 0;
    for (stage const& each : stages_) {
      auto const first = ends_.begin() + static_cast<std::ptrdiff_t>(each.first_end);
      end = std::max(end, *std::max_element(first, first + each.replicas) + each.reducing);
    }
    return end;
  }

 private:
  static constexpr std::int64_t none = -1;
  static constexpr std::size_t no_stage = ~std::size_t{0};

  struct stage {
    std::uint32_t module;
    std::uint32_t replicas;
    std::size_t first_end;      // in ends_
    std::size_t first_forward;  // in times_; the backward lies behind it
    time_units reducing;
    bool has_backward;
  };

  /// A stage and those that feed it; no stage behind the last one.
  struct meeting {
    std::size_t place;  // as many stages as can be before it
    std::size_t right;
    std::size_t first_left;  // in lefts_
    std::size_t end_left;
  };

  /// The links behind a module: when each has sent what it was given, and how long it takes for each
  /// microbatch; none, where it takes no time.
  struct link {
    time_units there = 0;
    time_units back = 0;
    std::vector<time_units> times{};
  };

  void prepare(std::span<group_module const> modules, std::uint32_t microbatches)
  {
    stages_.clear();
    links_.resize(modules.size());
    first_stage_.clear();
    microbatches_ = microbatches;
    times_.clear();
    std::size_t ends = 0;
    for (std::size_t module = 0; module < modules.size(); ++module) {
      group_module const& each = modules[module];
      links_[module].there = links_[module].back = 0;
      links_[module].times.clear();
      for (std::uint32_t own = 0; own < microbatches && each.sent != nullptr; ++own) {
        links_[module].times.push_back(handing_time(each, modules[each.feeds], own));
      }
      std::size_t const cells = std::size_t{microbatches} * each.replicas;
      std::size_t const first = times_.size();
      stage_shares const shares(each.layers, each.pp, each.parts);
      times_.resize(first + cells * 2 * shares.kinds());
      for (std::uint32_t kind = 0; kind < shares.kinds(); ++kind) {
        time_units* forward = times_.data() + first + 2 * cells * kind;
        for (std::size_t microbatch = 0; microbatch < microbatches; ++microbatch) {
          time_units const* const whole = each.whole + microbatch * each.stride;
          for (std::size_t replica = 0; replica < each.replicas; ++replica, ++forward) {
            time_units const share = shares.of(whole[replica], kind);
            forward[0] = forward_of(share, each.passes);
            forward[cells] = share - forward[0];
          }
        }
      }
      first_stage_.push_back(stages_.size());
      for (std::uint32_t own = 0; own < each.pp; ++own) {
        std::uint32_t const kind = shares.kind_of(own);
        stages_.push_back({static_cast<std::uint32_t>(module), each.replicas, ends,
                           first + 2 * cells * kind, each.reducing[kind],
                           each.passes != module_passes::forward});
        ends += each.replicas;
      }
    }
    ends_.assign(ends, 0);
    list_meetings(modules);
  }

  /// All meetings, by their places.
  void list_meetings(std::span<group_module const> modules)
  {
    depths_.assign(modules.size(), 0);  // stages from a module's first one to the end
    std::size_t deepest = 0;
    for (std::size_t module = modules.size(); module-- > 0;) {
      bool const is_last = module + 1 == modules.size();
      depths_[module] = modules[module].pp + (is_last ? 0 : depths_[modules[module].feeds]);
      deepest = std::max(deepest, depths_[module]);
    }
    meetings_.clear();
    lefts_.clear();
    for (std::size_t module = 0; module < modules.size(); ++module) {
      for (std::size_t own = 0; own < modules[module].pp; ++own) {
        std::size_t const first = lefts_.size();
        std::size_t const here = first_stage_[module] + own;
        if (own > 0) { lefts_.push_back(here - 1); }
        for (std::size_t feeder = 0; feeder < module && own == 0; ++feeder) {
          if (modules[feeder].feeds == module) { lefts_.push_back(first_stage_[feeder + 1] - 1); }
        }
        meetings_.push_back({deepest - depths_[module] + own, here, first, lefts_.size()});
      }
    }
    lefts_.push_back(stages_.size() - 1);
    meetings_.push_back({deepest, no_stage, lefts_.size() - 1, lefts_.size()});
    std::sort(meetings_.begin(), meetings_.end(), [](meeting const& a, meeting const& b) {
      return precedes(a.place, b.place, a.right, b.right);
    });
    first_meeting_.assign(deepest + 2, meetings_.size());
    for (std::size_t each = meetings_.size(); each-- > 0;) {
      first_meeting_[meetings_[each].place] = each;
    }
  }

  /// Of a stage, for a microbatch; null for none.
  [[nodiscard]] time_units const* times_of(stage const& of, bool is_backward,
                                           std::int64_t microbatch) const
  {
    if (microbatch == none || (is_backward && !of.has_backward)) { return nullptr; }
    std::size_t const row =
        static_cast<std::size_t>(microbatch) + (is_backward ? microbatches_ : 0);
    return times_.data() + of.first_forward + row * of.replicas;
  }

  /// A stage does a forward, and those that feed it a backward; they wait for each other.
  void meet(meeting const& here, std::int64_t forward, std::int64_t backward)
  {
    if (here.right == no_stage) {
      stage const& left = stages_[lefts_[here.first_left]];
      time_units const* const b = times_of(left, true, backward);
      time_units* const l = ends_.data() + left.first_end;
      for (std::uint32_t each = 0; b != nullptr && each < left.replicas; ++each) {
        l[each] += b[each];
      }
      return;
    }
    stage const& right = stages_[here.right];
    time_units* const r = ends_.data() + right.first_end;
    time_units const* const f = times_of(right, false, forward);
    if (here.end_left - here.first_left == 1 &&
        stages_[lefts_[here.first_left]].module == right.module) {
      stage const& left = stages_[lefts_[here.first_left]];
      time_units* const l = ends_.data() + left.first_end;
      time_units const* const b = times_of(left, true, backward);
      for (std::uint32_t each = 0; each < right.replicas; ++each) {
        time_units const both = std::max(l[each], r[each]);
        if (b != nullptr) { l[each] = both + b[each]; }
        if (f != nullptr) { r[each] = both + f[each]; }
      }
      return;
    }
    time_units awaited = 0;
    time_units const last_right = *std::max_element(r, r + right.replicas);
    for (std::size_t each = here.first_left; each < here.end_left; ++each) {
      time_units const sent = meet_module(stages_[lefts_[each]], last_right, forward, backward);
      awaited = std::max(awaited, sent);
    }
    for (std::uint32_t each = 0; f != nullptr && each < right.replicas; ++each) {
      r[each] = std::max(r[each], awaited) + f[each];
    }
  }

  /// The last stage of a module does a backward, which waits for the one that it feeds. Returns when
  /// that has what its forward waits for.
  [[nodiscard]] time_units meet_module(stage const& left, time_units last_right,
                                       std::int64_t forward, std::int64_t backward)
  {
    time_units const* const b = times_of(left, true, backward);
    time_units* const l = ends_.data() + left.first_end;
    time_units last_left = *std::max_element(l, l + left.replicas);
    link& own = links_[left.module];
    if (forward != none && !own.times.empty()) {
      auto const time = own.times[static_cast<std::size_t>(forward)];
      last_left = own.there = std::max(own.there, last_left) + time;
    }
    if (b != nullptr && !own.times.empty()) {
      auto const time = own.times[static_cast<std::size_t>(backward)];
      last_right = own.back = std::max(own.back, last_right) + time;
    }
    for (std::uint32_t each = 0; b != nullptr && each < left.replicas; ++each) {
      l[each] = std::max(l[each], last_right) + b[each];
    }
    return last_left;
  }

  std::uint32_t microbatches_ = 0;
  std::vector<stage> stages_;
  std::vector<std::size_t> first_stage_;  // of each module
  std::vector<std::size_t> depths_;       // of each module
  std::vector<meeting> meetings_;
  std::vector<std::size_t> first_meeting_;  // of each place
  std::vector<std::size_t> lefts_;
  std::vector<link> links_;        // behind each module
  std::vector<time_units> times_;  // of each module: forwards, backwards, of larger stages too
  std::vector<time_units> ends_;   // of the last task of each stage and replica
};

/// What the steps of one layout and one number of microbatches take, batch by batch: bounds that
/// cost more and say more, and the simulated step.
///
/// Ensures     (1) fullest_replicas() <= simulated() and chain() <= simulated()
class step_bounds {
 public:
  /// Expects     both outlive it, and times are of batches of the problem.
  step_bounds(assigned_job const& problem, dealt_times& times) : problem_(problem), times_(times) {}

  /// Takes a layout, and the virtual stages of each stage of its last module; false where it has
  /// times that cannot be simulated.
  [[nodiscard]] bool take(std::vector<chosen_layout> const& chosen, std::uint32_t microbatches,
                          std::uint32_t virtual_stages = 1)
  {
    times_.limit_memory();
    microbatches_ = microbatches;
    is_interleaved_ = false;
    groups_ = 0;
    for (chosen_layout const& each : chosen) { groups_ = std::gcd(groups_, each.layout.dp); }
    modules_.clear();
    for (std::size_t module = 0; module < chosen.size(); ++module) {
      auto const& [degree, layout] = chosen[module];
      std::size_t earlier = 0;  // modules that send to the same one
      for (std::size_t each = 0; each < module; ++each) {
        bool const is_beside = problem_.fed_by(each) == problem_.fed_by(module);
        earlier += is_beside && sends(problem_, each) ? 1U : 0U;
      }
      bool const is_last = module + 1 == chosen.size();
      std::uint32_t const parts =
          is_last ? virtual_stages : problem_.virtual_stages(module, layout.pp);
      batch_cut const cut{microbatches, groups_, layout.dp / groups_,
                          layout.is_sharded ? layout.pp * parts : 0};
      dealt_module const& dealt = times_.of(module, degree, cut);
      if (dealt.is_too_long) { return false; }
      module_profile const& profile = problem_.modules[module];
      stage_shares const shares(profile, layout.pp);
      is_interleaved_ = is_interleaved_ || parts > 1;
      modules_.push_back({&dealt,
                          cut,
                          problem_.fed_by(module),
                          earlier,
                          layout.pp,
                          parts,
                          problem_.passes[module],
                          shares,
                          {}});
      auto& reducing = modules_.back().reducing;
      for (std::uint32_t kind = 0; kind < shares.kinds(); ++kind) {
        reducing.push_back(reducing_time(problem_, module, degree, shares.layers_of(kind), layout));
        if (reducing.back() > stage_graph::longest_time) { return false; }
      }
    }
    return true;
  }

  [[nodiscard]] std::size_t modules() const noexcept { return modules_.size(); }
  [[nodiscard]] std::uint32_t groups() const noexcept { return groups_; }
  /// The largest microbatch of a replica of a module, as batches are dealt.
  [[nodiscard]] tokens largest(std::size_t module) const { return modules_[module].dealt->largest; }

  /// The longest of the modules' fullest replicas: its work on its costliest stage, virtual ones
  /// together, after the first microbatch came through the modules before it, and before the last
  /// one's gradient goes back and gradients are reduced.
  ///
  /// Complexity  O(replicas of a group).
  struct fullest {
    time_units time = 0;
    std::size_t module = 0;
  };
  [[nodiscard]] fullest fullest_replicas(std::size_t batch)
  {
    fullest longest;
    for (std::size_t module = 0; module < modules_.size(); ++module) {
      taken const& own = modules_[module];
      auto const [sum, group, replica] = own.dealt->most[batch];
      // The stage then reduces its gradients, and those of the pipeline when all is over.
      time_units const back = way_to(batch, module, group, replica, microbatches_ - 1, true);
      time_units const rest = std::max(back, own.reducing[own.shares.costliest()]);
      time_units const time =
          way_to(batch, module, group, replica, 0, false) + own.costliest_of(sum) + rest;
      if (time > longest.time) { longest = {time, module}; }
    }
    return longest;
  }

  /// Where backwards are split, in any order: no step is shorter than the work of a fullest replica
  /// and its gradients' reduction. And what it takes about: ranks idle for a third of what other
  /// stages take for a microbatch, since weights passes fill the rest.
  ///
  /// Complexity  O(modules).
  struct split_price {
    time_units least = 0;
    time_units likely = 0;
  };
  [[nodiscard]] split_price price_of_split(std::size_t batch) const
  {
    split_price price;
    time_units own_idle = 0;
    for (taken const& own : modules_) {
      time_units const sum = own.dealt->most[batch].sum;
      time_units const work = own.costliest_of(sum);
      time_units const least = work + own.reducing[own.shares.costliest()];
      price.likely += sum / microbatches_ / 3;
      if (least <= price.least) { continue; }
      price.least = least;
      own_idle = work / microbatches_ / 3;
    }
    price.likely += price.least - own_idle;
    return price;
  }

  /// The pipeline of a module's fullest replica and, of every other module, of the fullest of its
  /// group, as if no other replica were there.
  ///
  /// Complexity  O(microbatches stages of a replica + replicas).
  [[nodiscard]] time_units chain(std::size_t batch, std::size_t module)
  {
    auto const [sum, group, replica] = modules_[module].dealt->most[batch];
    met_.resize(modules_.size());
    for (std::size_t at = 0; at < modules_.size(); ++at) {
      met_[at] = at == module ? replica : fullest_of(batch, group, at);
    }
    take_parts(batch, group, true);
    return makespan();
  }

  /// What a group of replicas takes. Complexity: O(microbatches stages of the group).
  [[nodiscard]] time_units simulated(std::size_t batch, std::uint32_t group)
  {
    met_.assign(modules_.size(), 0);
    take_parts(batch, group, false);
    return makespan();
  }

  /// Tasks of a chain, or of a group.
  [[nodiscard]] std::uint64_t tasks(bool of_group) const noexcept
  {
    std::uint64_t stages = 0;
    for (taken const& each : modules_) {
      stages += std::uint64_t{each.pp} * each.virtual_stages * (of_group ? each.cut.replicas : 1);
    }
    return 2 * stages * microbatches_;
  }

 private:
  struct taken {
    dealt_module const* dealt;
    batch_cut cut;
    std::size_t feeds;
    std::size_t received;  // by the module that it feeds, which of its
    std::uint32_t pp;
    std::uint32_t virtual_stages;  // of each stage
    module_passes passes;
    stage_shares shares;
    std::vector<time_units> reducing;  // by kinds of stages

    [[nodiscard]] std::size_t cell(std::size_t batch, std::uint32_t microbatch, std::uint32_t group,
                                   std::uint32_t replica) const
    {
      std::size_t const turn = std::size_t{microbatch} * cut.groups + group;
      return batch * cut.cells() + turn * cut.replicas + replica;
    }
    /// The share of a replica's work that its costliest stage has, rounded down.
    [[nodiscard]] time_units costliest_of(time_units sum) const
    {
      return static_cast<time_units>(static_cast<uint128>(sum) *
                                     shares.cost_of(shares.costliest()) / shares.whole());
    }
  };

  [[nodiscard]] time_units makespan()
  {
    return is_interleaved_ ? interleaved_.makespan(span_of(group_), microbatches_)
                           : slots_.makespan(span_of(group_), microbatches_);
  }

  /// One replica of each module, those of met_, or all from there on.
  void take_parts(std::size_t batch, std::uint32_t group, bool is_chain)
  {
    group_.clear();
    for (std::size_t module = 0; module < modules_.size(); ++module) {
      taken const& own = modules_[module];
      dealt_module const& dealt = *own.dealt;
      std::size_t const cell = own.cell(batch, 0, group, met_[module]);
      group_module& part = group_.emplace_back();
      part.pp = own.pp;
      part.virtual_stages = own.virtual_stages;
      part.passes = own.passes;
      part.replicas = is_chain ? 1 : own.cut.replicas;
      part.whole = dealt.whole.data() + cell;
      part.stride = std::size_t{own.cut.groups} * own.cut.replicas;
      part.parts = own.shares.parts();
      part.layers = own.shares.layers();
      part.reducing = own.reducing.data();
      part.feeds = own.feeds;
      if (dealt.sent.empty()) { continue; }
      taken const& fed = modules_[own.feeds];
      part.sent = dealt.sent.data() + cell;
      part.received =
          fed.dealt->received[own.received].data() + fed.cell(batch, 0, group, met_[own.feeds]);
    }
  }

  /// The longest way of a microbatch through the modules before one of its replicas; backwards,
  /// until the first of them have reduced their gradients.
  [[nodiscard]] time_units way_to(std::size_t batch, std::size_t module, std::uint32_t group,
                                  std::uint32_t replica, std::uint32_t microbatch, bool is_backward)
  {
    ways_.resize(modules_.size());
    for (std::size_t each = 0; each <= module; ++each) {
      ways_[each].assign(modules_[each].cut.replicas, 0);
    }
    for (std::size_t each = 0; each <= module; ++each) {
      taken const& own = modules_[each];
      bool const is_fed =
          std::any_of(modules_.begin(), modules_.begin() + static_cast<std::ptrdiff_t>(each),
                      [each](taken const& other) { return other.feeds == each; });
      if (is_backward && !is_fed) {
        std::fill(ways_[each].begin(), ways_[each].end(), own.reducing[own.shares.kind_of(0)]);
      }
      if (own.feeds > module || each == module) { continue; }
      std::size_t const first = own.cell(batch, microbatch, group, 0);
      for (std::uint32_t at = 0; at < own.cut.replicas; ++at) {
        ways_[each][at] += pass_time(own, own.dealt->whole[first + at], is_backward);
      }
      bool const sends = !is_backward || own.passes != module_passes::forward;
      time_units const longest = *std::max_element(ways_[each].begin(), ways_[each].end()) +
                                 (sends ? sending(batch, each, microbatch, group) : 0);
      for (time_units& next : ways_[own.feeds]) { next = std::max(next, longest); }
    }
    return ways_[module][replica];
  }

  /// What the links behind a module take for a microbatch.
  [[nodiscard]] time_units sending(std::size_t batch, std::size_t module, std::uint32_t microbatch,
                                   std::uint32_t group) const
  {
    taken const& from = modules_[module];
    taken const& to = modules_[from.feeds];
    if (from.dealt->sent.empty()) { return 0; }
    auto const most = [&](std::vector<time_units> const& times, taken const& of) {
      auto const first =
          times.begin() + static_cast<std::ptrdiff_t>(of.cell(batch, microbatch, group, 0));
      return *std::max_element(first, first + of.cut.replicas);
    };
    return std::max(most(from.dealt->sent, from), most(to.dealt->received[from.received], to));
  }

  /// All forwards, or all backwards, of a replica.
  [[nodiscard]] static time_units pass_time(taken const& own, time_units whole, bool is_backward)
  {
    time_units sum = 0;
    stage_shares const shares =
        own.virtual_stages == 1 ? own.shares
                                : stage_shares(own.shares.layers(), own.pp * own.virtual_stages);
    for (std::uint32_t kind = 0; kind < shares.kinds(); ++kind) {
      time_units const share = shares.of(whole, kind);
      time_units const forward = forward_of(share, own.passes);
      sum += shares.stages_of(kind) * (is_backward ? share - forward : forward);
    }
    return sum;
  }

  /// Of the replicas of a module in a group, the fullest.
  [[nodiscard]] std::uint32_t fullest_of(std::size_t batch, std::uint32_t group,
                                         std::size_t module) const
  {
    taken const& own = modules_[module];
    auto const sums =
        own.dealt->sums.begin() +
        static_cast<std::ptrdiff_t>((batch * own.cut.groups + group) * own.cut.replicas);
    return static_cast<std::uint32_t>(std::max_element(sums, sums + own.cut.replicas) - sums);
  }

  assigned_job const& problem_;
  dealt_times& times_;
  std::uint32_t microbatches_ = 1;
  std::uint32_t groups_ = 1;
  bool is_interleaved_ = false;
  std::vector<taken> modules_;
  std::vector<group_module> group_;
  std::vector<std::vector<time_units>> ways_;  // of each module and replica
  std::vector<std::uint32_t> met_;  // of each module, the first replica that is looked at
  slot_simulation slots_;
  interleaved_simulation interleaved_;
};

}  // namespace ballast::inline v0::detail
