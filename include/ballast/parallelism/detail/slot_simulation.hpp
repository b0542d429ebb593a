// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARALLELISM_DETAIL_SLOT_SIMULATION_HPP
#define BALLAST_PARALLELISM_DETAIL_SLOT_SIMULATION_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/parallelism/detail/group_module.hpp>
#include <ballast/parallelism/detail/stage_shares.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

namespace ballast::inline v0::detail {

/// The makespan of 1F1B on one group of replicas, without tasks and waits.
///
/// With d stages behind it, a stage does forward k in slot 2 k - d and backward k in slot
/// 2 k + d + 1. What a task waits for on other ranks is then done in the slot before, by the stages
/// beside it: in each slot a stage before its forward, and those that feed it, each before its
/// backward, wait for each other and go on. Between modules all replicas of a broker wait for each
/// other so, or for a link, which begins with a microbatch when the last replica has done it and
/// the one before is over.
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
    auto const stages = static_cast<std::int64_t>(first_meeting_.size()) - 2;  // on the longest way
    std::int64_t const count = microbatches;
    for (std::int64_t slot = 1 - stages; slot < 2 * count + stages - 1; ++slot) {
      // With `at` as many before it as there can be, a stage does forward (slot + stages - 1 - at)
      // / 2, and those that feed it backward (slot - 1 - stages + at) / 2.
      std::int64_t const offset = slot + stages - 1;
      std::int64_t const end = slot - 1 - stages;
      for (std::int64_t at = offset % 2; at <= stages; at += 2) {
        std::int64_t const forward = offset - at;
        std::int64_t const backward = end + at;
        bool const runs_forward = forward >= 0 && forward < 2 * count;
        bool const runs_backward = backward >= 0 && backward < 2 * count;
        if (!runs_forward && !runs_backward) { continue; }
        auto const place = static_cast<std::size_t>(at);
        for (std::size_t each = first_meeting_[place]; each < first_meeting_[place + 1]; ++each) {
          meet(meetings_[each], runs_forward ? forward / 2 : none,
               runs_backward ? backward / 2 : none);
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
  static constexpr std::int64_t none = -1;
  static constexpr std::size_t no_stage = ~std::size_t{0};

  struct stage {
    std::uint32_t module;
    std::uint32_t replicas;
    std::size_t first_end;      // in ends_
    std::size_t first_forward;  // in times_; the backward lies behind it
    time_units reducing;
  };

  /// A stage and those that feed it; no stage behind the last one.
  struct meeting {
    std::size_t place;  // as many stages as can be before it
    std::size_t right;
    std::size_t first_left;  // in lefts_
    std::size_t end_left;
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
    first_stage_.clear();
    microbatches_ = microbatches;
    times_.clear();
    std::size_t ends = 0;
    for (std::size_t module = 0; module < modules.size(); ++module) {
      group_module const& each = modules[module];
      bool const is_last = module + 1 == modules.size();
      brokers_.push_back(is_last ? 1 : std::gcd(each.replicas, modules[each.feeds].replicas));
      first_link_.push_back(links_.size());
      if (each.sent != nullptr) { add_links(each, modules[each.feeds], brokers_.back()); }
      std::size_t const cells = std::size_t{microbatches} * each.replicas;
      std::size_t const first = times_.size();
      stage_shares const shares(each.layers, each.pp, each.parts);
      times_.resize(first + cells * 2 * shares.kinds());
      for (std::uint32_t kind = 0; kind < shares.kinds(); ++kind) {
        time_units* forward = times_.data() + first + 2 * cells * kind;
        for (std::size_t microbatch = 0; microbatch < microbatches; ++microbatch) {
          time_units const* const whole = each.whole + microbatch * each.stride;
          for (std::size_t replica = 0; replica < each.replicas; ++replica, ++forward) {
            time_units const share = shares.of(whole[replica], kind);
            forward[0] = share / 3;
            forward[cells] = share - share / 3;
          }
        }
      }
      first_stage_.push_back(stages_.size());
      for (std::uint32_t own = 0; own < each.pp; ++own) {
        std::uint32_t const kind = shares.kind_of(own);
        stages_.push_back({static_cast<std::uint32_t>(module), each.replicas, ends,
                           first + 2 * cells * kind, each.reducing[kind]});
        ends += each.replicas;
      }
    }
    first_link_.push_back(links_.size());
    ends_.assign(ends, 0);
    list_meetings(modules);
  }

  /// All meetings, by their places.
  void list_meetings(std::span<group_module const> modules)
  {
    depths_.assign(modules.size(), 0);  // stages from a module's first one to the end
    std::size_t deepest = 0;
    for (std::size_t module = modules.size(); module-- > 0;) {
      bool const is_last = module + 1 == modules.size();
      depths_[module] = modules[module].pp + (is_last ? 0 : depths_[modules[module].feeds]);
      deepest = std::max(deepest, depths_[module]);
    }
    meetings_.clear();
    lefts_.clear();
    for (std::size_t module = 0; module < modules.size(); ++module) {
      for (std::size_t own = 0; own < modules[module].pp; ++own) {
        std::size_t const first = lefts_.size();
        std::size_t const here = first_stage_[module] + own;
        if (own > 0) { lefts_.push_back(here - 1); }
        for (std::size_t feeder = 0; feeder < module && own == 0; ++feeder) {
          if (modules[feeder].feeds == module) { lefts_.push_back(first_stage_[feeder + 1] - 1); }
        }
        meetings_.push_back({deepest - depths_[module] + own, here, first, lefts_.size()});
      }
    }
    lefts_.push_back(stages_.size() - 1);
    meetings_.push_back({deepest, no_stage, lefts_.size() - 1, lefts_.size()});
    std::sort(meetings_.begin(), meetings_.end(), [](meeting const& a, meeting const& b) {
      return precedes(a.place, b.place, a.right, b.right);
    });
    first_meeting_.assign(deepest + 2, meetings_.size());
    for (std::size_t each = meetings_.size(); each-- > 0;) {
      first_meeting_[meetings_[each].place] = each;
    }
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
        sending_.push_back(std::max(most(from.sent, from), most(from.received, to)));
      }
    }
  }

  /// Of a stage, for a microbatch; null for none.
  [[nodiscard]] time_units const* times_of(stage const& of, bool is_backward,
                                           std::int64_t microbatch) const
  {
    if (microbatch == none) { return nullptr; }
    std::size_t const row =
        static_cast<std::size_t>(microbatch) + (is_backward ? microbatches_ : 0);
    return times_.data() + of.first_forward + row * of.replicas;
  }

  /// A stage does a forward, and those that feed it a backward; they wait for each other.
  void meet(meeting const& here, std::int64_t forward, std::int64_t backward)
  {
    if (here.right == no_stage) {
      stage const& left = stages_[lefts_[here.first_left]];
      time_units const* const b = times_of(left, true, backward);
      time_units* const l = ends_.data() + left.first_end;
      for (std::uint32_t each = 0; b != nullptr && each < left.replicas; ++each) {
        l[each] += b[each];
      }
      return;
    }
    stage const& right = stages_[here.right];
    time_units* const r = ends_.data() + right.first_end;
    time_units const* const f = times_of(right, false, forward);
    if (here.end_left - here.first_left == 1 &&
        stages_[lefts_[here.first_left]].module == right.module) {
      stage const& left = stages_[lefts_[here.first_left]];
      time_units* const l = ends_.data() + left.first_end;
      time_units const* const b = times_of(left, true, backward);
      for (std::uint32_t each = 0; each < right.replicas; ++each) {
        time_units const both = std::max(l[each], r[each]);
        if (b != nullptr) { l[each] = both + b[each]; }
        if (f != nullptr) { r[each] = both + f[each]; }
      }
      return;
    }
    awaited_.assign(right.replicas, 0);
    for (std::size_t each = here.first_left; each < here.end_left; ++each) {
      meet_broker(stages_[lefts_[each]], right, forward, backward);
    }
    for (std::uint32_t each = 0; f != nullptr && each < right.replicas; ++each) {
      r[each] = std::max(r[each], awaited_[each]) + f[each];
    }
  }

  /// The last stage of a module does a backward, and the first stage of the one that it feeds waits
  /// for its forward.
  void meet_broker(stage const& left, stage const& right, std::int64_t forward,
                   std::int64_t backward)
  {
    time_units const* const b = times_of(left, true, backward);
    std::uint32_t const brokers = brokers_[left.module];
    std::uint32_t const of_left = left.replicas / brokers;
    std::uint32_t const of_right = right.replicas / brokers;
    bool const has_links = first_link_[left.module] < first_link_[left.module + 1];
    for (std::uint32_t broker = 0; broker < brokers; ++broker) {
      std::size_t const first_right = std::size_t{broker} * of_right;
      time_units* const ls = ends_.data() + left.first_end + std::size_t{broker} * of_left;
      time_units const* const rs = ends_.data() + right.first_end + first_right;
      time_units all_left = *std::max_element(ls, ls + of_left);
      time_units all_right = *std::max_element(rs, rs + of_right);
      if (has_links) {
        link& own = links_[first_link_[left.module] + broker];
        time_units const* const times = sending_.data() + own.first_time;
        if (forward != none) {
          all_left = own.there = std::max(own.there, all_left) + times[forward];
        }
        if (b != nullptr) {
          all_right = own.back = std::max(own.back, all_right) + times[backward];
        }
      }
      for (std::uint32_t each = 0; each < of_right; ++each) {
        time_units& awaited = awaited_[first_right + each];
        awaited = std::max(awaited, all_left);
      }
      if (b == nullptr) { continue; }
      time_units const* const times = b + std::size_t{broker} * of_left;
      for (std::uint32_t each = 0; each < of_left; ++each) {
        ls[each] = std::max(ls[each], all_right) + times[each];
      }
    }
  }

  std::uint32_t microbatches_ = 0;
  std::vector<stage> stages_;
  std::vector<std::size_t> first_stage_;  // of each module
  std::vector<std::size_t> depths_;       // of each module
  std::vector<meeting> meetings_;
  std::vector<std::size_t> first_meeting_;  // of each place
  std::vector<std::size_t> lefts_;
  std::vector<time_units> awaited_;     // of each replica
  std::vector<std::uint32_t> brokers_;  // behind each module
  std::vector<link> links_;
  std::vector<std::size_t> first_link_;  // behind each module, and all
  std::vector<time_units> sending_;
  std::vector<time_units> times_;  // of each module: forwards, backwards, of larger stages too
  std::vector<time_units> ends_;   // of the last task of each stage and replica
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARALLELISM_DETAIL_SLOT_SIMULATION_HPP
