// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_RUNTIME_DETAIL_DATA_EPOCH_ORDER_HPP
#define BALLAST_RUNTIME_DETAIL_DATA_EPOCH_ORDER_HPP

#include <ballast/core/contract.hpp>
#include <ballast/core/random.hpp>
#include <ballast/runtime/data/data_setup.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

namespace ballast::inline v0::detail {

/// The order of an epoch: a random permutation of its units (samples, or groups of samples), cut
/// into steps of at most step_samples samples.
///
/// Ensures     (1) every sample is in one step, with its whole group
///             (2) the same order for the same setup and epoch
/// Complexity  four bytes a sample; of groups eight more, and eight a group. O(samples) to shuffle.
class epoch_order {
 public:
  explicit epoch_order(data_setup const& setup)
      : samples_(setup.samples), step_samples_(setup.step_samples), seed_(setup.seed)
  {
    if (!setup.together.empty()) { group(setup.together); }
    order_.resize(begins_.empty() ? samples_ : begins_.size() - 1);
    shuffle(0);
  }

  /// Takes the order of another epoch, from its first step on.
  void shuffle(std::uint64_t epoch)
  {
    std::iota(order_.begin(), order_.end(), std::uint32_t{0});
    random_source random(digest{}.add(seed_).add(epoch).value());
    random.shuffle(std::span(order_));
    next_ = 0;
  }

  [[nodiscard]] bool at_end() const { return next_ == order_.size(); }

  /// Calls use(samples of a unit) for each unit of the next step, and goes on to the one after it.
  template <class Use>
  void next_step(Use use)
  {
    for (std::size_t room = step_samples_; next_ < order_.size(); ++next_) {
      std::uint32_t const unit = order_[next_];
      std::span<std::uint32_t const> const members =
          begins_.empty() ? std::span<std::uint32_t const>(&unit, 1)
                          : std::span<std::uint32_t const>(members_).subspan(
                                begins_[unit], begins_[unit + 1] - begins_[unit]);
      if (members.size() > room) { return; }
      room -= members.size();
      use(members);
    }
  }

 private:
  /// Puts the samples of each group side by side, groups in the order of their numbers.
  void group(std::vector<std::uint32_t> const& together)
  {
    members_.resize(samples_);
    std::iota(members_.begin(), members_.end(), std::uint32_t{0});
    std::sort(members_.begin(), members_.end(), [&](std::uint32_t a, std::uint32_t b) {
      return together[a] < together[b] || (together[a] == together[b] && a < b);
    });
    begins_.push_back(0);
    for (std::size_t at = 1; at <= samples_; ++at) {
      if (at < samples_ && together[members_[at]] == together[members_[at - 1]]) { continue; }
      std::size_t const size = at - begins_.back();
      BALLAST_EXPECTS(size <= step_samples_, "a group of setup.together has ",
                      counted(size, "sample"), ", and a step has room for ", step_samples_);
      begins_.push_back(static_cast<std::uint32_t>(at));
    }
  }

  std::size_t samples_;
  std::size_t step_samples_;
  std::uint64_t seed_;
  std::vector<std::uint32_t> order_;    // of units
  std::vector<std::uint32_t> begins_;   // of each group among the members; empty without groups
  std::vector<std::uint32_t> members_;  // samples, group by group
  std::size_t next_ = 0;                // unit of the order
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_RUNTIME_DETAIL_DATA_EPOCH_ORDER_HPP
