# SPDX-License-Identifier: Apache-2.0
"""Repeats in Python what Bascule draws from a run's seed: the order of an epoch, masked tokens, foreign captions.

For scripts that must show another program the batches that a run sees. Sources: src/base/philox.h, src/loader/sampler.cpp, src/loader/masking.cpp.
"""
WORD, WIDE = 0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF


def philox(counter, key):
    """Philox4x32-10."""
    c, k = list(counter), list(key)
    for _ in range(10):
        first, second = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(second >> 32) ^ c[1] ^ k[0], second & WORD, (first >> 32) ^ c[3] ^ k[1], first & WORD]
        k = [(k[0] + 0x9E3779B9) & WORD, (k[1] + 0xBB67AE85) & WORD]
    return c


def derived_key(seed, use):
    """use: four letters."""
    return philox((int.from_bytes(use.encode(), "big"), 0x62617363, 0x756C6521, 0), (seed & WORD, seed >> 32))[:2]


def bounded(word, bound):
    return word * bound >> 32


def coordinates(epoch, row, position):
    return position, row & WORD, row >> 32, epoch


def epoch_order(seed, epoch, rows):
    """The rows of an epoch in their order: a Feistel network of eight rounds, walked until it lands below `rows`."""
    bits = max(6, (rows - 1).bit_length())
    low_bits, high_bits = bits // 2, bits - bits // 2
    key = derived_key(seed, "orde")
    rounds = []
    for number in range(8):
        words = philox((number, epoch & WORD, epoch >> 32, 0), key)
        rounds.append(words[0] | words[1] << 32)

    def scramble(value):
        value = (value ^ value >> 30) * 0xBF58476D1CE4E5B9 & WIDE
        value = (value ^ value >> 27) * 0x94D049BB133111EB & WIDE
        return value ^ value >> 31

    def encipher(value):
        low, high = value & (1 << low_bits) - 1, value >> low_bits
        for number in range(0, 8, 2):
            high ^= scramble(low ^ rounds[number]) & (1 << high_bits) - 1
            low ^= scramble(high ^ rounds[number + 1]) & (1 << low_bits) - 1
        return high << low_bits | low

    order = []
    for position in range(rows):
        value = encipher(position)
        while value >= rows:
            value = encipher(value)
        order.append(value)
    return order


def masked(seed, ids, epoch, row, vocabulary_size, special, mask_id, probability=0.15):
    """(ids with masks, labels). special: ids that are never selected, ascending."""
    key = derived_key(seed, "mask")
    ids, labels = list(ids), [-100] * len(ids)
    to_come = sum(i not in special for i in ids)
    to_take = min(to_come, max(1, int(probability * to_come + 0.5)))
    for at, token in enumerate(ids):
        if token in special:
            continue
        word = philox(coordinates(epoch, row, at), key)
        take = bounded(word[0], to_come) < to_take
        to_come -= 1
        if not take:
            continue
        to_take -= 1
        labels[at] = token
        tenth = bounded(word[1], 10)
        if tenth < 8:
            ids[at] = mask_id
        elif tenth < 9:
            other = bounded(word[2], vocabulary_size - len(special))
            for s in special:
                other += other >= s
            ids[at] = other
    return ids, labels


def matching_sample(seed, pictures, epoch, row, fraction=0.5):
    """(row of the caption, label). pictures: a name for the picture of each row; rows of one picture are no negatives of each other."""
    key = derived_key(seed, "nega")
    if philox(coordinates(epoch, row, 0), key)[0] / 2**32 >= fraction:
        return row, 1
    other, draw = row, 1
    while draw <= 64 and pictures[other] == pictures[row]:
        words = philox(coordinates(epoch, row, draw), key)
        other = (words[0] | words[1] << 32) % len(pictures)
        draw += 1
    while pictures[other] == pictures[row]:
        other = (other + 1) % len(pictures)
    return other, 0
