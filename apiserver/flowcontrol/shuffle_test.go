package flowcontrol

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestHandsAreDistinct(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	var space [maxHand]int
	for range 200_000 {
		queues := 1 + random.IntN(200)
		size := 1 + random.IntN(min(queues, maxHand))
		if handBits(queues, size) > hashBits {
			continue
		}
		hand := dealHand(random.Uint64(), queues, size, &space)
		if len(hand) != size || hand[0] < 0 || hand[size-1] >= queues {
			t.Fatalf("hand %v of %d from %d queues", hand, size, queues)
		}
		for i := 1; i < size; i++ {
			if hand[i-1] >= hand[i] {
				t.Fatalf("hand %v is not ascending and distinct", hand)
			}
		}
	}
}

// Consecutive numbers are dealt each hand equally often, exactly.
func TestEveryHandIsDealtEquallyOften(t *testing.T) {
	var space [maxHand]int
	counts := map[string]int{}
	for hash := range uint64(7 * 6 * 5 * 4 * 10) {
		counts[fmt.Sprint(dealHand(hash, 7, 4, &space))]++
	}
	if len(counts) != 35 { // 7 over 4
		t.Errorf("%d different hands, want 35", len(counts))
	}
	for hand, n := range counts {
		if n != 24*10 {
			t.Errorf("hand %s was dealt %d times, want 240", hand, n)
		}
	}
}

// The hashes of names use all queues alike: chi-squared stays within six standard
// deviations of its mean.
func TestFlowsSpreadOverQueues(t *testing.T) {
	const queues, size, flows = 128, 6, 100_000
	var counts [queues]float64
	var space [maxHand]int
	for i := range flows {
		for _, q := range dealHand(flowHash("service-accounts", fmt.Sprintf("system:serviceaccount:ns-%d:default", i)), queues, size, &space) {
			counts[q]++
		}
	}
	mean, chi := float64(flows*size)/queues, 0.0
	for _, n := range counts {
		chi += (n - mean) * (n - mean) / mean
	}
	if deviation := (chi - (queues - 1)) / math.Sqrt(2*(queues-1)); math.Abs(deviation) > 6 {
		t.Errorf("chi-squared is %.0f, %.1f deviations from its mean", chi, deviation)
	}
}

// Servers of one cluster must put a flow into the same queues, also across versions.
func TestHashAndHandAreStable(t *testing.T) {
	// The SHA-256 of a zero byte begins with 6e340b9cffb37a98.
	if got, want := flowHash("", ""), uint64(0x987ab3ff9c0b346e); got != want {
		t.Errorf("hash %x, want %x", got, want)
	}
	if flowHash("a", "b") == flowHash("ab", "") || flowHash("a", "b") == flowHash("a", "c") {
		t.Error("different flows have one hash")
	}
	// The digits are 5 of 10, 1 of 9 and 1 of 8: queue 5, then 1, then the second free one.
	var space [maxHand]int
	if hand := dealHand(12345, 10, 3, &space); !slices.Equal(hand, []int{1, 2, 5}) {
		t.Errorf("hand %v, want 1, 2 and 5", hand)
	}
}
