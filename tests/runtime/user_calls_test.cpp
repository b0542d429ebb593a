// SPDX-License-Identifier: Apache-2.0
// Every place that calls code of a user's which may throw, but for the data pipeline's: what then
// happens, and that the same objects serve the next call.
#include "../support/toy_pipeline.hpp"
#include "fake_clock.hpp"
#include "scheduled_steps.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <ballast/comm/run_ranks.hpp>
#include <ballast/comm/thread_communicator.hpp>
#include <ballast/core/digest.hpp>
#include <ballast/core/ids.hpp>
#include <ballast/core/result.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/parallelism/choose_bags.hpp>
#include <ballast/partition.hpp>
#include <ballast/pipeline.hpp>
#include <ballast/runtime.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace {

using ballast::rank_id;
using ballast::refine_grid;
using ballast::thread_communicator;
using ballast::tokens;
using testing::HasSubstr;

// Calls of this thread until one throws; none where it is negative.
thread_local int calls_left = -1;

void users_code()
{
  if (calls_left-- == 0) { throw std::runtime_error("out of ink"); }
}

template <class T>
T through_users_code(T value)
{
  users_code();
  return value;
}

struct document {
  tokens length;
};
tokens length_of(document const& each)
{
  return through_users_code(each.length);
}
std::int64_t key_of(document const& each)
{
  return through_users_code(each.length % 4);
}
tokens silent_length_of(document const& each)
{
  return each.length;
}

std::vector<tokens> const lengths{40, 8, 16, 24, 9, 30, 12, 7};
auto const cost = [](tokens length) { return through_users_code(length * length); };

// A policy of a user's, which hands on to one of the library's.
template <class Policy>
struct users_policy {
  Policy inner{};
  template <class... Arguments>
  auto operator()(Arguments&&... arguments) const
  {
    users_code();
    return inner(std::forward<Arguments>(arguments)...);
  }
};

struct users_schedule {
  ballast::result<ballast::pipeline_schedule> operator()(ballast::stage_graph const& stages,
                                                         std::size_t count) const
  {
    users_code();
    return ballast::gpipe{}(stages, count);
  }
};

// A plain call throws what the user's code throws. make() returns a call that keeps plan, workspace
// and the like from one time to the next, and returns a word of what it found.
struct plain_call {
  char const* place;
  std::function<std::function<std::uint64_t()>()> make;
};

template <class State, class Call>
std::function<std::uint64_t()> keeping(State state, Call call)
{
  return [kept = std::make_shared<State>(std::move(state)), call] { return call(*kept); };
}

template <class Plan>
struct plan_and_memory {
  Plan plan{};
  ballast::workspace memory{};
};

std::vector<plain_call> plain_calls()
{
  using partition = plan_and_memory<ballast::partition_plan>;
  using vectors = plan_and_memory<ballast::basic_partition_plan<ballast::cost_vector<2>>>;
  using grid = plan_and_memory<ballast::grid_plan>;
  auto const bags = ballast::one_gpu_bags(3);
  auto const by = [bags](auto policy, auto cost_of, auto length_of_sample) {
    return [=] {
      return keeping(partition{}, [=](partition& kept) {
        ballast::or_throw(ballast::partition_into(kept.plan, kept.memory, lengths, bags, policy,
                                                  cost_of, length_of_sample));
        return kept.plan.digest();
      });
    };
  };
  auto const gridded = [](auto policy, auto cost_of, auto weight_of) {
    return [=] {
      return keeping(grid{}, [=](grid& kept) {
        ballast::or_throw(ballast::partition_grid_into(
            kept.plan, kept.memory, lengths, 2, {.microbatches = 2}, policy, cost_of, weight_of));
        return kept.plan.digest();
      });
    };
  };
  auto const own = [](tokens length) { return length; };
  auto const users = [](tokens length) { return through_users_code(length); };
  return {
      {"partition: cost", by(ballast::refine{}, cost, own)},
      {"partition: length", by(ballast::refine{}, own, users)},
      {"partition: policy", by(users_policy<ballast::longest_processing_time>{}, own, own)},
      {"partition: cost of several quantities",
       [bags] {
         return keeping(vectors{}, [bags](vectors& kept) {
           ballast::or_throw(ballast::partition_into(
               kept.plan, kept.memory, lengths, bags, ballast::exact<>{}, [](tokens length) {
                 return ballast::cost_vector<2>{through_users_code(length), length * length};
               }));
           return kept.plan.digest();
         });
       }},
      {"partition_grid: cost", gridded(refine_grid{}, cost, own)},
      {"partition_grid: weight", gridded(refine_grid{}, own, users)},
      {"partition_grid: policy", gridded(users_policy<refine_grid<>>{}, own, own)},
      {"pad_grid: cost",
       [] {
         return keeping(0, [](int) {
           std::vector<ballast::padded_lengths> padded;
           for (tokens const each : lengths) { padded.push_back({each, each / 2}); }
           auto const plan =
               ballast::pad_grid(padded, {.ranks = 2, .microbatches = 2, .work_per_sample = 10},
                                 [](tokens source, tokens target) -> ballast::cost_units {
                                   return through_users_code(source + target);
                                 });
           return static_cast<std::uint64_t>(plan.value().makespan);
         });
       }},
      {"pack_to_capacity: weight",
       [] {
         return keeping(0, [](int) {
           return ballast::pack_to_capacity(lengths, 50, ballast::best_fit_decreasing{},
                                            [](tokens each) { return through_users_code(each); })
               .value()
               .bins();
         });
       }},
      {"compiled_schedule: schedule",
       [] {
         return keeping(0, [](int) {
           return ballast::compiled_schedule::make(ballast::chain_of_stages(2, 2), users_schedule{},
                                                   3)
               .value()
               .tasks()
               .size();
         });
       }},
      {"microbatch_scheduler: times_of",
       [] {
         auto const times = [](std::span<tokens const, 2> sizes) {
           return through_users_code(ballast_test::square_times{}(sizes));
         };
         using planner = ballast::microbatch_scheduler<2, std::remove_const_t<decltype(times)>>;
         struct state {
           planner plan;
           ballast::scheduled_step<2> step{};
         };
         auto made = planner::make(ballast_test::small_setup(2, 3), times).value();
         return keeping(state{std::move(made)}, [](state& kept) {
           auto const sizes = ballast_test::draw_sizes(12, 3);
           ballast::or_throw(kept.plan(kept.step, sizes, 1, 0, {}));
           return kept.step.digest();
         });
       }},
      {"profile_module: prepare, passes and report",
       [] {
         struct work {
           ballast_test::fake_clock& clock;
           void forward() const { users_code(), clock.advance(100); }
           void backward() const { users_code(), clock.advance(300); }
         };
         struct state {
           ballast::profile_file file{};
           ballast_test::fake_clock clock{};
         };
         return keeping(state{}, [](state& kept) {
           auto const summary = ballast::profile_module(
               kept.file,
               {.name = "llm",
                .layers = 2,
                .timed_layers = 2,
                .flops = {.linear = 1000, .quadratic = 10},
                .sizes = {10, 20}},
               [&](auto const&) { return through_users_code(work{kept.clock}); }, kept.clock,
               {.warm_up = 0, .runs = 1}, [](auto const&) { users_code(); });
           return summary.value().known + summary.value().measured;
         });
       }},
      {"profile_memory: measure",
       [] {
         return keeping(ballast::profile_file{}, [](ballast::profile_file& file) {
           std::vector<ballast::parallel_degree> const degrees{{1}, {2}};
           ballast::or_throw(ballast::profile_memory(
               file, "llm", degrees, {2, 4}, {10, 20}, [](ballast::memory_probe const& probe) {
                 return through_users_code(
                     ballast::held_bytes{100ULL * probe.layers, 10ULL * probe.layers});
               }));
           return ballast::find_module(file, "llm")->degrees.size();
         });
       }},
  };
}

TEST(CodeOfUsers, ThrowsOutOfPlainCallsWhichCanBeMadeAgain)
{
  for (plain_call const& each : plain_calls()) {
    SCOPED_TRACE(each.place);
    std::uint64_t const expected = each.make()();
    auto const call = each.make();
    int thrown = 0;  // each of the first calls throws, and fewer and fewer of later ones
    for (bool again = true; again; thrown += 1 + thrown / 4) {
      calls_left = thrown;
      try {
        EXPECT_EQ(call(), expected);
        again = false;
      } catch (std::runtime_error const& problem) {
        EXPECT_STREQ(problem.what(), "out of ink");
      }
      calls_left = -1;
      ASSERT_LT(thrown, 10'000);
    }
    EXPECT_GT(thrown, 1);
    EXPECT_EQ(call(), expected);
  }
}

// Where ranks call together, the text is in an error, on the rank on which it was thrown and on all
// others. call(throws) is that of one rank.
struct common_call {
  char const* place;
  std::function<std::function<ballast::result<void>(bool)>(thread_communicator&)> make;
};

// Makes a balancer of steps, and plans with it.
template <class Make>
auto planning(Make make)
{
  return [make](thread_communicator& comm) {
    auto const balancer = std::make_shared<decltype(make(comm))>(make(comm));
    return [balancer](bool throws) {
      calls_left = throws ? 1 : -1;
      auto done = balancer->plan(std::vector<document>{{12}, {40}});
      calls_left = -1;
      return done;
    };
  };
}

std::vector<common_call> common_calls()
{
  auto const plain_cost = [](document const& each) { return each.length; };
  auto const users_cost = [](document const& each) { return through_users_code(each.length); };
  using step_options = ballast::step_options<document>;
  using grid_options = ballast::grid_step_options<document>;
  auto const step = [=](auto cost_of, auto policy, step_options options) {
    return planning([=](thread_communicator& comm) {
      return ballast::step_balancer(comm, ballast::one_gpu_bags(3), cost_of, policy, options);
    });
  };
  auto const grid = [=](auto cost_of, auto policy, grid_options options) {
    return planning([=](thread_communicator& comm) {
      return ballast::grid_balancer(comm, ballast::one_gpu_bags(3), cost_of, policy, options);
    });
  };
  auto const refine = ballast::refine{};
  return {
      {"step_balancer: cost", step(users_cost, refine, {.length_of = silent_length_of})},
      {"step_balancer: length_of", step(plain_cost, refine, {.length_of = length_of})},
      {"step_balancer: loss_tokens_of",
       step(plain_cost, refine, {.length_of = silent_length_of, .loss_tokens_of = length_of})},
      {"step_balancer: together",
       step(plain_cost, refine, {.length_of = silent_length_of, .together = key_of})},
      {"step_balancer: weight_of",
       step(plain_cost, refine,
            {.length_of = silent_length_of, .weight_of = key_of, .most_per_gpu = 1000})},
      {"grid_balancer: cost", grid(users_cost, refine_grid{}, {.length_of = silent_length_of})},
      {"grid_balancer: length_of", grid(plain_cost, refine_grid{}, {.length_of = length_of})},
      {"grid_balancer: loss_tokens_of",
       grid(plain_cost, refine_grid{},
            {.length_of = silent_length_of, .loss_tokens_of = length_of})},
      {"grid_balancer: kind_of",
       grid(plain_cost, refine_grid{}, {.length_of = silent_length_of, .kind_of = key_of})},
      {"orchestrator: cost of a phase",
       [](thread_communicator& comm) {
         auto const throws = std::make_shared<bool>(false);  // read by the orchestrator's thread
         auto const cost_of = [throws](tokens length) {
           if (*throws) { throw std::runtime_error("out of ink"); }
           return length;
         };
         ballast::phase const llm{ballast::one_gpu_bags(3), cost_of, ballast::refine{}};
         auto const job =
             std::make_shared<ballast::orchestrator<thread_communicator, std::tuple<>,
                                                    std::remove_const_t<decltype(llm)>>>(
                 comm, std::tuple{}, llm);
         return [=](bool is_thrown) {
           *throws = is_thrown;
           ballast::multimodal_samples read;
           read.start_sample();
           read.add(0, 20);
           ballast::or_throw(job->submit(read));
           return job->next();
         };
       }},
      {"online_scheduler: cost of a grid_planner, handed to a grid_balancer",
       [](thread_communicator& comm) {
         auto const throws = std::make_shared<bool>(false);  // read by the scheduler's thread
         auto const cost_of = [throws](tokens length) {
           if (*throws) { throw std::runtime_error("out of ink"); }
           return length;
         };
         auto const balancer =
             std::make_shared<ballast::grid_balancer<std::remove_const_t<decltype(cost_of)>,
                                                     refine_grid<>, thread_communicator>>(
                 comm, ballast::one_gpu_bags(3), cost_of, refine_grid{});
         using planner =
             ballast::grid_planner<std::remove_const_t<decltype(cost_of)>, refine_grid<>>;
         auto const next = std::make_shared<ballast::online_scheduler<planner>>(
             planner(3, cost_of, refine_grid{}));
         return [=](bool is_thrown) {
           *throws = is_thrown;
           ballast::or_throw(next->submit(std::vector<tokens>{13, 13, 13}));
           return balancer->plan(std::vector<tokens>{13}, next->take());
         };
       }},
      {"pipeline_runner: stage",
       [](thread_communicator& comm) {
         auto const job = std::make_shared<toy::job>(toy::chain_job(3, 2));
         auto const runner = std::make_shared<ballast::pipeline_runner<>>(
             ballast::pipeline_runner<>::make(job->setup, comm.rank()).value());
         ballast::or_throw(runner->plan(job->plan));
         return [=, &comm](bool throws) {
           toy::stage stage(*job, comm.rank());
           stage.waits = [](std::size_t) { users_code(); };
           calls_left = throws ? 1 : -1;
           auto done = runner->run(comm, job->order, stage);
           calls_left = -1;
           return done;
         };
       }},
  };
}

TEST(CodeOfUsers, IsToldOnAllRanksWhereItThrowsOnOne)
{
  for (common_call const& each : common_calls()) {
    SCOPED_TRACE(each.place);
    ballast::run_ranks(3, [&](thread_communicator& comm) {
      auto const call = each.make(comm);
      EXPECT_TRUE(call(false));
      for (std::uint32_t thrower = 0; thrower < 3; ++thrower) {
        auto const told = call(comm.rank() == rank_id{thrower});
        ASSERT_FALSE(told);
        EXPECT_THAT(told.error().message, HasSubstr("out of ink"));
        EXPECT_TRUE(call(false));
      }
    });
  }
}

// What a thread of the library's calls ends in an error of the call that waits for it.
TEST(CodeOfUsers, IsAnErrorOfAnOnlineScheduler)
{
  bool throws = true;
  auto const times = [&throws](std::span<tokens const, 2> sizes) {
    if (throws) { throw std::runtime_error("out of ink"); }
    return ballast_test::square_times{}(sizes);
  };
  ballast::online_scheduler next(
      ballast::microbatch_scheduler<2, std::remove_const_t<decltype(times)>>::make(
          ballast_test::small_setup(1, 2), times)
          .value());
  auto const sizes = ballast_test::draw_sizes(6, 1);
  ballast::or_throw(next.submit(sizes));
  EXPECT_EQ(next.take().error().message, "planning step 0 threw: out of ink");
  throws = false;
  ballast::or_throw(next.submit(sizes));
  EXPECT_TRUE(next.take());
}

}  // namespace
