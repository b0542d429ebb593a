// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/parallelism/deal_samples.hpp>

#include <unordered_map>

namespace ballast::inline v0::detail {

/// How a batch is cut for one module: what its times depend on beside its degree.
struct batch_cut {
  std::uint32_t microbatches = 1;
  std::uint32_t groups = 1;
  std::uint32_t replicas = 1;  ///< of a group
  /// Of a replica, virtual ones too, where weights are sharded; 0: they are whole.
  std::uint32_t sharded_stages = 0;

  [[nodiscard]] std::size_t cells() const noexcept
  {
    return std::size_t{microbatches} * groups * replicas;
  }

  friend bool operator==(batch_cut const&, batch_cut const&) = default;
};

/// How long the replicas of a module take for all layers, forward and backward.
struct dealt_module {
  /// The replica that computes longest in a batch, and how long.
  struct fullest {
    time_units sum = 0;
    std::uint32_t group = 0;
    std::uint32_t replica = 0;
  };

  std::vector<time_units> whole{};  ///< [batch][microbatch][group][replica]
  /// What they take to send what the module that they feed gets, and to receive what each module
  /// gives that feeds them: as `whole`, or none where it takes no time.
  std::vector<time_units> sent{};
  std::vector<std::vector<time_units>> received{};
  std::vector<time_units> sums{};  ///< [batch][group][replica], over all microbatches
  std::vector<fullest> most{};     ///< of each batch
  bool is_too_long = false;        ///< some time cannot be simulated
  tokens largest = 0;  ///< microbatch of a replica, of the share that memory has to suffice for
};

/// The times of dealt batches, computed when they are asked for.
///
/// Complexity  O(batches (samples log replicas + cells)) for what is new, else O(1).
class dealt_times {
 public:
  /// Expects     batches[n x global_batch x modules], which outlive it as the problem does; the problem's sizes are not
  ///             used.
  dealt_times(assigned_job const& problem, std::span<tokens const> batches,
              sample_dealing dealing = {})
      : problem_(problem),
        modules_(problem_.modules),
        batches_(batches),
        batch_(problem.global_batch)
  {
    std::size_t const of_batch = batch_ * modules_.size();
    for (std::size_t batch = 0; batch < batches.size() / of_batch; ++batch) {
      dealers_.emplace_back(problem, batches.subspan(batch * of_batch, of_batch), dealing);
    }
    for (module_profile const& module : modules_) {
      first_degree_.push_back(alone_.size());
      alone_.resize(alone_.size() + module.degrees.size());
    }
    packed_.resize(alone_.size());
  }

  [[nodiscard]] std::size_t batches() const noexcept { return dealers_.size(); }

  /// Forgets all times where they are many. What of() returned is then no longer.
  void limit_memory()
  {
    if (cells_ < most_cells) { return; }
    known_.clear();
    turns_.clear();
    cells_ = 0;
  }

  [[nodiscard]] dealt_module const& of(std::size_t module, std::size_t degree, batch_cut cut)
  {
    auto const [at, is_new] =
        known_.try_emplace(key{static_cast<std::uint32_t>(first_degree_[module] + degree), cut});
    if (is_new) { compute(at->second, module, degree, cut); }
    return at->second;
  }

  /// What was computed so far, in cells of tables and samples.
  [[nodiscard]] std::uint64_t work() const noexcept { return work_; }

  /// Of each batch, the least that all replicas of a module together take for all layers, however
  /// its samples are dealt: attention of each sample, and products at the highest throughput of
  /// all sizes.
  [[nodiscard]] std::vector<time_units> least_work(std::size_t module, std::size_t degree)
  {
    profiled_degree const& speeds = modules_[module].degrees[degree];
    auto const& alone = alone_times(module, degree);
    std::vector<time_units> least(batches());
    for (std::size_t batch = 0; batch < batches(); ++batch) {
      tokens all = 0;
      time_units time = 0;
      for (std::size_t sample = batch * batch_; sample < (batch + 1) * batch_; ++sample) {
        all += size_of(sample, module);
        time = saturating_sum(time, alone[sample]);
      }
      time = saturating_sum(
          time, speeds.linear.least_picoseconds(linear_work(modules_[module], speeds, all), all));
      // The time of each microbatch is rounded, to nearest.
      least[batch] = time == no_cost ? no_cost : std::max<time_units>(time - batch_, 0);
    }
    return least;
  }

 private:
  static constexpr std::size_t most_cells = std::size_t{1} << 24;  // 128 MB
  static constexpr tokens most_packed = 1 << 16;                   // sizes whose times are kept
  static constexpr time_units unknown = -1;
  static constexpr time_units most_together = time_units{1} << 60;  // of a module in a batch

  struct key {
    std::uint32_t degree;  // of all modules
    batch_cut cut;

    friend bool operator==(key const&, key const&) = default;
  };
  struct hash {
    std::size_t operator()(key const& each) const noexcept
    {
      constexpr std::uint64_t odd = 0x9E3779B97F4A7C15U;
      std::uint64_t mixed = each.degree;
      for (std::uint64_t const part :
           {each.cut.microbatches, each.cut.groups, each.cut.replicas, each.cut.sharded_stages}) {
        mixed = (mixed ^ (mixed >> 29) ^ part) * odd;
      }
      return mixed ^ (mixed >> 32);
    }
  };

  [[nodiscard]] tokens size_of(std::size_t sample, std::size_t module) const
  {
    return batches_[sample * modules_.size() + module];
  }

  /// Attention of all samples of all batches.
  [[nodiscard]] std::vector<time_units> const& alone_times(std::size_t module, std::size_t degree)
  {
    auto& times = alone_[first_degree_[module] + degree];
    if (!times.empty()) { return times; }
    times.resize(batches() * batch_);
    for (std::size_t sample = 0; sample < times.size(); ++sample) {
      times[sample] = attention_time(modules_[module], modules_[module].degrees[degree],
                                     size_of(sample, module));
    }
    return times;
  }

  [[nodiscard]] time_units packed_time(std::size_t module, std::size_t degree, tokens all)
  {
    module_profile const& profile = modules_[module];
    if (all >= most_packed) { return linear_time(profile, profile.degrees[degree], all); }
    auto& times = packed_[first_degree_[module] + degree];
    if (times.empty()) { times.assign(most_packed, unknown); }
    time_units& time = times[static_cast<std::size_t>(all)];
    if (time == unknown) { time = linear_time(profile, profile.degrees[degree], all); }
    return time;
  }

  /// Of each batch, the turn of each sample.
  [[nodiscard]] std::vector<std::vector<std::uint32_t>> const& turns_of(batch_cut cut)
  {
    cut.replicas = 1;
    cut.sharded_stages = 0;
    auto const [at, is_new] = turns_.try_emplace(key{0, cut});
    if (is_new) {
      for (sample_dealer const& dealer : dealers_) {
        at->second.push_back(dealer.deal(cut.microbatches, cut.groups));
      }
      cells_ += batches() * batch_;
      work_ += deal_work * batches() * batch_;
    }
    return at->second;
  }

  void compute(dealt_module& made, std::size_t module, std::size_t degree, batch_cut cut)
  {
    auto const& turns = turns_of(cut);
    auto const& alone = alone_times(module, degree);
    std::size_t const cells = cut.cells();
    made.whole.assign(batches() * cells, 0);
    made.most.resize(batches());
    sizes_.assign(cells, 0);
    bool const has_sent = sends(problem_, module);
    std::vector<std::size_t> feeders;
    for (std::size_t each = 0; each < module; ++each) {
      if (problem_.fed_by(each) == module && sends(problem_, each)) { feeders.push_back(each); }
    }
    if (has_sent) { made.sent.resize(batches() * cells); }
    made.received.assign(feeders.size(), std::vector<time_units>(batches() * cells));
    received_.resize(feeders.size() * cells);
    std::size_t const sending = made.sent.size() + feeders.size() * made.whole.size();
    cells_ += 2 * made.whole.size() + sending;
    work_ += made.whole.size() + sending + deal_work * batches() * batch_;
    bool const takes_largest = problem_.memory_quantile == ratio{1};
    all_sizes_.clear();
    std::size_t const of_microbatch = std::size_t{cut.groups} * cut.replicas;
    made.sums.assign(batches() * of_microbatch, 0);
    module_layout const layout{.dp = cut.groups * cut.replicas,
                               .is_sharded = cut.sharded_stages > 0};
    module_gathers const gathers = gathers_of(problem_, module, degree, layout);
    for (std::size_t batch = 0; batch < batches(); ++batch) {
      time_units* const whole = made.whole.data() + batch * cells;
      std::fill(sizes_.begin(), sizes_.end(), 0);
      std::fill(received_.begin(), received_.end(), 0);
      dealers_[batch].share(module, span_of(turns[batch]), cut.microbatches, cut.groups,
                            cut.replicas,
                            [&](std::size_t turn, std::size_t replica, std::size_t sample) {
                              std::size_t const cell = turn * cut.replicas + replica;
                              std::size_t const own = batch * batch_ + sample;
                              sizes_[cell] += size_of(own, module);
                              for (std::size_t each = 0; each < feeders.size(); ++each) {
                                received_[each * cells + cell] += size_of(own, feeders[each]);
                              }
                              whole[cell] = saturating_sum(whole[cell], alone[own]);
                            });
      time_units* const sums = made.sums.data() + batch * of_microbatch;
      time_units all = 0;
      for (std::size_t first = 0; first < cells; first += of_microbatch) {
        for (std::size_t each = 0; each < of_microbatch; ++each) {
          time_units& time = whole[first + each];
          if (sizes_[first + each] > 0) {
            time = saturating_sum(time, packed_time(module, degree, sizes_[first + each]));
          }
        }
        if (layout.is_sharded) {  // replicas wait for each other in each layer
          time_units* const own = whole + first;
          time_units const longest = *std::max_element(own, own + of_microbatch);
          std::fill(own, own + of_microbatch, gathers.beside(longest, cut.sharded_stages));
        }
        for (std::size_t each = 0; each < of_microbatch; ++each) {
          time_units& time = whole[first + each];
          if (time > stage_graph::longest_time) {
            made.is_too_long = true;
            time = 0;
          }
          all = saturating_sum(all, time);
          sums[each] = saturating_sum(sums[each], time);
        }
      }
      if (takes_largest) {
        made.largest = std::max(made.largest, *std::max_element(sizes_.begin(), sizes_.end()));
      } else {
        all_sizes_.insert(all_sizes_.end(), sizes_.begin(), sizes_.end());
      }
      std::uint64_t const gpus = degree_of(modules_[module].degrees[degree]).gpus();
      if (has_sent) {
        set_sending(made, made.sent.data() + batch * cells, module, module, span_of(sizes_), gpus);
      }
      for (std::size_t each = 0; each < feeders.size(); ++each) {
        set_sending(made, made.received[each].data() + batch * cells, feeders[each], module,
                    span_of(received_, each * cells, cells), gpus);
      }
      made.is_too_long = made.is_too_long || all > most_together;
      auto const* const most = std::max_element(sums, sums + of_microbatch);
      auto const at = static_cast<std::uint32_t>(most - sums);
      made.most[batch] = {*most, at / cut.replicas, at % cut.replicas};
    }
    if (!takes_largest) { made.largest = memory_quantile_of(problem_, all_sizes_); }
  }

  /// What a group of GPUs of module `at` takes to send, or to receive, what a module gives for so
  /// many tokens or items.
  void set_sending(dealt_module& made, time_units* times, std::size_t module, std::size_t at,
                   std::span<tokens const> sizes, std::uint64_t gpus) const
  {
    time_units all = 0;
    for (std::size_t cell = 0; cell < sizes.size(); ++cell) {
      times[cell] = sizes[cell] == 0 ? 0 : sending_time(problem_, module, at, sizes[cell], gpus);
      made.is_too_long = made.is_too_long || times[cell] > stage_graph::longest_time;
      all = saturating_sum(all, times[cell]);
    }
    made.is_too_long = made.is_too_long || all > most_together;
  }

  static constexpr std::uint64_t deal_work = 40;  // as much work as so many cells

  assigned_job const& problem_;
  std::span<module_profile const> modules_;
  std::span<tokens const> batches_;
  std::uint32_t batch_;
  std::vector<sample_dealer> dealers_;
  std::vector<std::size_t> first_degree_;
  std::vector<std::vector<time_units>> alone_;   // of each degree, samples
  std::vector<std::vector<time_units>> packed_;  // of each degree, sizes
  std::unordered_map<key, dealt_module, hash> known_;
  std::unordered_map<key, std::vector<std::vector<std::uint32_t>>, hash> turns_;
  std::vector<tokens> sizes_;      // of each cell
  std::vector<tokens> all_sizes_;  // of all batches
  std::vector<tokens> received_;   // of each module that feeds it and cell
  std::size_t cells_ = 0;
  std::uint64_t work_ = 0;
};

}  // namespace ballast::inline v0::detail
