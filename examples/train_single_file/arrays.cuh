// SPDX-License-Identifier: Apache-2.0
// The arrays of a model: its weights, the documents that it reads, and what its passes leave.
#pragma once

#include "kernels.cuh"

#include <ballast/core.hpp>
#include <ballast/route/placement.hpp>

#include <cmath>
#include <random>

namespace single_file {

using ballast::tokens;

struct model_shape {
  std::size_t layers;
  std::size_t channels;
  std::size_t vocabulary;
  bool adaptive = false;  ///< a diffusion transformer instead of a GPT

  [[nodiscard]] std::size_t heads() const { return channels / head_size; }
  /// A diffusion transformer's first blocks have weights of their own for text and picture.
  [[nodiscard]] std::size_t streams(std::size_t i) const { return i < (layers + 1) / 2 ? 2 : 1; }
};

/// Cuts an array into consecutive pieces; without memory it only counts what they need.
template <class T>
struct cutter {
  T* memory;
  std::size_t used = 0;

  T* operator()(std::size_t count)
  {
    T* const piece = memory == nullptr ? nullptr : memory + used;
    used += count;
    return piece;
  }
};

template <class T>
struct linear {  // y[rows][outputs] = x[rows][inputs] weight[inputs][outputs] + bias[outputs]
  std::size_t inputs;
  std::size_t outputs;
  T* weight;
  T* bias;

  linear(cutter<T>& cut, std::size_t in, std::size_t out)
      : inputs(in), outputs(out), weight(cut(in * out)), bias(cut(out))
  {}
};

template <class T>
struct norm {
  T* gain;
  T* bias;

  norm(cutter<T>& cut, std::size_t channels) : gain(cut(channels)), bias(cut(channels)) {}
};

template <class T>
struct layer {
  norm<T> before_attention;
  linear<T> qkv;
  linear<T> projection;
  norm<T> before_mlp;
  linear<T> up;
  linear<T> down;

  layer(cutter<T>& cut, std::size_t channels)
      : before_attention(cut, channels),
        qkv(cut, channels, 3 * channels),
        projection(cut, channels, channels),
        before_mlp(cut, channels),
        up(cut, channels, 4 * channels),
        down(cut, 4 * channels, channels)
  {}
};

/// By which a block with adaptive layer norm treats one stream of tokens. The condition of a
/// sequence gives a shift, scale and gate for attention, and three more for an MLP behind it.
template <class T>
struct adaptive_stream {
  linear<T> modulation;
  linear<T> qkv;
  linear<T> projection;
  linear<T> up;
  linear<T> down;

  adaptive_stream(cutter<T>& cut, std::size_t channels, std::size_t parts)
      : modulation(cut, channels, parts * channels),
        qkv(cut, channels, 3 * channels),
        projection(cut, channels, channels),
        up(cut, channels, 4 * channels),
        down(cut, 4 * channels, channels)
  {}
};

/// Of a block of two streams, or of one.
template <class T>
using adaptive_block = std::vector<adaptive_stream<T>>;

/// Where each tensor is in an array of all parameters, or of all their gradients.
template <class T>
struct tensors {
  T* embedding;  // [vocabulary][channels], and the output head as well
  norm<T> last;
  std::vector<layer<T>> layers;           // of a GPT
  std::vector<linear<T>> condition;       // at most one: of a diffusion transformer
  std::vector<adaptive_block<T>> blocks;  // of it as well

  tensors(model_shape const& shape, cutter<T>& cut)
      : embedding(cut(shape.vocabulary * shape.channels)), last(cut, shape.channels)
  {
    std::size_t const c = shape.channels;
    if (shape.adaptive) { condition.emplace_back(cut, c, c); }
    for (std::size_t i = 0; i < shape.layers; ++i) {
      if (!shape.adaptive) {
        layers.emplace_back(cut, c);
        continue;
      }
      blocks.emplace_back();
      for (std::size_t stream = 0; stream < shape.streams(i); ++stream) {
        blocks.back().emplace_back(cut, c, shape.streams(i) == 2 ? 6 : 3);
      }
    }
  }

  tensors(model_shape const& shape, cutter<T>&& cut) : tensors(shape, cut) {}
};

inline std::size_t parameters_of(model_shape const& shape)
{
  cutter<float> count{nullptr};
  tensors<float> const all(shape, count);
  return count.used;
}

/// Parameters as GPT-2 starts from them: small random weights, gains and gates of one, no biases.
inline std::vector<float> first_parameters(model_shape const& shape, std::uint64_t seed)
{
  std::vector<float> memory(parameters_of(shape));
  tensors<float> const model(shape, cutter<float>{memory.data()});
  ballast::random_source random(seed);
  auto const draw = [&](float* weights, std::size_t count, double deviation) {
    std::normal_distribution<float> normal(0, static_cast<float>(deviation));
    std::generate_n(weights, count, [&] { return normal(random); });
  };
  // What is added to the residual stream is the smaller, the more additions there are.
  double const added = 0.02 / std::sqrt(static_cast<double>(2 * shape.layers));
  auto const draw_all = [&](linear<float> const& each, double deviation) {
    draw(each.weight, each.inputs * each.outputs, deviation);
  };
  draw(model.embedding, shape.vocabulary * shape.channels, 0.02);
  std::fill_n(model.last.gain, shape.channels, 1.0F);
  for (layer<float> const& each : model.layers) {
    std::fill_n(each.before_attention.gain, shape.channels, 1.0F);
    std::fill_n(each.before_mlp.gain, shape.channels, 1.0F);
    draw_all(each.qkv, 0.02);
    draw_all(each.projection, added);
    draw_all(each.up, 0.02);
    draw_all(each.down, added);
  }
  for (linear<float> const& each : model.condition) { draw_all(each, 0.1); }
  for (adaptive_block<float> const& block : model.blocks) {
    for (adaptive_stream<float> const& each : block) {
      draw_all(each.modulation, 0.02);
      for (std::size_t gate = 2; gate < each.modulation.outputs / shape.channels; gate += 3) {
        std::fill_n(each.modulation.bias + gate * shape.channels, shape.channels, 1.0F);
      }
      draw_all(each.qkv, 0.02);
      draw_all(each.projection, added);
      draw_all(each.up, 0.02);
      draw_all(each.down, added);
    }
  }
  return memory;
}

/// A GPU of a bag, and how many of the heads it has in attention.
struct seat {
  std::uint32_t gpus;
  std::uint32_t gpu;
  std::size_t heads;
};

/// A document of a diffusion transformer begins with text, which describes the picture behind it:
/// here a quarter of its tokens.
inline tokens text_of(tokens length)
{
  return length / 4;
}

/// The rows of a rank by streams: those of text and then those of pictures, or all as they are.
struct stream_rows {
  std::vector<std::size_t> first;  // row of each stream, and the end of the last
  array<int> row;                  // where each lies among all rows
  array<int> sequence;
  array<int> begin;  // [stream][sequences + 1]: where each sequence's rows begin in the stream

  explicit stream_rows(device const& on) : row(on), sequence(on), begin(on) {}

  [[nodiscard]] std::size_t count() const { return first.size() - 1; }

  void lay_out(device const& on, std::size_t streams, std::span<tokens const> lengths,
               seat const& own)
  {
    std::vector<int> rows;
    std::vector<int> sequences;
    std::vector<int> begins;
    first.assign(1, 0);
    for (std::size_t stream = 0; stream < streams; ++stream) {
      int next = 0;
      for (std::size_t s = 0; s < lengths.size(); ++s) {
        begins.push_back(static_cast<int>(rows.size() - first.back()));
        auto const part = ballast::chunk_of(lengths[s], own.gpus, own.gpu);
        for (tokens place = part.first; place < part.first + part.count; ++place, ++next) {
          bool const is_text = place < text_of(lengths[s]);
          if (streams == 2 && is_text != (stream == 0)) { continue; }
          rows.push_back(next);
          sequences.push_back(static_cast<int>(s));
        }
      }
      begins.push_back(static_cast<int>(rows.size() - first.back()));
      first.push_back(rows.size());
    }
    auto const bring = [&](array<int>& to, std::vector<int> const& from) {
      to.make_room(from.size());
      copy(on, to.data(), from.data(), from.size());
    };
    bring(row, rows);
    bring(sequence, sequences);
    bring(begin, begins);
    wait(on);  // before the host's arrays go
  }
};

/// The documents that a rank has, or its chunks of them, one after the other: what the model reads.
struct documents {
  std::size_t rows = 0;
  array<int> token;
  array<int> target;    // the token that follows, or the one without noise
  array<int> position;  // in the document
  seat in_bag{};
  std::size_t all_rows = 0;  // of the bag, which attention sees
  array<int> first;          // the row where each row's document begins
  array<int> end;            // and the one behind its last
  std::size_t sequences = 0;
  stream_rows one_stream;  // of a diffusion transformer
  stream_rows two_streams;

  explicit documents(device const& on)
      : token(on), target(on), position(on), first(on), end(on), one_stream(on), two_streams(on)
  {}

  /// Makes room for this rank's part of documents of these lengths, and says where they lie.
  void lay_out(device const& on, model_shape const& shape, std::span<tokens const> lengths,
               seat const& own)
  {
    sequences = lengths.size();
    if (shape.adaptive) {
      one_stream.lay_out(on, 1, lengths, own);
      two_streams.lay_out(on, 2, lengths, own);
    }
    std::vector<int> positions;
    std::vector<int> begins;
    std::vector<int> ends;
    for (tokens const length : lengths) {
      auto const part = ballast::chunk_of(length, own.gpus, own.gpu);
      for (tokens i = 0; i < part.count; ++i) {
        positions.push_back(static_cast<int>(part.first + i));
      }
      auto const count = static_cast<std::size_t>(length);
      begins.insert(begins.end(), count, static_cast<int>(ends.size()));
      ends.insert(ends.end(), count, static_cast<int>(begins.size()));
    }
    in_bag = own;
    rows = positions.size();
    all_rows = begins.size();
    for (array<int>* const each : {&token, &target, &position}) { each->make_room(rows); }
    for (array<int>* const each : {&first, &end}) { each->make_room(all_rows); }
    copy(on, position.data(), positions.data(), rows);
    copy(on, first.data(), begins.data(), all_rows);
    copy(on, end.data(), ends.data(), all_rows);
    wait(on);  // before the host's arrays go
  }
};

/// Room for sums over rows, which are added up in parts of so many rows.
template <class T>
struct row_parts {
  T* memory;
  std::size_t rows;
};

/// What the forward pass leaves for the backward pass, and what that one needs in between.
template <class T>
class activations {
 public:
  struct of_layer {
    T* x;  // the residual stream that enters
    T* x_norm;
    T* x_mean;
    T* x_scale;
    T* qkv;
    T* attended;
    T* all_qkv;  // all rows of the bag, with this rank's heads
    T* all_attended;
    T* log_sum;
    T* y;  // the residual stream behind attention
    T* y_norm;
    T* y_mean;
    T* y_scale;
    T* up;
    T* active;
    T* split_x;  // what follows is of adaptive blocks; rows by streams
    T* split_attended;
    T* added;      // what attention adds, or attention and the MLP beside it
    T* from_mlp;   // what the MLP behind it adds
    T* modulated;  // [streams][sequences][parts][channels]
  };

  std::vector<of_layer> layers;
  T* last;  // the residual stream that leaves
  T* last_norm;
  T* last_mean;
  T* last_scale;
  T* logits;
  T* loss;
  T* dx;  // of the residual stream
  T* dnorm;
  T* dwide;
  T* dqkv;
  T* all_dattended;
  T* all_dqkv;
  T* along;
  row_parts<T> parts;
  bool recompute;  ///< of a layer only x is kept; all layers share the rest
  T* conditions;   // [sequences][channels]; this and what follows is of adaptive blocks
  T* active;       // silu(conditions)
  T* dconditions;  // of silu(conditions), then of the conditions
  T* dmodulated;
  T* split;  // rows by streams, as are the others
  T* split_qkv;
  T* split_dattended;
  T* dadded;
  T* dbeside;  // of what enters the MLP beside attention

  explicit activations(device const& on) : memory_(on) {}

  void make_room(model_shape const& shape, documents const& read, bool keep_inputs_only)
  {
    recompute = keep_inputs_only;
    cutter<T> count{nullptr};
    lay_out(shape, read, count);
    memory_.make_room(count.used);
    cutter<T> cut{memory_.data()};
    lay_out(shape, read, cut);
  }

 private:
  void lay_out(model_shape const& shape, documents const& read, cutter<T>& cut)
  {
    std::size_t const rows = read.rows;
    std::size_t const c = rows * shape.channels;
    std::size_t const h = read.all_rows * read.in_bag.heads;
    std::size_t const s = read.sequences * shape.channels;
    // In a bag of one GPU there is nothing to exchange, and the arrays are the same.
    auto const all = [&](std::size_t of_head, T* own) {
      return read.in_bag.gpus == 1 ? own : cut(h * of_head);
    };
    layers.clear();
    for (std::size_t i = 0; i < shape.layers; ++i) {
      of_layer l = recompute && i > 0 ? layers.front() : of_layer{};
      l.x = cut(c);
      if (!recompute || i == 0) {
        l.x_norm = cut(c);
        l.x_mean = cut(rows);
        l.x_scale = cut(rows);
        l.qkv = cut(3 * c);
        l.attended = cut(c);
        l.all_qkv = all(3 * head_size, l.qkv);
        l.all_attended = all(head_size, l.attended);
        l.log_sum = cut(h);
        l.y = cut(c);
        l.y_norm = cut(c);
        l.y_mean = cut(rows);
        l.y_scale = cut(rows);
        l.up = cut(4 * c);
        l.active = cut(4 * c);
        if (shape.adaptive) {
          l.split_x = cut(c);
          l.split_attended = cut(c);
          l.added = cut(c);
          l.from_mlp = cut(c);
          l.modulated = cut(2 * 6 * s);
        }
      }
      layers.push_back(l);
    }
    last = cut(c);
    last_norm = cut(c);
    last_mean = cut(rows);
    last_scale = cut(rows);
    logits = cut(rows * shape.vocabulary);
    loss = cut(rows);
    dx = cut(c);
    dnorm = cut(c);
    dwide = cut(4 * c);
    dqkv = cut(3 * c);
    all_dattended = all(head_size, dnorm);
    all_dqkv = all(3 * head_size, dqkv);
    along = cut(h);
    if (shape.adaptive) {
      conditions = cut(s);
      active = cut(s);
      dconditions = cut(s);
      dmodulated = cut(2 * 6 * s);
      split = cut(c);
      split_qkv = cut(3 * c);
      split_dattended = cut(c);
      dadded = cut(c);
      dbeside = cut(c);
    }
    std::size_t const most = std::max({rows, read.sequences, std::size_t{1}});
    parts.rows = std::max<std::size_t>(256, (most + 31) / 32);
    std::size_t const largest = std::max(6 * shape.channels, shape.vocabulary) * shape.channels;
    parts.memory = cut((most + parts.rows - 1) / parts.rows * largest);
  }

  array<T> memory_;
};

}  // namespace single_file
