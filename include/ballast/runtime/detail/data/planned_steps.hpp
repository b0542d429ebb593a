// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_RUNTIME_DETAIL_DATA_PLANNED_STEPS_HPP
#define BALLAST_RUNTIME_DETAIL_DATA_PLANNED_STEPS_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/core/result.hpp>
#include <ballast/runtime/data/data_batch.hpp>
#include <ballast/runtime/data/data_step.hpp>
#include <ballast/runtime/detail/data/user_call.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace ballast::inline v0::detail {

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

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_RUNTIME_DETAIL_DATA_PLANNED_STEPS_HPP
