// SPDX-License-Identifier: Apache-2.0
// Figure 16 of Z. Zhang et al., "DistTrain", SIGCOMM 2025: its three models on 96 GPUs, orchestrated,
// with samples in random order and reordered inside microbatches and between them. In simulation,
// with times from FLOP; real documents with images, packed to samples of 8,192 tokens, say how many
// of them are of images, in place of LAION-400M.

#include "../support/disttrain_models.hpp"
#include "on_page.hpp"

#include <ballast/cost/flops.hpp>
#include <ballast/cost/known_models.hpp>
#include <ballast/parallelism/model_layout.hpp>
#include <ballast/parallelism/orchestrate.hpp>
#include <ballast/partition/peak_tokens.hpp>
#include <ballast/pipeline/local_search.hpp>
#include <ballast/pipeline/order_microbatches.hpp>
#include <ballast/pipeline/order_policies.hpp>
#include <ballast/pipeline/order_search.hpp>
#include <ballast/pipeline/schedule.hpp>
#include <ballast/pipeline/schedule_policies.hpp>
#include <ballast/pipeline/simulate.hpp>
#include <ballast/pipeline/stage_graph.hpp>
#include <ballast/route/placement.hpp>
#include <ballast/text/read_file.hpp>
#include <ballast/topology/bag_layout.hpp>
#include <ballast/workload/length_trace.hpp>

namespace {

using namespace ballast;

using ballast_test::disttrain::image_tokens;
constexpr tokens sample_tokens = ballast_test::disttrain::length;

/// Image tokens of samples into which documents are packed, one after the other.
std::vector<tokens> packed_documents(std::string const& path)
{
  auto const texts = ballast::read_file(path, ballast::read_length_trace, "text_tokens").value();
  auto const visuals =
      ballast::read_file(path, ballast::read_length_trace, "visual_tokens_qwen2vl").value();
  std::vector<tokens> samples;
  tokens room = 0;
  for (std::size_t each = 0; each < texts.size(); ++each) {
    tokens const seen = std::min(visuals[each], sample_tokens);
    tokens const all = std::min(seen + texts[each], sample_tokens);
    if (all > room) {
      samples.push_back(0);
      room = sample_tokens;
    }
    samples.back() += seen;
    room -= all;
  }
  return samples;
}

/// The units of one model, and what samples take on them.
class units {
 public:
  /// Orchestrated for samples with so many image tokens.
  units(ballast_test::disttrain_model const& model, std::uint32_t gpus, std::uint32_t batch,
        tokens seen)
      : job_(model, gpus, batch),
        layout_(ballast::orchestrate(job_.problem, {}, job_.options).value().layout),
        planned_(static_cast<double>(seen))
  {}

  [[nodiscard]] std::uint32_t replicas() const { return layout_.modules[llm].dp; }

  [[nodiscard]] ballast::compiled_schedule schedule() const
  {
    auto const stages = ballast::joined_stages({.encoders = {{layout_.modules[0].pp}},
                                                .llm = {layout_.modules[1].pp},
                                                .generators = {{layout_.modules[2].pp}}})
                            .value();
    return ballast::compiled_schedule::make(stages, ballast::one_forward_one_backward{},
                                            job_.problem.global_batch / replicas())
        .value();
  }

  /// Encoder and generator take a sample by its image tokens, the LLM all alike; their replicas
  /// share the samples of the LLM's.
  [[nodiscard]] ballast::pipeline_times times(std::span<tokens const> samples,
                                              std::span<sample_id const> of_replica) const
  {
    std::size_t stages = 0;
    for (auto const& own : layout_.modules) { stages += own.pp; }
    ballast::pipeline_times all(of_replica.size(), stages);
    for (std::size_t at = 0; at < of_replica.size(); ++at) {
      tokens const seen = samples[to_index(of_replica[at])];
      std::size_t stage = 0;
      for (std::size_t module = 0; module < layout_.modules.size(); ++module) {
        ballast::module_layout const& unit = layout_.modules[module];
        auto const& of = job_.modules[module];
        auto const* const degree = of.find(degree_of(unit));
        time_units const all_layers =  // of a sample
            degree->linear.picoseconds(of.flops.linear / unit.group(), 1) +
            degree->attention.picoseconds(of.flops.quadratic / unit.group(), 1);
        bool const is_llm = module == llm;
        auto const part = [&](time_units whole, std::int64_t layers) {
          double const share =
              is_llm ? 1 : static_cast<double>(seen) / planned_ * replicas() / unit.dp;
          return static_cast<time_units>(static_cast<double>(whole) * share *
                                         static_cast<double>(layers) / of.layers);
        };
        for (std::uint32_t own = 0; own < unit.pp; ++own) {
          auto const layers = ballast::chunk_of(of.layers, unit.pp, own).count;
          all[ballast::to_id<ballast::microbatch_id>(at)][stage++] = {
              part(all_layers / 3, layers), part(all_layers - all_layers / 3, layers)};
        }
      }
    }
    return all;
  }

  /// All replicas wait for the slowest.
  template <class Policy>
  [[nodiscard]] double step(ballast::compiled_schedule const& schedule,
                            std::span<tokens const> samples, std::span<sample_id const> order,
                            Policy const& policy) const
  {
    time_units slowest = 0;
    std::size_t const count = schedule.microbatches();
    for (std::size_t replica = 0; replica < replicas(); ++replica) {
      auto const own = times(samples, order.subspan(replica * count, count));
      slowest =
          std::max(slowest, ballast::order_microbatches(schedule, own, policy).value().makespan);
    }
    return static_cast<double>(slowest);
  }

 private:
  static constexpr std::size_t llm = 1;

  ballast_test::disttrain_job job_;
  ballast::model_layout layout_;
  double planned_;
};

TEST(DistTrainFigure16, ComesOutInSimulation)
{
  char const* const data = std::getenv("BALLAST_DATA");
  if (data == nullptr) { GTEST_SKIP() << "BALLAST_DATA names no folder of real length traces"; }
  auto samples = packed_documents(std::string(data) + "/interleaved_docs.csv");
  tokens const mean =
      std::reduce(samples.begin(), samples.end()) / static_cast<tokens>(samples.size());
  auto const images = static_cast<std::uint32_t>((mean + image_tokens / 2) / image_tokens);
  std::printf("%zu samples with %lld image tokens in the mean\n", samples.size(),
              static_cast<long long>(mean));
  struct published_model {
    char const* name;
    ballast::transformer_shape llm;
    std::uint32_t latent;
    std::uint32_t batch;
  };
  std::array<double, 3> published{}, searched{}, within{};
  std::array<published_model, 3> const models{
      {{"9B", ballast::known_shape("llama3-7b"), 64, 128},
       {"15B", ballast::known_shape("llama3-13b"), 64, 64},
       {"72B", ballast::known_shape("llama3-70b"), 128, 40}}};
  for (std::size_t which = 0; which < models.size(); ++which) {
    auto const& [name, llm, latent, batch] = models[which];
    units const all({.llm = llm, .images = images, .latent = latent}, 96, batch,
                    images * image_tokens);
    auto const schedule = all.schedule();
    ASSERT_GE(samples.size(), batch);
    ballast::random_source random(16);
    double as_read = 0, spread = 0, filled = 0, found = 0;
    for (int step = 0; step < 8; ++step) {
      random.shuffle(std::span(samples));
      std::span<tokens const> const drawn = std::span(samples).first(batch);
      std::vector<sample_id> read;
      for (std::size_t each = 0; each < batch; ++each) {
        read.push_back(ballast::to_id<sample_id>(each));
      }
      auto const reordered = ballast::intra_reorder(drawn, ballast::one_gpu_bags(all.replicas()),
                                                    [](tokens seen) { return seen; },
                                                    {.samples = ballast::counts::equal()})
                                 .value();
      auto const order = reordered.order();
      as_read += all.step(schedule, drawn, read, ballast::given_order{});
      spread += all.step(schedule, drawn, order, ballast::given_order{});
      filled += all.step(schedule, drawn, order, ballast::interval_filling{});
      found += all.step(schedule, drawn, order, ballast::local_search{ballast::insertion{}, 500});
    }
    within[which] = as_read / spread;
    published[which] = as_read / filled;
    searched[which] = as_read / found;
    std::printf("%s: %u replicas of %zu microbatches\n", name, all.replicas(),
                schedule.microbatches());
  }
  ballast_test::expect_on_page("intra alone " + ballast_test::figures(within) +
                               " times random order, with interval filling " +
                               ballast_test::figures(published) + ", with search " +
                               ballast_test::figures(searched));
}

}  // namespace
