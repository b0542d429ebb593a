// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/parallelism/model_layout.hpp>

#include <functional>
#include <memory>

namespace ballast::inline v0 {

/// GPUs that are alike.
///
/// Units       bytes of one GPU; bytes_per_second: of one GPU to others, in each direction.
struct gpu_kind {
  std::uint32_t gpus = 1;  ///< there are
  std::uint32_t gpus_per_node = 8;
  std::uint64_t memory_bytes = 0;
  /// Of transfers between modules and of the gradients' all-reduce; 0: they take no time.
  std::uint64_t bytes_per_second = 0;
  ratio speed{1, 1};  ///< beside the GPUs that were measured

  friend bool operator==(gpu_kind const&, gpu_kind const&) = default;
};

/// Whether the replicas of a module each hold its weights, gradients and optimiser, or shard them
/// and gather the weights of each layer when they compute it (FSDP, ZeRO-3).
enum class weight_sharding : std::uint8_t { whole, sharded, either };

/// What a step does with a module, and which GPUs it may get.
struct module_role {
  bool is_trained = true;            ///< false: its weights are frozen
  bool is_input_trained = false;     ///< a projector between it and the modules before is trained
  std::vector<std::size_t> kinds{};  ///< of GPUs that it may get, increasing; none: any
  std::uint32_t virtual_stages = 1;  ///< of each of its stages, where it has several
  weight_sharding weights = weight_sharding::whole;

  friend bool operator==(module_role const&, module_role const&) = default;
};

/// Of the bytes that a GPU holds for a parameter, those of weight, gradient and optimiser: mixed
/// precision with Adam, unless something else is given.
struct state_parts {
  std::uint32_t weights = 2;
  std::uint32_t gradients = 2;
  std::uint32_t optimizer = 12;
  /// Whether replicas share the optimiser's: each then reduces and scatters gradients, and gathers
  /// weights; else gradients are all-reduced, and each has all of the state that was measured.
  bool is_optimizer_shared = false;

  friend bool operator==(state_parts const&, state_parts const&) = default;
};

/// What stands for the data when a layout's step is priced. A microbatch is filled with copies of
/// one sample, as the published search has it:
enum class step_estimate : std::uint8_t {
  mean_sample,  ///< the mean sample: its size in each module, rounded up
  mean_step     ///< every sample in turn; the step is the mean over them, rounded up
};

/// A model, its data and its GPUs, for which a layout is to be found.
///
/// Shapes      sizes[samples x modules], the sizes of one sample next to each other: items of an
///             encoder, tokens of the LLM. At least one sample; in random order, since memory is
///             priced for microbatches of samples that follow each other.
struct layout_problem {
  static constexpr std::uint32_t most_global_batch = std::uint32_t{1} << 24;
  static constexpr std::int64_t most_speed = std::int64_t{1} << 20;  // both parts of the ratio
  static constexpr std::size_t most_assignments = 4096;              // of kinds to modules

  std::span<module_profile const>
      modules;  ///< in the order of the pipeline: encoders, then the LLM
  std::span<tokens const> sizes;
  std::uint32_t global_batch = 1;  ///< samples of a step
  /// Each module gets GPUs of one of these. A model that runs on GPUs of two kinds at once, such as
  /// encoders on older ones, has two.
  std::vector<gpu_kind> kinds{gpu_kind{}};
  bool may_leave_gpus = false;           ///< whether GPUs may stay unused; else layouts use all
  std::span<module_role const> roles{};  ///< of each module; none: all are trained, on any kind
  state_parts state{};
  step_estimate estimate = step_estimate::mean_sample;
  /// The share of microbatches that have to fit into memory. Those drawn are, for each sample, it
  /// and the samples that follow it, the first after the last.
  ratio memory_quantile{1, 1};
  /// Of each module but the last, the later one that it feeds, such as encoders that all feed the
  /// LLM. None: each feeds the next. Shapes: feeds[modules - 1].
  std::span<std::size_t const> feeds{};

  [[nodiscard]] std::size_t fed_by(std::size_t module) const noexcept
  {
    return module < feeds.size() ? feeds[module] : module + 1;
  }
  [[nodiscard]] std::size_t samples() const noexcept
  {
    return modules.empty() ? 0 : sizes.size() / modules.size();
  }
};

/// Which layouts are looked at only: all, unless something is asked for. A baseline is the search
/// for layouts with some of these.
struct layout_limits {
  bool has_one_group = false;  ///< all modules have groups of as many GPUs, and the same dp
  bool has_one_stage = false;  ///< modules other than the LLM have one stage
  std::uint32_t group = 0;     ///< GPUs of a group, of all modules; 0: any
  std::uint32_t pp = 0;        ///< of the LLM; 0: any
  /// Of each module, where modules get GPUs of these kinds; none: all of its kind.
  std::function<std::vector<std::uint64_t>(std::vector<std::size_t> const& kinds)> most_gpus{};
};

namespace detail {

/// The stages that a module has to have; 0: any.
[[nodiscard]] inline std::uint32_t wanted_stages(layout_limits const& limits, bool is_llm) noexcept
{
  return is_llm ? limits.pp : limits.has_one_stage ? 1 : 0;
}

/// Of all samples together.
[[nodiscard]] inline uint128 total_size(layout_problem const& problem, std::size_t module)
{
  uint128 all = 0;
  for (std::size_t sample = 0; sample < problem.samples(); ++sample) {
    all += static_cast<std::uint64_t>(problem.sizes[sample * problem.modules.size() + module]);
  }
  return all;
}

/// The kinds of GPUs that a module may get, increasing.
[[nodiscard]] inline std::vector<std::size_t> kinds_of(layout_problem const& problem,
                                                       std::size_t module)
{
  if (!problem.roles.empty() && !problem.roles[module].kinds.empty()) {
    return problem.roles[module].kinds;
  }
  std::vector<std::size_t> all(problem.kinds.size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  return all;
}

/// All ways to give each module of a sound problem one of its kinds, in increasing order.
[[nodiscard]] inline std::vector<std::vector<std::size_t>> kind_assignments(
    layout_problem const& problem)
{
  std::vector<std::vector<std::size_t>> all{{}};
  for (std::size_t module = 0; module < problem.modules.size(); ++module) {
    std::vector<std::vector<std::size_t>> longer;
    for (auto const& before : all) {
      for (std::size_t const kind : kinds_of(problem, module)) {
        longer.push_back(before);
        longer.back().push_back(kind);
      }
    }
    all = std::move(longer);
  }
  return all;
}

[[nodiscard]] inline result<void> check_kinds(layout_problem const& problem)
{
  if (problem.kinds.empty()) {
    return fail(error_code::out_of_range, 0, "there is no kind of GPUs to use; give one");
  }
  for (std::size_t kind = 0; kind < problem.kinds.size(); ++kind) {
    gpu_kind const& each = problem.kinds[kind];
    if (each.gpus == 0 || each.gpus_per_node == 0) {
      return fail(error_code::out_of_range, kind, "a job of ", counted(each.gpus, "GPU"),
                  " on nodes of ", each.gpus_per_node,
                  " computes nothing; give at least 1 of each");
    }
    constexpr std::int64_t most = layout_problem::most_speed;
    auto const [numerator, denominator] = each.speed;
    if (numerator < 1 || denominator < 1 || numerator > most || denominator > most) {
      return fail(error_code::out_of_range, kind, "kind ", kind, " has a speed of ", numerator,
                  " / ", denominator, "; give a ratio of numbers from 1 to ", most);
    }
  }
  return {};
}

[[nodiscard]] inline result<void> check_roles(layout_problem const& problem)
{
  if (problem.roles.empty()) { return {}; }
  auto const refuse = [&problem](std::size_t module, auto const&... parts) {
    return fail(error_code::out_of_range, module, "module ", problem.modules[module].name, " ",
                parts...);
  };
  if (problem.roles.size() != problem.modules.size()) {
    return fail(error_code::out_of_range, 0, "roles are given of ",
                counted(problem.roles.size(), "module"), " of ", problem.modules.size(),
                "; give all or none");
  }
  for (std::size_t module = 0; module < problem.roles.size(); ++module) {
    module_role const& role = problem.roles[module];
    std::uint32_t const layers = problem.modules[module].layers;
    if (role.virtual_stages == 0 || role.virtual_stages > layers) {
      return refuse(module, "has stages of ", role.virtual_stages, " virtual ones; give 1 to ",
                    layers, ", its number of layers");
    }
    if (role.virtual_stages > 1 && !problem.modules[module].cuts.empty()) {
      return refuse(module, "has layers that were cut by their costs, and stages of ",
                    role.virtual_stages, " virtual ones, which have equal layers; leave out one");
    }
    for (std::size_t at = 0; at < role.kinds.size(); ++at) {
      if (role.kinds[at] >= problem.kinds.size()) {
        return refuse(module, "may get GPUs of kind ", role.kinds[at], ", and the last one is ",
                      problem.kinds.size() - 1);
      }
      if (at > 0 && role.kinds[at] <= role.kinds[at - 1]) {
        return refuse(module, "may get GPUs of kind ", role.kinds[at], " after ",
                      role.kinds[at - 1], "; give each kind once, in increasing order");
      }
    }
  }
  return {};
}

}  // namespace detail

/// Refuses a problem that has no meaning.
///
/// Errors      out_of_range: module `position` is not as module_profile::check wants it; or size `position`
///             is negative or above longest_sample; or, with position 0, there is no module, no
///             sample, no whole number of samples, no kind, no batch or one above
///             most_global_batch, a quantile outside (0, 1], no byte of state, another number of
///             roles or of modules that are fed, or kinds can be assigned in more than
///             most_assignments ways; or kind `position` has no GPU, no node or no speed; or module
///             `position` feeds none behind it, or has a role that it cannot have.
/// Complexity  O(sizes).
[[nodiscard]] inline result<void> check_layout_problem(layout_problem const& problem)
{
  auto const refuse = [](std::size_t position, auto const&... why) {
    return fail(error_code::out_of_range, position, why...);
  };
  if (problem.modules.empty()) { return refuse(0, "there is no module to lay out; give one"); }
  for (std::size_t module = 0; module < problem.modules.size(); ++module) {
    if (auto checked = problem.modules[module].check(); !checked) {
      return refuse(module, checked.error().message);
    }
  }
  if (problem.sizes.empty() || problem.sizes.size() % problem.modules.size() != 0) {
    return refuse(0, "sizes has ", detail::counted(problem.sizes.size(), "entry"), " for ",
                  detail::counted(problem.modules.size(), "module"),
                  "; give one of each module for every sample");
  }
  for (std::size_t index = 0; index < problem.sizes.size(); ++index) {
    if (problem.sizes[index] < 0 || problem.sizes[index] > longest_sample) {
      return refuse(index, "sample ", index / problem.modules.size(), " has size ",
                    problem.sizes[index], " in module ",
                    problem.modules[index % problem.modules.size()].name, "; give sizes from 0 to ",
                    longest_sample);
    }
  }
  if (problem.global_batch == 0 || problem.global_batch > layout_problem::most_global_batch) {
    return refuse(0, "a global batch of ", detail::counted(problem.global_batch, "sample"),
                  " cannot be searched; give 1 to ", layout_problem::most_global_batch);
  }
  if (auto checked = detail::check_kinds(problem); !checked) { return checked; }
  if (auto checked = detail::check_roles(problem); !checked) { return checked; }
  std::size_t assignments = 1;
  for (std::size_t module = 0; module < problem.modules.size(); ++module) {
    assignments *= detail::kinds_of(problem, module).size();
    if (assignments > layout_problem::most_assignments) {
      return refuse(0, "kinds of GPUs can be assigned to modules in more than ",
                    layout_problem::most_assignments, " ways; say which kinds a module may get");
    }
  }
  auto const [numerator, denominator] = problem.memory_quantile;
  if (numerator <= 0 || denominator <= 0 || numerator > denominator) {
    return refuse(0, "memory is to suffice for a share of ", numerator, " / ", denominator,
                  " of all microbatches; give a share above 0, at most 1");
  }
  std::size_t const feeding = problem.modules.size() - 1;
  if (!problem.feeds.empty() && problem.feeds.size() != feeding) {
    return refuse(0, "for ", detail::counted(problem.feeds.size(), "module"),
                  " it is said which they feed; ", "say it for ", feeding,
                  ", all but the last, or for none");
  }
  for (std::size_t module = 0; module < problem.feeds.size(); ++module) {
    std::size_t const fed = problem.feeds[module];
    if (fed > module && fed <= feeding) { continue; }
    return refuse(module, "module ", problem.modules[module].name, " feeds module ", fed,
                  ", counted from 0; give a later one, up to ", feeding);
  }
  auto const& [weights, gradients, optimizer, shared] = problem.state;
  if (std::uint64_t{weights} + gradients + optimizer == 0) {
    return refuse(0, "a parameter has no byte of weight, gradient and optimiser; give 2, 2, 12");
  }
  return {};
}

namespace detail {

/// What a step computes of a module. Of its time the forward is one part of as many as the number
/// says: where a frozen module passes the gradient through, products with weights take twice the
/// forward, and attention thrice.
enum class module_passes : std::uint8_t {
  forward = 1,         ///< it is frozen, and so is all that feeds it
  through_frozen = 2,  ///< it is frozen; the gradient passes through to something that is trained
  all = 3
};

/// A part of a module's time: its forward, and the rest.
[[nodiscard]] constexpr time_units forward_of(time_units share, module_passes passes) noexcept
{
  switch (passes) {
    case module_passes::forward: return share;
    case module_passes::through_frozen: return share / 2;
    case module_passes::all: break;
  }
  return share / 3;
}

/// A sound problem whose modules have GPUs of given kinds. `modules` are as fast as on these, and
/// have the FLOP of what a step computes.
struct assigned_job : layout_problem {
  std::vector<std::size_t> assigned;  ///< the kind of each module
  std::vector<module_passes> passes;  ///< of each module

  /// Of as many kinds as modules; none: where each module may get one only.
  explicit assigned_job(layout_problem const& problem, std::span<std::size_t const> given = {})
      : layout_problem(problem), assigned(given.begin(), given.end())
  {
    for (std::size_t module = assigned.size(); module < modules.size(); ++module) {
      assigned.push_back(kinds_of(problem, module).front());
    }
    bool is_as_measured = true;
    std::vector<bool> is_fed_by_trained(modules.size(), false);
    for (std::size_t module = 0; module < modules.size(); ++module) {
      module_role const role = roles.empty() ? module_role{} : roles[module];
      bool const is_reached = is_fed_by_trained[module] || role.is_input_trained;
      passes.push_back(role.is_trained ? module_passes::all
                       : is_reached    ? module_passes::through_frozen
                                       : module_passes::forward);
      if (passes.back() != module_passes::forward && module + 1 < modules.size()) {
        is_fed_by_trained[fed_by(module)] = true;
      }
      is_as_measured = is_as_measured && role.is_trained && kind(module).speed == ratio{1};
    }
    if (is_as_measured) { return; }
    auto own = std::make_shared<std::vector<module_profile>>(modules.begin(), modules.end());
    for (std::size_t module = 0; module < modules.size(); ++module) {
      module_profile& profile = (*own)[module];
      auto const part = [](std::uint64_t flops, std::uint64_t of_three) {
        return static_cast<std::uint64_t>(divided_up(static_cast<uint128>(flops) * of_three, 3));
      };
      profile.flops.linear = part(profile.flops.linear, static_cast<std::uint64_t>(passes[module]));
      profile.flops.quadratic =
          part(profile.flops.quadratic, passes[module] == module_passes::forward ? 1 : 3);
      if (kind(module).speed == ratio{1}) { continue; }
      for (profiled_degree& degree : profile.degrees) {
        degree.linear = degree.linear.scaled(kind(module).speed);
        degree.attention = degree.attention.scaled(kind(module).speed);
      }
    }
    modules = span_of(*own);
    own_profiles_ = std::move(own);
  }
  /// Of a layout of the problem.
  assigned_job(layout_problem const& problem, model_layout const& layout)
      : assigned_job(problem, span_of(layout.kinds))
  {}

  [[nodiscard]] gpu_kind const& kind(std::size_t module) const noexcept
  {
    return kinds[assigned[module]];
  }
  [[nodiscard]] bool has_backward(std::size_t module) const noexcept
  {
    return passes[module] != module_passes::forward;
  }
  /// Of a stage of a module that has so many stages, as its role says.
  [[nodiscard]] std::uint32_t virtual_stages(std::size_t module, std::uint32_t pp) const noexcept
  {
    return roles.empty() || pp == 1 ? 1 : roles[module].virtual_stages;
  }
  /// How its replicas may hold the weights of a module: whole (false) first.
  [[nodiscard]] std::span<bool const> shardings(std::size_t module) const noexcept
  {
    static constexpr std::array<bool, 2> all{false, true};
    auto const asked = roles.empty() ? weight_sharding::whole : roles[module].weights;
    return std::span<bool const>(all).subspan(asked == weight_sharding::sharded ? 1 : 0,
                                              asked == weight_sharding::either ? 2 : 1);
  }
  /// Whether a module is the first, in the order of the pipeline, that gets GPUs of its kind.
  [[nodiscard]] bool is_first_of_kind(std::size_t module) const noexcept
  {
    auto const end = assigned.begin() + static_cast<std::ptrdiff_t>(module);
    return std::find(assigned.begin(), end, assigned[module]) == end;
  }

 private:
  std::shared_ptr<std::vector<module_profile> const> own_profiles_;
};

}  // namespace detail

/// What a unit, a module on GPUs of its own, takes of a step.
///
/// Units       those of the step.
struct unit_time {
  time_units microbatch = 0;  ///< a stage's time for a microbatch, forward and backward
  time_units once = 0;  ///< once a step: until its pipeline is full, and what follows the last

  friend bool operator==(unit_time const&, unit_time const&) = default;
};

/// The time of a step of units that follow each other: each fills its pipeline, then the slowest
/// one sets the pace of the other microbatches.
///
/// Units       those of the times; no_cost where they do not fit.
/// Expects     microbatches >= 1, no time is negative.
/// Ensures     (1) sum of `once` + (microbatches - 1) x the longest `microbatch`; of one unit whose
///                 stages all take `microbatch`, DFLOP's (microbatches + stages - 1) microbatch
/// Complexity  O(units).
/// Source      Z. Zhang et al., "DistTrain: Addressing Model and Data Heterogeneity with
///             Disaggregated Training for Multimodal Large Language Models", SIGCOMM 2025, section
///             4: once is pp t / vpp.
[[nodiscard]] constexpr time_units disttrain_makespan(std::span<unit_time const> units,
                                                      std::uint64_t microbatches) noexcept
{
  uint128 step = 0;
  time_units slowest = 0;
  for (unit_time const& each : units) {
    step += static_cast<std::uint64_t>(each.once);
    slowest = std::max(slowest, each.microbatch);
  }
  step += static_cast<uint128>(microbatches - 1) * static_cast<std::uint64_t>(slowest);
  return step < static_cast<uint128>(no_cost) ? static_cast<time_units>(step) : no_cost;
}

}  // namespace ballast::inline v0
