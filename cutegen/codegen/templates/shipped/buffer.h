// Exported by cutegen. A tensor on the current GPU, for the examples.
#pragma once

#include <cuda_runtime_api.h>
#include <tvm/ffi/container/tensor.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <vector>

/// Owns its memory; its elements are 0.5, 1, 2, 0.5 and so on; of integers 0, 1, 2, 0.
class Buffer {
 public:
  /// `major` is the contiguous mode. Each of its rows begins at a multiple of `align` bytes; a row has the last `dense`
  /// modes, without gaps, where these are several.
  Buffer(DLDataType type, std::vector<int64_t> shape, int major, int64_t align, int dense = 1)
      : type_(type), shape_(std::move(shape)), strides_(shape_.size()) {
    const int64_t width = type.bits / 8, unit = std::max<int64_t>(1, align / width);
    const int modes = static_cast<int>(shape_.size());
    int64_t row = modes ? std::max<int64_t>(1, shape_[major]) : 1;
    if (modes) strides_[major] = 1;
    for (int mode = modes - 2; mode >= modes - dense; --mode) {
      strides_[mode] = row;
      row *= std::max<int64_t>(1, shape_[mode]);
    }
    int64_t step = (row + unit - 1) / unit * unit;
    for (int mode = modes - 1; mode >= 0; --mode) {
      if (mode == major || (dense > 1 && mode >= modes - dense)) continue;
      strides_[mode] = step;
      step *= std::max<int64_t>(1, shape_[mode]);
    }
    std::vector<char> bytes(step * width);
    for (int64_t i = 0; i < step; ++i) {
      const uint64_t bits = pattern(i % 3);
      std::memcpy(&bytes[i * width], &bits, width);
    }
    check(cudaGetDevice(&device_));
    check(cudaMalloc(&memory_, bytes.size()));
    check(cudaMemcpy(memory_, bytes.data(), bytes.size(), cudaMemcpyHostToDevice));
    tensor_ = {memory_,         {kDLCUDA, device_}, static_cast<int32_t>(shape_.size()), type_,
               shape_.data(), strides_.data(),    0};
  }
  ~Buffer() { cudaFree(memory_); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  /// The tensor as kernels take it.
  operator tvm::ffi::TensorView() { return tvm::ffi::TensorView(&tensor_); }

  /// Waits for the GPU, and prints the first elements in memory.
  void print(const char* name) const {
    check(cudaDeviceSynchronize());
    std::printf("%s:", name);
    for (int64_t i = 0; i < std::min<int64_t>(6, shape_.empty() ? 1 : *std::max_element(shape_.begin(), shape_.end())); ++i) {
      uint64_t bits = 0;
      check(cudaMemcpy(&bits, static_cast<char*>(memory_) + i * (type_.bits / 8), type_.bits / 8, cudaMemcpyDeviceToHost));
      std::printf(" %.6g", value(bits));
    }
    std::printf("\n");
  }

 private:
  static void check(cudaError_t error) {
    if (error != cudaSuccess) throw std::runtime_error(cudaGetErrorString(error));
  }

  /// How many bits of a float are its mantissa's; 0 of an integer.
  int mantissa() const {
    switch (type_.code) {
      case kDLFloat: return type_.bits == 64 ? 52 : type_.bits == 32 ? 23 : 10;
      case kDLBfloat: return 7;
      case kDLFloat8_e4m3fn: return 3;
      case kDLFloat8_e5m2: return 2;
      default: return 0;
    }
  }
  int bias() const { return (1 << (type_.bits - mantissa() - 2)) - 1; }

  /// The bits of 0.5, 1 and 2, or of 0, 1 and 2.
  uint64_t pattern(int number) const {
    if (type_.code == kDLBool) return number != 0;
    return mantissa() ? static_cast<uint64_t>(bias() - 1 + number) << mantissa() : number;
  }

  double value(uint64_t bits) const {
    const uint64_t sign = uint64_t{1} << (type_.bits - 1);
    if (!mantissa()) return type_.code == kDLInt && (bits & sign) ? static_cast<double>(bits) - 2.0 * sign : bits;
    const double tail = bits & ((uint64_t{1} << mantissa()) - 1), one = uint64_t{1} << mantissa();
    const int exponent = static_cast<int>((bits & (sign - 1)) >> mantissa());
    const double size = exponent ? std::ldexp(1 + tail / one, exponent - bias()) : std::ldexp(tail / one, 1 - bias());
    return bits & sign ? -size : size;
  }

  DLDataType type_;
  std::vector<int64_t> shape_, strides_;
  int device_ = 0;
  void* memory_ = nullptr;
  DLTensor tensor_{};
};
