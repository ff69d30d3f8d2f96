// Activation functions on 16 lanes.

// 1 - 2 / (e^2x + 1)
TANDEM_INLINE F f_tanh(F x) {
  const F e = f_exp(f_add(x, x));
  return f_sub(f_set(1.0f), f_div(f_set(2.0f), f_add(e, f_set(1.0f))));
}

// Error below 1.5e-7. Source: Abramowitz and Stegun, 7.1.26.
TANDEM_INLINE F f_erf(F x) {
  const F a = f_abs(x);
  const F t = f_div(f_set(1.0f), f_fma(a, f_set(0.3275911f), f_set(1.0f)));
  F p = f_set(1.061405429f);
  p = f_fma(p, t, f_set(-1.453152027f));
  p = f_fma(p, t, f_set(1.421413741f));
  p = f_fma(p, t, f_set(-0.284496736f));
  p = f_fma(p, t, f_set(0.254829592f));
  const F tail = f_mul(f_mul(p, t), f_exp(f_sub(f_zero(), f_mul(a, a))));
  const F y = f_sub(f_set(1.0f), tail);
  return f_select_less(x, f_zero(), f_sub(f_zero(), y), y);
}

// x / (1 + e^-kx)
TANDEM_INLINE F f_swish(F x, F scaled) {
  return f_div(x, f_add(f_set(1.0f), f_exp(f_sub(f_zero(), scaled))));
}

TANDEM_INLINE F f_activate(Activation activation, F x) {
  switch (activation) {
    case Activation::kSilu: return f_swish(x, x);
    case Activation::kGelu: {
      const F half = f_mul(x, f_set(0.5f));
      return f_fma(half, f_erf(f_mul(x, f_set(0.70710678f))), half);
    }
    case Activation::kGeluTanh: {
      // 0.5 x (1 + tanh u) = x / (1 + e^-2u), u = sqrt(2 / pi) (x + 0.044715 x^3)
      const F cube = f_mul(f_mul(x, x), x);
      return f_swish(x, f_mul(f_fma(cube, f_set(0.044715f), x), f_set(1.59576912f)));
    }
    case Activation::kSigmoid:
      return f_div(f_set(1.0f), f_add(f_set(1.0f), f_exp(f_sub(f_zero(), x))));
    case Activation::kRelu2: {
      const F positive = f_max(f_zero(), x);
      return f_mul(positive, positive);
    }
  }
  return x;
}

// cap * tanh(x / cap)
TANDEM_INLINE F f_softcap(F x, float cap) {
  return f_mul(f_set(cap), f_tanh(f_div(x, f_set(cap))));
}
