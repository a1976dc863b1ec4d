package bucket

import (
	"math/rand/v2"
	"testing"
	"time"
)

// TestTake: the size of the bucket is taken at once, and then as many in a second as are filled in.
func TestTake(t *testing.T) {
	for _, test := range []struct{ perSecond, size int }{{5, 10}, {50, 100}, {1, 1}, {3, 7}} {
		b, begin := New(test.perSecond, test.size), time.Unix(1000, 0)
		now, taken := begin, 0
		for now.Sub(begin) < 10*time.Second {
			wait, ok := b.Take(now)
			if ok {
				taken++
				continue
			}
			if wait <= 0 || wait > time.Second/time.Duration(test.perSecond)+time.Nanosecond {
				t.Fatalf("%+v: wait %v", test, wait)
			}
			now = now.Add(wait)
			if _, ok := b.Take(now); !ok {
				t.Fatalf("%+v: no token after the wait of %v", test, wait)
			}
			taken++
		}
		if want := test.size + 10*test.perSecond; taken < want-1 || taken > want+1 {
			t.Errorf("%+v: %d in 10 seconds", test, taken)
		}
		// However long it rests, no more than the size is taken at once.
		now, taken = now.Add(time.Hour), 0
		for _, ok := b.Take(now); ok; _, ok = b.Take(now) {
			taken++
		}
		if taken != test.size {
			t.Errorf("%+v: %d at once", test, taken)
		}
	}
}

// TestNoLimit: without a rate, everything is allowed; an empty bucket allows nothing.
func TestNoLimit(t *testing.T) {
	for _, perSecond := range []int{0, -1} {
		b := New(perSecond, 1)
		for range 100 {
			if _, ok := b.Take(time.Unix(0, 0)); !ok {
				t.Fatal("limited")
			}
		}
	}
	if wait, ok := New(1, 0).Take(time.Unix(1, 0)); ok || wait <= 0 {
		t.Error(wait, ok)
	}
}

// TestBackwards: a clock that is set back gives no tokens away and does not hold the bucket empty.
func TestBackwards(t *testing.T) {
	b := New(1, 1)
	now := time.Unix(1000, 0)
	b.Take(now)
	for range 100 {
		back := now.Add(-time.Duration(rand.IntN(1000)) * time.Second)
		if _, ok := b.Take(back); ok {
			t.Fatal("a token of the past")
		}
	}
	if _, ok := b.Take(now.Add(time.Second)); !ok {
		t.Error("no token after a second")
	}
}
