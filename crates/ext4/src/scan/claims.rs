//! Which blocks are in use: one bit for each cluster, group by group.

use crate::{BlockNumber, Geometry, ReadAt, number::divide_wide};

/// Clusters in use.
#[derive(Debug, Default)]
pub(super) struct Claims {
    groups: Vec<Option<Box<[u64]>>>,
    blocks_per_cluster: u32,
    blocks_per_group: u32,
    first_data_block: u64,
    /// Blocks that the image has room for.
    end: u64,
}

impl Claims {
    pub(super) fn new(geometry: &Geometry, groups: u32, image: &(impl ReadAt + ?Sized)) -> Self {
        let (blocks, _) = divide_wide(image.size(), geometry.block_bytes);
        Self {
            groups: std::iter::repeat_with(|| None)
                .take(usize::try_from(groups).unwrap_or(0))
                .collect(),
            blocks_per_cluster: geometry.blocks_per_cluster,
            blocks_per_group: geometry.blocks_per_group,
            first_data_block: geometry.first_data_block.into(),
            end: blocks.min(geometry.blocks),
        }
    }

    fn words_per_group(&self) -> usize {
        let clusters = self.blocks_per_group.div_ceil(self.blocks_per_cluster.max(1));
        usize::try_from(clusters.div_ceil(64)).unwrap_or(0)
    }

    /// Claims blocks; gives the first that was claimed before, if one was. What lies past the image is left out.
    pub(super) fn claim(&mut self, start: BlockNumber, blocks: u64) -> Option<BlockNumber> {
        let mut at = start.0.max(self.first_data_block);
        let end = start.0.saturating_add(blocks).min(self.end);
        let mut before = None;
        let words = self.words_per_group();
        while at < end {
            let (group, within) =
                divide_wide(at.saturating_sub(self.first_data_block), self.blocks_per_group);
            let left = u64::from(self.blocks_per_group).saturating_sub(within);
            let part = left.min(end.saturating_sub(at));
            let Some(slot) = usize::try_from(group)
                .ok()
                .and_then(|group| self.groups.get_mut(group))
            else {
                return before;
            };
            let bits = slot.get_or_insert_with(|| vec![0; words].into_boxed_slice());
            let cluster = |block: u64| divide_wide(block, self.blocks_per_cluster).0;
            let (first, last) = (
                cluster(within),
                cluster(within.saturating_add(part).saturating_sub(1)),
            );
            if let Some(bit) = set(bits, first, last) {
                let block = self
                    .first_data_block
                    .saturating_add(group.saturating_mul(self.blocks_per_group.into()))
                    .saturating_add(bit.saturating_mul(self.blocks_per_cluster.into()));
                before.get_or_insert(BlockNumber(block.max(at)));
            }
            at = at.saturating_add(part);
        }
        before
    }

    /// The clusters of a group that are in use, one bit each.
    pub(super) fn bits(&self, group: u32) -> Option<&[u64]> {
        let slot = self.groups.get(usize::try_from(group).ok()?)?;
        slot.as_deref()
    }
}

/// Sets bits from `first` to `last`; gives the first that was set already.
fn set(bits: &mut [u64], first: u64, last: u64) -> Option<u64> {
    let mut before = None;
    let mut at = first;
    while at <= last {
        let (word, from) = (at / 64, at % 64);
        let to = last.saturating_sub(at).saturating_add(from).min(63);
        // Bits `from` to `to`, both at most 63.
        let mask = (u64::MAX >> (63u64.saturating_sub(to).saturating_add(from)).min(63)) << from;
        let Some(value) = usize::try_from(word).ok().and_then(|word| bits.get_mut(word)) else {
            return before;
        };
        if *value & mask != 0 && before.is_none() {
            let bit = u64::from((*value & mask).trailing_zeros());
            before = Some(word.saturating_mul(64).saturating_add(bit));
        }
        *value |= mask;
        at = word.saturating_add(1).saturating_mul(64);
    }
    before
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_set_across_words_and_the_first_met_twice_is_told() {
        let mut bits = [0u64; 4];
        assert_eq!(set(&mut bits, 60, 130), None);
        assert_eq!(bits, [0xf << 60, u64::MAX, 7, 0]);
        assert_eq!(set(&mut bits, 10, 59), None);
        assert_eq!(set(&mut bits, 131, 255), None);
        assert_eq!(set(&mut bits, 0, 255), Some(10));
        assert_eq!(bits, [u64::MAX; 4]);
    }
}
