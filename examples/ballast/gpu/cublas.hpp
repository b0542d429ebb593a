// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cuda_memory.hpp"

#include <ballast/core.hpp>

#include <cublas_v2.h>
#include <cuda_runtime_api.h>

#include <memory>

namespace cli {

/// The functions of cuBLAS that a layer calls.
struct cublas_functions {
  cublasStatus_t (*create)(cublasHandle_t*) = nullptr;
  cublasStatus_t (*destroy)(cublasHandle_t) = nullptr;
  cublasStatus_t (*set_stream)(cublasHandle_t, cudaStream_t) = nullptr;
  cublasStatus_t (*set_workspace)(cublasHandle_t, void*, std::size_t) = nullptr;
  cublasStatus_t (*set_math_mode)(cublasHandle_t, cublasMath_t) = nullptr;
  cublasStatus_t (*get_version)(cublasHandle_t, int*) = nullptr;
  char const* (*status_text)(cublasStatus_t) = nullptr;
  cublasStatus_t (*gemm)(cublasHandle_t, cublasOperation_t, cublasOperation_t, int, int, int,
                         void const*, void const*, cudaDataType, int, void const*, cudaDataType,
                         int, void const*, void*, cudaDataType, int, cublasComputeType_t,
                         cublasGemmAlgo_t) = nullptr;
  cublasStatus_t (*gemm_batched)(cublasHandle_t, cublasOperation_t, cublasOperation_t, int, int,
                                 int, void const*, void const*, cudaDataType, int, long long,
                                 void const*, cudaDataType, int, long long, void const*, void*,
                                 cudaDataType, int, long long, int, cublasComputeType_t,
                                 cublasGemmAlgo_t) = nullptr;

  /// Those of the library on this machine. It is loaded here and not with the program, which so
  /// also runs where there is none, and starts without reading its 600 MB.
  [[nodiscard]] static ballast::result<cublas_functions> load();
};

/// A factor of a product: row-major, bf16, read as it is or transposed; in a batch so many numbers
/// behind the one before.
struct gemm_factor {
  void const* data;
  std::size_t row_stride;
  bool transposed = false;
  std::size_t batch_stride = 0;
};

/// A product: row-major, bf16 or fp32.
struct gemm_product {
  void* data;
  std::size_t row_stride;
  cudaDataType type = CUDA_R_16BF;
  std::size_t batch_stride = 0;
};

/// c = alpha a b + beta c, a: rows x inner, b: inner x columns, as many times as the batch has.
struct gemm {
  std::size_t rows, columns, inner;
  gemm_factor a, b;
  gemm_product c;
  float alpha = 1;
  float beta = 0;
  std::size_t batch = 1;
};

/// Products of matrices on a stream: bf16 factors, sums in fp32.
class cublas {
 public:
  /// The stream outlives it.
  [[nodiscard]] static ballast::result<cublas> make(cublas_functions const& functions,
                                                    cudaStream_t stream);

  [[nodiscard]] ballast::result<void> multiply(gemm const& product) const;

  /// "13.0.2"
  [[nodiscard]] std::string version() const;

 private:
  struct destroy {
    cublasStatus_t (*function)(cublasHandle_t);
    void operator()(cublasHandle_t handle) const noexcept { (void)function(handle); }
  };
  using owned_handle = std::unique_ptr<std::remove_pointer_t<cublasHandle_t>, destroy>;

  cublas(cublas_functions const& functions, cuda_memory workspace, owned_handle handle);

  [[nodiscard]] ballast::result<void> check(char const* call, cublasStatus_t status) const;

  cublas_functions functions_;
  cuda_memory workspace_;
  owned_handle handle_;
};

}  // namespace cli
