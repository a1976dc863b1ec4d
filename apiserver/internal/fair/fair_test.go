package fair_test

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

	"github.com/planekit/planekit/apiserver/internal/fair"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func Example() {
	limiter := fair.New(fair.Config{Places: 1})
	fmt.Println(limiter.Enter(context.Background(), "jane"))
	fmt.Println(limiter.Enter(context.Background(), "joe"))
	limiter.Leave()
	// Output:
	// <nil>
	// too many are waiting
}

// TestHeavyUserDelaysOthersByOneTurn has one user send a thousand requests of a
// second each before another sends one.
func TestHeavyUserDelaysOthersByOneTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := fair.New(fair.Config{Places: 10, Queue: 1000, Wait: time.Hour})
		var group sync.WaitGroup
		for range 1000 {
			group.Go(func() {
				if err := l.Enter(t.Context(), "heavy"); err != nil {
					t.Error(err)
					return
				}
				time.Sleep(time.Second)
				l.Leave()
			})
		}
		synctest.Wait()
		began := time.Now()
		if err := l.Enter(t.Context(), "light"); err != nil {
			t.Fatal(err)
		}
		if waited := time.Since(began); waited > time.Second {
			t.Errorf("waited %v", waited)
		}
		l.Leave()
		group.Wait()
		if took := time.Since(began); took != 100*time.Second {
			t.Errorf("the places were not all used: took %v", took)
		}
	})
}

func TestQueuesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := fair.New(fair.Config{Places: 1, Queue: 2, Wait: time.Minute})
		if err := l.Enter(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		results := make(chan error, 100)
		for i := range 16 { // fills all queues
			for range 2 {
				go func() { results <- l.Enter(t.Context(), fmt.Sprint("user", i)) }()
			}
		}
		synctest.Wait()
		if n := l.Waiting(); n != 32 {
			t.Fatalf("%d wait", n)
		}
		if err := l.Enter(t.Context(), "user0"); !errors.Is(err, fair.ErrFull) {
			t.Errorf("own queue full: %v", err)
		}
		go func() { results <- l.Enter(t.Context(), "newcomer") }()
		synctest.Wait()
		if err := <-results; !errors.Is(err, fair.ErrFull) || l.Waiting() != 32 {
			t.Errorf("the longest queue made no room: %v, %d wait", err, l.Waiting())
		}
		time.Sleep(time.Minute)
		for range 32 {
			if err := <-results; !errors.Is(err, fair.ErrLate) {
				t.Errorf("after a minute: %v", err)
			}
		}
		if n := l.Waiting(); n != 0 {
			t.Errorf("%d wait", n)
		}
		l.Leave()
		if err := l.Enter(t.Context(), "b"); err != nil {
			t.Error(err)
		}
	})
}

// TestModel lets users come, give up and leave at random. There are never more
// inside than places, everybody gets an answer, and no place is lost.
func TestModel(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	synctest.Test(t, func(t *testing.T) {
		random := rand.New(rand.NewPCG(seed, 0))
		const places = 5
		l := fair.New(fair.Config{Places: places, Queue: 4, Wait: 3 * time.Second})
		var inside, entered, refused atomic.Int64
		var group sync.WaitGroup
		for range 2000 {
			patience, work := time.Duration(random.IntN(4000))*time.Millisecond, time.Duration(random.IntN(900))*time.Millisecond
			user := fmt.Sprint(random.IntN(30))
			group.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				if err := l.Enter(ctx, user); err != nil {
					refused.Add(1)
					return
				}
				entered.Add(1)
				if n := inside.Add(1); n > places {
					t.Errorf("%d inside", n)
				}
				time.Sleep(work)
				inside.Add(-1)
				l.Leave()
			})
			time.Sleep(time.Duration(random.IntN(150)) * time.Millisecond)
		}
		group.Wait()
		if entered.Load()+refused.Load() != 2000 || l.Waiting() != 0 {
			t.Errorf("%d entered, %d refused, %d wait", entered.Load(), refused.Load(), l.Waiting())
		}
		for i := range places {
			if err := l.Enter(t.Context(), "last"); err != nil {
				t.Fatalf("place %d is lost: %v", i, err)
			}
		}
	})
}

func BenchmarkEnter(b *testing.B) {
	l := fair.New(fair.Config{Places: 600, Queue: 100, Wait: time.Second})
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if l.Enter(context.Background(), "jane") == nil {
				l.Leave()
			}
		}
	})
}
