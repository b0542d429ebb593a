// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/cost/sharded_weights.hpp>
#include <ballast/parallelism/layout_problem.hpp>

#include <unordered_map>

namespace ballast::inline v0::detail {

/// A module's stages in a pipeline of all modules: how many microbatches its first stage keeps, the
/// fullest of them, under `interleaved_one_forward_one_backward`, which is 1F1B where no stage has
/// virtual ones.
///
/// `behind` are the microbatches that are on their way behind the module, from its last stage's
/// forward until the gradient is back: 0 for the last module, else `depth` of the next.
///
/// Expects     stages, virtual_stages and microbatches are at least 1; sums fit 64 bits.
/// Ensures     (1) what activation_memory finds for as many microbatches, all equal
///             (2) neither kept() nor depth() falls with `behind` or with the stages
struct joined_unit {
  std::uint64_t stages = 1;
  std::uint64_t virtual_stages = 1;  ///< of a stage
  std::uint64_t microbatches = 1;

  /// Forwards of virtual stages, of which each keeps what its layers need of a microbatch.
  [[nodiscard]] constexpr std::uint64_t kept(std::uint64_t behind) const noexcept
  {
    return std::min(ahead(behind) + 1, virtual_stages * microbatches);
  }

  /// The most `behind` with which no more than `most` are kept; `microbatches` where any number is.
  /// Expects kept(0) <= most.
  [[nodiscard]] constexpr std::uint64_t most_behind(std::uint64_t most) const noexcept
  {
    if (most >= virtual_stages * microbatches) { return microbatches; }
    std::uint64_t const left = most - ahead(0) - 1;
    std::uint64_t const at_once = (virtual_stages - 1) * (group() - 1);
    return left < at_once ? 0 : (left - at_once) / virtual_stages;
  }

  /// The microbatches on their way in the module and behind it.
  [[nodiscard]] constexpr std::uint64_t depth(std::uint64_t behind) const noexcept
  {
    return is_interleaved()
               ? (ahead(behind) + 1 + 2 * (virtual_stages - 1) * group()) / virtual_stages
               : stages + behind;
  }

 private:
  [[nodiscard]] constexpr bool is_interleaved() const noexcept { return virtual_stages > 1; }

  /// The largest group of microbatches that pass a chunk one after the other.
  [[nodiscard]] constexpr std::uint64_t group() const noexcept
  {
    std::uint64_t const groups = std::max<std::uint64_t>(1, microbatches / stages);
    return (microbatches + groups - 1) / groups;
  }

  /// Forwards of the first stage before it alternates.
  [[nodiscard]] constexpr std::uint64_t ahead(std::uint64_t behind) const noexcept
  {
    if (!is_interleaved()) { return stages - 1 + behind; }
    std::uint64_t const others = virtual_stages - 1;
    return 2 * (stages - 1) + others * group() +
           (behind == 0 ? 0 : virtual_stages * behind + others * (group() - 1));
  }
};

/// The share of a module's time that each of its stages takes: by layers, of which the first stages
/// have one more; or by the costs of their parts, where layers were cut. Stages of one kind take
/// the same.
class stage_shares {
 public:
  /// Shapes      parts[pp], or null.
  stage_shares(std::uint32_t layers, std::uint32_t pp,
               module_profile::stage_part const* parts = nullptr) noexcept
      : parts_(parts), pp_(pp), whole_(layers), fewer_(layers / pp), larger_stages_(layers % pp)
  {
    if (parts_ == nullptr) { return; }
    whole_ = 0;
    for (std::uint32_t stage = 0; stage < pp_; ++stage) { whole_ += parts_[stage].cost; }
  }
  stage_shares(module_profile const& module, std::uint32_t pp) noexcept
      : stage_shares(module.layers, pp, parts_of(module, pp))
  {}

  /// The parts of a module's stages; null where its layers are equal.
  [[nodiscard]] static module_profile::stage_part const* parts_of(module_profile const& module,
                                                                  std::uint32_t pp) noexcept
  {
    return module.cuts.empty() ? nullptr : module.cuts[pp - 1].data();
  }

  [[nodiscard]] module_profile::stage_part const* parts() const noexcept { return parts_; }
  [[nodiscard]] std::uint32_t layers() const noexcept { return fewer_ * pp_ + larger_stages_; }

  [[nodiscard]] std::uint32_t kinds() const noexcept
  {
    if (parts_ != nullptr) { return pp_; }
    return larger_stages_ > 0 ? 2 : 1;
  }
  [[nodiscard]] std::uint32_t kind_of(std::uint32_t stage) const noexcept
  {
    if (parts_ != nullptr) { return stage; }
    return stage < larger_stages_ ? 1 : 0;
  }
  [[nodiscard]] std::uint32_t stages_of(std::uint32_t kind) const noexcept
  {
    if (parts_ != nullptr) { return 1; }
    return kind == 1 ? larger_stages_ : pp_ - larger_stages_;
  }
  [[nodiscard]] std::uint32_t layers_of(std::uint32_t kind) const noexcept
  {
    return parts_ != nullptr ? parts_[kind].layers : fewer_ + kind;
  }

  /// The share of a kind of stages is cost_of() / whole().
  [[nodiscard]] std::uint32_t cost_of(std::uint32_t kind) const noexcept
  {
    return parts_ != nullptr ? parts_[kind].cost : fewer_ + kind;
  }
  [[nodiscard]] std::uint32_t whole() const noexcept { return whole_; }

  /// The kind with the largest share.
  [[nodiscard]] std::uint32_t costliest() const noexcept
  {
    std::uint32_t costliest = 0;
    for (std::uint32_t kind = 1; kind < kinds(); ++kind) {
      if (cost_of(kind) > cost_of(costliest)) { costliest = kind; }
    }
    return costliest;
  }
  [[nodiscard]] std::uint32_t most_layers() const noexcept
  {
    std::uint32_t most = 0;
    for (std::uint32_t kind = 0; kind < kinds(); ++kind) { most = std::max(most, layers_of(kind)); }
    return most;
  }

  [[nodiscard]] time_units of(time_units whole, std::uint32_t kind) const noexcept
  {
    std::uint64_t const own = cost_of(kind);
    auto const time = static_cast<std::uint64_t>(whole);
    if (time >> 52 == 0 && own >> 11 == 0) {
      return static_cast<time_units>((time * own + whole_ - 1) / whole_);
    }
    return static_cast<time_units>(divided_up(static_cast<uint128>(time) * own, whole_));
  }

 private:
  module_profile::stage_part const* parts_;
  std::uint32_t pp_;
  std::uint32_t whole_;
  std::uint32_t fewer_;
  std::uint32_t larger_stages_;
};

/// The work of `batch` copies of a sample, rounded up to whole FLOP after it is divided by `parts`.
struct batch_work {
  uint128 linear;
  uint128 attention;

  batch_work(flop_polynomial flops, tokens size, std::uint32_t batch, std::uint64_t parts) noexcept
  {
    constexpr uint128 most = ~uint128{0};
    auto const length = static_cast<uint128>(size);
    uint128 const pairs = flops.quadratic * (length * length);  // below 2^126
    linear = divided_up(flops.linear * length * batch, parts);
    attention = pairs > most / batch ? most : divided_up(pairs * batch, parts);
  }
};

/// What one GPU of a group takes for the attention of one sample, which samples have for themselves.
[[nodiscard]] inline cost_units attention_time(module_profile const& module,
                                               profiled_degree const& speeds, tokens size)
{
  batch_work const alone(module.flops, size, 1, degree_of(speeds).gpus());
  return speeds.attention.picoseconds(alone.attention, size);
}

/// The FLOP of one GPU of a group for products with weights, of samples of so many tokens or items.
[[nodiscard]] inline uint128 linear_work(module_profile const& module,
                                         profiled_degree const& speeds, tokens all)
{
  return divided_up(static_cast<uint128>(module.flops.linear) * static_cast<std::uint64_t>(all),
                    degree_of(speeds).gpus());  // below 2^64 2^55
}

/// What they take for samples that are packed together.
[[nodiscard]] inline cost_units linear_time(module_profile const& module,
                                            profiled_degree const& speeds, tokens all)
{
  return speeds.linear.picoseconds(linear_work(module, speeds, all), all);
}

/// How long one GPU of a group of a kind computes a microbatch, if the module is a single stage: for
/// each sample of which the microbatch has copies.
///
/// A global batch is divided into `parts` microbatches, of all replicas together, which need not be
/// whole numbers of samples.
///
/// Units       picoseconds, rounded to nearest; no_cost where they do not fit.
/// Complexity  of(): O(samples measurements) for the first call with these arguments, then O(1).
class stage_times {
 public:
  explicit stage_times(layout_problem const& problem)
      : batch_(problem.global_batch), overflow_(problem.modules.size())
  {
    std::size_t const modules = problem.modules.size();
    on_kind_.reserve(problem.kinds.size());
    for (std::size_t kind = 0; kind < problem.kinds.size(); ++kind) {
      std::vector<std::size_t> const all(modules, kind);
      on_kind_.emplace_back(problem, span_of(all));
    }
    std::size_t const samples = problem.samples();
    bool const mean = problem.estimate == step_estimate::mean_sample;
    samples_ = mean ? 1 : samples;
    sizes_.resize(modules);
    std::size_t degrees = 0;
    for (std::size_t module = 0; module < modules; ++module) {
      for (std::size_t sample = 0; sample < samples && !mean; ++sample) {
        sizes_[module].push_back(problem.sizes[sample * modules + module]);
      }
      if (mean) {
        sizes_[module].push_back(
            static_cast<tokens>(divided_up(total_size(problem, module), samples)));
      }
      first_degree_.push_back(degrees);
      degrees += problem.modules[module].degrees.size();
    }
    rows_.assign(on_kind_.size(), std::vector<std::vector<stored>>(degrees));
  }

  /// Of how many samples steps are priced.
  [[nodiscard]] std::size_t samples() const noexcept { return samples_; }

  /// Of a sample for which steps are priced.
  [[nodiscard]] tokens size(std::size_t module, std::size_t sample) const
  {
    return sizes_[module][sample];
  }

  /// The times of all samples, and their mean, rounded down.
  struct row {
    std::span<cost_units const> each;
    cost_units mean;
  };

  [[nodiscard]] row of(std::size_t module, std::size_t kind, std::size_t degree,
                       std::uint64_t parts)
  {
    auto& known = rows_[kind][first_degree_[module] + degree];
    if (parts >= most_known) {
      overflow_[module].resize(samples_);
      std::span<time_units> const own = mutable_span_of(overflow_[module]);
      return {own, compute(own, module, kind, degree, parts)};
    }
    if (parts >= known.size()) { known.resize(std::max<std::size_t>(parts + 1, 2 * known.size())); }
    auto& [times, mean] = known[parts];
    if (times.empty()) {
      times.resize(samples_);
      mean = compute(mutable_span_of(times), module, kind, degree, parts);
      stored_ += samples_;
    }
    return {span_of(times), mean};
  }

  /// Forgets all times where they are many. Rows that were returned are then no longer.
  void limit_memory()
  {
    if (stored_ < most_times) { return; }
    for (auto& of_kind : rows_) {
      for (auto& known : of_kind) { known.clear(); }
    }
    stored_ = 0;
  }

 private:
  static constexpr std::uint64_t most_known = 1 << 16;  // rows are few beyond, so not kept
  static constexpr std::size_t most_times = std::size_t{1} << 23;  // 64 MB

  /// Callers hold several at a time: what `each` has stays where it is.
  struct stored {
    std::vector<cost_units> each{};
    cost_units mean = 0;
  };

  [[nodiscard]] tokens microbatch_size(tokens size, std::uint64_t parts) const noexcept
  {
    auto const all = static_cast<std::uint64_t>(size) * batch_;  // below 2^62
    return static_cast<tokens>(all / parts + (all % parts != 0 ? 1 : 0));
  }

  [[nodiscard]] cost_units compute(std::span<cost_units> times, std::size_t module,
                                   std::size_t kind, std::size_t degree, std::uint64_t parts) const
  {
    module_profile const& profile = on_kind_[kind].modules[module];
    profiled_degree const& speeds = profile.degrees[degree];
    std::uint64_t const group = degree_of(speeds).gpus();
    uint128 total = 0;
    for (std::size_t sample = 0; sample < samples_; ++sample) {
      tokens const size = sizes_[module][sample];
      batch_work const work(profile.flops, size, batch_, parts * group);
      times[sample] =
          saturating_sum(speeds.linear.picoseconds(work.linear, microbatch_size(size, parts)),
                         speeds.attention.picoseconds(work.attention, size));
      total += static_cast<uint128>(times[sample]);
    }
    return static_cast<cost_units>(total / samples_);
  }

  std::vector<assigned_job> on_kind_;  // all modules on GPUs of each kind
  std::uint32_t batch_;
  std::size_t samples_ = 1;
  std::vector<std::vector<tokens>> sizes_;              // of each module
  std::vector<std::size_t> first_degree_;               // of each module, in rows_
  std::vector<std::vector<std::vector<stored>>> rows_;  // of each kind, degree and parts
  std::vector<std::vector<cost_units>> overflow_;       // of each module
  std::size_t stored_ = 0;                              // times
};

/// The least size up to which the share memory_quantile of all sizes is; sizes are then in another
/// order. Expects at least one.
template <class Size>
[[nodiscard]] Size memory_quantile_of(layout_problem const& problem, std::vector<Size>& sizes)
{
  auto const [share, whole] = problem.memory_quantile;
  uint128 const wanted =
      divided_up(static_cast<uint128>(sizes.size()) * static_cast<std::uint64_t>(share),
                 static_cast<std::uint64_t>(whole));
  auto const at = sizes.begin() + static_cast<std::ptrdiff_t>(wanted) - 1;
  std::nth_element(sizes.begin(), at, sizes.end());
  return *at;
}

/// Of the state of so many layers of a module what `of` of its parts are, rounded up.
[[nodiscard]] inline std::uint64_t part_of_state(assigned_job const& problem, std::size_t module,
                                                 std::size_t degree, std::uint32_t layers,
                                                 std::uint64_t of)
{
  auto const& [weights, gradients, optimizer, is_shared] = problem.state;
  std::uint64_t const all = problem.modules[module].degrees[degree].memory.state(layers);
  return static_cast<std::uint64_t>(
      divided_up(static_cast<uint128>(all) * of, std::uint64_t{weights} + gradients + optimizer));
}

/// The state of so many layers of a module, as replicas shard it.
[[nodiscard]] inline sharded_weights shards_of(assigned_job const& problem, std::size_t module,
                                               std::size_t degree, std::uint32_t layers,
                                               std::uint32_t dp)
{
  auto const& [weights, gradients, optimizer, is_shared] = problem.state;
  auto const part = [&](std::uint64_t of) {
    return part_of_state(problem, module, degree, layers, of);
  };
  sharded_weights sharded{.layers = layers,
                          .ranks = dp,
                          .weight_bytes = part(weights),
                          .has_backward = problem.has_backward(module)};
  if (problem.passes[module] == module_passes::all) {
    sharded.gradient_bytes = part(gradients);
    sharded.optimizer_bytes = part(optimizer);
  }
  return sharded;
}

/// What the fullest GPU of a module holds, of whatever kind it is: the state of its stage, and the
/// activations of the microbatches that it keeps (joined_unit).
///
/// Complexity  microbatch_size(): O(samples) for the first call with a number of samples, then
///             O(1); the rest O(1) beside it.
class stage_memory {
 public:
  explicit stage_memory(layout_problem const& problem)
      : problem_(problem),
        sizes_(problem.modules.size(), std::vector<tokens>(few, unknown)),
        many_(problem.modules.size()),
        totals_(problem.modules.size())
  {
    std::size_t const modules = problem.modules.size();
    std::size_t const samples = problem.samples();
    for (std::size_t module = 0; module < modules; ++module) {
      totals_[module].push_back(0);
      for (std::size_t sample = 0; sample < samples; ++sample) {
        totals_[module].push_back(totals_[module].back() +
                                  problem.sizes[sample * modules + module]);
      }
    }
  }

  [[nodiscard]] static std::uint32_t stage_layers(module_profile const& module, std::uint32_t pp)
  {
    return stage_shares(module, pp).most_layers();
  }

  /// The size for which memory has to suffice where the global batch is divided into `parts`
  /// microbatches: the quantile over all drawn ones of ceil(batch / parts) samples.
  [[nodiscard]] tokens microbatch_size(std::size_t module, std::uint64_t parts)
  {
    std::uint64_t const batch = problem_.global_batch;
    return size_of(module, batch / parts + (batch % parts != 0 ? 1 : 0));
  }

  /// The fewest parts with which microbatches are no larger than `largest`; 0 if one sample is.
  /// Complexity  O(log batch) sizes.
  [[nodiscard]] std::uint64_t least_parts(std::size_t module, tokens largest)
  {
    std::uint64_t fitting = 0;
    std::uint64_t too_many = std::uint64_t{problem_.global_batch} + 1;
    while (too_many - fitting > 1) {
      std::uint64_t const samples = fitting + (too_many - fitting) / 2;
      (size_of(module, samples) <= largest ? fitting : too_many) = samples;
    }
    if (fitting == 0) { return 0; }
    return problem_.global_batch / fitting + (problem_.global_batch % fitting != 0 ? 1 : 0);
  }

  /// Weights of a stage on one of its GPUs, and, where they are trained, gradients and optimiser,
  /// which replicas share where the problem says so, or shard as the layout says.
  [[nodiscard]] std::uint64_t state(std::size_t module, std::size_t degree,
                                    module_layout const& layout) const
  {
    auto const& [weights, gradients, optimizer, is_shared] = problem_.state;
    std::uint32_t const layers = stage_layers(problem_.modules[module], layout.pp);
    std::uint32_t const dp = layout.dp;
    auto const part = [&](std::uint64_t of) {
      return part_of_state(problem_, module, degree, layers, of);
    };
    if (layout.is_sharded) { return shards_of(problem_, module, degree, layers, dp).held_bytes(); }
    if (problem_.passes[module] != module_passes::all) { return part(weights); }
    if (!is_shared) { return problem_.modules[module].degrees[degree].memory.state(layers); }
    return part(std::uint64_t{weights} + gradients) + (part(optimizer) + dp - 1) / dp;
  }

  /// The largest microbatch with which a stage of a layout fits where there are so many bytes, if it
  /// holds activations `held` times, each of one of its virtual stages; -1 if none does.
  [[nodiscard]] tokens largest_size(std::uint64_t there, std::size_t module, std::size_t degree,
                                    module_layout const& layout, std::uint64_t held,
                                    std::uint32_t virtual_stages = 1) const
  {
    module_memory const& memory = problem_.modules[module].degrees[degree].memory;
    std::uint64_t const own = state(module, degree, layout);
    if (own > there) { return -1; }
    if (!problem_.has_backward(module)) { return memory.largest_size(1, there - own); }
    std::uint32_t const layers = stage_layers(problem_.modules[module], layout.pp);
    uint128 const free = static_cast<uint128>(there - own) * virtual_stages / held;
    constexpr std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
    return memory.largest_size(layers, static_cast<std::uint64_t>(std::min<uint128>(free, most)));
  }

  /// Activations of a microbatch of this size on a stage; of what only computes forward those of one
  /// layer.
  [[nodiscard]] std::uint64_t of_microbatch(std::size_t module, std::size_t degree,
                                            std::uint32_t pp, tokens size) const
  {
    module_profile const& profile = problem_.modules[module];
    module_memory const& memory = profile.degrees[degree].memory;
    if (!problem_.has_backward(module)) { return memory.activations(1, size); }
    return memory.activations(stage_layers(profile, pp), size);
  }

  /// What a stage holds, where microbatches are of this size; 2^64 - 1 where that does not fit. It
  /// holds activations `held` times, each of one of its virtual stages; what only computes forward
  /// those of one layer.
  [[nodiscard]] std::uint64_t bytes_of(std::size_t module, std::size_t degree,
                                       module_layout const& layout, std::uint64_t held, tokens size,
                                       std::uint32_t virtual_stages = 1) const
  {
    return bytes_of(module, state(module, degree, layout),
                    of_microbatch(module, degree, layout.pp, size), held, virtual_stages);
  }

  /// The same of such a state and such activations of a microbatch.
  [[nodiscard]] std::uint64_t bytes_of(std::size_t module, std::uint64_t state_bytes,
                                       std::uint64_t of_stage, std::uint64_t held,
                                       std::uint64_t virtual_stages) const
  {
    uint128 const kept =  // rounded once, for all that are held
        problem_.has_backward(module)
            ? divided_up(static_cast<uint128>(of_stage) * held, virtual_stages)
            : of_stage;
    uint128 const all = kept + state_bytes;
    constexpr std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
    return all < most ? static_cast<std::uint64_t>(all) : most;
  }

 private:
  static constexpr tokens unknown = -1;
  static constexpr std::uint64_t few = 1 << 12;

  /// Of samples that follow each other, so many.
  [[nodiscard]] tokens size_of(std::size_t module, std::uint64_t samples)
  {
    tokens& known = samples < few ? sizes_[module][samples]
                                  : many_[module].try_emplace(samples, unknown).first->second;
    if (known == unknown) { known = quantile(module, samples); }
    return known;
  }

  [[nodiscard]] tokens quantile(std::size_t module, std::uint64_t batch) const
  {
    auto const& totals = totals_[module];
    std::size_t const samples = totals.size() - 1;
    std::uint64_t const rounds = batch / samples;
    std::size_t const rest = batch % samples;
    std::vector<uint128> drawn(samples);
    for (std::size_t first = 0; first < samples; ++first) {
      std::size_t const end = first + rest;
      std::int64_t const partial = end <= samples
                                       ? totals[end] - totals[first]
                                       : totals[samples] - totals[first] + totals[end - samples];
      drawn[first] = static_cast<uint128>(totals[samples]) * rounds + static_cast<uint128>(partial);
    }
    return static_cast<tokens>(
        std::min(memory_quantile_of(problem_, drawn), static_cast<uint128>(most_size)));
  }

  static constexpr tokens most_size = std::numeric_limits<tokens>::max() >> 1;

  assigned_job problem_;                    // with whatever kinds
  std::vector<std::vector<tokens>> sizes_;  // of each module, by the samples of a microbatch
  std::vector<std::unordered_map<std::uint64_t, tokens>> many_;  // the same, from few samples on
  std::vector<std::vector<tokens>> totals_;  // of each module: sizes of the samples before
};

/// What stages take and hold, asked by module, kind of GPU and degree: once for all assignments of
/// kinds to modules.
struct price_list {
  stage_times times;
  stage_memory memory;

  /// Of a problem as it is given, in which no module is as fast as on its kind.
  explicit price_list(layout_problem const& problem) : times(problem), memory(problem) {}
  explicit price_list(assigned_job const&) = delete;
};

}  // namespace ballast::inline v0::detail
