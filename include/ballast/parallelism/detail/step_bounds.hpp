// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARALLELISM_DETAIL_STEP_BOUNDS_HPP
#define BALLAST_PARALLELISM_DETAIL_STEP_BOUNDS_HPP

#include <ballast/core/detail/span_of.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/core/uint128.hpp>
#include <ballast/parallelism/detail/dealt_module.hpp>
#include <ballast/parallelism/detail/dealt_times.hpp>
#include <ballast/parallelism/detail/interleaved_simulation.hpp>
#include <ballast/parallelism/detail/layout_prices.hpp>
#include <ballast/parallelism/detail/layout_transfers.hpp>
#include <ballast/parallelism/detail/slot_simulation.hpp>
#include <ballast/parallelism/detail/stage_shares.hpp>
#include <ballast/parallelism/layout_problem.hpp>
#include <ballast/pipeline/stage_graph.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

namespace ballast::inline v0::detail {

/// What the steps of one layout and one number of microbatches take, batch by batch: bounds that
/// cost more and say more, and the simulated step.
///
/// Ensures     (1) fullest_replicas() <= simulated() and chain() <= simulated()
class step_bounds {
 public:
  /// Expects     times outlive it, and are of batches of the problem.
  step_bounds(layout_problem const& problem, dealt_times& times) : problem_(problem), times_(times)
  {}

  /// Takes a layout, and the virtual stages of each stage of its last module; false where it has
  /// times that cannot be simulated.
  [[nodiscard]] bool take(std::vector<chosen_layout> const& chosen, std::uint32_t microbatches,
                          std::uint32_t virtual_stages = 1)
  {
    times_.limit_memory();
    microbatches_ = microbatches;
    virtual_stages_ = virtual_stages;
    groups_ = 0;
    for (chosen_layout const& each : chosen) { groups_ = std::gcd(groups_, each.layout.dp); }
    modules_.clear();
    for (std::size_t module = 0; module < chosen.size(); ++module) {
      auto const& [degree, layout] = chosen[module];
      batch_cut const cut{microbatches, groups_, layout.dp / groups_};
      dealt_module const& dealt = times_.of(module, degree, cut);
      if (dealt.is_too_long) { return false; }
      module_profile const& profile = problem_.modules[module];
      stage_shares const shares(profile.layers, layout.pp);
      auto const reducing = [&](std::uint32_t layers) {
        return reducing_time(problem_, profile.degrees[degree], layers, layout.dp);
      };
      modules_.push_back({&dealt, cut, profile.layers, layout.pp, shares,
                          reducing(shares.least_layers()), reducing(shares.most_layers())});
      if (modules_.back().reducing_larger > stage_graph::longest_time) { return false; }
    }
    return true;
  }

  [[nodiscard]] std::size_t modules() const noexcept { return modules_.size(); }
  [[nodiscard]] std::uint32_t groups() const noexcept { return groups_; }
  /// The largest microbatch of a replica of a module, as batches are dealt.
  [[nodiscard]] tokens largest(std::size_t module) const { return modules_[module].dealt->largest; }

  /// The longest of the modules' fullest replicas: its work on its first stage, virtual ones
  /// together, after the first microbatch came through the modules before it, and before the last
  /// one's gradient goes back and gradients are reduced.
  ///
  /// Complexity  O(replicas of a group).
  struct fullest {
    time_units time = 0;
    std::size_t module = 0;
  };
  [[nodiscard]] fullest fullest_replicas(std::size_t batch)
  {
    fullest longest;
    for (std::size_t module = 0; module < modules_.size(); ++module) {
      taken const& own = modules_[module];
      auto const [sum, group, replica] = own.dealt->most[batch];
      auto const work = static_cast<time_units>(static_cast<uint128>(sum) *
                                                own.shares.most_layers() / own.layers);
      time_units const back = way_to(batch, module, group, replica, microbatches_ - 1, true);
      // Its first stage then reduces its gradients, and the pipeline's first one when all is over.
      time_units const rest =
          std::max(back + modules_.front().reducing_larger, own.reducing_larger);
      time_units const time = way_to(batch, module, group, replica, 0, false) + work + rest;
      if (time > longest.time) { longest = {time, module}; }
    }
    return longest;
  }

  /// The pipeline of a module's fullest replica and, of every other module, of the fullest that
  /// meets it, as if no other replica were there.
  ///
  /// Complexity  O(microbatches stages of a replica + replicas).
  [[nodiscard]] time_units chain(std::size_t batch, std::size_t module)
  {
    auto const [sum, group, replica] = modules_[module].dealt->most[batch];
    group_.resize(modules_.size());
    group_[module] = part_of(batch, module, group, replica, 1);
    std::uint32_t at = replica;
    for (std::size_t each = module; each-- > 0;) {
      at = fullest_that_meets(batch, group, each, each + 1, at);
      group_[each] = part_of(batch, each, group, at, 1);
    }
    at = replica;
    for (std::size_t each = module + 1; each < modules_.size(); ++each) {
      at = fullest_that_meets(batch, group, each, each - 1, at);
      group_[each] = part_of(batch, each, group, at, 1);
    }
    return makespan();
  }

  /// What a group of replicas takes. Complexity: O(microbatches stages of the group).
  [[nodiscard]] time_units simulated(std::size_t batch, std::uint32_t group)
  {
    group_.resize(modules_.size());
    for (std::size_t module = 0; module < modules_.size(); ++module) {
      group_[module] = part_of(batch, module, group, 0, modules_[module].cut.replicas);
    }
    return makespan();
  }

  /// Tasks of a chain, or of a group.
  [[nodiscard]] std::uint64_t tasks(bool of_group) const noexcept
  {
    std::uint64_t stages = 0;
    for (taken const& each : modules_) {
      std::uint32_t const parts = &each == &modules_.back() ? virtual_stages_ : 1;
      stages += std::uint64_t{each.pp} * parts * (of_group ? each.cut.replicas : 1);
    }
    return 2 * stages * microbatches_;
  }

 private:
  struct taken {
    dealt_module const* dealt;
    batch_cut cut;
    std::uint32_t layers;
    std::uint32_t pp;
    stage_shares shares;
    time_units reducing;
    time_units reducing_larger;

    [[nodiscard]] std::size_t cell(std::size_t batch, std::uint32_t microbatch, std::uint32_t group,
                                   std::uint32_t replica) const
    {
      std::size_t const turn = std::size_t{microbatch} * cut.groups + group;
      return batch * cut.cells() + turn * cut.replicas + replica;
    }
  };

  [[nodiscard]] time_units makespan()
  {
    return virtual_stages_ == 1
               ? slots_.makespan(span_of(group_), microbatches_)
               : interleaved_.makespan(span_of(group_), microbatches_, virtual_stages_);
  }

  [[nodiscard]] group_module part_of(std::size_t batch, std::size_t module, std::uint32_t group,
                                     std::uint32_t first, std::uint32_t replicas) const
  {
    taken const& own = modules_[module];
    dealt_module const& dealt = *own.dealt;
    std::size_t const cell = own.cell(batch, 0, group, first);
    return {own.layers,
            own.pp,
            replicas,
            dealt.whole.data() + cell,
            std::size_t{own.cut.groups} * own.cut.replicas,
            dealt.sent.empty() ? nullptr : dealt.sent.data() + cell,
            dealt.received.empty() ? nullptr : dealt.received.data() + cell,
            own.reducing,
            own.reducing_larger};
  }

  /// The longest way of a microbatch through the modules before one of its replicas.
  [[nodiscard]] time_units way_to(std::size_t batch, std::size_t module, std::uint32_t group,
                                  std::uint32_t replica, std::uint32_t microbatch, bool is_backward)
  {
    if (module == 0) { return 0; }
    ways_.assign(modules_.front().cut.replicas, 0);
    for (std::size_t each = 0; each < module; ++each) {
      taken const& own = modules_[each];
      std::size_t const first = own.cell(batch, microbatch, group, 0);
      for (std::uint32_t at = 0; at < own.cut.replicas; ++at) {
        ways_[at] += pass_time(own, own.dealt->whole[first + at], is_backward);
      }
      std::uint32_t const next = modules_[each + 1].cut.replicas;
      std::uint32_t const brokers = std::gcd(own.cut.replicas, next);
      std::uint32_t const met = own.cut.replicas / brokers;
      next_ways_.resize(next);
      for (std::uint32_t broker = 0; broker < brokers; ++broker) {
        auto const begin = ways_.begin() + static_cast<std::ptrdiff_t>(broker) * met;
        std::uint32_t const of_broker = next / brokers;
        time_units const longest =
            *std::max_element(begin, begin + met) + sending(batch, each, microbatch, group, broker);
        std::fill_n(next_ways_.begin() + static_cast<std::ptrdiff_t>(broker) * of_broker, of_broker,
                    longest);
      }
      ways_.swap(next_ways_);
    }
    return ways_[replica];
  }

  /// What a broker behind a module takes for a microbatch.
  [[nodiscard]] time_units sending(std::size_t batch, std::size_t module, std::uint32_t microbatch,
                                   std::uint32_t group, std::uint32_t broker) const
  {
    taken const& from = modules_[module];
    taken const& to = modules_[module + 1];
    if (from.dealt->sent.empty()) { return 0; }
    std::uint32_t const brokers = std::gcd(from.cut.replicas, to.cut.replicas);
    auto const most = [&](std::vector<time_units> const& times, taken const& of) {
      std::uint32_t const met = of.cut.replicas / brokers;
      auto const first = times.begin() + static_cast<std::ptrdiff_t>(
                                             of.cell(batch, microbatch, group, broker * met));
      return *std::max_element(first, first + met);
    };
    return std::max(most(from.dealt->sent, from), most(to.dealt->received, to));
  }

  /// All forwards, or all backwards, of a replica.
  [[nodiscard]] static time_units pass_time(taken const& own, time_units whole, bool is_backward)
  {
    auto const of = [&](bool is_larger) {
      time_units const share = own.shares.of(whole, is_larger);
      return is_backward ? share - share / 3 : share / 3;
    };
    time_units const larger = own.shares.larger_stages();
    return (larger > 0 ? larger * of(true) : 0) + (own.pp - larger) * of(false);
  }

  /// Of the replicas of a module that a broker links to one of a module beside it, the fullest.
  [[nodiscard]] std::uint32_t fullest_that_meets(std::size_t batch, std::uint32_t group,
                                                 std::size_t module, std::size_t beside,
                                                 std::uint32_t replica) const
  {
    taken const& own = modules_[module];
    std::uint32_t const others = modules_[beside].cut.replicas;
    std::uint32_t const brokers = std::gcd(own.cut.replicas, others);
    std::uint32_t const of_broker = own.cut.replicas / brokers;
    std::uint32_t const first = replica / (others / brokers) * of_broker;
    auto const sums =
        own.dealt->sums.begin() +
        static_cast<std::ptrdiff_t>((batch * own.cut.groups + group) * own.cut.replicas + first);
    return first + static_cast<std::uint32_t>(std::max_element(sums, sums + of_broker) - sums);
  }

  layout_problem problem_;
  dealt_times& times_;
  std::uint32_t microbatches_ = 1;
  std::uint32_t groups_ = 1;
  std::uint32_t virtual_stages_ = 1;  // of a stage of the last module
  std::vector<taken> modules_;
  std::vector<group_module> group_;
  std::vector<time_units> ways_;
  std::vector<time_units> next_ways_;
  slot_simulation slots_;
  interleaved_simulation interleaved_;
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARALLELISM_DETAIL_STEP_BOUNDS_HPP
