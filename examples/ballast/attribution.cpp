// SPDX-License-Identifier: Apache-2.0
#include "attribution.hpp"

#include "output.hpp"

#include <ballast/partition/grid/partition_grid.hpp>
#include <ballast/partition/partition.hpp>

#include <fmt/format.h>

#include <cmath>
#include <map>

namespace cli {
namespace {

using ballast::cost_units;
using ballast::report::step_log;

constexpr double next_to_nothing = 0.01;  // lost in all, of the time
constexpr double worth_telling = 0.003;   // of one reason
constexpr double slow_from = 1.05;        // as slow_ranks() has it

double median_of(std::vector<double> values)
{
  if (values.empty()) { return 0; }
  auto const middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

std::string share_text(double share)
{
  return fmt::format("{:.1f} %", 100 * share);
}

std::size_t sum_of(std::vector<std::uint32_t> const& numbers)
{
  std::size_t sum = 0;
  for (std::uint32_t const number : numbers) { sum += number; }
  return sum;
}

/// GPUs of each bag, of which a log may have only the speeds.
std::vector<std::uint32_t> gpus_of(logged_step const& step)
{
  if (!step.gpus.empty()) { return step.gpus; }
  bool const are_gpus = step.measured.empty() || sum_of(step.speeds) == step.measured.size();
  return are_gpus ? step.speeds : std::vector<std::uint32_t>(step.bags(), 1);
}

/// What a step has per unit of speed: the plan's makespan, the mean, and what the longest sample takes
/// where it is computed fastest.
struct step_times {
  double makespan = 0;
  double mean = 0;
  double longest = 0;
  double fastest = 0;  ///< speed of a bag

  explicit step_times(logged_step const& step)
      : makespan(static_cast<double>(step.makespan.numerator) /
                 static_cast<double>(step.makespan.denominator))
  {
    double all = 0;
    for (cost_units const load : step.loads) { all += static_cast<double>(load); }
    mean = all / static_cast<double>(sum_of(step.speeds));
    fastest = static_cast<double>(std::ranges::max(step.speeds));
    for (cost_units const cost : step.costs) {
      longest = std::max(longest, static_cast<double>(cost) / fastest);
    }
  }
};

struct planned_again {
  double makespan = 0;
  std::int64_t most_per_gpu = 0;  ///< that any bag has of what the cap counts
};

/// A step with some of its limits; nothing where no plan is found.
std::optional<planned_again> plan_again(logged_step const& step, bool with_cap, bool with_counts)
{
  std::vector<ballast::bag> bags;
  std::vector<std::uint32_t> gpu_speeds;
  auto const sizes = gpus_of(step);
  for (std::size_t bag = 0; bag < step.bags(); ++bag) {
    bags.push_back({ballast::to_id<ballast::rank_id>(gpu_speeds.size()), sizes[bag]});
    gpu_speeds.insert(gpu_speeds.end(), sizes[bag], std::max(step.speeds[bag] / sizes[bag], 1U));
  }
  auto const layout =
      ballast::bag_layout(bags, gpu_speeds).with_short_samples(ballast::short_samples::admitted);
  std::vector<std::int64_t> before(step.bags(), 0);  // loads that are of no sample
  for (std::size_t cell = 0; cell < step.loads.size(); ++cell) {
    before[cell % step.bags()] += step.loads[cell];
  }
  for (std::size_t sample = 0; sample < step.costs.size(); ++sample) {
    before[step.owner[sample] % step.bags()] -= step.costs[sample];
  }
  ballast::placement_limits limits;
  if (std::ranges::max(before) > 0 && std::ranges::min(before) >= 0) {
    limits.starting_loads = before;
  }
  bool const has_cap = with_cap && step.most_per_gpu != ballast::no_limit;
  if (has_cap) {
    limits.also.add({.of = step.weights, .most_per_gpu = step.most_per_gpu, .is_soft = true});
  }
  if (with_counts) { limits.samples = step.samples; }
  std::vector<std::uint32_t> samples(step.costs.size());
  std::iota(samples.begin(), samples.end(), 0U);
  auto const cost_of = [&step](std::uint32_t sample) { return step.costs[sample]; };
  auto const length_of = [&step](std::uint32_t sample) { return step.lengths[sample]; };
  auto const seen = [&](auto const& plan) {
    planned_again made{static_cast<double>(plan.makespan.numerator) /
                       static_cast<double>(plan.makespan.denominator)};
    std::vector<std::int64_t> holds(plan.loads.size(), 0);
    for (std::size_t sample = 0; sample < samples.size(); ++sample) {
      holds[to_index(plan.owner[ballast::to_id<ballast::sample_id>(sample)])] +=
          step.weights.empty() ? step.lengths[sample] : step.weights[sample];
    }
    for (std::size_t cell = 0; cell < holds.size(); ++cell) {
      std::int64_t const own = sizes[cell % step.bags()];
      made.most_per_gpu = std::max(made.most_per_gpu, (holds[cell] + own - 1) / own);
    }
    return made;
  };
  bool const has_counts = with_counts && step.samples.kind != ballast::counts::rule::any;
  if (step.microbatches == 1 || (!has_cap && !has_counts)) {
    auto const plan = ballast::partition(samples, layout, cost_of, length_of, limits);
    return plan ? std::optional(seen(*plan)) : std::nullopt;
  }
  auto const plan = ballast::partition_grid(
      samples, layout, {.number = step.microbatches, .meet = step.meet, .work = 200'000}, cost_of,
      length_of, limits);
  return plan ? std::optional(seen(*plan)) : std::nullopt;
}

enum reason : std::size_t {
  long_sample,
  few_samples,
  cap,
  equal_counts,
  other_plan,
  slow_rank,
  wrong_cost,
  scatter,
  reasons
};

using shares = std::array<double, reasons>;

/// What the plan of a step lost, split by reason, in units of its makespan; and what to change.
struct plan_loss {
  shares of{};
  double splits = 1;                ///< over how many times as many GPUs the longest sample fits
  ballast::tokens split_from = 0;   ///< the shortest length that does not fit a GPU
  std::int64_t enough_per_gpu = 0;  ///< a cap that costs nothing
};

plan_loss lost_by_plan(logged_step const& step)
{
  plan_loss lost;
  step_times const times(step);
  if (times.makespan <= 0) { return lost; }
  double const fits = std::max(times.mean, times.longest);  // no plan without limits is shorter
  lost.of[long_sample] = (std::min(fits, times.makespan) - times.mean) / times.makespan;
  if (times.longest > times.mean) {
    while (times.longest / lost.splits > times.mean) { lost.splits *= 2; }
    for (std::size_t sample = 0; sample < step.costs.size(); ++sample) {
      bool const fits_one = static_cast<double>(step.costs[sample]) / times.fastest <= times.mean;
      if (!fits_one && (lost.split_from == 0 || step.lengths[sample] < lost.split_from)) {
        lost.split_from = step.lengths[sample];
      }
    }
  }
  if (times.makespan <= fits * 1.0005) { return lost; }
  bool const has_cap = step.most_per_gpu != ballast::no_limit;
  bool const has_counts = step.samples.kind != ballast::counts::rule::any;
  auto const makespan_of = [&](std::optional<planned_again> const& plan, double most) {
    return plan ? std::min(plan->makespan, most) : most;
  };
  auto const both = plan_again(step, true, true);
  double const within = makespan_of(both, times.makespan);
  auto const without_cap = has_cap ? plan_again(step, false, true) : both;
  auto const without_counts = has_counts ? plan_again(step, true, false) : both;
  double const no_cap = makespan_of(without_cap, within);
  double const no_counts = makespan_of(without_counts, within);
  auto const none = has_cap && has_counts ? plan_again(step, false, false)
                    : has_cap             ? without_cap
                                          : without_counts;
  double const free = std::max(makespan_of(none, std::min(no_cap, no_counts)), fits);
  lost.of[few_samples] = (free - fits) / times.makespan;
  lost.of[cap] = std::max((within - no_cap + no_counts - free) / 2, 0.0) / times.makespan;
  lost.of[equal_counts] = std::max((within - no_counts + no_cap - free) / 2, 0.0) / times.makespan;
  lost.of[other_plan] = (times.makespan - within) / times.makespan;
  if (has_cap && step.microbatches == 1 && without_cap) {
    lost.enough_per_gpu = without_cap->most_per_gpu;
  }
  return lost;
}

/// How many GPUs a rank stands for: all of its bag, where a rank is a bag.
std::vector<double> weights_of_ranks(logged_step const& step)
{
  std::vector<double> weights(step.measured.size(), 1);
  auto const sizes = gpus_of(step);
  if (step.measured.size() == step.bags()) { weights.assign(sizes.begin(), sizes.end()); }
  return weights;
}

/// What ranks wait for the last of them.
double waiting_of(std::vector<double> const& times, std::vector<double> const& weights,
                  double stretch = 1)
{
  double const last = times.empty() ? 0 : std::ranges::max(times) * stretch;
  double waits = 0;
  for (std::size_t rank = 0; rank < times.size(); ++rank) {
    waits += weights[rank] * (last - times[rank]);
  }
  return waits;
}

/// What GPUs wait in a step by its plan, in GPUs times cost units.
double wasted_by_plan(logged_step const& step)
{
  auto const sizes = gpus_of(step);
  auto const times = step.times();
  double const makespan = step_times(step).makespan;
  double wasted = 0;
  for (std::size_t bag = 0; bag < times.size(); ++bag) {
    wasted += (makespan - times[bag]) * sizes[bag];
  }
  return wasted;
}

/// By how much a step is longer than its longest bag, as its bags meet in every slot.
double stretch_of(logged_step const& step)
{
  auto const times = step.times();
  double const longest = std::ranges::max(times);
  return longest > 0 ? std::max(step_times(step).makespan / longest, 1.0) : 1.0;
}

constexpr ballast::flop_polynomial token_terms{.linear = 1, .quadratic = 1};

/// The ranks of a step that has times: planned in cost units per speed, or as a fitted cost has it;
/// measured in seconds. Empty where ranks cannot be told.
struct rank_times {
  std::vector<double> planned;
  std::vector<double> measured;
  std::vector<double> weights;
  double seconds_per_unit = 0;  ///< the median of the ranks

  explicit rank_times(logged_step const& step, std::vector<double> const& factors = {},
                      std::optional<ballast::step_fit> const& fit = {})
  {
    auto const bag_of = step.bag_of_rank();
    if (bag_of.empty()) { return; }
    auto const times = step.times();
    auto const work = work_of(step);
    weights = weights_of_ranks(step);
    std::vector<double> ratios;
    for (std::size_t rank = 0; rank < bag_of.size(); ++rank) {
      auto const& own = work[bag_of[rank]];
      planned.push_back(!fit                 ? times[bag_of[rank]]
                        : own.length_sum > 0 ? fit->seconds(token_terms, own)
                                             : 0.0);
      measured.push_back(static_cast<double>(step.measured[rank]) * 1e-9);
      double const factor = rank < factors.size() ? factors[rank] : 1;
      if (planned[rank] > 0) { ratios.push_back(measured[rank] / planned[rank] / factor); }
    }
    seconds_per_unit = median_of(ratios);
  }

  /// What ranks would wait if all took as long as planned, times their factors.
  [[nodiscard]] double foreseen(std::vector<double> const& factors, double stretch) const
  {
    std::vector<double> seconds;
    for (std::size_t rank = 0; rank < planned.size(); ++rank) {
      seconds.push_back(planned[rank] * seconds_per_unit * factors[rank]);
    }
    return waiting_of(seconds, weights, stretch);
  }
};

/// How much longer than the others each rank takes for the same work, the median over the steps; and
/// the median error of what that is told from.
struct rank_factors {
  std::vector<double> of;
  double error = 0;

  explicit rank_factors(std::vector<logged_step> const& steps,
                        std::optional<ballast::step_fit> const& fit = {})
  {
    std::vector<std::vector<double>> ratios;
    std::vector<double> errors;
    for (logged_step const& step : steps) {
      rank_times const own(step, {}, fit);
      if (own.seconds_per_unit <= 0) { continue; }
      ratios.resize(std::max(ratios.size(), own.planned.size()));
      for (std::size_t rank = 0; rank < own.planned.size(); ++rank) {
        if (own.planned[rank] <= 0) { continue; }
        ratios[rank].push_back(own.measured[rank] / own.planned[rank] / own.seconds_per_unit);
        errors.push_back(std::abs(ratios[rank].back() - 1));
      }
    }
    for (auto const& each : ratios) { of.push_back(each.size() < 3 ? 1.0 : median_of(each)); }
    error = median_of(errors);
  }
};

/// A cost by length, fitted to the times of the log, where they allow one.
std::optional<ballast::step_fit> fit_of(std::vector<logged_step> const& steps,
                                        std::vector<double> const& factors)
{
  constexpr std::size_t most = 1000;
  std::vector<ballast::step_fit::measurement> all;
  for (logged_step const& step : steps) {
    auto const bag_of = step.bag_of_rank();
    auto const made = work_of(step);
    for (std::size_t rank = 0; rank < std::min(bag_of.size(), factors.size()); ++rank) {
      auto own = made[bag_of[rank]];
      own.seconds = static_cast<double>(step.measured[rank]) * 1e-9 / factors[rank];
      if (own.length_sum > 0 && own.seconds > 1e-12) { all.push_back(own); }
    }
  }
  std::vector<ballast::step_fit::measurement> picked;
  std::size_t const count = std::min(all.size(), most);
  for (std::size_t at = 0; at < count; ++at) { picked.push_back(all[at * all.size() / count]); }
  if (picked.size() < 20) { return std::nullopt; }
  auto fitted = ballast::fit_steps(picked, token_terms, {.sequences = true, .steps = true});
  return fitted ? std::optional(*fitted) : std::nullopt;
}

/// Told from the plan's costs, or from those fitted to the log where these are nearer to the times: a
/// cost that is wrong may always be so on the same ranks.
std::vector<double> factors_of(std::vector<logged_step> const& steps)
{
  rank_factors const planned(steps);
  auto const fit = fit_of(steps, std::vector(planned.of.size(), 1.0));
  if (!fit) { return planned.of; }
  rank_factors fitted(steps, fit);
  fitted.of.resize(planned.of.size(), 1.0);
  return fitted.error < planned.error / 2 ? fitted.of : planned.of;
}

/// The factors of slow and fast ranks; 1 of those that are like the others.
std::vector<double> clear_factors(std::vector<double> factors)
{
  for (double& factor : factors) {
    if (factor < slow_from && factor > 1 / slow_from) { factor = 1; }
  }
  return factors;
}

std::string rule_text(ballast::counts samples)
{
  auto const rule = static_cast<std::size_t>(samples.kind);
  bool const has_number = samples.number != 1 || samples.kind == ballast::counts::rule::at_most;
  return std::string(step_log::rule_names[rule]) +
         (has_number ? fmt::format(":{}", samples.number) : "");
}

/// "Rank 3 takes 1.20 times as long", of the slowest few.
std::string slow_text(std::vector<double> const& factors)
{
  std::vector<std::size_t> slow;
  for (std::size_t rank = 0; rank < factors.size(); ++rank) {
    if (factors[rank] >= slow_from) { slow.push_back(rank); }
  }
  std::ranges::sort(slow, [&](std::size_t a, std::size_t b) {
    return factors[a] != factors[b] ? factors[a] > factors[b] : a < b;
  });
  std::string text;
  for (std::size_t at = 0; at < std::min<std::size_t>(slow.size(), 3); ++at) {
    text += fmt::format("{} {} {}{:.2f} times", at == 0 ? "Rank" : ", rank", slow[at],
                        at == 0 ? "takes " : "", factors[slow[at]]);
  }
  if (slow.size() > 3) { text += fmt::format(" and {} more ranks", slow.size() - 3); }
  return text + " as long as the others for the same work.";
}

/// What was lost, as a sentence; the losses that are worth telling, the largest first.
pages::verdict told(double share, std::string_view of_what, std::string_view behind,
                    std::vector<pages::loss> losses)
{
  pages::verdict all{.share = share};
  if (share < next_to_nothing) {
    all.sentence = fmt::format("Nothing is lost: {} wait for {} of the time{}.", of_what,
                               share_text(share), behind);
    return all;
  }
  all.sentence =
      fmt::format("The steps lost {} of the time of {}{}.", share_text(share), of_what, behind);
  std::erase_if(losses, [](pages::loss const& each) { return each.share < worth_telling; });
  for (auto each = losses.begin(); each != losses.end(); ++each) {  // equal shares keep their order
    std::rotate(std::ranges::upper_bound(losses.begin(), each, each->share, std::ranges::greater(),
                                         &pages::loss::share),
                each, each + 1);
  }
  all.losses = std::move(losses);
  return all;
}

}  // namespace

std::vector<ballast::step_fit::measurement> work_of(logged_step const& step)
{
  std::vector<ballast::step_fit::measurement> made(step.bags());
  auto const sizes = gpus_of(step);
  for (std::size_t bag = 0; bag < made.size(); ++bag) { made[bag].gpus = sizes[bag]; }
  for (std::size_t sample = 0; sample < step.lengths.size(); ++sample) {
    auto& own = made[step.owner[sample] % step.bags()];
    auto const length =
        static_cast<std::uint64_t>(std::min(step.lengths[sample], ballast::longest_sample));
    own.length_sum += static_cast<ballast::tokens>(length);
    own.square_sum += length * length;
    ++own.sequences;
  }
  return made;
}

std::vector<double> logged_step::times() const
{
  std::vector<double> sums(bags(), 0);
  for (std::size_t cell = 0; cell < loads.size(); ++cell) {
    sums[cell % bags()] += static_cast<double>(loads[cell]) / speeds[cell % bags()];
  }
  return sums;
}

std::vector<std::int64_t> logged_step::filled() const
{
  std::vector<std::int64_t> sums(loads.size(), 0);
  for (std::size_t sample = 0; sample < owner.size(); ++sample) {
    sums[owner[sample]] += weights.empty() ? lengths[sample] : weights[sample];
  }
  return sums;
}

std::vector<std::size_t> logged_step::bag_of_rank() const
{
  std::vector<std::size_t> found;
  if (measured.empty() || std::ranges::max(measured) == 0) { return found; }
  auto const sizes = gpus_of(*this);
  bool const by_gpu = sum_of(sizes) == measured.size();
  if (!by_gpu && measured.size() != bags()) { return found; }
  for (std::size_t bag = 0; bag < bags(); ++bag) {
    found.insert(found.end(), by_gpu ? sizes[bag] : 1U, bag);
  }
  return found;
}

void step_judge::add(logged_step step)
{
  std::size_t const gpus = sum_of(gpus_of(step));
  gpus_ = std::max(gpus_, gpus);
  planned_time_ += step_times(step).makespan * static_cast<double>(gpus);
  planned_lost_ += wasted_by_plan(step);
  if (!step.measured.empty() && std::ranges::max(step.measured) > 0) {
    auto const weights = weights_of_ranks(step);
    std::vector<double> seconds;
    for (std::int64_t const each : step.measured) {
      seconds.push_back(static_cast<double>(each) * 1e-9);
    }
    double const stretch = step.bag_of_rank().empty() ? 1 : stretch_of(step);
    double const all = std::accumulate(weights.begin(), weights.end(), 0.0);
    measured_time_ += std::ranges::max(seconds) * stretch * all;
    measured_lost_ += waiting_of(seconds, weights, stretch);
  }
  if (seen_++ % stride_ == 0) {
    kept_.push_back(std::move(step));
    if (kept_.size() > most_kept) {
      stride_ *= 2;
      for (std::size_t at = 0; at * 2 < kept_.size(); ++at) {
        if (at > 0) { kept_[at] = std::move(kept_[at * 2]); }
      }
      kept_.resize((kept_.size() + 1) / 2);
    }
  }
}

pages::verdict step_judge::verdict() const
{
  if (seen_ == 0) { return {}; }
  auto const factors = factors_of(kept_);
  auto const slow = clear_factors(factors);
  auto const fitted = fit_of(kept_, slow);
  bool const is_measured = measured_time_ > 0;
  shares lost{};
  double time = 0;  // that the shares are of
  plan_loss advice;
  std::size_t long_steps = 0;
  std::size_t judged = 0;
  logged_step const* capped = nullptr;
  logged_step const* counted = nullptr;
  for (logged_step const& step : kept_) {
    rank_times const own(step, slow);
    if (is_measured && own.seconds_per_unit <= 0) { continue; }
    ++judged;
    plan_loss const plan = lost_by_plan(step);
    double const in_plan = std::accumulate(plan.of.begin(), plan.of.end(), 0.0);
    double const wasted = wasted_by_plan(step);
    double unit = 1;
    if (is_measured) {
      double const stretch = stretch_of(step);
      unit = own.seconds_per_unit;
      double const planned = wasted * unit;
      double const with_slow = own.foreseen(slow, stretch);
      double const measured = waiting_of(own.measured, own.weights, stretch);
      double const with_fit =
          fitted ? rank_times(step, slow, fitted).foreseen(slow, stretch) : with_slow;
      lost[slow_rank] += with_slow - planned;
      lost[wrong_cost] += with_fit - with_slow;
      lost[scatter] += measured - with_slow;
      double const all = std::accumulate(own.weights.begin(), own.weights.end(), 0.0);
      time += std::ranges::max(own.measured) * stretch * all;
    } else {
      time += step_times(step).makespan * static_cast<double>(sum_of(gpus_of(step)));
    }
    for (std::size_t each = 0; each <= other_plan && in_plan > 0; ++each) {
      lost[each] += plan.of[each] / in_plan * wasted * unit;
    }
    if (plan.of[long_sample] > next_to_nothing) {
      ++long_steps;
      advice.splits = std::max(advice.splits, plan.splits);
      if (advice.split_from == 0 || plan.split_from < advice.split_from) {
        advice.split_from = plan.split_from;
      }
    }
    advice.enough_per_gpu = std::max(advice.enough_per_gpu, plan.enough_per_gpu);
    advice.of[other_plan] = std::max(advice.of[other_plan], plan.of[other_plan]);
    if (plan.of[cap] > 0 && capped == nullptr) { capped = &step; }
    if (plan.of[equal_counts] > 0 && counted == nullptr) { counted = &step; }
  }
  double const foreseen = std::clamp(lost[wrong_cost], 0.0, std::max(lost[scatter], 0.0));
  lost[scatter] -= foreseen;
  lost[wrong_cost] = foreseen;
  for (double& each : lost) { each = time > 0 ? std::max(each / time, 0.0) : 0; }

  double const share = is_measured ? measured_lost_ / measured_time_
                                   : (planned_time_ > 0 ? planned_lost_ / planned_time_ : 0);
  std::vector<pages::loss> losses;
  auto const add = [&](reason why, std::string what, std::string remedy) {
    losses.push_back({lost[why], std::move(what), std::move(remedy)});
  };
  std::size_t largest_bag = 1;
  for (logged_step const& step : kept_) {
    auto const sizes = gpus_of(step);
    largest_bag = std::max<std::size_t>(largest_bag, std::ranges::max(sizes));
  }
  add(long_sample,
      fmt::format("One sample alone is too long for {}, in {} of {} steps.",
                  largest_bag == 1 ? "a GPU" : "any bag", long_steps, judged),
      fmt::format("Use bags of {} GPUs for samples of {} tokens or more.",
                  static_cast<std::size_t>(advice.splits) * largest_bag, advice.split_from));
  add(few_samples, "The samples of a step are too few to be dealt evenly, in any plan.",
      "Take more samples for each step.");
  if (capped != nullptr) {
    std::string remedy = "Raise most_per_gpu, or give each rank more microbatches.";
    if (advice.enough_per_gpu > capped->most_per_gpu) {
      remedy = fmt::format("Raise most_per_gpu to {}, if memory allows it.", advice.enough_per_gpu);
    }
    add(cap,
        fmt::format("The cap most_per_gpu = {} keeps work on GPUs that have most of it.",
                    capped->most_per_gpu),
        std::move(remedy));
  }
  if (counted != nullptr) {
    std::string const rule = rule_text(counted->samples);
    add(equal_counts,
        fmt::format("The rule samples = {} keeps GPUs from having as much work as others.", rule),
        fmt::format("Drop the rule {}, and weigh each gradient by its tokens.", rule));
  }
  add(other_plan,
      fmt::format("A plan by the default policy with the same cap and counts is up to {} shorter.",
                  share_text(advice.of[other_plan])),
      "Leave the policy out; if it was left out, look at together, apart, fits and mixes.");
  add(slow_rank, slow_text(slow),
      "Look at its GPU (clocks, heat, what else runs there); if it stays so, tell the plan its "
      "speed.");
  auto const errors = prediction();
  add(wrong_cost,
      fmt::format("The costs do not predict the times: their median error is {}, that of a cost "
                  "fitted to this log {}.",
                  share_text(errors.median_error), share_text(errors.fitted_error)),
      "Fit the cost: ballast report LOG --times times.csv, then ballast plan --cost "
      "transformer:d=WIDTH --measured times.csv.");
  add(scatter, "The ranks take now more, now less time for the same work, whatever the lengths.",
      "Look at what runs beside the steps, as loading data, saving, or other jobs on the nodes.");
  bool const in_hours = measured_time_ >= 360;
  double const unit = in_hours ? 3600 : 1;
  std::string const behind =
      is_measured ? fmt::format(", {:.3g} of {:.3g} GPU {}, as measured", measured_lost_ / unit,
                                measured_time_ / unit, in_hours ? "hours" : "seconds")
                  : " by the plans; nothing was measured";
  return told(share, count_of(gpus_, "GPU"), behind, std::move(losses));
}

pages::prediction step_judge::prediction() const
{
  pages::prediction made;
  auto const factors = factors_of(kept_);
  auto const fitted = fit_of(kept_, clear_factors(factors));
  std::vector<pages::prediction::point> all;
  std::vector<double> ratios;
  std::vector<double> fit_errors;
  for (logged_step const& step : kept_) {
    rank_times const own(step);
    if (own.seconds_per_unit <= 0) { continue; }
    ++made.steps;
    auto const work = work_of(step);
    auto const bag_of = step.bag_of_rank();
    for (std::size_t rank = 0; rank < own.planned.size(); ++rank) {
      if (own.planned[rank] <= 0 || own.measured[rank] <= 0) { continue; }
      all.push_back({rank, step.step, own.planned[rank], own.measured[rank]});
      ratios.push_back(own.measured[rank] / own.planned[rank]);
      if (fitted && work[bag_of[rank]].length_sum > 0) {
        double const says = fitted->seconds(token_terms, work[bag_of[rank]]);
        fit_errors.push_back(std::abs(says / own.measured[rank] - 1));
      }
    }
  }
  double const seconds = median_of(ratios);
  std::vector<std::vector<double>> errors(factors.size());
  std::vector<double> every;
  made.ranks.resize(factors.size());
  double x = 0;
  double y = 0;
  for (auto& each : all) {
    each.planned *= seconds;
    x += each.planned / static_cast<double>(all.size());
    y += each.measured / static_cast<double>(all.size());
    every.push_back(std::abs(each.planned / each.measured - 1));
    errors[each.rank].push_back(every.back());
    made.ranks[each.rank].planned += each.planned;
    made.ranks[each.rank].measured += each.measured;
  }
  double xx = 0;
  double xy = 0;
  double yy = 0;
  for (auto const& each : all) {
    xx += (each.planned - x) * (each.planned - x);
    xy += (each.planned - x) * (each.measured - y);
    yy += (each.measured - y) * (each.measured - y);
  }
  made.correlation = xx > 0 && yy > 0 ? xy / std::sqrt(xx * yy) : 0;
  made.median_error = median_of(every);
  made.fitted_error = median_of(fit_errors);
  for (std::size_t rank = 0; rank < made.ranks.size(); ++rank) {
    auto const count = static_cast<double>(std::max<std::size_t>(errors[rank].size(), 1));
    made.ranks[rank].planned /= count;
    made.ranks[rank].measured /= count;
    made.ranks[rank].factor = factors[rank];
    made.ranks[rank].error = median_of(errors[rank]);
  }
  constexpr std::size_t most_points = 2000;
  std::size_t const count = std::min(all.size(), most_points);
  for (std::size_t at = 0; at < count; ++at) {
    made.points.push_back(all[at * all.size() / count]);
  }
  return made;
}

std::optional<pipeline_judge::parts> pipeline_judge::parts_of(std::span<step_log::task const> tasks,
                                                              bool simulated, std::size_t& busiest)
{
  struct rank {
    double busy = 0;
    std::uint32_t first_stage = ~0U;
    std::uint32_t last_stage = 0;
  };
  std::vector<rank> ranks;
  double end = 0;
  bool has_backward = false;
  std::map<std::tuple<bool, std::uint32_t, std::uint32_t>, double>
      takes;  // pass, microbatch, stage
  for (step_log::task const& task : tasks) {
    ranks.resize(std::max<std::size_t>(ranks.size(), task.rank + std::size_t{1}));
    double const stops = static_cast<double>(simulated ? task.simulated_end : task.end);
    double const own = stops - static_cast<double>(simulated ? task.simulated_start : task.start);
    rank& of = ranks[task.rank];
    of.busy += own;
    of.first_stage = std::min(of.first_stage, task.stage);
    of.last_stage = std::max(of.last_stage, task.stage);
    end = std::max(end, stops);
    has_backward = has_backward || task.is_backward;
    takes[{task.is_backward, task.microbatch, task.stage}] += own;
  }
  if (end <= 0) { return std::nullopt; }
  // The least time of any microbatch in the stages before a rank's, or behind them.
  auto const least_of = [&](bool backward, auto const& is_counted) {
    std::map<std::uint32_t, double> sums;
    for (auto const& [key, time] : takes) {
      auto const [pass, microbatch, stage] = key;
      if (pass == backward) { sums[microbatch] += is_counted(stage) ? time : 0; }
    }
    double least = end;
    for (auto const& [microbatch, sum] : sums) { least = std::min(least, sum); }
    return sums.empty() ? 0 : least;
  };
  double bound = 0;
  double busy = 0;
  double most = 0;
  for (std::size_t at = 0; at < ranks.size(); ++at) {
    rank const& own = ranks[at];
    busy += own.busy;
    if (own.busy > most) { busiest = at; }
    most = std::max(most, own.busy);
    auto const before = [&own](std::uint32_t stage) { return stage < own.first_stage; };
    auto const behind = [&own](std::uint32_t stage) { return stage > own.last_stage; };
    double const head = least_of(false, before);
    double const tail = has_backward ? least_of(true, before) : least_of(false, behind);
    if (own.busy > 0) { bound = std::max(bound, head + own.busy + tail); }
  }
  bound = std::min(bound, end);
  most = std::min(most, bound);
  auto const count = static_cast<double>(ranks.size());
  return parts{count * end, count * (end - bound), count * (bound - most), count * most - busy};
}

void pipeline_judge::add(std::span<step_log::task const> tasks)
{
  std::size_t busiest = 0;
  auto const own = parts_of(tasks, false, busiest);
  if (!own) { return; }
  ++steps_;
  for (step_log::task const& task : tasks) {
    ranks_ = std::max<std::size_t>(ranks_, task.rank + std::size_t{1});
  }
  busiest_.resize(std::max(busiest_.size(), ranks_), 0);
  ++busiest_[busiest];
  double bubbles = own->order;
  if (auto const planned = parts_of(tasks, true, busiest)) {
    bubbles = std::min(bubbles, planned->order / planned->time * own->time);
  }
  unplanned_ += own->order - bubbles;
  sum_.time += own->time;
  sum_.order += bubbles;
  sum_.filling += own->filling;
  sum_.uneven += own->uneven;
}

pages::verdict pipeline_judge::verdict() const
{
  if (steps_ == 0) { return {}; }
  auto const most = static_cast<std::size_t>(std::ranges::max_element(busiest_) - busiest_.begin());
  std::vector<pages::loss> losses = {
      {sum_.order / sum_.time,
       "The order of the microbatches leaves bubbles that no bound asks for.",
       "Order the microbatches of each step: order_microbatches(), or ballast pipeline."},
      {unplanned_ / sum_.time, "Tasks took other times than simulated, and others waited for them.",
       "Measure the stages again: ballast profile; order by these times."},
      {sum_.filling / sum_.time, "The pipeline fills and drains, whatever the order.",
       "Give each step more microbatches, or each rank several stages."},
      {sum_.uneven / sum_.time,
       fmt::format("The stages are uneven: rank {} has most to do, in {} of {} steps.", most,
                   busiest_[most], steps_),
       fmt::format("Move layers away from rank {}: ballast search.", most)}};
  double const share = (sum_.order + unplanned_ + sum_.filling + sum_.uneven) / sum_.time;
  return told(share, count_of(ranks_, "rank") + " of the pipeline", "", std::move(losses));
}

}  // namespace cli
