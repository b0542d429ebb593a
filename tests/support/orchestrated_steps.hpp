// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/cost/quadratic_cost.hpp>
#include <ballast/partition/longest_processing_time.hpp>
#include <ballast/partition/padded_batches.hpp>
#include <ballast/partition/partition_plan.hpp>
#include <ballast/route/placement.hpp>
#include <ballast/route/row_array.hpp>
#include <ballast/runtime/orchestrated_step.hpp>
#include <ballast/runtime/orchestrator.hpp>
#include <ballast/topology/bag_layout.hpp>

#include <tuple>

/// Multimodal steps at random, and where a naive trainer would put their rows: it gathers
/// everything in one place and rearranges it there.
namespace ballast_test {

/// What each rank has read: samples of subsequences.
using read_step = std::vector<std::vector<std::vector<ballast::multimodal_samples::subsequence>>>;

/// Ranks and samples without anything, phases without input and lengths of 0 are frequent.
inline read_step draw_step(ballast::random_source& random, std::size_t ranks, std::size_t encoders)
{
  std::uint64_t const absent = random();  // bit m: nobody has modality m in this step
  read_step step(ranks);
  for (auto& own : step) {
    own.resize(random.below(4) == 0 ? 0 : random.below(5));
    for (auto& sample : own) {
      sample.resize(random.below(6));
      for (auto& each : sample) {
        each.modality = static_cast<std::uint32_t>(random.below(encoders + 1));
        if (random.below(3) == 0 && (absent >> each.modality & 1U) != 0) {
          each.modality = static_cast<std::uint32_t>(encoders);
        }
        each.length = random.below(5) == 0 ? 0 : random.between(1, random.below(9) == 0 ? 70 : 9);
      }
    }
  }
  std::size_t const left_out = random.below(2 * encoders + 1);
  for (auto& own : step) {
    for (auto& sample : own) {
      std::erase_if(sample, [left_out](auto const& each) { return each.modality == left_out; });
    }
  }
  return step;
}

inline ballast::multimodal_samples samples_of(
    std::vector<std::vector<ballast::multimodal_samples::subsequence>> const& own)
{
  ballast::multimodal_samples samples;
  for (auto const& sample : own) {
    samples.start_sample();
    for (auto const& [modality, length] : sample) { samples.add(modality, length); }
  }
  return samples;
}

using orchestrated_rows = std::vector<std::uint64_t>;

/// What an encoder makes of one sequence: each output depends on all of its inputs and on nothing
/// else.
inline void encode_sequence(std::span<std::uint64_t const> inputs, std::size_t rate,
                            orchestrated_rows& outputs)
{
  for (std::size_t first = 0; first < inputs.size(); first += rate) {
    ballast::digest mixed;
    for (std::uint64_t const each : inputs.subspan(first, std::min(rate, inputs.size() - first))) {
      mixed.add(each);
    }
    outputs.push_back(mixed.value());
  }
}

/// All rows of a step in one place.
struct gathered_rows {
  std::vector<std::vector<orchestrated_rows>> inputs;  // of each subsequence of each modality
  std::vector<std::vector<std::size_t>> readers;       // and who has read it
  std::vector<orchestrated_rows> sequences;            // of each sample

  gathered_rows(read_step const& step, std::span<std::uint32_t const> rates)
      : inputs(rates.size() + 1), readers(rates.size() + 1)
  {
    std::uint64_t number = 0;
    for (std::size_t rank = 0; rank < step.size(); ++rank) {
      for (auto const& sample : step[rank]) {
        sequences.emplace_back();
        for (auto const& [modality, length] : sample) {
          orchestrated_rows rows;
          for (ballast::tokens token = 0; token < length; ++token) { rows.push_back(++number); }
          if (modality < rates.size()) {
            encode_sequence(rows, rates[modality], sequences.back());
          } else {
            sequences.back().insert(sequences.back().end(), rows.begin(), rows.end());
          }
          inputs[modality].push_back(rows);
          readers[modality].push_back(rank);
        }
      }
    }
  }

  [[nodiscard]] orchestrated_rows as_read(std::size_t modality, std::size_t rank) const
  {
    orchestrated_rows rows;
    for (std::size_t each = 0; each < inputs[modality].size(); ++each) {
      if (readers[modality][each] != rank) { continue; }
      rows.insert(rows.end(), inputs[modality][each].begin(), inputs[modality][each].end());
    }
    return rows;
  }
};

/// A rank's rows of sequences that a plan gives to bags.
inline orchestrated_rows rows_of_rank(std::vector<orchestrated_rows> const& sequences,
                                      ballast::partition_plan const& plan,
                                      ballast::bag_layout const& bags, std::size_t rank)
{
  orchestrated_rows rows;
  for (std::size_t each = 0; each < sequences.size(); ++each) {
    ballast::bag const home = bags[plan.owner.at(each)];
    std::size_t const first = to_index(home.first);
    if (rank < first || rank >= first + home.gpus) { continue; }
    auto const part = ballast::chunk_of(static_cast<std::int64_t>(sequences[each].size()),
                                        home.gpus, static_cast<std::uint32_t>(rank - first));
    auto const begin = sequences[each].begin() + part.first;
    rows.insert(rows.end(), begin, begin + part.count);
  }
  return rows;
}

/// One rank's part of a job of so many steps. Returns how many arrays are not what the naive
/// rearrangement makes of the same plan, of which there are none; gradients come back the same way.
/// A carrier, if one is given, has arrays that the host reaches, and is waited for.
template <class C, class Llm, class... Encoders, class... Carrier>
std::size_t wrong_arrays(C& comm, std::tuple<Encoders...> const& encoders, Llm const& llm,
                         std::uint64_t seed, int steps, Carrier&... carrier)
{
  constexpr std::size_t count = sizeof...(Encoders);
  std::vector<std::uint32_t> rates;
  std::vector<ballast::bag_layout> bags;
  std::apply([&](auto const&... each) { (rates.push_back(each.rate), ...); }, encoders);
  std::apply([&](auto const&... each) { (bags.push_back(each.bags), ...); }, encoders);
  std::size_t const rank = to_index(comm.rank());
  ballast::random_source random(seed);  // all ranks draw the same steps
  std::size_t wrong = 0;
  auto const expect = [&wrong](auto const& is, auto const& ought) { wrong += is == ought ? 0 : 1; };
  auto const moved = [&](ballast::result<void> const& done) {
    or_throw(done);
    (or_throw(carrier.wait()), ...);
  };

  ballast::orchestrator job(comm, carrier..., encoders, llm);
  read_step next = draw_step(random, comm.size(), count);
  or_throw(job.submit(samples_of(next[rank])));
  for (int number = 0; number < steps; ++number) {
    read_step const step = next;
    or_throw(job.next());
    next = draw_step(random, comm.size(), count);
    or_throw(job.submit(samples_of(next[rank])));

    gathered_rows const all(step, rates);
    orchestrated_rows sequences(job.rows_in_model(), 0);
    std::vector<orchestrated_rows> encoded(count);
    for (std::size_t m = 0; m < count; ++m) {
      orchestrated_rows const x = all.as_read(m, rank);
      expect(x.size(), job.rows_read(m));
      orchestrated_rows x_there(job.rows_computed(m));
      orchestrated_rows x_back(x.size());
      moved(job.to_encoder(m, ballast::rows_of(x, x_there)));
      expect(x_there, rows_of_rank(all.inputs[m], job.step().modalities[m].planned, bags[m], rank));
      if (rates[m] == 1) {  // token by token, so that a bag's GPUs need not meet
        encode_sequence(x_there, 1, encoded[m]);
      } else {
        std::size_t first = 0;
        for (ballast::tokens const length : job.lengths(m)) {
          auto const size = static_cast<std::size_t>(length);
          encode_sequence(std::span(x_there).subspan(first, size), rates[m], encoded[m]);
          first += size;
        }
      }
      expect(encoded[m].size(), job.rows_encoded(m));
      moved(job.to_model(m, ballast::rows_of(encoded[m], sequences)));
      moved(job.reverse_to_encoder(m, ballast::rows_of(x_there, x_back)));
      expect(x_back, x);
    }
    orchestrated_rows const texts = all.as_read(count, rank);
    moved(job.to_model(count, ballast::rows_of(texts, sequences)));
    expect(sequences, rows_of_rank(all.sequences, job.step().planned, llm.bags, rank));
    for (std::size_t m = 0; m <= count; ++m) {
      orchestrated_rows const& was = m < count ? encoded[m] : texts;
      orchestrated_rows back(was.size());
      moved(job.reverse_to_model(m, ballast::rows_of(sequences, back)));
      expect(back, was);
    }
  }
  (or_throw(carrier.begin_step()), ...);  // what was sent has gone
  return wrong;
}

/// Bags of one GPU, and one of two or of three at the end, which take short sequences too.
inline ballast::bag_layout mixed_bags(std::size_t ranks)
{
  std::vector<ballast::bag> bags;
  std::size_t rank = 0;
  for (; rank + 3 < ranks; ++rank) { bags.push_back({ballast::to_id<ballast::rank_id>(rank), 1}); }
  bags.push_back(
      {ballast::to_id<ballast::rank_id>(rank), static_cast<std::uint32_t>(ranks - rank)});
  return ballast::bag_layout(bags).with_short_samples(ballast::short_samples::admitted);
}

/// Jobs of one, three and four encoders with rates at random: padded and packed, bags of one GPU and of
/// several. Returns the sum of wrong_arrays.
template <class C>
std::size_t wrong_arrays_of_jobs(C& comm, std::uint64_t seed, int jobs, int steps)
{
  using ballast::quadratic_cost;
  using packed = ballast::phase<quadratic_cost, ballast::longest_processing_time>;
  using padded = ballast::phase<quadratic_cost, ballast::padded_batches>;
  auto const one = ballast::one_gpu_bags(comm.size());
  auto const mixed = mixed_bags(comm.size());
  ballast::random_source random(seed);
  std::size_t wrong = 0;
  for (int job = 0; job < jobs; ++job) {
    auto const rate = [&random] { return static_cast<std::uint32_t>(random.between(1, 5)); };
    quadratic_cost const cost{.linear = 8, .quadratic = random.below(3)};
    packed const first{one, cost, {}, rate()};
    padded const second{one, cost, {}, rate()};
    packed const third{mixed, cost, {}};
    packed const fourth{one, {.linear = 1}, {}, rate()};
    packed const llm{random.below(2) == 0 ? one : mixed, cost, {}};
    std::uint64_t const steps_of = random();
    switch (job % 3) {
      case 0: wrong += wrong_arrays(comm, std::tuple{second}, llm, steps_of, steps); break;
      case 1:
        wrong += wrong_arrays(comm, std::tuple{first, second, third}, llm, steps_of, steps);
        break;
      default:
        wrong += wrong_arrays(comm, std::tuple{third, first, second, fourth}, llm, steps_of, steps);
    }
  }
  return wrong;
}

}  // namespace ballast_test
