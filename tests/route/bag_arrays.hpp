// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/route/ulysses.hpp>

namespace ballast_test {

/// The part that thing `index` of `length` falls in, counted off part by part.
inline std::uint32_t part_with(std::int64_t index, std::int64_t length, std::uint32_t parts)
{
  std::uint32_t part = 0;
  for (;; ++part) {
    std::int64_t const size = length / parts + (part < length % parts ? 1 : 0);
    if (index < size) { return part; }
    index -= size;
  }
}

/// A bag, its sequences and the heads of its attention.
struct bag_case {
  std::uint32_t gpus = 1;
  std::vector<ballast::tokens> lengths;
  std::uint32_t query_heads = 1;
  std::uint32_t kv_heads = 0;  ///< whose groups stay whole

  [[nodiscard]] ballast::ulysses_plan plan() const
  {
    ballast::ulysses_plan made;
    made.assign(lengths, gpus, query_heads, kv_heads);
    return made;
  }

  [[nodiscard]] std::size_t rows() const
  {
    return static_cast<std::size_t>(
        std::reduce(lengths.begin(), lengths.end(), ballast::tokens{0}));
  }

  /// The GPU that has each row of the bag between attentions.
  [[nodiscard]] std::vector<std::uint32_t> row_owners() const
  {
    std::vector<std::uint32_t> owners;
    for (ballast::tokens const length : lengths) {
      for (ballast::tokens token = 0; token < length; ++token) {
        owners.push_back(part_with(token, length, gpus));
      }
    }
    return owners;
  }

  /// The GPU that has a query head, counted off.
  [[nodiscard]] std::uint32_t gpu_with(std::uint32_t query) const
  {
    if (kv_heads == 0) { return part_with(query, query_heads, gpus); }
    std::uint32_t const size = query_heads / kv_heads;
    std::uint32_t const group = query / size;
    if (gpus <= kv_heads) { return part_with(group, kv_heads, gpus); }
    std::vector<std::uint32_t> own;  // the GPUs of the group
    for (std::uint32_t gpu = 0; gpu < gpus; ++gpu) {
      if (part_with(gpu, gpus, kv_heads) == group) { own.push_back(gpu); }
    }
    return own[part_with(query % size, size, static_cast<std::uint32_t>(own.size()))];
  }

  /// Whether a GPU has a query head that uses this head of `heads`.
  [[nodiscard]] bool uses(std::uint32_t gpu, std::uint32_t head, std::uint32_t heads) const
  {
    for (std::uint32_t query = 0; query < query_heads; ++query) {
      if (query * heads / query_heads == head && gpu_with(query) == gpu) { return true; }
    }
    return false;
  }

  /// How many GPUs have a copy of a head in attention.
  [[nodiscard]] std::uint32_t copies(std::uint32_t head, std::uint32_t heads) const
  {
    std::uint32_t found = 0;
    for (std::uint32_t gpu = 0; gpu < gpus; ++gpu) { found += uses(gpu, head, heads) ? 1 : 0; }
    return found;
  }
};

/// Bags of up to `most_gpus`: some have fewer heads than GPUs, some keep groups whole, some have no sequences, some empty ones,
/// and some only sequences with fewer tokens than GPUs.
inline bag_case random_bag(ballast::random_source& random, std::uint32_t most_gpus)
{
  bag_case bag;
  bag.gpus = static_cast<std::uint32_t>(1 + random.below(most_gpus));
  bag.query_heads = static_cast<std::uint32_t>(1 + random.below(std::uint64_t{2} * most_gpus));
  if (bag.gpus <= bag.query_heads && random.below(2) == 0) {
    do {
      bag.kv_heads = static_cast<std::uint32_t>(1 + random.below(bag.query_heads));
    } while (bag.query_heads % bag.kv_heads != 0);
  }
  bag.lengths.resize(random.below(6));
  bool const all_short = random.below(4) == 0;
  for (ballast::tokens& length : bag.lengths) {
    bool const few = all_short || random.below(3) == 0;
    length = static_cast<ballast::tokens>(few ? random.below(bag.gpus)
                                              : bag.gpus + random.below(3 * bag.gpus));
  }
  return bag;
}

/// A number of heads that an array of this bag can have: all, one, or some.
inline std::uint32_t random_heads(ballast::random_source& random, bag_case const& bag)
{
  return random.below(3) == 0 ? bag.query_heads
                              : static_cast<std::uint32_t>(1 + random.below(bag.query_heads));
}

/// An array [rows][heads][dim] of a whole bag, and what each GPU has of it, from the definition.
template <class T>
struct whole_array {
  bag_case const* bag;
  std::uint32_t heads;
  std::size_t dim;
  std::vector<T> elements;

  /// element(index) for every index.
  template <class Element>
  whole_array(bag_case const& of, std::uint32_t heads_of_token, std::size_t dim_of_head,
              Element element)
      : bag(&of), heads(heads_of_token), dim(dim_of_head)
  {
    for (std::size_t index = 0; index < of.rows() * heads * dim; ++index) {
      elements.push_back(static_cast<T>(element(index)));
    }
  }

  /// Between attentions: the GPU's rows with all heads.
  [[nodiscard]] std::vector<T> tokens_of(std::uint32_t gpu) const
  {
    auto const owners = bag->row_owners();
    return select([&](std::size_t row, std::uint32_t) { return owners[row] == gpu; });
  }

  /// In attention: all rows with the GPU's heads.
  [[nodiscard]] std::vector<T> heads_of(std::uint32_t gpu) const
  {
    std::vector<bool> used;
    for (std::uint32_t head = 0; head < heads; ++head) {
      used.push_back(bag->uses(gpu, head, heads));
    }
    return select([&](std::size_t, std::uint32_t head) { return used[head]; });
  }

 private:
  template <class Wanted>
  [[nodiscard]] std::vector<T> select(Wanted wanted) const
  {
    std::vector<T> selected;
    for (std::size_t index = 0; index < elements.size(); ++index) {
      auto const head = static_cast<std::uint32_t>(index / dim % heads);
      if (wanted(index / dim / heads, head)) { selected.push_back(elements[index]); }
    }
    return selected;
  }
};

}  // namespace ballast_test
