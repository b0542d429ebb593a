// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>

namespace ballast_test {

/// A clock that runs only when it is told to, by the work itself.
class fake_clock {
 public:
  void advance(std::int64_t nanoseconds) { now_ += nanoseconds; }

  template <class Work>
  ballast::result<std::int64_t> time(Work&& work)
  {
    std::int64_t const before = now_;
    work();
    return now_ - before;
  }

  ballast::result<std::int64_t> now() const { return now_; }

 private:
  std::int64_t now_ = 1'000'000;
};

}  // namespace ballast_test
