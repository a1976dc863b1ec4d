package budget_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/planekit/planekit/internal/budget"
)

func Example() {
	ctx := budget.Attach(context.Background(), budget.Limits{Steps: 1000, Bytes: 4096})
	items, allowed := 300, 300
	fmt.Println(budget.From(ctx).Product(items, allowed))
	// Output: the request takes too much work: 90000 steps, of 1000
}

func TestChargesAddUp(t *testing.T) {
	ctx := budget.Attach(t.Context(), budget.Limits{Steps: 10, Bytes: 10})
	for i := range 10 {
		if err := budget.From(ctx).Work(1); err != nil {
			t.Fatalf("charge %d: Work(1) = %v, want nil", i, err)
		}
	}
	var exceeded *budget.Error
	if err := budget.From(ctx).Work(1); !errors.Is(err, budget.ErrExceeded) || !errors.As(err, &exceeded) || exceeded.Needed != 11 {
		t.Errorf("Work(1) after 10 of 10 steps = %v, want an Error with Needed 11", err)
	}
	if err := budget.From(ctx).Memory(10); err != nil {
		t.Errorf("Memory(10) of 10 bytes = %v, want nil", err)
	}
	if err := budget.From(ctx).Err(); !errors.As(err, &exceeded) || exceeded.Unit != "steps" || exceeded.Needed != 11 {
		t.Errorf("Err() after 11 of 10 steps = %v, want an Error that needs 11 steps", err)
	}
}

// TestErr: a charge of either kind that has failed, or a context that has ended, is found later.
func TestErr(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	b := budget.New(ctx, budget.Limits{Steps: 10, Bytes: 10})
	if err := b.Err(); err != nil {
		t.Errorf("Err() of a new budget = %v, want nil", err)
	}
	_ = b.Memory(11)
	var exceeded *budget.Error
	if err := b.Err(); !errors.As(err, &exceeded) || exceeded.Unit != "bytes" || exceeded.Needed != 11 {
		t.Errorf("Err() after 11 of 10 bytes = %v, want an Error that needs 11 bytes", err)
	}
	cancel()
	if err := b.Err(); !errors.Is(err, context.Canceled) {
		t.Errorf("Err() after the client left = %v, want context.Canceled", err)
	}
}

func TestHugeProduct(t *testing.T) {
	b := budget.New(t.Context(), budget.Default)
	for _, p := range [][2]int{{math.MaxInt, math.MaxInt}, {1 << 40, 1 << 40}, {math.MaxInt, 1}, {1 << 31, 1 << 31}} {
		if err := b.Product(p[0], p[1]); !errors.Is(err, budget.ErrExceeded) {
			t.Errorf("Product(%d, %d) = %v, want ErrExceeded", p[0], p[1], err)
		}
	}
	if err := budget.New(t.Context(), budget.Default).Product(0, math.MaxInt); err != nil {
		t.Errorf("Product(0, MaxInt) = %v, want nil", err)
	}
}

func TestEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	b := budget.From(budget.Attach(ctx, budget.Default))
	cancel()
	if err := b.Work(1); !errors.Is(err, context.Canceled) {
		t.Errorf("Work(1) after the client left = %v, want context.Canceled", err)
	}
}

func TestConcurrentCharges(t *testing.T) {
	b := budget.New(t.Context(), budget.Limits{Steps: 1000})
	var done sync.WaitGroup
	var passed atomic.Int64
	for range 8 {
		done.Go(func() {
			for range 500 {
				if b.Work(1) == nil {
					passed.Add(1)
				}
			}
		})
	}
	done.Wait()
	if passed.Load() != 1000 {
		t.Errorf("%d charges of one step passed, want 1000", passed.Load())
	}
}
