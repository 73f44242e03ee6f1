// LAPACK is column-major: it reads our row-major A (m x n) as A^T (n x m). Routines are chosen so that nothing needs to
// be transposed: A = Q R is A^T = R^T Q^T, an LQ factorisation; A = U S V^T is A^T = V S U^T; and a lower triangle is
// an upper one.
#include "engine/cpu/linalg.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "engine/cpu/parts/blas.h"
#include "engine/cpu/parts/find.h"
#include "engine/cpu/parts/lapack.h"
#include "engine/parallel.h"

namespace bochner::cpu {
namespace {

int narrow(int64_t size, const char* op) {
  if (size > std::numeric_limits<int>::max())
    fail("{}: size {} is too large for LAPACK, whose integers have 32 bits", op, size);
  return static_cast<int>(size);
}

/// The size of a workspace that LAPACK reports in a float, rounded up.
template <class T>
int workspace(T reported, const char* op) {
  return narrow(static_cast<int64_t>(std::nextafter(reported, std::numeric_limits<T>::infinity())) + 1, op);
}

/// body(begin, end, infos) for pieces [begin, end) of a batch of matrices, in parallel; it sets infos[i] for each. Then
/// failed(i, infos[i]) for the first one that is not 0.
template <class Body, class Failed>
void for_each_matrix(int64_t batch, int64_t elements, const Body& body, const Failed& failed) {
  std::vector<int> infos(static_cast<size_t>(batch));
  parallel_for(batch, std::max<int64_t>(1, 1024 / elements), [&](int64_t begin, int64_t end) {
    use_one_blas_thread();
    body(begin, end, infos.data());
  });
  const auto bad = std::find_if(infos.begin(), infos.end(), [](int info) { return info != 0; });
  if (bad == infos.end()) return;
  BOCHNER_ASSERT(*bad > 0);  // negative: an argument was wrong
  failed(bad - infos.begin(), *bad);
}

void no_failure(int64_t, int info) { BOCHNER_ASSERT(info == 0); }

template <class T>
void qr_of(int64_t batch, int m, int n, bool positive, const T* a, T* q, T* r) {
  const int k = std::min(m, n);
  T size_factor = 0, size_form = 0;
  lapack::gelqf(n, m, static_cast<T*>(nullptr), n, static_cast<T*>(nullptr), &size_factor, -1);
  lapack::orglq(k, m, k, static_cast<T*>(nullptr), n, static_cast<const T*>(nullptr), &size_form, -1);
  const int lwork = std::max(workspace(size_factor, "qr"), workspace(size_form, "qr"));
  const int64_t rows = m, columns = n, inner = k;
  for_each_matrix(
      batch, rows * columns,
      [&](int64_t begin, int64_t end, int* info) {
        std::vector<T> copy(static_cast<size_t>(rows * columns)), tau(static_cast<size_t>(k)),
            work(static_cast<size_t>(lwork));
        for (int64_t i = begin; i < end; ++i) {
          const T* from = a + i * rows * columns;
          T* to_q = q + i * rows * inner;
          T* to_r = r + i * inner * columns;
          std::copy(from, from + rows * columns, copy.begin());
          info[i] = lapack::gelqf(n, m, copy.data(), n, tau.data(), work.data(), lwork);
          for (int64_t row = 0; row < inner; ++row) {
            T* line = to_r + row * columns;
            std::fill(line, line + row, T(0));
            std::copy(copy.data() + row * columns + row, copy.data() + (row + 1) * columns, line + row);
          }
          info[i] += lapack::orglq(k, m, k, copy.data(), n, tau.data(), work.data(), lwork);
          for (int64_t row = 0; row < rows; ++row) {
            std::copy(copy.data() + row * columns, copy.data() + row * columns + inner, to_q + row * inner);
          }
          for (int64_t j = 0; j < inner && positive; ++j) {
            if (!(to_r[j * columns + j] < 0)) continue;
            for (int64_t c = j; c < columns; ++c) to_r[j * columns + c] = -to_r[j * columns + c];
            for (int64_t row = 0; row < rows; ++row) to_q[row * inner + j] = -to_q[row * inner + j];
          }
        }
      },
      no_failure);
}

template <class T>
void eigh_of(int64_t batch, int n, T* values, T* vectors) {
  T size = 0;
  int integers = 0;
  lapack::syevd(n, static_cast<T*>(nullptr), static_cast<T*>(nullptr), &size, -1, &integers, -1);
  const int lwork = workspace(size, "eigh");
  const int64_t order = n;
  for_each_matrix(
      batch, order * order,
      [&](int64_t begin, int64_t end, int* info) {
        std::vector<T> work(static_cast<size_t>(lwork));
        std::vector<int> iwork(static_cast<size_t>(integers));
        for (int64_t i = begin; i < end; ++i) {
          info[i] = lapack::syevd(n, vectors + i * order * order, values + i * order, work.data(), lwork, iwork.data(),
                                  integers);
        }
      },
      [](int64_t i, int) { fail("eigh: the eigenvalues of matrix {} of the batch did not converge", i); });
}

template <class T>
void svd_of(int64_t batch, int m, int n, const T* a, T* u, T* s, T* vt) {
  const int k = std::min(m, n);
  T size = 0;
  int unused = 0;
  lapack::gesdd(n, m, static_cast<T*>(nullptr), static_cast<T*>(nullptr), static_cast<T*>(nullptr),
                static_cast<T*>(nullptr), &size, -1, &unused);
  const int lwork = workspace(size, "svd");
  const int64_t rows = m, columns = n, inner = k;
  for_each_matrix(
      batch, rows * columns,
      [&](int64_t begin, int64_t end, int* info) {
        std::vector<T> copy(static_cast<size_t>(rows * columns)), work(static_cast<size_t>(lwork));
        std::vector<int> iwork(static_cast<size_t>(8 * inner));
        for (int64_t i = begin; i < end; ++i) {
          const T* from = a + i * rows * columns;
          std::copy(from, from + rows * columns, copy.begin());
          info[i] = lapack::gesdd(n, m, copy.data(), s + i * inner, vt + i * inner * columns, u + i * rows * inner,
                                  work.data(), lwork, iwork.data());
        }
      },
      [](int64_t i, int) { fail("svd: the singular values of matrix {} of the batch did not converge", i); });
}

template <class T>
void cholesky_of(int64_t batch, int n, T* l) {
  const int64_t order = n;
  for_each_matrix(
      batch, order * order,
      [&](int64_t begin, int64_t end, int* info) {
        for (int64_t i = begin; i < end; ++i) {
          T* matrix = l + i * order * order;
          info[i] = lapack::potrf(n, matrix);
          for (int64_t row = 0; row < order; ++row)
            std::fill(matrix + row * order + row + 1, matrix + (row + 1) * order, T(0));
        }
      },
      [](int64_t i, int minor) {
        fail(
            "cholesky: matrix {} of the batch is not positive definite: its leading minor of order {} is not positive; "
            "add "
            "a multiple of the identity",
            i, minor);
      });
}

template <class T>
void triangular_solve_of(int64_t batch, int n, int columns, bool lower, bool transposed, const T* t, T* b) {
  const int64_t order = n, width = columns;
  for_each_matrix(
      batch, order * std::max(order, width),
      [&](int64_t begin, int64_t end, int* info) {
        for (int64_t i = begin; i < end; ++i) {
          const T* matrix = t + i * order * order;
          for (int64_t j = 0; j < order && info[i] == 0; ++j)
            info[i] = matrix[j * order + j] == 0 ? static_cast<int>(j + 1) : 0;
          if (info[i] == 0) lapack::trsm_right(lower, transposed, columns, n, matrix, b + i * order * width);
        }
      },
      [](int64_t i, int row) {
        fail("triangular_solve: matrix {} of the batch is singular: element {} of its diagonal is 0", i, row - 1);
      });
}

template <class T>
void solve_of(int64_t batch, int n, int columns, T* a, T* bt) {
  const int64_t order = n, width = columns;
  for_each_matrix(
      batch, order * std::max(order, width),
      [&](int64_t begin, int64_t end, int* info) {
        std::vector<int> pivots(static_cast<size_t>(n));
        for (int64_t i = begin; i < end; ++i) {
          T* matrix = a + i * order * order;
          info[i] = lapack::getrf(n, matrix, pivots.data());
          if (info[i] == 0) lapack::getrs_transposed(n, columns, matrix, pivots.data(), bt + i * order * width);
        }
      },
      [](int64_t i, int) { fail("solve: matrix {} of the batch is singular; least_squares() takes such ones", i); });
}

}  // namespace

void check_finite(const Tensor& x, const char* op) {
  visit_floating(x.dtype(), op, [&]<class T>(TypeTag<T>) {
    const T* values = x.data<T>();
    const int64_t bad = first_where(x.size(), [&](int64_t i) { return values[i] - values[i] != T(0); });
    if (bad == x.size()) return;
    fail("{}: the element at {} of {} is {}; all must be finite", op, x.shape().place(bad).str(), x.shape().str(),
         static_cast<double>(values[bad]));
  });
}

void qr(int64_t batch, int64_t m, int64_t n, bool positive, const Tensor& a, const Tensor& q, const Tensor& r) {
  visit_floating(a.dtype(), "qr", [&]<class T>(TypeTag<T>) {
    qr_of(batch, narrow(m, "qr"), narrow(n, "qr"), positive, a.data<T>(), q.data<T>(), r.data<T>());
  });
}

void eigh(int64_t batch, int64_t n, const Tensor& values, const Tensor& vectors) {
  visit_floating(values.dtype(), "eigh",
                 [&]<class T>(TypeTag<T>) { eigh_of(batch, narrow(n, "eigh"), values.data<T>(), vectors.data<T>()); });
}

void svd(int64_t batch, int64_t m, int64_t n, const Tensor& a, const Tensor& u, const Tensor& s, const Tensor& vt) {
  visit_floating(a.dtype(), "svd", [&]<class T>(TypeTag<T>) {
    svd_of(batch, narrow(m, "svd"), narrow(n, "svd"), a.data<T>(), u.data<T>(), s.data<T>(), vt.data<T>());
  });
}

void invert_spectrum(int64_t batch, int64_t k, double cutoff, double ridge, const Tensor& s, const Tensor& y) {
  visit_floating(s.dtype(), "pinv", [&]<class T>(TypeTag<T>) {
    for (int64_t i = 0; i < batch; ++i) {
      const T* row = s.data<T>() + i * k;  // descending
      const double floor = cutoff * static_cast<double>(row[0]);
      for (int64_t j = 0; j < k; ++j) {
        const auto value = static_cast<double>(row[j]);
        const bool counts = value > floor;
        y.data<T>()[i * k + j] = counts ? static_cast<T>(1 / (value + ridge / value)) : T(0);
      }
    }
  });
}

void cholesky(int64_t batch, int64_t n, const Tensor& l) {
  visit_floating(l.dtype(), "cholesky",
                 [&]<class T>(TypeTag<T>) { cholesky_of(batch, narrow(n, "cholesky"), l.data<T>()); });
}

void triangular_solve(int64_t batch, int64_t n, int64_t columns, bool lower, bool transposed, const Tensor& t,
                      const Tensor& b) {
  constexpr const char* kName = "triangular_solve";
  visit_floating(t.dtype(), kName, [&]<class T>(TypeTag<T>) {
    triangular_solve_of(batch, narrow(n, kName), narrow(columns, kName), lower, transposed, t.data<T>(), b.data<T>());
  });
}

void solve(int64_t batch, int64_t n, int64_t columns, const Tensor& a, const Tensor& bt) {
  visit_floating(a.dtype(), "solve", [&]<class T>(TypeTag<T>) {
    solve_of(batch, narrow(n, "solve"), narrow(columns, "solve"), a.data<T>(), bt.data<T>());
  });
}

}  // namespace bochner::cpu
