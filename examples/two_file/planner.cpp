// SPDX-License-Identifier: Apache-2.0
// The C++20 half: it includes ballast and owns the plan. No exception leaves it.

#include "planner.h"

#include <ballast/core.hpp>
#include <ballast/cost/flops.hpp>
#include <ballast/cost/quadratic_cost.hpp>
#include <ballast/partition/longest_processing_time.hpp>
#include <ballast/partition/partition.hpp>
#include <ballast/partition/partition_plan.hpp>
#include <ballast/report/metrics.hpp>
#include <ballast/topology/bag_layout.hpp>
#include <ballast/workload/sample_batch.hpp>

#include <exception>

using ballast::tokens;

struct planner {
  planner(ballast::bag_layout one_per_rank, ballast::quadratic_cost model)
      : bags(std::move(one_per_rank)), cost(model)
  {}

  ballast::bag_layout bags;
  ballast::quadratic_cost cost;
  ballast::sample_batch batch;
  ballast::partition_plan plan;
  ballast::workspace memory;
  std::vector<tokens> begin;  // of each document, as read
  std::vector<std::uint32_t> document;
  std::vector<std::size_t> first;
  std::vector<std::int64_t> from;
  std::vector<std::int64_t> to;
  std::string error;

  ballast::result<void> plan_step(step_plan& step)
  {
    auto const planned = ballast::partition_into(plan, memory, batch.lengths, bags, cost, {},
                                                 ballast::longest_processing_time{});
    if (!planned) { return planned; }
    begin.resize(batch.lengths.size());
    std::exclusive_scan(batch.lengths.begin(), batch.lengths.end(), begin.begin(), tokens{0});
    document.clear();
    first.assign(1, 0);
    from.clear();
    to.assign(1, 0);
    for (auto const samples : plan.samples) {  // one group per rank
      for (auto const sample : samples) {
        std::size_t const index = to_index(sample);
        document.push_back(static_cast<std::uint32_t>(index));
        from.push_back(begin[index]);
        to.push_back(to.back() + batch.lengths[index]);
      }
      first.push_back(document.size());
    }
    step = {bags.gpus(),
            document.size(),
            document.data(),
            first.data(),
            from.data(),
            to.data(),
            ballast::report::measure_as_read(batch, plan.costs, bags.gpus()).balance_ratio(),
            ballast::report::measure_balance(plan.loads, bags.speeds()).balance_ratio()};
    return {};
  }
};

planner* planner_create(size_t ranks, uint32_t channels, uint32_t layers)
{
  try {
    auto shape = ballast::classic_transformer(channels, layers);
    shape.mask = ballast::attention_mask::causal;
    auto const cost = ballast::forward_flops(shape).and_then(
        [](ballast::flop_polynomial flops) { return ballast::gamma_corrected(flops, 1.0); });
    return new planner(ballast::one_gpu_bags(ranks), cost.value().cost);
  } catch (std::exception const&) {
    return nullptr;
  }
}

int planner_plan(planner* self, int64_t const* lengths, uint32_t const* source, size_t documents,
                 step_plan* plan)
{
  try {
    self->batch.lengths.assign(lengths, lengths + documents);
    self->batch.source.resize(documents);
    std::transform(source, source + documents, self->batch.source.begin(),
                   [](std::uint32_t rank) { return ballast::to_id<ballast::rank_id>(rank); });
    auto const planned = self->plan_step(*plan);
    if (planned) { return 0; }
    self->error = planned.error().message;
  } catch (std::exception const& problem) {
    self->error = problem.what();
  }
  return 1;
}

char const* planner_error(planner const* self)
{
  return self->error.c_str();
}

void planner_destroy(planner* self)
{
  delete self;
}
