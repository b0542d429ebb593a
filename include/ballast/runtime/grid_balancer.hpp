// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_RUNTIME_GRID_BALANCER_HPP
#define BALLAST_RUNTIME_GRID_BALANCER_HPP

#include <ballast/comm/communicator.hpp>
#include <ballast/core/contract.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/core/random.hpp>
#include <ballast/core/result.hpp>
#include <ballast/partition/grid/grid_plan.hpp>
#include <ballast/route/head_array.hpp>
#include <ballast/route/placement.hpp>
#include <ballast/route/route.hpp>
#include <ballast/route/route_plan.hpp>
#include <ballast/route/row_array.hpp>
#include <ballast/route/ulysses.hpp>
#include <ballast/runtime/detail/bag_steps.hpp>
#include <ballast/runtime/detail/grid_of_samples.hpp>
#include <ballast/runtime/detail/slot_routes.hpp>
#include <ballast/runtime/grid_step_options.hpp>
#include <ballast/topology/bag_layout.hpp>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace ballast::inline v0 {

/// What `step_balancer` is for trainers that compute a step at once, for those that accumulate
/// gradients over several microbatches: it plans them all, and moves those of one slot at a time.
///
///     grid_balancer balancer(comm, bags, cost, refine_grid{}, {.grid = {.most_weight = 16'384}});
///     if (auto planned = balancer.plan(lengths); !planned) ...       // every step
///     for (std::size_t slot = 0; slot < balancer.microbatches(); ++slot) {
///       balancer.route(slot, rows_of(x, x_there, width));            // rows_computed(slot) of
///       them ... losses times balancer.loss_weight(), gradients added up ...
///       balancer.reverse_route(slot, rows_of(y_there, y, width));    // and home again
///     }
///
/// Every rank has as many slots. Where a cell is empty, the rank calls the same functions with no
/// rows, and computes a dummy if the model has collectives of its own. The arrays of what was read
/// have a row for each token of all samples of the rank, in the order in which they were read:
/// every slot reads and writes the rows of its samples and no others.
///
/// Where cells are padded batches, padded_grid_options take the place of the policy, and the cost
/// is that of one sample padded to a source and a target. The model pads what it gets.
///
/// Ranks may have several GPUs, as in step_balancer.
///
/// Expects     every rank makes it with the same bags, cost, policy and options, and calls its
///             functions in the same order; comm outlives it. cost returns an integer.
///             options.length_of is given unless samples are numbers. One thread at a time.
/// Ensures     (1) all ranks have the same plan, compared before a byte moves: that of
///                 partition_grid, or of pad_grid, over the gathered samples, a rank of the grid
///                 being a bag
///             (2) after all slots each row read was sent and came back once
///             (3) the losses of all tokens times loss_weight() add up to the mean loss of the
///                 whole batch, and so do gradients, also where a bag splits samples unevenly.
///                 loss_weight(slot, local) of all GPUs and slots add up to 1, or are 0 where no
///                 token has a loss, and mean losses of GPUs times these to the same mean
///             (4) a step that cannot be planned is an error on every rank; the balancer can be
///                 used again
///             (5) a step no larger than those before, with no more slots, allocates nothing, but
///                 for pad_grid
/// Errors      plan: those of gather_samples_into and partition_grid_into or pad_grid; out_of_range
///             where the bags have not as many GPUs as the job, or differ in size, or a length or a
///             number of tokens with a loss is out of range; infeasible where a sample has fewer
///             tokens than a bag has GPUs. mismatch, as in step_balancer. All else: those of the
///             communicator.
/// Complexity  plan: two all_gather, the policy, O(samples + pieces + K (ranks + 1)).
template <class Cost, class Policy, splitting_communicator Communicator, class Sample = tokens>
  requires detail::cell_planner<Policy, Cost, Sample>
class grid_balancer : public detail::bag_steps<Communicator, Sample, grid_step_options<Sample>> {
  using steps = detail::bag_steps<Communicator, Sample, grid_step_options<Sample>>;

 public:
  grid_balancer(Communicator& group, bag_layout layout, Cost own_cost, Policy own_policy,
                grid_step_options<Sample> chosen = {})
      : steps(group, std::move(layout), chosen),
        cost_(std::move(own_cost)),
        policy_(std::move(own_policy))
  {}

  /// Plans the step for which this rank has read these samples. Collective.
  [[nodiscard]] result<void> plan(std::span<Sample const> read)
  {
    return plan_as(read, [this] {
      homes_.clear();
      for (rank_id const source : all_.source) {
        if (options_.homes) { homes_.push_back(to_id<rank_id>(to_index(bags_.bag_of(source)))); }
      }
      return grid_(planned_, memory_, detail::span_of(all_.samples), bags_.size(), options_,
                   detail::span_of(homes_), policy_, cost_);
    });
  }

  /// The same, with the grid that a grid_planner made ahead for what all ranks have now read, rank
  /// after rank, or with why there is none, as online_scheduler::take() returns it. So a rank whose
  /// thread threw is an error on every rank.
  ///
  /// Errors      those of plan(); mismatch: it was made for other samples or another number of
  ///             bags.
  [[nodiscard]] result<void> plan(std::span<Sample const> read,
                                  result<grid_plan const*> const& ahead)
  {
    return plan_as(read, [this, &ahead]() -> result<void> {
      if (!ahead) { return tl::unexpected(ahead.error()); }
      auto checked = detail::check_planned_ahead(**ahead, detail::span_of(all_.samples),
                                                 bags_.size(), options_);
      if (checked) { planned_ = **ahead; }
      return checked;
    });
  }

  /// Moves the rows of a slot's samples from where they were read to where they are computed, all
  /// arrays in one exchange: each from[rows_read()], to[rows_computed(slot)] rows. Collective.
  template <std::same_as<row_array>... Arrays>
  [[nodiscard]] result<void> route(std::size_t slot, Arrays const&... arrays)
  {
    return ballast::route(comm_, at(slot).to_compute, memory_, arrays...);
  }

  /// Moves them back: each from[rows_computed(slot)], to[rows_read()] rows, of which it writes
  /// those of this slot.
  template <std::same_as<row_array>... Arrays>
  [[nodiscard]] result<void> reverse_route(std::size_t slot, Arrays const&... arrays)
  {
    return ballast::reverse_route(comm_, at(slot).to_compute, memory_, arrays...);
  }

  /// Before attention in a bag, and after it, as for step_balancer. Collective in the bag.
  template <std::same_as<head_array>... Arrays>
  [[nodiscard]] result<void> to_heads(std::size_t slot, Arrays const&... arrays)
  {
    return ballast::to_heads(bag_comm(), heads(slot), memory_, arrays...);
  }
  template <std::same_as<head_array>... Arrays>
  [[nodiscard]] result<void> to_tokens(std::size_t slot, Arrays const&... arrays)
  {
    return ballast::to_tokens(bag_comm(), heads(slot), memory_, arrays...);
  }

  using steps::bag;
  using steps::bag_comm;
  using steps::bags;
  using steps::comm;
  using steps::loss_weight;
  using steps::options;
  using steps::samples;

  // What follows is of the step that was planned last, and overwritten by the next plan().

  /// Of every rank.
  [[nodiscard]] std::size_t microbatches() const { return planned().microbatches; }
  /// Which bag computes what in which slot, and how good that is; a rank of it is a bag.
  [[nodiscard]] grid_plan const& planned() const { return expect_plan(), planned_; }
  /// Where the tokens of all samples lie before a route.
  [[nodiscard]] placement const& as_read() const { return expect_plan(), slots_.as_read(); }
  /// Rows of this rank's arrays before a route, and after that of a slot.
  [[nodiscard]] std::size_t rows_read() const
  {
    return static_cast<std::size_t>(as_read().rows(comm_.rank()));
  }
  [[nodiscard]] std::size_t rows_computed(std::size_t slot) const
  {
    return static_cast<std::size_t>(at(slot).to_compute.rows_after);
  }
  /// Those of one of this rank's GPUs, which lie behind those of the GPU before.
  [[nodiscard]] row_range rows_of_gpu(std::size_t slot, std::uint32_t local) const
  {
    return this->gpus().rows(bags_, detail::span_of(at(slot).heads), local);
  }

  // Of the bag of this rank, or of one of its GPUs:

  /// Whether it computes no sample in a slot.
  [[nodiscard]] bool is_dummy(std::size_t slot, std::uint32_t local = 0) const
  {
    return microbatch(slot, local).empty();
  }
  /// The samples that it computes in a slot, in the order of its rows.
  [[nodiscard]] std::span<sample_id const> microbatch(std::size_t slot,
                                                      std::uint32_t local = 0) const
  {
    return planned().microbatch(to_id<rank_id>(to_index(bag(local))), slot);
  }
  /// Their lengths.
  [[nodiscard]] std::span<tokens const> lengths(std::size_t slot, std::uint32_t local = 0) const
  {
    return at(slot).heads[this->gpus().checked(local)].lengths();
  }
  /// What the mean loss of this rank in a slot, or of one of its GPUs, counts in the step: the mean
  /// over its rows, or, in bags of one GPU, over those of its tokens that have a loss.
  ///
  /// Expects  options.loss_tokens_of is null, or bags have one GPU: it does not say which tokens
  ///          have a loss, so how many of them a GPU has is not known. Multiply the sum of its
  ///          losses by loss_weight().
  [[nodiscard]] double loss_weight(std::size_t slot, std::uint32_t local = 0) const
  {
    tokens own = rows_of_gpu(slot, local).count;
    if (options_.loss_tokens_of != nullptr) {
      BALLAST_EXPECTS(bags_[bag(local)].gpus == 1,
                      "options.loss_tokens_of does not say which rows have a loss, and a bag has ",
                      bags_[bag(local)].gpus,
                      " GPUs; multiply the sum of a GPU's losses by loss_weight(), without a slot");
      own = 0;
      for (sample_id const sample : microbatch(slot, local)) {
        own += this->loss_tokens_of(all_.samples[to_index(sample)]);
      }
    }
    return own == 0 ? 0.0 : static_cast<double>(own) / static_cast<double>(loss_tokens_);
  }
  /// Which of its tokens and heads each of its GPUs has in a slot.
  [[nodiscard]] ulysses_plan const& heads(std::size_t slot, std::uint32_t local = 0) const
  {
    expect_heads();
    return at(slot).heads[this->gpus().checked(local)];
  }

 private:
  using steps::all_;
  using steps::bags_;
  using steps::comm_;
  using steps::expect_heads;
  using steps::expect_plan;
  using steps::loss_tokens_;
  using steps::memory_;
  using steps::options_;

  template <class PlanGrid>
  [[nodiscard]] result<void> plan_as(std::span<Sample const> read, PlanGrid const& plan_grid)
  {
    return this->plan_step(
        read, [&] { return make_plan(plan_grid); }, [this] { return word_of_plan(); });
  }

  template <class PlanGrid>
  [[nodiscard]] result<void> make_plan(PlanGrid const& plan_grid)
  {
    if (auto checked = this->check_bags(); !checked) { return checked; }
    if (auto checked = detail::check_equal_bags(bags_); !checked) { return checked; }
    lengths_.clear();
    for (Sample const& sample : all_.samples) {
      tokens const length = options_.length_of(sample);
      auto checked = detail::check_routed_sample(lengths_.size(), length, bags_);
      if (!checked) { return checked; }
      lengths_.push_back(length);
    }
    if (auto checked = this->count_loss_tokens(); !checked) { return checked; }
    if (auto done = plan_grid(); !done) { return done; }
    slots_.assign(planned_, bags_, detail::span_of(lengths_), detail::span_of(all_.source),
                  this->gpus(), std::max(options_.query_heads, 1U), options_.kv_heads);
    return {};
  }

  [[nodiscard]] std::uint64_t word_of_plan() const
  {
    digest all;
    all.add(planned_.digest()).add(bags_.digest()).add(options_.query_heads).add(options_.kv_heads);
    all.add(detail::span_of(lengths_));
    if (options_.loss_tokens_of != nullptr) {
      for (Sample const& each : all_.samples) {
        all.add(static_cast<std::uint64_t>(options_.loss_tokens_of(each)));
      }
    }
    return all.value();
  }

  [[nodiscard]] detail::slot_route const& at(std::size_t slot) const
  {
    expect_plan();
    BALLAST_EXPECTS(slot < planned_.microbatches, "slot ", slot, " of ", planned_.microbatches);
    return slots_[slot];
  }

  Cost cost_;
  Policy policy_;

  // Kept from step to step.
  std::vector<tokens> lengths_;
  detail::grid_of_samples<Sample> grid_;
  std::vector<rank_id> homes_;
  grid_plan planned_;
  detail::slot_routes slots_;
};

}  // namespace ballast::inline v0

#endif  // BALLAST_RUNTIME_GRID_BALANCER_HPP
