// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_RUNTIME_DETAIL_DATA_WINDOW_OPENER_HPP
#define BALLAST_RUNTIME_DETAIL_DATA_WINDOW_OPENER_HPP

#include <ballast/core/contract.hpp>
#include <ballast/core/result.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/runtime/data/data_setup.hpp>
#include <ballast/runtime/detail/data/data_state.hpp>
#include <ballast/runtime/detail/data/epoch_order.hpp>
#include <ballast/runtime/detail/data/open_window.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>

namespace ballast::inline v0::detail {

/// Where a data pipeline is in its epochs: gives the windows, one after the other.
class window_opener {
 public:
  window_opener(data_setup setup, std::size_t steps)
      : setup_(checked(std::move(setup), steps)), steps_(steps), order_(setup_)
  {}

  [[nodiscard]] data_setup const& setup() const noexcept { return setup_; }

  /// Whether there is no further window.
  [[nodiscard]] bool at_end() const
  {
    return setup_.samples == 0 || epoch_ >= setup_.epochs ||
           (order_.at_end() && epoch_ + 1 == setup_.epochs);
  }

  /// The next window, if there is one. Its samples wait, in the order in which they arrive.
  [[nodiscard]] open_window open()
  {
    BALLAST_EXPECTS(!at_end());
    if (order_.at_end()) {
      order_.shuffle(++epoch_);
      position_ = 0;
      trained_ = 0;
    }
    open_window window;
    window.epoch = epoch_;
    window.first_position = position_;
    window.first_number = number_;
    window.first_ticket = tickets_;
    window.unit_begins.push_back(0);
    for (; window.steps < steps_ && !order_.at_end(); ++window.steps) {
      order_.next_step([&](std::span<std::uint32_t const> samples) {
        auto const unit = static_cast<std::uint32_t>(window.unit_steps.size());
        for (std::uint32_t const sample : samples) {
          window.samples.push_back({.sample = sample, .unit = unit});
        }
        window.unit_begins.push_back(static_cast<std::uint32_t>(window.samples.size()));
        window.unit_steps.push_back(static_cast<std::uint32_t>(window.steps));
      });
    }
    window.lengths.resize(window.samples.size() * setup_.modules);
    window.unreported = window.samples.size();
    window.made = window.taken = std::exchange(trained_, 0);
    window.ends_epoch = order_.at_end();
    window.sort_by_step();
    position_ += window.steps;
    number_ += window.steps;
    tickets_ += window.samples.size();
    return window;
  }

  /// Whether there is the step after which a state was saved, and so many samples before it.
  ///
  /// Errors      out_of_range: there is not.
  /// Complexity  O(samples); with groups, O(samples) an epoch before it.
  [[nodiscard]] result<void> expect_place(saved_step const& saved) const
  {
    auto const refuse = [](auto const&... what) {
      return fail(error_code::out_of_range, 0, "the saved state ", what...,
                  "; give what save() returned");
    };
    if (saved.epoch > setup_.epochs || (saved.epoch == setup_.epochs && saved.position > 0)) {
      return refuse("is in epoch ", saved.epoch, " of ", setup_.epochs);
    }
    epoch_order order = order_;
    uint128 steps = 0;    // before it
    uint128 samples = 0;  // of these
    if (setup_.together.empty()) {
      samples = uint128{saved.epoch} * setup_.samples;
      steps = uint128{saved.epoch} * (setup_.samples / setup_.step_samples +
                                      (setup_.samples % setup_.step_samples > 0 ? 1 : 0));
    } else {
      for (std::uint64_t epoch = 0; epoch < saved.epoch; ++epoch) {
        for (order.shuffle(epoch); !order.at_end(); ++steps) { samples += skip_step(order); }
      }
    }
    order.shuffle(saved.epoch);
    for (std::uint64_t step = 0; step < saved.position && !order.at_end(); ++step) {
      samples += skip_step(order);
    }
    if (saved.position > 0 && order.at_end()) {
      return refuse("is at step ", saved.position, " of an epoch that has no more steps");
    }
    if (saved.number != steps + saved.position) {
      return refuse("is at step ", saved.position, " of epoch ", saved.epoch,
                    ", which is not step ", saved.number, " of all");
    }
    if (saved.left_out > samples) {
      return refuse("has left out ", saved.left_out, " samples, more than there were");
    }
    return {};
  }

  /// Goes on after the step of a state.
  void go_to(saved_step const& saved)
  {
    BALLAST_EXPECTS(tickets_ == 0, "a data pipeline is restored before it deals anything");
    epoch_ = saved.epoch;
    trained_ = saved.position % steps_;
    position_ = saved.position - trained_;
    number_ = saved.number - trained_;
    order_.shuffle(epoch_);
    for (std::uint64_t step = 0; step < position_; ++step) { (void)skip_step(order_); }
  }

 private:
  /// Returns how many samples it has.
  [[nodiscard]] static std::uint64_t skip_step(epoch_order& order)
  {
    std::uint64_t samples = 0;
    order.next_step([&](std::span<std::uint32_t const> unit) { samples += unit.size(); });
    return samples;
  }

  [[nodiscard]] static data_setup checked(data_setup setup, std::size_t steps)
  {
    BALLAST_EXPECTS(
        setup.step_samples >= 1 && setup.modules >= 1 && setup.fetched_ahead >= 1 && steps >= 1,
        "step_samples, modules, fetched_ahead or the steps of a window are 0");
    BALLAST_EXPECTS(setup.samples < std::numeric_limits<std::uint32_t>::max(),
                    "a data pipeline numbers samples by 32 bits, and is given ", setup.samples);
    BALLAST_EXPECTS(setup.together.empty() || setup.together.size() == setup.samples,
                    "setup.together has ", counted(setup.together.size(), "entry"), " for ",
                    counted(setup.samples, "sample"));
    return setup;
  }

  data_setup setup_;
  std::size_t steps_;
  epoch_order order_;
  std::uint64_t epoch_ = 0;
  std::uint64_t position_ = 0;  // of the next window's first step in its epoch
  std::uint64_t number_ = 0;    // of that step
  std::uint64_t trained_ = 0;   // steps of the next window that were taken before a restore
  std::uint64_t tickets_ = 0;
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_RUNTIME_DETAIL_DATA_WINDOW_OPENER_HPP
