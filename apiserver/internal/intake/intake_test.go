package intake_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planekit/planekit/apiserver/internal/intake"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func Example() {
	budget := intake.New(intake.Config{Bytes: 100, UserReads: 1, UserWaits: 1, Wait: time.Millisecond})
	hold, err := budget.Reserve(context.Background(), "jane", 10)
	fmt.Println(err)
	_, err = budget.Reserve(context.Background(), "jane", 10)
	fmt.Println(err)
	hold.Read(10)
	_, err = budget.Reserve(context.Background(), "jane", 10)
	fmt.Println(err)
	// Output:
	// <nil>
	// waited too long for memory
	// <nil>
}

// TestUsersAreBoundedEach: a user with as many bodies being read as one may have
// waits; another user does not.
func TestUsersAreBoundedEach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := intake.New(intake.Config{Bytes: 1 << 20, UserReads: 8, UserWaits: 100, Wait: time.Minute})
		began := time.Now()
		var group sync.WaitGroup
		for range 20 {
			group.Go(func() {
				h, err := b.Reserve(t.Context(), "slow", 1)
				if err != nil {
					t.Error(err)
				}
				time.Sleep(time.Second)
				h.Release()
			})
		}
		synctest.Wait()
		h, err := b.Reserve(t.Context(), "other", 1<<19)
		if err != nil || time.Since(began) != 0 {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		h.Release()
		group.Wait()
		if took := time.Since(began); took != 3*time.Second {
			t.Errorf("20 bodies of a second, eight at a time, took %v", took)
		}
	})
}

// TestWaitingIsBounded: a user with as many bodies waiting as one may have is refused
// at once, and gets room again when the bodies have given up.
func TestWaitingIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := intake.New(intake.Config{Bytes: 100, UserReads: 1, UserWaits: 10, Wait: time.Second})
		h, err := b.Reserve(t.Context(), "many", 1)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			began := time.Now()
			var late, full atomic.Int64
			var group sync.WaitGroup
			for range 50 {
				group.Go(func() {
					_, err := b.Reserve(t.Context(), "many", 1)
					switch waited := time.Since(began); {
					case errors.Is(err, intake.ErrLate) && waited == time.Second:
						late.Add(1)
					case errors.Is(err, intake.ErrFull) && waited == 0:
						full.Add(1)
					default:
						t.Errorf("%v after %v", err, waited)
					}
				})
			}
			group.Wait()
			if late.Load() != 10 || full.Load() != 40 {
				t.Errorf("%d waited, %d were refused", late.Load(), full.Load())
			}
		}
		h.Release()
		if h, err = b.Reserve(t.Context(), "many", 1); err != nil {
			t.Fatal(err)
		}
		h.Release()
	})
}

// TestEmptyBodiesDoNotResetTheBounds: a user who releases the hold of an empty
// body is bounded as before.
func TestEmptyBodiesDoNotResetTheBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := intake.New(intake.Config{Bytes: 100, UserReads: 1, UserWaits: 1, Wait: time.Second})
		empty, err := b.Reserve(t.Context(), "sly", 10)
		if err != nil {
			t.Fatal(err)
		}
		empty.Read(0)
		h, err := b.Reserve(t.Context(), "sly", 10)
		if err != nil {
			t.Fatal(err)
		}
		empty.Release()
		if _, err := b.Reserve(t.Context(), "sly", 10); !errors.Is(err, intake.ErrLate) {
			t.Errorf("a second body was let in beside the first: %v", err)
		}
		h.Release()
	})
}

// TestGreedyUsersLeaveRoom: users one after the other take all that they get and
// keep it. One has a fifth, each further one a fifth of the rest.
func TestGreedyUsersLeaveRoom(t *testing.T) {
	for greedy, left := range map[int]int64{1: 80_000, 2: 64_000, 3: 51_000, 10: 10_000} {
		synctest.Test(t, func(t *testing.T) {
			b := intake.New(intake.Config{Bytes: 100_000, UserReads: 1 << 20, UserWaits: 1000, Wait: time.Second})
			ctx, cancel := context.WithCancel(t.Context())
			var group sync.WaitGroup
			for i := range greedy {
				for range 1000 {
					group.Go(func() {
						h, err := b.Reserve(ctx, fmt.Sprint("greedy", i), 100)
						if err == nil {
							<-ctx.Done()
							h.Release()
						}
					})
				}
				synctest.Wait()
			}
			began := time.Now()
			h, err := b.Reserve(t.Context(), "modest", left)
			if err != nil || time.Since(began) != 0 {
				t.Errorf("%d greedy users: %v after %v", greedy, err, time.Since(began))
			}
			h.Release()
			cancel()
			group.Wait()
		})
	}
}

// TestModel has users reserve, read, give up and release at random. The bounds
// hold at every moment, everybody gets an answer, and nothing is lost.
func TestModel(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	synctest.Test(t, func(t *testing.T) {
		random := rand.New(rand.NewPCG(seed, 0))
		c := intake.Config{Bytes: 1000, UserReads: 3, UserWaits: 10, Wait: 3 * time.Second}
		b := intake.New(c)
		const users = 12
		var all atomic.Int64
		var reads [users]atomic.Int64
		var group sync.WaitGroup
		for range 3000 {
			who, bytes := random.IntN(users), random.Int64N(500)
			patience := time.Duration(random.IntN(5000)) * time.Millisecond
			read, work := time.Duration(random.IntN(900))*time.Millisecond, time.Duration(random.IntN(900))*time.Millisecond
			group.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				h, err := b.Reserve(ctx, fmt.Sprint(who), bytes)
				if err != nil {
					if !errors.Is(err, intake.ErrLate) && !errors.Is(err, intake.ErrFull) && !errors.Is(err, context.DeadlineExceeded) {
						t.Error(err)
					}
					return
				}
				if n, r := all.Add(bytes), reads[who].Add(1); n > c.Bytes || r > int64(c.UserReads) {
					t.Errorf("%d bytes in all, user %d reads %d", n, who, r)
				}
				time.Sleep(read)
				reads[who].Add(-1)
				all.Add(bytes/2 - bytes)
				h.Read(bytes / 2)
				time.Sleep(work)
				all.Add(-(bytes / 2))
				h.Release()
				h.Release()
			})
			time.Sleep(time.Duration(random.IntN(100)) * time.Millisecond)
		}
		group.Wait()
		if _, err := b.Reserve(t.Context(), "last", c.Bytes); err != nil {
			t.Fatalf("memory is lost: %v", err)
		}
	})
}

func BenchmarkReserve(b *testing.B) {
	budget := intake.New(intake.Config{Bytes: 1 << 30, UserReads: 1000, UserWaits: 1, Wait: time.Second})
	b.ReportAllocs()
	for b.Loop() {
		h, err := budget.Reserve(context.Background(), "jane", 1000)
		if err != nil {
			b.Fatal(err)
		}
		h.Read(1000)
		h.Release()
	}
}
