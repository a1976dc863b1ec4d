package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/planekit/planekit/reconcile"
)

// bulb is an object: what is asked of it and what is.
type bulb struct{ name, wanted, is string }

// shelf is a local copy of all bulbs, and the place where they are changed; an
// informer and a client, otherwise.
type shelf struct {
	mu      sync.Mutex
	bulbs   map[string]*bulb
	handles []func(old, new *bulb)
}

func (s *shelf) Subscribe(handle func(old, new *bulb)) (stop func()) {
	s.handles = append(s.handles, handle)
	for _, b := range s.bulbs {
		handle(nil, b)
	}
	return func() {}
}

func (s *shelf) Synced() <-chan struct{} {
	complete := make(chan struct{})
	close(complete)
	return complete
}

func (s *shelf) get(name string) *bulb {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bulbs[name]
}

func (s *shelf) put(b *bulb) {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.bulbs[b.name]
	s.bulbs[b.name] = b
	for _, handle := range s.handles {
		handle(old, b)
	}
}

// A controller of a type of one's own: whatever color is wanted, the bulb gets.
func Example() {
	ctx, cancel := context.WithCancel(context.Background())
	bulbs := &shelf{bulbs: map[string]*bulb{"hall": {"hall", "green", ""}}}
	attempts := 0
	c, err := reconcile.New(reconcile.Config[string]{
		Name: "bulbs",
		Reconcile: func(_ context.Context, name string) (reconcile.Result, error) {
			b := bulbs.get(name)
			if b.is == b.wanted {
				fmt.Println(name, "is", b.is, "after", attempts, "attempts")
				cancel()
				return reconcile.Result{}, nil
			}
			if attempts++; attempts < 3 {
				return reconcile.Result{}, errors.New("not yet") // it is called again
			}
			bulbs.put(&bulb{name, b.wanted, b.wanted})
			return reconcile.Result{}, nil
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	reconcile.Watch(c, bulbs, reconcile.Itself(func(b *bulb) string { return b.name }))
	fmt.Println(c.Run(ctx))
	// Output:
	// hall is green after 3 attempts
	// <nil>
}
