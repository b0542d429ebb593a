// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/runtime/detail/ahead.hpp>
#include <ballast/runtime/detail/state_text.hpp>
#include <ballast/runtime/scheduled_step.hpp>

namespace ballast::inline v0 {

/// What an online scheduler runs on its thread: it plans step `number` from sizes, a seed and
/// factors that correct costs (empty: none), and has the type of its plans. `microbatch_scheduler`
/// is one.
template <class P>
concept step_planner =
    std::default_initializable<typename P::plan_type> &&
    requires(P& planner, typename P::plan_type& plan, std::span<tokens const> sizes,
             std::uint64_t seed, std::uint64_t number, std::span<std::uint32_t const> factors) {
      { planner(plan, sizes, seed, number, factors) } -> std::same_as<result<void>>;
    };

/// Plans the next step on a thread of its own while the present one runs.
///
///     auto const plan = next.take();   // of this step; planned while the last one ran
///     next.submit(sizes_of(step + 1));
///     train(**plan);
///
/// Ranks that are to have the same plans submit the same sizes, seed and factors in the same order;
/// no clock and no thread has a part in what is planned.
///
/// Expects     one thread calls it; the planner is used by its thread alone.
/// Ensures     (1) a plan is the planner's for its step; step numbers count submitted steps
///             (2) what the planner refuses or throws is the error of take(), and the next step can
///                 be submitted
///             (3) the destructor ends the thread after the step that was submitted last is
///                 planned, taken or not
///             (4) once two steps as large were planned, nothing is allocated
///             (5) restored from save(), with the same planner and sizes, all further plans are the
///                 same
/// Complexity  submit: O(sizes) to copy them; take: O(1) where the plan is there.
template <step_planner Planner>
class online_scheduler {
 public:
  using plan_type = typename Planner::plan_type;

  explicit online_scheduler(Planner planner, std::uint64_t seed = 1)
      : planner_(std::move(planner)), state_{.seed = seed}, ahead_([this](plan_type& plan) {
          return planner_(plan, detail::span_of(sizes_), state_.seed, number_of_step_,
                          detail::span_of(factors_of_step_));
        })
  {}

  /// Corrects the costs of steps that are submitted from now on; no factors: costs as predicted.
  ///
  /// Shapes      factors[modules x shape_buckets], as adaptive_correction has them, or empty.
  void correct(std::span<std::uint32_t const> factors)
  {
    state_.factors.assign(factors.begin(), factors.end());
  }

  /// Has the thread plan the next step; returns at once.
  ///
  /// Errors      wrong_order: the step that was submitted before has not been taken; nothing
  ///             changes.
  [[nodiscard]] result<void> submit(std::span<tokens const> sizes)
  {
    if (ahead_.is_started()) {
      return fail(error_code::wrong_order, 0, "step ", number_of_step_,
                  " was submitted and not taken; take it before the next one is submitted");
    }
    // The thread waits, and reads nothing of this until it is told.
    sizes_.assign(sizes.begin(), sizes.end());
    if (std::exchange(state_.again, false)) {
      std::swap(factors_of_step_, state_.of_step);
    } else {
      factors_of_step_ = state_.factors;
    }
    number_of_step_ = state_.number++;
    ahead_.start();
    return {};
  }

  /// The plan of the step that was submitted, which is valid until the next take(). It waits only
  /// where the thread is not done.
  ///
  /// Errors      those of the planner; wrong_order: no step was submitted; failed: the planner
  ///             threw, and the message has what it said.
  [[nodiscard]] result<plan_type const*> take()
  {
    if (!ahead_.is_started()) {
      return fail(error_code::wrong_order, 0,
                  "no step was submitted; submit the sizes of one before its plan is taken");
    }
    result<void> made;
    if (auto const thrown = detail::thrown_by([&] { made = ahead_.take(); })) {
      return fail(error_code::failed, 0, "planning step ", number_of_step_,
                  " threw: ", detail::thrown_text(thrown));
    }
    if (!made) { return tl::unexpected(made.error()); }
    return &ahead_.present();
  }

  /// Whether take() returns at once.
  [[nodiscard]] bool ready() const { return ahead_.ready(); }

  /// Hand-overs at which take() found the thread still at work.
  [[nodiscard]] std::uint64_t waited() const noexcept { return ahead_.waited(); }

  /// What plans depend on beside sizes, as text: seed, number of the next step, factors. A step
  /// that was submitted and not taken has to be submitted again after restore(), and gets the
  /// factors that it had.
  [[nodiscard]] std::string save() const
  {
    saved_state saved = state_;
    if (ahead_.is_started()) {
      saved.number = number_of_step_;
      saved.again = true;
      saved.of_step = factors_of_step_;
    }
    detail::state_writer out("online_scheduler 1");
    saved.describe(out);
    return out.text();
  }

  /// Goes on where save() was called.
  ///
  /// Errors      syntax: byte `position` of the text is not what save() wrote; wrong_order: a step
  ///             was submitted here and not taken. Nothing changes then.
  [[nodiscard]] result<void> restore(std::string_view text)
  {
    if (ahead_.is_started()) {
      return fail(error_code::wrong_order, 0, "a state cannot be restored while step ",
                  number_of_step_, " is planned; take it first");
    }
    saved_state saved;
    detail::state_reader in("online_scheduler 1", text);
    saved.describe(in);
    if (auto done = in.finish(); !done) { return done; }
    state_ = std::move(saved);
    return {};
  }

 private:
  struct saved_state {
    std::uint64_t seed = 0;
    std::uint64_t number = 0;  // of the step that is submitted next
    std::vector<std::uint32_t> factors = {};
    bool again = false;  // that step was submitted before save(), with the factors `of_step`
    std::vector<std::uint32_t> of_step = {};

    template <class State>
    void describe(State& state)
    {
      state.line("seed").number(seed);
      state.line("step").number(number, 0);
      describe(state.line("factors"), factors);
      state.line("again").number(again, 0, 1);
      if (again) { describe(state.line("factors"), of_step); }
    }

    /// How many there are, and those that change something.
    template <class State>
    static void describe(State& state, std::vector<std::uint32_t>& factors)
    {
      std::size_t count = factors.size();
      state.number(count, 0, 1 << 20);
      factors.resize(count, unchanged_factor);
      std::vector<std::pair<std::size_t, std::uint32_t>> changed;
      for (std::size_t shape = 0; shape < count; ++shape) {
        if (factors[shape] != unchanged_factor) { changed.emplace_back(shape, factors[shape]); }
      }
      state.list(changed, 0, count, [&](auto& each) {
        state.number(each.first, 0, static_cast<std::int64_t>(count) - 1);
        state.number(each.second, 0, std::numeric_limits<std::uint32_t>::max());
        if (!state.failed()) { factors[each.first] = each.second; }
      });
    }
  };

  Planner planner_;
  saved_state state_;

  // The thread's from submit() until take() has returned, the caller's at other times.
  std::vector<tokens> sizes_;
  std::vector<std::uint32_t> factors_of_step_;
  std::uint64_t number_of_step_ = 0;
  detail::ahead<plan_type> ahead_;  // last: it ends before all else
};

}  // namespace ballast::inline v0
