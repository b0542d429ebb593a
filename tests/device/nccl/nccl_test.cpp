// SPDX-License-Identifier: Apache-2.0
#include <nccl.h>
#include "../../comm/conformance.hpp"
#include "../../support/test.hpp"

#include <ballast/gpu/nccl_communicator.hpp>

namespace {

using ballast::rank_id;

using communicator = ballast::nccl_communicator<>;
using bytes = std::vector<std::byte, ballast::pinned_allocator<std::byte>>;
using conformance = ballast_test::conformance<communicator, bytes>;

constexpr std::chrono::milliseconds bound = std::chrono::minutes(1);

using device_bytes = ballast::device_array<std::byte>;

bytes content_of(device_bytes const& array)
{
  bytes to(array.size());
  EXPECT_EQ(cudaMemcpy(to.data(), array.data(), to.size(), cudaMemcpyDeviceToHost), cudaSuccess);
  return to;
}

/// NCCL takes one rank per GPU, and a test can count on one GPU: a clique of one, blocking or not.
class NcclOnDevice : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override
  {
    int devices = 0;
    cudaError_t const found = cudaGetDeviceCount(&devices);
    if (found != cudaSuccess || devices == 0) {
      GTEST_SKIP() << "no CUDA device: " << cudaGetErrorString(found);
    }
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = GetParam() ? 1 : 0;
    ncclUniqueId id;
    ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
    ASSERT_THAT(ncclCommInitRankConfig(&comm_, 1, id, 0, &config),
                testing::AnyOf(ncclSuccess, ncclInProgress));
    ASSERT_EQ(state_of(comm_), ncclSuccess);
    ASSERT_EQ(cudaStreamCreate(&stream_), cudaSuccess);
  }

  void TearDown() override
  {
    if (stream_ != nullptr) { EXPECT_EQ(cudaStreamDestroy(stream_), cudaSuccess); }
    if (comm_ != nullptr) { EXPECT_EQ(ncclCommDestroy(comm_), ncclSuccess); }
  }

  communicator over(bool verify)
  {
    return communicator::over(comm_, stream_, {.deadline = bound, .verify = verify}).value();
  }

  cudaStream_t stream() const { return stream_; }

  ncclComm_t& comm() { return comm_; }

 private:
  /// What it comes to when it is no longer in progress, or after the bound.
  static ncclResult_t state_of(ncclComm_t comm)
  {
    auto const end = std::chrono::steady_clock::now() + bound;
    ncclResult_t state = ncclInProgress;
    while (state == ncclInProgress && std::chrono::steady_clock::now() < end) {
      EXPECT_EQ(ncclCommGetAsyncError(comm, &state), ncclSuccess);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return state;
  }

  ncclComm_t comm_ = nullptr;
  cudaStream_t stream_ = nullptr;
};

TEST_P(NcclOnDevice, PassesTheDataChecks)
{
  for (bool const verify : {false, true}) {
    for (auto const& check : conformance::data_checks()) {
      SCOPED_TRACE(check.name);
      auto comm = over(verify);
      check.run(comm);
      ASSERT_TRUE(comm.wait());
    }
  }
}

TEST_P(NcclOnDevice, PassesTheMismatchChecks)
{
  for (auto const& check : conformance::mismatch_checks()) {
    SCOPED_TRACE(check.name);
    auto comm = over(true);
    check.run(comm);
    ASSERT_TRUE(comm.wait());
  }
}

TEST_P(NcclOnDevice, MovesDeviceMemoryInTheOrderOfItsCalls)
{
  auto comm = over(false);
  std::vector<std::size_t> const counts = {1 << 20};
  bytes expected(counts.front());
  ballast_test::message{1, 2, 3}.write(expected);
  device_bytes const first(expected.size()), second(expected.size()), third(expected.size());
  EXPECT_EQ(cudaMemcpy(first.data(), expected.data(), first.size(), cudaMemcpyHostToDevice),
            cudaSuccess);
  ASSERT_TRUE(comm.all_to_all_v(first.span(), counts, second.span(), counts));
  ASSERT_TRUE(comm.all_gather(second.span(), third.span()));
  ASSERT_TRUE(comm.broadcast(third.span(), rank_id{0}));
  ASSERT_EQ(cudaMemsetAsync(first.data(), 0, expected.size(), stream()), cudaSuccess);
  ASSERT_TRUE(comm.wait());
  EXPECT_EQ(content_of(third), expected);
  EXPECT_EQ(content_of(first), bytes(expected.size()));
}

TEST_P(NcclOnDevice, EndsAllThatShareAStream)
{
  auto const shared = std::make_shared<ballast::detail::nccl_stream>(stream(), bound);
  ballast::detail::nccl_queue queue(comm(), shared);
  auto const part = queue.part();
  ASSERT_TRUE(queue.split(*part, 0, 0));
  std::vector<std::size_t> const counts = {16};
  std::vector<std::size_t> const beyond = {8, 8};  // a group of one has no rank 1
  device_bytes const send(16), receive(16);
  ASSERT_TRUE(queue.exchange("exchange", send.data(), counts, receive.data(), counts));
  EXPECT_FALSE(part->exchange("exchange", send.data(), beyond, receive.data(), beyond));
  EXPECT_EQ(part->native(), nullptr);
  EXPECT_EQ(comm(), nullptr);
  EXPECT_EQ(cudaStreamSynchronize(stream()), cudaSuccess);
}

TEST_P(NcclOnDevice, LeavesNoErrorOfItsPollsBehind)
{
  auto comm = over(false);
  std::vector<std::size_t> const counts = {1 << 28};
  device_bytes const send(counts.front()), receive(counts.front());
  ASSERT_TRUE(comm.all_to_all_v(send.span(), counts, receive.span(), counts));
  ASSERT_TRUE(comm.wait());
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

TEST_P(NcclOnDevice, ReportsWhatNcclRefuses)
{
  std::size_t const beyond = 2;  // a group of one has no rank 1
  std::vector<std::size_t> const counts(beyond, 8);
  device_bytes const send(16), receive(16);
  ballast::detail::nccl_queue queue(
      comm(), std::make_shared<ballast::detail::nccl_stream>(stream(), bound));
  auto const refused = queue.exchange("exchange", send.data(), counts, receive.data(), counts);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ballast::error_code::transport);
  EXPECT_EQ(refused.error().position, static_cast<std::size_t>(ncclInvalidArgument));
  EXPECT_THAT(refused.error().message, testing::HasSubstr("ncclSend failed with code 4"));
  EXPECT_EQ(comm(), nullptr);
}

INSTANTIATE_TEST_SUITE_P(Blocking, NcclOnDevice, testing::Bool());

}  // namespace
