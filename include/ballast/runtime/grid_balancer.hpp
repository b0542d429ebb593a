// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/partition/grid/partition_grid.hpp>
#include <ballast/partition/padded/pad_grid.hpp>
#include <ballast/runtime/scheduled_step.hpp>
#include <ballast/runtime/step_balancer.hpp>

#include <cstring>
#include <functional>

namespace ballast::inline v0 {

/// What a job that accumulates gradients says of its steps, once: the same on every rank.
///
///     grid_step_options<document>{.grid = {.multiple_of = stages},
///                                 .limits = {.most_per_gpu = 16'384},
///                                 .length_of = [](document const& d) { return d.length(); },
///                                 .loss_tokens_of = [](document const& d) { return d.answer; }}
///
/// The functions are pure, and null where there is nothing to say.
template <class Sample = tokens>
struct grid_step_options {
  /// How many microbatches there are, and when bags meet. Kinds come from the functions below.
  microbatches grid = {};
  /// What each cell keeps to: caps, counts and the rest. Arrays by sample come from the functions.
  placement_limits limits = {};
  /// How many tokens a bag splits; a sample that is a number is its own length.
  tokens (*length_of)(Sample const&) = detail::own_length<Sample>();
  /// What caps count that do not say what they are of; null: the length.
  std::int64_t (*weight_of)(Sample const&) = nullptr;
  /// Where cells are padded batches, the lengths that they pad; null: the length, of the source.
  padded_lengths (*padded_lengths_of)(Sample const&) = nullptr;
  /// How many of its tokens have a loss, as those of an answer; null: all.
  tokens (*loss_tokens_of)(Sample const&) = nullptr;
  /// Samples with the same key stay in one cell, as the answers to one prompt.
  std::int64_t (*together)(Sample const&) = nullptr;
  /// All samples of a slot have one key.
  std::int64_t (*kind_of)(Sample const&) = nullptr;
  /// Whether the rank that has read a sample is its home: of plans that are equally good, one that
  /// moves little is taken, and with limits.then = fewest_moves one that moves least.
  bool homes = false;
  /// Query heads of the model, for to_heads and to_tokens; 0: they are not called.
  std::uint32_t query_heads = 0;
  /// Key-value heads of the model, if groups of its attention stay whole (head_split); 0: not.
  std::uint32_t kv_heads = 0;
  /// GPUs of each rank, where ranks are processes that have several: bags are laid out over the
  /// GPUs, rank 0's first. More than 1 takes no homes, since a rank is home to all bags on its
  /// GPUs.
  std::uint32_t gpus_per_rank = 1;
  /// The most samples that a rank reads in a step.
  std::size_t most_samples = 256;
};

namespace detail {

/// What prices the cells of a step: samples, or padded lengths, where cells are padded batches.
template <class Cost, class Sample>
concept cell_cost = integer_function<Cost, Sample const&> || padded_cost<Cost>;

/// Calls partition_grid_into, or pad_grid, with what the functions of the options say of each
/// sample.
template <class Sample>
class grid_of_samples {
 public:
  /// Shapes      home[n], or empty.
  /// Complexity  that of partition_grid_into; no allocation after a step as large.
  template <integer_function<Sample const&> Cost>
  [[nodiscard]] result<void> operator()(grid_plan& plan, workspace& memory,
                                        std::span<Sample const> samples, bag_layout const& bags,
                                        grid_step_options<Sample> const& options,
                                        std::span<rank_id const> home, Cost const& cost)
  {
    read_into(groups_, samples, options.together);
    read_into(kinds_, samples, options.kind_of);
    read_into(weights_, samples, options.weight_of);
    microbatches grid = options.grid;
    grid.kinds = kinds_;
    placement_limits limits = options.limits;
    limits.together = groups_;
    limits.home = home;
    if (options.weight_of != nullptr) {
      limits.also = {};
      if (limits.most_per_gpu != no_limit) {
        limits.also.add({.of = weights_, .most_per_gpu = limits.most_per_gpu});
      }
      for (std::size_t at = 0; at < options.limits.also.size(); ++at) {
        limits.also.add(options.limits.also[at]);
        cap& last = limits.also[limits.also.size() - 1];
        if (last.of.empty()) { last.of = weights_; }
      }
      limits.most_per_gpu = no_limit;
    }
    return partition_grid_into(plan, memory, samples, bags, grid, cost, options.length_of, limits);
  }

  /// The same in padded batches: loads and what fills a cell are its number of samples times that
  /// of one of the longest lengths.
  ///
  /// Errors      those of pad_grid; out_of_range: the options ask for what it does not plan.
  template <padded_cost Cost>
    requires(!integer_function<Cost, Sample const&>)
  [[nodiscard]] result<void> operator()(grid_plan& plan, workspace& /*memory*/,
                                        std::span<Sample const> samples, bag_layout const& bags,
                                        grid_step_options<Sample> const& options,
                                        std::span<rank_id const> home, Cost const& cost)
  {
    if (options.together != nullptr || options.kind_of != nullptr || !home.empty()) {
      return fail(error_code::out_of_range, 0,
                  "padded batches know no together, kind_of or homes; leave these out");
    }
    lengths_.clear();
    for (Sample const& sample : samples) {
      lengths_.push_back(options.padded_lengths_of != nullptr
                             ? options.padded_lengths_of(sample)
                             : padded_lengths{options.length_of(sample), 0});
    }
    auto const tokens_of = [](tokens source, tokens target) { return source + target; };
    auto found = pad_grid(lengths_, bags, options.grid, cost, tokens_of, options.limits);
    if (!found) { return tl::unexpected(std::move(found).error()); }
    plan = *std::move(found);
    for (std::size_t sample = 0; sample < samples.size(); ++sample) {
      plan.weights[sample] = weight_of(options)(samples[sample]);
    }
    return {};
  }

  [[nodiscard]] static auto weight_of(grid_step_options<Sample> const& options)
      -> std::int64_t (*)(Sample const&)
  {
    return options.weight_of != nullptr ? options.weight_of : options.length_of;
  }

 private:
  std::vector<std::int64_t> groups_;
  std::vector<std::int64_t> kinds_;
  std::vector<std::int64_t> weights_;
  std::vector<padded_lengths> lengths_;
};

/// Why a grid that was planned ahead is not one of these samples, if so.
template <class Sample>
[[nodiscard]] result<void> check_planned_ahead(grid_plan const& plan,
                                               std::span<Sample const> samples, std::size_t ranks,
                                               grid_step_options<Sample> const& options)
{
  if (plan.ranks != ranks || plan.owner.size() != samples.size()) {
    return fail(error_code::mismatch, 0, "the grid was planned ahead for ",
                counted(plan.owner.size(), "sample"), " on ", counted(plan.ranks, "rank"),
                ", and all ranks have read ", samples.size(), " for ", counted(ranks, "bag"),
                "; plan it for what all ranks will have read, and for a rank of each bag");
  }
  auto const weight_of = grid_of_samples<Sample>::weight_of(options);
  placement_limits const& limits = options.limits;
  bool const is_rounded = limits.most_per_gpu == no_limit && limits.also.size() > 0;
  std::int64_t const multiple = is_rounded ? limits.also[0].rounded_to : 1;
  for (std::size_t sample = 0; sample < samples.size(); ++sample) {
    std::int64_t const weight = weight_of(samples[sample]);
    std::int64_t const planned = plan.weights[sample];
    if (weight < 0 || weight > planned || planned - weight >= multiple) {
      return fail(error_code::mismatch, sample, "the grid was planned ahead for a sample ", sample,
                  " of weight ", planned, ", and the one that was read has ", weight,
                  "; plan it for the samples of rank 0, then those of rank 1, and so on");
    }
  }
  return {};
}

/// What a rank sends and receives for a slot, and the heads of the bag of each of its GPUs.
struct slot_route {
  route_plan to_compute;
  std::vector<ulysses_plan> heads;
};

/// The routes of a grid plan whose ranks are bags: of each slot, from the arrays that hold all
/// samples as they were read to arrays that hold those of the slot alone.
class slot_routes {
 public:
  /// Expects     bags that take samples of these lengths; lengths[n], source[n].
  /// Complexity  O(samples + pieces + K ranks); no allocation after a step as large.
  void assign(grid_plan const& plan, bag_layout const& bags, std::span<tokens const> lengths,
              std::span<rank_id const> source, rank_gpus gpus, std::uint32_t query_heads,
              std::uint32_t kv_heads)
  {
    place_into(read_, lengths, source, bags.gpus() / gpus.each);
    if (slots_.size() < plan.microbatches) { slots_.resize(plan.microbatches); }
    by_slot_.fill(plan.microbatches, [&](auto const& visit) {
      for (std::size_t sample = 0; sample < lengths.size(); ++sample) {
        visit(to_index(plan.owner[sample]) / plan.ranks, to_id<sample_id>(sample));
      }
    });
    for (std::size_t slot = 0; slot < plan.microbatches; ++slot) {
      parts_.clear();
      slot_lengths_.clear();
      owners_.clear();
      for (sample_id const sample : by_slot_[slot]) {
        tokens const length = lengths[to_index(sample)];
        parts_.push_back({sample, 0, length});
        slot_lengths_.push_back(length);
        owners_.push_back(to_id<bag_id>(to_index(plan.owner[sample]) % plan.ranks));
      }
      place_parts_into(slot_read_, read_, span_of(parts_));
      place_into(slot_computed_, span_of(slot_lengths_), span_of(owners_), bags);
      placement const& there = gpus.over_ranks(slot_computed_, slot_joined_);
      plan_route_into(slots_[slot].to_compute, slot_read_, there, gpus.rank);
      slots_[slot].heads.resize(gpus.each);
      for (std::uint32_t local = 0; local < gpus.each; ++local) {
        bag_id const bag = bags.bag_of(gpus[local]);
        slots_[slot].heads[local].assign(lengths,
                                         plan.microbatch(to_id<rank_id>(to_index(bag)), slot),
                                         bags[bag].gpus, query_heads, kv_heads);
      }
    }
  }

  [[nodiscard]] slot_route const& operator[](std::size_t slot) const { return slots_[slot]; }
  [[nodiscard]] placement const& as_read() const noexcept { return read_; }

 private:
  placement read_;
  placement slot_read_;
  placement slot_computed_;
  placement slot_joined_;
  std::vector<slot_route> slots_;  // as many as any step had
  jagged<std::size_t, sample_id> by_slot_;
  std::vector<sample_part> parts_;
  std::vector<tokens> slot_lengths_;
  std::vector<bag_id> owners_;
};

/// Why a sample cannot be routed, if so.
[[nodiscard]] inline result<void> check_routed_sample(std::size_t sample, tokens length,
                                                      bag_layout const& bags)
{
  if (length < 0 || length > longest_sample) {
    return fail(error_code::out_of_range, sample, "sample ", sample, " of ",
                counted(length, "token"), " has a length that is not from 0 to ", longest_sample,
                "; correct it");
  }
  if (bags.is_short(length) && !bags.admits_short_samples()) {
    return fail(error_code::infeasible, sample, "sample ", sample, " of ", counted(length, "token"),
                " is shorter than the smallest bag, which has ",
                counted(bags.smallest_bag(), "GPU"), "; use smaller bags, or leave it out");
  }
  return {};
}

}  // namespace detail

/// What `step_balancer` is for trainers that compute a step at once, for those that accumulate
/// gradients over several microbatches: it plans them all, and moves those of one slot at a time.
///
///     grid_balancer balancer(comm, bags, cost, {.limits = {.most_per_gpu = 16'384}});
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
/// Where cells are padded batches, the cost is that of one sample padded to a source and a target. The
/// model pads what it gets.
///
/// Ranks may have several GPUs, as in step_balancer.
///
/// Expects     every rank makes it with the same bags, cost and options, and calls its functions in
///             the same order; comm outlives it. cost returns an integer.
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
///             where the bags have not as many GPUs as the job, or a length or a
///             number of tokens with a loss is out of range; infeasible where a sample has fewer
///             tokens than a bag has GPUs. mismatch, as in step_balancer. All else: those of the
///             communicator.
/// Complexity  plan: two all_gather, partition_grid_into, O(samples + pieces + K (ranks + 1)).
template <class Cost, splitting_communicator Communicator, class Sample = tokens>
  requires detail::cell_cost<Cost, Sample>
class grid_balancer : public detail::bag_steps<Communicator, Sample, grid_step_options<Sample>> {
  using steps = detail::bag_steps<Communicator, Sample, grid_step_options<Sample>>;

 public:
  grid_balancer(Communicator& group, bag_layout layout, Cost own_cost,
                grid_step_options<Sample> chosen = {})
      : steps(group, std::move(layout), chosen), cost_(std::move(own_cost))
  {}

  /// Plans the step for which this rank has read these samples. Collective.
  [[nodiscard]] result<void> plan(std::span<Sample const> read)
  {
    return plan_as(read, [this] {
      homes_.clear();
      if (options_.homes) { homes_.assign(all_.source.begin(), all_.source.end()); }
      return grid_(planned_, memory_, detail::span_of(all_.samples), bags_, options_,
                   detail::span_of(homes_), cost_);
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

  // Kept from step to step.
  std::vector<tokens> lengths_;
  detail::grid_of_samples<Sample> grid_;
  std::vector<rank_id> homes_;
  grid_plan planned_;
  detail::slot_routes slots_;
};

namespace detail {

/// How many sizes make a sample that an online_scheduler can be given; 0: it is none.
template <class Sample>
inline constexpr std::size_t sizes_of_sample = 0;
template <>
inline constexpr std::size_t sizes_of_sample<tokens> = 1;
template <std::size_t D>
inline constexpr std::size_t sizes_of_sample<std::array<tokens, D>> = D;

}  // namespace detail

/// Plans grids for an `online_scheduler`, which has the next step's ready when the present one
/// ends; `grid_balancer` carries it out.
///
///     online_scheduler next(grid_planner(bags, cost, options));
///     next.submit(lengths_of_all_ranks(0));
///     for (std::size_t step = 0;; ++step) {
///       auto const grid = next.take();
///       next.submit(lengths_of_all_ranks(step + 1));
///       if (auto planned = balancer.plan(read, grid); !planned) ...
///
/// Shapes      sizes[samples], or [samples x D] where Sample is std::array<tokens, D>: those that
///             rank 0 will have read, then those of rank 1, and so on. factors[shape_buckets] by
///             the length of a sample, or empty.
/// Expects     options are those of the grid_balancer, without homes, since nobody has read the
///             samples yet; bags are its own. length_of is given unless samples are
///             numbers, and functions of the options and cost may be called by another thread.
/// Ensures     (1) the plan is that of partition_grid, with each cost times the factor of its
///                 sample's length
///             (2) with a plan that has seen a step as large, nothing is allocated
/// Errors      out_of_range: sizes are no whole number of samples, factors are of another number, a
///             length with a factor is out of range; those of partition_grid_into.
/// Complexity  that of partition_grid_into.
template <class Cost, class Sample = tokens>
  requires(integer_function<Cost, Sample const&> && detail::sizes_of_sample<Sample> >= 1)
class grid_planner {
 public:
  using plan_type = grid_plan;

  grid_planner(bag_layout layout, Cost own_cost, grid_step_options<Sample> options = {})
      : bags_(std::move(layout)), cost_(std::move(own_cost)), options_(options)
  {
    BALLAST_EXPECTS(options_.length_of != nullptr,
                    "options.length_of is null, and the samples are no numbers");
    BALLAST_EXPECTS(!options_.homes,
                    "options.homes is set, and who reads a sample is not known ahead");
  }

  [[nodiscard]] result<void> operator()(grid_plan& plan, std::span<tokens const> sizes,
                                        std::uint64_t /*seed*/, std::uint64_t /*number*/,
                                        std::span<std::uint32_t const> factors)
  {
    constexpr std::size_t each = detail::sizes_of_sample<Sample>;
    if (sizes.size() % each != 0) {
      return fail(error_code::out_of_range, sizes.size(), "sizes has ",
                  detail::counted(sizes.size(), "entry"), ", no whole number of samples of ", each);
    }
    if (!factors.empty() && factors.size() != shape_buckets) {
      return fail(error_code::out_of_range, 0, "factors has ",
                  detail::counted(factors.size(), "entry"), " for ", shape_buckets,
                  " shapes; give all or none");
    }
    samples_.resize(sizes.size() / each);
    if (!sizes.empty()) { std::memcpy(samples_.data(), sizes.data(), sizes.size_bytes()); }
    for (std::size_t sample = 0; sample < samples_.size() && !factors.empty(); ++sample) {
      tokens const length = options_.length_of(samples_[sample]);
      if (length < 0 || length > longest_sample) {
        return fail(error_code::out_of_range, sample, "sample ", sample, " has a length of ",
                    length, ", which is not from 0 to ", longest_sample, "; correct it");
      }
    }
    auto const corrected = [&](Sample const& sample) -> cost_units {
      constexpr auto most = std::numeric_limits<cost_units>::max();
      auto const cost = std::invoke(cost_, sample);
      if (!std::in_range<cost_units>(cost)) { return most; }  // and so refused
      if (factors.empty() || cost < 0) { return static_cast<cost_units>(cost); }
      std::uint32_t const factor = factors[shape_bucket(options_.length_of(sample))];
      uint128 const exact = static_cast<uint128>(cost) * factor / unchanged_factor;
      return static_cast<cost_units>(std::min(exact, static_cast<uint128>(most)));
    };
    return grid_(plan, memory_, detail::span_of(samples_), bags_, options_, {}, corrected);
  }

 private:
  bag_layout bags_;
  Cost cost_;
  grid_step_options<Sample> options_;
  std::vector<Sample> samples_;
  detail::grid_of_samples<Sample> grid_;
  workspace memory_;
};

}  // namespace ballast::inline v0
