// Compiled once per instruction set, with MERCER_ISA the namespace and MERCER_NAME its name.
#include "coded.h"
#include "csr.h"
#include "gcws.h"
#include "hadamard.h"
#include "levels.h"
#include "lifts.h"
#include "product.h"
#include "thin.h"

namespace MERCER_ISA {

#define CSR(T, I) {gram_chi2_csr<T, I>, gram_intersection_csr<T, I>, gram_minmax_csr<T, I>, csr_product<T, I>, csr_exp2neg<T, I>}
#define CODED(T, Code) {largest<Code>, coded_product<T, Code>, coded_sums<T, Code>, coded_rows<T, Code>, coded_descent<T, Code>}
#define LIFTS(T) chi2_series<T>, chi2_chebyshev<T>, homogeneous<T>, piecewise_cubic<T>, spread<T>
#define PRODUCTS(T) product<T>, product_cos<T>, product_cossin<T>, inner_products<T>, weighted_sums<T>
#define OPS(T)                                                                                                                     \
    {cos<T>, cossin<T>, exp2neg<T>, exp2neg_expanded<T>, row_norm<T>, PRODUCTS(T), hadamard<T>, hadamard_cos<T>, hadamard_cossin<T>, \
     LIFTS(T), gram_chi2<T>, gram_chi2_distance<T>, gram_intersection<T>, gram_minmax<T>, gram_jensen_shannon<T>, gram_l1<T>,       \
     gram_l2<T>, CSR(T, int32_t), CSR(T, int64_t), levels<T>, brackets<T>,                                                          \
     CODED(T, uint8_t), CODED(T, uint16_t), CODED(T, int32_t)}
#define GCWS(Code) {gcws<Code>, gcws_csr<Code, int32_t>, gcws_csr<Code, int64_t>}

extern const Table table;
const Table table = {MERCER_NAME, gcws_parameters, GCWS(uint8_t), GCWS(uint16_t), OPS(float), OPS(double)};

}  // namespace MERCER_ISA
