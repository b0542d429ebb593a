// SPDX-License-Identifier: Apache-2.0
#include <ballast/gpu/streams.hpp>  // first: proves it is self-contained

#include "../support/test.hpp"

#include <ballast/comm/communicator.hpp>
#include <ballast/comm/thread_communicator.hpp>

namespace {

using ballast::stream_communicator;
using ballast::thread_communicator;

template <class Stream>
struct with : thread_communicator {
  [[nodiscard]] Stream stream() const;
  ballast::result<with> split(std::uint32_t colour);
};

struct stream_alone {
  [[nodiscard]] cudaStream_t stream() const;
};

TEST(StreamCommunicator, IsACommunicatorWithAStream)
{
  static_assert(stream_communicator<with<cudaStream_t>>);
  static_assert(!stream_communicator<thread_communicator>);
  static_assert(ballast::communicator<with<int>>);
  static_assert(!stream_communicator<with<int>>);
  static_assert(!stream_communicator<stream_alone>);
}

}  // namespace
