// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "test.hpp"

namespace ballast_test {

/// That a call was refused, with this code, position and part of a sentence.
template <class Result>
void expect_refused(Result const& made, ballast::error_code code, std::size_t position,
                    std::string const& sentence = "")
{
  SCOPED_TRACE(testing::Message() << "position " << position << ' ' << sentence);
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, code);
  EXPECT_EQ(made.error().position, position);
  EXPECT_THAT(made.error().message, testing::HasSubstr(sentence));
}

/// That each of these changes gives a plan a digest of its own, and that a copy has the same.
template <class Plan>
void expect_digest_of_all(Plan const& plan,
                          std::initializer_list<void (*)(std::type_identity_t<Plan>&)> changes)
{
  std::set<std::uint64_t> digests{plan.digest()};
  for (auto const change : changes) {
    Plan changed = plan;
    EXPECT_EQ(changed.digest(), plan.digest());
    change(changed);
    EXPECT_TRUE(digests.insert(changed.digest()).second) << "after " << digests.size();
  }
}

}  // namespace ballast_test
