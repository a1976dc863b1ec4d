package turns

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func rankOf(begun bool) Rank {
	if begun {
		return Begun
	}
	return Fresh
}

// TestIdle: cleaning up comes last, unless it has waited for long.
func TestIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := New(1, time.Hour)
		end, err := turns.Take(t.Context(), Fresh)
		if err != nil {
			t.Fatal(err)
		}
		var got []Rank
		take := func(rank Rank) {
			go func() {
				end, err := turns.Take(t.Context(), rank)
				if err != nil {
					t.Error(err)
					return
				}
				got = append(got, rank) // one has a turn at a time
				time.Sleep(Latest / 3)
				end()
			}()
			synctest.Wait()
		}
		for _, rank := range []Rank{Idle, Idle, Fresh, Begun, Fresh, Fresh, Fresh} {
			take(rank)
		}
		end()
		time.Sleep(time.Minute)
		synctest.Wait()
		if want := []Rank{Begun, Fresh, Fresh, Fresh, Idle, Idle, Fresh}; !slices.Equal(got, want) {
			t.Errorf("turns were given to %v, want %v", got, want)
		}
	})
}

// TestOrder: turns are given in order, and first to pods that have begun.
func TestOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := New(1, time.Minute)
		end, err := turns.Take(t.Context(), Fresh)
		if err != nil {
			t.Fatal(err)
		}
		var mu sync.Mutex
		var got []string
		for i, begun := range []bool{false, true, false, true} {
			go func() {
				end, err := turns.Take(t.Context(), rankOf(begun))
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				got = append(got, fmt.Sprint(i, begun))
				mu.Unlock()
				end()
				end() // has no effect
			}()
			synctest.Wait()
		}
		if got != nil {
			t.Errorf("%v had a turn while another one was held", got)
		}
		end()
		synctest.Wait()
		if want := []string{"1 true", "3 true", "0 false", "2 false"}; !slices.Equal(got, want) {
			t.Errorf("turns were given to %v, want %v", got, want)
		}
		if turns.free != 1 {
			t.Errorf("%d turns are free at the end, want 1", turns.free)
		}
	})
}

// TestHangs: a call that hangs delays the others by the patience, once.
func TestHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := New(2, time.Second)
		var ends []func()
		for i := range 6 {
			before := time.Now()
			end, err := turns.Take(t.Context(), Fresh)
			if err != nil {
				t.Fatal(err)
			}
			ends = append(ends, end)
			want := time.Duration(0)
			if i == 2 || i == 4 { // two begin together
				want = time.Second
			}
			if took := time.Since(before); took != want {
				t.Errorf("turn %d was waited for %v, want %v", i, took, want)
			}
		}
		time.Sleep(time.Second)
		for _, end := range ends {
			end()
		}
		if turns.free != 2 {
			t.Errorf("%d turns are free at the end, want 2", turns.free)
		}
	})
}

// TestModel: with random calls, some of which hang or are given up, there are never more turns than
// the number of those that began within the patience, and at the end all are free.
func TestModel(t *testing.T) {
	for seed := range uint64(100) {
		synctest.Test(t, func(t *testing.T) {
			const number = 3
			random := rand.New(rand.NewPCG(seed, 1))
			turns := New(number, time.Second)
			var mu sync.Mutex
			held := map[int]time.Time{}
			var group sync.WaitGroup
			for i := range 60 {
				delay, call := time.Duration(random.IntN(3000))*time.Millisecond, time.Duration(random.IntN(1500))*time.Millisecond
				begun, patience := random.IntN(2) == 0, time.Duration(random.IntN(5000))*time.Millisecond
				group.Go(func() {
					time.Sleep(delay)
					ctx, cancel := context.WithTimeout(t.Context(), patience)
					defer cancel()
					end, err := turns.Take(ctx, rankOf(begun))
					if err != nil {
						if !errors.Is(err, context.DeadlineExceeded) {
							t.Error(err)
						}
						return
					}
					mu.Lock()
					held[i] = time.Now()
					recent := 0
					for _, since := range held {
						if time.Since(since) < time.Second {
							recent++
						}
					}
					if recent > number {
						t.Errorf("seed %d: %d turns at once, want %d at most", seed, recent, number)
					}
					mu.Unlock()
					time.Sleep(call)
					mu.Lock()
					delete(held, i)
					mu.Unlock()
					end()
				})
			}
			group.Wait()
			if turns.free != number {
				t.Errorf("seed %d: %d turns are free at the end, want %d", seed, turns.free, number)
			}
		})
	}
}
