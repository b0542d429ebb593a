// SPDX-License-Identifier: Apache-2.0
// Read with -fno-exceptions behind every umbrella: what catches exceptions of a user's calls, or
// passes them on, has nothing to catch.
#include <ballast/comm.hpp>
#include <ballast/partition.hpp>
#include <ballast/pipeline.hpp>
#include <ballast/route.hpp>
#include <ballast/runtime.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <tuple>
#include <vector>

namespace {

using namespace ballast;

struct stage {
  double forward(forward_call const&) const { return 0; }
  void backward(backward_call const&) const {}
};

struct planner {
  using plan_type = int;
  result<void> operator()(int&, std::span<tokens const>, std::uint64_t, std::uint64_t,
                          std::span<std::uint32_t const>) const
  {
    return {};
  }
};

struct source {
  result<loaded_sample> load(std::uint64_t) const { return {}; }
};

[[maybe_unused]] void use_all(thread_communicator& comm, pipeline_runner<>& runner)
{
  (void)runner.run(comm, std::vector<microbatch_id>{}, stage{});
  online_scheduler<planner> scheduler{planner{}};
  (void)scheduler.take();
  unit_exchange<> units;
  (void)units.finish(comm);
  sharded_packs packs;
  sharded_exchange<> exchange;
  (void)exchange.forward(comm, packs, {}, {}, [](std::size_t) {});
  agreed_clock clock(comm);
  (void)clock.time([] {});
  auto const cost = [](tokens each) { return each; };
  orchestrator job(comm, std::tuple{}, phase{one_gpu_bags(1), cost, refine{}});
  (void)job.next();
  step_balancer balancer(comm, one_gpu_bags(1), cost, refine{});
  (void)balancer.plan(std::vector<tokens>{1, 2});
  run_ranks(1, [](thread_communicator&) {});
  auto const plan = [](data_step const&, std::span<rank_id>) { return result<void>(); };
  data_pipeline data(source{}, plan, 1, {.samples = 4, .step_samples = 2});
  (void)data.next(rank_id{0});
  (void)serve_as_loader(comm, rank_id{0}, source{});
  (void)serve_as_proxy(comm, 1, plan, {.samples = 4, .step_samples = 2});
}

}  // namespace
