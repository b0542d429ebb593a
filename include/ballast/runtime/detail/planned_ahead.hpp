// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_RUNTIME_DETAIL_PLANNED_AHEAD_HPP
#define BALLAST_RUNTIME_DETAIL_PLANNED_AHEAD_HPP

#include <ballast/comm/communicator.hpp>
#include <ballast/comm/gather_samples.hpp>
#include <ballast/core/contract.hpp>
#include <ballast/core/result.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/runtime/detail/plan_together.hpp>
#include <ballast/runtime/detail/work_thread.hpp>
#include <ballast/runtime/multimodal_samples.hpp>
#include <ballast/runtime/orchestrated_step.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <utility>

namespace ballast::inline v0::detail {

/// The thread of an orchestrator, and its two steps: the one that the caller has, and the one that
/// is gathered and planned meanwhile, on a communicator of its own.
template <splitting_communicator Communicator, class Planner>
class planned_ahead {
 public:
  planned_ahead(Communicator& comm, Planner planner, std::size_t most_entries)
      : comm_(comm),
        most_entries_(most_entries),
        planner_(std::move(planner)),
        thread_(plan_next{this})
  {
    BALLAST_EXPECTS(most_entries >= 1, "options.most_entries is 0");
  }
  planned_ahead(planned_ahead const&) = delete;
  planned_ahead& operator=(planned_ahead const&) = delete;

  [[nodiscard]] result<void> submit(multimodal_samples const& read)
  {
    if (submitted_) {
      return fail(error_code::wrong_order, 0,
                  "a step was submitted and not taken; call next() before the one after it is "
                  "submitted");
    }
    if (!planning_) {
      if (!serves_threads()) {
        return fail(error_code::transport, 0,
                    "the communicator serves one thread, and an orchestrator plans in another; "
                    "initialise MPI with MPI_THREAD_MULTIPLE");
      }
      auto own = comm_.split(0);
      if (!own) { return tl::unexpected(own.error()); }
      planning_.emplace(*std::move(own));
    }
    read_ = read;
    submitted_ = true;
    thread_.start();
    return {};
  }

  [[nodiscard]] result<void> next()
  {
    if (!submitted_) {
      return fail(error_code::wrong_order, 0,
                  "no step was submitted; submit what was read before its plan is taken");
    }
    is_planned_ = false;
    submitted_ = false;
    waited_ += thread_.wait() ? 1U : 0U;
    if (auto const thrown = thread_.thrown()) { std::rethrow_exception(thrown); }
    if (!made_) { return made_; }
    present_ = 1 - present_;
    is_planned_ = true;
    return {};
  }

  [[nodiscard]] orchestrated_step const& step() const
  {
    BALLAST_EXPECTS(is_planned_, "there is no plan: next() was not called, or it failed");
    return steps_[present_];
  }

  [[nodiscard]] std::uint64_t waited() const noexcept { return waited_; }

 private:
  struct plan_next {
    planned_ahead* self;
    void operator()() const { self->plan(); }
  };

  [[nodiscard]] static bool serves_threads()
  {
    if constexpr (requires { Communicator::serves_threads(); }) {
      return Communicator::serves_threads();
    } else {
      return true;
    }
  }

  /// Tells all ranks what each has read.
  [[nodiscard]] result<void> gather(Communicator& comm)
  {
    auto gathered = gather_samples_into(all_, comm, read_.entries(), most_entries_);
    if (!gathered && gathered.error().code == error_code::out_of_range) {
      gathered.error().message += " (here samples and subsequences together: options.most_entries)";
    }
    return gathered;
  }

  void plan()
  {
    orchestrated_step& next = steps_[1 - present_];
    Communicator& comm = *planning_;  // its ranks are those of comm_, which is the caller's now
    made_ = plan_together(
        comm, [&] { return gather(comm); },
        [&] { return planner_(next, memory_, all_, comm.size(), comm.rank()); },
        [&] { return next.digest(); });
  }

  Communicator& comm_;
  std::size_t most_entries_;
  std::size_t present_ = 0;  // the plan that the caller has; the other one is written
  bool submitted_ = false;
  bool is_planned_ = false;
  std::uint64_t waited_ = 0;

  // The thread's from submit() until next() has returned, the caller's at other times; of the two
  // steps only the one that is written.
  Planner planner_;
  std::optional<Communicator> planning_;
  multimodal_samples read_;
  gathered_samples<subsequence> all_;
  std::array<orchestrated_step, 2> steps_;
  workspace memory_;
  result<void> made_;
  work_thread<plan_next> thread_;  // last: it begins when all else is there
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_RUNTIME_DETAIL_PLANNED_AHEAD_HPP
