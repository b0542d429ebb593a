// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/runtime/detail/plan_together.hpp>
#include <ballast/runtime/phase_planner.hpp>

namespace ballast::inline v0 {

/// Balances every phase of a multimodal model by itself, and moves rows from phase to phase: one
/// object per rank. Each encoder has its own plan over the subsequences of its modality, the
/// language model has one over whole samples, so has every pass of another model over them, and
/// while a step runs a thread gathers and plans the next one.
///
///     orchestrator step(comm, std::tuple{vision, audio}, llm);  // once; comm is split
///     or_throw(step.submit(read));                              // what this rank read for step 0
///     while (...) {
///       or_throw(step.next());                            // its plan, mostly there already
///       or_throw(step.submit(read_for_the_next_step));
///       or_throw(step.to_encoder(image, rows_of(pixels, pixels_there, width)));  // and encode
///       or_throw(step.to_model(image, rows_of(encoded, sequences, width)));
///       or_throw(step.to_model(text, rows_of(words, sequences, width)));  // the language model
///       or_throw(step.reverse_to_model(image, rows_of(d_sequences, d_encoded, width)));
///     }
///
/// Modalities are numbered as the encoders are given; the one after them is text, which no encoder
/// reads. `sequences` is one array, and every to_model fills the rows of its modality. Encoders
/// that run at the same time may each have their rows moved as soon as they are ready; the gradient
/// of a call is its reverse_ call.
///
/// In reinforcement learning the language model is the update of the policy, and the other models'
/// forward passes and updates are passes: `orchestrator step(comm, std::tuple{vision}, update,
/// std::tuple{shared_plan{}, reference, reward})`. Rows go to one with to_pass and come back with
/// from_pass.
///
/// Arrays lie in the host's memory, or where a row_carrier has them: `device_carrier rows(nccl);
/// orchestrator step(mpi, rows, std::tuple{vision}, llm)` plans over MPI, and moves arrays of GPUs
/// on NCCL's stream.
///
/// Expects     every rank makes it with the same phases, and calls its functions in the same order;
///             comm, and a carrier of the same ranks, outlive it. One thread at a time calls it. A
///             thread may use comm while another uses a part of it.
/// Ensures     (1) all ranks have the same plan, compared before a byte moves: that of
///                 phase_planner over the gathered samples
///             (2) outputs go from where they are encoded to where the language model needs them in
///                 one exchange, texts from where they were read
///             (3) a step that cannot be planned is an error of next(), as in a step_balancer
///             (4) a rank that is missing when a step is gathered is named by next() of that step
///             (5) the destructor ends the thread as a step_balancer's does, which waits no longer
///                 than the communicator's deadline for ranks that have not submitted the step
///             (6) a pass whose rows all lie where the language model has them exchanges nothing
///             (7) once two steps as large were planned and moved, nothing is allocated
/// Errors      submit and next: those of a step_balancer's, with phase_planner as the planner (MPI
///             without MPI_THREAD_MULTIPLE and NCCL do not serve several threads); of next also
///             those of a carrier's begin_step; then the step is taken. All else: those of route.
/// Complexity  submit copies what was read. On the thread gather_samples, of 16 bytes for each
///             sample and subsequence, one all_gather of 9 bytes a rank, and the phase_planner.
///             to_encoder, to_model: one all_to_all_v, all arrays of a call together. to_pass,
///             from_pass: the same, or a copy.
/// Source      B. Xiao, Y. Zheng et al., "OrchMLLM: Orchestrate Multimodal Data with Batch
///             Post-Balancing to Accelerate Multimodal Large Language Model Training", arXiv
///             2503.23830, 2025: the global orchestrator, which it runs in the prefetch too.
template <splitting_communicator Communicator, class Encoders, class Llm,
          class Passes = std::tuple<>, class Carrier = host_carrier<Communicator>>
  requires row_carrier<std::remove_reference_t<Carrier>>
class orchestrator {
 public:
  orchestrator(Communicator& comm, Encoders own_encoders, Llm own_llm, Passes own_passes = {})
    requires std::constructible_from<Carrier, Communicator&>
      : comm_(comm),
        carrier_(comm),
        steps_(comm, {std::move(own_encoders), std::move(own_llm), std::move(own_passes)})
  {}
  /// The same with arrays where the carrier says, and with its communicator for them.
  orchestrator(Communicator& comm, std::remove_reference_t<Carrier>& carrier, Encoders own_encoders,
               Llm own_llm, Passes own_passes = {})
    requires std::is_reference_v<Carrier>
      : comm_(comm),
        carrier_(carrier),
        steps_(comm, {std::move(own_encoders), std::move(own_llm), std::move(own_passes)})
  {
    BALLAST_EXPECTS(carrier.rank() == comm.rank() && carrier.size() == comm.size(),
                    "the carrier is that of rank ", carrier.rank(), " of ", carrier.size(),
                    ", and the communicator that of rank ", comm.rank(), " of ", comm.size());
  }

  /// Has the thread gather and plan the step for which this rank has read these samples; returns at
  /// once, but the first call, which splits the communicator, when all ranks have made it.
  /// Collective: the thread waits until all ranks have submitted the step.
  [[nodiscard]] result<void> submit(multimodal_samples const& read)
  {
    return steps_.submit(read.entries());
  }

  /// Takes the plan of the step that was submitted. It waits only where the thread is not done.
  [[nodiscard]] result<void> next()
  {
    auto taken = steps_.next();
    return taken ? carrier_.begin_step() : taken;
  }

  /// Moves inputs of a modality from where they were read to where they are encoded, all arrays in
  /// one exchange: each from[rows_read(modality)], to[rows_computed(modality)] rows. Collective;
  /// the rest is as for ballast::route.
  template <std::same_as<row_array>... Arrays>
  [[nodiscard]] result<void> to_encoder(std::size_t modality, Arrays const&... arrays)
  {
    return carrier_.route(encoder(modality).to_encoder, arrays...);
  }

  /// The gradient of to_encoder: from[rows_computed(modality)], to[rows_read(modality)] rows.
  template <std::same_as<row_array>... Arrays>
  [[nodiscard]] result<void> reverse_to_encoder(std::size_t modality, Arrays const&... arrays)
  {
    return carrier_.reverse_route(encoder(modality).to_encoder, arrays...);
  }

  /// Moves outputs of an encoder, or texts as they were read, into the sequences of the language
  /// model: each from[rows_encoded(modality)], to[rows_in_model()] rows, of which those of other
  /// modalities are left as they are.
  template <std::same_as<row_array>... Arrays>
  [[nodiscard]] result<void> to_model(std::size_t modality, Arrays const&... arrays)
  {
    return carrier_.route(of(modality).to_model, arrays...);
  }

  /// The gradient of to_model: from[rows_in_model()], to[rows_encoded(modality)] rows.
  template <std::same_as<row_array>... Arrays>
  [[nodiscard]] result<void> reverse_to_model(std::size_t modality, Arrays const&... arrays)
  {
    return carrier_.reverse_route(of(modality).to_model, arrays...);
  }

  /// Moves rows of the language model's sequences to where a pass computes them: each
  /// from[rows_in_model()], to[rows_in_pass(pass)] rows. Collective where the pass has `moves`.
  template <std::same_as<row_array>... Arrays>
  [[nodiscard]] result<void> to_pass(std::size_t pass, Arrays const&... arrays)
  {
    if (!of_pass(pass).moves) { return copy(arrays...); }
    return carrier_.route(of_pass(pass).from_model, arrays...);
  }

  /// Moves rows of a pass, such as the log-probability of every token, to where the language model
  /// has the sequences: each from[rows_in_pass(pass)], to[rows_in_model()] rows.
  template <std::same_as<row_array>... Arrays>
  [[nodiscard]] result<void> from_pass(std::size_t pass, Arrays const&... arrays)
  {
    if (!of_pass(pass).moves) { return copy(arrays...); }
    return carrier_.reverse_route(of_pass(pass).from_model, arrays...);
  }

  [[nodiscard]] Communicator& comm() const noexcept { return comm_; }
  [[nodiscard]] static constexpr std::size_t encoders() noexcept { return planner::encoders(); }
  [[nodiscard]] static constexpr std::size_t passes() noexcept { return planner::passes(); }
  /// Steps for whose plan next() had to wait.
  [[nodiscard]] std::uint64_t waited() const noexcept { return steps_.waited(); }

  // What follows is of the step that next() took last.

  /// The plan of all phases. It and the lengths below stay as they are until the step after the
  /// next one is submitted.
  [[nodiscard]] orchestrated_step const& step() const { return steps_.step(); }
  /// Rows of this rank's arrays of a modality: inputs as read, inputs where they are encoded, and
  /// outputs. Of text the first and the last are the same, and it has no other.
  [[nodiscard]] std::size_t rows_read(std::size_t modality) const
  {
    return rows(of(modality).as_read);
  }
  [[nodiscard]] std::size_t rows_computed(std::size_t modality) const
  {
    return rows(encoder(modality).as_computed);
  }
  [[nodiscard]] std::size_t rows_encoded(std::size_t modality) const
  {
    return rows(of(modality).as_encoded);
  }
  /// Rows of this rank's sequences in the language model.
  [[nodiscard]] std::size_t rows_in_model() const { return rows(step().as_computed); }
  /// Rows of this rank's sequences in a pass.
  [[nodiscard]] std::size_t rows_in_pass(std::size_t pass) const
  {
    return rows(of_pass(pass).as_computed);
  }
  /// Lengths of the subsequences that this rank's bag encodes, in the order of its rows. Here and
  /// below: of a `phase`; of a `hybrid_phase` the packs of its phase_step have them.
  [[nodiscard]] std::span<tokens const> lengths(std::size_t modality) const
  {
    return detail::span_of(encoder(modality).own_lengths);
  }
  /// Lengths of the sequences of this rank's bag in the language model, in the order of its rows.
  [[nodiscard]] std::span<tokens const> lengths_in_model() const
  {
    return detail::span_of(step().own_lengths);
  }
  [[nodiscard]] std::span<tokens const> lengths_in_pass(std::size_t pass) const
  {
    return detail::span_of(of_pass(pass).own_lengths);
  }

 private:
  using planner = phase_planner<Encoders, Llm, Passes>;

  /// Rows that all lie where they are needed; `to` may be `from`.
  template <class... Arrays>
  [[nodiscard]] result<void> copy(Arrays const&... arrays)
  {
    auto const copy_one = [this](row_array const& array) -> result<void> {
      BALLAST_EXPECTS(array.to.size() == array.from.size(), "an array has ",
                      detail::counted(array.from.size(), "byte"), " before and ", array.to.size(),
                      " after, and no row moves");
      bool const stays = array.to.data() == array.from.data();
      return stays ? result<void>() : carrier_.copy(array);
    };
    result<void> done;
    static_cast<void>(((done = copy_one(arrays)).has_value() && ...));
    return done;
  }

  [[nodiscard]] orchestrated_step::pass_step const& of_pass(std::size_t pass) const
  {
    BALLAST_EXPECTS(pass < passes(), "pass ", pass, " of ", passes());
    return step().passes[pass];
  }
  [[nodiscard]] orchestrated_step::modality_step const& of(std::size_t modality) const
  {
    BALLAST_EXPECTS(modality <= encoders(), "modality ", modality, " of ", encoders(),
                    " encoders and text");
    return step().modalities[modality];
  }
  [[nodiscard]] orchestrated_step::modality_step const& encoder(std::size_t modality) const
  {
    BALLAST_EXPECTS(modality < encoders(), "modality ", modality, " of ", encoders(),
                    " encoders has none");
    return of(modality);
  }
  [[nodiscard]] std::size_t rows(placement const& where) const
  {
    return static_cast<std::size_t>(where.rows(comm_.rank()));
  }

  Communicator& comm_;
  Carrier carrier_;
  detail::common_steps<Communicator, multimodal_samples::subsequence, orchestrated_step, planner>
      steps_;
};

template <class C, class... Encoders, class Llm>
orchestrator(C&, std::tuple<Encoders...>, Llm) -> orchestrator<C, std::tuple<Encoders...>, Llm>;
template <class C, class... Encoders, class Llm, class... Passes>
orchestrator(C&, std::tuple<Encoders...>, Llm, std::tuple<Passes...>)
    -> orchestrator<C, std::tuple<Encoders...>, Llm, std::tuple<Passes...>>;
template <class C, row_carrier Carrier, class... Encoders, class Llm, class... Passes>
orchestrator(C&, Carrier&, std::tuple<Encoders...>, Llm, std::tuple<Passes...> = {})
    -> orchestrator<C, std::tuple<Encoders...>, Llm, std::tuple<Passes...>, Carrier&>;

}  // namespace ballast::inline v0
