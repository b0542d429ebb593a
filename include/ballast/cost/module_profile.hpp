// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/cost/interpolated_throughput.hpp>

#include <compare>

namespace ballast::inline v0 {

/// How the GPUs that compute one microbatch of some layers share it: each has its part of every
/// product with weights (tensor parallelism), of the tokens (sequence, or context, parallelism) and
/// of the experts of a mixture (expert parallelism). They wait for each other in every layer.
///
/// Ensures     (1) ordered by tp, then sp, then ep
struct parallel_degree {
  std::uint32_t tp = 1;
  std::uint32_t sp = 1;
  std::uint32_t ep = 1;

  /// The largest number where the product does not fit.
  [[nodiscard]] constexpr std::uint64_t gpus() const noexcept
  {
    std::uint64_t const shared = std::uint64_t{tp} * sp;
    constexpr std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
    return ep != 0 && shared > most / ep ? most : shared * ep;
  }

  friend bool operator==(parallel_degree const&, parallel_degree const&) = default;
  friend std::strong_ordering operator<=>(parallel_degree const&, parallel_degree const&) = default;
};

/// That of anything that has tp, sp and ep: a measured degree, a layout, a point to profile.
template <class Parallel>
[[nodiscard]] constexpr parallel_degree degree_of(Parallel const& each) noexcept
{
  return {each.tp, each.sp, each.ep};
}

/// "tp 4", or "tp 4 sp 2 ep 8", without what is 1 behind tp.
[[nodiscard]] inline std::string text_of(parallel_degree const& degree)
{
  std::string text = detail::concat("tp ", degree.tp);
  if (degree.sp != 1) { text += detail::concat(" sp ", degree.sp); }
  if (degree.ep != 1) { text += detail::concat(" ep ", degree.ep); }
  return text;
}

/// What a GPU holds of a module at one tensor-parallel degree, as measured with two numbers of
/// layers: state (weights, gradients, optimiser), and activations of a microbatch of two sizes.
///
/// Between the measurements and beyond them it is linear in the layers and in the size, since
/// layers are alike and fused attention keeps no l x l matrix. Measure the numbers of layers and
/// the sizes that stages will have, or what lies around them.
///
/// Shapes      activation_bytes[of layers][of size].
/// Units       bytes of one GPU; sizes in tokens, or in the items of an encoder.
struct module_memory {
  std::array<std::uint32_t, 2> layers{1, 2};
  std::array<std::uint64_t, 2> state_bytes{};
  std::array<tokens, 2> sizes{0, 1};
  std::array<std::array<std::uint64_t, 2>, 2> activation_bytes{};

  /// Of a stage of so many layers.
  ///
  /// Ensures     (1) exact where it was measured, else rounded up; at least 0, at most 2^64 - 1
  /// Complexity  O(1).
  [[nodiscard]] constexpr std::uint64_t state(std::uint32_t stage_layers) const noexcept
  {
    return line(layers[0], state_bytes[0], layers[1], state_bytes[1], stage_layers);
  }

  /// Of one microbatch of a size on a stage of so many layers. Expects size >= 0.
  ///
  /// Ensures     (1) exact where it was measured, else rounded up; at least 0, at most 2^64 - 1
  ///             (2) a larger size never takes less
  /// Complexity  O(1).
  [[nodiscard]] constexpr std::uint64_t activations(std::uint32_t stage_layers,
                                                    tokens size) const noexcept
  {
    auto const [first, second] = activations_of_sizes(stage_layers);
    return line(sizes[0], first, sizes[1], second, size);
  }

  /// The largest size of which one microbatch takes at most so many bytes on a stage of so many
  /// layers; longest_sample where every size does, -1 where none does.
  /// Complexity  O(1).
  [[nodiscard]] constexpr tokens largest_size(std::uint32_t stage_layers,
                                              std::uint64_t bytes) const noexcept
  {
    if (activations(stage_layers, 0) > bytes) { return -1; }
    auto const [first, second] = activations_of_sizes(stage_layers);
    if (first == second) { return longest_sample; }
    auto const width = static_cast<uint128>(sizes[1] - sizes[0]);
    auto const rise = static_cast<uint128>(second - first);
    // Above the first size bytes are rounded up, so that this is the last size that has them; below
    // it they are what the first takes, less something rounded down.
    if (bytes >= first) {
      uint128 const beyond = (bytes - first) * width / rise;
      return beyond < static_cast<uint128>(longest_sample - sizes[0])
                 ? sizes[0] + static_cast<tokens>(beyond)
                 : longest_sample;
    }
    return sizes[0] - static_cast<tokens>(((first - bytes) * width + rise - 1) / rise);
  }

  /// Refuses a memory that is no pair of lines.
  ///
  /// Errors      out_of_range, position 0: layers are not 0 < first < second; position 1: sizes are
  ///             not 0 <= first < second <= longest_sample; position 2: the larger size takes fewer
  ///             bytes.
  [[nodiscard]] result<void> check() const
  {
    if (layers[0] == 0 || layers[0] >= layers[1]) {
      return fail(error_code::out_of_range, 0, "memory was measured with ", layers[0], " and ",
                  detail::counted(layers[1], "layer"),
                  "; measure two numbers of layers, the smaller first");
    }
    if (sizes[0] < 0 || sizes[0] >= sizes[1] || sizes[1] > longest_sample) {
      return fail(error_code::out_of_range, 1, "activations were measured at sizes ", sizes[0],
                  " and ", sizes[1], "; measure two sizes from 0 to ", longest_sample,
                  ", the smaller first");
    }
    for (std::size_t which = 0; which < 2; ++which) {
      auto const& [small, large] = activation_bytes[which];
      if (small > large) {
        return fail(error_code::out_of_range, 2, "activations of ",
                    detail::counted(layers[which], "layer"), " took ",
                    detail::counted(small, "byte"), " at size ", sizes[0], " and ", large,
                    " at size ", sizes[1], "; measure again, the larger takes more");
      }
    }
    return {};
  }

  friend bool operator==(module_memory const&, module_memory const&) = default;

 private:
  struct pair {
    std::uint64_t first;
    std::uint64_t second;
  };

  /// What the two measured sizes take on a stage of so many layers. Their difference is a line of
  /// its own, so that it is not negative beyond the measured layers either.
  [[nodiscard]] constexpr pair activations_of_sizes(std::uint32_t stage_layers) const noexcept
  {
    auto const& [few, many] = activation_bytes;
    std::uint64_t const first = line(layers[0], few[0], layers[1], many[0], stage_layers);
    std::uint64_t const rise =
        line(layers[0], few[1] - few[0], layers[1], many[1] - many[0], stage_layers);
    constexpr std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
    return {first, rise < most - first ? first + rise : most};
  }

  /// The straight line through (x0, y0) and (x1, y1) at x, rounded up; x0 < x1.
  [[nodiscard]] static constexpr std::uint64_t line(std::int64_t x0, std::uint64_t y0,
                                                    std::int64_t x1, std::uint64_t y1,
                                                    std::int64_t x) noexcept
  {
    // Positions are below 2^32, so both products are below 2^96.
    auto const width = static_cast<uint128>(x1 - x0);
    auto const from_first = static_cast<uint128>(x < x0 ? x0 - x : x - x0);
    uint128 const rise = (y0 < y1 ? y1 - y0 : y0 - y1) * from_first;
    bool const grows = (y0 < y1) == (x >= x0);
    if (!grows) {
      uint128 const fall = rise / width;
      return fall < y0 ? static_cast<std::uint64_t>(y0 - fall) : 0;
    }
    uint128 const sum = y0 + (rise + width - 1) / width;
    constexpr std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
    return sum < most ? static_cast<std::uint64_t>(sum) : most;
  }
};

/// How fast a module is at one parallel degree, and what it takes of a GPU's memory.
///
/// Units       FLOP per second of each of its tp x sp x ep GPUs: `linear` over the size of a microbatch,
///             since packed samples pass the weights together; `attention` over the length of a
///             sample, since attention takes samples one by one.
struct profiled_degree {
  std::uint32_t tp = 1;
  interpolated_throughput linear{};
  interpolated_throughput attention{};
  module_memory memory{};
  std::uint32_t sp = 1;
  std::uint32_t ep = 1;

  friend bool operator==(profiled_degree const&, profiled_degree const&) = default;
};

/// What was measured of one module of a model: an encoder, the LLM, a generator.
///
/// A sample has a size in every module: items of an encoder (tiles, frames), tokens of an LLM.
///
/// Units       flops: of a whole training step of all layers, per token or item and per their
///             square; an encoder whose items attend to themselves alone has no quadratic part.
///             boundary_bytes: of a token or item, what the next module gets, and as much comes
///             back as a gradient.
struct module_profile {
  /// A stage's part of a module whose layers do not all cost the same.
  struct stage_part {
    std::uint32_t layers = 0;
    std::uint32_t cost = 0;  ///< its share of the module's time is this over that of all parts

    friend bool operator==(stage_part, stage_part) = default;
  };

  static constexpr std::uint64_t most_boundary_bytes = std::uint64_t{1} << 53;
  static constexpr std::uint64_t most_cost = std::uint64_t{1} << 31;  ///< of all parts of a cut

  std::string name;
  std::uint32_t layers = 1;
  flop_polynomial flops;
  std::vector<profiled_degree> degrees;  ///< by tp, sp and ep, increasing
  std::uint64_t boundary_bytes = 0;
  /// Empty where all layers cost the same, and else as `cut_layers` fills it: the parts of pp
  /// stages are cuts[pp - 1].
  std::vector<std::vector<stage_part>> cuts{};
  /// Of the backward of products with weights, what the gradients of weights take; attention has
  /// none.
  std::uint32_t weights_percent = 50;
  /// Of the activations of a microbatch, what stays for these when the gradients of inputs are done.
  std::uint32_t held_percent = 100;

  /// What was measured at a degree, or null where nothing was.
  [[nodiscard]] profiled_degree const* find(parallel_degree const& degree) const noexcept
  {
    for (profiled_degree const& each : degrees) {
      if (degree_of(each) == degree) { return &each; }
    }
    return nullptr;
  }

  /// Refuses a profile that no search can read.
  ///
  /// Errors      out_of_range, position of the degree: it has no GPU or 2^32 and more, or is not above
  ///             the one before, or its memory is none; position 0 also: there is no degree, no layer or no
  ///             work, it gives the next module more than most_boundary_bytes, a share is above 100 %, or
  ///             cuts are not of its layers.
  [[nodiscard]] result<void> check() const
  {
    auto const refuse = [this](std::size_t position, std::string const& why) {
      return fail(error_code::out_of_range, position, "module " + name + " " + why);
    };
    if (layers == 0) { return refuse(0, "has no layers; give at least 1"); }
    if (flops.linear == 0) {
      return refuse(0, "takes no FLOP per token or item; give those of a training step");
    }
    if (boundary_bytes > most_boundary_bytes) {
      return refuse(
          0, "gives more than 2^53 bytes of a token or item to the next one; check the unit");
    }
    if (degrees.empty()) {
      return refuse(0, "was measured at no parallel degree; measure one at least");
    }
    if (weights_percent > 100 || held_percent > 100) {
      return refuse(0,
                    detail::concat("takes ", weights_percent, " % of a backward for weights, and ",
                                   "keeps ", held_percent, " % of a microbatch; give up to 100"));
    }
    if (!cuts.empty() && cuts.size() != layers) {
      return refuse(
          0, detail::concat("has ", detail::counted(layers, "layer"), " and was cut for up to ",
                            detail::counted(cuts.size(), "stage"), "; cut its layers anew"));
    }
    for (std::size_t stages = 0; stages < cuts.size(); ++stages) {
      std::uint64_t cut_layers = 0;
      std::uint64_t cost = 0;
      for (stage_part const& part : cuts[stages]) {
        cut_layers += part.layers;
        cost += part.cost;
      }
      if (cuts[stages].size() != stages + 1 || cut_layers != layers || cost == 0 ||
          cost > most_cost) {
        return refuse(0, detail::concat("was cut for ", detail::counted(stages + 1, "stage"),
                                        " into parts that are not its layers; cut them anew"));
      }
    }
    parallel_degree before{0, 0, 0};
    for (std::size_t index = 0; index < degrees.size(); ++index) {
      parallel_degree const degree = degree_of(degrees[index]);
      if (degree.gpus() == 0 || degree.gpus() > std::numeric_limits<std::uint32_t>::max()) {
        return refuse(index, "has a degree of " + text_of(degree) +
                                 ", which is no number of GPUs from 1 to 2^32 - 1");
      }
      if (degree <= before) {
        return refuse(index, detail::concat("has degree ", text_of(degree), " after ",
                                            text_of(before), "; give them in increasing order"));
      }
      if (auto checked = degrees[index].memory.check(); !checked) {
        return refuse(index, "at " + text_of(degree) + ": " + checked.error().message);
      }
      before = degree;
    }
    return {};
  }

  friend bool operator==(module_profile const&, module_profile const&) = default;
};

}  // namespace ballast::inline v0
