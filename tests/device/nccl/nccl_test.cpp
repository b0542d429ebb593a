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

struct device_deleter {
  void operator()(std::byte* memory) const { (void)cudaFree(memory); }
};

/// An array on the device.
class device_bytes {
 public:
  explicit device_bytes(std::size_t size) : size_(size)
  {
    void* memory = nullptr;
    EXPECT_EQ(cudaMalloc(&memory, size), cudaSuccess);
    memory_.reset(static_cast<std::byte*>(memory));
  }

  [[nodiscard]] std::span<std::byte> all() const { return {memory_.get(), size_}; }

  void fill(bytes const& from) const
  {
    EXPECT_EQ(cudaMemcpy(memory_.get(), from.data(), size_, cudaMemcpyHostToDevice), cudaSuccess);
  }

  [[nodiscard]] bytes content() const
  {
    bytes to(size_);
    EXPECT_EQ(cudaMemcpy(to.data(), memory_.get(), size_, cudaMemcpyDeviceToHost), cudaSuccess);
    return to;
  }

 private:
  std::unique_ptr<std::byte, device_deleter> memory_;
  std::size_t size_;
};

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
  first.fill(expected);
  ASSERT_TRUE(comm.all_to_all_v(first.all(), counts, second.all(), counts));
  ASSERT_TRUE(comm.all_gather(second.all(), third.all()));
  ASSERT_TRUE(comm.broadcast(third.all(), rank_id{0}));
  ASSERT_EQ(cudaMemsetAsync(first.all().data(), 0, expected.size(), stream()), cudaSuccess);
  ASSERT_TRUE(comm.wait());
  EXPECT_EQ(third.content(), expected);
  EXPECT_EQ(first.content(), bytes(expected.size()));
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
  ASSERT_TRUE(queue.exchange("exchange", send.all().data(), counts, receive.all().data(), counts));
  EXPECT_FALSE(part->exchange("exchange", send.all().data(), beyond, receive.all().data(), beyond));
  EXPECT_EQ(part->native(), nullptr);
  EXPECT_EQ(comm(), nullptr);
  EXPECT_EQ(cudaStreamSynchronize(stream()), cudaSuccess);
}

TEST_P(NcclOnDevice, LeavesNoErrorOfItsPollsBehind)
{
  auto comm = over(false);
  std::vector<std::size_t> const counts = {1 << 28};
  device_bytes const send(counts.front()), receive(counts.front());
  ASSERT_TRUE(comm.all_to_all_v(send.all(), counts, receive.all(), counts));
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
  auto const refused =
      queue.exchange("exchange", send.all().data(), counts, receive.all().data(), counts);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ballast::error_code::transport);
  EXPECT_EQ(refused.error().position, static_cast<std::size_t>(ncclInvalidArgument));
  EXPECT_THAT(refused.error().message, testing::HasSubstr("ncclSend failed with code 4"));
  EXPECT_EQ(comm(), nullptr);
}

INSTANTIATE_TEST_SUITE_P(Blocking, NcclOnDevice, testing::Bool());

}  // namespace
