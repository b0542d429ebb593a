// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_ROUTE_ULYSSES_EXCHANGE_HPP
#define BALLAST_ROUTE_ULYSSES_EXCHANGE_HPP

#include <ballast/comm/collective_check.hpp>
#include <ballast/comm/communicator.hpp>
#include <ballast/core/contract.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/core/result.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/route/detail/exchange.hpp>
#include <ballast/route/head_array.hpp>
#include <ballast/route/pack_heads.hpp>
#include <ballast/route/row_array.hpp>
#include <ballast/route/ulysses.hpp>

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace ballast::inline v0 {

namespace detail {

enum class head_direction { to_heads, to_tokens };

[[nodiscard]] inline std::uint64_t content_of(ulysses_plan const& plan, head_direction direction,
                                              std::span<head_array const> arrays)
{
  std::uint64_t const same = plan.digest();
  return content_word(direction == head_direction::to_heads ? same : ~same, word_of(arrays));
}

inline void check_heads(ulysses_plan const& plan, std::uint32_t gpu, head_direction direction,
                        std::span<head_array const> arrays)
{
  for (head_array const& array : arrays) {
    head_shape const shape = array.shape;
    std::size_t const chunks = plan.heads_of_chunks(gpu, shape.heads) * shape.head_bytes;
    std::size_t const sequences = plan.heads_of_sequences(gpu, shape.heads) * shape.head_bytes;
    bool const to_heads = direction == head_direction::to_heads;
    auto const number = &array - arrays.data();
    std::size_t const before = to_heads ? chunks : sequences;
    std::size_t const after = to_heads ? sequences : chunks;
    BALLAST_EXPECTS(array.from.size() == before, "array ", number, " has ",
                    counted(array.from.size(), "byte"), " in `from`, and its heads on GPU ", gpu,
                    " take ", before, " before the exchange");
    BALLAST_EXPECTS(array.to.size() == after, "array ", number, " has ",
                    counted(array.to.size(), "byte"), " in `to`, and its heads on GPU ", gpu,
                    " take ", after, " after the exchange");
    bool const in_place = plan.gpus() == 1 && array.to.data() == array.from.data();
    BALLAST_EXPECTS(in_place || !overlapping(array.to, array.from), "`to` of array ", number,
                    " overlaps its `from`");
    BALLAST_EXPECTS(to_heads || array.add != nullptr || !plan.replicates(shape.heads),
                    "several GPUs have the same of the ", counted(shape.heads, "head"),
                    " of array ", number, ", and its elements cannot be added");
  }
}

/// Copies a GPU's own bytes in an exchange of heads. What stays on the GPU is copied by keep() or by
/// unpack(), which also takes sums of heads, in the order of the GPUs; copy() does all the work of a
/// bag of one GPU.
template <class M>
concept head_mover = exchange_mover<M> && requires(M& mover) {
  { mover.copy() } -> std::same_as<result<void>>;
};

/// Copies heads on the host.
template <communicator C>
class host_head_mover : public host_messages<C> {
 public:
  host_head_mover(C& bag, ulysses_plan const& plan, head_direction direction,
                  std::span<head_array const> arrays)
      : host_messages<C>(bag),
        plan_(plan),
        gpu_(static_cast<std::uint32_t>(to_index(bag.rank()))),
        to_heads_(direction == head_direction::to_heads),
        arrays_(arrays)
  {}

  [[nodiscard]] result<void> pack(std::span<std::byte> outgoing) const
  {
    to_heads_ ? pack_to_heads(plan_, gpu_, arrays_, outgoing)
              : pack_to_tokens(plan_, gpu_, arrays_, outgoing);
    return {};
  }

  [[nodiscard]] result<void> keep() const { return {}; }

  [[nodiscard]] result<void> unpack(std::span<std::byte const> incoming) const
  {
    to_heads_ ? unpack_to_heads(plan_, gpu_, arrays_, incoming)
              : unpack_to_tokens(plan_, gpu_, arrays_, incoming);
    return {};
  }

  [[nodiscard]] result<void> copy() const
  {
    for (head_array const& array : arrays_) {
      if (array.to.data() != array.from.data() && !array.to.empty()) {
        std::memcpy(array.to.data(), array.from.data(), array.to.size());
      }
    }
    return {};
  }

 private:
  ulysses_plan const& plan_;
  std::uint32_t gpu_;
  bool to_heads_;
  std::span<head_array const> arrays_;
};

/// An exchange of heads. The mover copies the heads of these arrays in this direction.
template <communicator C, head_mover Mover>
[[nodiscard]] result<void> exchange_heads(C& bag, ulysses_plan const& plan,
                                          head_direction direction,
                                          std::span<head_array const> arrays, workspace& memory,
                                          Mover mover)
{
  BALLAST_EXPECTS(plan.gpus() == bag.size(), "the plan is for a bag of ",
                  counted(plan.gpus(), "GPU"), ", and the communicator has ", bag.size());
  auto const gpu = static_cast<std::uint32_t>(to_index(bag.rank()));
  check_heads(plan, gpu, direction, arrays);
  if (plan.gpus() == 1) { return mover.copy(); }

  bool const to_heads = direction == head_direction::to_heads;
  auto const sizes = [&](std::span<std::size_t> sent, std::span<std::size_t> received) {
    for (std::uint32_t peer = 0; peer < plan.gpus(); ++peer) {
      bool const stays = peer == gpu;
      std::size_t const own_tokens = stays ? 0 : message_bytes(plan, gpu, peer, arrays);
      std::size_t const own_heads = stays ? 0 : message_bytes(plan, peer, gpu, arrays);
      sent[peer] = to_heads ? own_tokens : own_heads;
      received[peer] = to_heads ? own_heads : own_tokens;
    }
  };
  return run_exchange(bag, memory, content_of(plan, direction, arrays), sizes, mover);
}

template <communicator C>
[[nodiscard]] result<void> exchange_heads(C& bag, ulysses_plan const& plan,
                                          head_direction direction,
                                          std::span<head_array const> arrays, workspace& memory)
{
  return exchange_heads(bag, plan, direction, arrays, memory,
                        host_head_mover<C>(bag, plan, direction, arrays));
}

}  // namespace detail

/// Before attention: from a GPU's chunks of the sequences with all heads, to whole sequences with
/// its share of the heads. Any number of arrays in one all-to-all.
///
///     to_heads(bag, plan, memory, heads_of(q, q_whole, 32, 128),
///              heads_of(k, k_whole, 8, 128), heads_of(v, v_whole, 8, 128))
///
/// Collective in the bag: every GPU calls it with an equal plan and with arrays of the same heads
/// and types, which are compared, as the plans are, where the communicator compares sizes. It is
/// also the gradient of to_tokens, for an array of which no two GPUs have the same head.
///
/// In a bag of one the two layouts are the same: no collective is called, and an array is copied
/// once, or not at all if its `to` is its `from`.
///
/// Shapes      each array: from[plan.rows(gpu)][heads][dim], to[plan.rows()][share][dim], where gpu
///             is bag.rank() and share the count of plan.share(gpu, heads).
/// Expects     bag.size() == plan.gpus(); arrays in memory that the host reaches; `to` is `from` in
///             a bag of one only, and arrays do not overlap otherwise.
/// Ensures     (1) to[row][head] is that row of the bag's sequences and that head of the share,
///                 byte for byte
///             (2) the steady state allocates nothing
/// Errors      those of the communicator's all_to_all_v and wait; then `to` is unspecified and
///             `from` unchanged.
/// Complexity  that of packing and unpacking: each byte that moves is copied once on either side,
///             each that stays once. bag.scratch holds all messages of the GPU, in both directions.
template <communicator C, std::same_as<head_array>... Arrays>
[[nodiscard]] result<void> to_heads(C& bag, ulysses_plan const& plan, workspace& memory,
                                    Arrays const&... arrays)
{
  std::array<head_array, sizeof...(Arrays)> const all{arrays...};
  return detail::exchange_heads(bag, plan, detail::head_direction::to_heads, all, memory);
}

/// After attention: from whole sequences with a GPU's share of the heads, back to its chunks with
/// all heads. It is also the gradient of to_heads: if several GPUs have a copy of a head, each has
/// a gradient of it, and these are summed in the order of the GPUs, so that every run gives the
/// same bits.
///
/// Shapes      each array: from[plan.rows()][share][dim], to[plan.rows(gpu)][heads][dim].
/// Expects     what to_heads expects; if several GPUs have the same head, elements that can be
///             added.
/// Ensures     (1) to[row][head] is the sum of `from` over the GPUs that have the head, added one
///                 after another in the elements' own type; byte for byte if only one GPU has it
///             (2) the steady state allocates nothing
/// The rest is as for to_heads.
template <communicator C, std::same_as<head_array>... Arrays>
[[nodiscard]] result<void> to_tokens(C& bag, ulysses_plan const& plan, workspace& memory,
                                     Arrays const&... arrays)
{
  std::array<head_array, sizeof...(Arrays)> const all{arrays...};
  return detail::exchange_heads(bag, plan, detail::head_direction::to_tokens, all, memory);
}

}  // namespace ballast::inline v0

#endif  // BALLAST_ROUTE_ULYSSES_EXCHANGE_HPP
