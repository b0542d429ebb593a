// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_RUNTIME_DETAIL_DATA_OPEN_WINDOWS_HPP
#define BALLAST_RUNTIME_DETAIL_DATA_OPEN_WINDOWS_HPP

#include <ballast/runtime/data/data_deal.hpp>
#include <ballast/runtime/detail/data/open_window.hpp>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

namespace ballast::inline v0::detail {

/// The windows that are open, the oldest first, and where their samples are.
struct open_windows {
  std::deque<open_window> all;
  std::size_t fetched = 0;                                       // dealt, and not taken
  std::vector<std::pair<std::uint64_t, std::uint32_t>> dropped;  // ticket and loader

  /// Deals a waiting sample of a window, if there is one, the one that is needed first.
  [[nodiscard]] bool deal(open_window& window, std::uint32_t loader, data_deal& dealt)
  {
    for (; window.next < window.needed.size(); ++window.next) {
      std::uint32_t const at = window.needed[window.next];
      window_sample& each = window.samples[at];
      if (each.place != sample_place::waiting) { continue; }
      each.place = sample_place::dealt;
      each.loader = loader;
      ++fetched;
      dealt = {window.first_ticket + at, each.sample};
      return true;
    }
    return false;
  }

  /// The window of a sample; null if it is not open any more.
  [[nodiscard]] open_window* find(std::uint64_t ticket)
  {
    for (open_window& window : all) {
      if (ticket >= window.first_ticket && ticket - window.first_ticket < window.samples.size()) {
        return &window;
      }
    }
    return nullptr;
  }

  /// Has all that a loader has wait again, and returns how many samples these are.
  [[nodiscard]] std::size_t lose(std::uint32_t loader)
  {
    std::size_t lost = 0;
    for (open_window& window : all) {
      for (window_sample& each : window.samples) {
        bool const has = each.place == sample_place::dealt || each.place == sample_place::held;
        if (!has || each.loader != loader) { continue; }
        each.place = sample_place::waiting;
        window.next = 0;
        ++lost;
      }
    }
    fetched -= lost;
    return lost;
  }

  /// Takes a sample away from where it is, since it is left out or gone.
  void put(open_window const& window, window_sample& each, sample_place place)
  {
    if (each.place == sample_place::held || each.place == sample_place::delivered) {
      auto const at = static_cast<std::uint64_t>(&each - window.samples.data());
      dropped.emplace_back(window.first_ticket + at, each.loader);
    }
    fetched -= is_fetched(each) ? 1U : 0U;
    each.place = place;
  }

  [[nodiscard]] static bool is_fetched(window_sample const& each)
  {
    return each.place == sample_place::dealt || each.place == sample_place::held ||
           each.place == sample_place::delivered;
  }

  /// A payload is where it is computed, perhaps after its loader was lost.
  void deliver(window_sample& each)
  {
    if (each.place == sample_place::left_out || each.place == sample_place::gone) { return; }
    fetched += each.place == sample_place::waiting ? 1U : 0U;
    each.place = sample_place::delivered;
  }

  /// Those of the oldest step that was made are trained.
  void take()
  {
    open_window& window = all.front();
    for (std::uint32_t const at : window.of_step(window.taken)) {
      fetched -= is_fetched(window.samples[at]) ? 1U : 0U;
      window.samples[at].place = sample_place::gone;
    }
    if (++window.taken == window.steps) { all.pop_front(); }
  }
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_RUNTIME_DETAIL_DATA_OPEN_WINDOWS_HPP
