// SPDX-License-Identifier: Apache-2.0
#include "cublas.hpp"

#include <ballast/comm/communicator.hpp>
#include <ballast/core.hpp>

#include <dlfcn.h>

namespace cli {
namespace {

/// As much as cuBLAS recommends for Hopper.
constexpr std::size_t workspace_bytes = std::size_t{32} << 20;

template <class Function>
bool find(void* library, char const* name, Function*& function)
{
  function = reinterpret_cast<Function*>(dlsym(library, name));
  return function != nullptr;
}

}  // namespace

ballast::result<cublas_functions> cublas_functions::load()
{
  std::string const name = "libcublas.so." + std::to_string(CUBLAS_VER_MAJOR);
  void* library = nullptr;
  for (std::string const folder : {"", "/usr/local/cuda/lib64/"}) {
    if (library == nullptr) { library = dlopen((folder + name).c_str(), RTLD_NOW | RTLD_LOCAL); }
  }
  auto const refuse = [&name](std::string const& why) {
    return ballast::fail(ballast::error_code::unreadable, 0,
                         name + " cannot be used: " + why +
                             "; install cuBLAS of the CUDA Toolkit, or name its folder in "
                             "LD_LIBRARY_PATH");
  };
  if (library == nullptr) { return refuse("it was not found, or what it needs was not"); }
  cublas_functions made;
  // It is never closed: handles may be alive until the process ends.
  bool const complete = find(library, "cublasCreate_v2", made.create) &&
                        find(library, "cublasDestroy_v2", made.destroy) &&
                        find(library, "cublasSetStream_v2", made.set_stream) &&
                        find(library, "cublasSetWorkspace_v2", made.set_workspace) &&
                        find(library, "cublasSetMathMode", made.set_math_mode) &&
                        find(library, "cublasGetVersion_v2", made.get_version) &&
                        find(library, "cublasGetStatusString", made.status_text) &&
                        find(library, "cublasGemmEx", made.gemm) &&
                        find(library, "cublasGemmStridedBatchedEx", made.gemm_batched);
  if (!complete) { return refuse("it lacks a function"); }
  return made;
}

cublas::cublas(cublas_functions const& functions, cuda_memory workspace, owned_handle handle)
    : functions_(functions), workspace_(std::move(workspace)), handle_(std::move(handle))
{}

ballast::result<cublas> cublas::make(cublas_functions const& functions, cudaStream_t stream)
{
  auto workspace = allocate_on_gpu("the workspace of cuBLAS", workspace_bytes);
  if (!workspace) { return tl::unexpected(workspace.error()); }
  cublasHandle_t handle = nullptr;
  cublasStatus_t const created = functions.create(&handle);
  cublas made(functions, std::move(*workspace), owned_handle(handle, {functions.destroy}));
  auto done = made.check("cublasCreate", created);
  if (done) { done = made.check("cublasSetStream", functions.set_stream(handle, stream)); }
  if (done) {  // after the stream, which brings a workspace of its own
    done = made.check("cublasSetWorkspace",
                      functions.set_workspace(handle, made.workspace_.get(), workspace_bytes));
  }
  if (done) {
    auto const mode = static_cast<cublasMath_t>(CUBLAS_DEFAULT_MATH |
                                                CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION);
    done = made.check("cublasSetMathMode", functions.set_math_mode(handle, mode));
  }
  if (!done) { return tl::unexpected(done.error()); }
  return made;
}

ballast::result<void> cublas::check(char const* call, cublasStatus_t status) const
{
  if (status == CUBLAS_STATUS_SUCCESS) { return {}; }
  auto failed = ballast::comm_failure::transport(call, status, functions_.status_text(status));
  if (status == CUBLAS_STATUS_ALLOC_FAILED) {
    failed.value().code = ballast::error_code::out_of_memory;
  }
  return failed;
}

ballast::result<void> cublas::multiply(gemm const& product) const
{
  auto const [rows, columns, inner, a, b, c, alpha, beta, batch] = product;
  for (std::size_t const each :
       {rows, columns, inner, a.row_stride, b.row_stride, c.row_stride, batch}) {
    if (each > static_cast<std::size_t>(std::numeric_limits<int>::max())) {
      return ballast::fail(ballast::error_code::out_of_range, 0,
                           "a matrix of " + std::to_string(each) +
                               " rows or columns is more than cuBLAS takes; give smaller sizes");
    }
  }
  // cuBLAS reads matrices by columns, so each of these is its transpose there, and c^T = b^T a^T.
  auto const as_int = [](std::size_t number) { return static_cast<int>(number); };
  auto const as_stride = [](std::size_t number) { return static_cast<long long>(number); };
  cublasOperation_t const of_b = b.transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
  cublasOperation_t const of_a = a.transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
  if (batch == 1) {
    return check("cublasGemmEx",
                 functions_.gemm(handle_.get(), of_b, of_a, as_int(columns), as_int(rows),
                                 as_int(inner), &alpha, b.data, CUDA_R_16BF, as_int(b.row_stride),
                                 a.data, CUDA_R_16BF, as_int(a.row_stride), &beta, c.data, c.type,
                                 as_int(c.row_stride), CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
  }
  return check("cublasGemmStridedBatchedEx",
               functions_.gemm_batched(
                   handle_.get(), of_b, of_a, as_int(columns), as_int(rows), as_int(inner), &alpha,
                   b.data, CUDA_R_16BF, as_int(b.row_stride), as_stride(b.batch_stride), a.data,
                   CUDA_R_16BF, as_int(a.row_stride), as_stride(a.batch_stride), &beta, c.data,
                   c.type, as_int(c.row_stride), as_stride(c.batch_stride), as_int(batch),
                   CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
}

std::string cublas::version() const
{
  int number = 0;
  (void)functions_.get_version(handle_.get(), &number);
  return std::to_string(number / 10000) + "." + std::to_string(number / 100 % 100) + "." +
         std::to_string(number % 100);
}

}  // namespace cli
