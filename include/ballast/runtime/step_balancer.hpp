// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/partition/grid/partition_grid.hpp>
#include <ballast/partition/partition.hpp>
#include <ballast/route/ulysses.hpp>
#include <ballast/runtime/detail/plan_together.hpp>

#include <functional>

namespace ballast::inline v0 {

namespace detail {

/// The length of a sample that is a number; null for others, whose length only the caller knows.
template <class Sample>
[[nodiscard]] constexpr auto own_length() -> tokens (*)(Sample const&)
{
  if constexpr (std::integral<Sample>) {
    return [](Sample const& number) { return static_cast<tokens>(number); };
  } else {
    return nullptr;
  }
}

}  // namespace detail

/// What a job says of its steps, once: the same on every rank.
///
///     step_options<document>{.limits = {.most_per_gpu = 40'000},
///                            .length_of = [](document const& d) { return d.length(); },
///                            .together = [](document const& d) { return d.prompt; }}
///
/// The functions are pure, and null where there is nothing to say.
template <class Sample = tokens>
struct step_options {
  /// How many each bag computes in a step, one after the other, and when bags meet. With `{}` as
  /// many as the limits need. kind_of says the kinds.
  ballast::microbatches microbatches = {.number = 1};
  /// What each bag keeps to, in each of its microbatches. What limits say of each sample, the
  /// functions below say.
  placement_limits limits = {};
  /// How many tokens a bag splits; a sample that is a number is its own length.
  tokens (*length_of)(Sample const&) = detail::own_length<Sample>();
  /// What each cap of limits.also counts; null: the length.
  std::array<std::int64_t (*)(Sample const&), caps::most> also_of = {};
  /// Samples with the same key stay in one bag and microbatch.
  std::int64_t (*together)(Sample const&) = nullptr;
  /// Samples with the same key get different ones.
  std::int64_t (*apart)(Sample const&) = nullptr;
  /// All samples of a microbatch have one key, on all bags.
  std::int64_t (*kind_of)(Sample const&) = nullptr;
  /// Which bags a sample may go to.
  bool (*fits)(Sample const&, bag_id) = nullptr;
  /// Which of all samples may lie together.
  bool (*mixes)(std::span<Sample const> all, std::span<sample_id const> together) = nullptr;
  /// Among plans of the least makespan the largest sum of this is least, as limits.then = least(...).
  std::int64_t (*least_of)(Sample const&) = nullptr;
  /// Whether the rank that has read a sample is its home, for limits.then = fewest_moves; of equally
  /// good plans of several microbatches one that moves little is taken. Then planned().moved says
  /// what moves.
  bool homes = false;
  /// Where microbatches are padded batches, the lengths that they pad; null: the length, of the source.
  padded_lengths (*padded_lengths_of)(Sample const&) = nullptr;
  /// How many of its tokens have a loss, as those of an answer; null: all.
  tokens (*loss_tokens_of)(Sample const&) = nullptr;
  /// Query heads of the model, for to_heads and to_tokens; 0: they are not called.
  std::uint32_t query_heads = 0;
  /// Key-value heads of the model, if groups of its attention stay whole (head_split); 0: not.
  std::uint32_t kv_heads = 0;
  /// GPUs of each rank, where ranks are processes that have several: bags are laid out over the
  /// GPUs, rank 0's first. More than 1 takes no homes, since a rank is home to all bags on its
  /// GPUs.
  std::uint32_t gpus_per_rank = 1;
};

namespace detail {

/// The policy of a balancer that was given none, and so may plan several microbatches. With another
/// one these are not compiled.
struct any_microbatches : refine<> {};

/// What prices a step: samples, or padded lengths, where microbatches are padded batches.
template <class Cost, class Policy, class Sample>
concept cell_cost = integer_function<Cost, Sample const&> ||
                    (padded_cost<Cost> && std::same_as<Policy, any_microbatches>);

/// The GPUs of a rank: one, or those of a process that has several, as many as any other.
struct rank_gpus {
  rank_id rank{};
  std::uint32_t each = 1;

  /// One of them, in whatever has an entry for each.
  [[nodiscard]] std::uint32_t checked(std::uint32_t local) const
  {
    BALLAST_EXPECTS(local < each, "GPU ", local, " of a rank that has ", each);
    return local;
  }

  /// The same among all GPUs of the job.
  [[nodiscard]] rank_id operator[](std::uint32_t local) const
  {
    return to_id<rank_id>(to_index(rank) * each + checked(local));
  }

  /// The same among those of its bag.
  [[nodiscard]] std::uint32_t in_bag(bag_layout const& bags, std::uint32_t local) const
  {
    rank_id const gpu = (*this)[local];
    return static_cast<std::uint32_t>(to_index(gpu) - to_index(bags[bags.bag_of(gpu)].first));
  }
};

/// What a rank sends and receives for a slot, and the heads of the bag of each of its GPUs.
struct slot_route {
  route_plan to_compute;
  std::vector<ulysses_plan> heads;
};

/// A step as a rank has planned it.
struct balanced_step {
  bool is_grid = false;
  partition_plan plan;  ///< of a step that is no grid
  grid_plan grid;
  tokens loss_tokens = 0;  ///< of all ranks
  placement as_read;
  placement as_computed;  ///< in the last slot
  std::size_t slots = 0;
  std::vector<slot_route> routes;  ///< of the slots: as many as any step had
  std::uint64_t word = 0;

  [[nodiscard]] std::uint64_t digest() const noexcept { return word; }

  [[nodiscard]] std::span<sample_id const> microbatch(std::size_t slot, bag_id bag) const
  {
    return is_grid ? grid.microbatch(to_id<rank_id>(to_index(bag)), slot) : plan.samples[bag];
  }
};

/// What a planner of steps does that no cost and no type of sample changes: it reads how long samples
/// are, and routes.
class step_router {
 public:
  struct settings {
    std::size_t multiple_of = 1;  ///< of slots
    std::uint32_t query_heads = 0;
    std::uint32_t kv_heads = 0;
    std::uint32_t gpus_per_rank = 1;
  };

  BALLAST_ONCE step_router(bag_layout layout, settings chosen);

  [[nodiscard]] bag_layout const& bags() const noexcept { return bags_; }

 protected:
  /// Why these are no bags of this job, if so.
  [[nodiscard]] BALLAST_ONCE result<void> check_bags(std::size_t ranks) const;
  /// The error of a plan, and who has read the sample that it is of, if it is of one.
  [[nodiscard]] BALLAST_ONCE static tl::unexpected<error> with_reader(
      error why, std::span<rank_id const> source);
  /// Reads the lengths of all samples, and how many of their tokens have a loss:
  /// numbers_of(sample, its length in a plan that is no grid) are both.
  [[nodiscard]] BALLAST_ONCE result<void> read_tokens(
      balanced_step& step, std::size_t samples,
      std::function<std::pair<tokens, tokens>(std::size_t, tokens)> const& numbers_of,
      bool counts_losses, bool has_own_lengths);
  /// From the arrays that hold all samples as they were read to arrays that hold those of a slot
  /// alone, for each slot.
  BALLAST_ONCE void route(balanced_step& step, std::span<rank_id const> source, rank_id rank);

  bag_layout bags_;

 private:
  BALLAST_ONCE void route_slot(balanced_step& step, std::size_t slot, placement const& from,
                               rank_gpus gpus);

  settings settings_;

  // Kept from step to step.
  std::vector<tokens> lengths_;
  jagged<std::size_t, sample_id> by_slot_;
  std::vector<sample_part> parts_;
  std::vector<tokens> slot_lengths_;
  std::vector<bag_id> owners_;
  placement slot_read_;
  placement joined_;
};

/// Plans and routes the steps of one rank from what all ranks have read.
template <class Cost, class Policy, class Sample>
class bag_planner : step_router {
 public:
  bag_planner(bag_layout layout, Cost own_cost, Policy own_policy, step_options<Sample> chosen)
      : step_router(std::move(layout), {chosen.microbatches.multiple_of, chosen.query_heads,
                                        chosen.kv_heads, chosen.gpus_per_rank}),
        cost_(std::move(own_cost)),
        policy_(std::move(own_policy)),
        options_(chosen)
  {
    BALLAST_EXPECTS(options_.length_of != nullptr,
                    "options.length_of is null, and the samples are no numbers");
    BALLAST_EXPECTS(options_.gpus_per_rank >= 1, "options.gpus_per_rank is 0");
    BALLAST_EXPECTS(!options_.homes || options_.gpus_per_rank == 1,
                    "options.homes is set, and a rank of several GPUs is home to all bags on them");
    BALLAST_EXPECTS(plans_grids || !is_grid(),
                    "options.microbatches is not 1, and a policy plans one; leave the policy out");
    placement_limits const& limits = options_.limits;
    bool of_samples = !limits.together.empty() || !limits.apart.empty() || !limits.home.empty() ||
                      !limits.then.of().empty() || !options_.microbatches.kinds.empty();
    for (std::size_t at = 0; at < std::min(limits.also.size(), caps::most); ++at) {
      of_samples = of_samples || !limits.also[at].of.empty();
    }
    BALLAST_EXPECTS(!of_samples && limits.also.size() <= caps::most,
                    "options.limits has an array of samples, which differ from step to step, or "
                    "more caps than ",
                    caps::most, "; give the function of the options that says it of a sample");
  }

  using step_router::bags;
  [[nodiscard]] step_options<Sample> const& options() const noexcept { return options_; }

  [[nodiscard]] result<void> operator()(balanced_step& step, workspace& memory,
                                        gathered_samples<Sample> const& all, std::size_t ranks,
                                        rank_id rank)
  {
    auto made = check_bags(ranks);
    if (made) { made = plan(step, memory, span_of(all.samples), span_of(all.source)); }
    if (made) {
      auto const numbers_of = [&](std::size_t sample, tokens length) {
        Sample const& each = all.samples[sample];
        if (step.is_grid) { length = options_.length_of(each); }
        return std::pair(
            length, options_.loss_tokens_of != nullptr ? options_.loss_tokens_of(each) : length);
      };
      made = read_tokens(step, all.samples.size(), std::cref(numbers_of),
                         options_.loss_tokens_of != nullptr,
                         options_.length_of != own_length<Sample>());
    }
    if (!made) { return with_reader(std::move(made).error(), span_of(all.source)); }
    this->route(step, span_of(all.source), rank);
    return {};
  }

 private:
  static constexpr bool plans_grids = std::same_as<Policy, any_microbatches>;

  /// Whether a step is more than bags that each compute a microbatch.
  [[nodiscard]] bool is_grid() const noexcept
  {
    return !integer_function<Cost, Sample const&> || options_.microbatches.number != 1U ||
           options_.microbatches.multiple_of != 1 || options_.kind_of != nullptr;
  }

  /// What a function says of each sample; empty where it is null.
  [[nodiscard]] std::span<std::int64_t const> values_of(std::span<Sample const> samples,
                                                        std::int64_t (*value_of)(Sample const&))
  {
    if (value_of == nullptr) { return {}; }
    std::vector<std::int64_t>& values = values_[used_values_++];
    values.clear();
    for (Sample const& sample : samples) { values.push_back(value_of(sample)); }
    return span_of(values);
  }

  /// The limits, and what the functions of the options say of each sample.
  [[nodiscard]] placement_limits limits_of(std::span<Sample const> read,
                                           std::span<rank_id const> source)
  {
    used_values_ = 0;
    placement_limits limits = options_.limits;
    limits.together = values_of(read, options_.together);
    limits.apart = values_of(read, options_.apart);
    if (options_.homes) { limits.home = source; }
    if (options_.least_of != nullptr) { limits.then = least(values_of(read, options_.least_of)); }
    for (std::size_t at = 0; at < limits.also.size(); ++at) {
      limits.also[at].of = values_of(read, options_.also_of[at]);
    }
    return limits;
  }

  [[nodiscard]] result<void> plan(balanced_step& step, workspace& memory,
                                  std::span<Sample const> read, std::span<rank_id const> source)
  {
    placement_limits limits = limits_of(read, source);
    auto const fits = [this, read](sample_id sample, bag_id bag) {
      return options_.fits(read[sample], bag);
    };
    auto const mixes = [this, read](std::span<sample_id const> together) {
      return options_.mixes(read, together);
    };
    if (options_.fits != nullptr) { limits.fits = fits; }
    if (options_.mixes != nullptr) { limits.mixes = mixes; }
    microbatches slots = options_.microbatches;
    slots.kinds = values_of(read, options_.kind_of);
    step.is_grid = is_grid();
    if constexpr (plans_grids && integer_function<Cost, Sample const&>) {
      if (step.is_grid) {
        return partition_grid_into(step.grid, memory, read, bags_, slots, cost_, options_.length_of,
                                   limits);
      }
    }
    if constexpr (integer_function<Cost, Sample const&>) {
      return partition_into(step.plan, memory, read, bags_, cost_, options_.length_of, limits,
                            policy_);
    } else {
      padded_.clear();
      for (Sample const& sample : read) {
        padded_.push_back(options_.padded_lengths_of != nullptr
                              ? options_.padded_lengths_of(sample)
                              : padded_lengths{options_.length_of(sample), 0});
      }
      auto const tokens_of = [](tokens ones, tokens others) { return ones + others; };
      auto const pad = [&](auto const& cost) {
        if constexpr (requires {
                        pad_grid(span_of(padded_), bags_, slots, cost, tokens_of, limits);
                      }) {
          return pad_grid(span_of(padded_), bags_, slots, cost, tokens_of, limits);
        } else {
          static_assert(never<Cost>,
                        "include ballast/partition/padded/pad_grid.hpp too: the cost is one of "
                        "padded batches");
        }
      };
      auto found = pad(cost_);
      if (!found) { return tl::unexpected(std::move(found).error()); }
      step.grid = *std::move(found);
      return {};
    }
  }

  Cost cost_;
  std::conditional_t<plans_grids, refine<>, Policy> policy_;
  step_options<Sample> options_;

  // Kept from step to step.
  std::array<std::vector<std::int64_t>, 4 + caps::most> values_;  // of each function that has some
  std::size_t used_values_ = 0;
  std::vector<padded_lengths> padded_;
};

template <class Balancer>
struct step_slots;

/// A microbatch of every bag, of the step that a balancer has planned last: what its rank computes
/// and moves.
template <class Balancer>
class step_slot {
 public:
  [[nodiscard]] std::size_t number() const noexcept { return number_ == only ? 0 : number_; }

  /// Moves the rows of the slot's samples from where they were read to where they are computed,
  /// all arrays in one exchange: each from[rows_read()], to[rows_computed()] rows. Collective; the
  /// rest is as for ballast::route.
  template <std::same_as<row_array>... Arrays>
  [[nodiscard]] result<void> route(Arrays const&... arrays) const
  {
    return ballast::route(self_->comm_, to_compute(), self_->memory_, arrays...);
  }
  /// Moves them back: each from[rows_computed()], to[rows_read()] rows, of which it writes those of
  /// this slot.
  template <std::same_as<row_array>... Arrays>
  [[nodiscard]] result<void> reverse_route(Arrays const&... arrays) const
  {
    return ballast::reverse_route(self_->comm_, to_compute(), self_->memory_, arrays...);
  }
  /// Before attention: from this rank's tokens with all heads to all tokens of its bag with this
  /// rank's heads. Collective in the bag; the rest is as for ballast::to_heads.
  template <std::same_as<head_array>... Arrays>
  [[nodiscard]] result<void> to_heads(Arrays const&... arrays) const
  {
    return ballast::to_heads(self_->bag_comm(), heads(), self_->memory_, arrays...);
  }
  /// After attention: from heads to tokens again; copies of a head are added up.
  template <std::same_as<head_array>... Arrays>
  [[nodiscard]] result<void> to_tokens(Arrays const&... arrays) const
  {
    return ballast::to_tokens(self_->bag_comm(), heads(), self_->memory_, arrays...);
  }

  /// What this rank sends and receives.
  [[nodiscard]] route_plan const& to_compute() const { return own().to_compute; }
  /// Rows of this rank's arrays after route().
  [[nodiscard]] std::size_t rows_computed() const
  {
    return static_cast<std::size_t>(to_compute().rows_after);
  }
  /// Those of one of this rank's GPUs, which lie behind those of the GPU before.
  [[nodiscard]] route_table::range rows_of_gpu(std::uint32_t local) const
  {
    route_table::range all;
    for (std::uint32_t next = 0; next <= local; ++next) {
      all = {all.first + all.count, at(next).rows(self_->gpu(next))};
    }
    return all;
  }

  // Of the bag of this rank, or of one of its GPUs:

  /// The samples that it computes, in the order of its rows.
  [[nodiscard]] std::span<sample_id const> microbatch(std::uint32_t local = 0) const
  {
    return self_->step().microbatch(checked(), self_->bag(local));
  }
  /// Whether it computes none.
  [[nodiscard]] bool is_dummy(std::uint32_t local = 0) const { return microbatch(local).empty(); }
  /// Their lengths.
  [[nodiscard]] std::span<tokens const> lengths(std::uint32_t local = 0) const
  {
    return at(local).lengths();
  }
  /// Which of their tokens and heads each of its GPUs has; the options say how many heads.
  [[nodiscard]] ulysses_plan const& heads(std::uint32_t local = 0) const
  {
    BALLAST_EXPECTS(self_->options().query_heads >= 1,
                    "options.query_heads is 0; give the query heads of the model");
    return at(local);
  }
  /// What the mean loss of this rank in the slot, or of one of its GPUs, counts in the step: the
  /// mean over its rows, or, in bags of one GPU, over those of its tokens that have a loss.
  ///
  /// Expects  options.loss_tokens_of is null, or bags have one GPU: it does not say which tokens
  ///          have a loss, so how many of them a GPU has is not known. Multiply the sum of its
  ///          losses by the balancer's loss_weight().
  [[nodiscard]] double loss_weight(std::uint32_t local = 0) const
  {
    tokens with_loss = rows_of_gpu(local).count;
    if (self_->options().loss_tokens_of != nullptr) {
      std::uint32_t const of_bag = self_->bags()[self_->bag(local)].gpus;
      BALLAST_EXPECTS(
          of_bag == 1, "options.loss_tokens_of does not say which rows have a loss, and a bag has ",
          of_bag, " GPUs; multiply the sum of a GPU's losses by the balancer's loss_weight()");
      with_loss = 0;
      for (sample_id const sample : microbatch(local)) {
        with_loss += self_->options().loss_tokens_of(self_->samples().samples[sample]);
      }
    }
    tokens const all = self_->step().loss_tokens;
    return with_loss == 0 ? 0.0 : static_cast<double>(with_loss) / static_cast<double>(all);
  }

 private:
  friend Balancer;
  friend step_slots<Balancer>;
  step_slot(Balancer& self, std::size_t number) : self_(&self), number_(number) {}

  [[nodiscard]] std::size_t checked() const
  {
    std::size_t const slots = self_->step().slots;
    BALLAST_EXPECTS(number_ != only || slots == 1, "the step has ", counted(slots, "microbatch"),
                    "; call it of each of slots()");
    BALLAST_EXPECTS(number_ == only || number_ < slots, "slot ", number_, " of ", slots);
    return number();
  }
  [[nodiscard]] slot_route const& own() const { return self_->step().routes[checked()]; }
  [[nodiscard]] ulysses_plan const& at(std::uint32_t local) const
  {
    return own().heads[self_->gpus().checked(local)];
  }

  /// That of a balancer, which is the slot of a step of one.
  static constexpr auto only = std::numeric_limits<std::size_t>::max();

  Balancer* self_;
  std::size_t number_;
};

/// All slots of a step, one after the other.
template <class Balancer>
struct step_slots {
  struct iterator {
    Balancer* self;
    std::size_t number;

    [[nodiscard]] step_slot<Balancer> operator*() const { return {*self, number}; }
    iterator& operator++() { return ++number, *this; }
    friend bool operator==(iterator const&, iterator const&) = default;
  };

  Balancer* self;
  std::size_t count;

  [[nodiscard]] std::size_t size() const noexcept { return count; }
  [[nodiscard]] step_slot<Balancer> operator[](std::size_t number) const { return {*self, number}; }
  [[nodiscard]] iterator begin() const noexcept { return {self, 0}; }
  [[nodiscard]] iterator end() const noexcept { return {self, count}; }
};

}  // namespace detail

/// What a training loop does to be balanced, as one object per rank: it plans a step from what all
/// ranks have read, and moves rows and heads as the plan says.
///
///     step_balancer balancer(comm, bags, cost, refine{});       // once
///     if (auto planned = balancer.plan(lengths); !planned) ...  // every step
///     balancer.route(rows_of(x, x_there, width));               // to where tokens are computed
///     balancer.reverse_route(rows_of(y_there, y, width));       // and home again
///
/// In a backward pass the gradient of route() is reverse_route() and the reverse, and that of
/// to_heads() to_tokens(). A thread plans the next step while one runs: submit() what was read, and
/// take it by next() instead of plan().
///
/// A trainer that accumulates gradients has several microbatches, and moves those of one slot at a
/// time. Every rank has as many slots; where it computes no sample in one, it makes the same calls
/// with no rows, and computes a dummy if the model has collectives of its own:
///
///     step_balancer balancer(comm, bags, cost, {.microbatches = {.multiple_of = 2},
///                                               .limits = {.most_per_gpu = 16'384}});
///     for (auto const slot : balancer.slots()) { slot.route(rows_of(x, x_there, width)); ... }
///
/// Where microbatches are padded batches, the cost is that of one sample padded to a source and a
/// target, and the model pads what it gets.
///
/// A rank may be a process with several GPUs (options.gpus_per_rank): rows_of_gpu() says which rows
/// of its arrays are a GPU's. Rows move between processes in one exchange, and heads() is what GPUs
/// exchange in a communicator of theirs.
///
/// Expects     every rank makes it with the same bags, cost, policy and options, and calls its
///             functions in the same order; comm outlives it. cost returns an integer.
///             options.length_of is given unless samples are numbers; where microbatches may be
///             several the policy is left out. One thread at a time calls it; after submit() another calls the
///             cost, the policy and functions of the options, until next() has returned.
/// Ensures     (1) all ranks have the same plan, compared before a byte moves: that of partition(),
///                 of partition_grid() or of pad_grid() over the gathered samples, a rank of the
///                 grid being a bag, and a route and a bag that belong to it
///             (2) a step that cannot be planned is an error on every rank, also where only one
///                 could not plan it, and where planning threw on one; the balancer can be used
///                 again
///             (3) the losses of all tokens times loss_weight() add up to the mean loss of the
///                 whole batch, and so do gradients, on bags of any sizes; and so do mean losses of
///                 GPUs and slots times slot.loss_weight(), which add up to 1, or are 0 where no
///                 token has a loss
///             (4) a step no larger than those before, with no more slots, allocates nothing, from
///                 the second on, or of submitted ones the third, but for pad_grid
///             (5) after all slots each row read was sent and came back once
///             (6) the destructor ends the thread after the step that was submitted last is planned,
///                 taken or not
/// Errors      plan: those of gather_samples and of the planner; out_of_range where the bags
///             have not as many GPUs as the job, or a number of tokens with a loss is out of range.
///             mismatch, on a rank that has a plan, if others have a different one or none, and
///             then why; a rank that could not plan has its own error: `failed` where a cost or
///             another function of the options threw, with its text. std::bad_alloc is thrown again
///             after the others have been told. The first step that succeeds splits the
///             communicator, with its errors. submit: wrong_order, if the step before has not been
///             taken; the first time those of split, and transport if the communicator says that it
///             does not serve several threads. next: wrong_order, if no step was submitted; those of
///             plan. All else: those of the communicator.
/// Complexity  plan: gather_samples, one all_gather of 9 bytes a rank; the planner; O(samples +
///             pieces + slots x ranks).
/// Source      the calls are those of K. Zhang et al., "KnapFormer", arXiv 2508.06001.
template <class Cost, partition_policy Policy, splitting_communicator Communicator,
          class Sample = tokens>
  requires detail::cell_cost<Cost, Policy, Sample>
class step_balancer : public detail::step_slot<step_balancer<Cost, Policy, Communicator, Sample>> {
 public:
  using slot = detail::step_slot<step_balancer>;

  // Not `cost` and the like: g++ 12 -Wshadow warns of members and of a user's globals.
  step_balancer(Communicator& group, bag_layout layout, Cost own_cost, Policy own_policy,
                step_options<Sample> chosen = {})
      : slot(*this, slot::only),
        comm_(group),
        steps_(group, {std::move(layout), std::move(own_cost), std::move(own_policy), chosen})
  {}
  step_balancer(Communicator& group, bag_layout layout, Cost own_cost,
                step_options<Sample> chosen = {})
    requires std::same_as<Policy, detail::any_microbatches>
      : step_balancer(group, std::move(layout), std::move(own_cost), Policy(), chosen)
  {}

  /// Plans the step for which this rank has read these samples. Collective.
  [[nodiscard]] result<void> plan(std::span<Sample const> read) { return taken(steps_.plan(read)); }

  /// Has a thread plan the step for which this rank has read these samples; returns at once, but the
  /// first call, which splits the communicator. Collective: the thread waits for all ranks.
  [[nodiscard]] result<void> submit(std::span<Sample const> read) { return steps_.submit(read); }
  /// Takes the plan of the step that was submitted. It waits only where the thread is not done, but
  /// the first time also for the others.
  [[nodiscard]] result<void> next() { return taken(steps_.next()); }
  /// Steps for whose plan next() had to wait.
  [[nodiscard]] std::uint64_t waited() const noexcept { return steps_.waited(); }

  // What follows is of the step that was planned last, and overwritten by the next plan().

  /// Its microbatches: as many on every rank.
  [[nodiscard]] auto slots() { return detail::step_slots<step_balancer>{this, step().slots}; }

  // Of a step of one microbatch, of which the balancer is the slot too:

  /// Where tokens lie after route(): on which GPUs of all ranks.
  [[nodiscard]] placement const& as_computed() const
  {
    static_cast<void>(this->to_compute());
    return step().as_computed;
  }
  /// Who computes what, and how good that is, unless it is a grid().
  [[nodiscard]] partition_plan const& planned() const
  {
    BALLAST_EXPECTS(!step().is_grid, "the step has several microbatches or kinds; ask for grid()");
    return step().plan;
  }

  // Of a step of any number of them:

  /// The same where microbatches may be several, or padded, or have kinds; a rank of it is a bag.
  [[nodiscard]] grid_plan const& grid() const
  {
    BALLAST_EXPECTS(step().is_grid, "the step has one microbatch; ask for planned()");
    return step().grid;
  }
  /// What all ranks have read, and who has read it.
  [[nodiscard]] gathered_samples<Sample> const& samples() const { return steps_.samples(); }
  /// Where the tokens of all samples lie before a route.
  [[nodiscard]] placement const& as_read() const { return step().as_read; }
  /// Rows of this rank's arrays before a route.
  [[nodiscard]] std::size_t rows_read() const
  {
    return static_cast<std::size_t>(as_read().rows(comm_.rank()));
  }
  /// What the loss of one token counts: 1 / the tokens of all ranks that have one, or 0 where none
  /// has.
  [[nodiscard]] double loss_weight() const
  {
    tokens const all = step().loss_tokens;
    return all == 0 ? 0.0 : 1.0 / static_cast<double>(all);
  }
  /// The group of the ranks of this rank's bag.
  [[nodiscard]] Communicator& bag_comm()
  {
    steps_.expect_plan();
    BALLAST_EXPECTS(bag_comm_.has_value(),
                    "options.gpus_per_rank is above 1, and heads are exchanged between GPUs; do it "
                    "in a communicator of theirs");
    return *bag_comm_;
  }

  // Of every step:

  [[nodiscard]] Communicator& comm() const noexcept { return comm_; }
  [[nodiscard]] bag_layout const& bags() const noexcept { return steps_.planner().bags(); }
  [[nodiscard]] step_options<Sample> const& options() const noexcept
  {
    return steps_.planner().options();
  }
  /// The bag of this rank, or of one of its GPUs, and this GPU among those of its bag.
  [[nodiscard]] bag_id bag(std::uint32_t local = 0) const { return bags().bag_of(gpus()[local]); }
  [[nodiscard]] std::uint32_t gpu(std::uint32_t local = 0) const
  {
    return gpus().in_bag(bags(), local);
  }

 protected:
  /// The group of this rank's bag; null until a step was planned.
  [[nodiscard]] Communicator* made_bag_comm() noexcept { return bag_comm_ ? &*bag_comm_ : nullptr; }

 private:
  friend slot;

  [[nodiscard]] detail::balanced_step const& step() const { return steps_.step(); }

  [[nodiscard]] detail::rank_gpus gpus() const { return {comm_.rank(), options().gpus_per_rank}; }

  /// Has made ready what a step that was planned needs.
  [[nodiscard]] result<void> taken(result<void> made)
  {
    if (!made) { return made; }
    if (!bag_comm_ && options().gpus_per_rank == 1) {
      auto part = comm_.split(static_cast<std::uint32_t>(to_index(bag())));
      if (!part) { return steps_.forget(), tl::unexpected(part.error()); }
      bag_comm_.emplace(*std::move(part));
    }
    return {};
  }

  Communicator& comm_;
  std::optional<Communicator> bag_comm_;
  workspace memory_;  // of exchanges
  detail::common_steps<Communicator, Sample, detail::balanced_step,
                       detail::bag_planner<Cost, Policy, Sample>>
      steps_;
};

template <class C, class Cost, class Sample = tokens>
step_balancer(C&, bag_layout, Cost, step_options<Sample> = {})
    -> step_balancer<Cost, detail::any_microbatches, C, Sample>;

}  // namespace ballast::inline v0

#ifndef BALLAST_COMPILED

namespace ballast::inline v0::detail {

BALLAST_ONCE step_router::step_router(bag_layout layout, settings chosen)
    : bags_(std::move(layout)), settings_(chosen)
{
  for (std::size_t each = 0; each < bags_.size(); ++each) {
    head_split const split{std::max(settings_.query_heads, 1U), bags_[to_id<bag_id>(each)].gpus,
                           settings_.kv_heads};
    BALLAST_EXPECTS(split.is_possible(), "options.kv_heads keeps groups of ",
                    counted(split.query_heads, "query head"), " and ",
                    counted(split.kv_heads, "key-value head"), " whole, and bag ", each, " has ",
                    counted(split.gpus, "GPU"),
                    "; give a multiple of kv_heads as query_heads, and bags of at most "
                    "as many GPUs");
  }
}

[[nodiscard]] BALLAST_ONCE result<void> step_router::check_bags(std::size_t ranks) const
{
  std::size_t const each = settings_.gpus_per_rank;
  if (bags_.gpus() == ranks * each) { return {}; }
  return fail(error_code::out_of_range, bags_.gpus(), "the bags have ",
              counted(bags_.gpus(), "GPU"), " and the job has ", counted(ranks, "rank"),
              each > 1 ? concat(" of ", counted(each, "GPU")) : std::string(),
              "; lay the bags out over ",
              each > 1 ? "the GPUs of all ranks" : "one GPU for each rank");
}

[[nodiscard]] BALLAST_ONCE tl::unexpected<error> step_router::with_reader(
    error why, std::span<rank_id const> source)
{
  bool const of_sample =
      why.message.starts_with(concat("sample ", why.position, " ")) && why.position < source.size();
  if (!of_sample) { return tl::unexpected(std::move(why)); }
  why.message += concat(" (rank ", source[why.position], " has read it)");
  why.ranks = {source[why.position]};
  return tl::unexpected(std::move(why));
}

[[nodiscard]] BALLAST_ONCE result<void> step_router::read_tokens(
    balanced_step& step, std::size_t samples,
    std::function<std::pair<tokens, tokens>(std::size_t, tokens)> const& numbers_of,
    bool counts_losses, bool has_own_lengths)
{
  digest words;
  lengths_.clear();
  step.loss_tokens = 0;
  for (std::size_t sample = 0; sample < samples; ++sample) {
    auto const [length, losses] = numbers_of(sample, step.is_grid ? 0 : step.plan.lengths[sample]);
    if (bags_.is_short(length) && !bags_.admits_short_samples()) {  // of padded batches
      return fail(error_code::infeasible, sample, "sample ", sample, " of ",
                  counted(length, "token"), " is shorter than the smallest bag, which has ",
                  counted(bags_.smallest_bag(), "GPU"), "; use smaller bags, or leave it out");
    }
    if (losses < 0 || std::max(losses, length) > longest_sample) {
      return fail(error_code::out_of_range, sample, "sample ", sample, " has ",
                  counted(length > longest_sample ? length : losses, "token"),
                  counts_losses && length <= longest_sample ? " with a loss" : "",
                  ", which is not from 0 to ", longest_sample, "; correct it");
    }
    if (counts_losses) { words.add(static_cast<std::uint64_t>(losses)); }
    step.loss_tokens += losses;
    lengths_.push_back(length);
  }
  words.add(step.is_grid ? step.grid.digest() : step.plan.digest()).add(bags_.digest());
  words.add(settings_.query_heads).add(settings_.kv_heads);
  // Lengths that were gathered are the same everywhere; those of a function may not be, and the
  // plan would not show it.
  if (has_own_lengths) { words.add(span_of(lengths_)); }
  step.word = words.value();
  return {};
}

BALLAST_ONCE void step_router::route(balanced_step& step, std::span<rank_id const> source,
                                     rank_id rank)
{
  rank_gpus const gpus{rank, settings_.gpus_per_rank};
  std::span<tokens const> const lengths = span_of(lengths_);
  place(step.as_read, lengths, source, bags_.gpus() / gpus.each);
  // Slots that are empty on all ranks are left out, in whole multiples; one is run in any case.
  std::size_t const multiple = settings_.multiple_of;
  std::size_t const used = step.is_grid ? step.grid.used_microbatches() : 1;
  step.slots = std::max<std::size_t>((used + multiple - 1) / multiple, 1) * multiple;
  if (step.routes.size() < step.slots) { step.routes.resize(step.slots); }
  if (!step.is_grid) {
    place(step.as_computed, lengths, span_of(step.plan.owner), bags_);
    route_slot(step, 0, step.as_read, gpus);
    return;
  }
  by_slot_.fill(step.slots, [&](auto const& visit) {
    for (std::size_t sample = 0; sample < lengths.size(); ++sample) {
      visit(to_index(step.grid.owner[sample]) / bags_.size(), to_id<sample_id>(sample));
    }
  });
  for (std::size_t slot = 0; slot < step.slots; ++slot) {
    parts_.clear();
    slot_lengths_.clear();
    owners_.clear();
    for (sample_id const sample : by_slot_[slot]) {
      parts_.push_back({sample, 0, lengths[sample]});
      slot_lengths_.push_back(lengths[sample]);
      owners_.push_back(to_id<bag_id>(to_index(step.grid.owner[sample]) % bags_.size()));
    }
    place_parts(slot_read_, step.as_read, span_of(parts_));
    place(step.as_computed, span_of(slot_lengths_), span_of(owners_), bags_);
    route_slot(step, slot, slot_read_, gpus);
  }
}

BALLAST_ONCE void step_router::route_slot(balanced_step& step, std::size_t slot,
                                          placement const& from, rank_gpus gpus)
{
  if (gpus.each > 1) { join_ranks_into(joined_, step.as_computed, gpus.each); }
  slot_route& own = step.routes[slot];
  plan_route(own.to_compute, from, gpus.each > 1 ? joined_ : step.as_computed, gpus.rank);
  own.heads.resize(gpus.each);
  for (std::uint32_t local = 0; local < gpus.each; ++local) {
    bag_id const bag = bags_.bag_of(gpus[local]);
    own.heads[local].assign(span_of(lengths_), step.microbatch(slot, bag), bags_[bag].gpus,
                            std::max(settings_.query_heads, 1U), settings_.kv_heads);
  }
}

}  // namespace ballast::inline v0::detail

#endif
