// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "job.hpp"
#include "output.hpp"
#include "progress.hpp"

#include <ballast/core.hpp>
#include <ballast/partition/partition.hpp>
#include <ballast/partition/partition_plan.hpp>
#include <ballast/partition/placement_limits.hpp>
#include <ballast/route/node_placement.hpp>
#include <ballast/route/placement.hpp>
#include <ballast/topology/bag_layout.hpp>
#include <ballast/workload/sample_batch.hpp>

#include <fmt/format.h>

#include <chrono>
#include <variant>

namespace cli {

/// Where the samples of the steps come from; the same job gives the same steps again.
class step_source {
 public:
  explicit step_source(job const& work)
      : step_source(work, work.options.seed, !work.options.no_shuffle)
  {}
  step_source(job const& work, std::uint64_t seed, bool shuffled = true)
      : gpus_(work.gpus()), from_(start(work, seed, shuffled))
  {}

  [[nodiscard]] ballast::result<void> next_into(ballast::sample_batch& out)
  {
    if (auto* const codes = std::get_if<from_codes>(&from_)) {
      return ballast::draw_batch(out, codes->codes, gpus_, {}, codes->random);
    }
    std::get<ballast::batch_sampler>(from_).next_into(out);
    return {};
  }

 private:
  struct from_codes {
    std::vector<ballast::data_code> codes;
    ballast::random_source random;
  };
  using kind = std::variant<from_codes, ballast::batch_sampler>;

  static kind start(job const& work, std::uint64_t seed, bool shuffled)
  {
    if (!work.codes.empty()) { return from_codes{work.codes, ballast::random_source(seed)}; }
    return shuffled ? ballast::batch_sampler(work.trace, work.options.batch, work.gpus(), seed)
                    : ballast::batch_sampler::in_order(work.trace, work.options.batch, work.gpus());
  }

  std::size_t gpus_;
  kind from_;
};

struct planned_step {
  std::size_t index;
  ballast::sample_batch const& batch;
  ballast::partition_plan const& plan;
  double plan_seconds;
  std::span<ballast::bag_id const> owner_before =
      {};  ///< equal bags changed places; empty: did not
};

/// Why partition() refused a step; a short sample is admitted by an option, not by a call.
inline std::string refusal(ballast::bag_layout const& bags, ballast::sample_batch const& batch,
                           ballast::error const& why)
{
  bool const is_short = why.code == ballast::error_code::infeasible &&
                        why.position < batch.lengths.size() &&
                        bags.is_short(batch.lengths[why.position]) && !bags.admits_short_samples();
  if (!is_short) { return why.message; }
  return fmt::format(
      "sample {} of {} is shorter than the smallest bag, which has {} GPUs; add smaller bags, "
      "admit it by --short-samples admit, or leave it out",
      why.position, count_of(static_cast<std::size_t>(batch.lengths[why.position]), "token"),
      bags.smallest_bag());
}

/// What each sample of a step has in a table by row of the trace; nothing where there is none.
inline void values_of_rows(std::vector<std::int64_t>& values, ballast::sample_batch const& batch,
                           std::vector<std::int64_t> const& by_row)
{
  values.clear();
  if (by_row.empty()) { return; }
  for (std::uint32_t const row : batch.rows) { values.push_back(by_row[row]); }
}

/// The limits of one step after the other: those of the job, and what its samples have.
class step_limits {
 public:
  step_limits(job const& work, named_layout const& bags)
      : work_(work), bags_(bags), taken_(work.also.size())
  {}

  /// Expects     the step outlives what is returned, which the next call changes.
  [[nodiscard]] ballast::placement_limits of(ballast::sample_batch const& batch)
  {
    ballast::placement_limits limits = work_.limits;
    values_of_rows(together_, batch, work_.group_of_row);
    values_of_rows(apart_, batch, work_.apart_of_row);
    limits.together = together_;
    limits.apart = apart_;
    limits.home = batch.source;
    limits.starting_loads = bags_.starting_loads;
    if (!bags_.most.empty()) { limits.also.add({.most = bags_.most}); }
    for (std::size_t at = 0; at < work_.also.size(); ++at) {
      values_of_rows(taken_[at], batch, work_.also[at].of_row);
      limits.also.add({.of = taken_[at], .most_per_gpu = work_.also[at].most_per_gpu});
    }
    return limits;
  }

 private:
  job const& work_;
  named_layout const& bags_;
  std::vector<std::int64_t> together_;
  std::vector<std::int64_t> apart_;
  std::vector<std::vector<std::int64_t>> taken_;
};

/// Plans all steps over one layout and calls visit(planned_step) for each. Steps are drawn one by
/// one, so that their number costs no memory. Shows progress.
template <class Visit>
outcome<void> for_each_step(job const& work, named_layout const& bags, progress& shown,
                            Visit const& visit)
{
  step_source source(work);
  ballast::sample_batch batch;
  ballast::partition_plan plan;
  ballast::workspace memory;
  step_limits limits(work, bags);
  ballast::placement read;
  ballast::node_placement placed;
  std::vector<ballast::bag_id> owner_before;
  std::size_t const steps = work.options.steps;
  for (std::size_t step = 0; step < steps; ++step) {
    shown.update(
        [&] { return fmt::format("planning {}, step {} of {}", bags.bags, step + 1, steps); });
    if (auto const drawn = source.next_into(batch); !drawn) {
      return usage("--codes", drawn.error());
    }
    auto const own = limits.of(batch);
    auto const start = std::chrono::steady_clock::now();
    auto const done = ballast::partition_into(plan, memory, batch.lengths, bags.layout, work.cost,
                                              own, work.policy);
    if (done && work.options.place_by_node) {
      owner_before = plan.owner;
      ballast::place(read, batch.lengths, batch.source, work.gpus());
      auto const by_node =
          ballast::place_by_node(placed, memory, plan, read, bags.layout, work.machines);
      if (!by_node) { return bad_data(by_node.error().message); }
    }
    std::chrono::duration<double> const taken = std::chrono::steady_clock::now() - start;
    if (!done) {
      std::size_t const sample = done.error().position;
      std::string const row = sample < batch.rows.size()
                                  ? fmt::format(" (row {} of the trace)", batch.rows[sample] + 1)
                                  : "";
      return bad_data(fmt::format("step {}, bags {}: {}{}", step + 1, bags.bags,
                                  refusal(bags.layout, batch, done.error()), row));
    }
    visit(planned_step{step, batch, plan, taken.count(), owner_before});
  }
  return {};
}

}  // namespace cli
