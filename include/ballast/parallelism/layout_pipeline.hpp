// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/parallelism/detail/layout_prices.hpp>
#include <ballast/pipeline/schedule_policies.hpp>
#include <ballast/pipeline/simulate.hpp>

namespace ballast::inline v0 {

namespace detail {

/// A module of a group of replicas: the stages of each, the virtual ones of each stage, and the
/// module that it feeds, and whether what it gives to that takes time.
struct replicated_module {
  std::uint32_t pp = 1;
  std::uint32_t virtual_stages = 1;
  std::uint32_t replicas = 1;
  std::size_t feeds = 0;  ///< a later module; the last one's is not read
  bool sends = false;
  bool has_backward = true;  ///< else it only computes forward, and gets no gradient
  bool splits = false;       ///< its backwards, into gradients of inputs and of weights
  bool is_v = false;         ///< the stages of a replica go up its ranks and down again

  /// Stages that are transfers: what is handed on and, where there is a gradient, back.
  [[nodiscard]] std::uint32_t ways() const noexcept { return has_backward ? 2 : 1; }
  /// Stages of the graph that a replica has.
  [[nodiscard]] std::uint32_t parts() const noexcept { return pp * virtual_stages; }
  /// The rank of a part, counted in its replica.
  [[nodiscard]] std::uint32_t rank_of(std::uint32_t part) const noexcept
  {
    return is_v && part >= pp ? parts() - 1 - part : part % pp;
  }

  friend bool operator==(replicated_module const&, replicated_module const&) = default;
};

/// The stages of a group: module after module, replica after replica, and those of a replica dealt
/// to its ranks in turn; behind a module its transfers, where they take time, each on a rank of its
/// own.
///
/// A sample may be at any replica of each module, so all last stages of a module feed all first ones
/// of the next, or its transfers do.
///
/// Expects     the parts of a module are below 2^32.
class replica_graph {
 public:
  explicit replica_graph(std::vector<replicated_module> modules) : modules_(std::move(modules))
  {
    std::size_t rank = 0;
    for (replicated_module const& each : modules_) {
      std::size_t const transfers = each.sends ? each.ways() : 0;
      places_.push_back({stages_, rank});
      stages_ += std::size_t{each.replicas} * each.parts() + transfers;
      rank += std::size_t{each.replicas} * each.pp + transfers;
    }
  }

  [[nodiscard]] std::vector<replicated_module> const& modules() const noexcept { return modules_; }
  [[nodiscard]] std::size_t stages() const noexcept { return stages_; }

  [[nodiscard]] std::size_t stage_of(std::size_t module, std::uint32_t replica,
                                     std::uint32_t part) const
  {
    return places_[module].stage + std::size_t{replica} * modules_[module].parts() + part;
  }

  [[nodiscard]] pipeline_rank rank_of(std::size_t module, std::uint32_t replica,
                                      std::uint32_t stage) const
  {
    return to_id<pipeline_rank>(places_[module].rank + std::size_t{replica} * modules_[module].pp +
                                stage);
  }

  /// The stage behind a module that sends; the next one sends gradients back.
  [[nodiscard]] std::size_t transfer_of(std::size_t module) const
  {
    return stage_of(module, modules_[module].replicas, 0);
  }

  /// Errors   those of stage_graph::make.
  [[nodiscard]] result<stage_graph> graph() const
  {
    std::vector<pipeline_stage> stages(std::min(stages_, stage_graph::most_stages + 1));
    std::vector<stage_link> links;
    for (std::size_t module = 0; module < modules_.size() && stages_ == stages.size(); ++module) {
      replicated_module const& own = modules_[module];
      for (std::uint32_t replica = 0; replica < own.replicas; ++replica) {
        for (std::uint32_t part = 0; part < own.parts(); ++part) {
          std::size_t const stage = stage_of(module, replica, part);
          stages[stage] = {.rank = rank_of(module, replica, own.rank_of(part)),
                           .backward = own.has_backward,
                           .weights = own.splits};
          if (part > 0) { links.push_back(link(stage - 1, stage)); }
        }
      }
      if (module + 1 < modules_.size()) { link_next(module, stages, links); }
    }
    return stage_graph::make(std::move(stages), links);
  }

 private:
  struct place {
    std::size_t stage;
    std::size_t rank;
  };

  [[nodiscard]] static stage_link link(std::size_t from, std::size_t to)
  {
    return {to_id<stage_id>(from), to_id<stage_id>(to)};
  }

  void link_next(std::size_t module, std::vector<pipeline_stage>& stages,
                 std::vector<stage_link>& links) const
  {
    replicated_module const& own = modules_[module];
    auto const link_all_from = [&](std::size_t stage) {
      for (std::uint32_t other = 0; other < modules_[own.feeds].replicas; ++other) {
        links.push_back(link(stage, stage_of(own.feeds, other, 0)));
      }
    };
    std::size_t const there = own.sends ? transfer_of(module) : 0;
    for (std::uint32_t each = 0; each < own.replicas; ++each) {
      std::size_t const last = stage_of(module, each, own.parts() - 1);
      if (!own.sends) {
        link_all_from(last);
        continue;
      }
      for (std::uint32_t way = 0; way < own.ways(); ++way) {
        links.push_back(link(last, there + way));
      }
    }
    if (!own.sends) { return; }
    for (std::uint32_t way = 0; way < own.ways(); ++way) {
      stages[there + way] = {rank_of(module, own.replicas, way), way == 1, model_part::transfer};
      link_all_from(there + way);
    }
  }

  std::vector<replicated_module> modules_;
  std::vector<place> places_;  // the first of each module
  std::size_t stages_ = 0;
};

}  // namespace detail

/// The pipelines of a layout: replicas fall into groups that exchange nothing with each other, as
/// many as the greatest common divisor of all dp, and each group is one pipeline of all its stages.
///
/// What a module hands to the next goes over a link of its own, microbatch after
/// microbatch, and gradients come back over another: two stages that are transfers. A microbatch
/// takes as long on it as the replica that sends or receives most.
///
/// Where the layout's schedule splits backwards, stages have weights passes and times have theirs: the
/// share that the profile says of what products with weights take.
///
/// Expects     the layout is one that price_layout accepts.
class layout_pipeline {
 public:
  layout_pipeline(layout_problem const& problem, model_layout const& layout)
      : problem_(problem, layout),
        layout_(layout),
        chosen_(detail::chosen_of(problem_, layout)),
        groups_(groups_of(layout)),
        graph_(replicated(problem_, layout, groups_))
  {
    for (std::size_t module = 0; module < modules(); ++module) {
      gathers_.push_back(
          detail::gathers_of(problem_, module, degree_at(module), layout_.modules[module]));
    }
    if (layout_.schedule == layout_schedule::whole_backwards) { return; }
    detail::stage_memory const memory(problem_);
    for (std::size_t module = 0; module < modules(); ++module) {
      states_.push_back(memory.state(module, degree_at(module), layout_.modules[module]));
    }
  }

  [[nodiscard]] std::uint32_t groups() const noexcept { return groups_; }

  /// The stages of one group, each on a rank of its own, or as many as its virtual ones: module
  /// after module, replica after replica; behind a module its transfers, where they take time.
  [[nodiscard]] result<stage_graph> stages() const { return graph_.graph(); }

  /// The schedule of one group: 1F1B, interleaved where stages have virtual ones, or what another
  /// policy makes of its stages, whatever the layout's schedule.
  ///
  /// Errors      those of stage_graph::make and compiled_schedule::make.
  template <schedule_policy Schedule = interleaved_one_forward_one_backward>
  [[nodiscard]] result<compiled_schedule> schedule(Schedule const& policy = {}) const
  {
    auto const all = stages();
    if (!all) { return tl::unexpected(all.error()); }
    return compiled_schedule::make(*all, policy, layout_.microbatches);
  }

  /// How long the stages of one group take for its part of a batch, as if it were alone. Shapes:
  /// batch[samples x modules].
  [[nodiscard]] pipeline_times times(std::span<tokens const> batch, std::uint32_t group) const
  {
    std::size_t const samples = batch.size() / modules();
    std::uint64_t const microbatches = layout_.microbatches;
    std::vector<sample_id> ids(samples);
    for (std::size_t sample = 0; sample < samples; ++sample) {
      ids[sample] = to_id<sample_id>(sample);
    }
    return times_of(batch,
                    [&](std::size_t module, std::uint64_t replica, std::uint64_t microbatch) {
                      // What the group computes at this turn, all its replicas together.
                      std::uint64_t const turn = microbatch * groups_ + group;
                      std::size_t const begin = samples * turn / (microbatches * groups_);
                      std::size_t const end = samples * (turn + 1) / (microbatches * groups_);
                      std::uint64_t const all = replicas(module);
                      std::size_t const first = begin + (end - begin) * replica / all;
                      std::size_t const last = begin + (end - begin) * (replica + 1) / all;
                      return detail::span_of(ids, first, last - first);
                    });
  }

  /// The same, where samples_of(module, replica of the group, microbatch) is a range of the
  /// sample_ids that are computed there.
  template <class SamplesOf>
  [[nodiscard]] pipeline_times times_of(std::span<tokens const> batch,
                                        SamplesOf const& samples_of) const
  {
    pipeline_times times(layout_.microbatches, graph_.stages());
    if (layout_.schedule != layout_schedule::whole_backwards) {
      times.weights.assign(times.rows.size(), 0);
    }
    for (std::uint32_t microbatch = 0; microbatch < layout_.microbatches; ++microbatch) {
      std::span<stage_time> const row = times[to_id<microbatch_id>(microbatch)];
      for (std::size_t module = 0; module < modules(); ++module) {
        for (std::uint32_t replica = 0; replica < replicas(module); ++replica) {
          packed_samples packed(*this, module, replica);
          auto const& samples = samples_of(module, replica, microbatch);
          for (sample_id const sample : samples) {
            packed.add(batch[to_index(sample) * modules() + module]);
          }
          set_times(times, microbatch, module, replica, packed);
          send(row, module, module, replica, packed.size());
          for (std::size_t feeder = 0; feeder < module; ++feeder) {
            if (problem_.fed_by(feeder) != module) { continue; }
            tokens received = 0;
            for (sample_id const sample : samples) {
              received += batch[to_index(sample) * modules() + feeder];
            }
            send(row, feeder, module, replica, received);
          }
        }
      }
    }
    wait_for_gathers({&times, 1});
    return times;
  }

  /// What microbatches keep on the stages of one group, and how much its ranks may: what their state
  /// leaves. A microbatch of a module counts for no more than `largest` of it; samples_of is as in
  /// times_of().
  ///
  /// Shapes      largest[modules].
  /// Expects     the layout's schedule splits backwards.
  /// Ensures     (1) bytes are those of the module's fullest stage
  template <class SamplesOf>
  [[nodiscard]] pipeline_memory memory_of(std::span<tokens const> batch,
                                          SamplesOf const& samples_of,
                                          std::span<tokens const> largest) const
  {
    pipeline_memory memory;
    memory.held.resize(layout_.microbatches * graph_.stages());
    memory.most.reserve(graph_.stages());
    for (std::size_t module = 0; module < modules(); ++module) {
      detail::replicated_module const& own = graph_.modules()[module];
      module_profile const& profile = problem_.modules[module];
      module_memory const& measured = profile.degrees[degree_at(module)].memory;
      std::uint32_t const layers =
          own.has_backward ? detail::stage_shares(profile, own.pp).most_layers() : 1;
      std::uint64_t const there = problem_.kind(module).memory_bytes;
      memory.most.resize(memory.most.size() + std::size_t{own.replicas} * own.pp,
                         there - std::min(there, states_[module]));
      if (own.sends) { memory.most.resize(memory.most.size() + own.ways(), 0); }
      for (std::uint32_t microbatch = 0; microbatch < layout_.microbatches; ++microbatch) {
        for (std::uint32_t replica = 0; replica < own.replicas; ++replica) {
          tokens size = 0;
          for (sample_id const sample : samples_of(module, replica, microbatch)) {
            size += batch[to_index(sample) * modules() + module];
          }
          uint128 const all = measured.activations(layers, std::min(size, largest[module]));
          uint128 const bytes =
              own.has_backward ? detail::divided_up(all, own.virtual_stages) : all;
          auto const kept = detail::divided_up(bytes * profile.held_percent, 100);
          for (std::uint32_t part = 0; part < own.parts(); ++part) {
            memory.held[microbatch * graph_.stages() + graph_.stage_of(module, replica, part)] = {
                static_cast<std::uint64_t>(bytes), static_cast<std::uint64_t>(kept)};
          }
        }
      }
    }
    return memory;
  }

  /// What the fullest GPU of a group holds, state and activations, where ranks keep so much.
  ///
  /// Expects     the layout's schedule splits backwards.
  [[nodiscard]] std::uint64_t most_held(std::span<rank_memory const> ranks) const
  {
    std::uint64_t most = 0;
    for (std::size_t module = 0; module < modules(); ++module) {
      for (std::uint32_t replica = 0; replica < replicas(module); ++replica) {
        for (std::uint32_t stage = 0; stage < layout_.modules[module].pp; ++stage) {
          auto const rank = to_index(graph_.rank_of(module, replica, stage));
          most = std::max(most, states_[module] + ranks[rank].peak_bytes);
        }
      }
    }
    return most;
  }

  /// Has replicas that shard weights wait for each other, in all of the given groups: they gather
  /// the same layers at the same time, so each takes as long for a microbatch as the slowest.
  void wait_for_gathers(std::span<pipeline_times> groups) const
  {
    for (std::size_t module = 0; module < modules(); ++module) {
      if (!layout_.modules[module].is_sharded) { continue; }
      std::uint32_t const parts = graph_.modules()[module].parts();
      for (std::uint32_t microbatch = 0; microbatch < layout_.microbatches; ++microbatch) {
        for (std::uint32_t part = 0; part < parts; ++part) {
          stage_time longest{};
          auto const each = [&](auto const& visit) {
            for (pipeline_times& times : groups) {
              for (std::uint32_t replica = 0; replica < replicas(module); ++replica) {
                visit(times[to_id<microbatch_id>(microbatch)]
                           [graph_.stage_of(module, replica, part)]);
              }
            }
          };
          each([&longest](stage_time const& own) {
            longest.forward = std::max(longest.forward, own.forward);
            longest.backward = std::max(longest.backward, own.backward);
          });
          each([&longest](stage_time& own) { own = longest; });
        }
      }
    }
  }

  /// When a step of one group is over, if no other group's is later: its pipeline has ended, and
  /// gradients are reduced, stage by stage.
  ///
  /// Expects     the timeline is of a schedule of its stages.
  [[nodiscard]] time_units end_of(compiled_schedule const& schedule,
                                  pipeline_timeline const& timeline) const
  {
    time_units end = timeline.makespan;
    for (std::size_t module = 0; module < modules(); ++module) {
      module_layout const own = layout_.modules[module];
      for (std::uint32_t stage = 0; stage < own.pp; ++stage) {
        time_units const reducing = reducing_time(module, stage);
        if (reducing == 0) { continue; }
        for (std::uint32_t replica = 0; replica < replicas(module); ++replica) {
          auto const last = schedule.tasks_on(graph_.rank_of(module, replica, stage)).back();
          end = std::max(end, saturating_sum(timeline.end[last], reducing));
        }
      }
    }
    return end;
  }

  /// The largest microbatch of a replica of the last module for which its GPUs have memory.
  [[nodiscard]] tokens largest_microbatch() const
  {
    std::size_t const last = layout_.modules.size() - 1;
    module_layout const& own = layout_.modules[last];
    detail::joined_unit const unit{own.pp, layout_.virtual_stages, layout_.microbatches};
    return detail::stage_memory(problem_).largest_size(problem_.kind(last).memory_bytes, last,
                                                       degree_at(last), own, unit.kept(0),
                                                       layout_.virtual_stages);
  }

  /// The stages of a replica of a module share its time in proportion to these, its virtual stages
  /// too: their layers, or what these cost.
  [[nodiscard]] std::vector<std::uint32_t> stage_costs(std::size_t module) const
  {
    detail::stage_shares const shares = shares_of(module);
    std::uint32_t const parts = graph_.modules()[module].parts();
    std::vector<std::uint32_t> costs;
    costs.reserve(parts);
    for (std::uint32_t part = 0; part < parts; ++part) {
      costs.push_back(shares.cost_of(shares.kind_of(part)));
    }
    return costs;
  }

  /// What each replica of a module takes of the time of one with the least tp, in 2^16ths, for a
  /// mean microbatch; none where all have the same.
  [[nodiscard]] std::vector<std::uint32_t> time_factors(std::size_t module) const
  {
    std::vector<std::uint32_t> factors;
    if (!layout_.has_bags(module)) { return factors; }
    uint128 const all = detail::total_size(problem_, module);
    auto const mean = static_cast<tokens>(detail::divided_up(all, problem_.samples()));
    std::uint64_t const parts = std::uint64_t{layout_.microbatches} * replicas(module);
    uint128 const count = detail::divided_up(problem_.global_batch, parts);
    auto const time_of = [&](std::uint32_t replica) {
      packed_samples packed(*this, module, replica);
      for (uint128 each = 0; each < count; ++each) { packed.add(mean); }
      return static_cast<uint128>(std::max(packed.time(), cost_units{1}));
    };
    uint128 const whole = time_of(replicas(module) - 1);
    factors.reserve(replicas(module));
    for (std::uint32_t replica = 0; replica < replicas(module); ++replica) {
      uint128 const factor = detail::divided_up(time_of(replica) << 16, whole);
      factors.push_back(static_cast<std::uint32_t>(std::min(factor, uint128{1} << 16)));
    }
    return factors;
  }

  /// What the replicas of a module take to reduce the gradients of a stage.
  [[nodiscard]] time_units reducing_time(std::size_t module, std::uint32_t stage) const
  {
    module_layout const own = layout_.modules[module];
    module_profile const& profile = problem_.modules[module];
    detail::stage_shares const shares(profile, own.pp);
    return detail::reducing_time(problem_, module, degree_at(module),
                                 shares.layers_of(shares.kind_of(stage)), own);
  }

 private:
  [[nodiscard]] std::size_t modules() const noexcept { return layout_.modules.size(); }

  /// Of a module, among those that were measured.
  [[nodiscard]] std::size_t degree_at(std::size_t module) const { return chosen_[module].degree; }

  /// Of a module in each group.
  [[nodiscard]] std::uint32_t replicas(std::size_t module) const noexcept
  {
    return layout_.modules[module].dp / groups_;
  }

  [[nodiscard]] static std::uint32_t groups_of(model_layout const& layout)
  {
    std::uint32_t groups = layout.bags.empty() ? 0 : 1;
    for (module_layout const& each : layout.modules) { groups = std::gcd(groups, each.dp); }
    return groups;
  }

  [[nodiscard]] static detail::replica_graph replicated(detail::assigned_job const& problem,
                                                        model_layout const& layout,
                                                        std::uint32_t groups)
  {
    std::vector<detail::replicated_module> modules;
    for (std::size_t module = 0; module < layout.modules.size(); ++module) {
      module_layout const& each = layout.modules[module];
      bool const is_last = module + 1 == layout.modules.size();
      bool const is_v = layout.schedule == layout_schedule::zero_bubble_v;
      modules.push_back({each.pp,
                         is_v      ? 2
                         : is_last ? layout.virtual_stages
                                   : problem.virtual_stages(module, each.pp),
                         each.dp / groups, problem.fed_by(module), detail::sends(problem, module),
                         problem.has_backward(module),
                         layout.schedule != layout_schedule::whole_backwards && !each.is_sharded &&
                             problem.passes[module] == detail::module_passes::all,
                         is_v});
    }
    return detail::replica_graph(std::move(modules));
  }

  /// The time of all layers, for some samples packed together, on one GPU of a replica's group.
  class packed_samples {
   public:
    packed_samples(layout_pipeline const& pipeline, std::size_t module, std::uint32_t replica)
        : profile_(pipeline.problem_.modules[module]),
          speeds_(*profile_.find(degree_of(pipeline.layout_.replica(module, replica))))
    {}

    void add(tokens size)
    {
      all_ += size;
      time_ = saturating_sum(time_, detail::attention_time(profile_, speeds_, size));
    }

    [[nodiscard]] tokens size() const noexcept { return all_; }

    /// That of products with weights, and all of it.
    [[nodiscard]] cost_units products() const
    {
      return detail::linear_time(profile_, speeds_, all_);
    }
    [[nodiscard]] cost_units time() const { return saturating_sum(time_, products()); }

   private:
    module_profile const& profile_;
    profiled_degree const& speeds_;
    tokens all_ = 0;
    cost_units time_ = 0;
  };

  /// Of virtual stages, where there are some: then layers are equal.
  [[nodiscard]] detail::stage_shares shares_of(std::size_t module) const
  {
    return {problem_.modules[module], graph_.modules()[module].parts()};
  }

  /// Gives every stage its share of a module's time.
  void set_times(pipeline_times& times, std::uint32_t microbatch, std::size_t module,
                 std::uint32_t replica, packed_samples const& packed) const
  {
    std::uint32_t const parts = graph_.modules()[module].parts();
    detail::stage_shares const shares = shares_of(module);
    cost_units const products = packed.products();
    cost_units const time = gathers_[module].beside(packed.time(), parts);
    detail::module_passes const passes = problem_.passes[module];
    for (std::uint32_t part = 0; part < parts; ++part) {
      std::uint32_t const kind = shares.kind_of(part);
      time_units const share = shares.of(time, kind);
      time_units const forward = detail::forward_of(share, passes);
      std::size_t const row = microbatch * times.stages + graph_.stage_of(module, replica, part);
      times.rows[row] = {forward, share - forward};
      if (!graph_.modules()[module].splits) { continue; }
      time_units const of_products = shares.of(products, kind);
      auto const backward =
          static_cast<uint128>(of_products - detail::forward_of(of_products, passes));
      times.weights[row] =
          static_cast<time_units>(backward * problem_.modules[module].weights_percent / 100);
      times.rows[row].backward -= times.weights[row];
    }
  }

  /// Has a replica of module `at` send or receive what a module gives for so many tokens or items.
  void send(std::span<stage_time> times, std::size_t module, std::size_t at, std::uint32_t replica,
            tokens all) const
  {
    if (!detail::sends(problem_, module)) { return; }
    std::size_t const there = graph_.transfer_of(module);
    time_units const time =
        detail::sending_time(problem_, module, at, all, layout_.replica(at, replica).group());
    times[there].forward = std::max(times[there].forward, time);
    if (!problem_.has_backward(module)) { return; }
    times[there + 1].backward = std::max(times[there + 1].backward, time);
  }

  detail::assigned_job problem_;
  model_layout layout_;
  std::vector<detail::chosen_layout> chosen_;
  std::uint32_t groups_;
  detail::replica_graph graph_;                  // of each group
  std::vector<detail::module_gathers> gathers_;  // of each module
  std::vector<std::uint64_t> states_;  // bytes of each module's stages; none of whole backwards
};

/// How long a sample takes in the modules of a layout: the products with weights at the throughput
/// of a mean microbatch, in which it is packed, and attention at that of its own length.
///
/// Units       picoseconds of one GPU of a group; a third is the forward, of frozen modules half or
///             all (module_role).
/// Expects     the problem has D modules, and price_layout accepts the layout.
template <std::size_t D>
class layout_times {
 public:
  layout_times(layout_problem const& given, model_layout const& layout)
  {
    detail::assigned_job const problem(given, layout);
    for (std::size_t module = 0; module < D; ++module) {
      module_layout const own = layout.modules[module];
      module_profile const& profile = problem.modules[module];
      profiled_degree const* const degree = profile.find(degree_of(own));
      uint128 const all = detail::total_size(problem, module);
      uint128 const mean = all * problem.global_batch / problem.samples() /
                           (static_cast<uint128>(layout.microbatches) * own.dp);
      modules_[module] = {
          degree->linear,
          degree->attention,
          profile.flops,
          own.group(),
          static_cast<tokens>(std::min<uint128>(mean, static_cast<uint128>(longest_sample))),
          problem.passes[module]};
    }
  }

  [[nodiscard]] std::array<stage_time, D> operator()(std::span<tokens const, D> sizes) const
  {
    std::array<stage_time, D> times{};
    for (std::size_t module = 0; module < D; ++module) {
      auto const& [linear, attention, flops, gpus, mean, passes] = modules_[module];
      detail::batch_work const work(flops, sizes[module], 1, gpus);
      cost_units const time = saturating_sum(linear.picoseconds(work.linear, mean),
                                             attention.picoseconds(work.attention, sizes[module]));
      time_units const forward = detail::forward_of(time, passes);
      times[module] = {forward, time - forward};
    }
    return times;
  }

 private:
  struct module_speed {
    interpolated_throughput linear;
    interpolated_throughput attention;
    flop_polynomial flops;
    std::uint32_t gpus = 1;  // of a group
    tokens mean_microbatch = 0;
    detail::module_passes passes = detail::module_passes::all;
  };

  std::array<module_speed, D> modules_{};
};

}  // namespace ballast::inline v0
