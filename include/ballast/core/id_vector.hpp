// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_CORE_ID_VECTOR_HPP
#define BALLAST_CORE_ID_VECTOR_HPP

#include <ballast/core/ids.hpp>

#include <utility>
#include <vector>

namespace ballast::inline v0 {

/// A std::vector that takes the identifier of an element as well as its index: the bag of a sample
/// is plan.owner[sample], whether `sample` comes from plan.samples or from a loop.
///
/// Expects     identifiers and indices are below size(), as of std::vector.
template <identifier Id, class T>
class id_vector : public std::vector<T> {
 public:
  using std::vector<T>::vector;
  id_vector() = default;
  id_vector(std::vector<T> values) noexcept : std::vector<T>(std::move(values)) {}

  using std::vector<T>::operator[];
  [[nodiscard]] T& operator[](Id id) noexcept { return this->data()[to_index(id)]; }
  [[nodiscard]] T const& operator[](Id id) const noexcept { return this->data()[to_index(id)]; }
};

}  // namespace ballast::inline v0

#endif  // BALLAST_CORE_ID_VECTOR_HPP
