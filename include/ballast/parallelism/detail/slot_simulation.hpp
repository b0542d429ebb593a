// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARALLELISM_DETAIL_SLOT_SIMULATION_HPP
#define BALLAST_PARALLELISM_DETAIL_SLOT_SIMULATION_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/parallelism/detail/stage_shares.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

namespace ballast::inline v0::detail {

/// A module of one group of replicas: how long each of them takes for each microbatch.
///
/// Shapes      whole[microbatch * stride + replica]: all layers, forward and backward; sent and
///             received so too: what a replica sends to the next module, and receives from the one
///             before. Null where that takes no time; sent is so where the next one's received is.
struct group_module {
  std::uint32_t layers = 1;
  std::uint32_t pp = 1;
  std::uint32_t replicas = 1;
  time_units const* whole = nullptr;
  std::size_t stride = 1;
  time_units const* sent = nullptr;
  time_units const* received = nullptr;
  time_units reducing = 0;         ///< gradients of a stage
  time_units reducing_larger = 0;  ///< of a stage that has a layer more
};

/// The makespan of 1F1B on one group of replicas, without tasks and waits.
///
/// With d stages behind it, a stage does forward k in slot 2 k - d and backward k in slot
/// 2 k + d + 1. What a task waits for on other ranks is then done in the slot before, by the stages
/// beside it: in each slot pairs of neighbours, one before its backward and one before its forward,
/// wait for each other and go on. Between modules all replicas of a broker wait for each other so,
/// or for a link, which begins with a microbatch when the last replica has done it and the one
/// before is over.
///
/// Expects     all times of a group add up to less than 2^62.
/// Ensures     (1) layout_pipeline's end_of() for the timeline of its stages() and
///                 one_forward_one_backward
///             (2) of one replica of each module, linked with each other, no more than of all
/// Complexity  O(microbatches stages).
class slot_simulation {
 public:
  [[nodiscard]] time_units makespan(std::span<group_module const> modules,
                                    std::uint32_t microbatches)
  {
    prepare(modules, microbatches);
    auto const stages = static_cast<std::int64_t>(stages_.size());
    std::int64_t const count = microbatches;
    for (std::int64_t slot = 1 - stages; slot < 2 * count + stages - 1; ++slot) {
      // Stage s does forward (slot + stages - 1 - s) / 2, the one before it backward
      // (slot - 1 - stages + s) / 2.
      std::int64_t const offset = slot + stages - 1;
      std::int64_t const end = slot - 1 - stages;
      for (std::int64_t at = offset % 2; at <= stages; at += 2) {
        std::int64_t const forward = offset - at;
        std::int64_t const backward = end + at;
        bool const runs_forward = at < stages && forward >= 0 && forward < 2 * count;
        bool const runs_backward = at > 0 && backward >= 0 && backward < 2 * count;
        if (runs_forward || runs_backward) {
          meet(static_cast<std::size_t>(at), forward / 2, backward / 2, runs_forward,
               runs_backward);
        }
      }
    }
    time_units end = 0;
    for (stage const& each : stages_) {
      auto const first = ends_.begin() + static_cast<std::ptrdiff_t>(each.first_end);
      end = std::max(end, *std::max_element(first, first + each.replicas) + each.reducing);
    }
    return end;
  }

 private:
  struct stage {
    std::uint32_t module;
    std::uint32_t replicas;
    std::size_t first_end;      // in ends_
    std::size_t first_forward;  // in times_; the backward lies behind it
    time_units reducing;
  };

  /// The links of a broker: when each has sent what it was given, and how long it takes for each
  /// microbatch.
  struct link {
    time_units there = 0;
    time_units back = 0;
    std::size_t first_time = 0;  // in sending_
  };

  void prepare(std::span<group_module const> modules, std::uint32_t microbatches)
  {
    stages_.clear();
    brokers_.clear();
    links_.clear();
    first_link_.clear();
    sending_.clear();
    microbatches_ = microbatches;
    times_.clear();
    std::size_t ends = 0;
    for (std::size_t module = 0; module < modules.size(); ++module) {
      group_module const& each = modules[module];
      brokers_.push_back(module == 0 ? 1 : std::gcd(each.replicas, modules[module - 1].replicas));
      first_link_.push_back(links_.size());
      if (each.received != nullptr) { add_links(modules[module - 1], each, brokers_.back()); }
      std::size_t const cells = std::size_t{microbatches} * each.replicas;
      std::size_t const first = times_.size();
      stage_shares const shares(each.layers, each.pp);
      times_.resize(first + cells * (shares.larger_stages() > 0 ? 4 : 2));
      auto const fill = [&](time_units* forward, bool larger) {
        for (std::size_t microbatch = 0; microbatch < microbatches; ++microbatch) {
          time_units const* const whole = each.whole + microbatch * each.stride;
          for (std::size_t replica = 0; replica < each.replicas; ++replica, ++forward) {
            time_units const share = shares.of(whole[replica], larger);
            forward[0] = share / 3;
            forward[cells] = share - share / 3;
          }
        }
      };
      fill(times_.data() + first, false);
      if (shares.larger_stages() > 0) { fill(times_.data() + first + 2 * cells, true); }
      for (std::uint32_t own = 0; own < each.pp; ++own) {
        bool const is_larger = own < shares.larger_stages();
        stages_.push_back({static_cast<std::uint32_t>(module), each.replicas, ends,
                           first + (is_larger ? 2 * cells : 0),
                           is_larger ? each.reducing_larger : each.reducing});
        ends += each.replicas;
      }
    }
    first_link_.push_back(links_.size());
    ends_.assign(ends, 0);
  }

  /// Each microbatch takes as long as the replica of the broker that sends or receives most of it.
  void add_links(group_module const& from, group_module const& to, std::uint32_t brokers)
  {
    for (std::uint32_t broker = 0; broker < brokers; ++broker) {
      links_.push_back({0, 0, sending_.size()});
      for (std::size_t microbatch = 0; microbatch < microbatches_; ++microbatch) {
        auto const most = [&](time_units const* times, group_module const& of) {
          std::size_t const met = of.replicas / brokers;
          times += microbatch * of.stride + broker * met;
          return *std::max_element(times, times + met);
        };
        sending_.push_back(std::max(most(from.sent, from), most(to.received, to)));
      }
    }
  }

  /// The stage before `at` does a backward, the stage `at` a forward; they wait for each other.
  void meet(std::size_t at, std::int64_t forward, std::int64_t backward, bool runs_forward,
            bool runs_backward)
  {
    stage const* const right = at < stages_.size() ? &stages_[at] : nullptr;
    stage const* const left = at > 0 ? &stages_[at - 1] : nullptr;
    time_units const* const f = runs_forward
                                    ? times_.data() + right->first_forward +
                                          static_cast<std::size_t>(forward) * right->replicas
                                    : nullptr;
    time_units const* const b = runs_backward
                                    ? times_.data() + left->first_forward +
                                          std::size_t{microbatches_} * left->replicas +
                                          static_cast<std::size_t>(backward) * left->replicas
                                    : nullptr;
    time_units* const r = right != nullptr ? ends_.data() + right->first_end : nullptr;
    time_units* const l = left != nullptr ? ends_.data() + left->first_end : nullptr;
    if (left == nullptr) {
      for (std::uint32_t each = 0; each < right->replicas; ++each) { r[each] += f[each]; }
      return;
    }
    if (right == nullptr) {
      for (std::uint32_t each = 0; each < left->replicas; ++each) { l[each] += b[each]; }
      return;
    }
    if (left->module == right->module) {
      for (std::uint32_t each = 0; each < right->replicas; ++each) {
        time_units const both = std::max(l[each], r[each]);
        if (b != nullptr) { l[each] = both + b[each]; }
        if (f != nullptr) { r[each] = both + f[each]; }
      }
      return;
    }
    std::uint32_t const brokers = brokers_[right->module];
    std::uint32_t const of_left = left->replicas / brokers;
    std::uint32_t const of_right = right->replicas / brokers;
    bool const has_links = first_link_[right->module] < first_link_[right->module + 1];
    for (std::uint32_t broker = 0; broker < brokers; ++broker) {
      time_units* const ls = l + std::size_t{broker} * of_left;
      time_units* const rs = r + std::size_t{broker} * of_right;
      time_units all_left = *std::max_element(ls, ls + of_left);
      time_units all_right = *std::max_element(rs, rs + of_right);
      if (has_links) {
        link& own = links_[first_link_[right->module] + broker];
        time_units const* const times = sending_.data() + own.first_time;
        if (f != nullptr) { all_left = own.there = std::max(own.there, all_left) + times[forward]; }
        if (b != nullptr) {
          all_right = own.back = std::max(own.back, all_right) + times[backward];
        }
      }
      if (b != nullptr) {
        time_units const* const times = b + std::size_t{broker} * of_left;
        for (std::uint32_t each = 0; each < of_left; ++each) {
          ls[each] = std::max(ls[each], all_right) + times[each];
        }
      }
      if (f != nullptr) {
        time_units const* const times = f + std::size_t{broker} * of_right;
        for (std::uint32_t each = 0; each < of_right; ++each) {
          rs[each] = std::max(rs[each], all_left) + times[each];
        }
      }
    }
  }

  std::uint32_t microbatches_ = 0;
  std::vector<stage> stages_;
  std::vector<std::uint32_t> brokers_;  // before each module
  std::vector<link> links_;
  std::vector<std::size_t> first_link_;  // before each module, and all
  std::vector<time_units> sending_;
  std::vector<time_units> times_;  // of each module: forwards, backwards, of larger stages too
  std::vector<time_units> ends_;   // of the last task of each stage and replica
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARALLELISM_DETAIL_SLOT_SIMULATION_HPP
