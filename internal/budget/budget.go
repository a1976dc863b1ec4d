// Package budget bounds the work of one request.
//
//	b := budget.From(ctx)
//	if err := b.Work(len(items) * len(allowed)); err != nil {
//		return err
//	}
//
// A request of a few kilobytes can name products of its lists: items by values of an enum, a default
// by the items that lack it, groups by resources by verbs. Code that is about to do such work charges
// it first. The charge fails if the request has no budget left for it, or if its context has ended,
// so that work ends with its client or its deadline.
//
// All steps of a request share one budget: the server attaches it to the context of the request.
package budget

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync/atomic"
)

// ErrExceeded marks work that the budget does not cover.
var ErrExceeded = errors.New("the request takes too much work")

// Limits limits the work of a request.
type Limits struct {
	// Steps is the maximum number of steps. A step is a comparison, a visited value or a few copied
	// bytes, and takes about 10 ns on one processor.
	Steps int64
	// Bytes is the maximum memory that steps make of the request's body, beyond decoding it.
	Bytes int64
}

// Default is the budget of code that runs without a request, and of requests with small bodies: half a
// second of one processor, and 40 MB.
var Default = Limits{Steps: 50_000_000, Bytes: 40 << 20}

// Unlimited is the budget of work that was paid for before, such as compiling a schema that has been accepted.
var Unlimited = Limits{Steps: math.MaxInt64, Bytes: math.MaxInt64}

// ForBody returns the budget of a request whose body has size bytes: the memory is 20 times its size,
// if that is more than the default.
func ForBody(size int) Limits {
	l := Default
	l.Bytes = max(l.Bytes, 20*int64(size))
	return l
}

// An Error is a charge that failed. It is ErrExceeded.
type Error struct {
	// Unit is "steps" or "bytes".
	Unit string
	// Limit is the whole budget, and Needed what the request would have spent with the charge.
	Limit, Needed int64
}

func (e *Error) Error() string {
	return fmt.Sprintf("%v: %d %s, of %d", ErrExceeded, e.Needed, e.Unit, e.Limit)
}

// Is reports whether target is ErrExceeded.
func (e *Error) Is(target error) bool { return target == ErrExceeded }

// A Budget counts the work of one request. It is safe for concurrent use.
type Budget struct {
	ctx          context.Context
	limits       Limits
	steps, bytes atomic.Int64
}

// New returns a budget for a request with context ctx.
func New(ctx context.Context, l Limits) *Budget { return &Budget{ctx: ctx, limits: l} }

type contextKey struct{}

// Attach returns a context that carries a new budget. Charges fail once it has ended.
func Attach(ctx context.Context, l Limits) context.Context {
	b := &Budget{limits: l}
	b.ctx = context.WithValue(ctx, contextKey{}, b)
	return b.ctx
}

// From returns the budget that ctx carries, or a new one with the default limits.
func From(ctx context.Context) *Budget {
	if b, ok := ctx.Value(contextKey{}).(*Budget); ok {
		return b
	}
	return New(ctx, Default)
}

// Work charges steps that are about to be done. It fails with an *Error, or with the error of the
// context. A failed charge counts too, so that later ones fail as well.
func (b *Budget) Work(steps int) error {
	return b.charge(&b.steps, int64(steps), b.limits.Steps, "steps")
}

// Memory charges bytes that are about to be allocated, like Work.
func (b *Budget) Memory(bytes int) error {
	return b.charge(&b.bytes, int64(bytes), b.limits.Bytes, "bytes")
}

// Err returns why charges fail: the context has ended, or an earlier charge has exceeded a limit. It returns
// nil otherwise. A caller of code that cannot return an error checks it afterwards.
func (b *Budget) Err() error {
	if err := b.ctx.Err(); err != nil {
		return err
	}
	if n := b.steps.Load(); n > b.limits.Steps {
		return &Error{Unit: "steps", Limit: b.limits.Steps, Needed: n}
	}
	if n := b.bytes.Load(); n > b.limits.Bytes {
		return &Error{Unit: "bytes", Limit: b.limits.Bytes, Needed: n}
	}
	return nil
}

// Product charges a times c steps, like Work, even if the product does not fit in an int.
func (b *Budget) Product(a, c int) error {
	if a > 0 && c > math.MaxInt/2/a {
		return b.Work(math.MaxInt / 2)
	}
	return b.Work(a * c)
}

func (b *Budget) charge(spent *atomic.Int64, n, limit int64, unit string) error {
	if err := b.ctx.Err(); err != nil {
		return err
	}
	if n <= 0 {
		return nil
	}
	for {
		was := spent.Load()
		now := was + min(n, math.MaxInt64-was)
		if !spent.CompareAndSwap(was, now) {
			continue
		}
		if now > limit {
			return &Error{Unit: unit, Limit: limit, Needed: now}
		}
		return nil
	}
}
