// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARALLELISM_DETAIL_UNIT_PRICES_HPP
#define BALLAST_PARALLELISM_DETAIL_UNIT_PRICES_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/parallelism/detail/divided_up.hpp>
#include <ballast/parallelism/detail/joined_unit.hpp>
#include <ballast/parallelism/disttrain_makespan.hpp>
#include <ballast/parallelism/model_layout.hpp>
#include <ballast/parallelism/orchestration_problem.hpp>
#include <ballast/pipeline/simulate.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>

namespace ballast::inline v0::detail {

/// What a step computes of a module.
enum class unit_passes : std::uint8_t {
  forward,         ///< it is frozen, and so is all that feeds it
  through_frozen,  ///< it is frozen; the gradient passes through it to something that is trained
  all
};

/// What a step of the problem computes of this module: O(modules).
[[nodiscard]] inline unit_passes passes_of(orchestration_problem const& problem,
                                           std::size_t module) noexcept
{
  if (problem.modules[module].is_trained) { return unit_passes::all; }
  bool is_fed_by_trained = problem.modules[module].is_input_trained;
  for (std::size_t before = 0; before < module; ++before) {
    orchestrated_module const& each = problem.modules[before];
    is_fed_by_trained = is_fed_by_trained || each.is_trained || each.is_input_trained;
  }
  return is_fed_by_trained ? unit_passes::through_frozen : unit_passes::forward;
}

/// What a unit takes of a step, and of the GPU that holds most: state, and activations of a
/// microbatch in each virtual stage that keeps it.
struct unit_price {
  unit_time time;
  std::uint64_t state_bytes = 0;
  std::uint64_t kept_bytes = 0;
};

/// Prices the layouts of one module of a problem that is sound, on GPUs of one of its kinds.
class unit_prices {
 public:
  unit_prices(orchestration_problem const& problem, std::size_t module, gpu_kind const& kind,
              unit_passes passes) noexcept
      : module_(problem.modules[module]),
        kind_(kind),
        passes_(passes),
        is_alone_(problem.modules.size() == 1)
  {}

  /// The layers that each of so many stages is priced with: those of the largest, and with virtual
  /// stages as many in each of them as the largest has.
  [[nodiscard]] std::uint32_t layers_of_stage(std::uint32_t pp) const noexcept
  {
    std::uint32_t const parts = virtual_stages(pp);
    std::uint64_t const chunks = std::uint64_t{pp} * parts;
    return static_cast<std::uint32_t>((module_.layers + chunks - 1) / chunks) * parts;
  }

  /// Whether the module can have so many stages: each, virtual ones too, has a layer.
  [[nodiscard]] bool has_stages(std::uint32_t pp) const noexcept
  {
    return pp >= 1 && std::uint64_t{pp} * virtual_stages(pp) <= module_.layers;
  }

  /// Where a microbatch of all replicas together is so many samples. Times that are no_cost do not
  /// fit.
  [[nodiscard]] unit_price price(std::size_t degree, module_layout const& layout,
                                 std::uint32_t samples) const noexcept
  {
    orchestrated_degree const& of = module_.degrees[degree];
    std::uint32_t const pp = layout.pp;
    std::uint32_t const dp = layout.dp;
    uint128 const slots = layers_of_stage(pp);
    uint128 const layers = module_.layers;
    auto const of_stage = [&](std::uint64_t bytes) { return divided_up(bytes * slots, layers); };

    std::uint64_t const ways = passes_ == unit_passes::forward ? 1 : 2;
    uint128 const microbatch = computing(number(of.forward) + backward_of(of), samples, slots, dp) +
                               sending(layout, samples, ways);
    unit_price result;
    uint128 const once =
        divided_up(microbatch * pp, virtual_stages(pp)) + reducing(of, layers_of_stage(pp), dp);
    uint128 bytes = of_stage(of.weight_bytes);
    if (passes_ == unit_passes::all) {
      uint128 const reduced = of_stage(of.gradient_bytes);
      bytes += reduced + divided_up(of_stage(of.optimizer_bytes), dp);
    }
    result.time = {in_picoseconds(microbatch), in_picoseconds(once)};
    result.state_bytes = in_bytes(bytes);
    uint128 const of_layer =
        divided_up(static_cast<uint128>(of.activation_bytes) * ((samples + dp - 1) / dp), layers);
    result.kept_bytes = in_bytes(
        passes_ == unit_passes::forward ? of_layer : of_layer * (slots / virtual_stages(pp)));
    return result;
  }

  /// What each virtual stage of so many layers takes for a microbatch, and to send it on: no_cost
  /// where that does not fit.
  [[nodiscard]] stage_time times_of_stage(std::size_t degree, module_layout const& layout,
                                          std::uint32_t samples,
                                          std::uint32_t layers) const noexcept
  {
    orchestrated_degree const& of = module_.degrees[degree];
    uint128 const sent = sending(layout, samples, 1);
    stage_time time{
        in_picoseconds(computing(number(of.forward), samples, layers, layout.dp) + sent)};
    if (has_backward()) {
      time.backward = in_picoseconds(computing(backward_of(of), samples, layers, layout.dp) + sent);
    }
    return time;
  }

  /// What the replicas of a stage of so many layers take to reduce and scatter gradients and to
  /// gather weights.
  [[nodiscard]] time_units reducing_time(std::size_t degree, std::uint32_t layers,
                                         std::uint32_t dp) const noexcept
  {
    return in_picoseconds(reducing(module_.degrees[degree], layers, dp));
  }

  [[nodiscard]] bool has_backward() const noexcept { return passes_ != unit_passes::forward; }

  /// One stage has nothing to interleave.
  [[nodiscard]] std::uint32_t virtual_stages(std::uint32_t pp) const noexcept
  {
    return pp == 1 ? 1 : module_.virtual_stages;
  }

  /// What that GPU holds where so many microbatches are on their way behind the unit. What only
  /// computes forward keeps the activations of one layer.
  [[nodiscard]] std::uint64_t bytes(unit_price const& price, std::uint32_t pp, std::uint64_t behind,
                                    std::uint64_t microbatches) const noexcept
  {
    std::uint64_t const kept =
        passes_ == unit_passes::forward ? 1 : unit(pp, microbatches).kept(behind);
    return in_bytes(static_cast<uint128>(price.kept_bytes) * kept + price.state_bytes);
  }

  /// The most microbatches that can be on their way behind the unit; -1 where it has too little
  /// memory for none.
  [[nodiscard]] std::int64_t room(unit_price const& price, std::uint32_t pp,
                                  std::uint64_t microbatches) const noexcept
  {
    if (bytes(price, pp, 0, microbatches) > kind_.memory_bytes) { return -1; }
    if (passes_ == unit_passes::forward || price.kept_bytes == 0) {
      return static_cast<std::int64_t>(microbatches);
    }
    return static_cast<std::int64_t>(
        unit(pp, microbatches)
            .most_behind((kind_.memory_bytes - price.state_bytes) / price.kept_bytes));
  }

  /// The microbatches that are then on their way behind the module before.
  [[nodiscard]] std::uint64_t depth(std::uint32_t pp, std::uint64_t behind,
                                    std::uint64_t microbatches) const noexcept
  {
    return unit(pp, microbatches).depth(behind);
  }

 private:
  static constexpr std::uint64_t picoseconds_per_second = 1'000'000'000'000;

  [[nodiscard]] static std::uint64_t number(std::int64_t part) noexcept
  {
    return static_cast<std::uint64_t>(part);
  }

  [[nodiscard]] static time_units in_picoseconds(uint128 time) noexcept
  {
    return time < static_cast<uint128>(no_cost) ? static_cast<time_units>(time) : no_cost;
  }

  /// Of a sample in all layers.
  [[nodiscard]] std::uint64_t backward_of(orchestrated_degree const& of) const noexcept
  {
    switch (passes_) {
      case unit_passes::forward: return 0;
      case unit_passes::through_frozen: return number(of.backward_of_input);
      case unit_passes::all: break;
    }
    return number(of.backward);
  }

  /// A microbatch of so many samples in so many layers, of a time of a sample in all of them. Times
  /// are at most 2^54, samples 2^24, layers and speeds 2^20 each: products below 2^119.
  [[nodiscard]] uint128 computing(std::uint64_t of_sample, std::uint32_t samples, uint128 layers,
                                  std::uint32_t dp) const noexcept
  {
    return divided_up(
        static_cast<uint128>(of_sample) * samples * layers * number(kind_.speed.denominator),
        static_cast<uint128>(module_.layers) * dp * number(kind_.speed.numerator));
  }

  [[nodiscard]] uint128 sending(module_layout const& layout, std::uint32_t samples,
                                std::uint64_t ways) const noexcept
  {
    if (kind_.bytes_per_second == 0 || (layout.pp == 1 && is_alone_)) { return 0; }
    return divided_up(
        static_cast<uint128>(module_.boundary_bytes) * ways * samples * picoseconds_per_second,
        static_cast<uint128>(kind_.bytes_per_second) * layout.group() * layout.dp);
  }

  [[nodiscard]] uint128 reducing(orchestrated_degree const& of, std::uint32_t layers,
                                 std::uint32_t dp) const noexcept
  {
    if (passes_ != unit_passes::all || kind_.bytes_per_second == 0) { return 0; }
    auto const share = [&](std::uint64_t bytes) {
      return divided_up(static_cast<uint128>(bytes) * layers, module_.layers);
    };
    return divided_up(
        (share(of.gradient_bytes) + share(of.weight_bytes)) * (dp - 1) * picoseconds_per_second,
        static_cast<uint128>(kind_.bytes_per_second) * dp * of.copies);
  }

  [[nodiscard]] static std::uint64_t in_bytes(uint128 bytes) noexcept
  {
    constexpr std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
    return bytes < most ? static_cast<std::uint64_t>(bytes) : most;
  }

  [[nodiscard]] joined_unit unit(std::uint32_t pp, std::uint64_t microbatches) const noexcept
  {
    return {pp, virtual_stages(pp), microbatches};
  }

  orchestrated_module const& module_;
  gpu_kind const& kind_;
  unit_passes passes_;
  bool is_alone_;
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARALLELISM_DETAIL_UNIT_PRICES_HPP
