//! Many numbers in little room: counts by size, with a bounded error.

/// Parts that each power of two is cut into.
const PARTS: u64 = 32;
const PARTS_LOG2: u32 = PARTS.trailing_zeros();

/// A histogram of nanoseconds, or of any other `u64`.
///
/// Count, sum, least and greatest are exact. Percentiles are off by at most 1/32 of themselves; below 64 they are exact.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    counts: Vec<u64>,
    count: u64,
    sum: u128,
    least: u64,
    greatest: u64,
}

impl Histogram {
    /// Takes in a number.
    pub fn add(&mut self, value: u64) {
        let cell = cell(value);
        if self.counts.len() <= cell {
            self.counts.resize(cell + 1, 0);
        }
        self.counts[cell] += 1;
        self.least = if self.count == 0 {
            value
        } else {
            self.least.min(value)
        };
        self.greatest = self.greatest.max(value);
        self.count += 1;
        self.sum += u128::from(value);
    }

    /// Takes in all numbers of another.
    pub fn merge(&mut self, other: &Self) {
        if other.count == 0 {
            return;
        }
        if self.counts.len() < other.counts.len() {
            self.counts.resize(other.counts.len(), 0);
        }
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count += more;
        }
        self.least = match self.count {
            0 => other.least,
            _ => self.least.min(other.least),
        };
        self.greatest = self.greatest.max(other.greatest);
        self.count += other.count;
        self.sum += other.sum;
    }

    /// How many numbers there are.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Their sum; the greatest `u64` where it is more.
    pub fn sum(&self) -> u64 {
        u64::try_from(self.sum).unwrap_or(u64::MAX)
    }

    /// Their mean; `None` of nothing.
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum as f64 / self.count as f64)
    }

    /// The least; 0 of nothing.
    pub fn least(&self) -> u64 {
        self.least
    }

    /// The greatest; 0 of nothing.
    pub fn greatest(&self) -> u64 {
        self.greatest
    }

    /// The number that `percent` of all are at or below; 0 of nothing.
    pub fn percentile(&self, percent: f64) -> u64 {
        let wanted = (percent / 100.0 * self.count as f64).ceil().max(1.0) as u64;
        let mut seen = 0;
        for (cell, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= wanted {
                return top(cell).clamp(self.least, self.greatest);
            }
        }
        self.greatest
    }

    /// The cells that are not empty: the greatest number that falls into each, and how many do.
    pub fn cells(&self) -> impl Iterator<Item = (u64, u64)> {
        let filled = self.counts.iter().enumerate().filter(|(_, count)| **count > 0);
        filled.map(|(cell, count)| (top(cell), *count))
    }
}

/// The cell of a number: exact up to 2 × `PARTS`, then `PARTS` cells for each power of two.
fn cell(value: u64) -> usize {
    if value < 2 * PARTS {
        return value as usize;
    }
    let shift = value.ilog2() - PARTS_LOG2;
    (u64::from(shift) * PARTS + (value >> shift)) as usize
}

/// The greatest number of a cell.
fn top(cell: usize) -> u64 {
    let cell = cell as u64;
    if cell < 2 * PARTS {
        return cell;
    }
    let shift = cell / PARTS - 1;
    let first = (cell - shift * PARTS) << shift;
    first + ((1u64 << shift) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_falls_into_the_cell_that_names_it() {
        for value in (0..5_000)
            .chain((0..64).map(|bit| 1 << bit))
            .chain([u64::MAX, u64::MAX / 3])
        {
            let cell = cell(value);
            let below = cell.checked_sub(1).map(top);
            assert!(
                value <= top(cell) && below.is_none_or(|below| below < value),
                "{value}"
            );
            assert!(
                top(cell) - value <= value / PARTS,
                "{value} is told as {}",
                top(cell)
            );
        }
    }

    #[test]
    fn percentiles_are_off_by_no_more_than_is_said() {
        let mut histogram = Histogram::default();
        let mut exact = Vec::new();
        let mut state = 1u64;
        for _ in 0..10_000 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let value = (state >> 33) >> (state % 23);
            histogram.add(value);
            exact.push(value);
        }
        exact.sort_unstable();
        assert_eq!(histogram.sum(), exact.iter().sum::<u64>());
        assert_eq!(
            (histogram.least(), histogram.greatest()),
            (exact[0], exact[9_999])
        );
        for percent in [0.1, 1.0, 25.0, 50.0, 90.0, 99.0, 99.9, 100.0] {
            let wanted = exact[((percent / 100.0 * 10_000.0_f64).ceil() as usize).max(1) - 1];
            let told = histogram.percentile(percent);
            assert!(
                told >= wanted && told - wanted <= wanted / PARTS,
                "{percent} %: {told}, exactly {wanted}"
            );
        }
    }

    #[test]
    fn merging_is_adding_all() {
        let (mut one, mut other, mut all) =
            (Histogram::default(), Histogram::default(), Histogram::default());
        for value in [5, 900, 77_000] {
            one.add(value);
            all.add(value);
        }
        for value in [1, 77_001] {
            other.add(value);
            all.add(value);
        }
        one.merge(&other);
        one.merge(&Histogram::default());
        assert_eq!(one, all);
    }
}
