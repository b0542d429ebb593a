// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/parallelism/detail/layout_prices.hpp>

namespace ballast::inline v0::detail {

/// The layout that comes closest to fitting into memory.
struct overrun {
  static constexpr std::uint64_t no_layout = std::numeric_limits<std::uint64_t>::max();

  std::uint64_t bytes =
      no_layout;           ///< above the memory of a GPU; no_layout where none uses all GPUs
  std::size_t module = 0;  ///< whose GPUs hold most
  std::vector<module_layout> modules{};
  bool is_certain = true;  ///< whether all numbers of microbatches were tried
};

/// Ensures     (1) bytes == 0 only where some layout fits; where it is certain, always then. The
///                 search ends at the first
/// Complexity  O(layouts), for the largest numbers of microbatches and, where none fits so, for all
///             others; each until so many modules were looked at: a second or two for most_tries.
class least_overrun {
 public:
  static constexpr std::uint64_t most_tries = std::uint64_t{1} << 26;

  least_overrun(assigned_job const& problem, stage_memory& memory)
      : problem_(problem),
        memory_(memory),
        layout_(problem.modules.size()),
        held_(problem.modules.size())
  {
    for (gpu_kind const& kind : problem.kinds) { left_.push_back(kind.gpus); }
  }

  [[nodiscard]] overrun find(std::uint64_t tries)
  {
    std::uint64_t deepest = 0;
    std::uint64_t gpus = 0;
    for (std::size_t module = 0; module < problem_.modules.size(); ++module) {
      deepest += std::uint64_t{problem_.modules[module].layers} *
                 (problem_.roles.empty() ? 1 : problem_.roles[module].virtual_stages);
    }
    for (gpu_kind const& kind : problem_.kinds) { gpus += kind.gpus; }
    if (problem_.roles.empty()) { deepest = std::min(deepest, gpus); }
    // Fewer microbatches are larger, and save memory only where stages would keep more than these.
    tries_left_ = tries;
    try_counts([](std::uint32_t most) { return most; });
    tries_left_ = tries_left_ == 0 ? 0 : tries;
    for (std::uint32_t count = 1; count < deepest && goes_on(); ++count) {
      try_counts([count](std::uint32_t most) { return count < most ? count : 0; });
    }
    best_.is_certain = best_.bytes == 0 || tries_left_ > 0;
    return best_;
  }

 private:
  [[nodiscard]] bool goes_on() const noexcept { return best_.bytes != 0 && tries_left_ > 0; }

  /// Places all modules, with count_of(most) microbatches where a batch has samples for `most`.
  template <class CountOf>
  void try_counts(CountOf const& count_of)
  {
    std::size_t const last = problem_.modules.size() - 1;
    std::uint32_t const most = std::min(problem_.kind(last).gpus, problem_.global_batch);
    for (std::uint32_t last_dp = 1; last_dp <= most && goes_on(); ++last_dp) {
      microbatches_ = count_of(problem_.global_batch / last_dp);
      last_dp_ = last_dp;
      if (microbatches_ > 0) { place(problem_.modules.size(), 0, 0); }
    }
  }

  void place(std::size_t end, std::uint64_t worst_bytes, std::size_t worst)
  {
    if (end == 0) {
      if (fits_kinds(problem_, span_of(layout_))) { best_ = {worst_bytes, worst, layout_}; }
      return;
    }
    std::size_t const module = end - 1;
    module_profile const& profile = problem_.modules[module];
    gpu_kind const& kind = problem_.kind(module);
    std::uint64_t& left = left_[problem_.assigned[module]];
    bool const takes_rest = problem_.is_first_of_kind(module) && !problem_.may_leave_gpus;
    std::uint64_t const behind =
        end == problem_.modules.size() ? 0 : held_[problem_.fed_by(module)];
    for (std::size_t degree = 0; degree < profile.degrees.size(); ++degree) {
      parallel_degree const parallel = degree_of(profile.degrees[degree]);
      std::uint64_t const of_stage = parallel.gpus();
      if (kind.gpus_per_node % of_stage != 0) { continue; }
      for (std::uint32_t pp = 1; pp <= profile.layers && of_stage * pp <= left; ++pp) {
        std::uint32_t const parts = problem_.virtual_stages(module, pp);
        if (!has_virtual_stages(profile, layout_at(parallel, pp, 1), parts)) { continue; }
        std::uint64_t const group = of_stage * pp;
        auto most_dp = static_cast<std::uint32_t>(left / group);
        std::uint32_t dp = 1;
        if (end == problem_.modules.size()) {
          if (last_dp_ > most_dp) { break; }
          dp = most_dp = last_dp_;
        }
        if (takes_rest) {
          if (left % group != 0 || left / group < dp || left / group > most_dp) { continue; }
          dp = most_dp;
        }
        for (; dp <= most_dp; ++dp) {
          if (tries_left_ == 0) { return; }
          --tries_left_;
          joined_unit const unit{pp, parts, microbatches_};
          tokens const size = memory_.microbatch_size(module, std::uint64_t{microbatches_} * dp);
          module_layout layout{};
          std::uint64_t bytes = overrun::no_layout;
          for (bool const is_sharded : problem_.shardings(module)) {
            module_layout const each = layout_at(parallel, pp, dp, is_sharded);
            std::uint64_t const own =
                memory_.bytes_of(module, degree, each, unit.kept(behind), size, parts);
            if (own <= bytes) {
              bytes = own;
              layout = each;
            }
          }
          std::uint64_t const above = bytes > kind.memory_bytes ? bytes - kind.memory_bytes : 0;
          std::uint64_t const most = std::max(above, worst_bytes);
          if (most >= best_.bytes) { continue; }
          layout_[module] = layout;
          held_[module] = unit.depth(behind);
          left -= layout.gpus();
          place(module, most, above > worst_bytes ? module : worst);
          left += layout.gpus();
          if (best_.bytes == 0) { return; }
        }
      }
    }
  }

  assigned_job const& problem_;
  stage_memory& memory_;
  std::vector<module_layout> layout_;
  std::vector<std::uint64_t> held_;  // microbatches on their way in each module and behind it
  std::vector<std::uint64_t> left_;  // GPUs of each kind
  std::uint32_t microbatches_ = 1;
  std::uint32_t last_dp_ = 1;
  std::uint64_t tries_left_ = 0;
  overrun best_;
};

/// Of the layouts of all assignments of kinds, the one that comes closest to fitting.
class closest_layout {
 public:
  /// They share the tries, so that many kinds take no longer.
  explicit closest_layout(std::size_t assignments)
      : tries_(std::max(least_overrun::most_tries / std::max<std::size_t>(assignments, 1),
                        std::uint64_t{1} << 14))
  {}

  overrun look_at(assigned_job const& job, stage_memory& memory)
  {
    overrun const lacking = least_overrun(job, memory).find(tries_);
    if (!job_ || lacking.bytes < lacking_.bytes) {
      job_.emplace(job);
      lacking_ = lacking;
    }
    return lacking;
  }

  [[nodiscard]] bool fits() const noexcept { return job_ && lacking_.bytes == 0; }

  [[nodiscard]] tl::unexpected<error> sentence() const
  {
    auto const& modules = job_->modules;
    bool const has_kinds = job_->kinds.size() > 1;
    for (std::size_t module = 0; module < modules.size(); ++module) {
      if (fewest_gpus(module) > 0) { continue; }
      std::string nodes;
      for (std::size_t const kind : kinds_of(*job_, module)) {
        nodes += concat(nodes.empty() ? "" : " or ", job_->kinds[kind].gpus_per_node);
      }
      return fail(error_code::infeasible, module, "module ", modules[module].name,
                  " was measured at no parallel degree whose GPUs divide the ", nodes,
                  " GPUs of a node and fit into the job; measure tp 1");
    }
    if (lacking_.bytes == overrun::no_layout) {
      std::string wanted;
      std::uint64_t there = 0;
      for (std::size_t module = 0; module < modules.size(); ++module) {
        wanted += concat(module == 0 ? "" : ", ", modules[module].name, " ", fewest_gpus(module));
      }
      for (gpu_kind const& kind : job_->kinds) { there += kind.gpus; }
      return fail(error_code::infeasible, 0,
                  lacking_.is_certain ? "no layout of " : "no layout that was tried of ",
                  counted(modules.size(), "module"),
                  job_->may_leave_gpus ? " has " : " uses exactly ", counted(there, "GPU"),
                  job_->may_leave_gpus ? " or fewer" : "",
                  has_kinds ? ", each module those of one kind," : "",
                  " with groups of tp x sp x ep GPUs inside nodes; modules need at least (", wanted,
                  "); use another number of GPUs");
    }
    std::string layout;
    for (std::size_t module = 0; module < modules.size(); ++module) {
      layout += concat(module == 0 ? "" : ", ", modules[module].name, " ",
                       text_of(lacking_.modules[module]));
      if (has_kinds) { layout += concat(" of kind ", job_->assigned[module]); }
    }
    return fail(error_code::infeasible, lacking_.module,
                "no layout fits into memory: the closest (", layout, ") needs ",
                counted(lacking_.bytes, "byte"), " more than the ",
                job_->kind(lacking_.module).memory_bytes, " of a GPU for module ",
                modules[lacking_.module].name, "; use more GPUs or larger ones",
                lacking_.is_certain ? "" : ", and not all layouts were tried");
  }

 private:
  /// Of a stage of a module on any of its kinds; 0 where it has no degree on these.
  [[nodiscard]] std::uint64_t fewest_gpus(std::size_t module) const
  {
    std::uint64_t fewest = 0;
    for (std::size_t const kind : kinds_of(*job_, module)) {
      for (profiled_degree const& each : job_->modules[module].degrees) {
        std::uint64_t const group = degree_of(each).gpus();
        bool const is_possible =
            group <= job_->kinds[kind].gpus && job_->kinds[kind].gpus_per_node % group == 0;
        if (is_possible && (fewest == 0 || group < fewest)) { fewest = group; }
      }
    }
    return fewest;
  }

  std::uint64_t tries_;
  std::optional<assigned_job> job_;
  overrun lacking_;
};

}  // namespace ballast::inline v0::detail
