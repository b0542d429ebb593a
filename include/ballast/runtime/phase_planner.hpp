// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/partition/partition.hpp>
#include <ballast/runtime/orchestrated_step.hpp>

namespace ballast::inline v0 {

namespace detail {

/// What a phase plans: its sequences, who has read them, the groups that may have to stay together,
/// and where the tokens are that it will need.
struct phase_input {
  std::size_t number = 0;  ///< of the phase, for messages
  std::span<tokens const> lengths;
  std::span<rank_id const> source;
  std::span<std::int64_t const> groups;
  placement const& from;  ///< is read where the phase asks for by_node
  std::size_t ranks = 0;
  rank_id rank{};
};

/// The same error, which says in which phase it is.
[[nodiscard]] inline result<void> in_phase(std::size_t number, error why)
{
  why.message = concat("phase ", number, ": ", why.message);
  return tl::unexpected(std::move(why));
}

/// The GPUs of a phase that has ranks of its own: none, if it has all ranks of the job.
class phase_ranks {
 public:
  phase_ranks(std::span<rank_id const> own, std::size_t ranks) : own_(own), ranks_(ranks) {}

  /// The phase's GPU that a rank is, if it is one.
  [[nodiscard]] std::optional<rank_id> gpu_of(rank_id rank) const
  {
    if (own_.empty()) { return rank; }
    auto const found = std::lower_bound(own_.begin(), own_.end(), rank);
    if (found == own_.end() || *found != rank) { return std::nullopt; }
    return to_id<rank_id>(static_cast<std::size_t>(found - own_.begin()));
  }

  /// Says of what was placed over the phase's GPUs on which ranks it lies.
  void rename(placement& where) const
  {
    if (!own_.empty()) { placement_writer::rename(where, own_, ranks_); }
  }

  /// Errors      out_of_range: the phase has not one GPU for each rank, or for each of its own.
  [[nodiscard]] result<void> check(std::size_t number, char const* what, std::size_t gpus) const
  {
    if (own_.empty()) {
      if (gpus == ranks_) { return {}; }
      return fail(error_code::out_of_range, number, "the ", what, " of phase ", number, " have ",
                  counted(gpus, "GPU"), " and the job has ", counted(ranks_, "rank"), "; lay the ",
                  what, " out over one GPU for each rank, or say which ranks they are");
    }
    bool const increasing =
        std::adjacent_find(own_.begin(), own_.end(), std::greater_equal{}) == own_.end();
    if (gpus == own_.size() && increasing && to_index(own_.back()) < ranks_) { return {}; }
    return fail(error_code::out_of_range, number, "the ", what, " of phase ", number, " have ",
                counted(gpus, "GPU"), " on ", counted(own_.size(), "rank"), " up to ", own_.back(),
                " of ", ranks_,
                "; give each GPU a rank of the job, in increasing "
                "order");
  }

 private:
  std::span<rank_id const> own_;
  std::size_t ranks_;
};

/// Plans one phase and places its sequences.
///
/// Errors      out_of_range: the phase has not one GPU for each rank, or each of its own, or is told
///             what it cannot keep (`position` is the phase); those of partition_into or hybrid_sharding_into,
///             with the phase's number before the message.
template <class Cost, class Policy>
[[nodiscard]] result<void> plan_phase(phase<Cost, Policy> const& own, phase_input const& in,
                                      phase_step& step, workspace& memory)
{
  phase_ranks const ranks(span_of(own.ranks), in.ranks);
  if (auto checked = ranks.check(in.number, "bags", own.bags.gpus()); !checked) { return checked; }
  if (!own.ranks.empty() && (own.homes || own.by_node)) {
    return fail(error_code::out_of_range, in.number, "phase ", in.number,
                " has ranks of its own and is to stay near those that have read its samples; leave "
                "out homes and by_node");
  }
  if (own.rate > 1 && own.bags.size() != own.bags.gpus()) {
    auto const rate = own.rate;  // nvcc 13 garbles the list below with it
    return fail(error_code::out_of_range, in.number, "phase ", in.number, " makes one token of ",
                rate,
                " and has a bag of several GPUs, whose chunks could end inside such a token; "
                "give it bags of one GPU");
  }
  if (own.by_node) {
    if (auto checked = ranks.check(in.number, "machines", own.by_node->gpus()); !checked) {
      return checked;
    }
  }
  placement_limits limits = own.limits;
  if (own.together) { limits.together = in.groups; }
  if (own.homes) { limits.home = in.source; }
  if (auto done = partition_into(step.planned, memory, in.lengths, own.bags, own.cost_of, limits,
                                 own.policy);
      !done) {
    return in_phase(in.number, std::move(done.error()));
  }
  if (own.by_node) {
    auto done = place_by_node(step.by_node, memory, step.planned, in.from, own.bags, *own.by_node);
    if (!done) { return in_phase(in.number, std::move(done.error())); }
  }
  step.own_lengths.clear();
  if (auto const gpu = ranks.gpu_of(in.rank)) {
    for (sample_id const sequence : step.planned.samples[own.bags.bag_of(*gpu)]) {
      step.own_lengths.push_back(in.lengths[to_index(sequence)]);
    }
  }
  place(step.as_computed, in.lengths, span_of(step.planned.owner), own.bags);
  ranks.rename(step.as_computed);
  return {};
}

[[nodiscard]] inline result<void> plan_phase(hybrid_phase const& own, phase_input const& in,
                                             phase_step& step, workspace& memory)
{
  phase_ranks const ranks(span_of(own.ranks), in.ranks);
  if (auto checked = ranks.check(in.number, "groups", own.groups.gpus()); !checked) {
    return checked;
  }
  if (auto done = hybrid_sharding_into(step.sharded, memory, in.lengths, own.groups, own.cost,
                                       own.most_per_gpu,
                                       own.together ? in.groups : std::span<std::int64_t const>());
      !done) {
    return in_phase(in.number, std::move(done.error()));
  }
  if (auto const gpu = ranks.gpu_of(in.rank)) {
    step.packs.assign(step.sharded, own.groups, *gpu, own.cost.heads,
                      own.cost.whole_groups ? own.cost.kv_heads : 0);
  } else {
    step.packs = {};
  }
  auto placed = place(step.as_computed, step.sharded, own.groups);
  if (placed) { ranks.rename(step.as_computed); }
  return placed;
}

}  // namespace detail

/// Plans all phases of a multimodal step from what all ranks have read, before the first phase
/// runs: the part of an `orchestrator` that communicates with nobody.
///
///     phase_planner plan(std::tuple{vision, audio}, llm, std::tuple{reference, reward});
///     plan(step, memory, all, comm.size(), comm.rank());
///
/// What is balanced in an encoder is its subsequences, each image by itself: the finest unit that
/// an encoder can compute alone. In the language model, and in passes of other models, it is
/// samples. Each phase is a `phase` or a `hybrid_phase`; a pass may also be a `shared_plan`.
///
/// In, out     step is overwritten; its memory is used again in the next step.
/// Expects     the phases are the same on every rank, their rates at least 1, those of the language
///             model and of passes 1. all is what gather_samples makes of every rank's
///             multimodal_samples::entries().
/// Ensures     (1) those of orchestrated_step
///             (2) each phase's plan is that of partition() or hybrid_sharding() over its sequences
///                 as they are read, and depends on nothing but the phase and them; with by_node
///                 equal bags have changed places
///             (3) a step no larger than those before allocates nothing
///             (4) a shared_plan has plan, placement and packs of the phase whose it is, and only
///                 passes of which a row lies elsewhere than in the language model have `moves`
/// Errors      out_of_range: a phase has neither as many GPUs as there are ranks nor one for each
///             of its own, or these are no increasing ranks of the job, or an encoder of a rate above 1 has a bag of
///             several GPUs, whose chunks could end inside an output token, or a pass shares the plan
///             of one that is not before it (`position` is the phase: encoders, language model, passes); or sample `position`
///             has an impossible subsequence. Those of partition_into and hybrid_sharding_into,
///             with the phase's number before the message; `position` is the sequence among those
///             of the phase. The step is then unspecified.
/// Complexity  O(subsequences + pieces + ranks) and the policies.
/// Source      the global orchestrator of OrchMLLM (see orchestrator), where outputs too go from
///             encoder to language model without a stop where they were read.
template <class Encoders, class Llm, class Passes = std::tuple<>>
class phase_planner {
 public:
  phase_planner(Encoders own_encoders, Llm own_llm, Passes own_passes = {})
      : encoders_(std::move(own_encoders)), llm_(std::move(own_llm)), passes_(std::move(own_passes))
  {
    std::apply([this](auto const&... each) { rates_ = {each.rate..., 1}; }, encoders_);
    for (std::size_t each = 0; each < rates_.size(); ++each) {
      BALLAST_EXPECTS(rates_[each] >= 1, "phase ", each, " has a rate of 0");
    }
    BALLAST_EXPECTS(llm_.rate == 1, "the language model has a rate of ", llm_.rate);
    std::apply(
        [](auto const&... each) {
          BALLAST_EXPECTS(((each.rate == 1) && ...), "a pass has a rate other than 1");
        },
        passes_);
  }

  [[nodiscard]] static constexpr std::size_t encoders() noexcept
  {
    return std::tuple_size_v<Encoders>;
  }
  [[nodiscard]] static constexpr std::size_t passes() noexcept { return std::tuple_size_v<Passes>; }

  /// Plans for one rank of so many.
  [[nodiscard]] result<void> operator()(
      orchestrated_step& step, workspace& memory,
      gathered_samples<multimodal_samples::subsequence> const& all, std::size_t ranks,
      rank_id rank) const
  {
    step.modalities.resize(encoders() + 1);
    step.passes.resize(passes());
    if (auto read = read_subsequences(step, all); !read) { return read; }
    result<void> done;
    std::size_t number = 0;
    auto const each_of = [&](auto const& phases, auto const& plan) {
      auto const next = [&](auto const& own) {
        done = plan(own);
        ++number;
        return done.has_value();
      };
      std::apply([&](auto const&... each) { static_cast<void>((next(each) && ...)); }, phases);
    };
    each_of(encoders_,
            [&](auto const& own) { return encode(own, number, step, ranks, rank, memory); });
    if (!done) { return done; }
    orchestrated_step::modality_step& text = step.modalities.back();
    place(text.as_read, detail::span_of(text.lengths), detail::span_of(text.source), ranks);
    text.as_computed = text.as_read;
    text.as_encoded = text.as_read;

    // Where the tokens of samples are before the language model has them, and before a pass has.
    auto const of_samples = [&](placement const& from) {
      return detail::phase_input{number,
                                 detail::span_of(step.lengths),
                                 detail::span_of(step.source),
                                 detail::span_of(step.groups),
                                 from,
                                 ranks,
                                 rank};
    };
    each_of(std::tie(llm_), [&](auto const& own) -> result<void> {
      if constexpr (requires { own.by_node; }) {
        if (own.by_node) { gather_wholes(step, memory); }
      }
      return detail::plan_phase(own, of_samples(step.as_encoded), step, memory);
    });
    if (!done) { return done; }
    for (orchestrated_step::modality_step& each : step.modalities) {
      place_parts(each.as_needed, step.as_computed, detail::span_of(each.parts));
      plan_route(each.to_model, each.as_encoded, each.as_needed, rank);
    }
    each_of(passes_, [&](auto const& own) -> result<void> {
      orchestrated_step::pass_step& pass = step.passes[number - encoders() - 1];
      if constexpr (requires { own.pass; }) {
        if (auto shared = share(own, number, step, pass); !shared) { return shared; }
      } else if (auto planned = detail::plan_phase(own, of_samples(step.as_computed), pass, memory);
                 !planned) {
        return planned;
      }
      plan_route(pass.from_model, step.as_computed, pass.as_computed, rank);
      pass.moves = !(pass.as_computed == step.as_computed);
      return {};
    });
    return done;
  }

 private:
  /// Sorts what all ranks have read by modality, and lays out the sequence of each sample:
  /// `lengths`, `source`, `groups` and `parts` of the step.
  [[nodiscard]] result<void> read_subsequences(
      orchestrated_step& step, gathered_samples<multimodal_samples::subsequence> const& all) const
  {
    for (orchestrated_step::modality_step& each : step.modalities) {
      each.lengths.clear();
      each.source.clear();
      each.parts.clear();
    }
    step.lengths.clear();
    step.source.clear();
    step.groups.clear();
    auto const refuse = [&step](std::string const& what) {
      std::size_t const sample = step.lengths.size() - 1;
      rank_id const reader = step.source.back();
      return comm_failure::of_rank(
          reader, fail(error_code::out_of_range, sample, "sample ", sample, ", which rank ",
                       to_index(reader), " has read, has ", what));
    };
    for (std::size_t entry = 0; entry < all.samples.size(); ++entry) {
      auto const [modality, length] = all.samples[entry];
      if (modality == multimodal_samples::begins_sample) {
        step.lengths.push_back(0);
        step.source.push_back(all.source[entry]);
        step.groups.push_back(length == multimodal_samples::alone
                                  ? -static_cast<std::int64_t>(step.lengths.size())
                                  : length);
        continue;
      }
      BALLAST_EXPECTS(!step.lengths.empty(), "entry ", entry, " is before the first sample");
      if (modality > encoders()) {
        return refuse(detail::concat("a subsequence of modality ", modality, ", and the model has ",
                                     detail::counted(encoders(), "encoder"),
                                     "; number modalities as the encoders, and text after them"));
      }
      if (length < 0 || length > longest_sample) {
        return refuse(detail::concat("a subsequence of ", detail::counted(length, "token"),
                                     " of modality ", modality, "; give lengths from 0 to ",
                                     longest_sample));
      }
      tokens const rate = rates_[modality];
      tokens const outputs = (length + rate - 1) / rate;
      tokens& whole = step.lengths.back();
      orchestrated_step::modality_step& own = step.modalities[modality];
      own.lengths.push_back(length);
      own.source.push_back(all.source[entry]);
      own.parts.push_back({to_id<sample_id>(step.lengths.size() - 1), whole, outputs});
      if (outputs > longest_sample - whole) {
        return refuse(
            detail::concat("more than ", longest_sample, " tokens in the language model; cut it"));
      }
      whole += outputs;
    }
    return {};
  }

  /// Where the subsequences of one encoder are read, computed and encoded.
  template <class Phase>
  [[nodiscard]] static result<void> encode(Phase const& own, std::size_t number,
                                           orchestrated_step& all, std::size_t ranks, rank_id rank,
                                           workspace& memory)
  {
    orchestrated_step::modality_step& step = all.modalities[number];
    place(step.as_read, detail::span_of(step.lengths), detail::span_of(step.source), ranks);
    auto scratch = memory.open();
    std::span<std::int64_t> const groups = scratch.take<std::int64_t>(step.parts.size());
    std::span<tokens> const outputs = scratch.take<tokens>(step.parts.size());
    for (std::size_t each = 0; each < step.parts.size(); ++each) {
      groups[each] = all.groups[to_index(step.parts[each].sample)];
      outputs[each] = step.parts[each].count;
    }
    detail::phase_input const in{number,
                                 detail::span_of(step.lengths),
                                 detail::span_of(step.source),
                                 groups,
                                 step.as_read,
                                 ranks,
                                 rank};
    if (auto done = detail::plan_phase(own, in, step, memory); !done) { return done; }
    plan_route(step.to_encoder, step.as_read, step.as_computed, rank);
    if constexpr (requires { own.bags; }) {
      place(step.as_encoded, outputs, detail::span_of(step.planned.owner), own.bags);
      detail::phase_ranks(detail::span_of(own.ranks), ranks).rename(step.as_encoded);
    } else {
      step.as_encoded = step.as_computed;
    }
    return {};
  }

  /// Where the tokens of whole samples are before the language model has them.
  static void gather_wholes(orchestrated_step& step, workspace& memory)
  {
    [&]<std::size_t... Each>(std::index_sequence<Each...>) {
      std::array<placement::parts_of_kind, sizeof...(Each)> const kinds{
          {{step.modalities[Each].as_encoded, detail::span_of(step.modalities[Each].parts)}...}};
      place(step.as_encoded, memory, step.lengths.size(), kinds);
    }(std::make_index_sequence<std::tuple_size_v<Encoders> + 1>());
  }

  /// Gives a pass the plan of an earlier one, or of the language model.
  [[nodiscard]] static result<void> share(shared_plan const& own, std::size_t number,
                                          orchestrated_step const& step,
                                          orchestrated_step::pass_step& pass)
  {
    if (own.pass.has_value() && *own.pass + encoders() + 1 >= number) {
      auto const whose = *own.pass;
      return fail(error_code::out_of_range, number, "phase ", number, " shares the plan of pass ",
                  whose, ", which is not before it; list it after that pass");
    }
    phase_step const& from =
        own.pass ? step.passes[*own.pass] : static_cast<phase_step const&>(step);
    static_cast<phase_step&>(pass) = from;
    return {};
  }

  Encoders encoders_;
  Llm llm_;
  Passes passes_;
  std::array<std::uint32_t, std::tuple_size_v<Encoders> + 1> rates_{};  ///< and that of text
};

}  // namespace ballast::inline v0
