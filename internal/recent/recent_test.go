package recent_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planekit/planekit/internal/recent"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func Example() {
	lookups := recent.New[int](time.Hour)
	for range 2 {
		fmt.Println(lookups.Get(context.Background(), "key", func(context.Context, string) (int, error) {
			fmt.Println("looked up")
			return 1, nil
		}))
	}
	// Output:
	// looked up
	// 1 <nil>
	// 1 <nil>
}

// The caller that began a look-up gives up; the other callers get its result.
func TestLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lookups, calls := recent.New[int](time.Minute), 0
		fetch := func(ctx context.Context, _ string) (int, error) {
			calls++
			select {
			case <-time.After(2 * time.Second):
				return calls, nil
			case <-ctx.Done():
				return 0, ctx.Err()
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		first := make(chan error)
		go func() {
			_, err := lookups.Get(ctx, "key", fetch)
			first <- err
		}()
		synctest.Wait()
		if got, err := lookups.Get(t.Context(), "key", fetch); got != 1 || err != nil {
			t.Errorf("got %d, %v", got, err)
		}
		if err := <-first; !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("who left got %v", err)
		}
		time.Sleep(time.Minute)
		if got, err := lookups.Get(t.Context(), "key", fetch); got != 2 || err != nil {
			t.Errorf("later: got %d, %v", got, err)
		}
	})
}

// There are more keys than the limit.
func TestMany(t *testing.T) {
	lookups, calls := recent.New[int](time.Hour), 0
	for i := range 10_001 {
		if _, err := lookups.Get(t.Context(), fmt.Sprint(i), func(context.Context, string) (int, error) { calls++; return 0, nil }); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := lookups.Get(t.Context(), "0", func(context.Context, string) (int, error) { calls++; return 0, nil }); err != nil || calls != 10_002 {
		t.Errorf("%d look-ups: %v", calls, err)
	}
}
