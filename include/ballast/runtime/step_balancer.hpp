// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/partition/partition.hpp>
#include <ballast/runtime/detail/bag_steps.hpp>

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

/// What value_of says of each sample; nothing where it is null.
template <class Sample>
void read_into(std::vector<std::int64_t>& values, std::span<Sample const> samples,
               std::int64_t (*value_of)(Sample const&))
{
  values.clear();
  if (value_of == nullptr) { return; }
  values.reserve(samples.size());
  for (Sample const& sample : samples) { values.push_back(value_of(sample)); }
}

}  // namespace detail

/// What a job says of its steps, once: the same on every rank.
///
///     step_options<document>{.length_of = [](document const& d) { return d.length(); },
///                            .together = [](document const& d) { return d.prompt; },
///                            .most_per_gpu = 40'000}
///
/// The functions are pure, and null where there is nothing to say.
template <class Sample = tokens>
struct step_options {
  /// How many tokens a bag splits; a sample that is a number is its own length.
  tokens (*length_of)(Sample const&) = detail::own_length<Sample>();
  /// How many of its tokens have a loss, as those of an answer; null: all.
  tokens (*loss_tokens_of)(Sample const&) = nullptr;
  /// Samples with the same key stay in one bag, as the answers to one prompt.
  std::int64_t (*together)(Sample const&) = nullptr;
  /// What counts against most_per_gpu, and only with it; null: the length.
  std::int64_t (*weight_of)(Sample const&) = nullptr;
  /// A bag of G GPUs gets at most G times this weight.
  std::int64_t most_per_gpu = no_limit;
  /// Whether the rank which has read a sample is its home, as `then = fewest_moves` asks for; then
  /// planned().moved says what moves.
  bool homes = false;
  /// How many samples each bag gets.
  counts samples = {};
  /// What decides among plans of the least makespan, most_level or fewest_moves, and how much longer
  /// than the shortest a plan may be for it.
  second_objective then = {};
  std::uint32_t within_per_million = 0;
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

/// What a training loop does to be balanced, as one object per rank: it plans a step from what all
/// ranks have read, and moves rows and heads as the plan says.
///
///     step_balancer balancer(comm, bags, cost, refine{});       // once
///     if (auto planned = balancer.plan(lengths); !planned) ...  // every step
///     balancer.route(rows_of(x, x_there, width));               // to where tokens are computed
///     balancer.reverse_route(rows_of(y_there, y, width));       // and home again
///
/// plan() gathers the samples of all ranks, partitions them, places their tokens as read and as
/// computed, and compares one word with the other ranks: gather_samples_into, partition_into,
/// agree, placement, plan_route_into and ulysses_plan, which remain for steps of another form. In a
/// backward pass the gradient of route() is reverse_route() and the reverse, and that of to_heads()
/// to_tokens().
///
/// A rank may be a process with several GPUs, each of which is planned for: with
/// options.gpus_per_rank the bags are laid out over all GPUs, rank 0's first, and rows_of_gpu()
/// says which rows of the rank's arrays are a GPU's. Rows move between processes in one exchange,
/// and heads() is what GPUs exchange in a communicator of theirs.
///
/// Expects     every rank makes it with the same bags, cost, policy and options, and calls its
///             functions in the same order; comm outlives it. cost returns what a sample costs as
///             an integer. options.length_of is given unless samples are numbers. One thread at a
///             time.
/// Ensures     (1) all ranks have the same plan, compared before a byte moves: that of partition()
///                 over the gathered samples, and one route and one bag that belong to it
///             (2) a step that cannot be planned is an error on every rank, also where only one
///                 could not plan it, and where planning threw on one; the balancer can be used
///                 again
///             (3) the losses of all tokens times loss_weight() add up to the mean loss of the
///                 whole batch, and so do gradients, on bags of any sizes
///             (4) a step no larger than those before allocates nothing, from the second on
/// Errors      plan: those of gather_samples_into and partition_into; out_of_range where the bags
///             have not as many GPUs as the job, or a number of tokens with a loss is out of range.
///             mismatch, on a rank that has a plan, if others have a different one or none, and
///             then why; a rank that could not plan has its own error: `failed` where a cost or
///             another function of the options threw, with its text. std::bad_alloc is thrown again
///             after the others have been told. The first plan() that succeeds splits the
///             communicator, with its errors. All else: those of the communicator.
/// Complexity  plan: two all_gather, one of most_samples x sizeof(Sample) bytes a rank and one of
///             9; the policy; O(samples + pieces + ranks).
/// Source      the calls are those of K. Zhang et al., "KnapFormer", arXiv 2508.06001.
template <class Cost, partition_policy Policy, splitting_communicator Communicator,
          class Sample = tokens>
  requires integer_function<Cost, Sample const&>
class step_balancer : public detail::bag_steps<Communicator, Sample, step_options<Sample>> {
  using steps = detail::bag_steps<Communicator, Sample, step_options<Sample>>;

 public:
  // Not `cost` and the like: g++ 12 -Wshadow warns of members and of a user's globals.
  step_balancer(Communicator& group, bag_layout layout, Cost own_cost, Policy own_policy,
                step_options<Sample> chosen = {})
      : steps(group, std::move(layout), chosen),
        cost_(std::move(own_cost)),
        policy_(std::move(own_policy))
  {}

  /// Plans the step for which this rank has read these samples. Collective.
  [[nodiscard]] result<void> plan(std::span<Sample const> read)
  {
    return this->plan_step(read, [this] { return make_plan(); }, [this] { return word_of_plan(); });
  }

  /// Moves arrays from where their tokens were read to where they are computed, all in one
  /// exchange: each from[rows_read()], to[rows_computed()] rows. Collective; the rest is as for
  /// ballast::route.
  template <std::same_as<row_array>... Arrays>
  [[nodiscard]] result<void> route(Arrays const&... arrays)
  {
    expect_plan();
    return ballast::route(comm_, to_compute_, memory_, arrays...);
  }

  /// Moves arrays back: each from[rows_computed()], to[rows_read()] rows.
  template <std::same_as<row_array>... Arrays>
  [[nodiscard]] result<void> reverse_route(Arrays const&... arrays)
  {
    expect_plan();
    return ballast::reverse_route(comm_, to_compute_, memory_, arrays...);
  }

  /// Before attention: from this rank's tokens with all heads to all tokens of its bag with this
  /// rank's heads. Collective in the bag; the rest is as for ballast::to_heads.
  template <std::same_as<head_array>... Arrays>
  [[nodiscard]] result<void> to_heads(Arrays const&... arrays)
  {
    expect_heads();
    return ballast::to_heads(bag_comm(), heads_[0], memory_, arrays...);
  }

  /// After attention: from heads to tokens again; copies of a head are added up.
  template <std::same_as<head_array>... Arrays>
  [[nodiscard]] result<void> to_tokens(Arrays const&... arrays)
  {
    expect_heads();
    return ballast::to_tokens(bag_comm(), heads_[0], memory_, arrays...);
  }

  using steps::bag;
  using steps::bag_comm;
  using steps::bags;
  using steps::comm;
  using steps::loss_weight;
  using steps::options;
  using steps::samples;

  /// This rank, or one of its GPUs, among those of its bag.
  [[nodiscard]] std::uint32_t gpu(std::uint32_t local = 0) const
  {
    return this->gpus().in_bag(bags_, local);
  }

  // What follows is of the step that was planned last, and overwritten by the next plan().

  /// Who computes what, and how good that is.
  [[nodiscard]] partition_plan const& planned() const { return expect_plan(), planned_; }
  /// Where tokens lie before route(), and after it: on which ranks, and on which GPUs of all ranks.
  [[nodiscard]] placement const& as_read() const { return expect_plan(), read_; }
  [[nodiscard]] placement const& as_computed() const { return expect_plan(), computed_; }
  /// What this rank sends and receives.
  [[nodiscard]] route_plan const& to_compute() const { return expect_plan(), to_compute_; }
  /// Rows of this rank's arrays before route(), and after it.
  [[nodiscard]] std::size_t rows_read() const
  {
    return static_cast<std::size_t>(to_compute().rows_before);
  }
  [[nodiscard]] std::size_t rows_computed() const
  {
    return static_cast<std::size_t>(to_compute().rows_after);
  }
  /// Those of one of this rank's GPUs, which lie behind those of the GPU before.
  [[nodiscard]] row_range rows_of_gpu(std::uint32_t local) const
  {
    expect_plan();
    return this->gpus().rows(bags_, detail::span_of(heads_), local);
  }
  /// Lengths of the sequences that the bag of this rank, or of one of its GPUs, computes, in the
  /// order of its rows.
  [[nodiscard]] std::span<tokens const> lengths(std::uint32_t local = 0) const
  {
    return expect_plan(), heads_[this->gpus().checked(local)].lengths();
  }
  /// Which of the bag's tokens and heads each of its GPUs has; the options say how many heads.
  [[nodiscard]] ulysses_plan const& heads(std::uint32_t local = 0) const
  {
    return expect_heads(), heads_[this->gpus().checked(local)];
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

  result<void> make_plan()
  {
    if (auto checked = this->check_bags(); !checked) { return checked; }
    std::span<Sample const> const read = detail::span_of(all_.samples);
    detail::read_into(keys_, read, options_.together);
    detail::read_into(weights_, read, options_.weight_of);
    placement_limits limits{
        .together = detail::span_of(keys_),
        .home = options_.homes ? detail::span_of(all_.source) : std::span<rank_id const>(),
        .samples = options_.samples,
        .then = options_.then,
        .within_per_million = options_.within_per_million};
    if (options_.most_per_gpu != no_limit) {
      limits.also = {{.of = detail::span_of(weights_), .most_per_gpu = options_.most_per_gpu}};
    }
    if (auto done = partition_into(planned_, memory_, read, bags_, cost_, options_.length_of,
                                   limits, policy_);
        !done) {
      return done;
    }
    if (auto checked = this->count_loss_tokens(); !checked) { return checked; }
    std::span<tokens const> const lengths = detail::span_of(planned_.lengths);
    place_into(read_, lengths, detail::span_of(all_.source), comm_.size());
    if (auto placed = place_into(computed_, planned_, bags_); !placed) { return placed; }
    detail::rank_gpus const gpus = this->gpus();
    plan_route_into(to_compute_, read_, gpus.over_ranks(computed_, joined_), comm_.rank());
    heads_.resize(gpus.each);
    for (std::uint32_t local = 0; local < gpus.each; ++local) {
      bag_id const own = bag(local);
      heads_[local].assign(lengths, planned_.samples[own], bags_[own].gpus,
                           std::max(options_.query_heads, 1U), options_.kv_heads);
    }
    return {};
  }

  [[nodiscard]] std::uint64_t word_of_plan() const
  {
    digest all;
    all.add(planned_.digest()).add(options_.query_heads).add(options_.kv_heads);
    all.add(static_cast<std::uint64_t>(loss_tokens_));
    // Lengths that were gathered are the same everywhere; those of a function may not be, and the
    // plan would not show it.
    bool const gathered = options_.length_of == detail::own_length<Sample>();
    if (!gathered) { all.add(detail::span_of(planned_.lengths)); }
    return all.value();
  }

  Cost cost_;
  Policy policy_;

  // Kept from step to step.
  std::vector<std::int64_t> keys_;
  std::vector<std::int64_t> weights_;
  partition_plan planned_;
  placement read_;
  placement computed_;
  placement joined_;
  route_plan to_compute_;
  std::vector<ulysses_plan> heads_;  // of the bag of each of this rank's GPUs
};

}  // namespace ballast::inline v0
