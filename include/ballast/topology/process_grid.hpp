// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/topology/cluster.hpp>

namespace ballast::inline v0 {

/// How many ways a module is parallel; it has the product of the three of ranks.
struct unit_sizes {
  std::uint32_t data = 1;
  std::uint32_t pipeline = 1;
  std::uint32_t tensor = 1;

  friend bool operator==(unit_sizes const&, unit_sizes const&) = default;
};

/// What one rank of a job of several modules computes; `place_layout` returns one for each GPU.
struct grid_place {
  std::uint32_t module = 0;
  std::uint32_t data = 0;      ///< which replica of the module
  std::uint32_t pipeline = 0;  ///< which stage of the replica
  std::uint32_t tensor = 0;    ///< which of the ranks that share the stage

  friend bool operator==(grid_place const&, grid_place const&) = default;
};

/// Ranks that differ in one coordinate of their place only; of a module, all its ranks.
enum class grid_axis { data, pipeline, tensor, module };

/// Which rank computes what, where each module has ranks and parallel sizes of its own: rank <->
/// (module, data, pipeline, tensor).
///
/// Module k has the ranks after those of modules 0 to k - 1. Within a module the tensor coordinate
/// changes fastest, since its ranks communicate most and so should share a node, then the
/// pipeline's, then the data's.
///
///     auto const tensor_group = comm.split(grid.colour(comm.rank(), grid_axis::tensor));
///
/// Ensures     (1) rank(place(r)) == r for every rank, and place(rank(p)) == p for every place
///             (2) two ranks have the same colour exactly if they differ in that coordinate at
///                 most; so a split over all ranks makes all groups of an axis at once, of all
///                 modules
///             (3) a colour is the number of its group's first rank
/// Complexity  place and colour O(log modules), of O(modules), data_ranks O(its ranks), all else
///             O(1).
class process_grid {
 public:
  /// Errors      out_of_range: there is no module, a size of module `position` is 0, or the modules
  ///             up to it have more than 2^24 ranks.
  [[nodiscard]] static result<process_grid> make(std::span<unit_sizes const> modules)
  {
    if (modules.empty()) {
      return fail(error_code::out_of_range, 0, "a job has no module; list at least one");
    }
    process_grid grid;
    std::uint64_t ranks = 0;
    for (std::size_t module = 0; module < modules.size(); ++module) {
      auto const [data, pipeline, tensor] = modules[module];
      if (data == 0 || pipeline == 0 || tensor == 0) {
        return fail(error_code::out_of_range, module, "module ", module, " is parallel over ", data,
                    " (data) x ", pipeline, " (pipeline) x ", tensor,
                    " (tensor) ranks; the least of each is 1");
      }
      if (std::uint64_t{data} * pipeline > detail::most_gpus / tensor) { return too_many(module); }
      ranks += std::uint64_t{data} * pipeline * tensor;
      if (ranks > detail::most_gpus) { return too_many(module); }
      grid.first_.push_back(static_cast<std::size_t>(ranks));
    }
    grid.modules_.assign(modules.begin(), modules.end());
    return grid;
  }

  [[nodiscard]] static result<process_grid> make(std::initializer_list<unit_sizes> modules)
  {
    return make(std::span<unit_sizes const>(modules.begin(), modules.size()));
  }

#ifdef __cpp_exceptions
  /// One that the program wrote itself. Where it is wrong, throws what make() says.
  ///
  ///     process_grid const grid({{.data = 4, .pipeline = 2, .tensor = 1}});
  explicit process_grid(std::initializer_list<unit_sizes> modules)
      : process_grid(or_throw(make(modules)))
  {}
#endif

  /// Number of modules.
  [[nodiscard]] std::size_t size() const noexcept { return modules_.size(); }

  /// Number of ranks of all modules together.
  [[nodiscard]] std::size_t ranks() const noexcept { return first_.back(); }

  [[nodiscard]] unit_sizes operator[](std::uint32_t module) const
  {
    BALLAST_EXPECTS(module < size(), "module ", module, " of a job of ",
                    detail::counted(size(), "module"));
    return modules_[module];
  }

  [[nodiscard]] rank_id rank(grid_place where) const
  {
    unit_sizes const sizes = (*this)[where.module];
    BALLAST_EXPECTS(
        where.data < sizes.data && where.pipeline < sizes.pipeline && where.tensor < sizes.tensor,
        "place (", where.data, ", ", where.pipeline, ", ", where.tensor, ") of module ",
        where.module, ", which is parallel over ", sizes.data, " x ", sizes.pipeline, " x ",
        detail::counted(sizes.tensor, "rank"));
    std::size_t const replica = where.data * std::size_t{sizes.pipeline} + where.pipeline;
    return to_id<rank_id>(first_[where.module] + replica * sizes.tensor + where.tensor);
  }

  [[nodiscard]] grid_place place(rank_id rank) const
  {
    BALLAST_EXPECTS(to_index(rank) < ranks(), "rank ", rank, " of a job of ",
                    detail::counted(ranks(), "rank"));
    auto const next = std::upper_bound(first_.begin(), first_.end(), to_index(rank));
    auto const module = static_cast<std::size_t>(next - first_.begin()) - 1;
    unit_sizes const sizes = modules_[module];
    auto const inside = static_cast<std::uint32_t>(to_index(rank) - first_[module]);
    return {static_cast<std::uint32_t>(module), inside / sizes.tensor / sizes.pipeline,
            inside / sizes.tensor % sizes.pipeline, inside % sizes.tensor};
  }

  /// What this rank gives to communicator::split to get the group of its place along this axis.
  [[nodiscard]] std::uint32_t colour(rank_id rank, grid_axis axis) const
  {
    grid_place group = place(rank);
    if (axis == grid_axis::module) { group = {group.module, 0, 0, 0}; }
    if (axis == grid_axis::data) { group.data = 0; }
    if (axis == grid_axis::pipeline) { group.pipeline = 0; }
    if (axis == grid_axis::tensor) { group.tensor = 0; }
    return static_cast<std::uint32_t>(to_index(this->rank(group)));
  }

  /// The ranks of a module along its data axis, at this place of the other two: between which units
  /// exchange samples. Activations leave a module from its last stage, sizes.pipeline - 1, and
  /// come to its first one, 0.
  [[nodiscard]] std::vector<rank_id> data_ranks(std::uint32_t module, std::uint32_t pipeline = 0,
                                                std::uint32_t tensor = 0) const
  {
    std::vector<rank_id> all;
    all.reserve((*this)[module].data);
    for (std::uint32_t data = 0; data < (*this)[module].data; ++data) {
      all.push_back(rank({module, data, pipeline, tensor}));
    }
    return all;
  }

  friend bool operator==(process_grid const&, process_grid const&) = default;

 private:
  process_grid() = default;

  [[nodiscard]] static tl::unexpected<error> too_many(std::size_t module)
  {
    return fail(error_code::out_of_range, module, "the modules up to module ", module,
                " have more than 16777216 ranks together, which is the most of a job; correct "
                "their sizes");
  }

  std::vector<unit_sizes> modules_;
  std::vector<std::size_t> first_ = {0};  // rank of each module, and their number
};

}  // namespace ballast::inline v0
