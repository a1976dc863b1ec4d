package flowcontrol

import (
	"crypto/sha256"
	"encoding/binary"
	"math"
)

const (
	// hashBits bounds the bits of a hash that are used for a hand. The remaining four
	// make all hands nearly equally likely.
	hashBits = 60
	// maxHand is the largest hand that 60 bits can deal from at least as many queues.
	maxHand = 15
)

// handBits returns how many bits of a hash it takes to deal a hand.
func handBits(queues, hand int) int {
	return int(math.Ceil(math.Log2(float64(queues)) * float64(hand)))
}

// flowHash returns the hash of a flow. It is the same in every process.
func flowHash(schema, flow string) uint64 {
	var space [256]byte
	text := append(space[:0], schema...)
	text = append(text, 0)
	text = append(text, flow...)
	sum := sha256.Sum256(text)
	return binary.LittleEndian.Uint64(sum[:8])
}

// dealHand returns the hand of a hash: size distinct numbers below queues, in
// ascending order. The hash is read as a number with the digits queues, queues-1, ...;
// each digit counts the numbers that have not been dealt.
func dealHand(hash uint64, queues, size int, space *[maxHand]int) []int {
	hand := space[:0]
	for i := range size {
		base := uint64(queues - i)
		card := int(hash % base)
		hash /= base
		at := 0
		for at < len(hand) && card >= hand[at] {
			card++
			at++
		}
		hand = append(hand, 0)
		copy(hand[at+1:], hand[at:])
		hand[at] = card
	}
	return hand
}
