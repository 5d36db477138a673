//! Pseudo-random numbers by SplitMix64 (Steele, Lea and Flood, 2014): one addition and three mixing steps for
//! each number, 64 bits of state, and the same numbers everywhere for the same seed. They are not secret.

/// A generator, which begins at a seed.
#[derive(Debug, Clone, Copy)]
pub struct SplitMix(pub u64);

impl SplitMix {
    /// The next number, uniform over all 64-bit values. Each is returned once before any is repeated.
    #[inline]
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// A number from 0 (included) to 1 (excluded).
    #[inline]
    pub fn fraction(&mut self) -> f64 {
        (self.draw() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A number below `bound`, which is not 0, with a bias below `bound / 2^64`.
    #[inline]
    pub fn below(&mut self, bound: usize) -> usize {
        // The upper half of the product.
        ((u128::from(self.draw()) * bound as u128) >> 64) as usize
    }
}

/// Spreads every bit over all others.
#[inline]
pub fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_generator_is_splitmix64() {
        // The first outputs for seed 1234567, as published with the algorithm.
        let mut generator = SplitMix(1_234_567);
        let expected: [u64; 3] =
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423];
        assert_eq!([generator.draw(), generator.draw(), generator.draw()], expected);
    }
}
