// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARALLELISM_DETAIL_STEP_BOUNDS_HPP
#define BALLAST_PARALLELISM_DETAIL_STEP_BOUNDS_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/cost/module_profile.hpp>
#include <ballast/parallelism/detail/dealt_module.hpp>
#include <ballast/parallelism/detail/dealt_times.hpp>
#include <ballast/parallelism/detail/group_module.hpp>
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
      std::size_t earlier = 0;  // modules that send to the same one
      for (std::size_t each = 0; each < module; ++each) {
        bool const is_beside = problem_.fed_by(each) == problem_.fed_by(module);
        earlier += is_beside && sends(problem_, each) ? 1U : 0U;
      }
      batch_cut const cut{microbatches, groups_, layout.dp / groups_};
      dealt_module const& dealt = times_.of(module, degree, cut);
      if (dealt.is_too_long) { return false; }
      module_profile const& profile = problem_.modules[module];
      stage_shares const shares(profile, layout.pp);
      modules_.push_back({&dealt, cut, problem_.fed_by(module), earlier, layout.pp, shares, {}});
      auto& reducing = modules_.back().reducing;
      for (std::uint32_t kind = 0; kind < shares.kinds(); ++kind) {
        reducing.push_back(
            reducing_time(problem_, profile.degrees[degree], shares.layers_of(kind), layout.dp));
        if (reducing.back() > stage_graph::longest_time) { return false; }
      }
    }
    return true;
  }

  [[nodiscard]] std::size_t modules() const noexcept { return modules_.size(); }
  [[nodiscard]] std::uint32_t groups() const noexcept { return groups_; }
  /// The largest microbatch of a replica of a module, as batches are dealt.
  [[nodiscard]] tokens largest(std::size_t module) const { return modules_[module].dealt->largest; }

  /// The longest of the modules' fullest replicas: its work on its costliest stage, virtual ones
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
      std::uint32_t const costliest = own.shares.costliest();
      auto const work = static_cast<time_units>(static_cast<uint128>(sum) *
                                                own.shares.cost_of(costliest) / own.shares.whole());
      // The stage then reduces its gradients, and those of the pipeline when all is over.
      time_units const back = way_to(batch, module, group, replica, microbatches_ - 1, true);
      time_units const rest = std::max(back, own.reducing[costliest]);
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
    std::size_t const last = modules_.size() - 1;
    met_.assign(modules_.size(), unknown);
    met_[module] = replica;
    for (std::size_t at = module; at < last; at = modules_[at].feeds) {
      met_[modules_[at].feeds] = fullest_that_meets(batch, group, modules_[at].feeds, at, met_[at]);
    }
    for (std::size_t at = last; at-- > 0;) {
      std::size_t const fed = modules_[at].feeds;
      if (met_[at] == unknown) { met_[at] = fullest_that_meets(batch, group, at, fed, met_[fed]); }
    }
    take_parts(batch, group, true);
    return makespan();
  }

  /// What a group of replicas takes. Complexity: O(microbatches stages of the group).
  [[nodiscard]] time_units simulated(std::size_t batch, std::uint32_t group)
  {
    met_.assign(modules_.size(), 0);
    take_parts(batch, group, false);
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
    std::size_t feeds;
    std::size_t received;  // by the module that it feeds, which of its
    std::uint32_t pp;
    stage_shares shares;
    std::vector<time_units> reducing;  // by kinds of stages

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

  /// One replica of each module, those of met_, or all from there on.
  void take_parts(std::size_t batch, std::uint32_t group, bool is_chain)
  {
    group_.clear();
    for (std::size_t module = 0; module < modules_.size(); ++module) {
      taken const& own = modules_[module];
      dealt_module const& dealt = *own.dealt;
      std::size_t const cell = own.cell(batch, 0, group, met_[module]);
      group_module& part = group_.emplace_back();
      part.pp = own.pp;
      part.replicas = is_chain ? 1 : own.cut.replicas;
      part.whole = dealt.whole.data() + cell;
      part.stride = std::size_t{own.cut.groups} * own.cut.replicas;
      part.parts = own.shares.parts();
      part.layers = own.shares.layers();
      part.reducing = own.reducing.data();
      part.feeds = own.feeds;
      if (dealt.sent.empty()) { continue; }
      taken const& fed = modules_[own.feeds];
      part.sent = dealt.sent.data() + cell;
      part.received =
          fed.dealt->received[own.received].data() + fed.cell(batch, 0, group, met_[own.feeds]);
    }
  }

  /// The longest way of a microbatch through the modules before one of its replicas; backwards,
  /// until the first of them have reduced their gradients.
  [[nodiscard]] time_units way_to(std::size_t batch, std::size_t module, std::uint32_t group,
                                  std::uint32_t replica, std::uint32_t microbatch, bool is_backward)
  {
    ways_.resize(modules_.size());
    for (std::size_t each = 0; each <= module; ++each) {
      ways_[each].assign(modules_[each].cut.replicas, 0);
    }
    for (std::size_t each = 0; each <= module; ++each) {
      taken const& own = modules_[each];
      bool const is_fed =
          std::any_of(modules_.begin(), modules_.begin() + static_cast<std::ptrdiff_t>(each),
                      [each](taken const& other) { return other.feeds == each; });
      if (is_backward && !is_fed) {
        std::fill(ways_[each].begin(), ways_[each].end(), own.reducing[own.shares.kind_of(0)]);
      }
      if (own.feeds > module || each == module) { continue; }
      std::size_t const first = own.cell(batch, microbatch, group, 0);
      for (std::uint32_t at = 0; at < own.cut.replicas; ++at) {
        ways_[each][at] += pass_time(own, own.dealt->whole[first + at], is_backward);
      }
      auto& next = ways_[own.feeds];
      auto const brokers = std::gcd(own.cut.replicas, modules_[own.feeds].cut.replicas);
      std::uint32_t const met = own.cut.replicas / brokers;
      std::size_t const of_broker = next.size() / brokers;
      for (std::uint32_t broker = 0; broker < brokers; ++broker) {
        auto const begin = ways_[each].begin() + static_cast<std::ptrdiff_t>(broker) * met;
        time_units const longest =
            *std::max_element(begin, begin + met) + sending(batch, each, microbatch, group, broker);
        for (std::size_t at = broker * of_broker; at < (broker + 1) * of_broker; ++at) {
          next[at] = std::max(next[at], longest);
        }
      }
    }
    return ways_[module][replica];
  }

  /// What a broker behind a module takes for a microbatch.
  [[nodiscard]] time_units sending(std::size_t batch, std::size_t module, std::uint32_t microbatch,
                                   std::uint32_t group, std::uint32_t broker) const
  {
    taken const& from = modules_[module];
    taken const& to = modules_[from.feeds];
    if (from.dealt->sent.empty()) { return 0; }
    std::uint32_t const brokers = std::gcd(from.cut.replicas, to.cut.replicas);
    auto const most = [&](std::vector<time_units> const& times, taken const& of) {
      std::uint32_t const met = of.cut.replicas / brokers;
      auto const first = times.begin() + static_cast<std::ptrdiff_t>(
                                             of.cell(batch, microbatch, group, broker * met));
      return *std::max_element(first, first + met);
    };
    return std::max(most(from.dealt->sent, from), most(to.dealt->received[from.received], to));
  }

  /// All forwards, or all backwards, of a replica.
  [[nodiscard]] static time_units pass_time(taken const& own, time_units whole, bool is_backward)
  {
    time_units sum = 0;
    for (std::uint32_t kind = 0; kind < own.shares.kinds(); ++kind) {
      time_units const share = own.shares.of(whole, kind);
      sum += own.shares.stages_of(kind) * (is_backward ? share - share / 3 : share / 3);
    }
    return sum;
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

  static constexpr std::uint32_t unknown = ~std::uint32_t{0};

  layout_problem problem_;
  dealt_times& times_;
  std::uint32_t microbatches_ = 1;
  std::uint32_t groups_ = 1;
  std::uint32_t virtual_stages_ = 1;  // of a stage of the last module
  std::vector<taken> modules_;
  std::vector<group_module> group_;
  std::vector<std::vector<time_units>> ways_;  // of each module and replica
  std::vector<std::uint32_t> met_;  // of each module, the first replica that is looked at
  slot_simulation slots_;
  interleaved_simulation interleaved_;
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARALLELISM_DETAIL_STEP_BOUNDS_HPP
