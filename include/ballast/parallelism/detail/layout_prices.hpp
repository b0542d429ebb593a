// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/parallelism/detail/stage_times.hpp>

/// What GPUs take to send, where each sends its part and receives as fast at the same time.
namespace ballast::inline v0::detail {

inline constexpr std::uint64_t picoseconds_per_second = 1'000'000'000'000;

/// Of so many GPUs of a kind, rounded up; no_cost where it does not fit.
[[nodiscard]] inline time_units sending_time(gpu_kind const& kind, uint128 bytes,
                                             std::uint64_t gpus)
{
  constexpr uint128 most = ~uint128{0} / picoseconds_per_second;
  if (kind.bytes_per_second == 0) { return 0; }
  if (bytes > most) { return no_cost; }
  uint128 const time = divided_up(bytes * picoseconds_per_second,
                                  static_cast<uint128>(kind.bytes_per_second) * gpus);
  return time < static_cast<uint128>(no_cost) ? static_cast<time_units>(time) : no_cost;
}

/// Whether what a module gives to the one that it feeds takes time.
[[nodiscard]] inline bool sends(assigned_job const& problem, std::size_t module) noexcept
{
  return module + 1 < problem.modules.size() && problem.modules[module].boundary_bytes > 0 &&
         (problem.kind(module).bytes_per_second > 0 ||
          problem.kind(problem.fed_by(module)).bytes_per_second > 0);
}

/// What so many GPUs of module `at` take to send, or to receive, what a module gives for so many
/// tokens or items.
[[nodiscard]] inline time_units sending_time(assigned_job const& problem, std::size_t module,
                                             std::size_t at, tokens all, std::uint64_t gpus)
{
  return sending_time(problem.kind(at),
                      static_cast<uint128>(problem.modules[module].boundary_bytes) *
                          static_cast<std::uint64_t>(all),
                      gpus);
}

/// What the all-reduce of the gradients of a stage of so many layers takes, in a ring of its
/// replicas; of a degree of a module. Sharded ones are scattered in each microbatch. Where replicas
/// share the optimiser's state they reduce and scatter gradients, and gather weights. The sp GPUs of a group that have the same weights reduce
/// their gradients first, inside a node, and then each its part with the other replicas.
[[nodiscard]] inline time_units reducing_time(assigned_job const& problem, std::size_t module,
                                              std::size_t degree, std::uint32_t layers,
                                              module_layout const& layout)
{
  gpu_kind const& kind = problem.kind(module);
  std::uint32_t const dp = layout.dp;
  bool const is_trained = problem.passes[module] == module_passes::all;
  if (kind.bytes_per_second == 0 || dp == 1 || !is_trained || layout.is_sharded) { return 0; }
  auto const& [weights, gradients, optimizer, is_shared] = problem.state;
  profiled_degree const& of = problem.modules[module].degrees[degree];
  uint128 const state = of.memory.state(layers);
  std::uint64_t const whole = std::uint64_t{weights} + gradients + optimizer;
  uint128 const passed = divided_up(state * gradients, whole) +
                         divided_up(state * (is_shared ? weights : gradients), whole);
  // Below 2^65 2^32: rounded up once more.
  return sending_time(kind, divided_up(passed * (dp - 1), static_cast<uint128>(dp) * of.sp), 1);
}

/// What replicas of a module gather and scatter in each microbatch, if they shard its weights.
struct module_gathers {
  sharded_weights shards{};
  module_passes passes = module_passes::all;

  /// What a microbatch takes that computes for so long in all layers, on stages and virtual ones.
  [[nodiscard]] time_units beside(time_units computing, std::uint32_t stages) const noexcept
  {
    if (shards.bytes_per_second == 0) { return computing; }
    time_units const forward = forward_of(computing, passes);
    return shards.microbatch(forward, computing - forward, stages);
  }
};

/// Those of a layout of a module; nothing, in no time, where its weights are whole.
[[nodiscard]] inline module_gathers gathers_of(assigned_job const& problem, std::size_t module,
                                               std::size_t degree, module_layout const& layout)
{
  if (!layout.is_sharded) { return {}; }
  module_gathers gathers{
      shards_of(problem, module, degree, problem.modules[module].layers, layout.dp),
      problem.passes[module]};
  gathers.shards.bytes_per_second = problem.kind(module).bytes_per_second;
  return gathers;
}

/// A module's place in a layout: which of its measured degrees it has, and its stages and replicas.
struct chosen_layout {
  std::size_t degree = 0;
  module_layout layout{};
};

/// Those of a layout whose degrees were measured.
[[nodiscard]] inline std::vector<chosen_layout> chosen_of(assigned_job const& job,
                                                          model_layout const& layout)
{
  std::vector<chosen_layout> chosen;
  for (std::size_t module = 0; module < layout.modules.size(); ++module) {
    module_profile const& profile = job.modules[module];
    auto const at = profile.find(degree_of(layout.modules[module])) - profile.degrees.data();
    chosen.push_back({static_cast<std::size_t>(at), layout.modules[module]});
  }
  return chosen;
}

/// Whether each stage of a module can have so many virtual ones: 1, or, on several stages, equally
/// many equal layers on each, as trainers have it.
[[nodiscard]] inline bool has_virtual_stages(module_profile const& module,
                                             module_layout const& layout,
                                             std::uint32_t virtual_stages) noexcept
{
  if (virtual_stages <= 1) { return virtual_stages == 1; }
  if (layout.pp <= 1 || !module.cuts.empty()) { return false; }
  return module.layers % (std::uint64_t{layout.pp} * virtual_stages) == 0;
}

/// Prices layouts of one assignment of kinds to the modules of a problem.
class layout_prices {
 public:
  /// Expects     the list is of the problem, and outlives it as the job does.
  layout_prices(assigned_job const& job, price_list& list)
      : times(list.times),
        memory(list.memory),
        problem_(job),
        has_transfers_(std::any_of(job.kinds.begin(), job.kinds.end(),
                                   [](gpu_kind const& each) { return each.bytes_per_second > 0; })),
        rows_(job.modules.size()),
        gathers_(job.modules.size()),
        reducing_(job.modules.size()),
        sending_(job.modules.size()),
        depths_(job.modules.size())
  {}

  /// The step's time, as the mean over the samples that stand for the data, rounded up.
  [[nodiscard]] time_units step(std::vector<chosen_layout> const& chosen,
                                std::uint32_t microbatches)
  {
    times.limit_memory();
    std::uint64_t const stages = find_path(chosen);
    shares_.clear();
    for (std::size_t module = 0; module < chosen.size(); ++module) {
      module_layout const& layout = chosen[module].layout;
      rows_[module] =
          time_of(module, chosen[module].degree, std::uint64_t{microbatches} * layout.dp).each;
      shares_.emplace_back(problem_.modules[module], layout.pp);
      reducing_[module] =
          reducing_time(problem_, module, chosen[module].degree,
                        shares_[module].layers_of(shares_[module].kind_of(0)), layout);
      gathers_[module] = gathers_of(problem_, module, chosen[module].degree, layout);
    }
    uint128 total = 0;
    for (std::size_t sample = 0; sample < times.samples(); ++sample) {
      cost_units slowest = 0;
      for (std::size_t module = 0; module < chosen.size(); ++module) {
        std::uint32_t const pp = chosen[module].layout.pp;
        cost_units const whole = gathers_[module].beside(rows_[module][sample], pp);
        if (whole == no_cost) { return no_cost; }
        cost_units const of_stage = problem_.modules[module].cuts.empty()
                                        ? whole / pp + (whole % pp != 0 ? 1 : 0)
                                        : shares_[module].of(whole, shares_[module].costliest());
        slowest = std::max(slowest, of_stage);
      }
      auto const step =
          static_cast<uint128>(microbatches + stages - 1) * static_cast<std::uint64_t>(slowest);
      if (step >= static_cast<uint128>(no_cost)) { return no_cost; }
      total += has_transfers_ ? with_transfers(chosen, microbatches, sample, slowest, step) : step;
    }
    if (total / times.samples() >= static_cast<uint128>(no_cost)) { return no_cost; }
    return static_cast<time_units>(divided_up(total, times.samples()));
  }

  /// What a step takes about, without transfers: the first microbatch passes each stage, and the
  /// others follow as the slowest stage does them. The fullest microbatches set the pace, so each
  /// counts as one sample more than its share. No bound: it tells which layouts to try first.
  [[nodiscard]] time_units likely_step(std::vector<chosen_layout> const& chosen,
                                       std::uint32_t microbatches)
  {
    times.limit_memory();
    uint128 first = 0;
    cost_units slowest = 0;
    for (std::size_t module = 0; module < chosen.size(); ++module) {
      auto const& [degree, layout] = chosen[module];
      std::uint64_t const parts = std::uint64_t{microbatches} * layout.dp;
      std::uint64_t const batch = problem_.global_batch;
      std::uint64_t const fuller = batch * parts / (batch + parts);  // batch / (batch / parts + 1)
      cost_units const computing = time_of(module, degree, std::max<std::uint64_t>(fuller, 1)).mean;
      cost_units const whole =
          gathers_of(problem_, module, degree, layout).beside(computing, layout.pp);
      if (whole == no_cost) { return no_cost; }
      first += static_cast<uint128>(whole);
      slowest = std::max(slowest, whole / layout.pp);
    }
    uint128 const all = first + static_cast<uint128>(slowest) * (microbatches - 1);
    return all < static_cast<uint128>(no_cost) ? static_cast<time_units>(all) : no_cost;
  }

  /// What the fullest GPU of all holds, where each stage of the last module has so many virtual
  /// ones; 0: as its role says.
  ///
  /// Ensures     (1) not less than where it has one
  [[nodiscard]] std::uint64_t bytes(std::vector<chosen_layout> const& chosen,
                                    std::uint32_t microbatches, std::uint32_t virtual_stages = 0)
  {
    return bytes_of(chosen, microbatches, virtual_stages, [&](std::size_t module) {
      return memory.microbatch_size(module, std::uint64_t{microbatches} * chosen[module].layout.dp);
    });
  }

  /// The same, where microbatches of a module are of size_of(module).
  template <class SizeOf>
  [[nodiscard]] std::uint64_t bytes_of(std::vector<chosen_layout> const& chosen,
                                       std::uint32_t microbatches, std::uint32_t virtual_stages,
                                       SizeOf const& size_of)
  {
    std::uint64_t most = 0;
    lacking_.reset();
    for (std::size_t module = chosen.size(); module-- > 0;) {
      bool const is_last = module + 1 == chosen.size();
      std::uint64_t const behind = is_last ? 0 : depths_[problem_.fed_by(module)];
      auto const& [degree, layout] = chosen[module];
      std::uint32_t const parts = is_last && virtual_stages != 0
                                      ? virtual_stages
                                      : problem_.virtual_stages(module, layout.pp);
      joined_unit const unit{layout.pp, parts, microbatches};
      std::uint64_t const held = unit.kept(behind);
      depths_[module] = unit.depth(behind);
      std::uint64_t const bytes =
          memory.bytes_of(module, degree, layout, held, size_of(module), parts);
      std::uint64_t const there = problem_.kind(module).memory_bytes;
      if (bytes > there && (!lacking_ || lacking_->bytes < bytes)) { lacking_ = {module, bytes}; }
      most = std::max(most, bytes);
    }
    return most;
  }

  /// Whether every GPU has memory for what bytes() has found last.
  [[nodiscard]] bool suffices() const noexcept { return !lacking_; }
  /// Where not, the module of the GPU that holds most of those that cannot.
  struct overfull {
    std::size_t module;
    std::uint64_t bytes;
  };
  [[nodiscard]] std::optional<overfull> const& lacking() const noexcept { return lacking_; }
  [[nodiscard]] assigned_job const& job() const noexcept { return problem_; }

  stage_times& times;
  stage_memory& memory;

 private:
  [[nodiscard]] stage_times::row time_of(std::size_t module, std::size_t degree,
                                         std::uint64_t parts)
  {
    return times.of(module, problem_.assigned[module], degree, parts);
  }

  /// What a module sends and, where its gradient comes back, receives.
  [[nodiscard]] std::uint64_t ways(std::size_t module) const noexcept
  {
    return problem_.has_backward(module) ? 2 : 1;
  }

  /// Finds the modules with most stages one behind the other, and returns how many these are.
  std::uint64_t find_path(std::vector<chosen_layout> const& chosen)
  {
    std::size_t first = chosen.size();
    for (std::size_t module = chosen.size(); module-- > 0;) {
      bool const is_last = module + 1 == chosen.size();
      depths_[module] = chosen[module].layout.pp + (is_last ? 0 : depths_[problem_.fed_by(module)]);
      if (first == chosen.size() || depths_[module] >= depths_[first]) { first = module; }
    }
    path_.clear();
    for (std::size_t at = first; at < chosen.size(); at = problem_.fed_by(at)) {
      path_.push_back(at);
      if (at + 1 == chosen.size()) { break; }
    }
    return depths_[first];
  }

  /// A step of equal microbatches, which takes `step` without transfers, with them.
  ///
  /// Stages wait for each other in circles: a stage sends a microbatch on, the stage behind it does
  /// the forward, then a backward, and sends its gradient back, and after that backward the first
  /// stage does its next forward but one. So each circle over some links, of two microbatches and
  /// one more for each stage in between, is longer by both directions of these links. A link that
  /// is slower than all stages sets the pace itself. Of encoders side by side, those on the way
  /// with most stages count.
  [[nodiscard]] uint128 with_transfers(std::vector<chosen_layout> const& chosen,
                                       std::uint32_t microbatches, std::size_t sample,
                                       time_units slowest, uint128 step)
  {
    uint128 stages = 0;
    uint128 sent = 0;
    uint128 longest = 0;
    for (std::size_t const module : path_) {
      stages += chosen[module].layout.pp;
      sending_[module] = 0;
      if (!sends(problem_, module)) { continue; }
      module_layout const& here = chosen[module].layout;
      module_layout const& next = chosen[problem_.fed_by(module)].layout;
      uint128 const all = static_cast<uint128>(problem_.modules[module].boundary_bytes) *
                          static_cast<std::uint64_t>(times.size(module, sample)) *
                          problem_.global_batch;  // below 2^53 2^31 2^24
      uint128 const bytes = divided_up(all, microbatches);
      auto const of = [&](std::size_t at, module_layout const& layout) {
        return sending_time(problem_.kind(at), bytes, std::uint64_t{layout.group()} * layout.dp);
      };
      sending_[module] =
          static_cast<uint128>(std::max(of(module, here), of(problem_.fed_by(module), next)));
      sent += ways(module) * sending_[module];
      longest = std::max(longest, sending_[module]);
    }
    uint128 circles = 0;
    uint128 before = 0;
    for (std::size_t first = 0; first + 1 < path_.size(); ++first) {
      before += chosen[path_[first]].layout.pp;
      uint128 of_circle = 2;
      uint128 behind = stages - before;
      uint128 sum = 0;
      for (std::size_t last = first; last + 1 < path_.size(); ++last) {
        std::uint32_t const pp = chosen[path_[last]].layout.pp;
        if (last > first) {
          of_circle += pp;
          behind -= pp;
        }
        sum += ways(path_[last]) * sending_[path_[last]];
        if (microbatches > behind) {
          circles = std::max(circles, sum * ((microbatches - behind) / of_circle));
        }
      }
    }
    auto const slot = static_cast<uint128>(slowest);
    uint128 const all =
        sent + std::max(step + circles, slot * stages + longest * (microbatches - 1));
    // The last gradients reach a module while those behind it reduce theirs.
    uint128 rest = 0;
    uint128 hidden = 0;
    for (std::size_t const module : path_) {
      auto const reducing = static_cast<uint128>(reducing_[module]);
      rest = std::max(rest, reducing > hidden ? reducing - hidden : 0);
      hidden += chosen[module].layout.pp *
                    (slot - static_cast<uint128>(forward_of(slowest, problem_.passes[module]))) +
                sending_[module];
    }
    return all + rest;
  }

  assigned_job const& problem_;
  bool has_transfers_;
  std::optional<overfull> lacking_;
  std::vector<std::span<cost_units const>> rows_;  // of each module
  std::vector<stage_shares> shares_;               // of each module
  std::vector<module_gathers> gathers_;            // of each module
  std::vector<time_units> reducing_;               // of each module's first stage
  std::vector<uint128> sending_;                   // of each module, to the one that it feeds
  std::vector<std::uint64_t> depths_;              // of each module, with what is behind it
  std::vector<std::size_t> path_;                  // modules with most stages behind each other
};

/// Whether all groups of GPUs lie inside nodes at once, when the largest groups are placed first
/// and each in the fullest node with room. Where each size of a group divides the next larger one, as
/// powers of two do, no other placement does better. It is what place_layout does, but counts nodes instead
/// of placing GPUs, since a search asks for every layout that it prices.
///
/// Expects     per_node >= 1; no group has more than per_node GPUs.
/// Complexity  O(1) where each size divides the next larger one and the largest divides the nodes;
///             else O(k^3) for k modules.
[[nodiscard]] inline bool fits_nodes(std::span<module_layout const> modules, std::uint32_t gpus,
                                     std::uint32_t per_node)
{
  std::uint64_t wanted = 0;
  std::uint32_t largest = 1;
  for (module_layout const& each : modules) {
    wanted += each.gpus();
    largest = std::max(largest, each.group());
  }
  if (wanted > gpus) { return false; }
  bool const chain =
      gpus % per_node % largest == 0 && per_node % largest == 0 &&
      std::all_of(modules.begin(), modules.end(), [&](module_layout const& each) {
        return std::all_of(modules.begin(), modules.end(), [&](module_layout const& other) {
          return each.group() % other.group() == 0 || other.group() % each.group() == 0;
        });
      });
  if (chain) { return true; }

  struct alike_nodes {
    std::uint32_t free;  // GPUs that each of them has left
    std::uint64_t count;
  };
  std::vector<alike_nodes> nodes = {{per_node, gpus / per_node}, {gpus % per_node, 1}};
  std::vector<std::size_t> largest_first(modules.size());
  std::iota(largest_first.begin(), largest_first.end(), std::size_t{0});
  std::sort(largest_first.begin(), largest_first.end(), [&](std::size_t a, std::size_t b) {
    return precedes(modules[b].group(), modules[a].group(), a, b);
  });
  for (std::size_t const module : largest_first) {
    std::uint32_t const group = modules[module].group();
    for (std::uint64_t left = modules[module].gpus() / group; left > 0;) {
      auto fullest = nodes.end();
      for (auto each = nodes.begin(); each != nodes.end(); ++each) {
        bool const has_room = each->count > 0 && each->free >= group;
        if (has_room && (fullest == nodes.end() || each->free < fullest->free)) { fullest = each; }
      }
      if (fullest == nodes.end()) { return false; }
      std::uint64_t const of_node = std::min<std::uint64_t>(fullest->free / group, left);
      std::uint64_t const filled = std::min(fullest->count, left / of_node);
      alike_nodes const rest{fullest->free - static_cast<std::uint32_t>(of_node) * group, filled};
      left -= filled * of_node;
      fullest->count -= filled;
      if (fullest->count > 0) {
        nodes.push_back(rest);
      } else {
        *fullest = rest;
      }
    }
  }
  return true;
}

/// Whether the modules of a job get the GPUs that there are of each kind, all of them unless some may
/// stay unused, in groups inside nodes.
[[nodiscard]] inline bool fits_kinds(assigned_job const& job,
                                     std::span<module_layout const> modules)
{
  std::vector<module_layout> own;
  for (std::size_t kind = 0; kind < job.kinds.size(); ++kind) {
    own.clear();
    std::uint64_t gpus = 0;
    for (std::size_t module = 0; module < modules.size(); ++module) {
      if (job.assigned[module] != kind) { continue; }
      own.push_back(modules[module]);
      gpus += modules[module].gpus();
    }
    auto const& [there, per_node, memory, bytes_per_second, speed] = job.kinds[kind];
    if ((!job.may_leave_gpus && gpus != there) || !fits_nodes(span_of(own), there, per_node)) {
      return false;
    }
  }
  return true;
}

}  // namespace ballast::inline v0::detail
