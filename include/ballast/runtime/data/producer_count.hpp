// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/runtime/detail/open_window.hpp>

#include <chrono>
#include <deque>
#include <map>
#include <memory>

namespace ballast::inline v0 {

/// How many loaders a data pipeline needs, from measured rates: the seconds that loading the
/// samples of a step takes, over those that ranks compute one, and a quarter more.
///
/// Ensures     (1) from least to most; most where ranks compute nothing, least before the first step
///             (2) a larger number at once; a smaller one by one loader, after four steps in a row
///                 for which fewer were enough
class producer_count {
 public:
  /// Expects     1 <= least <= most.
  producer_count(std::size_t least, std::size_t most) : least_(least), most_(most), now_(least)
  {
    BALLAST_EXPECTS(least >= 1 && least <= most, "a data pipeline of ", least, " to ", most,
                    " loaders");
  }

  /// After a step: `loading` is what its samples took one loader, `computing` the time that ranks
  /// computed, both in one unit.
  std::size_t after(time_units loading, time_units computing)
  {
    BALLAST_EXPECTS(loading >= 0 && computing >= 0);
    std::size_t const needed = enough(loading, computing);
    if (needed >= now_) {
      now_ = needed;
      fewer_ = 0;
    } else if (++fewer_ == 4) {
      --now_;
      fewer_ = 0;
    }
    return now_;
  }

  [[nodiscard]] std::size_t now() const { return now_; }

 private:
  [[nodiscard]] std::size_t enough(time_units loading, time_units computing) const
  {
    auto const load = static_cast<uint128>(loading) * 5;
    auto const compute = static_cast<uint128>(computing) * 4;
    if (load > compute * most_ || compute == 0) { return loading == 0 ? least_ : most_; }
    return std::max(least_, static_cast<std::size_t>((load + compute - 1) / compute));
  }

  std::size_t least_;
  std::size_t most_;
  std::size_t now_;
  std::size_t fewer_ = 0;  // steps in a row
};

namespace detail {

/// What a data pipeline plans with: it says which rank computes each sample of a step.
template <class P>
concept data_plan = requires(P& plan, data_step const& step, std::span<rank_id> owner) {
  { plan(step, owner) } -> std::same_as<result<void>>;
};

/// Has a plan say who computes the samples of a step.
template <data_plan Plan>
[[nodiscard]] result<void> plan_owners(Plan& plan, data_step& step, std::size_t ranks)
{
  step.owner.assign(step.samples.size(), rank_id{0});
  result<void> done;
  auto const called = call_user("the plan of a step", [&] {
    done = plan(static_cast<data_step const&>(step), std::span(step.owner));
  });
  if (!called) { return called; }
  for (std::size_t entry = 0; done && entry < step.owner.size(); ++entry) {
    if (to_index(step.owner[entry]) >= ranks) {
      done = fail(error_code::infeasible, entry, "the plan of step ", step.number, " gave sample ",
                  step.samples[entry], " to rank ", to_index(step.owner[entry]), " of ", ranks,
                  "; give ranks that are there");
    }
  }
  return done;
}

struct planned_step {
  data_step step;
  std::vector<std::uint64_t> tickets;
};

/// Steps that are planned and that not all ranks have taken, and the payloads that wait for them.
///
/// Ensures     (1) every rank takes each step once, in order
///             (2) a payload is kept until its rank takes it, or it is dropped
class planned_steps {
 public:
  explicit planned_steps(std::size_t ranks) : taken_(ranks) {}

  void keep(std::uint64_t ticket, std::vector<std::byte> bytes)
  {
    payloads_.insert_or_assign(ticket, std::move(bytes));
  }
  void drop(std::uint64_t ticket) { payloads_.erase(ticket); }

  void add(planned_step planned)
  {
    steps_.push_back(
        {std::make_shared<data_step const>(std::move(planned.step)), std::move(planned.tickets)});
  }

  [[nodiscard]] bool has(rank_id rank) const
  {
    return taken_[to_index(rank)] - first_ < steps_.size();
  }

  [[nodiscard]] data_batch take(rank_id rank)
  {
    entry& own = steps_[taken_[to_index(rank)]++ - first_];
    data_batch batch{own.step, {}};
    for (std::size_t at = 0; at < own.tickets.size(); ++at) {
      if (own.step->owner[at] != rank) { continue; }
      auto payload = payloads_.extract(own.tickets[at]);
      batch.own.push_back({at, std::move(payload.mapped())});
    }
    ++own.takers;
    return batch;
  }

  /// Whether all ranks have taken the oldest step, which goes then.
  [[nodiscard]] bool pop_taken()
  {
    if (steps_.empty() || steps_.front().takers < taken_.size()) { return false; }
    steps_.pop_front();
    ++first_;
    return true;
  }

 private:
  struct entry {
    std::shared_ptr<data_step const> step;
    std::vector<std::uint64_t> tickets;
    std::size_t takers = 0;
  };

  std::map<std::uint64_t, std::vector<std::byte>> payloads_;  // by ticket
  std::deque<entry> steps_;
  std::uint64_t first_ = 0;  // of these steps, as taken_ counts
  std::vector<std::uint64_t> taken_;
};

/// How long samples take to load and steps to compute, and how many loaders that asks for.
class load_rates {
 public:
  load_rates(std::size_t least, std::size_t most) : count_(least, most) {}

  /// A loader took so long for a sample. Recent ones count most.
  void loaded(std::chrono::nanoseconds took)
  {
    loading_ = loading_.count() == 0 ? took : loading_ + (took - loading_) / 8;
  }
  /// A rank computed for so long between two steps.
  void computed(std::chrono::nanoseconds took) { computing_ += took; }

  /// All ranks have taken a step.
  void stepped(std::size_t step_samples, std::size_t ranks)
  {
    count_.after(loading_.count() * static_cast<time_units>(step_samples),
                 computing_.count() / static_cast<time_units>(ranks));
    computing_ = {};
  }

  [[nodiscard]] std::size_t loaders() const { return count_.now(); }

 private:
  producer_count count_;
  std::chrono::nanoseconds loading_ = {};    // of a sample
  std::chrono::nanoseconds computing_ = {};  // of all ranks, since the last step
};

}  // namespace detail

}  // namespace ballast::inline v0
