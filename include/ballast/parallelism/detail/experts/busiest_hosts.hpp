// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARALLELISM_DETAIL_EXPERTS_BUSIEST_HOSTS_HPP
#define BALLAST_PARALLELISM_DETAIL_EXPERTS_BUSIEST_HOSTS_HPP

#include <ballast/parallelism/detail/experts/replica_slots.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace ballast::inline v0::detail {

/// Of every expert the largest load of its GPUs, that GPU, and the next load.
class busiest_hosts {
 public:
  explicit busiest_hosts(std::size_t experts) : of_(experts) {}

  /// In time of the slots.
  void read(replica_slots const& slots)
  {
    std::fill(of_.begin(), of_.end(), loads{});
    for (std::size_t slot = 0; slot < slots.slots(); ++slot) {
      if (slots.expert_at(slot) == replica_slots::none) { continue; }
      loads& now = of_[slots.expert_at(slot)];
      std::int64_t const load = slots.load(slots.gpu_of(slot));
      if (now.gpu == replica_slots::none || load > now.largest) {
        now = {load, now.largest, slots.gpu_of(slot)};
      } else {
        now.next = std::max(now.next, load);
      }
    }
  }

  /// Of the GPUs of an expert without this one.
  [[nodiscard]] std::int64_t largest_besides(std::size_t expert, std::size_t gpu) const
  {
    return of_[expert].gpu == gpu ? of_[expert].next : of_[expert].largest;
  }

 private:
  struct loads {
    std::int64_t largest = 0;
    std::int64_t next = 0;
    std::size_t gpu = replica_slots::none;  ///< with the largest load
  };

  std::vector<loads> of_;
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARALLELISM_DETAIL_EXPERTS_BUSIEST_HOSTS_HPP
