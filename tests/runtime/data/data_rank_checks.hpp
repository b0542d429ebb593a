// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_TESTS_RUNTIME_DATA_DATA_RANK_CHECKS_HPP
#define BALLAST_TESTS_RUNTIME_DATA_DATA_RANK_CHECKS_HPP

#include <ballast/core/ids.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/core/result.hpp>
#include <ballast/runtime/data/data_step.hpp>
#include <ballast/runtime/data/data_trainer.hpp>
#include <ballast/runtime/data/loader_options.hpp>
#include "faulty_source.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace ballast_test {

/// Gives each sample to the rank that has the shortest ones so far.
struct by_length {
  std::size_t ranks = 1;

  ballast::result<void> operator()(ballast::data_step const& step,
                                   std::span<ballast::rank_id> owner) const
  {
    std::vector<ballast::tokens> loads(ranks);
    for (std::size_t entry = 0; entry < owner.size(); ++entry) {
      auto const lightest = std::ranges::min_element(loads);
      owner[entry] =
          ballast::to_id<ballast::rank_id>(static_cast<std::size_t>(lightest - loads.begin()));
      *lightest += step.lengths_of(entry)[0];
    }
    return {};
  }
};

/// What a trainer saw, or what another rank returned.
struct trained {
  std::vector<std::uint64_t> digests;
  std::vector<std::uint64_t> samples;
  std::vector<std::string> news;
  std::string state;
  std::string error;
};

template <class Communicator>
trained train_as(Communicator& comm, ballast::rank_id proxy, ballast::loader_options options,
                 std::size_t most_steps)
{
  ballast::data_trainer data(comm, proxy, options);
  trained own;
  while (own.digests.size() < most_steps) {
    auto const batch = data.next();
    if (!batch) { own.error = batch.error().message; }
    if (!batch || !*batch) { break; }
    ballast::data_step const& step = *(*batch)->step;
    own.digests.push_back(step.digest());
    for (auto const& each : (*batch)->own) {
      own.samples.push_back(step.samples[each.entry]);
      if (each.bytes != faulty_source::bytes_of(step.samples[each.entry])) {
        own.error = "wrong payload";
      }
    }
    own.news.insert(own.news.end(), step.news.begin(), step.news.end());
    own.state = step.save();
  }
  if (auto const done = data.finish(); !done) { own.error = done.error().message; }
  return own;
}

}  // namespace ballast_test

#endif  // BALLAST_TESTS_RUNTIME_DATA_DATA_RANK_CHECKS_HPP
