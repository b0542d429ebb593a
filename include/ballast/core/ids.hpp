// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_CORE_IDS_HPP
#define BALLAST_CORE_IDS_HPP

#include <ballast/core/config.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace ballast::inline v0 {

/// Position of a sample in the global batch, in gathered order: all of rank 0's, then rank 1's.
enum class sample_id : std::uint32_t {};
/// Position of a GPU in the job, the number that MPI and NCCL use.
enum class rank_id : std::uint32_t {};
/// Position of a node in the cluster.
enum class node_id : std::uint32_t {};
/// Position of a bag: of GPUs that share each of their sequences in a layout, or of samples alone,
/// as a pack or a microbatch, which any GPUs may compute later.
enum class bag_id : std::uint32_t {};
/// Position of a group of GPUs in its family: the GPUs that may share a sequence (device_groups).
enum class group_id : std::uint32_t {};
/// Position of a microbatch among those that a pipeline trains on in one step.
enum class microbatch_id : std::uint32_t {};
/// Position of a cell in a grid of ranks and slots: slot x ranks + rank, so that the cells of a slot
/// lie next to each other. It is one microbatch of one rank.
enum class cell_id : std::uint32_t {};
/// Position of a stage in its pipeline: the layers that one forward task runs through.
enum class stage_id : std::uint32_t {};
/// Position of a group of GPUs in its pipeline; with virtual stages it has several stages.
enum class pipeline_rank : std::uint32_t {};

/// A position of one kind of thing. It has no arithmetic and does not mix with positions of other
/// kinds; on host and device it costs what an integer does.
template <class T>
concept identifier = std::is_enum_v<T> && std::same_as<std::underlying_type_t<T>, std::uint32_t>;

/// The index of an identified thing in its array.
template <identifier Id>
[[nodiscard]] BALLAST_HOST_DEVICE constexpr std::size_t to_index(Id id) noexcept
{
  return static_cast<std::size_t>(id);
}

/// The identifier of the thing at `index`, which must be below 2^32.
template <identifier Id>
[[nodiscard]] BALLAST_HOST_DEVICE constexpr Id to_id(std::size_t index) noexcept
{
  return static_cast<Id>(static_cast<std::uint32_t>(index));
}

}  // namespace ballast::inline v0

#endif  // BALLAST_CORE_IDS_HPP
