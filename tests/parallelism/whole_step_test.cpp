// SPDX-License-Identifier: Apache-2.0
// The search for layouts with the scheduler that runs, beside trying everything: all layouts, bags,
// numbers of microbatches, dealings of samples to microbatches, groups and replicas, and orders. The
// oracle has times, dealer and pipeline of its own.
#include <ballast/parallelism/search_layouts.hpp>
#include <ballast/runtime/schedule_layout.hpp>

#include "../support/test.hpp"
#include "../support/trials.hpp"

namespace {

using ballast::layout_problem;
using ballast::time_units;
using ballast::tokens;

struct tiny_job {
  std::vector<ballast::module_profile> modules;
  std::vector<std::vector<double>> speeds;  // of each module and degree, all GPUs of a group
  std::vector<tokens> sizes;                // of the one batch
  layout_problem problem;

  /// With bags, groups of 1, 2 and 4 GPUs that lose some of their speed.
  tiny_job(ballast::random_source& random, std::size_t count, bool has_bags = false)
  {
    std::uint32_t const samples = static_cast<std::uint32_t>(1 + random.below(6));
    for (std::size_t module = 0; module < count; ++module) {
      // A third of these is whole on every stage and GPU.
      ballast::module_profile made{.name = "m" + std::to_string(module),
                                   .layers = static_cast<std::uint32_t>(1 + random.below(2)),
                                   .flops = {.linear = 48'000 * (1 + random.below(20))},
                                   .degrees = {{.tp = 1}}};
      if (random.below(2) == 0) { made.flops.quadratic = 48'000 * (1 + random.below(4)); }
      auto& speed = speeds.emplace_back(1, 1.0);
      if (!has_bags && random.below(2) == 0) {
        made.degrees.push_back({.tp = 2});
        speed.push_back(2);
      }
      for (std::uint32_t tp = 2; has_bags && tp <= 4; tp *= 2) {
        std::int64_t const percent = random.between(60, 100);
        ballast::profiled_degree degree{.tp = tp};
        degree.linear = degree.linear.scaled({percent, 100});
        degree.attention = degree.attention.scaled({percent, 100});
        made.degrees.push_back(degree);
        speed.push_back(tp * static_cast<double>(percent) / 100);
      }
      modules.push_back(made);
    }
    for (std::size_t at = 0; at < samples * count; ++at) {
      sizes.push_back(random.below(3) == 0 ? random.between(0, 40) : random.between(1, 8));
    }
    problem.modules = modules;
    problem.sizes = sizes;
    problem.global_batch = samples;
    problem.kinds[0].gpus = static_cast<std::uint32_t>(count + random.below(9 - count));
    problem.may_leave_gpus = random.below(2) == 0;
  }
};

/// Whether anything is shorter than a step, by trying everything that could be.
class brute_force {
 public:
  explicit brute_force(tiny_job const& job, bool has_bags = false)
      : modules_(job.modules),
        speeds_(job.speeds),
        sizes_(job.sizes),
        problem_(job.problem),
        has_bags_(has_bags)
  {}

  /// The shortest step of all, if it is shorter.
  [[nodiscard]] double shortest_below(double step)
  {
    best_ = step;
    layout_.assign(modules_.size(), {});
    choose(0, problem_.kinds[0].gpus);
    return best_;
  }

 private:
  struct spread {
    std::uint32_t pp = 1;
    std::vector<std::size_t> replicas{};  // the degree of each, among those of the module
  };

  [[nodiscard]] std::size_t samples() const { return sizes_.size() / modules_.size(); }

  void choose(std::size_t module, std::uint32_t gpus)
  {
    if (module == modules_.size()) {
      if (gpus > 0 && !problem_.may_leave_gpus) { return; }
      if (is_too_much()) { return; }
      for (count_ = 1; count_ <= 4 && count_ * layout_.back().replicas.size() <= samples();
           ++count_) {
        deal();
      }
      return;
    }
    for (std::uint32_t pp = 1; pp <= modules_[module].layers; ++pp) {
      layout_[module] = {pp, {}};
      add_replicas(module, modules_[module].degrees.size() - 1, gpus);
    }
  }

  /// Gives a module more replicas, none of a larger degree than the one before.
  void add_replicas(std::size_t module, std::size_t largest, std::uint32_t gpus)
  {
    for (std::size_t degree = 0; degree <= largest; ++degree) {
      auto const before = layout_;
      std::uint32_t const more = modules_[module].degrees[degree].tp * before[module].pp;
      bool const is_same = before[module].replicas.empty() || degree == largest;
      if (more > gpus || (!has_bags_ && !is_same)) { continue; }
      layout_[module].replicas.push_back(degree);
      choose(module + 1, gpus - more);
      layout_ = before;
      layout_[module].replicas.push_back(degree);
      add_replicas(module, degree, gpus - more);
      layout_ = before;
    }
  }

  [[nodiscard]] double speed_of(std::size_t module) const
  {
    double all = 0;
    for (std::size_t const each : layout_[module].replicas) { all += speeds_[module][each]; }
    return all;
  }

  /// Whether the work alone takes too long on some module's stages.
  [[nodiscard]] bool is_too_much() const
  {
    for (std::size_t module = 0; module < modules_.size(); ++module) {
      double all = 0;
      for (std::size_t sample = 0; sample < samples(); ++sample) { all += time_of(sample, module); }
      if (all / speed_of(module) >= best_ * (1 - 1e-9)) { return true; }
    }
    return false;
  }

  /// On a stage, at the speed of one GPU.
  [[nodiscard]] double time_of(std::size_t sample, std::size_t module) const
  {
    auto const size = static_cast<double>(sizes_[sample * modules_.size() + module]);
    auto const& flops = modules_[module].flops;
    auto const all = static_cast<double>(flops.linear) * size +
                     static_cast<double>(flops.quadratic) * size * size;
    return all / layout_[module].pp;
  }

  void deal()
  {
    groups_ = 0;
    for (auto const& [pp, replicas] : layout_) {
      groups_ = std::gcd(groups_, replicas.size());
      if (replicas.front() != replicas.back()) { groups_ = 1; }
    }
    list_ranks();
    first_.clear();
    std::size_t cells = 0;
    for (auto const& each : layout_) {
      first_.push_back(cells);
      cells += count_ * each.replicas.size();
    }
    loads_.assign(cells, 0);
    order_.resize(samples());
    std::iota(order_.begin(), order_.end(), std::size_t{0});
    std::sort(order_.begin(), order_.end(), [this](std::size_t a, std::size_t b) {
      double left = 0;
      double right = 0;
      for (std::size_t module = 0; module < modules_.size(); ++module) {
        left = std::max(left, time_of(a, module) / speed_of(module));
        right = std::max(right, time_of(b, module) / speed_of(module));
      }
      return left != right ? left > right : a < b;
    });
    place(0, 0);
  }

  /// Places the samples from here on, in all ways; groups that are empty are alike.
  void place(std::size_t at, std::size_t used)
  {
    double longest = 0;  // what is placed takes no less when there is more
    for (std::size_t group = 0; group < std::min(used, groups_); ++group) {
      longest = std::max(longest, pipeline(group));
    }
    if (longest >= best_ * (1 - 1e-9)) { return; }
    if (at == samples()) {
      best_ = longest;
      return;
    }
    for (std::size_t group = 0; group < std::min(used + 1, groups_); ++group) {
      for (std::size_t microbatch = 0; microbatch < count_; ++microbatch) {
        give(at, 0, group, microbatch, std::max(used, group + 1));
      }
    }
  }

  /// Gives a sample to a replica of every module from here on.
  void give(std::size_t at, std::size_t module, std::size_t group, std::size_t microbatch,
            std::size_t used)
  {
    if (module == modules_.size()) {
      place(at + 1, used);
      return;
    }
    std::size_t const replicas = layout_[module].replicas.size() / groups_;
    for (std::size_t replica = 0; replica < replicas; ++replica) {
      if (replica > 0 && is_alike(module, group, replica)) { continue; }
      double& load = load_of(module, group, microbatch, replica);
      double const before = load;
      load += time_of(order_[at], module) / speeds_[module][layout_[module].replicas[replica]];
      give(at, module + 1, group, microbatch, used);
      load = before;
    }
  }

  /// Whether a replica has what the one before has, at the same degree.
  [[nodiscard]] bool is_alike(std::size_t module, std::size_t group, std::size_t replica)
  {
    bool is_same = layout_[module].replicas[replica] == layout_[module].replicas[replica - 1];
    for (std::size_t microbatch = 0; microbatch < count_; ++microbatch) {
      is_same = is_same && load_of(module, group, microbatch, replica) ==
                               load_of(module, group, microbatch, replica - 1);
    }
    return is_same;
  }

  double& load_of(std::size_t module, std::size_t group, std::size_t microbatch,
                  std::size_t replica)
  {
    std::size_t const replicas = layout_[module].replicas.size() / groups_;
    return loads_[first_[module] + (group * count_ + microbatch) * replicas + replica];
  }

  struct rank {
    std::size_t module, stage, replica, behind;
    std::vector<std::size_t> before{}, after{};  // ranks that hand it microbatches, or get them
    std::size_t forwards = 0, backwards = 0;
    double end = 0;
    std::array<double, 4> forward_end{}, backward_end{};
  };

  /// Whether a rank hands its microbatches to another.
  [[nodiscard]] bool feeds(rank const& from, rank const& to) const
  {
    if (from.module == to.module) {
      return from.replica == to.replica && from.stage + 1 == to.stage;
    }
    return from.module + 1 == to.module && from.stage + 1 == layout_[from.module].pp &&
           to.stage == 0;
  }

  void list_ranks()
  {
    ranks_.clear();
    std::size_t stages = 0;
    for (auto const& each : layout_) { stages += each.pp; }
    for (std::size_t module = 0; module < modules_.size(); ++module) {
      for (std::size_t stage = 0; stage < layout_[module].pp; ++stage) {
        --stages;
        for (std::size_t replica = 0; replica < layout_[module].replicas.size() / groups_;
             ++replica) {
          ranks_.push_back({module, stage, replica, stages});
        }
      }
    }
    for (std::size_t one = 0; one < ranks_.size(); ++one) {
      for (std::size_t other = 0; other < ranks_.size(); ++other) {
        if (!feeds(ranks_[one], ranks_[other])) { continue; }
        ranks_[one].after.push_back(other);
        ranks_[other].before.push_back(one);
      }
    }
  }

  /// 1F1B: a stage with so many stages behind it does as many forwards and one, then a backward and
  /// a forward in turn.
  [[nodiscard]] double pipeline(std::size_t group)
  {
    for (rank& each : ranks_) { each.forwards = each.backwards = 0, each.end = 0; }
    for (bool goes_on = true; goes_on;) {
      goes_on = false;
      for (rank& own : ranks_) {
        bool const is_forward =
            own.forwards < count_ && own.forwards < own.backwards + own.behind + 1;
        std::size_t const number = is_forward ? own.forwards : own.backwards;
        if (number == count_) { continue; }
        double start = own.end;
        bool is_ready = true;
        for (std::size_t const at : is_forward ? own.before : own.after) {
          rank const& other = ranks_[at];
          is_ready = is_ready && (is_forward ? other.forwards : other.backwards) > number;
          start =
              std::max(start, is_forward ? other.forward_end[number] : other.backward_end[number]);
        }
        if (!is_ready) { continue; }
        goes_on = true;
        double const whole = load_of(own.module, group, number, own.replica);
        own.end = start + (is_forward ? whole / 3 : whole * 2 / 3);
        (is_forward ? own.forward_end : own.backward_end)[number] = own.end;
        ++(is_forward ? own.forwards : own.backwards);
      }
    }
    double last = 0;
    for (rank const& own : ranks_) { last = std::max(last, own.end); }
    return last;
  }

  std::vector<ballast::module_profile> const& modules_;
  std::vector<std::vector<double>> const& speeds_;
  std::vector<tokens> const& sizes_;
  layout_problem const& problem_;
  bool has_bags_;
  std::vector<spread> layout_;
  std::size_t count_ = 1;
  std::size_t groups_ = 1;
  std::vector<std::size_t> first_;  // cells of a module
  std::vector<double> loads_;       // of a stage; of each module, group, microbatch and replica
  std::vector<rank> ranks_;         // of a group
  std::vector<std::size_t> order_;  // of samples, the longest first
  double best_ = 0;
};

int bags_found = 0;

/// By how much the step that is found is longer than the shortest of all.
template <std::size_t D>
double above_shortest(ballast::random_source& random, bool has_bags = false)
{
  tiny_job const job(random, D, has_bags);
  std::uint64_t const tasks = has_bags ? 50'000 : 500'000;  // many more are asked about
  auto const found =
      ballast::search_layouts(job.problem, job.sizes,
                              {.step = ballast::scheduled_steps<D>(job.problem, {}, {}, tasks),
                               .most_steps = has_bags ? std::size_t{128} : std::size_t{32},
                               .has_unequal_replicas = has_bags});
  if (!found) { return 0; }
  bags_found += found->layouts.front().layout.bags.empty() ? 0 : 1;
  auto const step = static_cast<double>(found->layouts.front().simulated);
  EXPECT_LE(static_cast<double>(found->lower_bound), step);
  // Times are whole picoseconds, of which each task may have one too many.
  double const shortest = brute_force(job, has_bags).shortest_below(step - 64);
  EXPECT_LE(static_cast<double>(found->lower_bound), shortest + 64);
  return step - 64 > shortest ? step / shortest - 1 : 0;
}

/// Of jobs of one to three modules, how many have a shorter step than the one that is found.
int longer_of(ballast::random_source& random, int trials, bool has_bags)
{
  int longer = 0;
  for (int trial = 0; trial < trials; ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    double const above = trial % 3 == 0   ? above_shortest<1>(random, has_bags)
                         : trial % 3 == 1 ? above_shortest<2>(random, has_bags)
                                          : above_shortest<3>(random, has_bags);
    longer += above > 0 ? 1 : 0;
    if (above > 0) { std::printf("trial %d: %.2f %% above\n", trial, 100 * above); }
  }
  return longer;
}

TEST(WholeStep, IsTheShortestOfAllLayoutsDealingsAndOrders)
{
  ballast::random_source random(62);
  int const trials = ballast_test::trials_of(40, 40);
  EXPECT_LE(longer_of(random, trials, false) * 100, trials);
}

TEST(WholeStep, IsTheShortestOfAllBagsToo)
{
  ballast::random_source random(63);
  EXPECT_EQ(longer_of(random, ballast_test::trials_of(20, 20), true), 0);
  EXPECT_GE(bags_found, ballast_test::is_sanitized ? 0 : 2);
}

TEST(WholeStep, GivesEachReplicaItsShareOfTime)
{
  std::vector<ballast::module_profile> const modules{
      {.name = "llm", .layers = 1, .flops = {.linear = 48'000}, .degrees = {{.tp = 1}, {.tp = 4}}}};
  std::vector<tokens> const sizes{3, 40, 3, 3};
  layout_problem problem{.modules = modules, .sizes = sizes, .global_batch = 4};
  problem.kinds[0].gpus = 5;
  ballast::model_layout const layout{.modules = {{1, 1, 2}}, .bags = {{4, 1}}};
  EXPECT_EQ(layout.gpus(), 5U);
  auto const factors = ballast::layout_pipeline(problem, layout).time_factors(0);
  EXPECT_THAT(factors, testing::ElementsAre(1U << 14, 1U << 16));

  auto scheduler =
      ballast::schedule_layout<1>(problem, layout, ballast::insertion{}, {}, 1'000).value();
  ballast::scheduled_step<1> step;
  ASSERT_TRUE(scheduler(step, sizes, 0, 0, {}));
  using ballast::sample_id;
  EXPECT_THAT(step.microbatch(0, 0, 0), testing::ElementsAre(sample_id{1}));
  EXPECT_THAT(step.microbatch(0, 1, 0),
              testing::ElementsAre(sample_id{0}, sample_id{2}, sample_id{3}));
  auto const simulated = ballast::simulate_step<1>(problem, layout, step, sizes).value();
  EXPECT_EQ(simulated.makespan, step.makespan);
  EXPECT_EQ(simulated.busy, step.predicted[0][0].forward * 3 + step.predicted[0][0].backward * 3 +
                                step.predicted[1][0].forward + step.predicted[1][0].backward);

  for (std::vector<std::uint32_t> const& wrong :
       {std::vector<std::uint32_t>{1}, {0, 1}, {1, (1U << 16) + 1}}) {
    ballast::scheduler_setup const setup{
        ballast::layout_pipeline(problem, layout).schedule().value(), {{2, {1}, wrong}}};
    auto const refused = setup.groups(1);
    ASSERT_FALSE(refused);
    EXPECT_THAT(refused.error().message, testing::HasSubstr("give each one from 1 to 65536"));
  }
}

}  // namespace
