// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_COMM_DETAIL_MPI_MPI_FAILURE_HPP
#define BALLAST_COMM_DETAIL_MPI_MPI_FAILURE_HPP

#include <ballast/comm/comm_failure.hpp>
#include <ballast/core/result.hpp>

#include <mpi.h>

#include <array>
#include <cstddef>
#include <string_view>

namespace ballast::inline v0::detail {

/// Returns the error of a call of MPI, with MPI's code and text.
[[nodiscard]] inline tl::unexpected<error> mpi_failure(std::string_view call, int code)
{
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  return comm_failure::transport(call, code, {text.data(), static_cast<std::size_t>(length)});
}

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_COMM_DETAIL_MPI_MPI_FAILURE_HPP
