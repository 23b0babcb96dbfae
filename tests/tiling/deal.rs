//! Dealing, the way a child deals cards: no division, no remainder. What a law says in a formula, this finds by running
//! out of cards.

/// Deals things to holders in order, to each as many as the fullest hand needs, until there are none left.
pub(crate) fn deal<T: Copy>(things: &[T], holders: u64) -> Vec<Vec<T>> {
    let holders = usize::try_from(holders).expect("holders are few");
    let mut hand = 0;
    while hand * holders < things.len() {
        hand += 1;
    }
    let mut left = things.iter().copied();
    (0..holders).map(|_| left.by_ref().take(hand).collect()).collect()
}

/// The same, if every holder gets as many as any other, and something.
pub(crate) fn deal_evenly<T: Copy>(things: &[T], holders: u64) -> Option<Vec<Vec<T>>> {
    let hands = deal(things, holders);
    let even = hands.iter().all(|hand| !hand.is_empty() && hand.len() == hands[0].len());
    even.then_some(hands)
}

/// So many things, by their numbers.
pub(crate) fn things(count: u64) -> Vec<u64> {
    (0..count).collect()
}

/// Whether each hand consists of whole blocks, blocks being laid over the things in order.
pub(crate) fn holds_whole_blocks(hands: &[Vec<u64>], block: u64) -> bool {
    // Where a block begins, by laying one after the other.
    let most = hands.iter().flatten().max().copied().unwrap_or(0);
    let mut begins = vec![0];
    while begins[begins.len() - 1] <= most {
        begins.push(begins[begins.len() - 1] + block);
    }
    let size = usize::try_from(block).expect("blocks are small");
    hands.iter().all(|hand| {
        hand.chunks(size).all(|piece| {
            let whole: Vec<u64> = (piece[0]..piece[0] + block).collect();
            piece == whole && begins.contains(&piece[0])
        })
    })
}

/// One rank, with its place along every axis.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Rank {
    pub(crate) number: u64,
    pub(crate) tp: u64,
    pub(crate) cp: u64,
    pub(crate) dp: u64,
    pub(crate) pp: u64,
    pub(crate) etp: u64,
    pub(crate) ep: u64,
    pub(crate) edp: u64,
}

/// Counts one further, the first wheel fastest; whether all wheels are back at 0.
fn turn(wheels: &mut [u64], sizes: &[u64]) -> bool {
    for (wheel, size) in wheels.iter_mut().zip(sizes) {
        *wheel += 1;
        if *wheel < *size {
            return false;
        }
        *wheel = 0;
    }
    true
}

/// The world, rank by rank, in the order tp-cp-ep-dp-pp; whether each stage ends with a whole expert grid.
pub(crate) fn world(mesh: &moe_model::spec::Mesh) -> (Vec<Rank>, bool) {
    let (mut ranks, mut whole) = (Vec::new(), true);
    for pp in 0..mesh.pp {
        // Experts know etp and ep; how many groups of them there are shows.
        let (mut wheels, mut edp, mut ended) = ([0, 0], 0, true);
        for dp in 0..mesh.dp {
            for cp in 0..mesh.cp {
                for tp in 0..mesh.tp {
                    let number = ranks.len() as u64;
                    ranks.push(Rank { number, tp, cp, dp, pp, etp: wheels[0], ep: wheels[1], edp });
                    ended = turn(&mut wheels, &[mesh.etp, mesh.ep]);
                    edp += u64::from(ended);
                }
            }
        }
        whole &= ended;
    }
    (ranks, whole)
}
