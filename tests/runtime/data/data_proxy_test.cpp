// SPDX-License-Identifier: Apache-2.0
#include <ballast/runtime/data/data_proxy.hpp>

#include <ballast/runtime/data/data_setup.hpp>
#include "../../support/test.hpp"

namespace proxy_test {

using ballast::data_proxy;
using ballast::data_setup;
using ballast::data_step;
using ballast::data_windows;
using ballast::long_rounds;
using ballast::tokens;
using testing::HasSubstr;

std::vector<tokens> lengths_of(std::uint64_t sample)
{
  ballast::random_source random(sample + 1);
  return {random.between(0, 9), random.between(1, 1000)};
}

// What a run is about, and what goes wrong in it.
struct run_setup {
  data_setup data;
  std::size_t window = 1;
  std::size_t held_back = 0;
  std::set<std::uint64_t> bad = {};
  bool lengths_known = false;
};

template <class Policy>
class drawn_run {
 public:
  drawn_run(run_setup setup, std::uint64_t seed, std::string const& state = {})
      : setup_(std::move(setup)),
        random_(seed),
        proxy_(setup_.data,
               {.steps = setup_.window, .held_back = setup_.held_back, .policy = Policy{}},
               setup_.lengths_known ? &lengths_of : nullptr)
  {
    if (!state.empty()) { ballast::or_throw(proxy_.restore(state)); }
  }

  // Runs until the end, or until so many steps are taken: loaders that work at random paces, and
  // are lost at random times, after which a new one begins. Returns the steps that were taken.
  std::vector<data_step> run(std::size_t loaders, std::uint32_t loss_percent,
                             std::size_t most_steps = 100'000)
  {
    for (; loaders_.size() < loaders; ++next_loader_) { loaders_[next_loader_]; }
    std::vector<data_step> taken;
    std::size_t idle = 0;
    while (taken.size() < most_steps && (!proxy_.finished() || !made_.empty())) {
      auto own =
          std::next(loaders_.begin(), static_cast<std::ptrdiff_t>(random_.below(loaders_.size())));
      auto const what = random_.below(100);
      if (what < loss_percent && lost_.size() < 12) {  // else nothing may ever be done
        (void)proxy_.lose(own->first, "it was drawn");
        lost_.push_back(*own);
        loaders_.erase(own);
        loaders_[next_loader_++];
      } else if (what < 50) {
        if (auto const dealt = proxy_.deal(own->first)) {
          own->second.push_back(*dealt);
          idle = 0;
        }
      } else if (what < 90) {
        report(*own);
      } else if (what < 92 && !lost_.empty()) {  // it was only late
        report(lost_[random_.below(lost_.size())]);
      } else if (data_step step; what < 97) {
        if (std::vector<std::uint64_t> tickets; proxy_.make(step, tickets)) {
          made_.emplace_back(step, tickets);
          idle = 0;
        }
      } else if (!made_.empty() && all_delivered()) {
        taken.push_back(made_.front().first);
        made_.erase(made_.begin());
        proxy_.take();
        idle = 0;
      }
      most_fetched = std::max(most_fetched, proxy_.fetched());
      if (!proxy_.health() || ++idle > 100'000) { break; }
    }
    return taken;
  }

  [[nodiscard]] data_proxy& proxy() { return proxy_; }

  std::size_t most_fetched = 0;

 private:
  using loader = std::pair<std::uint32_t const, std::vector<ballast::data_deal>>;

  void report(std::pair<std::uint32_t const, std::vector<ballast::data_deal>>& own)
  {
    if (own.second.empty()) { return; }
    auto const dealt = own.second.front();
    own.second.erase(own.second.begin());
    if (setup_.bad.contains(dealt.sample)) {
      proxy_.cannot_decode(own.first, dealt.ticket, "it is broken");
    } else if (proxy_.report(own.first, dealt.ticket, lengths_of(dealt.sample))) {
      holder_[dealt.ticket] = own.first;
    }
    for (auto const& [ticket, unused] : std::exchange(proxy_.dropped(), {})) {
      holder_.erase(ticket);
    }
  }

  // Every payload comes from a loader that lives: else it has to be fetched again first.
  bool all_delivered()
  {
    bool all = true;
    for (std::uint64_t const ticket : made_.front().second) {
      auto const at = holder_.find(ticket);
      if (at == holder_.end()) { return false; }
      if (delivered_.contains(ticket)) { continue; }
      if (!loaders_.contains(at->second)) {
        all = false;
        continue;
      }
      proxy_.deliver(ticket);
      delivered_.insert(ticket);
    }
    if (!all) { return false; }
    for (std::uint64_t const ticket : made_.front().second) {
      holder_.erase(ticket);
      delivered_.erase(ticket);
    }
    return true;
  }

  run_setup setup_;
  ballast::random_source random_;
  data_proxy proxy_;
  std::map<std::uint32_t, std::vector<ballast::data_deal>> loaders_;  // what each was dealt
  std::vector<loader> lost_;
  std::uint32_t next_loader_ = 0;
  std::map<std::uint64_t, std::uint32_t> holder_;  // of payloads
  std::set<std::uint64_t> delivered_;
  std::vector<std::pair<data_step, std::vector<std::uint64_t>>> made_;
};

std::vector<std::uint64_t> digests_of(std::vector<data_step> const& steps)
{
  std::vector<std::uint64_t> all;
  for (data_step const& step : steps) { all.push_back(step.digest()); }
  return all;
}

run_setup draw_setup(ballast::random_source& random)
{
  run_setup drawn;
  drawn.data.samples = random.below(60);
  drawn.data.step_samples = 1 + random.below(8);
  drawn.data.modules = 2;
  drawn.data.epochs = 1 + random.below(3);
  drawn.data.seed = random();
  drawn.data.fetched_ahead = 1 + random.below(3);
  drawn.window = 1 + random.below(4);
  drawn.held_back = random.below(drawn.window);
  drawn.lengths_known = random.below(2) == 0;
  if (random.below(2) == 0) {
    std::map<std::uint32_t, std::size_t> sizes;
    for (std::size_t sample = 0; sample < drawn.data.samples; ++sample) {
      auto group = static_cast<std::uint32_t>(random.below(20));
      while (sizes[group] == drawn.data.step_samples) { ++group; }
      ++sizes[group];
      drawn.data.together.push_back(group);
    }
  }
  for (std::size_t bad = random.below(4); bad > 0 && drawn.data.samples > 0; --bad) {
    drawn.bad.insert(random.below(drawn.data.samples));
  }
  return drawn;
}

// Ensures (2): whole groups in one step, each sample once an epoch, and which are left out.
void expect_each_once(run_setup const& setup, std::vector<data_step> const& steps)
{
  auto const group_of = [&](std::uint64_t sample) {
    return setup.data.together.empty() ? static_cast<std::uint32_t>(sample)
                                       : setup.data.together[sample];
  };
  std::set<std::uint32_t> bad_groups;
  for (std::uint64_t const bad : setup.bad) { bad_groups.insert(group_of(bad)); }
  std::multiset<std::uint64_t> wanted;
  for (std::uint64_t sample = 0; sample < setup.data.samples; ++sample) {
    if (!bad_groups.contains(group_of(sample))) { wanted.insert(sample); }
  }
  std::map<std::uint64_t, std::multiset<std::uint64_t>> epochs;
  std::map<std::pair<std::uint64_t, std::uint32_t>, std::set<std::uint64_t>> steps_of;
  for (std::size_t number = 0; number < steps.size(); ++number) {
    data_step const& step = steps[number];
    ASSERT_EQ(step.number, number);
    ASSERT_LE(step.samples.size(), setup.data.step_samples);
    epochs[step.epoch].insert(step.samples.begin(), step.samples.end());
    for (std::size_t at = 0; at < step.samples.size(); ++at) {
      steps_of[{step.epoch, group_of(step.samples[at])}].insert(number);
      auto const wanted_lengths = lengths_of(step.samples[at]);
      auto const own = step.lengths_of(at);
      ASSERT_TRUE(std::ranges::equal(own, wanted_lengths));
    }
  }
  for (auto const& [epoch, samples] : epochs) { ASSERT_EQ(samples, wanted) << "epoch " << epoch; }
  for (auto const& [group, in] : steps_of) { ASSERT_EQ(in.size(), 1U); }
  if (setup.data.samples > 0) {
    ASSERT_EQ(epochs.size(), setup.data.epochs);
    ASSERT_EQ(steps.back().left_out, setup.data.epochs * (setup.data.samples - wanted.size()));
    ASSERT_TRUE(steps.back().ends_epoch);
  }
}

TEST(DataProxy, TrainsTheSameWhoeverIsLost)  // Ensures (1) to (4)
{
  ballast::random_source random(11);
  for (int trial = 0; trial < ballast_test::trials_of(600); ++trial) {
    auto const setup = draw_setup(random);
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    drawn_run<long_rounds> alone(setup, 1);
    auto const steps = alone.run(1, 0);
    expect_each_once(setup, steps);
    drawn_run<long_rounds> many(setup, random());
    auto const loaders = 1 + random.below(6);
    auto const others = many.run(loaders, static_cast<std::uint32_t>(random.below(15)));
    ASSERT_EQ(digests_of(steps), digests_of(others));
    std::size_t const bound =
        (setup.window - 1 + setup.data.fetched_ahead) * setup.data.step_samples;
    ASSERT_LE(many.most_fetched, bound);
  }
}

TEST(DataProxy, GoesOnWhereItWasSaved)  // Ensures (5)
{
  ballast::random_source random(12);
  for (int trial = 0; trial < ballast_test::trials_of(600); ++trial) {
    auto const setup = draw_setup(random);
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    auto all = drawn_run<ballast::even_rounds>(setup, random()).run(3, 2);
    std::vector<data_step> joined;
    std::string state;
    while (joined.size() < all.size()) {
      drawn_run<ballast::even_rounds> part(setup, random(), state);
      auto const some = part.run(1 + random.below(4), 2, 1 + random.below(5));
      ASSERT_FALSE(some.empty());
      joined.insert(joined.end(), some.begin(), some.end());
      state = some.back().save();
    }
    ASSERT_EQ(digests_of(joined), digests_of(all));
    if (!state.empty()) {
      ASSERT_TRUE((drawn_run<ballast::even_rounds>(setup, 1, state).proxy().finished()));
    }
  }
}

RC_GTEST_PROP(DataProxy, HoldsSamplesBackNoLongerThanItMay, ())  // Ensures (6)
{
  ballast::random_source random(*rc::gen::arbitrary<std::uint64_t>());
  auto setup = draw_setup(random);
  setup.bad.clear();
  auto const windows = drawn_run<long_rounds>(setup, random()).run(3, 5);
  auto plain = setup;
  plain.window = 1;
  plain.held_back = 0;
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::uint64_t> arrived;
  std::vector<std::size_t> sizes;
  for (data_step const& step : drawn_run<long_rounds>(plain, random()).run(3, 5)) {
    for (std::uint64_t const sample : step.samples) { arrived[{step.epoch, sample}] = step.number; }
    sizes.push_back(step.samples.size());
  }
  RC_ASSERT(windows.size() == sizes.size());
  for (data_step const& step : windows) {
    RC_ASSERT(step.samples.size() == sizes[step.number]);
    for (std::uint64_t const sample : step.samples) {
      auto const own = arrived.at({step.epoch, sample});
      RC_ASSERT(step.number <= own + setup.held_back);
      RC_ASSERT(own < step.number + setup.window);
    }
  }
}

TEST(DataProxy, TellsWhatItLeftOutAndWhoWasLost)
{
  data_setup const setup{
      .samples = 4, .step_samples = 4, .together = {0, 0, 1, 1}, .fetched_ahead = 1};
  data_proxy proxy(setup);
  std::map<std::uint64_t, std::uint64_t> ticket_of;
  for (int i = 0; i < 4; ++i) {
    auto const dealt = proxy.deal(0);
    ASSERT_TRUE(dealt);
    ticket_of[dealt->sample] = dealt->ticket;
  }
  EXPECT_FALSE(proxy.deal(0));  // the queue is full
  std::vector<tokens> const length = {5};
  EXPECT_TRUE(proxy.report(0, ticket_of[0], length));
  EXPECT_TRUE(proxy.report(0, ticket_of[2], length));
  proxy.cannot_decode(0, ticket_of[1], "no JPEG");
  ASSERT_EQ(proxy.dropped().size(), 1U);
  EXPECT_EQ(proxy.dropped().front().first, ticket_of[0]);
  EXPECT_EQ(proxy.lose(0, "signal 9"), 2U);
  EXPECT_FALSE(proxy.report(0, ticket_of[3], length));  // it comes too late
  data_step step;
  std::vector<std::uint64_t> tickets;
  EXPECT_FALSE(proxy.make(step, tickets));
  for (int i = 0; i < 2; ++i) {
    auto const again = proxy.deal(1);
    ASSERT_TRUE(again);
    EXPECT_TRUE(proxy.report(1, again->ticket, length));
  }
  ASSERT_TRUE(proxy.make(step, tickets));
  EXPECT_THAT(step.samples, testing::UnorderedElementsAre(2, 3));
  EXPECT_EQ(step.left_out, 2U);
  EXPECT_THAT(step.news,
              testing::ElementsAre(
                  "sample 1 cannot be decoded: no JPEG; it is left out with its group of 2 "
                  "samples",
                  "loader 0 was lost: signal 9; 2 samples were dealt anew"));
  EXPECT_TRUE(proxy.finished());
}

TEST(DataProxy, MakesAStepOfWhichAllIsLeftOut)
{
  run_setup setup{.data = {.samples = 5, .step_samples = 2, .modules = 2}, .bad = {0, 1, 2, 3, 4}};
  auto const steps = drawn_run<long_rounds>(setup, 3).run(2, 0);
  ASSERT_EQ(steps.size(), 3U);
  EXPECT_EQ(steps[2].left_out, 5U);
}

TEST(DataProxy, StopsAtWhatCannotBeDecodedIfAsked)
{
  run_setup setup{.data = {.samples = 50, .step_samples = 2, .modules = 2}, .bad = {17}};
  setup.data.stops_at_undecodable = true;
  drawn_run<long_rounds> run(setup, 3);
  EXPECT_LT(run.run(2, 0).size(), 25U);
  ASSERT_FALSE(run.proxy().health());
  EXPECT_EQ(run.proxy().health().error().position, 17U);
  EXPECT_THAT(run.proxy().health().error().message,
              HasSubstr("sample 17 cannot be decoded: it is broken; repair it"));
  EXPECT_FALSE(run.proxy().deal(0));
}

TEST(DataProxy, RefusesLengthsThatAreNone)
{
  auto const said = [](std::vector<tokens> const& lengths, std::vector<tokens> const& again) {
    data_proxy proxy(data_setup{.samples = 1, .modules = 2});
    auto const dealt = proxy.deal(0);
    if (proxy.report(0, dealt->ticket, lengths)) {
      (void)proxy.lose(0, "a test");
      (void)proxy.deal(1);
      (void)proxy.report(1, dealt->ticket, again);
    }
    return proxy.health() ? "nothing" : proxy.health().error().message;
  };
  EXPECT_EQ(said({1, 2}, {1, 2}), "nothing");
  EXPECT_THAT(said({1}, {}), HasSubstr("sample 0 has 1 length; load() has to give 2"));
  EXPECT_THAT(said({}, {}), HasSubstr("sample 0 has 0 lengths; load() has to give 2"));
  EXPECT_THAT(said({1, -1}, {}), HasSubstr("sample 0 has 2 lengths, not all in range"));
  EXPECT_THAT(said({1, 2}, {1, 3}), HasSubstr("loaded twice, with different lengths"));
  data_proxy known({.samples = 4}, {.steps = 2}, [](auto) { return std::vector<tokens>{1, 2}; });
  EXPECT_FALSE(known.deal(0));
  EXPECT_THAT(known.health().error().message, HasSubstr("2 lengths; lengths() has to give 1"));
}

TEST(DataProxy, RefusesToLeaveOutWhatAStepHas)
{
  data_proxy proxy(data_setup{.samples = 1});
  auto const dealt = proxy.deal(0);
  ASSERT_TRUE(proxy.report(0, dealt->ticket, std::vector<tokens>{1}));
  data_step step;
  std::vector<std::uint64_t> tickets;
  ASSERT_TRUE(proxy.make(step, tickets));
  EXPECT_EQ(proxy.lose(0, "a test"), 1U);
  ASSERT_TRUE(proxy.deal(1));
  proxy.cannot_decode(1, dealt->ticket, "the disk is gone");
  EXPECT_THAT(proxy.health().error().message, HasSubstr("it was decoded once"));
}

struct breaks_its_promise {
  void operator()(ballast::window_problem const&, std::span<ballast::cost_units>,
                  std::span<std::uint32_t> step) const
  {
    std::ranges::fill(step, 0U);
  }
};

TEST(DataProxy, RefusesWindowsThatBreakTheirPromise)
{
  run_setup const setup{.data = {.samples = 8, .step_samples = 2, .modules = 2}, .window = 2};
  drawn_run<breaks_its_promise> run(setup, 3);
  EXPECT_TRUE(run.run(2, 0).empty());
  EXPECT_THAT(run.proxy().health().error().message,
              HasSubstr("the window policy put a unit that arrived in step"));
}

TEST(DataProxy, RefusesCostsThatDoNotFit)
{
  auto const dear = [](std::span<tokens const>) { return ballast::cost_units{1} << 61; };
  data_proxy proxy({.samples = 3}, {.steps = 3, .cost = dear},
                   [](auto) { return std::vector<tokens>{1}; });
  EXPECT_FALSE(proxy.deal(0));
  EXPECT_THAT(proxy.health().error().message, HasSubstr("together at most 2^62"));
}

// States after each step of two epochs of 21 samples in windows of three steps.
struct saved_run {
  data_setup setup{.samples = 21, .step_samples = 3, .epochs = 2, .seed = 9};
  data_windows windows{.steps = 3, .held_back = 2};
  std::vector<std::string> states;

  static std::vector<tokens> one_length(std::uint64_t sample) { return {lengths_of(sample)[1]}; }

  saved_run()
  {
    data_proxy proxy(setup, windows);
    data_step step;
    std::vector<std::uint64_t> tickets;
    while (!proxy.finished()) {
      while (auto const dealt = proxy.deal(0)) {
        (void)proxy.report(0, dealt->ticket, one_length(dealt->sample));
      }
      while (proxy.make(step, tickets)) {
        proxy.take();
        states.push_back(step.save());
      }
    }
  }
};

std::string refusal(data_proxy proxy, std::string const& state)
{
  auto const done = proxy.restore(state);
  return done ? "nothing" : done.error().message;
}

TEST(DataProxy, TakesAStateOnlyByWhatMadeIt)
{
  saved_run const run;
  ASSERT_EQ(run.states.size(), 14U);
  auto const cheap = [](std::span<tokens const> lengths) { return lengths[0] / 2; };
  struct other_pipeline {
    char const* said;
    std::function<void(data_setup&, data_windows&)> change;
  };
  std::vector<other_pipeline> const others{
      {"nothing", [](auto&, auto&) {}},
      {"nothing", [](auto& setup, auto&) { setup.epochs = 7; }},  // more of them may follow
      {"nothing", [](auto& setup, auto&) { setup.fetched_ahead = 9; }},
      {"the saved state is of samples = 21, and this pipeline of 22; give the setup and windows "
       "with which it was saved",
       [](auto& setup, auto&) { setup.samples = 22; }},
      {"of step_samples = 3, and this pipeline of 7;",
       [](auto& setup, auto&) { setup.step_samples = 7; }},
      {"of modules = 1, and this pipeline of 2;", [](auto& setup, auto&) { setup.modules = 2; }},
      {"of seed = 9, and this pipeline of 18446744073709551615;",
       [](auto& setup, auto&) { setup.seed = ~std::uint64_t{0}; }},
      {"the saved state is of another setup.together;",
       [](auto& setup, auto&) {
         for (std::uint32_t at = 0; at < 21; ++at) { setup.together.push_back(at / 2); }
       }},
      {"of windows.steps = 3, and this pipeline of 1;",
       [](auto&, auto& windows) { windows.steps = 1; }},
      {"of windows.held_back = 2, and this pipeline of 1;",
       [](auto&, auto& windows) { windows.held_back = 1; }}};
  for (std::string const& state : run.states) {
    for (auto const& [said, change] : others) {
      data_setup setup = run.setup;
      data_windows windows = run.windows;
      change(setup, windows);
      EXPECT_THAT(refusal(data_proxy(setup, windows), state), HasSubstr(said));
    }
    EXPECT_THAT(refusal(data_proxy(run.setup,
                                   {.steps = 3, .held_back = 2, .policy = ballast::even_rounds{}}),
                        state),
                HasSubstr("the saved state is of another windows.policy;"));
    EXPECT_THAT(
        refusal(data_proxy(run.setup, {.steps = 3, .held_back = 2, .cost = cheap}), state),
        testing::MatchesRegex("sample [0-9]+ of length ([0-9]+) cost [0-9]+ where the state was "
                              "saved, and costs [0-9]+ here; give data_windows the cost .*"));
  }
}

TEST(DataProxy, TakesAStateOnlyOfTheSameLengths)
{
  saved_run const run;
  auto const longer = [](std::uint64_t sample) {
    return std::vector<tokens>{saved_run::one_length(sample)[0] + 1};
  };
  // All but one of a step: the window is planned otherwise, or its lengths are known as others.
  auto const one_longer = [](std::uint64_t sample) {
    auto lengths = saved_run::one_length(sample);
    if (sample % 3 == 0) { lengths[0] = 2000 - lengths[0]; }
    return lengths;
  };
  for (std::size_t at = 0; at + 1 < run.states.size(); ++at) {
    SCOPED_TRACE(testing::Message() << "step " << at);
    auto const said = [&](auto const& lengths) {
      data_proxy proxy(run.setup, run.windows);
      ballast::or_throw(proxy.restore(run.states[at]));
      data_step step;
      std::vector<std::uint64_t> tickets;
      while (auto const dealt = proxy.deal(0)) {
        (void)proxy.report(0, dealt->ticket, lengths(dealt->sample));
      }
      EXPECT_EQ(proxy.make(step, tickets), proxy.health().has_value());
      return proxy.health() ? "nothing" : proxy.health().error().message;
    };
    EXPECT_EQ(said(saved_run::one_length), "nothing");
    EXPECT_THAT(said(longer),
                testing::MatchesRegex("sample [0-9]+ had length [0-9]+ when the state "
                                      "was saved, and has [0-9]+ now; give the data.*"));
    bool const in_window = at % 7 % 3 != 2 && at % 7 != 6;  // seven steps are windows of 3, 3, 1
    if (in_window) {
      EXPECT_THAT(said(one_longer), testing::AnyOf(HasSubstr("planned otherwise: of samples with "
                                                             "other lengths"),
                                                   HasSubstr("had length")));
    }
    data_proxy known(run.setup, run.windows, one_longer);
    EXPECT_EQ(known.restore(run.states[at]).has_value(), !in_window);
  }
}

// The same state with another line, and the word that such a state would have.
std::string forged(std::string state, std::string const& line, std::string const& other)
{
  state.replace(state.find(line), line.size(), other);
  state.erase(state.find("check"));
  auto const word = ballast::digest{}.add(std::span<char const>(state)).value();
  return state + "check " + std::to_string(static_cast<std::int64_t>(word)) + "\n";
}

TEST(DataProxy, RefusesAStateOfNoSuchStep)
{
  saved_run const run;
  std::string const& state = run.states[3];
  auto const said = [&](data_setup const& setup, std::string const& text) {
    return refusal(data_proxy(setup, run.windows), text);
  };
  struct forgery {
    char const* line;
    char const* other;
    char const* said;
  };
  for (auto const& [line, other, sentence] :
       {forgery{"step 4", "step 4", "nothing"},
        {"epoch 0", "epoch 30", "is in epoch 30 of 2;"},
        {"epoch 0", "epoch 2", "epoch 2 of 2;"},
        {"position 4", "position 7", "is at step 7 of an epoch that has no more steps;"},
        {"\nstep 4", "\nstep 73",
         "the saved state is at step 4 of epoch 0, which is not step 73 of all; give what save() "
         "returned"},
        {"left_out 0", "left_out 13", "has left out 13 samples, more than there were;"},
        {"left_out 0", "left_out 12", "nothing"}}) {
    EXPECT_THAT(said(run.setup, forged(state, line, other)), HasSubstr(sentence));
  }
  data_setup shorter = run.setup;
  shorter.epochs = 1;
  EXPECT_THAT(said(shorter, run.states[8]), HasSubstr("is in epoch 1 of 1;"));
  EXPECT_EQ(said(shorter, run.states[6]), "nothing");  // the end of it
  EXPECT_THAT(
      said(run.setup, "data_pipeline 1\nsetup 5\nstep 5\nepoch 1\nposition 2\nleft_out 2\n"),
      HasSubstr("is of an earlier version"));
  EXPECT_THAT(said(run.setup, "data_pipeline 3\n"), HasSubstr("the saved state has '3'"));
}

TEST(DataProxy, RefusesEveryStateThatWasCutOrChanged)
{
  saved_run const run;
  std::string const& state = run.states[3];
  data_proxy proxy(run.setup, run.windows);
  // The last line's end says nothing, nor with what its word is set apart.
  std::size_t const word = state.rfind("check ") + 5;
  for (std::size_t at = 0; at + 1 < state.size(); ++at) {
    EXPECT_FALSE(proxy.restore(state.substr(0, at))) << "cut at byte " << at;
    int const own = state[at];
    for (int const other : {0, 10, 32, 45, 48, 49, 57, 122, 255, own ^ 1, own ^ 4}) {
      std::string changed = state;
      changed[at] = static_cast<char>(other);
      bool const same = changed == state || (at == word && other == 10);
      EXPECT_EQ(proxy.restore(changed).has_value(), same) << "byte " << at << " as " << other;
    }
  }
  EXPECT_TRUE(proxy.restore(state)) << "a state that is refused changes nothing";
}

TEST(DataProxyDeathTest, RefusesSetupsThatCannotBe)  // Expects
{
  EXPECT_DEATH(data_proxy(data_setup{.samples = 1, .step_samples = 0}), "are 0");
  EXPECT_DEATH(data_proxy(data_setup{.samples = 2, .together = {1}}), "has 1 entry for 2");
  EXPECT_DEATH(data_proxy(data_setup{.samples = 2, .step_samples = 1, .together = {1, 1}}),
               "has 2 samples, and a step has room for 1");
  data_proxy proxy(data_setup{.samples = 1});
  EXPECT_DEATH(proxy.take(), "no step was made");
}

}  // namespace proxy_test
