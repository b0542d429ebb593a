// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/cuda/staged.hpp>

#include <cuda_runtime.h>

namespace ballast::inline v0::detail {

/// Memory of the device that grows in the steps that need more than any before.
using growing_device_bytes = growing_memory<device_array<std::byte>>;

[[nodiscard]] inline std::span<std::byte> device_bytes(growing_device_bytes& memory,
                                                       std::size_t bytes)
{
  return memory.at_least(bytes, [](std::size_t size) { return device_array<std::byte>(size); })
      .span();
}

/// A staged plan in memory that grows with the plans that it is given, and a prepared_route or a
/// prepared_heads of it for each shape of arrays that a trainer exchanges, made and prepared in the
/// first exchange of a step. Shapes are compared one by one, so there should be few: those of a
/// layer's tokens, of its queries, keys and values, and so on.
///
/// Block       of the device's memory: Block(bytes), or Block(bytes, stream).
/// Expects     the last upload is done when the next one is called.
template <class Prepared, class Plan, class Shapes, class Block = device_array<std::byte>>
class uploaded {
 public:
  /// Whether the plan needs no more memory than there is.
  [[nodiscard]] bool has_room_for(Plan const& plan) const { return there_ && there_->holds(plan); }

  [[nodiscard]] result<void> upload(Plan const& plan, cudaStream_t stream)
  {
    if (!has_room_for(plan)) {
      auto const bound = staged<Plan>::bound_for(plan);
      std::size_t const bytes = staged<Plan>::bytes(bound);
      auto& on_device = device_.at_least(bytes, [&](std::size_t size) {
        if constexpr (std::is_constructible_v<Block, std::size_t, cudaStream_t>) {
          return Block(size, stream);
        } else {
          return Block(size);
        }
      });
      auto& pinned = pinned_.at_least(bytes, [](std::size_t size) { return pinned_bytes(size); });
      there_.emplace(bound, on_device.span(), pinned);
    }
    for (entry& each : entries_) { each.made.reset(); }
    if (auto staged = there_->stage(plan); !staged) { return staged; }
    return cuda_result("staged::upload", there_->upload(stream));
  }

  /// Expects     a plan was uploaded.
  [[nodiscard]] staged<Plan> const& there() const { return *there_; }

  /// Returns what is prepared for these shapes by the plan, whose upload is queued on the stream.
  /// room(memory, bytes) makes memory as large. What stays on a GPU is copied on the side stream, if
  /// there is one. `place` is what Prepared takes beside the plan.
  template <class Room, class... Place>
  [[nodiscard]] result<Prepared const*> ready(Shapes const& shapes, cudaStream_t stream,
                                              Room const& room, side_stream const* side,
                                              Place... place)
  {
    entry& found = entry_of(shapes);
    if (found.made) { return &*found.made; }
    std::size_t bytes = 0;
    if (auto const code = Prepared::device_bytes(*there_, place..., shapes, bytes);
        code != cudaSuccess) {
      return cuda_failure("device_bytes", code);
    }
    auto const memory = room(found.memory, bytes);
    if (!memory) { return tl::unexpected(memory.error()); }
    found.made.emplace(*there_, place..., shapes, *memory, side);
    if (auto const code = found.made->prepare(stream); code != cudaSuccess) {
      found.made.reset();
      return cuda_failure("prepare", code);
    }
    return &*found.made;
  }

 private:
  using pinned_bytes = std::vector<std::byte, pinned_allocator<std::byte>>;

  struct entry {
    Shapes shapes;
    growing_memory<Block> memory{};
    std::optional<Prepared> made{};
  };

  [[nodiscard]] entry& entry_of(Shapes const& shapes)
  {
    for (entry& each : entries_) {
      if (each.shapes.has_shapes_of(shapes)) { return each; }
    }
    return entries_.emplace_back(entry{shapes});
  }

  growing_memory<Block> device_;
  growing_memory<pinned_bytes> pinned_;
  std::optional<staged<Plan>> there_;
  std::list<entry> entries_;
};

}  // namespace ballast::inline v0::detail
