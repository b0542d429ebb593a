// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/runtime/orchestrated_step.hpp>

namespace ballast::inline v0::report {

/// The bytes that a phase needs for a row of a rank's arrays.
struct phase_bytes {
  std::uint64_t input = 0;    ///< as read and where it is computed, and as much for its gradient
  std::uint64_t kept = 0;     ///< from the forward pass to the backward pass, the input included
  std::uint64_t working = 0;  ///< beside it while a pass runs; of a layer that is recomputed, say
  std::uint64_t output = 0;  ///< of an encoder a row of the sequences; its gradient takes its place
  batching batches = batching::packed;  ///< of padded batches, padding is kept and worked on too
};

/// What one rank holds at most in an orchestrated step.
struct held_memory {
  std::uint64_t peak = 0;               ///< of all phases together
  std::size_t phase = 0;                ///< which phase runs then
  std::vector<std::uint64_t> of_phase;  ///< most that each phase's own arrays take
};

/// The bytes of an orchestrated step on every rank, phase by phase: what it reads, what goes to the
/// encoders, what these keep for the backward pass, and what goes to the language model and back.
///
/// The step is that of `orchestrator`, one phase after the other, and every array lives as long as
/// it is needed. The sequences of the language model come first. Then each encoder in turn: its
/// inputs as read and where they are computed, until to_encoder has moved them; its outputs, until
/// to_model has; what it keeps. Then texts, until to_model has moved them, and the language model,
/// whose sequences, outputs and kept rows end with its backward pass, which leaves the gradient of
/// the sequences. Then the encoders backward from the last one: the gradient of the outputs, then
/// that of the inputs; and that of the inputs as read, until reverse_to_encoder has returned.
///
/// Shapes      phases: those of the encoders, text, of which only `input` counts, and the language
///             model; returned: one for each rank.
/// Ensures     (1) peak is the largest sum of what is held at once, of_phase[p] that of phase p
///                 alone; a training that makes and drops arrays in this order holds as much
///             (2) not counted: weights and what belongs to them, and messages, for which
///                 comm.scratch has at most what one call sends and receives
/// Complexity  O(pieces + ranks x phases).
/// Source      the GPU memory of B. Xiao, Y. Zheng et al., "OrchMLLM", arXiv 2503.23830, 2025,
///             section 8, which measures it.
[[nodiscard]] inline std::vector<held_memory> step_memory(orchestrated_step const& step,
                                                          std::span<phase_bytes const> phases)
{
  std::size_t const text = step.modalities.size() - 1;
  std::size_t const llm = text + 1;
  BALLAST_EXPECTS(phases.size() == llm + 1, "bytes of ", detail::counted(phases.size(), "phase"),
                  " were given for a step of ", llm + 1);
  // Rows that a phase computes on each rank: of a padded batch its pieces x the longest, as sequences
  // without tokens need no room.
  auto const computed_rows = [](placement const& where, batching batches) {
    std::vector<std::uint64_t> rows(where.ranks()), longest(where.ranks());
    for (piece const& each : where.pieces()) {
      auto const count = static_cast<std::uint64_t>(each.count);
      std::size_t const rank = to_index(each.rank);
      rows[rank] += batches == batching::padded ? 1 : count;
      longest[rank] = std::max(longest[rank], count);
    }
    for (std::size_t rank = 0; rank < rows.size() && batches == batching::padded; ++rank) {
      rows[rank] *= longest[rank];
    }
    return rows;
  };
  std::vector<std::vector<std::uint64_t>> computed;
  computed.reserve(text);
  for (std::size_t each = 0; each < text; ++each) {
    computed.push_back(computed_rows(step.modalities[each].as_computed, phases[each].batches));
  }
  auto const of_model = computed_rows(step.as_computed, phases[llm].batches);

  std::vector<held_memory> all;
  all.reserve(step.as_computed.ranks());
  for (std::size_t number = 0; number < step.as_computed.ranks(); ++number) {
    auto const rank = to_id<rank_id>(number);
    held_memory most{.of_phase = std::vector<std::uint64_t>(llm + 1)};
    std::vector<std::uint64_t> now(llm + 1);
    std::uint64_t sum = 0;  // of all phases
    auto const add = [&](std::size_t phase, std::uint64_t bytes) {
      now[phase] += bytes;
      sum += bytes;
      most.of_phase[phase] = std::max(most.of_phase[phase], now[phase]);
      if (sum <= most.peak) { return; }
      most.peak = sum;
      most.phase = phase;
    };
    auto const drop = [&](std::size_t phase, std::uint64_t bytes) {
      now[phase] -= bytes;
      sum -= bytes;
    };
    auto const rows = [rank](placement const& where) {
      return static_cast<std::uint64_t>(where.rows(rank));
    };
    std::uint64_t const sequences = rows(step.as_computed) * phases[llm].input;
    add(llm, sequences);
    for (std::size_t each = 0; each < text; ++each) {
      orchestrated_step::modality_step const& own = step.modalities[each];
      phase_bytes const& row = phases[each];
      std::uint64_t const here = rows(own.as_computed) * row.input;
      std::uint64_t const working = computed[each][number] * row.working;
      add(each, rows(own.as_read) * row.input + here);
      drop(each, rows(own.as_read) * row.input);
      add(each, computed[each][number] * row.kept + working + rows(own.as_encoded) * row.output);
      drop(each, working + here + rows(own.as_encoded) * row.output);
    }
    add(text, rows(step.modalities[text].as_read) * phases[text].input);
    drop(text, rows(step.modalities[text].as_read) * phases[text].input);

    std::uint64_t const until_backward =
        of_model[number] * (phases[llm].kept + phases[llm].working) +
        rows(step.as_computed) * phases[llm].output;
    add(llm, until_backward);
    add(llm, sequences);  // their gradient
    drop(llm, until_backward + sequences);
    for (std::size_t each = text; each-- > 0;) {
      orchestrated_step::modality_step const& own = step.modalities[each];
      phase_bytes const& row = phases[each];
      std::uint64_t const here = rows(own.as_computed) * row.input;
      std::uint64_t const in_pass = computed[each][number] * row.working;
      std::uint64_t const outputs = rows(own.as_encoded) * row.output;
      add(each, outputs + in_pass + here);
      drop(each, outputs + in_pass + computed[each][number] * row.kept);
      add(each, rows(own.as_read) * row.input);
      drop(each, rows(own.as_read) * row.input + here);
    }
    all.push_back(std::move(most));
  }
  return all;
}

}  // namespace ballast::inline v0::report
