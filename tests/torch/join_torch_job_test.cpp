// SPDX-License-Identifier: Apache-2.0
#include <ballast/interop/torch_communicator.hpp>

#include "../support/test.hpp"

#include <ballast/comm/gather_samples.hpp>

#include <cstdlib>

namespace {

using ballast::error_code;
using ballast::result;
using ballast::tokens;
using testing::HasSubstr;
using namespace std::chrono_literals;

void set(std::map<std::string, std::string> const& environment)
{
  for (char const* const name : {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}) {
    auto const found = environment.find(name);
    if (found == environment.end()) {
      ::unsetenv(name);
    } else {
      ::setenv(name, found->second.c_str(), 1);
    }
  }
}

/// Calls join_torch_job where the environment is this.
auto join_with(std::map<std::string, std::string> const& environment)
{
  set(environment);
  return ballast::join_torch_job(1s);
}

std::map<std::string, std::string> const alone = {
    {"RANK", "0"}, {"WORLD_SIZE", "1"}, {"MASTER_ADDR", "localhost"}, {"MASTER_PORT", "0"}};

// [join_torch_job]
/// What all processes have read, on each of them.
result<std::vector<tokens>> lengths_of_all(std::vector<tokens> const& read)
{
  auto comm = ballast::join_torch_job();
  if (!comm) { return tl::unexpected(comm.error()); }
  auto all = ballast::gather_samples(*comm, read);
  if (!all) { return tl::unexpected(all.error()); }
  return std::move(all->samples);
}
// [join_torch_job]

TEST(JoinTorchJob, TakesRanksFromTheEnvironment)
{
  set(alone);
  EXPECT_EQ(lengths_of_all({5, 3}).value(), (std::vector<tokens>{5, 3}));
}

TEST(JoinTorchJob, NamesTheVariableThatIsMissingOrWrong)
{
  for (auto const& [name, value] : alone) {
    auto environment = alone;
    environment.erase(name);
    auto const missing = join_with(environment);
    ASSERT_FALSE(missing);
    EXPECT_EQ(missing.error().code, error_code::unknown_name);
    EXPECT_THAT(missing.error().message, HasSubstr("the environment has no " + name + "; start"));
  }
  std::map<std::string, std::string> const wrong = {
      {"RANK", "1"}, {"WORLD_SIZE", "0"}, {"MASTER_PORT", "65536"}};
  for (auto const& [name, value] : wrong) {
    auto environment = alone;
    environment[name] = value;
    auto const refused = join_with(environment);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, error_code::out_of_range);
    EXPECT_THAT(refused.error().message, HasSubstr(name + " is \"" + value + "\"; give a number"));
  }
}

TEST(JoinTorchJob, EndsWithinTheDeadlineWhereOthersAreMissing)
{
  auto environment = alone;
  environment["WORLD_SIZE"] = "2";
  auto const joined = join_with(environment);
  ASSERT_FALSE(joined);
  EXPECT_EQ(joined.error().code, error_code::timed_out) << joined.error().message;
}

}  // namespace
