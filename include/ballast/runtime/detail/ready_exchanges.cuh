// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/gpu/streams.hpp>

#include <cuda_runtime.h>

#include <list>

namespace ballast::inline v0::detail {

/// A prepared_route or a prepared_heads for each shape of arrays that a trainer exchanges, made and
/// prepared in the first exchange of a step. Shapes are compared one by one, so there should be few:
/// those of a layer's tokens, of its queries, keys and values, and so on.
template <class Prepared, class Shapes, class Block = device_array<std::byte>>
class ready_exchanges {
 public:
  using memory_type = growing_memory<Block>;

  /// There is another plan.
  void outdate()
  {
    for (entry& each : entries_) { each.made.reset(); }
  }

  /// Returns what is prepared for these shapes by the plan, whose upload is queued on the stream.
  /// room(memory, bytes) makes memory as large. What stays on a GPU is copied on the side stream, if
  /// there is one.
  template <class Room, class... Plan>
  [[nodiscard]] result<Prepared const*> of(Shapes const& shapes, cudaStream_t stream,
                                           Room const& room, side_stream const* side, Plan&... plan)
  {
    entry& found = entry_of(shapes);
    if (found.made) { return &*found.made; }
    std::size_t bytes = 0;
    if (auto const code = Prepared::device_bytes(plan..., shapes, bytes); code != cudaSuccess) {
      return cuda_failure("device_bytes", code);
    }
    auto const memory = room(found.memory, bytes);
    if (!memory) { return tl::unexpected(memory.error()); }
    found.made.emplace(plan..., shapes, *memory, side);
    if (auto const code = found.made->prepare(stream); code != cudaSuccess) {
      found.made.reset();
      return cuda_failure("prepare", code);
    }
    return &*found.made;
  }

 private:
  struct entry {
    Shapes shapes;
    memory_type memory{};
    std::optional<Prepared> made{};
  };

  [[nodiscard]] entry& entry_of(Shapes const& shapes)
  {
    for (entry& each : entries_) {
      if (each.shapes.has_shapes_of(shapes)) { return each; }
    }
    return entries_.emplace_back(entry{shapes});
  }

  std::list<entry> entries_;
};

}  // namespace ballast::inline v0::detail
