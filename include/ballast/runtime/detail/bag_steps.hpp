// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/route/ulysses.hpp>
#include <ballast/runtime/detail/plan_together.hpp>

namespace ballast::inline v0::detail {

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

  /// Its rows in the rank's arrays, where those of one GPU lie behind those of the one before.
  ///
  /// Shapes      heads[each], of the bags of these GPUs.
  [[nodiscard]] row_range rows(bag_layout const& bags, std::span<ulysses_plan const> heads,
                               std::uint32_t local) const
  {
    row_range all{0, heads[0].rows(in_bag(bags, 0))};
    for (std::uint32_t next = 1; next <= local; ++next) {
      all = {all.first + all.count, heads[next].rows(in_bag(bags, next))};
    }
    return all;
  }

  /// Where the ranks' arrays have what lies on their GPUs; `joined` is memory for it.
  [[nodiscard]] placement const& over_ranks(placement& over_gpus, placement& joined) const
  {
    if (each == 1) { return over_gpus; }
    join_ranks_into(joined, over_gpus, each);
    return joined;
  }
};

/// What all balancers of steps over bags have: the job, its bags, what its ranks have read, and the
/// group of a rank's bag, which the first step that is planned makes.
///
/// Options     has length_of, loss_tokens_of and most_samples.
template <splitting_communicator Communicator, class Sample, class Options>
class bag_steps {
 public:
  [[nodiscard]] Communicator& comm() const noexcept { return comm_; }
  [[nodiscard]] bag_layout const& bags() const noexcept { return bags_; }
  [[nodiscard]] Options const& options() const noexcept { return options_; }
  /// The bag of this rank, or of one of its GPUs.
  [[nodiscard]] bag_id bag(std::uint32_t local = 0) const { return bags_.bag_of(gpus()[local]); }
  /// What all ranks have read, and who has read it, in the step that was planned last.
  [[nodiscard]] gathered_samples<Sample> const& samples() const { return expect_plan(), all_; }
  /// What the loss of one token counts in that step: 1 / the tokens of all ranks that have one, or
  /// 0 where none has.
  [[nodiscard]] double loss_weight() const
  {
    expect_plan();
    return loss_tokens_ == 0 ? 0.0 : 1.0 / static_cast<double>(loss_tokens_);
  }
  /// The group of the ranks of this rank's bag.
  [[nodiscard]] Communicator& bag_comm()
  {
    expect_plan();
    BALLAST_EXPECTS(bag_comm_.has_value(),
                    "options.gpus_per_rank is above 1, and heads are exchanged between GPUs; do it "
                    "in a communicator of theirs");
    return *bag_comm_;
  }

 protected:
  bag_steps(Communicator& comm, bag_layout bags, Options options)
      : comm_(comm), bags_(std::move(bags)), options_(options)
  {
    BALLAST_EXPECTS(options_.length_of != nullptr,
                    "options.length_of is null, and the samples are no numbers");
    BALLAST_EXPECTS(options_.most_samples >= 1, "options.most_samples is 0");
    BALLAST_EXPECTS(options_.gpus_per_rank >= 1, "options.gpus_per_rank is 0");
    BALLAST_EXPECTS(!options_.homes || options_.gpus_per_rank == 1,
                    "options.homes is set, and a rank of several GPUs is home to all bags on them");
    for (std::size_t each = 0; each < bags_.size(); ++each) {
      head_split const split{std::max(options_.query_heads, 1U), bags_[to_id<bag_id>(each)].gpus,
                             options_.kv_heads};
      BALLAST_EXPECTS(split.is_possible(), "options.kv_heads keeps groups of ",
                      counted(split.query_heads, "query head"), " and ",
                      counted(split.kv_heads, "key-value head"), " whole, and bag ", each, " has ",
                      counted(split.gpus, "GPU"),
                      "; give a multiple of kv_heads as query_heads, and bags of at most "
                      "as many GPUs");
    }
  }

  /// Gathers what was read, has make() plan it, and compares word_of_plan() with the other ranks.
  template <class Make, class WordOf>
  [[nodiscard]] result<void> plan_step(std::span<Sample const> read, Make const& make,
                                       WordOf const& word_of_plan)
  {
    is_planned_ = false;
    if (auto made = plan_together(
            comm_, [&] { return gather_samples_into(all_, comm_, read, options_.most_samples); },
            [&]() -> result<void> {
              result<void> own = make();
              if (!own) { return with_reader(std::move(own).error()); }
              return own;
            },
            word_of_plan);
        !made) {
      return made;
    }
    if (!bag_comm_ && options_.gpus_per_rank == 1) {
      auto part = comm_.split(static_cast<std::uint32_t>(to_index(bag())));
      if (!part) { return tl::unexpected(part.error()); }
      bag_comm_.emplace(*std::move(part));
    }
    is_planned_ = true;
    return {};
  }

  /// Why these are no bags of this job, if so.
  [[nodiscard]] result<void> check_bags() const
  {
    std::size_t const each = options_.gpus_per_rank;
    if (bags_.gpus() == comm_.size() * each) { return {}; }
    if (each > 1) {
      return fail(error_code::out_of_range, bags_.gpus(), "the bags have ",
                  counted(bags_.gpus(), "GPU"), " and the job has ", counted(comm_.size(), "rank"),
                  " of ", counted(each, "GPU"), "; lay the bags out over the GPUs of all ranks");
    }
    return fail(error_code::out_of_range, bags_.gpus(), "the bags have ",
                counted(bags_.gpus(), "GPU"), " and the job has ", counted(comm_.size(), "rank"),
                "; lay the bags out over one GPU for each rank");
  }

  /// How many tokens of a sample have a loss.
  [[nodiscard]] tokens loss_tokens_of(Sample const& sample) const
  {
    return (options_.loss_tokens_of != nullptr ? options_.loss_tokens_of
                                               : options_.length_of)(sample);
  }

  /// Counts those of all samples, whose lengths are right.
  [[nodiscard]] result<void> count_loss_tokens()
  {
    loss_tokens_ = 0;
    for (std::size_t sample = 0; sample < all_.samples.size(); ++sample) {
      tokens const own = loss_tokens_of(all_.samples[sample]);
      if (own < 0 || own > longest_sample) {
        return fail(error_code::out_of_range, sample, "sample ", sample, " has ",
                    counted(own, "token"), " with a loss, which is not from 0 to ", longest_sample,
                    "; correct it");
      }
      loss_tokens_ += own;
    }
    return {};
  }

  /// The group of this rank's bag; null until a step was planned.
  [[nodiscard]] Communicator* made_bag_comm() noexcept { return bag_comm_ ? &*bag_comm_ : nullptr; }

  /// This rank's GPUs.
  [[nodiscard]] rank_gpus gpus() const { return {comm_.rank(), options_.gpus_per_rank}; }

  void expect_plan() const
  {
    BALLAST_EXPECTS(is_planned_, "there is no plan: plan() was not called, or it failed");
  }
  void expect_heads() const
  {
    expect_plan();
    BALLAST_EXPECTS(options_.query_heads >= 1,
                    "options.query_heads is 0; give the query heads of the model");
  }

  Communicator& comm_;
  bag_layout bags_;
  Options options_;
  gathered_samples<Sample> all_;  // kept from step to step
  tokens loss_tokens_ = 0;        // of all ranks
  workspace memory_;

 private:
  /// The error of a plan, and who has read the sample that it is of, if it is of one.
  [[nodiscard]] tl::unexpected<error> with_reader(error why) const
  {
    bool const of_sample = why.message.starts_with(concat("sample ", why.position, " ")) &&
                           why.position < all_.source.size();
    if (!of_sample) { return tl::unexpected(std::move(why)); }
    rank_id const reader = all_.source[why.position];
    why.message += concat(" (rank ", reader, " has read it)");
    why.ranks = {reader};
    return tl::unexpected(std::move(why));
  }

  std::optional<Communicator> bag_comm_;
  bool is_planned_ = false;
};

}  // namespace ballast::inline v0::detail
