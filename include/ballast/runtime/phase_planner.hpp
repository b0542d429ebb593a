// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_RUNTIME_PHASE_PLANNER_HPP
#define BALLAST_RUNTIME_PHASE_PLANNER_HPP

#include <ballast/comm/comm_failure.hpp>
#include <ballast/comm/gather_samples.hpp>
#include <ballast/core/contract.hpp>
#include <ballast/core/detail/concat.hpp>
#include <ballast/core/detail/span_of.hpp>
#include <ballast/core/ids.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/core/result.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/partition/partition.hpp>
#include <ballast/partition/partition_constraints.hpp>
#include <ballast/partition/partition_plan.hpp>
#include <ballast/route/place.hpp>
#include <ballast/route/placement.hpp>
#include <ballast/route/route_plan.hpp>
#include <ballast/runtime/multimodal_samples.hpp>
#include <ballast/runtime/orchestrated_step.hpp>
#include <ballast/runtime/phase.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace ballast::inline v0 {

/// Plans all phases of a multimodal step from what all ranks have read, before the first phase
/// runs: the part of an `orchestrator` that communicates with nobody.
///
///     phase_planner plan(std::tuple{vision, audio}, llm);
///     plan(step, memory, all, comm.size(), comm.rank());
///
/// What is balanced in an encoder is its subsequences, each image by itself: the finest unit that
/// an encoder can compute alone. In the language model it is samples.
///
/// In, out     step is overwritten; its memory is used again in the next step.
/// Expects     the phases are the same on every rank, their rates at least 1, the language model's
///             1. all is what gather_samples makes of every rank's multimodal_samples::entries().
/// Ensures     (1) those of orchestrated_step
///             (2) each phase's plan is that of partition() over its sequences as they are read,
///                 and depends on nothing but the phase and them
///             (3) a step no larger than those before allocates nothing
/// Errors      out_of_range: a phase's bags have not as many GPUs as there are ranks, or an encoder
///             of a rate above 1 has a bag of several GPUs, whose chunks could end inside an output
///             token (`position` is the phase); or sample `position` has an impossible subsequence.
///             Those of partition_into, with the phase's number before the message; `position` is
///             the sequence among those of the phase. The step is then unspecified.
/// Complexity  O(subsequences + pieces + ranks) and the policies.
/// Source      the global orchestrator of B. Xiao, Y. Zheng et al., "OrchMLLM: Orchestrate
///             Multimodal Data with Batch Post-Balancing to Accelerate Multimodal Large Language
///             Model Training", arXiv 2503.23830, 2025. As there, outputs go from encoder to
///             language model without a stop where they were read: Pi_M after the inverse of Pi_E.
template <class Llm, class... Encoders>
class phase_planner {
 public:
  phase_planner(std::tuple<Encoders...> own_encoders, Llm own_llm)
      : encoders_(std::move(own_encoders)), llm_(std::move(own_llm))
  {
    std::apply([this](auto const&... each) { rates_ = {each.rate...}; }, encoders_);
    for (std::size_t each = 0; each < encoders(); ++each) {
      BALLAST_EXPECTS(rates_[each] >= 1, "phase ", each, " has a rate of 0");
    }
    BALLAST_EXPECTS(llm_.rate == 1, "the language model has a rate of ", llm_.rate);
  }

  [[nodiscard]] static constexpr std::size_t encoders() noexcept { return sizeof...(Encoders); }

  /// Plans for one rank of so many.
  [[nodiscard]] result<void> operator()(orchestrated_step& step, workspace& memory,
                                        gathered_samples<subsequence> const& all, std::size_t ranks,
                                        rank_id rank) const
  {
    if (auto read = read_subsequences(step, all); !read) { return read; }
    if (auto done = plan_phase(llm_, encoders(), detail::span_of(step.lengths),
                               detail::span_of(step.source), ranks, rank, step.planned,
                               step.own_lengths, memory);
        !done) {
      return done;
    }
    place_into(step.as_computed, detail::span_of(step.lengths), detail::span_of(step.planned.owner),
               llm_.bags);

    result<void> done;
    std::size_t number = 0;
    auto const encode_next = [&](auto const& own) {
      done = encode(own, number, step.modalities[number], ranks, rank, memory);
      ++number;
      return done.has_value();
    };
    std::apply([&](auto const&... each) { static_cast<void>((encode_next(each) && ...)); },
               encoders_);
    if (!done) { return done; }
    modality_step& text = step.modalities.back();
    place_into(text.as_read, detail::span_of(text.lengths), detail::span_of(text.source), ranks);
    text.as_encoded = text.as_read;
    for (modality_step& each : step.modalities) {
      place_parts_into(each.as_needed, step.as_computed, detail::span_of(each.parts));
      plan_route_into(each.to_model, each.as_encoded, each.as_needed, rank);
    }
    return {};
  }

 private:
  /// Sorts what all ranks have read by modality, and lays out the sequence of each sample:
  /// `lengths`, `source` and `parts` of the step.
  [[nodiscard]] result<void> read_subsequences(orchestrated_step& step,
                                               gathered_samples<subsequence> const& all) const
  {
    step.modalities.resize(encoders() + 1);
    for (modality_step& each : step.modalities) {
      each.lengths.clear();
      each.source.clear();
      each.parts.clear();
    }
    step.lengths.clear();
    step.source.clear();
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
        continue;
      }
      BALLAST_EXPECTS(!step.lengths.empty(), "entry ", entry, " is before the first sample");
      if (modality > encoders()) {
        return refuse(
            detail::concat("a subsequence of modality ", modality, ", and there are ", encoders(),
                           " encoders; number modalities as the encoders, and text after them"));
      }
      if (length < 0 || length > longest_sample) {
        return refuse(detail::concat("a subsequence of ", length, " tokens of modality ", modality,
                                     "; give lengths from 0 to ", longest_sample));
      }
      tokens const rate = modality < encoders() ? rates_[modality] : 1;
      tokens const outputs = (length + rate - 1) / rate;
      tokens& whole = step.lengths.back();
      modality_step& own = step.modalities[modality];
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
  template <class Cost, class Policy>
  [[nodiscard]] static result<void> encode(phase<Cost, Policy> const& own, std::size_t number,
                                           modality_step& step, std::size_t ranks, rank_id rank,
                                           workspace& memory)
  {
    if (auto done =
            plan_phase(own, number, detail::span_of(step.lengths), detail::span_of(step.source),
                       ranks, rank, step.planned, step.own_lengths, memory);
        !done) {
      return done;
    }
    place_into(step.as_read, detail::span_of(step.lengths), detail::span_of(step.source), ranks);
    place_into(step.as_computed, detail::span_of(step.lengths), detail::span_of(step.planned.owner),
               own.bags);
    plan_route_into(step.to_encoder, step.as_read, step.as_computed, rank);
    auto scratch = memory.open();
    std::span<tokens> const outputs = scratch.take<tokens>(step.parts.size());
    std::transform(step.parts.begin(), step.parts.end(), outputs.begin(),
                   [](sample_part const& part) { return part.count; });
    place_into(step.as_encoded, outputs, detail::span_of(step.planned.owner), own.bags);
    return {};
  }

  template <class Cost, class Policy>
  [[nodiscard]] static result<void> plan_phase(phase<Cost, Policy> const& own, std::size_t number,
                                               std::span<tokens const> lengths,
                                               std::span<rank_id const> source, std::size_t ranks,
                                               rank_id rank, partition_plan& planned,
                                               std::vector<tokens>& own_lengths, workspace& memory)
  {
    if (own.bags.gpus() != ranks) {
      return fail(error_code::out_of_range, number, "the bags of phase ", number, " have ",
                  own.bags.gpus(), " GPUs and the job has ", ranks,
                  " ranks; lay the bags out over one GPU for each rank");
    }
    if (own.rate > 1 && own.bags.size() != ranks) {
      auto const rate = own.rate;  // nvcc 13 garbles the list below with it
      return fail(error_code::out_of_range, number, "phase ", number, " makes one token of ", rate,
                  " and has a bag of several GPUs, whose chunks could end inside such a token; "
                  "give it bags of one GPU");
    }
    partition_constraints const constraints{.home = own.homes ? source : std::span<rank_id const>(),
                                            .most_per_gpu = own.most_per_gpu};
    if (auto done = partition_into(planned, memory, lengths, own.bags, own.policy, own.cost_of,
                                   std::identity{}, constraints);
        !done) {
      error why = std::move(done.error());
      why.message = detail::concat("phase ", number, ": ", why.message);
      return tl::unexpected(std::move(why));
    }
    own_lengths.clear();
    for (sample_id const sequence : planned.samples[own.bags.bag_of(rank)]) {
      own_lengths.push_back(lengths[to_index(sequence)]);
    }
    return {};
  }

  std::tuple<Encoders...> encoders_;
  Llm llm_;
  std::array<std::uint32_t, sizeof...(Encoders)> rates_{};
};

}  // namespace ballast::inline v0

#endif  // BALLAST_RUNTIME_PHASE_PLANNER_HPP
