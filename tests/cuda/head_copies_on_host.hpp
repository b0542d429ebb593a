// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "../route/bag_arrays.hpp"
#include "../route/random_rows.hpp"  // defines: ballast_test::random_bytes
#include "copies_on_host.hpp"
#include "staged_on_host.hpp"

#include <ballast/core.hpp>
#include <ballast/cuda/detail/row_copies.hpp>
#include <ballast/cuda/device_heads.hpp>
#include <ballast/cuda/tables.hpp>
#include <ballast/route/head_array.hpp>
#include <ballast/route/ulysses.hpp>

namespace ballast_test {

/// The tables of a bag in host memory, with room for more sequences than it has.
class tables_on_host {
 public:
  explicit tables_on_host(bag_case const& bag, std::uint32_t spare = 2)
      : there_({static_cast<std::uint32_t>(bag.lengths.size()) + spare, bag.gpus, bag.query_heads,
                bag.kv_heads})
  {
    there_.hold(bag.plan());
    tables_ = there_->tables();
  }

  [[nodiscard]] ballast::ulysses_tables const& operator*() const { return tables_; }
  [[nodiscard]] ballast::ulysses_tables const* operator->() const { return &tables_; }

 private:
  staged_on_host<ballast::ulysses_plan> there_;
  ballast::ulysses_tables tables_;
};

/// All blocks between one GPU and its peers, one after another, as find_head_blocks writes them.
struct placed_blocks {
  ballast::detail::head_blocks all;
  ballast::device_heads heads;
  std::vector<ballast::detail::device_head_block> blocks;
  std::size_t messages = 0;

  placed_blocks(ballast::ulysses_tables const& tables, std::uint32_t gpu,
                ballast::detail::block_side side, std::span<ballast::head_array const> arrays)
      : placed_blocks(tables, gpu, side, ballast::device_heads(arrays))
  {}
  placed_blocks(ballast::ulysses_tables const& tables, std::uint32_t gpu,
                ballast::detail::block_side side, ballast::device_heads const& exchanged)
      : all{tables, gpu, exchanged.size(), side}, heads(exchanged)
  {
    for (std::uint32_t index = 0; index < all.count(); ++index) {
      blocks.push_back(all.make(heads, index));
      blocks.back().block.offset = messages;
      messages += all.room(index, blocks.back().block);
    }
  }

  [[nodiscard]] ballast::detail::head_copies copies() const { return {all, blocks.data(), heads}; }
};

/// Of which row of the bag each row of a GPU is.
inline std::vector<ballast::tokens> bag_rows_of(ballast::ulysses_tables const& tables,
                                                std::uint32_t gpu)
{
  std::vector<ballast::tokens> rows(static_cast<std::size_t>(tables.rows(gpu)));
  for (std::size_t row = 0; row < rows.size(); ++row) {
    rows[row] = tables.bag_row(gpu, static_cast<ballast::tokens>(row));
  }
  return rows;
}

/// pack_to_heads and pack_to_tokens of a prepared_heads, lane after lane. The arrays are head_arrays
/// or device_heads.
template <class List, class Arrays>
void pack_by_list(ballast::ulysses_tables const& tables, std::uint32_t gpu, Arrays const& arrays,
                  std::byte* messages)
{
  placed_blocks const placed(tables, gpu, List::side, ballast::device_heads(arrays));
  List const list{placed.copies(), messages};
  run_on_host(list, list.count());
}

/// unpack_to_heads and unpack_to_tokens there; with sums the list is head_sums.
template <class List, class Arrays>
void unpack_by_list(ballast::ulysses_tables const& tables, std::uint32_t gpu, Arrays const& arrays,
                    std::byte const* messages,
                    ballast::unpack_part part = ballast::unpack_part::all)
{
  placed_blocks const placed(tables, gpu, List::side, ballast::device_heads(arrays));
  if constexpr (std::is_same_v<List, ballast::detail::head_sums>) {
    auto const rows = bag_rows_of(tables, gpu);
    bool const adds = part != ballast::unpack_part::kept;
    run_part_on_host(List{{placed.copies(), messages}, adds ? rows.data() : nullptr}, part);
  } else {
    run_part_on_host(List{placed.copies(), messages}, part);
  }
}

/// Arrays of one GPU on either side of an exchange: `from` is random, `to` the same everywhere.
class random_arrays {
 public:
  random_arrays(ballast::random_source& random, ballast::ulysses_plan const& plan,
                std::uint32_t gpu, bool to_heads, std::span<ballast::head_shape const> shapes)
  {
    for (ballast::head_shape const shape : shapes) {
      std::size_t const chunks = plan.heads_of_chunks(gpu, shape.heads) * shape.head_bytes;
      std::size_t const sequences = plan.heads_of_sequences(gpu, shape.heads) * shape.head_bytes;
      from_.push_back(random_bytes(to_heads ? chunks : sequences, random));
      to.emplace_back(to_heads ? sequences : chunks, std::byte{0xee});
    }
    for (std::size_t index = 0; index < shapes.size(); ++index) {
      arrays.push_back({from_[index], to[index], shapes[index]});
    }
  }
  random_arrays(random_arrays const&) = delete;
  random_arrays& operator=(random_arrays const&) = delete;

  std::vector<std::vector<std::byte>> to;
  std::vector<ballast::head_array> arrays;

 private:
  std::vector<std::vector<std::byte>> from_;
};

}  // namespace ballast_test
