// SPDX-License-Identifier: Apache-2.0
// Every place that calls code of a user's which may throw: what then happens, and that the same
// objects serve the next call. Elsewhere are
//   - the data pipeline's source, plan, lengths, windows and their cost: data/data_pipeline_test.cpp,
//     data/data_ranks_test.cpp
//   - compute and watch of a sharded_exchange: ../route/sharded_exchange_test.cpp
//   - the body of run_ranks: ../comm/run_ranks_test.cpp
//   - work that is queued on streams of a GPU: ../gpu/side_stream_test.cpp,
//     ../gpu/overlapped_chunks_test.cpp
// cut_chain, cut_layers, place_experts, search_layouts, hybrid_sharding, routes and unit_exchange
// take no callables; communicators and carriers of rows return errors; what allocators throw,
// std::bad_alloc, goes through everywhere.
#include "../../examples/common/by_name/any_order_policy.hpp"
#include "../../examples/common/by_name/any_policy.hpp"
#include "../support/small_orchestration.hpp"
#include "../support/test.hpp"
#include "fake_clock.hpp"
#include "scheduled_steps.hpp"

#include <ballast/comm/thread_communicator.hpp>
#include <ballast/cost.hpp>
#include <ballast/parallelism.hpp>
#include <ballast/partition.hpp>
#include <ballast/pipeline.hpp>
#include <ballast/route.hpp>
#include <ballast/runtime.hpp>
#include <ballast/workload.hpp>

#include <stdexcept>

namespace code_of_users {

using ballast::rank_id;
using ballast::thread_communicator;
using ballast::tokens;

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
std::int64_t number_of(document const& each)
{
  return through_users_code(each.length);
}
bool fits_all(document const& /*each*/, ballast::bag_id /*bag*/)
{
  return through_users_code(true);
}
bool mixes_all(std::span<document const> /*all*/, std::span<ballast::sample_id const> /*together*/)
{
  return through_users_code(true);
}
ballast::padded_lengths pair_of(document const& each)
{
  return through_users_code(ballast::padded_lengths{each.length, 1});
}
tokens silent_length_of(document const& each)
{
  return each.length;
}

std::vector<tokens> const lengths{40, 8, 16, 24, 9, 30, 12, 7};
auto const own = [](tokens length) { return length; };
auto const cost = [](tokens length) { return through_users_code(length * length); };

std::vector<ballast::padded_lengths> lengths_of_pairs()
{
  std::vector<ballast::padded_lengths> pairs;
  for (tokens const each : lengths) { pairs.push_back({each, each / 2}); }
  return pairs;
}

// Of four microbatches on two stages.
template <class Time>
ballast::pipeline_times chain_times(Time time)
{
  return {4, 2, [&](std::size_t microbatch, std::size_t stage) {
            return ballast::stage_time{time(lengths[microbatch + stage]), 10};
          }};
}

ballast::cluster four_gpus()
{
  return ballast::cluster_of(4).value();
}

// A policy of a user's, which hands on to one of the library's.
template <class Policy>
struct users_policy {
  Policy inner{};
  std::function<void()> before = users_code;
  template <class... Arguments>
  auto operator()(Arguments&&... arguments) const
  {
    before();
    return inner(std::forward<Arguments>(arguments)...);
  }
};
template <class Policy>
users_policy<Policy> silent(Policy inner = {})
{
  return {inner, [] {}};
}

// Few types, so that the table is compiled soon.
using cost_function = std::function<tokens(tokens)>;
using sum_function = std::function<tokens(tokens, tokens)>;
using times_function =
    std::function<std::array<ballast::stage_time, 2>(std::span<tokens const, 2>)>;
using document_function = std::function<tokens(document const&)>;

sum_function const sum = [](tokens source, tokens target) { return source + target; };
sum_function const users_sum = [](tokens source, tokens target) {
  return through_users_code(source + target);
};

using users_lpt = users_policy<ballast::longest_processing_time>;
using users_insertion = users_policy<ballast::insertion>;

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

ballast::model_profiler one_module()
{
  return {.name = "llm",
          .layers = 2,
          .timed_layers = 2,
          .flops = {.linear = 1000, .quadratic = 10},
          .degrees = {{1}, {2}},
          .sizes = {10, 20},
          .warm_up = 0,
          .runs = 1};
}

template <class State, class Call>
std::function<std::uint64_t()> keeping(State state, Call call)
{
  return [kept = std::make_shared<State>(std::move(state)), call] { return call(*kept); };
}

// Of a call that keeps nothing.
template <class Call>
std::function<std::function<std::uint64_t()>()> afresh(Call call)
{
  return [call] { return [call] { return static_cast<std::uint64_t>(call()); }; };
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
  auto const by = [bags](auto policy, cost_function cost_of, cost_function length_of_sample) {
    return [=] {
      return keeping(partition{}, [=](partition& kept) {
        ballast::or_throw(ballast::partition_into(kept.plan, kept.memory, lengths, bags, cost_of,
                                                  length_of_sample, {}, policy));
        return kept.plan.digest();
      });
    };
  };
  auto const gridded = [bags](cost_function cost_of, cost_function length_of_sample) {
    return [=] {
      return keeping(grid{}, [=](grid& kept) {
        ballast::or_throw(ballast::partition_grid_into(kept.plan, kept.memory, lengths, bags,
                                                       {.number = 2}, cost_of, length_of_sample));
        return kept.plan.digest();
      });
    };
  };
  auto const users = [](tokens length) { return through_users_code(length); };
  auto const by_vectors = [bags](auto policy, cost_function length_of_sample) {
    return [=] {
      return keeping(vectors{}, [=](vectors& kept) {
        ballast::or_throw(ballast::partition_into(
            kept.plan, kept.memory, lengths, bags,
            [=](tokens length) {
              return ballast::cost_vector<2>{length_of_sample(length), length * length};
            },
            {}, policy));
        return kept.plan.digest();
      });
    };
  };
  auto const homed = [bags] {
    return keeping(partition{}, [bags](partition& kept) {
      std::vector<rank_id> const home(lengths.size(), rank_id{1});
      ballast::or_throw(ballast::partition_into(kept.plan, kept.memory, lengths, bags, own, own,
                                                {.home = home, .then = ballast::fewest_moves},
                                                users_lpt{}));
      return kept.plan.digest();
    });
  };
  auto const padded = [](sum_function cost_of, sum_function weight_of) {
    return afresh([=] {
      auto const plan = ballast::pad_grid(lengths_of_pairs(), ballast::one_gpu_bags(2),
                                          {.number = 2, .work = 100}, cost_of, weight_of);
      return plan.value().makespan.numerator;
    });
  };
  auto const packed = [](cost_function length_of) {
    return [=] {
      return keeping(plan_and_memory<ballast::packing_plan>{}, [=](auto& kept) {
        ballast::or_throw(
            ballast::pack_into(kept.plan, kept.memory, lengths, length_of, {.most_per_gpu = 50}));
        return kept.plan.bins();
      });
    };
  };
  auto const ordered = [](auto policy) {
    return [=] {
      return keeping(plan_and_memory<ballast::order_plan>{}, [=](auto& kept) {
        auto const schedule =
            ballast::compiled_schedule::make(ballast::chain_of_stages(2, 2), ballast::gpipe{}, 4);
        ballast::or_throw(ballast::order_microbatches_into(kept.plan, kept.memory, schedule.value(),
                                                           chain_times(own), policy));
        return static_cast<std::uint64_t>(kept.plan.makespan);
      });
    };
  };
  auto const phased = [bags](cost_function const& cost_of, users_lpt const& policy) {
    return [=] {
      return keeping(plan_and_memory<ballast::orchestrated_step>{}, [=](auto& kept) {
        ballast::phase const each{bags, cost_of, policy};
        ballast::phase_planner const planner(std::tuple{each}, each, std::tuple{each});
        ballast::gathered_samples<ballast::multimodal_samples::subsequence> all;
        all.samples = {{ballast::multimodal_samples::begins_sample, -1}, {0, 20}, {1, 9}};
        all.source.resize(all.samples.size());
        ballast::or_throw(planner(kept.plan, kept.memory, all, 3, rank_id{0}));
        return kept.plan.digest();
      });
    };
  };
  auto const scheduled = [](users_insertion const& order,
                            users_policy<ballast::refine<>> const& split,
                            times_function const& times) {
    using planner = ballast::microbatch_scheduler<2, times_function, users_insertion,
                                                  users_policy<ballast::refine<>>>;
    struct state {
      planner plan;
      ballast::scheduled_step<2> step{};
    };
    return [=] {
      auto made = planner::make(ballast_test::small_setup(2, 3), times, order, split).value();
      return keeping(state{std::move(made)}, [](state& kept) {
        auto const sizes = ballast_test::draw_sizes(12, 3);
        ballast::or_throw(kept.plan(kept.step, sizes, 1, 0, {}));
        return kept.step.digest();
      });
    };
  };
  return {
      {"partition: cost", by(silent<ballast::longest_processing_time>(), cost, own)},
      {"partition: length", by(silent<ballast::longest_processing_time>(), own, users)},
      {"partition: policy", by(users_lpt{}, own, own)},
      {"partition: cost of several quantities", by_vectors(silent<ballast::refine<>>(), users)},
      {"partition_grid: cost", gridded(cost, own)},
      {"partition_grid: length", gridded(own, users)},
      {"partition: policy inside refine", by(ballast::refine{users_lpt{}}, own, own)},
      {"partition: policy whose plan moves least", homed},
      {"partition: policy inside any_policy", by(by_name::any_policy{users_lpt{}}, own, own)},
      {"partition: policy of several quantities",
       by_vectors(users_policy<ballast::refine<>>{}, own)},
      {"cost_of: model", by(silent<ballast::longest_processing_time>(),
                            ballast::cost_of{cost, std::identity{}}, own)},
      {"cost_of: projection",
       by(silent<ballast::longest_processing_time>(), ballast::cost_of{own, users}, own)},
      {"sum_of: model",
       by(silent<ballast::longest_processing_time>(), ballast::sum_of{own, cost}, own)},
      {"intra_reorder: cost", afresh([bags] {
         return ballast::intra_reorder(lengths, bags, cost).value().plan.digest();
       })},
      {"pad_grid: cost", padded(users_sum, sum)},
      {"pad_grid: weight", padded(sum, users_sum)},
      {"pad_to_cap: weight", afresh([] {
         return ballast::pad_to_cap(lengths_of_pairs(), users_sum, 100, 10).value().bins();
       })},
      {"pack: length", packed(users)},
      {"pack: length, of levelled bins", afresh([users] {
         return ballast::pack(lengths, users, {.most_per_gpu = 50}, {.multiple_of = 4})
             .value()
             .largest();
       })},
      {"largest_mini_batch: fits", afresh([users] {
         return ballast::largest_mini_batch(
             100, [users](std::size_t samples) { return users(tokens(samples)) < 40; });
       })},
      {"jagged: for_each and length_of",
       [] {
         return keeping(ballast::jagged<rank_id, tokens>{}, [](auto& rows) {
           rows.fill(4, [](auto const& visit) {
             for (tokens const each : lengths) {
               visit(rank_id(each % 4), through_users_code(each));
             }
           });
           auto const first = rows[rank_id{0}].size();
           rows.resize(3, [](std::size_t row) { return through_users_code(row); });
           return 10 * first + rows[rank_id{2}].size();
         });
       }},
      {"draw_lengths: distribution", afresh([] {
         auto const draw = [](ballast::random_source& random) {
           return through_users_code(random.between(1, 90));
         };
         ballast::mixed_lengths const all{draw, ballast::clamped_lengths{draw, 5, 9}, {1, 2}};
         ballast::random_source random(3);
         auto const drawn = ballast::draw_lengths(all, 6, random);
         return ballast::digest{}.add(std::span(drawn)).value();
       })},
      {"choose_bags: cost", afresh([] {
         std::vector<ballast::sample_batch> const batches{{.lengths = lengths}};
         return ballast::choose_bags(batches, four_gpus(), {}, cost).value().bags.size();
       })},
      {"price_bags: cost", afresh([] {
         std::vector<ballast::sample_batch> const batches{{.lengths = lengths}};
         std::vector<ballast::bag_mix> const mixes{
             ballast::choose_bags(batches, four_gpus(), {}, own).value().mixes.front().mix};
         auto const priced = ballast::price_bags(mixes, batches, {}, cost);
         return static_cast<std::uint64_t>(priced.value().front().numerator);
       })},
      {"orchestrate: most_gpus", afresh([] {
         ballast_test::small_job const job;
         return ballast::orchestrate(job.problem, {},
                                     {.limits = {.most_gpus =
                                                     [](std::vector<std::size_t> const& kinds) {
                                                       users_code();
                                                       return std::vector<std::uint64_t>(
                                                           kinds.size(), 8);
                                                     }}})
             .value()
             .layout.step;
       })},
      {"layout_pipeline: samples_of", afresh([] {
         ballast::module_profile const module{
             .name = "m", .layers = 4, .flops = {.linear = 30}, .degrees = {{.tp = 1}}};
         ballast::layout_problem problem;
         problem.modules = {&module, 1};
         ballast::layout_pipeline const pipeline(problem, {{{1, 2, 1}}, 2});
         auto const times = pipeline.times_of(lengths, [](auto, auto, std::uint32_t microbatch) {
           return through_users_code(std::array{ballast::sample_id{microbatch}});
         });
         return times.rows.back().backward;
       })},
      {"pipeline_times: time_of", afresh([] {
         return chain_times([](tokens time) { return through_users_code(time); }).rows[3].forward;
       })},
      {"sum_over_samples: times_of", afresh([] {
         std::vector<std::vector<ballast::sample_id>> const microbatches{
             {ballast::sample_id{0}, ballast::sample_id{2}}, {ballast::sample_id{1}}};
         return ballast::sum_over_samples(microbatches, lengths,
                                          [](tokens length) {
                                            return through_users_code(std::array{
                                                ballast::stage_time{length, 2 * length}});
                                          })
             .value()
             .rows.front()
             .backward;
       })},
      {"price_passes: price", afresh([] {
         auto const price = [](ballast::flop_polynomial all) {
           return through_users_code(ballast::result<ballast::quadratic_cost>(
               ballast::quadratic_cost{all.linear, all.quadratic, 0}));
         };
         return ballast::price_passes({.linear = 7}, {}, price).value().backward.linear;
       })},
      {"order_microbatches: policy", ordered(users_insertion{})},
      {"order_microbatches: policy inside local_search",
       ordered(ballast::local_search{users_insertion{}})},
      {"order_microbatches: policy inside exact_order",
       ordered(ballast::exact_order{users_insertion{}})},
      {"order_microbatches: policy inside any_order_policy",
       ordered(by_name::any_order_policy{users_insertion{}})},
      {"compiled_schedule: schedule", afresh([] {
         return ballast::compiled_schedule::make(ballast::chain_of_stages(2, 2), users_schedule{},
                                                 3)
             .value()
             .tasks()
             .size();
       })},
      {"ulysses_plan: visit", afresh([] {
         ballast::ulysses_plan plan;
         plan.assign(lengths, 2, 4);
         tokens rows = 0;
         plan.for_each_chunk(1, [&](ballast::ulysses_plan::bag_chunk const& each) {
           rows += through_users_code(each.count);
         });
         return rows;
       })},
      {"phase_planner: cost", phased(cost, silent<ballast::longest_processing_time>())},
      {"phase_planner: policy", phased(own, users_lpt{})},
      {"microbatch_scheduler: times_of",
       scheduled(silent<ballast::insertion>(), silent<ballast::refine<>>(),
                 [](std::span<tokens const, 2> sizes) {
                   return through_users_code(ballast_test::square_times{}(sizes));
                 })},
      {"microbatch_scheduler: order",
       scheduled(users_insertion{}, silent<ballast::refine<>>(), ballast_test::square_times{})},
      {"microbatch_scheduler: split",
       scheduled(silent<ballast::insertion>(), users_policy<ballast::refine<>>{},
                 ballast_test::square_times{})},
      {"model_profiler: clock, prepare, passes and report",
       [] {
         struct clock_of_user : ballast_test::fake_clock {
           ballast::result<std::int64_t> now() const
           {
             return through_users_code(ballast_test::fake_clock::now());
           }
         };
         struct work {
           clock_of_user& clock;
           void forward() const { users_code(), clock.advance(100); }
           void backward() const { users_code(), clock.advance(300); }
         };
         struct state {
           ballast::profile_file file{};
           clock_of_user clock{};
         };
         return keeping(state{}, [](state& kept) {
           auto const summary = one_module().profile(
               kept.file, [&](auto const&) { return through_users_code(work{kept.clock}); },
               kept.clock, [](auto const&) { users_code(); });
           return summary.value().known + summary.value().measured;
         });
       }},
      {"model_profiler: measure",
       [] {
         return keeping(ballast::profile_file{}, [](ballast::profile_file& file) {
           using ballast::model_profiler;
           ballast::or_throw(one_module().profile_memory(
               file, {2, 4}, {10, 20}, [](model_profiler::point const& probe) {
                 return through_users_code(
                     model_profiler::held_bytes{100ULL * probe.layers, 10ULL * probe.layers});
               }));
           return file.find("llm")->degrees.size();
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
    using balancer_type = decltype(make(comm));
    std::shared_ptr<balancer_type> const balancer(new balancer_type(make(comm)));
    return [balancer](bool throws) {
      calls_left = throws ? 0 : -1;
      auto done = balancer->plan(std::vector<document>{{12}, {40}});
      calls_left = -1;
      return done;
    };
  };
}

std::vector<common_call> common_calls()
{
  document_function const plain_cost = [](document const& each) { return each.length; };
  document_function const users_cost = [](document const& each) {
    return through_users_code(each.length);
  };
  using step_options = ballast::step_options<document>;
  auto const step = [](document_function const& cost_of, users_lpt const& policy,
                       step_options options) {
    if (options.length_of == nullptr) { options.length_of = silent_length_of; }
    return planning([=](thread_communicator& comm) {
      return ballast::step_balancer(comm, ballast::one_gpu_bags(3), cost_of, policy, options);
    });
  };
  auto const grid = [](auto cost_of, step_options options) {
    options.microbatches = {.number = 2};
    if (options.length_of == nullptr) { options.length_of = silent_length_of; }
    return planning([=](thread_communicator& comm) {
      return ballast::step_balancer(comm, ballast::one_gpu_bags(3), cost_of, options);
    });
  };
  auto const lpt = silent<ballast::longest_processing_time>();
  using phase = ballast::phase<cost_function, users_lpt>;
  auto const orchestrated = [](phase (*phase_of)(std::function<void()> const&)) {
    return [phase_of](thread_communicator& comm) {
      auto const throws = std::make_shared<bool>(false);  // read by the orchestrator's thread
      auto const each = phase_of([throws] {
        if (*throws) { throw std::runtime_error("out of ink"); }
      });
      using phases = std::tuple<phase>;
      auto const job =
          std::make_shared<ballast::orchestrator<thread_communicator, phases, phase, phases>>(
              comm, phases(each), each, phases(each));
      return [=](bool is_thrown) {
        *throws = is_thrown;
        ballast::multimodal_samples read;
        read.start_sample();
        read.add(0, 20);
        ballast::or_throw(job->submit(read));
        return job->next();
      };
    };
  };
  return {
      {"step_balancer: cost", step(users_cost, lpt, {})},
      {"step_balancer: length_of", step(plain_cost, lpt, {.length_of = length_of})},
      {"step_balancer: together", step(plain_cost, lpt, {.together = key_of})},
      {"step_balancer: also_of",
       step(plain_cost, lpt, {.limits = {.also = {{.most_per_gpu = 9}}}, .also_of = {key_of}})},
      {"step_balancer: apart", step(plain_cost, lpt, {.apart = number_of})},
      {"step_balancer: fits", step(plain_cost, lpt, {.fits = fits_all})},
      {"step_balancer: mixes", step(plain_cost, lpt, {.mixes = mixes_all})},
      {"step_balancer: least_of", step(plain_cost, lpt, {.least_of = key_of})},
      {"step_balancer: policy", step(plain_cost, users_lpt{}, {})},
      {"step_balancer: loss_tokens_of", step(plain_cost, lpt, {.loss_tokens_of = length_of})},
      {"step_balancer of slots: cost", grid(users_cost, {})},
      {"step_balancer of slots: length_of", grid(plain_cost, {.length_of = length_of})},
      {"step_balancer of slots: loss_tokens_of", grid(plain_cost, {.loss_tokens_of = length_of})},
      {"step_balancer of slots: also_of",
       grid(plain_cost, {.limits = {.also = {{.most_per_gpu = 9}}}, .also_of = {key_of}})},
      {"step_balancer of slots: together", grid(plain_cost, {.together = key_of})},
      {"step_balancer of slots: padded_lengths_of", grid(sum, {.padded_lengths_of = pair_of})},
      {"step_balancer of slots: cost of padded lengths", grid(users_sum, {})},
      {"step_balancer of slots: kind_of", grid(plain_cost, {.kind_of = key_of})},
      {"orchestrator: cost of a phase",
       orchestrated([](std::function<void()> const& users) -> phase {
         auto const cost_of = [users](tokens length) { return users(), length; };
         return {ballast::one_gpu_bags(3), cost_of, silent<ballast::longest_processing_time>()};
       })},
      {"orchestrator: policy of a phase",
       orchestrated([](std::function<void()> const& users) -> phase {
         return {ballast::one_gpu_bags(3), own, {{}, users}};
       })},
      {"submitted to a step_balancer: cost",
       [](thread_communicator& comm) {
         auto const throws = std::make_shared<bool>(false);  // read by the balancer's thread
         cost_function const cost_of = [throws](tokens length) {
           if (*throws) { throw std::runtime_error("out of ink"); }
           return length;
         };
         auto const bags = ballast::one_gpu_bags(3);
         using balancer_type = decltype(ballast::step_balancer(comm, bags, cost_of));
         auto const balancer = std::make_shared<balancer_type>(comm, bags, cost_of);
         return [=](bool is_thrown) {
           *throws = is_thrown;
           ballast::or_throw(balancer->submit(std::vector<tokens>{13}));
           return balancer->next();
         };
       }},
      {"agreed_clock: clock",
       [](thread_communicator& comm) {
         struct clock_of_user : ballast_test::fake_clock {
           ballast::result<std::int64_t> time(void (*)()) const { return through_users_code(1); }
         };
         auto const clock =
             std::make_shared<ballast::agreed_clock<thread_communicator, clock_of_user>>(
                 comm, clock_of_user{});
         return [clock](bool throws) -> ballast::result<void> {
           calls_left = throws ? 0 : -1;
           auto const time = clock->time(users_code);
           calls_left = -1;
           if (!time) { return tl::unexpected(time.error()); }
           return {};
         };
       }},
  };
}

TEST(CodeOfUsers, IsToldOnAllRanksWhereItThrowsOnOne)
{
  for (common_call const& each : common_calls()) {
    ballast::run_ranks(3, [&](thread_communicator& comm) {
      SCOPED_TRACE(each.place);
      auto const call = each.make(comm);
      EXPECT_TRUE(call(false));
      for (std::uint32_t thrower = 0; thrower < 3; ++thrower) {
        bool const is_own = comm.rank() == rank_id{thrower};
        auto const told = call(is_own);
        ASSERT_FALSE(told);
        EXPECT_EQ(told.error().code,
                  is_own ? ballast::error_code::failed : ballast::error_code::mismatch);
        EXPECT_THAT(told.error().message, testing::HasSubstr("out of ink"));
        if (!is_own) { EXPECT_THAT(told.error().ranks, testing::ElementsAre(rank_id{thrower})); }
        if (std::string_view(each.place).find("balancer") != std::string_view::npos) {
          auto const number = std::to_string(thrower);
          std::string const text = "planning threw on rank " + number + ": out of ink";
          EXPECT_THAT(
              told.error().message,
              testing::HasSubstr(is_own ? text
                                        : "(rank " + number +
                                              " differs from the others); nothing was sent. Make "
                                              "every rank plan from the same gathered lengths and "
                                              "settings. Rank " +
                                              number + " has none: " + text));
        }
        EXPECT_TRUE(call(false));
      }
    });
  }
}

}  // namespace code_of_users
