// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lossy_threads.hpp"
#include "seeded_communicator.hpp"

#include <functional>
#include <set>
#include <stdexcept>
#include <string>

namespace seeded_world {

/// What a rank found that no loss and no lack of memory excuses.
struct wrong : std::logic_error {
  using std::logic_error::logic_error;
};

inline void expect(bool right, char const* what)
{
  if (!right) { throw wrong(what); }
}

/// One job of a few ranks: what each does, and a word of what it got, the same in every order.
struct world_case {
  std::string name;
  std::size_t ranks = 1;
  std::chrono::milliseconds deadline{20};
  std::function<ballast::result<std::uint64_t>(seeded_communicator&)> over_messages = {};
  std::function<ballast::result<std::uint64_t>(lossy_threads&)> over_threads = {};
  /// Ranks that have ended stay until all have, since one that left would break the others.
  bool stays = false;
  /// What a user's call throws there becomes an error, also where memory is short.
  bool calls_users = false;
  /// Ranks whose silence the others bear: they have what they would have had.
  std::set<std::size_t> spare = {};

  template <class Body>
  world_case& of(Body const& body)
  {
    over_messages = body;
    over_threads = body;
    return *this;
  }
};

/// So many of each kind, always the same.
[[nodiscard]] std::vector<world_case> all_cases(std::size_t of_each);

}  // namespace seeded_world
