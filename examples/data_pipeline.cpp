// SPDX-License-Identifier: Apache-2.0
// data_pipeline: trains two ranks on pictures and captions that loaders decode, threads of this
// process. mpirun -np 6 data_pipeline mpi: the same with a process for each trainer, for the proxy
// and for each loader. It writes its JPEG and text files itself, one of them damaged; it fails if
// any other sample is not trained once an epoch, or with other pixels than one process decodes.

#include "common/jpeg_file.hpp"  // defines: jpeg_file::{picture, read, write}

#include <ballast/comm.hpp>
#ifdef DATA_PIPELINE_WITH_MPI
#include <ballast/comm/mpi_communicator.hpp>

#include <mpi.h>
#endif
#include <ballast/core.hpp>
#include <ballast/cost.hpp>
#include <ballast/partition.hpp>
#include <ballast/runtime.hpp>
#include <ballast/text.hpp>
#include <ballast/text/read_file.hpp>
#include <ballast/topology.hpp>

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace {

using namespace ballast;

constexpr std::size_t samples = 60;
constexpr std::uint64_t damaged = 17;
constexpr std::size_t trainers = 2;                  // the first ranks
constexpr rank_id proxy = to_id<rank_id>(trainers);  // loaders come after it
constexpr auto cost = "transformer:d=1024,gamma=0.405"_cost;

std::string file_of(std::string const& folder, std::uint64_t sample, char const* ending)
{
  return folder + "/" + std::to_string(sample) + ending;
}

std::string temporary_folder()
{
  std::string name = (std::filesystem::temp_directory_path() / "ballast-XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) { throw std::runtime_error("no temporary folder"); }
  return name;
}

std::uint64_t digest_of(std::vector<std::byte> const& bytes)
{
  return digest{}.add(std::span<std::byte const>(bytes)).value();
}

// How often a rank trained each sample, and on which pixels.
struct trained {
  std::array<std::uint64_t, samples> times{};
  std::array<std::uint64_t, samples> pixels{};

  void add(data_batch const& batch)
  {
    for (auto const& own : batch.own) {
      std::uint64_t const sample = batch.step->samples[own.entry];
      ++times[sample];
      pixels[sample] += digest_of(own.bytes);
    }
    bool const tells = !batch.own.empty() && batch.own.front().entry == 0;  // one rank
    for (auto const& news : batch.step->news) {
      if (tells) {
        std::printf("step %d: %s\n", static_cast<int>(batch.step->number), news.c_str());
      }
    }
  }
};

// Samples are a picture and a caption each: patches of 28 x 28 pixels, and words.
struct captioned_pictures {
  std::string folder;

  result<loaded_sample> load(std::uint64_t sample) const
  {
    auto picture = jpeg_file::read(file_of(folder, sample, ".jpg"));
    if (!picture) { return tl::unexpected(picture.error()); }
    return loaded_sample{lengths(sample), std::move(picture->pixels)};
  }

  std::vector<tokens> lengths(std::uint64_t sample) const
  {
    auto const size = jpeg_file::read(file_of(folder, sample, ".jpg"), false);
    auto const words = std::ranges::count(read_file(file_of(folder, sample, ".txt")).value(), ' ');
    return {size ? static_cast<tokens>(size->width * size->height / 784) : 0, words};
  }
};

// Any planner fits: it gets the lengths of a step and says which rank computes each sample.
result<void> plan(data_step const& step, std::span<rank_id> owner)
{
  std::vector<tokens> total;
  for (std::size_t entry = 0; entry < owner.size(); ++entry) {
    total.push_back(total_length{}(step.lengths_of(entry)));
  }
  auto const planned = ballast::partition(total, one_gpu_bags(trainers), cost);
  return planned.map([&](partition_plan const& made) {
    for (std::size_t entry = 0; entry < owner.size(); ++entry) {
      owner[entry] = to_id<rank_id>(to_index(made.owner[entry]));
    }
  });
}

data_setup const setup{.samples = samples, .step_samples = 8, .modules = 2, .epochs = 2};
data_windows const windows{.steps = 4, .held_back = 2};

std::vector<trained> over_threads(captioned_pictures const& source)
{
  data_pipeline pipeline(source, plan, trainers, setup, windows, {.most = 4});
  return run_ranks(trainers, [&](thread_communicator& comm) {
    trained own;
    while (auto const batch = pipeline.next(comm.rank()).value()) { own.add(*batch); }
    return own;
  });
}

trained as_rank(auto& comm, captioned_pictures const& source)
{
  trained own;
  if (comm.rank() == proxy) {
    or_throw(serve_as_proxy(comm, trainers, plan, setup, windows, {.most = 4}));
  } else if (comm.rank() > proxy) {
    or_throw(serve_as_loader(comm, proxy, source));
  } else {
    data_trainer data(comm, proxy);
    while (auto const batch = data.next().value()) { own.add(*batch); }
    or_throw(data.finish());
  }
  return own;
}

// Pictures of many sizes, as a camera would take them of a gradient, and captions.
void write_files(std::string const& folder)
{
  random_source random(1);
  for (std::uint64_t sample = 0; sample < samples; ++sample) {
    jpeg_file::picture made;
    made.width = 28 * static_cast<std::size_t>(random.between(2, 20));
    made.height = 28 * static_cast<std::size_t>(random.between(2, 20));
    for (std::size_t pixel = 0; pixel < made.width * made.height; ++pixel) {
      std::size_t const x = pixel % made.width;
      std::size_t const y = pixel / made.width;
      for (std::size_t const value : {x + sample, y, x + y}) {
        made.pixels.push_back(static_cast<std::byte>(value & 255U));
      }
    }
    if (!jpeg_file::write(file_of(folder, sample, ".jpg"), made)) {
      throw std::runtime_error("no picture can be written to " + folder);
    }
    std::ofstream caption(file_of(folder, sample, ".txt"));
    for (std::int64_t words = random.between(1, 60); words > 0; --words) { caption << "word "; }
  }
  std::ofstream(file_of(folder, damaged, ".jpg")) << "<html>not found</html>";
}

// All samples but the damaged one, once an epoch, with the pixels that this process decodes.
bool is_right(std::vector<trained> const& ranks, captioned_pictures const& source)
{
  trained all;
  for (trained const& each : ranks) {
    for (std::size_t sample = 0; sample < samples; ++sample) {
      all.times[sample] += each.times[sample];
      all.pixels[sample] += each.pixels[sample];
    }
  }
  bool right = true;
  for (std::uint64_t sample = 0; sample < samples; ++sample) {
    auto const alone = source.load(sample);
    std::uint64_t const times = alone ? setup.epochs : 0;
    std::uint64_t const pixels = alone ? times * digest_of(alone->bytes) : 0;
    right = right && all.times[sample] == times && all.pixels[sample] == pixels;
  }
  auto const trained = static_cast<int>(std::ranges::count(all.times, setup.epochs));
  std::printf("%d of %d samples trained %d times, the others never: %s\n", trained,
              static_cast<int>(samples), static_cast<int>(setup.epochs),
              right ? "as decoded by one process" : "not as decoded by one process");
  return right && trained == static_cast<int>(samples) - 1;
}

#ifdef DATA_PIPELINE_WITH_MPI
bool over_mpi()
{
  auto comm = mpi_communicator::over(MPI_COMM_WORLD).value();
  bool const first = comm.rank() == rank_id{0};
  std::array<char, 256> name{};
  if (first) {
    std::string const folder = temporary_folder();
    std::ranges::copy(folder, name.begin());
    write_files(folder);
  }
  or_throw(comm.broadcast(std::as_writable_bytes(std::span(name)), rank_id{0}));
  captioned_pictures const source{name.data()};
  trained const own = as_rank(comm, source);
  std::vector<trained> all(comm.size());
  or_throw(
      comm.all_gather(std::as_bytes(std::span(&own, 1)), std::as_writable_bytes(std::span(all))));
  bool const right = !first || is_right(all, source);
  if (first) { std::filesystem::remove_all(source.folder); }
  return right;
}
#endif

}  // namespace

int main(int argc, char** argv)
try {
#ifdef DATA_PIPELINE_WITH_MPI
  if (argc == 2 && std::string_view(argv[1]) == "mpi") {
    MPI_Init(&argc, &argv);
    bool const right = over_mpi();
    MPI_Finalize();
    return right ? 0 : 1;
  }
#endif
  if (argc != 1) {
    return std::fputs("usage: data_pipeline, or mpirun data_pipeline mpi\n", stderr), 2;
  }
  captioned_pictures const source{temporary_folder()};
  write_files(source.folder);
  bool const right = is_right(over_threads(source), source);
  std::filesystem::remove_all(source.folder);
  return right ? 0 : 1;
} catch (std::exception const& problem) {
  return std::fprintf(stderr, "%s\n", problem.what()), 1;
}
