// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/cost/module_profile.hpp>
#include <ballast/topology/process_grid.hpp>

#include <compare>

namespace ballast::inline v0 {

/// How one module is spread over GPUs: dp replicas, each a pipeline of pp stages, each of a group
/// of tp x sp x ep GPUs that compute a microbatch together (parallel_degree).
///
/// Ensures     (1) ordered by tp, then pp, then dp, then sp, then ep, whole weights first
struct module_layout {
  std::uint32_t tp = 1;
  std::uint32_t pp = 1;
  std::uint32_t dp = 1;
  std::uint32_t sp = 1;
  std::uint32_t ep = 1;
  /// Whether replicas shard weights, gradients and optimiser (FSDP, ZeRO-3), and gather each layer's
  /// weights when they compute it.
  bool is_sharded = false;

  /// Of a stage of one replica.
  [[nodiscard]] constexpr std::uint32_t group() const noexcept { return tp * sp * ep; }

  [[nodiscard]] constexpr std::uint64_t gpus() const noexcept
  {
    return std::uint64_t{group()} * pp * dp;
  }

  friend bool operator==(module_layout const&, module_layout const&) = default;
  friend std::strong_ordering operator<=>(module_layout const&, module_layout const&) = default;
};

/// "tp 4 pp 2 dp 8", or "tp 4 sp 2 pp 2 dp 8 sharded".
[[nodiscard]] inline std::string text_of(module_layout const& layout)
{
  return detail::concat(text_of(degree_of(layout)), " pp ", layout.pp, " dp ", layout.dp,
                        layout.is_sharded ? " sharded" : "");
}

/// In which order the pipelines of a layout do the passes of a step. All but the first split the
/// backwards of modules that are trained and whose weights are whole: those of the weights are passes
/// of their own.
enum class layout_schedule : std::uint8_t {
  whole_backwards,    ///< 1F1B, interleaved where stages have virtual ones
  zero_bubble,        ///< that of zero_bubble; no stage has virtual ones
  twice_zero_bubble,  ///< with twice the memory
  zero_bubble_v,      ///< of a single module: each stage is two parts, and the ranks are a V
  planned             ///< by plan_schedule, of each step anew
};

/// "zero bubble", as a sentence has it.
[[nodiscard]] constexpr std::string_view text_of(layout_schedule schedule) noexcept
{
  constexpr std::array<std::string_view, 5> texts{"whole backwards", "zero bubble",
                                                  "zero bubble with twice the memory",
                                                  "zero bubble in a V", "planned"};
  return texts[static_cast<std::size_t>(schedule)];
}

/// A layout of a whole model, and what a step then takes.
///
/// Units       step: picoseconds; memory_bytes: of the GPU that holds most.
struct model_layout {
  std::vector<module_layout> modules;  ///< in the order of the pipeline: encoders, then the LLM
  std::uint32_t microbatches = 1;      ///< of each replica
  time_units step = 0;
  std::uint64_t memory_bytes = 0;
  std::uint32_t virtual_stages = 1;  ///< of a stage of the last module
  std::vector<std::size_t> kinds{};  ///< of GPUs, of each module; none where there is but one kind
  /// Of each module the tp of every replica, largest first, where they differ, as bags do: tp of
  /// `modules` is then the least of them. None where no module has such replicas.
  std::vector<std::vector<std::uint32_t>> bags{};
  layout_schedule schedule = layout_schedule::whole_backwards;

  [[nodiscard]] bool has_bags(std::size_t module) const noexcept
  {
    return module < bags.size() && !bags[module].empty();
  }
  /// One replica of a module, as a layout of its own.
  [[nodiscard]] module_layout replica(std::size_t module, std::size_t number) const noexcept
  {
    module_layout own = modules[module];
    own.dp = 1;
    if (has_bags(module)) { own.tp = bags[module][number]; }
    return own;
  }
  /// Those that the modules get, maybe fewer than there are.
  [[nodiscard]] std::uint64_t gpus() const noexcept
  {
    std::uint64_t sum = 0;
    for (std::size_t module = 0; module < modules.size(); ++module) {
      if (!has_bags(module)) { sum += modules[module].gpus(); }
      for (std::size_t number = 0; has_bags(module) && number < bags[module].size(); ++number) {
        sum += replica(module, number).gpus();
      }
    }
    return sum;
  }

  friend bool operator==(model_layout const&, model_layout const&) = default;
};

/// Places the modules of a layout on GPUs, which are numbered node by node.
///
/// The largest groups of tp x sp x ep GPUs are placed first, and each in the fullest node that has room;
/// groups of one size module after module, replica after replica, stage after stage.
///
/// Shapes      returns one place for each of the `gpus`; the last node has what is left of them.
/// Expects     gpus_per_node >= 1; all degrees are at least 1.
/// Ensures     (1) every group is GPUs of one node that follow each other
///             (2) each GPU has a place of its own
/// Errors      infeasible, position of the module: a group has no node with room; or with position
///             0: the modules take another number of GPUs. None for what `search_layouts` returns.
/// Complexity  O(modules nodes log nodes + gpus).
[[nodiscard]] inline result<std::vector<grid_place>> place_layout(
    std::span<module_layout const> modules, std::uint32_t gpus, std::uint32_t gpus_per_node)
{
  BALLAST_EXPECTS(gpus_per_node >= 1, "GPUs are placed on nodes of none");
  std::uint64_t wanted = 0;
  for (module_layout const& each : modules) { wanted += each.gpus(); }
  if (wanted != gpus) {
    return fail(error_code::infeasible, 0, "the modules take ", wanted, " of ",
                detail::counted(gpus, "GPU"), "; give a layout that uses all");
  }
  std::vector<std::size_t> largest_first(modules.size());
  std::iota(largest_first.begin(), largest_first.end(), std::size_t{0});
  std::sort(largest_first.begin(), largest_first.end(), [&](std::size_t a, std::size_t b) {
    return detail::precedes(modules[b].group(), modules[a].group(), a, b);
  });

  struct node {
    std::uint32_t next;  // the first GPU that has no place yet
    std::uint32_t free;  // how many have none
  };
  std::vector<node> nodes;
  for (std::uint32_t first = 0; first < gpus; first += nodes.back().free) {
    nodes.push_back({first, std::min(gpus_per_node, gpus - first)});
  }
  std::vector<grid_place> places(gpus);
  for (std::size_t const module : largest_first) {
    std::uint32_t const of_group = modules[module].group();
    std::uint32_t const pp = modules[module].pp;
    std::sort(nodes.begin(), nodes.end(), [](node const& a, node const& b) {
      return detail::precedes(a.free, b.free, a.next, b.next);
    });
    auto fullest = nodes.begin();
    for (std::uint64_t group = 0; group < std::uint64_t{pp} * modules[module].dp; ++group) {
      while (fullest != nodes.end() && fullest->free < of_group) { ++fullest; }
      if (fullest == nodes.end()) {
        auto const of = detail::concat(" of module ", module);
        return fail(error_code::infeasible, module, "no node has room for group ", group, " of ",
                    detail::counted(of_group, "GPU"), of,
                    "; choose one that divides the GPUs of a node");
      }
      for (std::uint32_t rank = 0; rank < of_group; ++rank) {
        places[fullest->next + rank] = {static_cast<std::uint32_t>(module),
                                        static_cast<std::uint32_t>(group / pp),
                                        static_cast<std::uint32_t>(group % pp), rank};
      }
      fullest->next += of_group;
      fullest->free -= of_group;
    }
  }
  return places;
}

namespace detail {

/// A layout of so many stages and replicas at a degree.
[[nodiscard]] constexpr module_layout layout_at(parallel_degree const& degree, std::uint32_t pp,
                                                std::uint32_t dp, bool is_sharded = false) noexcept
{
  return {degree.tp, pp, dp, degree.sp, degree.ep, is_sharded};
}

/// The quotient, rounded up; by >= 1.
[[nodiscard]] constexpr uint128 divided_up(uint128 value, uint128 by) noexcept
{
  return value / by + (value % by != 0 ? 1 : 0);
}

}  // namespace detail

}  // namespace ballast::inline v0
