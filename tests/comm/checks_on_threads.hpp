// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_TESTS_COMM_CHECKS_ON_THREADS_HPP
#define BALLAST_TESTS_COMM_CHECKS_ON_THREADS_HPP

#include <gtest/gtest.h>
#include <ballast/comm/run_ranks.hpp>
#include <ballast/comm/thread_communicator.hpp>
#include <ballast/core/ids.hpp>

#include <cstddef>
#include <string>
#include <tuple>

namespace ballast_test {

/// A check of a suite on so many ranks that are threads.
template <class Check>
using check_on_threads = std::tuple<std::size_t, Check>;

template <class Check>
void run_on_threads(check_on_threads<Check> const& each)
{
  auto const& [size, check] = each;
  ballast::run_ranks(size, [&](ballast::thread_communicator& comm) {
    SCOPED_TRACE(testing::Message() << "rank " << to_index(comm.rank()));
    check.run(comm);
  });
}

/// What such a test is called: DoesThisOn4.
struct name_on_threads {
  template <class Check>
  std::string operator()(testing::TestParamInfo<check_on_threads<Check>> const& info) const
  {
    auto const& [size, check] = info.param;
    return std::string(check.name).append("On").append(std::to_string(size));
  }
};

}  // namespace ballast_test

#endif  // BALLAST_TESTS_COMM_CHECKS_ON_THREADS_HPP
