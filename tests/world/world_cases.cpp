// SPDX-License-Identifier: Apache-2.0
#include "world_cases.hpp"
#include "../support/toy_pipeline.hpp"
#include "seeded_world.hpp"

#include <ballast/comm/gather_samples.hpp>
#include <ballast/cost/quadratic_cost.hpp>
#include <ballast/partition/longest_processing_time.hpp>
#include <ballast/partition/partition.hpp>
#include <ballast/partition/refine.hpp>
#include <ballast/route/placement.hpp>
#include <ballast/route/route.hpp>
#include <ballast/route/route_plan.hpp>
#include <ballast/route/row_array.hpp>
#include <ballast/runtime/data/data_pipeline.hpp>
#include <ballast/runtime/data/data_ranks.hpp>
#include <ballast/runtime/orchestrator.hpp>
#include <ballast/runtime/pipeline_runner.hpp>
#include <ballast/runtime/step_balancer.hpp>
#include <ballast/topology/bag_layout.hpp>

#include <bit>

namespace seeded_world {

namespace {

using ballast::data_step;
using ballast::rank_id;
using ballast::result;
using ballast::to_id;
using ballast::to_index;
using ballast::tokens;

using row = std::array<std::uint64_t, 2>;

// What token t of sample s is in a step.
row content(std::uint64_t step, std::size_t sample, tokens token)
{
  std::uint64_t const first = ballast::digest{}
                                  .add(step)
                                  .add(std::uint64_t{sample})
                                  .add(static_cast<std::uint64_t>(token))
                                  .value();
  return {first, ~first};
}

// Calls f(sample, token, row) for all tokens of a rank.
template <class F>
void each_row(ballast::placement const& where, rank_id rank, F const& f)
{
  for (std::size_t sample = 0; sample < where.size(); ++sample) {
    for (ballast::piece const& piece : where[to_id<ballast::sample_id>(sample)]) {
      for (tokens at = 0; at < piece.count && piece.rank == rank; ++at) {
        f(sample, piece.first + at, static_cast<std::size_t>(piece.row + at));
      }
    }
  }
}

std::vector<row> rows_of_rank(ballast::placement const& where, rank_id rank, std::uint64_t step,
                              tokens rows)
{
  std::vector<row> all(static_cast<std::size_t>(rows));
  each_row(where, rank, [&](std::size_t sample, tokens token, std::size_t at) {
    all[at] = content(step, sample, token);
  });
  return all;
}

std::vector<tokens> lengths_read(std::uint64_t seed, std::size_t rank, std::size_t step)
{
  ballast::random_source random(
      ballast::digest{}.add(seed).add(std::uint64_t{rank}).add(std::uint64_t{step}).value());
  std::vector<tokens> lengths(random.below(5));
  for (tokens& each : lengths) { each = random.between(1, 9); }
  return lengths;
}

std::vector<tokens> read_by_all(std::uint64_t seed, std::size_t ranks, std::size_t step)
{
  std::vector<tokens> all;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    auto const theirs = lengths_read(seed, rank, step);
    all.insert(all.end(), theirs.begin(), theirs.end());
  }
  return all;
}

// ---- agree ----

world_case agreement(std::uint64_t seed, std::size_t ranks)
{
  ballast::random_source random(seed);
  std::size_t const liar = random.below(2 * ranks);  // often none
  std::size_t const steps = 1 + random.below(3);
  world_case made{"agree", ranks};
  return made.of([=](auto& comm) -> result<std::uint64_t> {
    auto const self = to_index(comm.rank());
    auto const bags = ballast::one_gpu_bags(ranks);
    ballast::gathered_samples<tokens> all;
    ballast::partition_plan plan;
    ballast::workspace memory;
    ballast::digest word;
    for (std::size_t step = 0; step < steps; ++step) {
      auto const read = lengths_read(seed, self, step);
      if (auto done = gather_samples(all, comm, read); !done) {
        return tl::unexpected(done.error());
      }
      expect(all.samples == read_by_all(seed, ranks, step), "samples were lost");
      auto const planned = ballast::partition_into(plan, memory, all.samples, bags, std::identity{},
                                                   {}, ballast::longest_processing_time{});
      if (!planned) { return tl::unexpected(planned.error()); }
      std::uint64_t const own = plan.digest();
      if (auto same = ballast::agree(comm, own, "the plan"); !same) {
        return tl::unexpected(same.error());
      }
      word.add(own);
      if (liar >= ranks || ranks == 1) { continue; }
      std::array const words = {ballast::agreed_word{own, "the plan"},
                                ballast::agreed_word{self == liar ? own + 1 : own, "the lie"}};
      auto const lie = ballast::agree(comm, words);
      expect(!lie, "a lie was believed");
      if (lie.error().code != ballast::error_code::mismatch) { return tl::unexpected(lie.error()); }
      std::size_t const named = ranks == 2 ? 1 : liar;  // of two the first is right
      expect(lie.error().ranks == std::vector{to_id<rank_id>(named)} &&
                 lie.error().message.find("the lie") != std::string::npos,
             "another rank lied, or about something else");
    }
    return word.value();
  });
}

// ---- route and reverse_route ----

world_case routes(std::uint64_t seed, std::size_t ranks)
{
  ballast::random_source random(seed);
  std::vector<tokens> lengths(random.below(9));
  std::vector<rank_id> read;
  std::vector<rank_id> computed;
  for (tokens& each : lengths) {
    each = random.between(0, 9);
    read.push_back(to_id<rank_id>(random.below(ranks)));
    computed.push_back(to_id<rank_id>(random.below(ranks)));
  }
  ballast::placement from;
  ballast::placement to;
  ballast::place(from, lengths, read, ranks);
  ballast::place(to, lengths, computed, ranks);
  world_case made{"route", ranks};
  return made.of([=](auto& comm) -> result<std::uint64_t> {
    ballast::route_plan plan;
    ballast::workspace memory;
    ballast::plan_route(plan, from, to, comm.rank());
    for (std::uint64_t step = 0; step < 2; ++step) {
      auto const before = rows_of_rank(from, comm.rank(), step, plan.rows_before);
      std::vector<row> after(static_cast<std::size_t>(plan.rows_after));
      std::vector<row> back(before.size());
      if (auto done = ballast::route(comm, plan, memory, ballast::rows_of(before, after)); !done) {
        return tl::unexpected(done.error());
      }
      expect(after == rows_of_rank(to, comm.rank(), step, plan.rows_after), "rows were changed");
      if (auto done = ballast::reverse_route(comm, plan, memory, ballast::rows_of(after, back));
          !done) {
        return tl::unexpected(done.error());
      }
      expect(back == before, "rows did not come home");
    }
    return static_cast<std::uint64_t>(plan.rows_after);
  });
}

// ---- step_balancer ----

world_case balanced_steps(std::uint64_t seed, std::size_t ranks)
{
  ballast::random_source random(seed);
  bool const uneven = ranks >= 3 && random.below(2) == 0;
  auto const spec = uneven ? ballast::detail::concat("g2n1+g1n", ranks - 2)
                           : ballast::detail::concat("g1n", ranks);
  auto const bags = ballast::lay_out(ballast::parse_bags(spec).value(), ranks).value();
  std::size_t const odd = random.below(2 * ranks);  // often none
  world_case made{"step_balancer", ranks};
  return made.of([=](auto& comm) -> result<std::uint64_t> {
    auto const self = to_index(comm.rank());
    bool is_odd = false;
    auto const cost = [&is_odd](tokens length) {
      return ballast::quadratic_cost{.linear = 20}(length) + (is_odd ? 1 : 0);
    };
    ballast::step_balancer balancer(comm, bags, cost, ballast::refine{});
    ballast::digest word;
    for (std::size_t step = 0; step < 3; ++step) {
      // In the second step one rank may reckon otherwise: nobody plans, and all go on.
      auto const read = lengths_read(seed, self, step);
      bool const differs =
          step == 1 && odd < ranks && ranks > 1 && !read_by_all(seed, ranks, step).empty();
      is_odd = differs && self == odd;
      auto const planned = balancer.plan(read);
      if (differs) {
        expect(!planned, "two plans are one");
        if (planned.error().code != ballast::error_code::mismatch) {
          return tl::unexpected(planned.error());
        }
        continue;
      }
      if (!planned) { return tl::unexpected(planned.error()); }
      auto const before = rows_of_rank(balancer.as_read(), comm.rank(), step,
                                       static_cast<tokens>(balancer.rows_read()));
      std::vector<row> after(balancer.rows_computed());
      std::vector<row> back(before.size());
      if (auto done = balancer.route(ballast::rows_of(before, after)); !done) {
        return tl::unexpected(done.error());
      }
      expect(after == rows_of_rank(balancer.as_computed(), comm.rank(), step,
                                   static_cast<tokens>(after.size())),
             "rows of a step were changed");
      if (auto done = balancer.reverse_route(ballast::rows_of(after, back)); !done) {
        return tl::unexpected(done.error());
      }
      expect(back == before, "rows of a step did not come home");
      expect(balancer.samples().samples == read_by_all(seed, ranks, step),
             "samples of a step were lost");
      word.add(balancer.planned().digest());
    }
    return word.value();
  });
}

// ---- orchestrator ----

world_case orchestrated_steps(std::uint64_t seed, std::size_t ranks)
{
  world_case made{"orchestrator", ranks};
  return made.of([=](auto& comm) -> result<std::uint64_t> {
    constexpr std::size_t text = 1;
    ballast::phase<ballast::quadratic_cost, ballast::longest_processing_time> const plain{
        ballast::one_gpu_bags(ranks), {.linear = 1}, {}, 1};
    ballast::orchestrator job(comm, std::tuple{plain}, plain);
    ballast::digest word;
    ballast::multimodal_samples read;
    auto const submit = [&](std::size_t step) {
      read = {};
      for (tokens const each : lengths_read(seed, to_index(comm.rank()), step)) {
        read.start_sample();
        read.add(0, 10 - each);
        read.add(text, each);
      }
      return job.submit(read);
    };
    if (auto done = submit(0); !done) { return tl::unexpected(done.error()); }
    for (std::size_t step = 0; step < 2; ++step) {
      if (auto done = job.next(); !done) { return tl::unexpected(done.error()); }
      if (auto done = submit(step + 1); !done) { return tl::unexpected(done.error()); }
      word.add(job.lengths_in_model());
      std::vector<row> words(job.rows_encoded(text));
      for (std::size_t at = 0; at < words.size(); ++at) {
        words[at] = content(step, to_index(comm.rank()), static_cast<tokens>(at));
      }
      std::vector<row> sequences(job.rows_in_model());
      std::vector<row> back(words.size());
      if (auto done = job.to_model(text, ballast::rows_of(words, sequences)); !done) {
        return tl::unexpected(done.error());
      }
      if (auto done = job.reverse_to_model(text, ballast::rows_of(sequences, back)); !done) {
        return tl::unexpected(done.error());
      }
      expect(back == words, "words did not come home");
    }
    return word.value();
  });
}

// ---- pipeline_runner ----

world_case pipeline(std::uint64_t seed, std::size_t most_ranks)
{
  ballast::random_source random(seed);
  auto const job = std::make_shared<toy::job const>(toy::draw(random, most_ranks));
  auto const alone = std::make_shared<toy::result_of_one_rank const>(*job);
  world_case made{"pipeline_runner", job->setup.grid.ranks()};
  made.calls_users = true;
  return made.of([job, alone](auto& comm) -> result<std::uint64_t> {
    auto runner = ballast::pipeline_runner<>::make(job->setup, comm.rank());
    if (!runner) { return tl::unexpected(runner.error()); }
    if (auto done = runner->plan(job->plan); !done) { return tl::unexpected(done.error()); }
    toy::stage stage(*job, comm.rank());
    if (auto done = runner->run(comm, job->order, stage); !done) {
      return tl::unexpected(done.error());
    }
    for (auto const& [where, gradient] : stage.found) {
      expect(alone->found.at(where) == gradient, "a gradient differs");
    }
    expect(runner->loss() == alone->loss, "a loss differs");
    return ballast::digest{}
        .add(std::bit_cast<std::uint64_t>(runner->loss()))
        .add(std::uint64_t{stage.found.size()})
        .value();
  });
}

// ---- The data pipeline of ranks ----

struct small_samples {
  std::uint64_t bad = ~std::uint64_t{0};
  bool throws = false;  // one call in eight

  [[nodiscard]] static tokens length_of(std::uint64_t sample)
  {
    return static_cast<tokens>(1 + (sample * 7 + 3) % 11);
  }
  [[nodiscard]] static std::vector<std::byte> bytes_of(std::uint64_t sample)
  {
    return std::vector<std::byte>(static_cast<std::size_t>(length_of(sample)),
                                  static_cast<std::byte>(sample));
  }
  [[nodiscard]] result<ballast::loaded_sample> load(std::uint64_t sample) const
  {
    if (auto const time = drawn_below(100); time > 0) {
      std::this_thread::sleep_for(std::chrono::microseconds(time));
    }
    if (throws && drawn_below(8) == 7) { throw std::runtime_error("the disk is gone"); }
    if (sample == bad) { return ballast::fail(ballast::error_code::bad_row, 0, "it is broken"); }
    return ballast::loaded_sample{{length_of(sample)}, bytes_of(sample)};
  }
};

struct in_turn {
  std::size_t trainers = 1;
  result<void> operator()(data_step const& step, std::span<rank_id> owner) const
  {
    for (std::size_t entry = 0; entry < owner.size(); ++entry) {
      owner[entry] = to_id<rank_id>((step.samples[entry] + entry) % trainers);
    }
    return {};
  }
};

ballast::digest& add_step(ballast::digest& word, data_step const& step)
{
  word.add(step.digest());
  for (ballast::data_share const& each : step.shares) {
    word.add(each.entry).add(to_index(each.rank)).add(each.first).add(each.count);
  }
  return word;
}

world_case data(std::uint64_t seed, std::size_t ranks)
{
  ballast::random_source random(seed);
  std::size_t const trainers = 1 + random.below(ranks - 2);
  ballast::data_setup const setup{.samples = 4 + random.below(9),
                                  .step_samples = 2 + random.below(3),
                                  .epochs = 1 + random.below(2),
                                  .seed = random()};
  ballast::data_windows const windows{.steps = 1 + random.below(3), .held_back = random.below(2)};
  ballast::loader_options const options{.least = 1 + random.below(2),
                                        .late_after = std::chrono::milliseconds(10)};
  small_samples source;
  if (random.below(2) == 0) { source.bad = random.below(setup.samples); }
  bool const finishes = random.below(2) == 0;

  ballast::digest expected;
  ballast::data_pipeline plain(source, in_turn{trainers}, trainers, setup, windows);
  for (;;) {
    std::optional<ballast::data_batch> batch;
    for (std::size_t rank = 0; rank < trainers; ++rank) {
      batch = plain.next(to_id<rank_id>(rank)).value();
    }
    if (!batch) { break; }
    add_step(expected, *batch->step);
  }
  std::uint64_t const expected_word = expected.value();

  world_case made{"data pipeline", ranks, std::chrono::milliseconds(40)};
  made.stays = true;
  made.calls_users = true;
  bool const one_throws = trainers + 2 < ranks && random.below(3) == 0;
  if (one_throws) {
    made.spare.insert(trainers + 1);
  } else if (trainers + 2 < ranks) {
    for (std::size_t rank = trainers + 1; rank < ranks; ++rank) { made.spare.insert(rank); }
  }
  return made.of([=](auto& comm) -> result<std::uint64_t> {
    auto const proxy = to_id<rank_id>(trainers);
    if (comm.rank() == proxy) {
      return serve_as_proxy(comm, trainers, in_turn{trainers}, setup, windows, options).map([] {
        return std::uint64_t{0};
      });
    }
    if (comm.rank() > proxy) {
      small_samples own = source;
      own.throws = one_throws && to_index(comm.rank()) == trainers + 1;
      auto const done = serve_as_loader(comm, proxy, own);
      bool const threw = !done && own.throws && done.error().code == ballast::error_code::failed;
      if (done || threw) { return 0; }
      return tl::unexpected(done.error());
    }
    ballast::data_trainer trainer(comm, proxy, options);
    ballast::digest word;
    for (;;) {
      auto const batch = trainer.next();
      if (!batch) {
        if (finishes) { (void)trainer.finish(); }
        return tl::unexpected(batch.error());
      }
      if (!*batch) { break; }
      data_step const& step = *(*batch)->step;
      add_step(word, step);
      std::size_t own = 0;
      for (auto const& [entry, rank, first, count, microbatch] : step.shares) {
        if (rank != comm.rank()) { continue; }
        expect(own < (*batch)->own.size() && (*batch)->own[own].entry == entry,
               "a sample was lost");
        expect((*batch)->own[own].bytes == small_samples::bytes_of(step.samples[entry]),
               "a payload was changed");
        ++own;
      }
      expect(own == (*batch)->own.size(), "a sample came twice");
    }
    if (auto done = trainer.finish(); !done) { return tl::unexpected(done.error()); }
    expect(word.value() == expected_word, "steps are not those of one process");
    return word.value();
  });
}

}  // namespace

std::vector<world_case> all_cases(std::size_t of_each)
{
  std::vector<world_case> all;
  for (std::size_t number = 0; number < of_each; ++number) {
    std::size_t const ranks = 2 + number % 4;
    all.push_back(agreement(1000 + number, ranks));
    all.push_back(routes(2000 + number, ranks));
    all.push_back(balanced_steps(3000 + number, ranks));
    all.push_back(orchestrated_steps(6000 + number, ranks));
    all.push_back(pipeline(4000 + number, 5));
    all.push_back(data(5000 + number, 3 + number % 3));
  }
  return all;
}

}  // namespace seeded_world
