// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/parallelism/model_layout.hpp>

#include <functional>

namespace ballast::inline v0 {

/// GPUs that are alike.
///
/// Units       bytes of one GPU; bytes_per_second: of one GPU to other nodes, in each direction.
struct gpu_kind {
  std::uint32_t gpus = 1;  ///< there are; no orchestration uses more
  std::uint32_t gpus_per_node = 8;
  std::uint64_t memory_bytes = 0;
  std::uint64_t bytes_per_second = 0;  ///< 0: traffic between nodes takes no time
  ratio speed{1, 1};                   ///< beside the GPUs whose times are given

  friend bool operator==(gpu_kind const&, gpu_kind const&) = default;
};

/// How fast a module is on a group of tp x sp x ep GPUs (parallel_degree), and what one of them
/// holds, where these GPUs are all that the module has.
///
/// Units       picoseconds of one sample through the whole module; bytes of one GPU.
struct orchestrated_degree {
  std::uint32_t tp = 1;
  time_units forward = 0;
  time_units backward = 0;           ///< with the gradients of inputs and weights
  time_units backward_of_input = 0;  ///< the part that is left where the weights are frozen
  std::uint64_t weight_bytes = 0;
  std::uint64_t gradient_bytes = 0;
  std::uint64_t optimizer_bytes = 0;   ///< which replicas share
  std::uint64_t activation_bytes = 0;  ///< of one sample
  std::uint32_t copies = 1;  ///< of its weights that the group has; they reduce gradients first
  std::uint32_t sp = 1;
  std::uint32_t ep = 1;

  friend bool operator==(orchestrated_degree const&, orchestrated_degree const&) = default;
};

/// A module that gets GPUs of its own: an encoder, the LLM, a generator.
///
/// Units       forward_flops: of one sample, for policies that share out GPUs by it;
///             boundary_bytes: of one sample, what a stage sends to the next one, and gets as much
///             of as a gradient.
struct orchestrated_module {
  std::string name;
  std::uint32_t layers = 1;                  ///< that stages share; a stage has one at least
  std::vector<orchestrated_degree> degrees;  ///< by tp, sp and ep, increasing
  std::uint64_t forward_flops = 0;
  std::uint64_t boundary_bytes = 0;
  std::uint32_t virtual_stages = 1;  ///< that a stage of an interleaved pipeline consists of
  std::vector<std::size_t> kinds{};  ///< of GPUs that it may get, increasing; none: any
  bool is_trained = true;            ///< false: its weights are frozen
  bool is_input_trained = false;     ///< a projector between it and the module before is trained

  friend bool operator==(orchestrated_module const&, orchestrated_module const&) = default;
};

/// A model, a batch and GPUs, for which units are to be found: how many GPUs each module gets and
/// how it is spread over them. The LLM sets how the batch is cut: each of its replicas takes
/// `microbatch` samples at a time, and the replicas of the other modules share these equally, be
/// there more of them or fewer.
struct orchestration_problem {
  static constexpr std::uint32_t most_global_batch = std::uint32_t{1} << 24;
  static constexpr std::uint32_t most_layers = std::uint32_t{1} << 20;
  static constexpr time_units longest_time = time_units{1} << 53;      // of a sample
  static constexpr std::uint64_t most_bytes = std::uint64_t{1} << 53;  // of a module
  static constexpr std::int64_t most_speed = std::int64_t{1} << 20;    // both parts of the ratio
  static constexpr std::size_t most_assignments = 4096;                // of kinds to modules

  std::vector<orchestrated_module> modules;  ///< in the order of the pipeline
  std::size_t llm = 0;                       ///< which of them is the LLM
  std::uint32_t global_batch = 1;            ///< samples of a step
  std::uint32_t microbatch = 1;              ///< samples of a microbatch of one replica of the LLM
  std::vector<gpu_kind> kinds;
};

/// Which orchestrations are looked at: all, unless something is asked for.
struct unit_restrictions {
  bool has_one_degree = false;  ///< all modules have the same, and the same dp
  bool has_one_stage = false;   ///< modules other than the LLM have one stage
  std::uint32_t tp = 0;         ///< of all modules; 0: any
  std::uint32_t pp = 0;         ///< of the LLM; 0: any
  /// Of each module, where modules get GPUs of these kinds; none: all of its kind.
  std::function<std::vector<std::uint64_t>(std::vector<std::size_t> const& kinds)> most_gpus{};
};

namespace detail {

/// The kinds of GPUs that a module of the problem may get, increasing.
[[nodiscard]] inline std::vector<std::size_t> kinds_of(orchestration_problem const& problem,
                                                       std::size_t module)
{
  if (!problem.modules[module].kinds.empty()) { return problem.modules[module].kinds; }
  std::vector<std::size_t> all(problem.kinds.size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  return all;
}

[[nodiscard]] inline result<void> check_orchestrated(orchestrated_module const& module,
                                                     std::size_t position, std::size_t kinds)
{
  using problem = orchestration_problem;
  auto const refuse = [&](std::string const& why) {
    return fail(error_code::out_of_range, position, "module " + module.name + " " + why);
  };
  if (module.layers == 0 || module.layers > problem::most_layers) {
    return refuse(
        concat("has ", counted(module.layers, "layer"), "; give 1 to ", problem::most_layers));
  }
  if (module.virtual_stages == 0 || module.virtual_stages > module.layers) {
    auto const most = module.layers;
    return refuse(concat("has stages of ", module.virtual_stages, " virtual ones; give 1 to ", most,
                         ", its number of layers"));
  }
  for (std::size_t at = 0; at < module.kinds.size(); ++at) {
    std::size_t const kind = module.kinds[at];
    if (kind >= kinds) {
      return refuse(concat("may get GPUs of kind ", kind, ", and the last one is ", kinds - 1));
    }
    if (at > 0 && kind <= module.kinds[at - 1]) {
      return refuse(concat("may get GPUs of kind ", kind, " after ", module.kinds[at - 1],
                           "; give each kind once, in increasing order"));
    }
  }
  if (module.boundary_bytes > problem::most_bytes) {
    return refuse("sends more than 2^53 bytes of a sample; check the unit");
  }
  if (module.degrees.empty()) {
    return refuse("has times at no parallel degree; give one at least");
  }
  parallel_degree before{0, 0, 0};
  for (orchestrated_degree const& each : module.degrees) {
    parallel_degree const degree = degree_of(each);
    if (degree.gpus() == 0 || degree.gpus() > std::numeric_limits<std::uint32_t>::max()) {
      return refuse("has a degree of " + text_of(degree) +
                    ", which is no number of GPUs from 1 to 2^32 - 1");
    }
    if (degree <= before) {
      return refuse(concat("has degree ", text_of(degree), " after ", text_of(before),
                           "; give them in increasing order"));
    }
    before = degree;
    auto const is_time = [](time_units time) { return time >= 0 && time <= problem::longest_time; };
    if (!is_time(each.forward) || !is_time(each.backward) || each.backward_of_input < 0 ||
        each.backward_of_input > each.backward) {
      return refuse(concat("takes ", each.forward, " forward, ", each.backward, " backward and ",
                           each.backward_of_input, " of it for its input at ", text_of(degree),
                           "; give picoseconds from 0 to 2^53, the last no more than the second"));
    }
    if (each.copies == 0 || degree.gpus() % each.copies != 0) {
      return refuse(concat("has ", counted(each.copies, "copy"), " on ",
                           counted(degree.gpus(), "GPU"), "; give a divisor"));
    }
    if (std::max({each.weight_bytes, each.gradient_bytes, each.optimizer_bytes,
                  each.activation_bytes}) > problem::most_bytes) {
      return refuse(concat("holds more than 2^53 bytes at ", text_of(degree), "; check the unit"));
    }
  }
  return {};
}

/// Refuses groups of GPUs that would not fill the nodes of a kind together.
[[nodiscard]] inline result<void> check_groups_of_kind(orchestration_problem const& problem,
                                                       std::size_t kind)
{
  struct group {
    std::size_t module;
    std::uint32_t gpus;
  };
  std::vector<group> groups;
  for (std::size_t module = 0; module < problem.modules.size(); ++module) {
    auto const kinds = kinds_of(problem, module);
    if (!std::binary_search(kinds.begin(), kinds.end(), kind)) { continue; }
    for (orchestrated_degree const& each : problem.modules[module].degrees) {
      auto const gpus = static_cast<std::uint32_t>(degree_of(each).gpus());
      if (problem.kinds[kind].gpus_per_node % gpus == 0) { groups.push_back({module, gpus}); }
    }
  }
  for (group const& a : groups) {
    for (group const& b : groups) {
      if (a.gpus <= b.gpus && b.gpus % a.gpus != 0) {
        return fail(error_code::out_of_range, 0, "groups of ", counted(a.gpus, "GPU"),
                    " for module ", problem.modules[a.module].name, " and of ", b.gpus, " for ",
                    problem.modules[b.module].name,
                    " do not fill nodes together; give degrees of which one divides the other");
      }
    }
  }
  return {};
}

}  // namespace detail

/// Refuses a problem that has no meaning.
///
/// Errors      out_of_range: module `position` has no layer, no degree, degrees or kinds that do
///             not increase, copies that do not divide a group, times or bytes out of bounds, or a kind
///             that there is not; or kind `position` has no GPU, no node or no speed; or, with
///             position 0, there is no module or kind, the LLM is no module, there is no batch, one
///             above most_global_batch, or one that is no whole number of microbatches; or two
///             degrees of modules that may share a kind divide neither each other, so that groups
///             of GPUs would not fill nodes; or kinds can be assigned in more than most_assignments
///             ways.
/// Complexity  O(kinds x degrees^2).
[[nodiscard]] inline result<void> check_orchestration_problem(orchestration_problem const& problem)
{
  auto const refuse = [](std::size_t position, std::string const& why) {
    return fail(error_code::out_of_range, position, why);
  };
  if (problem.modules.empty()) { return refuse(0, "there is no module to orchestrate; give one"); }
  if (problem.kinds.empty()) { return refuse(0, "there is no kind of GPUs to use; give one"); }
  for (std::size_t kind = 0; kind < problem.kinds.size(); ++kind) {
    gpu_kind const& each = problem.kinds[kind];
    if (each.gpus == 0 || each.gpus_per_node == 0) {
      return refuse(
          kind, detail::concat("kind ", kind, " has ", detail::counted(each.gpus, "GPU"),
                               " on nodes of ", each.gpus_per_node, "; give at least 1 of each"));
    }
    constexpr std::int64_t most = orchestration_problem::most_speed;
    auto const [numerator, denominator] = each.speed;
    if (numerator < 1 || denominator < 1 || numerator > most || denominator > most) {
      return refuse(kind,
                    detail::concat("kind ", kind, " has a speed of ", numerator, " / ", denominator,
                                   "; give a ratio of numbers from 1 to ", most));
    }
  }
  for (std::size_t module = 0; module < problem.modules.size(); ++module) {
    auto checked =
        detail::check_orchestrated(problem.modules[module], module, problem.kinds.size());
    if (!checked) { return checked; }
  }
  if (problem.llm >= problem.modules.size()) {
    return refuse(0, detail::concat("module ", problem.llm, " is to be the LLM, and there are ",
                                    problem.modules.size(), ", counted from 0"));
  }
  if (problem.global_batch == 0 ||
      problem.global_batch > orchestration_problem::most_global_batch) {
    return refuse(
        0, detail::concat("a global batch of ", detail::counted(problem.global_batch, "sample"),
                          " cannot be orchestrated; give 1 to ",
                          orchestration_problem::most_global_batch));
  }
  if (problem.microbatch == 0 || problem.global_batch % problem.microbatch != 0) {
    return refuse(0, detail::concat("a batch of ", detail::counted(problem.global_batch, "sample"),
                                    " is no whole number of microbatches of ", problem.microbatch,
                                    "; give a divisor of the batch"));
  }
  std::size_t assignments = 1;
  for (std::size_t module = 0; module < problem.modules.size(); ++module) {
    assignments *= detail::kinds_of(problem, module).size();
    if (assignments > orchestration_problem::most_assignments) {
      return refuse(0, detail::concat("kinds of GPUs can be assigned to modules in more than ",
                                      orchestration_problem::most_assignments,
                                      " ways; say which kinds a module may get"));
    }
  }
  for (std::size_t kind = 0; kind < problem.kinds.size(); ++kind) {
    auto checked = detail::check_groups_of_kind(problem, kind);
    if (!checked) { return checked; }
  }
  return {};
}

/// Of the bytes that a GPU holds for a parameter, those of weight, gradient and optimiser: mixed
/// precision with Adam, unless something else is given.
struct state_parts {
  std::uint32_t weights = 2;
  std::uint32_t gradients = 2;
  std::uint32_t optimizer = 12;  ///< which replicas share; 0: each has all of it

  friend bool operator==(state_parts const&, state_parts const&) = default;
};

namespace detail {

/// The times of a part of a training step of one sample, from a profile.
class profiled_times {
 public:
  profiled_times(module_profile const& profile, tokens size, training_passes const& passes)
      : profile_(profile),
        size_(size),
        all_linear_(passes.forward + passes.backward + passes.recompute),
        all_attention_(passes.forward + passes.attention_backward + passes.recompute)
  {}

  /// Of so many of the passes; no_cost where it does not fit.
  [[nodiscard]] time_units of(profiled_degree const& degree, std::uint32_t linear,
                              std::uint32_t attention) const
  {
    auto const length = static_cast<std::uint64_t>(size_);
    // Products are below 2^64 2^31 and squares below 2^64 2^62, before a number of passes.
    uint128 const products = static_cast<uint128>(profile_.flops.linear) * length * linear;
    uint128 const pairs = static_cast<uint128>(profile_.flops.quadratic) * length * length;
    std::uint64_t const gpus = degree_of(degree).gpus();
    return saturating_sum(
        degree.linear.picoseconds(divided_up(products, all_linear_ * gpus), size_),
        degree.attention.picoseconds(divided_up(pairs, all_attention_ * gpus) * attention, size_));
  }

  [[nodiscard]] std::uint64_t forward_flops(std::uint32_t forward) const
  {
    auto const length = static_cast<std::uint64_t>(size_);
    uint128 const flops =
        static_cast<uint128>(profile_.flops.linear) * length / all_linear_ * forward +
        profile_.flops.quadratic * static_cast<uint128>(length * length) / all_attention_ * forward;
    constexpr std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
    return flops < most ? static_cast<std::uint64_t>(flops) : most;
  }

 private:
  module_profile const& profile_;
  tokens size_;
  uint128 all_linear_;
  uint128 all_attention_;
};

}  // namespace detail

/// A module to orchestrate, from its profile: times and activations of a sample of one size, such
/// as the mean.
///
/// A step's FLOP are shared out by its passes: forward, backward with what is recomputed, and of
/// that the part which a frozen module keeps. The sp GPUs of a group that share tokens have the
/// weights each, so they reduce gradients first. Virtual stages and kind are left for the caller.
///
/// Expects     passes.forward >= 1; `parts` are not all 0.
/// Errors      out_of_range: the profile is not as check_profile wants it or has cuts, size is not
///             from 0 to longest_sample, or something does not fit: 2^53 picoseconds, 2^53 bytes, at
///             `position` of the degree.
/// Complexity  O(degrees).
[[nodiscard]] inline result<orchestrated_module> orchestrated_module_of(
    module_profile const& profile, tokens size, training_passes const& passes = {},
    state_parts const& parts = {})
{
  std::uint64_t const whole = std::uint64_t{parts.weights} + parts.gradients + parts.optimizer;
  BALLAST_EXPECTS(whole >= 1, "a parameter has no byte of weight, gradient and optimiser");
  BALLAST_EXPECTS(passes.forward >= 1, "a training step has no forward pass");
  if (auto checked = check_profile(profile); !checked) { return tl::unexpected(checked.error()); }
  if (!profile.cuts.empty()) {
    return fail(error_code::out_of_range, 0, "module ", profile.name,
                " has layers that were cut by ",
                "their costs, and an orchestration knows equal ones; leave its cuts empty");
  }
  if (size < 0 || size > longest_sample) {
    return fail(error_code::out_of_range, 0, "a sample of size ", size, " in module ", profile.name,
                " cannot be priced; give 0 to ", longest_sample);
  }
  using problem = orchestration_problem;
  training_passes const through = frozen(passes, frozen_gradient::passes_through);
  detail::profiled_times const times(profile, size, passes);
  orchestrated_module of;
  of.name = profile.name;
  of.layers = profile.layers;
  of.forward_flops = times.forward_flops(passes.forward);
  uint128 const boundary =
      static_cast<uint128>(profile.boundary_bytes) * static_cast<std::uint64_t>(size);
  if (boundary > problem::most_bytes) {
    return fail(error_code::out_of_range, 0, "a sample of size ", size, " gives more than 2^53 ",
                "bytes from module ", profile.name, " to the next one; check the profile's unit");
  }
  of.boundary_bytes = static_cast<std::uint64_t>(boundary);
  for (std::size_t index = 0; index < profile.degrees.size(); ++index) {
    profiled_degree const& degree = profile.degrees[index];
    orchestrated_degree each;
    each.tp = degree.tp;
    each.sp = each.copies = degree.sp;
    each.ep = degree.ep;
    each.forward = times.of(degree, passes.forward, passes.forward);
    each.backward = times.of(degree, passes.backward + passes.recompute,
                             passes.attention_backward + passes.recompute);
    each.backward_of_input = times.of(degree, through.backward + through.recompute,
                                      through.attention_backward + through.recompute);
    uint128 const state = degree.memory.state(profile.layers);
    auto const part = [&](std::uint32_t bytes) {
      return static_cast<std::uint64_t>(detail::divided_up(state * bytes, whole));
    };
    each.weight_bytes = part(parts.weights);
    each.gradient_bytes = part(parts.gradients);
    each.optimizer_bytes = part(parts.optimizer);
    each.activation_bytes = degree.memory.activations(profile.layers, size);
    if (each.forward > problem::longest_time || each.backward > problem::longest_time ||
        state > problem::most_bytes || each.activation_bytes > problem::most_bytes) {
      return fail(error_code::out_of_range, index, "a sample of size ", size, " in module ",
                  profile.name, " takes more than 2^53 picoseconds or bytes at ",
                  text_of(degree_of(degree)), "; check the profile's units");
    }
    of.degrees.push_back(each);
  }
  return of;
}

}  // namespace ballast::inline v0
