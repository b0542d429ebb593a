// SPDX-License-Identifier: Apache-2.0
#include <ballast/runtime/data/data_trainer.hpp>

#include <ballast/comm/thread_communicator.hpp>
#include <ballast/runtime/data/data_setup.hpp>
#include <ballast/runtime/data/serve_as_loader.hpp>
#include <ballast/runtime/data/serve_as_proxy.hpp>
#include "../../support/test.hpp"
#include "data_rank_checks.hpp"
#include "faulty_source.hpp"

namespace {

using ballast::rank_id;

TEST(DataTrainer, IsALoopOfEachRank)
{
  ballast::data_setup const setup{.samples = 50, .step_samples = 8};
  ballast_test::faulty_source const source;
  ballast_test::by_length const plan{2};
  auto const trained = ballast::run_ranks(5, [&](ballast::thread_communicator& comm) {
    std::size_t samples = 0;
    // [ranks]
    rank_id const proxy{2};
    if (comm.rank() < proxy) {  // ranks 0 and 1 train
      ballast::data_trainer data(comm, proxy);
      while (auto const batch = data.next().value()) { samples += batch->own.size(); }
      ballast::or_throw(data.finish());
    } else if (comm.rank() == proxy) {
      ballast::or_throw(serve_as_proxy(comm, 2, plan, setup));
    } else {  // all others load
      ballast::or_throw(serve_as_loader(comm, proxy, source));
    }
    // [ranks]
    return samples;
  });
  EXPECT_EQ(trained[0] + trained[1], 50U);
}

TEST(DataTrainer, MayFinishBeforeTheLastStep)
{
  ballast::data_setup const setup{.samples = 500, .step_samples = 8};
  ballast_test::faulty_source const source;
  auto const steps = ballast::run_ranks(4, [&](ballast::thread_communicator& comm) {
    rank_id const proxy{1};
    if (comm.rank() == rank_id{0}) {
      return ballast_test::train_as(comm, proxy, {}, 3).digests.size();
    }
    auto const done = comm.rank() == proxy
                          ? serve_as_proxy(comm, 1, ballast_test::by_length{1}, setup)
                          : serve_as_loader(comm, proxy, source);
    EXPECT_TRUE(done) << done.error().message;
    return std::size_t{0};
  });
  EXPECT_EQ(steps[0], 3U);
}

}  // namespace
