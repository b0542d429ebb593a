// SPDX-License-Identifier: Apache-2.0
// A small transformer, forward and backward: layers of a GPT, or blocks with adaptive layer norm.
#pragma once

#include "arrays.cuh"
#include "kernels.cuh"

#include <algorithm>
#include <cstddef>

namespace single_file {

/// What layers are made of: products with weights and norms, forward and backward, of `rows` rows.
template <class T>
class arithmetic {
 public:
  arithmetic(device const& on, model_shape const& shape) : on_(on), shape_(shape) {}

  /// y = x weight + bias, + added
  void forward(linear<T> const& w, T const* x, T const* added, T* y, std::size_t rows) const
  {
    multiply(y, row_major(x, w.inputs), row_major(w.weight, w.outputs), rows, w.outputs, w.inputs,
             w.bias, added);
  }

  /// The gradients of x, + added, and of the weights.
  void backward(linear<T> const& w, linear<T> const& g, T const* x, T const* dy, T* dx,
                std::size_t rows, row_parts<T> const& parts, T const* added = nullptr) const
  {
    multiply(dx, row_major(dy, w.outputs), transposed(row_major(w.weight, w.outputs)), rows,
             w.inputs, w.outputs, nullptr, added);
    multiply_over_rows(g.weight, x, w.inputs, dy, w.outputs, rows, parts);
    sum_over_rows(g.bias, dy, w.outputs, rows, parts);
  }

  void forward(norm<T> const& w, T const* x, T* y, T* mean, T* scale, std::size_t rows) const
  {
    for_each<T>(on_, rows, layer_norm<T>{y, mean, scale, x, {w.gain, w.bias}, shape_.channels});
  }

  /// From dy, which it overwrites, to dx, which the residual stream goes by as well.
  void backward(norm<T> const& w, norm<T> const& g, T const* x, T const* mean, T const* scale,
                T* dy, T* dx, std::size_t rows, row_parts<T> const& parts) const
  {
    sum_over_rows(g.bias, dy, shape_.channels, rows, parts);
    for_each<T>(on_, rows,
                layer_norm_backward<T>{dx, dy, x, mean, scale, {w.gain, w.bias}, shape_.channels});
    sum_over_rows(g.gain, dy, shape_.channels, rows, parts);
  }

  void attend(documents const& read, typename activations<T>::of_layer const& l) const
  {
    std::size_t const all = read.all_rows;
    std::size_t const heads = read.in_bag.heads;
    for_each<T>(on_, all * heads,
                attention<T>{l.all_attended, l.log_sum, l.all_qkv, read.first.data(),
                             read.end.data(), !shape_.adaptive, all, heads});
  }

  /// From a.all_dattended to a.all_dqkv.
  void attend_backward(documents const& read, typename activations<T>::of_layer const& l,
                       activations<T>& a) const
  {
    std::size_t const all = read.all_rows;
    std::size_t const heads = read.in_bag.heads;
    bool const causal = !shape_.adaptive;
    for_each<T>(on_, all * heads,
                attention_backward_queries<T>{a.all_dqkv, a.along, a.all_dattended, l.all_attended,
                                              l.log_sum, l.all_qkv, read.first.data(),
                                              read.end.data(), causal, all, heads});
    for_each<T>(
        on_, all * heads,
        attention_backward_keys<T>{a.all_dqkv, a.along, a.all_dattended, l.log_sum, l.all_qkv,
                                   read.first.data(), read.end.data(), causal, all, heads});
  }

  void multiply(T* out, matrix<T> a, matrix<T> b, std::size_t rows, std::size_t columns,
                std::size_t depth, T const* bias = nullptr, T const* added = nullptr) const
  {
    matrix_product<T> const product{out, a, b, rows, columns, depth, depth, bias, added};
    for_each<T>(on_, product.tiles(), product);
  }

  /// out[n][m] = the sum over rows of x[row][n] y[row][m]
  void multiply_over_rows(T* out, T const* x, std::size_t n, T const* y, std::size_t m,
                          std::size_t rows, row_parts<T> const& parts) const
  {
    std::size_t const count = (rows + parts.rows - 1) / parts.rows;
    matrix_product<T> const product{
        parts.memory, transposed(row_major(x, n)), row_major(y, m), n, m, rows, parts.rows};
    for_each<T>(on_, count * product.tiles(), product);
    for_each<T>(on_, n * m, sum_of_parts<T>{out, parts.memory, count, n * m});
  }

  void sum_over_rows(T* out, T const* x, std::size_t columns, std::size_t rows,
                     row_parts<T> const& parts) const
  {
    std::size_t const count = (rows + parts.rows - 1) / parts.rows;
    for_each<T>(on_, count * columns, column_sums<T>{parts.memory, x, rows, columns, parts.rows});
    for_each<T>(on_, columns, sum_of_parts<T>{out, parts.memory, count, columns});
  }

 private:
  device on_;
  model_shape shape_;
};

/// The layers of a GPT.
template <class T>
class gpt_layers {
 public:
  gpt_layers(device const& on, model_shape const& shape) : on_(on), shape_(shape), math_(on, shape)
  {}

  /// From x to what the layer's last matrix multiplies: all that its backward pass reads.
  template <class Exchange>
  void forward(layer<T> const& w, typename activations<T>::of_layer const& l, documents const& read,
               Exchange const& exchange) const
  {
    std::size_t const rows = read.rows;
    math_.forward(w.before_attention, l.x, l.x_norm, l.x_mean, l.x_scale, rows);
    math_.forward(w.qkv, l.x_norm, nullptr, l.qkv, rows);
    exchange.to_heads(l.qkv, l.all_qkv, 3 * head_size);
    math_.attend(read, l);
    exchange.to_tokens(l.all_attended, l.attended, head_size);
    math_.forward(w.projection, l.attended, l.x, l.y, rows);
    math_.forward(w.before_mlp, l.y, l.y_norm, l.y_mean, l.y_scale, rows);
    math_.forward(w.up, l.y_norm, nullptr, l.up, rows);
    for_each<T>(on_, rows * 4 * shape_.channels, gelu<T>{l.active, l.up});
  }

  /// From there to the layer behind it.
  void leave(layer<T> const& w, typename activations<T>::of_layer const& l, documents const& read,
             T* next) const
  {
    math_.forward(w.down, l.active, l.y, next, read.rows);
  }

  template <class Exchange>
  void backward(layer<T> const& w, layer<T> const& g, typename activations<T>::of_layer const& l,
                documents const& read, activations<T>& a, Exchange const& exchange) const
  {
    std::size_t const rows = read.rows;
    math_.backward(w.down, g.down, l.active, a.dx, a.dwide, rows, a.parts);
    for_each<T>(on_, rows * 4 * shape_.channels, gelu_backward<T>{a.dwide, l.up});
    math_.backward(w.up, g.up, l.y_norm, a.dwide, a.dnorm, rows, a.parts);
    math_.backward(w.before_mlp, g.before_mlp, l.y, l.y_mean, l.y_scale, a.dnorm, a.dx, rows,
                   a.parts);
    math_.backward(w.projection, g.projection, l.attended, a.dx, a.dnorm, rows, a.parts);
    exchange.to_heads(a.dnorm, a.all_dattended, head_size);
    math_.attend_backward(read, l, a);
    exchange.to_tokens(a.all_dqkv, a.dqkv, 3 * head_size);
    math_.backward(w.qkv, g.qkv, l.x_norm, a.dqkv, a.dnorm, rows, a.parts);
    math_.backward(w.before_attention, g.before_attention, l.x, l.x_mean, l.x_scale, a.dnorm, a.dx,
                   rows, a.parts);
  }

 private:
  device on_;
  model_shape shape_;
  arithmetic<T> math_;
};

/// The blocks of a diffusion transformer in the manner of FLUX: all tokens of a sequence attend to
/// each other, and its condition shifts, scales and gates what a block does to them. A matrix makes
/// parts 0 to 5 of silu(condition); text and picture have weights of their own in a block of two
/// streams, and the same ones in a block of one:
///
///     n = norm(x) (1 + part 1) + part 0
///     two   h = x + part 2 attention(n);  y = h + part 5 mlp(norm(h) (1 + part 4) + part 3)
///     one   y = x + part 2 (attention(n) + mlp(n))
template <class T>
class adaptive_blocks {
 public:
  adaptive_blocks(device const& on, model_shape const& shape)
      : on_(on), shape_(shape), math_(on, shape)
  {}

  /// From x to what the block's last gate multiplies: all that its backward pass reads.
  template <class Exchange>
  void forward(adaptive_block<T> const& block, typename activations<T>::of_layer const& l,
               documents const& read, activations<T>& a, Exchange const& exchange) const
  {
    std::size_t const c = shape_.channels;
    stream_rows const& all = streams_of(block, read);
    T* const x = split(all, l.x, l.split_x, c);
    T* const qkv = all.count() == 1 ? l.qkv : a.split_qkv;
    for (std::size_t k = 0; k < block.size(); ++k) {
      stream const s = stream_of(block, all, read, l, k);
      math_.forward(s.w.modulation, a.active, nullptr, s.modulated, read.sequences);
      norm(s, 0, x, l.x_norm, l.x_mean, l.x_scale);
      math_.forward(s.w.qkv, l.x_norm + s.at(c), nullptr, qkv + s.at(3 * c), s.rows);
    }
    join(all, qkv, l.qkv, 3 * c);
    exchange.to_heads(l.qkv, l.all_qkv, 3 * head_size);
    math_.attend(read, l);
    exchange.to_tokens(l.all_attended, l.attended, head_size);
    T* const attended = split(all, l.attended, l.split_attended, c);
    for (std::size_t k = 0; k < block.size(); ++k) {
      stream const s = stream_of(block, all, read, l, k);
      math_.forward(s.w.projection, attended + s.at(c), nullptr, l.added + s.at(c), s.rows);
      if (s.mlp_is_behind) {
        gate(s, 2, l.added, x, l.y);
        norm(s, 3, l.y, l.y_norm, l.y_mean, l.y_scale);
      }
      T* const into_mlp = s.mlp_is_behind ? l.y_norm : l.x_norm;
      math_.forward(s.w.up, into_mlp + s.at(c), nullptr, l.up + s.at(4 * c), s.rows);
      for_each<T>(on_, s.rows * 4 * c, gelu<T>{l.active + s.at(4 * c), l.up + s.at(4 * c)});
      T* const out = (s.mlp_is_behind ? l.from_mlp : l.added) + s.at(c);
      math_.forward(s.w.down, l.active + s.at(4 * c), s.mlp_is_behind ? nullptr : out, out, s.rows);
    }
  }

  /// From there to the block behind it.
  void leave(adaptive_block<T> const& block, typename activations<T>::of_layer const& l,
             documents const& read, activations<T>& a, T* next) const
  {
    stream_rows const& all = streams_of(block, read);
    T* const y = all.count() == 1 ? next : a.split;
    for (std::size_t k = 0; k < block.size(); ++k) {
      stream const s = stream_of(block, all, read, l, k);
      if (s.mlp_is_behind) {
        gate(s, 5, l.from_mlp, l.y, y);
      } else {
        gate(s, 2, l.added, l.x, y);
      }
    }
    join(all, y, next, shape_.channels);
  }

  template <class Exchange>
  void backward(adaptive_block<T> const& block, adaptive_block<T> const& gradients,
                typename activations<T>::of_layer const& l, documents const& read,
                activations<T>& a, Exchange const& exchange) const
  {
    std::size_t const c = shape_.channels;
    stream_rows const& all = streams_of(block, read);
    bool const is_one = all.count() == 1;
    T* const x = is_one ? l.x : l.split_x;
    T* const attended = is_one ? l.attended : l.split_attended;
    T* const dattended = is_one ? a.dnorm : a.split_dattended;
    T* const dx = split(all, a.dx, a.split, c);
    for (std::size_t k = 0; k < block.size(); ++k) {
      stream const s = stream_of(block, all, read, l, k, a.dmodulated);
      adaptive_stream<T> const& g = gradients[k];
      T* const dadded = a.dadded + s.at(c);
      if (s.mlp_is_behind) {
        gate_backward(s, 5, l.from_mlp, dx, a.dadded);
        mlp_backward(s, g, l, l.y_norm, dadded, a.dnorm + s.at(c), a);
        norm_backward(s, 3, l.y, l.y_mean, l.y_scale, a.dnorm, dx);
        gate_backward(s, 2, l.added, dx, a.dadded);
      } else {
        gate_backward(s, 2, l.added, dx, a.dadded);
        mlp_backward(s, g, l, l.x_norm, dadded, a.dbeside + s.at(c), a);
      }
      math_.backward(s.w.projection, g.projection, attended + s.at(c), dadded, dattended + s.at(c),
                     s.rows, a.parts);
    }
    join(all, dattended, a.dnorm, c);
    exchange.to_heads(a.dnorm, a.all_dattended, head_size);
    math_.attend_backward(read, l, a);
    exchange.to_tokens(a.all_dqkv, a.dqkv, 3 * head_size);
    T* const dqkv = split(all, a.dqkv, a.split_qkv, 3 * c);
    for (std::size_t k = 0; k < block.size(); ++k) {
      stream const s = stream_of(block, all, read, l, k, a.dmodulated);
      adaptive_stream<T> const& g = gradients[k];
      math_.backward(s.w.qkv, g.qkv, l.x_norm + s.at(c), dqkv + s.at(3 * c), a.dnorm + s.at(c),
                     s.rows, a.parts, s.mlp_is_behind ? nullptr : a.dbeside + s.at(c));
      norm_backward(s, 0, x, l.x_mean, l.x_scale, a.dnorm, dx);
      math_.backward(s.w.modulation, g.modulation, a.active, s.dmodulated, a.dconditions,
                     read.sequences, a.parts, a.dconditions);
    }
    join(all, dx, a.dx, c);
  }

 private:
  /// The rows of one stream, which lie together, and what the conditions make of them.
  struct stream {
    adaptive_stream<T> const& w;
    bool mlp_is_behind;
    std::size_t first;
    std::size_t rows;
    std::size_t sequences;
    std::size_t step;  // of what is modulated, from sequence to sequence
    T* modulated;
    T* dmodulated;
    int const* sequence;
    int const* begin;

    [[nodiscard]] std::size_t at(std::size_t width) const { return first * width; }
  };

  [[nodiscard]] static stream_rows const& streams_of(adaptive_block<T> const& block,
                                                     documents const& read)
  {
    return block.size() == 1 ? read.one_stream : read.two_streams;
  }

  [[nodiscard]] stream stream_of(adaptive_block<T> const& block, stream_rows const& all,
                                 documents const& read, typename activations<T>::of_layer const& l,
                                 std::size_t k, T* dmodulated = nullptr) const
  {
    std::size_t const step = block[k].modulation.outputs;
    std::size_t const first = all.first[k];
    std::size_t const of_stream = k * read.sequences * step;
    return {block[k],
            block.size() == 2,
            first,
            all.first[k + 1] - first,
            read.sequences,
            step,
            l.modulated + of_stream,
            dmodulated == nullptr ? nullptr : dmodulated + of_stream,
            all.sequence.data() + first,
            all.begin.data() + k * (read.sequences + 1)};
  }

  /// Rows by streams: in `room`, unless there is one stream.
  T* split(stream_rows const& all, T* rows, T* room, std::size_t width) const
  {
    if (all.count() == 1) { return rows; }
    for_each<T>(on_, all.first.back() * width,
                move_rows<T>{room, rows, all.row.data(), width, false});
    return room;
  }

  /// And back, unless they are there.
  void join(stream_rows const& all, T* from, T* rows, std::size_t width) const
  {
    if (from == rows) { return; }
    for_each<T>(on_, all.first.back() * width,
                move_rows<T>{from, rows, all.row.data(), width, true});
  }

  /// The adaptive norm by parts p and p + 1.
  void norm(stream const& s, std::size_t p, T const* x, T* y, T* mean, T* scale) const
  {
    std::size_t const c = shape_.channels;
    for_each<T>(on_, s.rows,
                layer_norm<T>{y + s.at(c), mean + s.first, scale + s.first, x + s.at(c),
                              gains_of(s, p), c});
  }

  void norm_backward(stream const& s, std::size_t p, T const* x, T const* mean, T const* scale,
                     T* dy, T* dx) const
  {
    std::size_t const c = shape_.channels;
    sum(s, p, dy, nullptr);
    for_each<T>(on_, s.rows,
                layer_norm_backward<T>{dx + s.at(c), dy + s.at(c), x + s.at(c), mean + s.first,
                                       scale + s.first, gains_of(s, p), c});
    sum(s, p + 1, dy, nullptr);
  }

  [[nodiscard]] gains<T> gains_of(stream const& s, std::size_t p) const
  {
    std::size_t const c = shape_.channels;
    return {s.modulated + (p + 1) * c, s.modulated + p * c, s.sequence, s.step};
  }

  /// out = x + part p times what is added
  void gate(stream const& s, std::size_t p, T const* added, T const* x, T* out) const
  {
    std::size_t const c = shape_.channels;
    for_each<T>(on_, s.rows * c,
                gated<T>{out + s.at(c), added + s.at(c), x + s.at(c), s.modulated + p * c,
                         s.sequence, s.step, c});
  }

  void gate_backward(stream const& s, std::size_t p, T const* added, T const* dout, T* dadded) const
  {
    std::size_t const c = shape_.channels;
    sum(s, p, added, dout);
    for_each<T>(on_, s.rows * c,
                gated<T>{dadded + s.at(c), dout + s.at(c), nullptr, s.modulated + p * c, s.sequence,
                         s.step, c});
  }

  /// The gradient by part p: sums of x, times y if there is one, over each sequence's rows.
  void sum(stream const& s, std::size_t p, T const* x, T const* y) const
  {
    std::size_t const c = shape_.channels;
    for_each<T>(on_, s.sequences * c,
                sequence_sums<T>{s.dmodulated + p * c, s.step, x + s.at(c),
                                 y == nullptr ? nullptr : y + s.at(c), s.begin, c});
  }

  void mlp_backward(stream const& s, adaptive_stream<T> const& g,
                    typename activations<T>::of_layer const& l, T const* x, T const* dy, T* dx,
                    activations<T>& a) const
  {
    std::size_t const c = shape_.channels;
    std::size_t const wide = s.at(4 * c);
    math_.backward(s.w.down, g.down, l.active + wide, dy, a.dwide + wide, s.rows, a.parts);
    for_each<T>(on_, s.rows * 4 * c, gelu_backward<T>{a.dwide + wide, l.up + wide});
    math_.backward(s.w.up, g.up, x + s.at(c), a.dwide + wide, dx, s.rows, a.parts);
  }

  device on_;
  model_shape shape_;
  arithmetic<T> math_;
};

/// What is exchanged within a bag, around attention. Nothing in a bag of one GPU.
struct no_exchange {
  void to_heads(auto const* /*own*/, auto* /*all*/, std::size_t /*of_head*/) const {}
  void to_tokens(auto const* /*all*/, auto* /*own*/, std::size_t /*of_head*/) const {}
};

/// A small transformer, forward and backward. Both are collective in the bag.
template <class T>
class transformer {
 public:
  transformer(device const& on, model_shape const& shape, T* parameters, T* gradients)
      : on_(on),
        shape_(shape),
        math_(on, shape),
        layers_(on, shape),
        blocks_(on, shape),
        weights_(shape, cutter<T>{parameters}),
        gradients_(shape, cutter<T>{gradients})
  {}

  /// What a diffusion transformer's timesteps and texts become, on the rank that has read them.
  void condition(T const* read, T* conditions, std::size_t sequences) const
  {
    for (auto const& w : weights_.condition) {
      math_.forward(w, read, nullptr, conditions, sequences);
    }
  }

  /// From the gradients of conditions, of all GPUs, to those of the parameters.
  void condition_backward(T const* read, T const* dconditions, std::size_t sequences,
                          row_parts<T> const& parts) const
  {
    for (std::size_t i = 0; i < weights_.condition.size(); ++i) {
      auto const& g = gradients_.condition[i];
      row_parts<T> const all{parts.memory, std::max<std::size_t>(sequences, 1)};
      math_.multiply_over_rows(g.weight, read, g.inputs, dconditions, g.outputs, sequences, all);
      math_.sum_over_rows(g.bias, dconditions, g.outputs, sequences, all);
    }
  }

  /// Leaves the loss of every row, and the gradients of `weight` times their sum by the logits.
  /// Expects room for as many rows in `a`, and conditions there.
  template <class Exchange>
  void forward(documents const& read, activations<T>& a, T weight, Exchange const& exchange) const
  {
    std::size_t const rows = read.rows;
    std::size_t const c = shape_.channels;
    T* const x = a.layers.front().x;
    for_each<T>(on_, rows * c,
                embed<T>{x, weights_.embedding, read.token.data(), read.position.data(), c});
    if (shape_.adaptive) { for_each<T>(on_, read.sequences * c, silu<T>{a.active, a.conditions}); }
    for (std::size_t i = 0; i < shape_.layers; ++i) {
      forward_layer(i, read, a, exchange);
      T* const next = i + 1 < shape_.layers ? a.layers[i + 1].x : a.last;
      if (shape_.adaptive) {
        blocks_.leave(weights_.blocks[i], a.layers[i], read, a, next);
      } else {
        layers_.leave(weights_.layers[i], a.layers[i], read, next);
      }
    }
    math_.forward(weights_.last, a.last, a.last_norm, a.last_mean, a.last_scale, rows);
    math_.multiply(a.logits, row_major(a.last_norm, c),
                   transposed(row_major(weights_.embedding, c)), rows, shape_.vocabulary, c);
    for_each<T>(on_, rows,
                cross_entropy<T>{a.logits, a.loss, read.target.data(), shape_.vocabulary, weight});
  }

  /// Leaves the gradients of all parameters: of the rows of this rank, and zeros if it has none.
  /// Those of a.conditions are left in a.dconditions.
  template <class Exchange>
  void backward(documents const& read, activations<T>& a, Exchange const& exchange) const
  {
    std::size_t const rows = read.rows;
    std::size_t const c = shape_.channels;
    std::size_t const v = shape_.vocabulary;
    math_.multiply(a.dnorm, row_major(a.logits, v), row_major(weights_.embedding, c), rows, c, v);
    math_.multiply_over_rows(gradients_.embedding, a.logits, v, a.last_norm, c, rows, a.parts);
    for_each<T>(on_, rows * c, fill<T>{a.dx, 0});
    math_.backward(weights_.last, gradients_.last, a.last, a.last_mean, a.last_scale, a.dnorm, a.dx,
                   rows, a.parts);
    if (shape_.adaptive) { for_each<T>(on_, read.sequences * c, fill<T>{a.dconditions, 0}); }
    for (std::size_t i = shape_.layers; i-- > 0;) {
      // The last layer's are still there. The bag's ranks repeat the others' exchanges together.
      if (a.recompute && i + 1 < shape_.layers) { forward_layer(i, read, a, exchange); }
      if (shape_.adaptive) {
        blocks_.backward(weights_.blocks[i], gradients_.blocks[i], a.layers[i], read, a, exchange);
      } else {
        layers_.backward(weights_.layers[i], gradients_.layers[i], a.layers[i], read, a, exchange);
      }
    }
    if (shape_.adaptive) {
      for_each<T>(on_, read.sequences * c, silu_backward<T>{a.dconditions, a.conditions});
    }
    for_each<T>(on_, v * c,
                embed_backward<T>{gradients_.embedding, a.dx, read.token.data(), rows, c});
  }

 private:
  /// All that the backward pass of a layer reads.
  template <class Exchange>
  void forward_layer(std::size_t i, documents const& read, activations<T>& a,
                     Exchange const& exchange) const
  {
    if (shape_.adaptive) {
      blocks_.forward(weights_.blocks[i], a.layers[i], read, a, exchange);
    } else {
      layers_.forward(weights_.layers[i], a.layers[i], read, exchange);
    }
  }

  device on_;
  model_shape shape_;
  arithmetic<T> math_;
  gpt_layers<T> layers_;
  adaptive_blocks<T> blocks_;
  tensors<T> weights_;
  tensors<T> gradients_;
};

}  // namespace single_file
