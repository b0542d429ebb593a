// SPDX-License-Identifier: Apache-2.0
#include "../support/test.hpp"

// Where every test skipped itself, as without a GPU, the program says so to ctest.
int main(int argc, char** argv)
{
  testing::InitGoogleTest(&argc, argv);
  int const status = RUN_ALL_TESTS();
  auto const& run = *testing::UnitTest::GetInstance();
  bool const all_skipped = run.skipped_test_count() == run.test_to_run_count();
  constexpr int skipped = 77;
  return status == 0 && all_skipped ? skipped : status;
}
