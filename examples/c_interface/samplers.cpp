// SPDX-License-Identifier: Apache-2.0
#include "planner.hpp"

#include <ballast/core.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>

namespace c_interface {
namespace {

result<void> set_up_sampler(ballast_planner& planner, ballast_sampler_options const& options)
{
  constexpr std::size_t most = std::size_t{1} << 32;
  bool const fills_none = options.drop_last != 0 && options.samples < options.step_samples;
  if (options.samples == 0 || options.samples > most || options.step_samples == 0 || fills_none) {
    return fail(error_code::out_of_range, 0, options.samples, " samples fill no step of ",
                options.step_samples, "; give from 1 to 2^32 samples, and a step no larger than ",
                "all of them, or keep the last step");
  }
  auto const lengths = optional_array(options.lengths, options.samples);
  for (std::size_t sample = 0; sample < lengths.size(); ++sample) {
    if (lengths[sample] < 0) {
      return fail(error_code::out_of_range, sample, "sample ", sample, " has a length of ",
                  lengths[sample], "; give one from 0 on");
    }
  }
  sampler_job& job = planner.sampler.emplace();
  job.lengths.assign(lengths.begin(), lengths.end());
  job.samples = options.samples;
  job.step_samples = std::min(options.step_samples, options.samples);
  job.seed = options.seed;
  job.shuffles = options.in_order == 0;
  job.drops_last = options.drop_last != 0;
  std::uint64_t const made_by = ballast::digest{}
                                    .add(std::uint64_t{options.samples})
                                    .add(std::uint64_t{options.step_samples})
                                    .add(job.seed)
                                    .add(std::uint64_t{job.shuffles})
                                    .add(std::uint64_t{job.drops_last})
                                    .add(lengths)
                                    .value();
  job.made_by = made_by == 0 ? 1 : made_by;
  return {};
}

void begin_epoch(sampler_job& job, std::uint64_t epoch)
{
  if (job.epoch == epoch && !job.order.empty()) { return; }
  job.epoch = epoch;
  job.order.resize(job.samples);
  std::iota(job.order.begin(), job.order.end(), std::int64_t{0});
  constexpr std::uint64_t epochs = 1'000'003;  // seeds of which share no order
  ballast::random_source random(job.seed * epochs + epoch);
  if (job.shuffles) { random.shuffle(std::span(job.order)); }
}

result<ballast_draw> draw_step(ballast_planner& planner, ballast_draw_step const& step)
{
  if (!planner.sampler) { return not_set_up("ballast_set_up_sampler"); }
  sampler_job& job = *planner.sampler;
  std::size_t const more = job.drops_last ? 0 : job.step_samples - 1;
  std::size_t const steps = (job.samples + more) / job.step_samples;
  if (step.made_by != 0 && step.made_by != job.made_by) {
    return fail(error_code::mismatch, 0, "the state was made by a sampler with the digest ",
                step.made_by, ", and this one has ", job.made_by,
                "; give the same lengths, step_samples, seed, in_order and drop_last");
  }
  if (step.step >= steps) {
    return fail(error_code::out_of_range, static_cast<std::size_t>(step.step), "there is no step ",
                step.step, " of an epoch of ", steps,
                "; give one below, or go on with the next epoch");
  }
  begin_epoch(job, step.epoch);
  std::size_t const begin = static_cast<std::size_t>(step.step) * job.step_samples;
  std::size_t const count = std::min(job.step_samples, job.samples - begin);
  job.drawn_lengths.clear();
  for (std::size_t at = begin; at < begin + count && !job.lengths.empty(); ++at) {
    job.drawn_lengths.push_back(job.lengths[static_cast<std::size_t>(job.order[at])]);
  }
  bool const is_last = step.step + 1 == steps;
  ballast_draw found{};
  found.steps = steps;
  found.samples = count;
  found.sample = job.order.data() + begin;
  found.lengths = job.lengths.empty() ? nullptr : job.drawn_lengths.data();
  found.next_epoch = step.epoch + (is_last ? 1 : 0);
  found.next_step = is_last ? 0 : step.step + 1;
  found.made_by = job.made_by;
  return found;
}

}  // namespace
}  // namespace c_interface

int ballast_set_up_sampler(ballast_planner* planner, ballast_sampler_options const* options)
{
  return c_interface::set_up(planner, options, c_interface::set_up_sampler);
}

int ballast_draw_samples(ballast_planner* planner, ballast_draw_step const* step,
                         ballast_draw* draw)
{
  return c_interface::answer(planner, step, draw, c_interface::draw_step);
}
