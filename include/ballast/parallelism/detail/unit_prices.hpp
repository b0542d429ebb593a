// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/parallelism/detail/stage_times.hpp>
#include <ballast/pipeline/simulate.hpp>

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

/// A layout of one module and its price.
struct unit_option {
  module_layout layout{};
  unit_price price{};
  std::uint64_t gpus = 0;
  std::int64_t room = -1;  ///< see unit_prices

  [[nodiscard]] unit_time const& time() const noexcept { return price.time; }
};

/// How an orchestration cuts the batch, and, where modules share it, its degree; of tp 0: each has
/// its own.
struct unit_case {
  std::uint32_t llm_dp = 1;
  parallel_degree degree{0};
};

/// Lists the layouts of the modules of a sound problem, each on GPUs of a given kind.
class unit_options {
 public:
  unit_options(orchestration_problem const& problem, std::vector<std::size_t> kinds,
               unit_restrictions asked)
      : problem_(problem), kinds_(std::move(kinds)), asked_(std::move(asked))
  {
    if (asked_.most_gpus) { most_gpus_ = asked_.most_gpus(kinds_); }
    for (std::size_t module = 0; module < problem.modules.size(); ++module) {
      prices_.emplace_back(problem, module, kind(module), passes_of(problem, module));
      stages_.push_back(stages_of(module));
    }
    std::uint32_t const whole = problem.global_batch / problem.microbatch;
    for (std::uint32_t dp = 1; std::uint64_t{dp} * dp <= whole; ++dp) {
      if (whole % dp != 0) { continue; }
      replicas_.push_back(dp);
      if (whole / dp != dp) { replicas_.push_back(whole / dp); }
    }
    std::sort(replicas_.begin(), replicas_.end());
  }

  /// Whether a module may have a degree on GPUs of a kind: they then lie inside a node.
  [[nodiscard]] bool has_degree(std::size_t kind, parallel_degree const& degree) const noexcept
  {
    return problem_.kinds[kind].gpus_per_node % degree.gpus() == 0 &&
           (asked_.tp == 0 || asked_.tp == degree.tp);
  }

  /// Ordered by dp, then by the degrees of the LLM.
  [[nodiscard]] std::vector<unit_case> cases() const
  {
    std::vector<unit_case> all;
    for (std::uint32_t const dp : replicas_) {
      if (!asked_.has_one_degree) {
        all.push_back({dp});
        continue;
      }
      for (orchestrated_degree const& each : problem_.modules[problem_.llm].degrees) {
        all.push_back({dp, degree_of(each)});
      }
    }
    return all;
  }

  /// The microbatches of each replica of the LLM.
  [[nodiscard]] std::uint32_t microbatches(unit_case const& of) const noexcept
  {
    return problem_.global_batch / problem_.microbatch / of.llm_dp;
  }

  /// Visits the layouts of a module that can be in an orchestration of this case, but for those
  /// that a layout with fewer stages betters in all respects. They may have more GPUs than there
  /// are, or need more memory.
  template <class Visit>
  void each(std::size_t module, unit_case const& of, Visit visit) const
  {
    bool const is_bound = module == problem_.llm || asked_.has_one_degree;
    auto const& degrees = problem_.modules[module].degrees;
    std::uint32_t const samples = of.llm_dp * problem_.microbatch;
    for (std::size_t degree = 0; degree < degrees.size(); ++degree) {
      parallel_degree const parallel = degree_of(degrees[degree]);
      if (!has_degree(kinds_[module], parallel) || (of.degree.tp != 0 && of.degree != parallel)) {
        continue;
      }
      for (std::uint32_t const pp : stages_[module]) {
        auto const visit_replicas = [&](std::uint32_t dp) {
          module_layout const layout = layout_at(parallel, pp, dp);
          unit_price const price = prices_[module].price(degree, layout, samples);
          visit(unit_option{layout, price, layout.gpus(),
                            prices_[module].room(price, pp, microbatches(of))});
        };
        if (is_bound) {
          visit_replicas(of.llm_dp);
          continue;
        }
        for (std::uint32_t const dp : replicas_) { visit_replicas(dp); }
      }
    }
  }

  /// Whether a unit has GPUs and, with nothing behind it, memory for an option, and its times fit.
  [[nodiscard]] bool fits(std::size_t module, unit_option const& option) const noexcept
  {
    return option.gpus <= most_gpus(module) && option.room >= 0 &&
           option.time().microbatch != no_cost && option.time().once != no_cost;
  }

  /// What the fullest GPU of an option holds.
  [[nodiscard]] std::uint64_t bytes(std::size_t module, unit_option const& option,
                                    std::uint64_t behind, unit_case const& of) const noexcept
  {
    return prices_[module].bytes(option.price, option.layout.pp, behind, microbatches(of));
  }

  /// The microbatches on their way behind the module before one that has pp stages.
  [[nodiscard]] std::uint64_t depth(std::size_t module, std::uint32_t pp, std::uint64_t behind,
                                    unit_case const& of) const noexcept
  {
    return prices_[module].depth(pp, behind, microbatches(of));
  }

  [[nodiscard]] gpu_kind const& kind(std::size_t module) const noexcept
  {
    return problem_.kinds[kinds_[module]];
  }
  /// Of each module, the number of its kind.
  [[nodiscard]] std::vector<std::size_t> const& kinds() const noexcept { return kinds_; }
  [[nodiscard]] orchestration_problem const& problem() const noexcept { return problem_; }

 private:
  [[nodiscard]] std::uint64_t most_gpus(std::size_t module) const noexcept
  {
    std::uint64_t const all = kind(module).gpus;
    return most_gpus_.empty() ? all : std::min(all, most_gpus_[module]);
  }

  /// Of numbers of stages whose largest has equally many layers, the smallest is enough: the others
  /// take more GPUs, and no less of time and memory.
  [[nodiscard]] std::vector<std::uint32_t> stages_of(std::size_t module) const
  {
    unit_prices const& prices = prices_[module];
    std::uint32_t const wanted = module == problem_.llm ? asked_.pp : asked_.has_one_stage ? 1 : 0;
    std::vector<std::uint32_t> stages;
    if (wanted != 0) {
      if (prices.has_stages(wanted)) { stages.push_back(wanted); }
      return stages;
    }
    stages.push_back(1);
    std::uint32_t fewest = problem_.modules[module].layers + 1;
    for (std::uint32_t pp = 2; prices.has_stages(pp); ++pp) {
      std::uint32_t const layers = prices.layers_of_stage(pp);
      if (layers < fewest) { stages.push_back(pp); }
      fewest = std::min(fewest, layers);
    }
    return stages;
  }

  orchestration_problem const& problem_;
  std::vector<std::size_t> kinds_;
  unit_restrictions asked_;
  std::vector<std::uint64_t> most_gpus_;  // that are asked for; empty: all
  std::vector<unit_prices> prices_;
  std::vector<std::vector<std::uint32_t>> stages_;  // of each module, increasing
  std::vector<std::uint32_t> replicas_;             // divisors of the batch, increasing
};

/// Keeps of a module's options those that another one does not replace: one with no more GPUs, no
/// longer times, room for no fewer microbatches behind it and, unless no module is before it, no
/// more stages.
///
/// Ensures     (1) ordered by the time they take once, then by GPUs, then by their numbers
///             (2) of the best orchestrations of all options, the first is one of what is kept
/// Complexity  O(n log n + n k) for k that are kept.
inline void keep_useful(std::vector<unit_option>& options, bool is_first)
{
  std::sort(options.begin(), options.end(), [](unit_option const& a, unit_option const& b) {
    return precedes(a.time().once, b.time().once, a.gpus, b.gpus, a.layout, b.layout);
  });
  std::size_t kept = 0;
  for (unit_option const& option : options) {
    auto const end = options.begin() + static_cast<std::ptrdiff_t>(kept);
    bool const is_replaced = std::any_of(options.begin(), end, [&](unit_option const& other) {
      return other.gpus <= option.gpus && other.time().microbatch <= option.time().microbatch &&
             other.room >= option.room && (is_first || other.layout.pp <= option.layout.pp);
    });
    if (!is_replaced) { options[kept++] = option; }
  }
  options.resize(kept);
}

/// The options of a module that can be in the best orchestration of a case.
struct useful_options {
  std::vector<unit_option> all;
  std::vector<std::uint32_t> stages;  ///< that they have, increasing
  time_units least_once = no_cost;
  time_units least_microbatch = no_cost;

  void keep_useful_only(bool is_first)
  {
    keep_useful(all, is_first);
    for (unit_option const& each : all) {
      stages.push_back(each.layout.pp);
      least_once = std::min(least_once, each.time().once);
      least_microbatch = std::min(least_microbatch, each.time().microbatch);
    }
    std::sort(stages.begin(), stages.end());
    stages.erase(std::unique(stages.begin(), stages.end()), stages.end());
  }
};

}  // namespace ballast::inline v0::detail
