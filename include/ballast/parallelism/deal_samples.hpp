// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/parallelism/layout_pipeline.hpp>

#include <functional>
#include <queue>

namespace ballast::inline v0 {

/// How the samples of a batch come to microbatches and replicas.
enum class sample_dealing : std::uint8_t {
  longest_first,  ///< the heaviest first, each to where least is
  as_drawn        ///< the batch is cut, in its order, into parts of as many samples
};

namespace detail {

/// Deals the samples of one batch to microbatches, groups and replicas.
///
/// Longest first: a sample weighs its share of the batch's FLOP in each module, so that modules count
/// alike. The heaviest goes first, to the microbatch, of the few least full ones, that is least full
/// with it. Microbatches come in turns, the fullest first: of the equally many of a turn the fullest
/// goes to the group that has had least.
///
/// Complexity  O(samples (modules + log samples)) to build.
class sample_dealer {
 public:
  sample_dealer(assigned_job const& problem, std::span<tokens const> batch, sample_dealing dealing)
      : modules_(problem.modules.size()),
        samples_(batch.size() / modules_),
        dealing_(dealing),
        weights_(batch.size(), 1),  // so that a sample of no work is a sample
        by_module_(modules_)
  {
    if (dealing == sample_dealing::as_drawn) { return; }
    for (std::size_t module = 0; module < modules_; ++module) {
      flop_polynomial const flops = problem.modules[module].flops;
      auto const work_of = [&](std::size_t sample) {
        return flops.exact(batch[sample * modules_ + module]);
      };
      uint128 largest = 0;
      for (std::size_t sample = 0; sample < samples_; ++sample) {
        largest = std::max(largest, work_of(sample));
      }
      int shift = 0;  // to 2^70, so that the sum and a product by 2^32 fit
      while (largest >> shift >> 70 != 0) { ++shift; }
      uint128 total = 0;
      for (std::size_t sample = 0; sample < samples_; ++sample) {
        total += work_of(sample) >> shift;
      }
      for (std::size_t sample = 0; sample < samples_ && total > 0; ++sample) {
        weights_[sample * modules_ + module] +=
            static_cast<std::uint64_t>(((work_of(sample) >> shift) << 32) / total);
      }
    }
    heaviest_first_ = sorted([this](std::size_t sample) { return largest_of(sample); });
    for (std::size_t module = 0; module < modules_; ++module) {
      by_module_[module] =
          sorted([this, module](std::size_t sample) { return weight(sample, module); });
    }
  }

  [[nodiscard]] std::size_t samples() const noexcept { return samples_; }

  /// For each sample `microbatch * groups + group`.
  ///
  /// Expects     microbatches * groups is from 1 to samples().
  /// Ensures     (1) no microbatch of a group is empty
  /// Complexity  O(samples (modules + log samples)).
  [[nodiscard]] std::vector<std::uint32_t> deal(std::uint32_t microbatches,
                                                std::uint32_t groups) const
  {
    std::size_t const bins = std::size_t{microbatches} * groups;
    if (dealing_ == sample_dealing::as_drawn) {
      std::vector<std::uint32_t> turns(samples_);
      for (std::size_t turn = 0; turn < bins; ++turn) {
        auto const [begin, end] = drawn(turn, bins);
        std::fill(turns.begin() + begin, turns.begin() + end, static_cast<std::uint32_t>(turn));
      }
      return turns;
    }
    std::vector<std::uint64_t> loads(bins * modules_, 0);
    std::vector<std::uint32_t> bin_of(samples_);
    std::vector<entry> least;  // the few least full
    std::priority_queue<entry, std::vector<entry>, std::greater<>> others;
    for (std::uint32_t bin = 0; bin < bins; ++bin) {
      if (bin < few) {
        least.push_back({0, bin});
      } else {
        others.push({0, bin});
      }
    }
    for (std::uint32_t const sample : heaviest_first_) {
      entry best{~std::uint64_t{0}, 0};
      std::size_t at = 0;
      for (std::size_t each = 0; each < least.size(); ++each) {
        entry const now{with(loads, least[each].bin, sample), least[each].bin};
        if (now < best) {
          best = now;
          at = each;
        }
      }
      for (std::size_t module = 0; module < modules_; ++module) {
        loads[best.bin * modules_ + module] += weight(sample, module);
      }
      bin_of[sample] = best.bin;
      least[at] = best;
      if (!others.empty() && others.top() < best) {
        least[at] = others.top();
        others.pop();
        others.push(best);
      }
    }
    // All are in one of the two.
    for (; !others.empty(); others.pop()) { least.push_back(others.top()); }
    std::sort(least.begin(), least.end(), [](entry const& a, entry const& b) {
      return precedes(b.load, a.load, a.bin, b.bin);
    });
    return turns_of(std::move(bin_of), least, groups);
  }

  /// Calls `found(turn, replica, sample)` for every sample, where the `replicas` of a group share
  /// each of its microbatches: the heaviest in this module goes first, to the replica that has
  /// least of the microbatch, then to the one that had least before.
  ///
  /// Expects     turns are deal(microbatches, groups).
  /// Complexity  O(samples log replicas + microbatches groups replicas).
  template <class Found>
  void share(std::size_t module, std::span<std::uint32_t const> turns, std::uint32_t microbatches,
             std::uint32_t groups, std::uint32_t replicas, Found const& found) const
  {
    if (replicas == 1) {
      for (std::size_t sample = 0; sample < samples_; ++sample) {
        found(std::size_t{turns[sample]}, std::size_t{0}, sample);
      }
      return;
    }
    if (dealing_ == sample_dealing::as_drawn) {
      std::size_t const all = std::size_t{microbatches} * groups;
      for (std::size_t turn = 0; turn < all; ++turn) {
        auto const [begin, end] = drawn(turn, all);
        std::size_t replica = 0;
        for (auto sample = begin; sample < end; ++sample) {
          while (sample - begin >= (end - begin) * static_cast<std::ptrdiff_t>(replica + 1) /
                                       static_cast<std::ptrdiff_t>(replicas)) {
            ++replica;
          }
          found(turn, replica, static_cast<std::size_t>(sample));
        }
      }
      return;
    }
    jagged<std::size_t, std::uint32_t> of_turn;  // samples, the heaviest first
    of_turn.fill(std::size_t{microbatches} * groups, [&](auto const& visit) {
      for (std::uint32_t const sample : by_module_[module]) {
        visit(std::size_t{turns[sample]}, sample);
      }
    });
    struct replica_load {
      std::uint64_t now;
      std::uint64_t all;
      std::uint32_t replica;
    };
    auto const later = [](replica_load const& a, replica_load const& b) {
      return precedes(b.now, a.now, b.all, a.all, b.replica, a.replica);
    };
    std::vector<replica_load> loads(replicas);
    for (std::uint32_t group = 0; group < groups; ++group) {
      for (std::uint32_t each = 0; each < replicas; ++each) { loads[each] = {0, 0, each}; }
      for (std::uint32_t microbatch = 0; microbatch < microbatches; ++microbatch) {
        std::size_t const turn = std::size_t{microbatch} * groups + group;
        for (replica_load& each : loads) { each.now = 0; }
        std::make_heap(loads.begin(), loads.end(), later);
        for (std::size_t const sample : of_turn[turn]) {
          std::pop_heap(loads.begin(), loads.end(), later);
          loads.back().now += weight(sample, module);
          loads.back().all += weight(sample, module);
          found(turn, std::size_t{loads.back().replica}, sample);
          std::push_heap(loads.begin(), loads.end(), later);
        }
      }
    }
  }

 private:
  static constexpr std::size_t few = 16;

  struct entry {
    std::uint64_t load;
    std::uint32_t bin;

    friend auto operator<=>(entry const&, entry const&) = default;
  };

  /// The samples of a part of the batch, of so many, in its order.
  [[nodiscard]] std::pair<std::ptrdiff_t, std::ptrdiff_t> drawn(std::size_t part,
                                                                std::size_t parts) const
  {
    return {static_cast<std::ptrdiff_t>(samples_ * part / parts),
            static_cast<std::ptrdiff_t>(samples_ * (part + 1) / parts)};
  }

  [[nodiscard]] std::uint64_t weight(std::size_t sample, std::size_t module) const
  {
    return weights_[sample * modules_ + module];
  }

  [[nodiscard]] std::uint64_t largest_of(std::size_t sample) const
  {
    auto const first = weights_.begin() + static_cast<std::ptrdiff_t>(sample * modules_);
    return *std::max_element(first, first + static_cast<std::ptrdiff_t>(modules_));
  }

  /// How full a bin would be in its fullest module.
  [[nodiscard]] std::uint64_t with(std::vector<std::uint64_t> const& loads, std::size_t bin,
                                   std::size_t sample) const
  {
    std::uint64_t most = 0;
    for (std::size_t module = 0; module < modules_; ++module) {
      most = std::max(most, loads[bin * modules_ + module] + weight(sample, module));
    }
    return most;
  }

  template <class WeightOf>
  [[nodiscard]] std::vector<std::uint32_t> sorted(WeightOf const& weight_of) const
  {
    std::vector<std::uint32_t> order(samples_);
    std::iota(order.begin(), order.end(), 0U);
    std::sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
      return precedes(weight_of(b), weight_of(a), a, b);
    });
    return order;
  }

  /// Gives bins to groups, of each turn one to each.
  [[nodiscard]] std::vector<std::uint32_t> turns_of(std::vector<std::uint32_t> bin_of,
                                                    std::vector<entry> const& fullest_first,
                                                    std::uint32_t groups) const
  {
    std::vector<std::uint32_t> turn_of(fullest_first.size());
    std::vector<std::pair<std::uint64_t, std::uint32_t>> had(groups);  // load, group
    for (std::uint32_t group = 0; group < groups; ++group) { had[group] = {0, group}; }
    for (std::size_t first = 0; first < fullest_first.size(); first += groups) {
      std::sort(had.begin(), had.end());
      for (std::uint32_t each = 0; each < groups; ++each) {
        auto const [load, bin] = fullest_first[first + each];
        turn_of[bin] = static_cast<std::uint32_t>(first) + had[each].second;
        had[each].first += load;
      }
    }
    for (std::uint32_t& bin : bin_of) { bin = turn_of[bin]; }
    return bin_of;
  }

  std::size_t modules_;
  std::size_t samples_;
  sample_dealing dealing_;
  std::vector<std::uint64_t> weights_;  // samples x modules, 2^32 in all
  std::vector<std::uint32_t> heaviest_first_;
  std::vector<std::vector<std::uint32_t>> by_module_;  // samples, the heaviest first
};

}  // namespace detail

/// Which samples of a batch each replica of a layout computes in each microbatch.
struct dealt_samples {
  std::uint32_t groups = 1;
  /// Of each module; row (microbatch * groups + group) * (replicas of a group) + replica.
  std::vector<jagged<std::size_t, sample_id>> modules;
};

/// Deals a batch to microbatches, groups and replicas of a layout. Longest first, a sample weighs its
/// share of the batch's FLOP in each module: it is what `search_layouts` and `simulate_layout` take a
/// scheduler to do; the scheduler of `schedule_layout` does it with more time.
///
/// Shapes      batch[samples x modules]. The groups are those of layout_pipeline.
/// Expects     price_layout accepts the layout, and no size is above longest_sample or negative.
/// Ensures     (1) every sample is in one row of every module, in the same microbatch and group
///             (2) every microbatch of every group has a sample, of as many samples as there are
///                 microbatches and groups
///             (3) longest first: the heaviest samples first, each to the microbatch, of the 16 that
///                 are least full, which is least full with it; the fullest microbatches come first
/// Complexity  O(modules (samples log samples + rows)).
[[nodiscard]] inline dealt_samples deal_samples(layout_problem const& problem,
                                                model_layout const& layout,
                                                std::span<tokens const> batch,
                                                sample_dealing dealing = {})
{
  detail::sample_dealer const dealer(detail::assigned_job(problem, layout), batch, dealing);
  dealt_samples dealt{layout_pipeline(problem, layout).groups(), {}};
  auto const turns = dealer.deal(layout.microbatches, dealt.groups);
  for (std::size_t module = 0; module < problem.modules.size(); ++module) {
    std::uint32_t const replicas = layout.modules[module].dp / dealt.groups;
    jagged<std::size_t, sample_id>& rows = dealt.modules.emplace_back();
    rows.fill(std::size_t{layout.microbatches} * dealt.groups * replicas, [&](auto const& visit) {
      dealer.share(module, detail::span_of(turns), layout.microbatches, dealt.groups, replicas,
                   [&](std::size_t turn, std::size_t replica, std::size_t sample) {
                     visit(turn * replicas + replica, to_id<sample_id>(sample));
                   });
    });
  }
  return dealt;
}

}  // namespace ballast::inline v0
