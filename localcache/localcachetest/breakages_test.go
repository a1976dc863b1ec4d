package localcachetest

import (
	"context"
	"iter"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/planekit/planekit/localcache"
)

// handling breaks the calls of handlers: wrap returns a replacement for each handler.
func handling(wrap func(b *broken, handle func(old, new *Object)) func(old, new *Object)) func(*broken, *Harness, context.Context) {
	return func(b *broken, _ *Harness, _ context.Context) {
		b.subscribe = func(handle func(old, new *Object)) localcache.Subscription { return b.Map.Subscribe(wrap(b, handle)) }
	}
}

// breakages lists caches that break the contract, each with the check that finds it.
var breakages = []struct {
	name, check string
	apply       func(*broken, *Harness, context.Context)
}{
	{"synced before the list", "Synced", func(b *broken, _ *Harness, _ context.Context) {
		closed := make(chan struct{})
		close(closed)
		b.synced = func() <-chan struct{} { return closed }
	}},
	{"never synced", "Synced", func(b *broken, _ *Harness, _ context.Context) {
		b.synced = func() <-chan struct{} { return nil }
	}},
	{"empty when synced", "Synced", func(b *broken, h *Harness, _ context.Context) {
		var late []*Object
		h.Put = func(o *Object) string { late = append(late, o); return "" }
	}},
	{"caught up before the list", "CaughtUp", func(b *broken, _ *Harness, _ context.Context) {
		closed := make(chan struct{})
		close(closed)
		b.subscribe = func(handle func(old, new *Object)) localcache.Subscription {
			return localcache.Subscription{Stop: b.Map.Subscribe(handle).Stop, CaughtUp: closed}
		}
	}},
	{"caught up before the calls return", "CaughtUp", handling(func(_ *broken, handle func(old, new *Object)) func(old, new *Object) {
		return func(old, new *Object) { go handle(old, new) }
	})},
	{"never caught up", "CaughtUp", func(b *broken, _ *Harness, ctx context.Context) {
		b.subscribe = func(handle func(old, new *Object)) localcache.Subscription {
			return localcache.Subscription{Stop: b.Map.Subscribe(handle).Stop, CaughtUp: ctx.Done()}
		}
	}},
	{"caught up though stopped", "CaughtUp", func(b *broken, _ *Harness, _ context.Context) {
		b.subscribe = func(handle func(old, new *Object)) localcache.Subscription {
			return localcache.Subscription{Stop: b.Map.Subscribe(handle).Stop, CaughtUp: b.Map.Synced()}
		}
	}},
	{"copies", "Shared", func(b *broken, _ *Harness, _ context.Context) {
		b.get = func(key string) (*Object, bool) {
			o, ok := b.Map.Get(key)
			if !ok {
				return nil, false
			}
			return new(*o), true
		}
	}},
	{"absent but found", "Shared", func(b *broken, _ *Harness, _ context.Context) {
		b.get = func(key string) (*Object, bool) {
			o, _ := b.Map.Get(key)
			return o, true
		}
	}},
	{"late subscribers hear changes only", "LateSubscriber", handling(func(_ *broken, handle func(old, new *Object)) func(old, new *Object) {
		seen := map[string]bool{}
		return func(old, new *Object) {
			if old == nil && !seen[new.Key] {
				seen[new.Key] = true
				return
			}
			handle(old, new)
		}
	})},
	{"existing objects are reported twice", "LateSubscriber", handling(func(_ *broken, handle func(old, new *Object)) func(old, new *Object) {
		return func(old, new *Object) {
			handle(old, new)
			if old == nil {
				handle(new, new)
			}
		}
	})},
	{"updates come as additions", "Order", handling(func(_ *broken, handle func(old, new *Object)) func(old, new *Object) {
		return func(old, new *Object) {
			if new != nil {
				old = nil
			}
			handle(old, new)
		}
	})},
	{"old is a copy", "Order", handling(func(_ *broken, handle func(old, new *Object)) func(old, new *Object) {
		return func(old, now *Object) {
			if old != nil {
				old = new(*old)
			}
			handle(old, now)
		}
	})},
	{"every tenth change is lost", "Order", handling(func(_ *broken, handle func(old, new *Object)) func(old, new *Object) {
		n := 0
		return func(old, new *Object) {
			if n++; n%10 != 0 {
				handle(old, new)
			}
		}
	})},
	{"the last change is lost", "Order", handling(func(_ *broken, handle func(old, new *Object)) func(old, new *Object) {
		n := 0
		var queue [][2]*Object
		return func(old, new *Object) {
			n++
			if queue = append(queue, [2]*Object{old, new}); len(queue) > 1 {
				handle(queue[0][0], queue[0][1])
				queue = queue[1:]
			}
		}
	})},
	{"deletions are not reported", "Order", handling(func(_ *broken, handle func(old, new *Object)) func(old, new *Object) {
		return func(old, new *Object) {
			if new != nil {
				handle(old, new)
			}
		}
	})},
	{"two changes swapped", "Order", handling(func(_ *broken, handle func(old, new *Object)) func(old, new *Object) {
		var held [2]*Object
		n := 0
		return func(old, new *Object) {
			if n++; n > 20 && old != nil && new != nil && held[0] == nil {
				held = [2]*Object{old, new}
				return
			}
			handle(old, new)
			if held[1] != nil && old == held[1] {
				handle(held[0], held[1])
				held[1] = nil
			}
		}
	})},
	{"two calls at a time", "Order", handling(func(_ *broken, handle func(old, new *Object)) func(old, new *Object) {
		return func(old, new *Object) { go handle(old, new) }
	})},
	{"a call comes before the change", "Order", func(b *broken, _ *Harness, _ context.Context) {
		shown := localcache.NewMapFunc(func(o *Object) string { return o.Key })
		b.get, b.all = shown.Get, shown.All
		b.subscribe = func(handle func(old, new *Object)) localcache.Subscription {
			return b.Map.Subscribe(func(old, new *Object) {
				handle(old, new)
				if new != nil {
					shown.Put(new)
				} else {
					shown.Delete(old.Key)
				}
			})
		}
	}},
	{"a call comes before the deletion", "Order", func(b *broken, h *Harness, _ context.Context) {
		var mu sync.Mutex
		gone := map[string]*Object{}
		h.Delete = func(key string) string {
			o, _ := b.Map.Get(key)
			mu.Lock()
			gone[key] = o
			mu.Unlock()
			defer func() {
				mu.Lock()
				defer mu.Unlock()
				delete(gone, key)
			}()
			return b.Delete(key)
		}
		b.get = func(key string) (*Object, bool) {
			mu.Lock()
			defer mu.Unlock()
			if o := gone[key]; o != nil {
				return o, true
			}
			return b.Map.Get(key)
		}
	}},
	{"a gap between list and changes", "SubscribeWhileWriting", func(b *broken, _ *Harness, _ context.Context) {
		b.subscribe = func(handle func(old, new *Object)) localcache.Subscription {
			for o := range b.All() {
				handle(nil, o)
			}
			var late atomic.Bool
			s := b.Map.Subscribe(func(old, new *Object) {
				if late.Load() {
					handle(old, new)
				}
			})
			time.Sleep(10 * time.Microsecond)
			late.Store(true)
			return s
		}
	}},
	{"handlers are called under a lock", "SubscribeInHandler", func(b *broken, _ *Harness, ctx context.Context) {
		lock := make(chan struct{}, 1) // a mutex whose waiters a bubble recognizes as blocked
		b.subscribe = func(handle func(old, new *Object)) localcache.Subscription {
			select {
			case lock <- struct{}{}:
				defer func() { <-lock }()
			case <-ctx.Done():
			}
			return b.Map.Subscribe(handle)
		}
	}},
	{"stop does nothing", "Stop", func(b *broken, _ *Harness, _ context.Context) {
		b.subscribe = func(handle func(old, new *Object)) localcache.Subscription {
			s := b.Map.Subscribe(handle)
			s.Stop = func() {}
			return s
		}
	}},
	{"stop ends all", "Stop", func(b *broken, _ *Harness, _ context.Context) {
		var ends []func()
		b.subscribe = func(handle func(old, new *Object)) localcache.Subscription {
			s := b.Map.Subscribe(handle)
			ends = append(ends, s.Stop)
			s.Stop = func() {
				for _, end := range ends {
					end()
				}
			}
			return s
		}
	}},
	{"stop does not wait", "StopWaits", func(b *broken, _ *Harness, _ context.Context) {
		b.subscribe = func(handle func(old, new *Object)) localcache.Subscription {
			s := b.Map.Subscribe(handle)
			sound := s.Stop
			s.Stop = func() { go sound() }
			return s
		}
	}},
	{"WaitFor does not wait", "WaitForUnsynced", func(b *broken, _ *Harness, _ context.Context) {
		b.waitFor = func(context.Context, string) error { return nil }
	}},
	{"WaitFor does not heed its context", "WaitForUnsynced", func(b *broken, _ *Harness, ctx context.Context) {
		b.waitFor = func(_ context.Context, revision string) error { return b.Map.WaitFor(ctx, revision) }
	}},
	{"WaitFor returns before the change", "WaitFor", func(b *broken, h *Harness, _ context.Context) {
		b.waitFor = func(context.Context, string) error { return nil }
		h.Put = func(o *Object) string {
			time.AfterFunc(time.Millisecond, func() { b.Put(o) })
			return ""
		}
	}},
	{"WaitFor sleeps on", "WaitFor", func(b *broken, _ *Harness, _ context.Context) {
		b.waitFor = func(ctx context.Context, _ string) error {
			<-ctx.Done()
			return ctx.Err()
		}
	}},
	{"WaitFor never returns", "WaitFor", func(b *broken, _ *Harness, ctx context.Context) {
		b.waitFor = func(context.Context, string) error {
			<-ctx.Done()
			return nil
		}
	}},
	{"a list leaves the old objects", "Replace", func(b *broken, h *Harness, _ context.Context) {
		h.Replace = func(objects ...*Object) {
			for _, o := range objects {
				if have, _ := b.Map.Get(o.Key); have != o {
					b.Put(o)
				}
			}
		}
	}},
	{"a list is reported as all new", "Replace", func(b *broken, h *Harness, _ context.Context) {
		h.Replace = func(objects ...*Object) {
			b.Replace()
			b.Replace(objects...)
		}
	}},
	{"a list is reported with unchanged objects", "Replace", func(b *broken, h *Harness, _ context.Context) {
		h.Replace = func(objects ...*Object) {
			b.Replace(objects...)
			for _, o := range objects {
				b.Put(o)
			}
		}
	}},
	{"a list comes bit by bit", "ReplaceAtOnce", func(b *broken, h *Harness, _ context.Context) {
		h.Replace = func(objects ...*Object) {
			for _, o := range objects {
				b.Put(o)
				time.Sleep(time.Nanosecond) // lets readers run
			}
		}
	}},
	{"All reads key by key", "ReplaceAtOnce", func(b *broken, _ *Harness, _ context.Context) {
		b.all = func() iter.Seq[*Object] {
			keys := map[string]bool{}
			for o := range b.Map.All() {
				keys[o.Key] = true
			}
			return func(yield func(*Object) bool) {
				for key := range maps.Keys(keys) {
					if o, ok := b.Map.Get(key); ok && !yield(o) {
						return
					}
				}
			}
		}
	}},
	{"a change waits for the end of an iteration", "ChangeInIteration", func(b *broken, h *Harness, ctx context.Context) {
		lock := make(chan struct{}, 1)
		acquire := func() bool {
			select {
			case lock <- struct{}{}:
				return true
			case <-ctx.Done():
				return false
			}
		}
		b.all = func() iter.Seq[*Object] {
			return func(yield func(*Object) bool) {
				if acquire() {
					defer func() { <-lock }()
					b.Map.All()(yield)
				}
			}
		}
		h.Put = func(o *Object) string {
			if !acquire() {
				return ""
			}
			defer func() { <-lock }()
			return b.Put(o)
		}
	}},
	{"the index does not notice moves", "Index", func(b *broken, h *Harness, _ context.Context) {
		first := map[string]string{}
		h.ByGroup = localcache.Scan(b.Map, func(o *Object) []string {
			if first[o.Key] == "" {
				first[o.Key] = o.Group
			}
			return []string{first[o.Key]}
		})
	}},
	{"the index misses a group", "Index", func(b *broken, h *Harness, _ context.Context) {
		h.ByGroup = localcache.Scan(b.Map, func(o *Object) []string {
			return slices.DeleteFunc([]string{o.Group}, func(g string) bool { return g == "0" })
		})
	}},
	{"the index has everything everywhere", "Index", func(b *broken, h *Harness, _ context.Context) {
		h.ByGroup = localcache.Scan(b.Map, func(o *Object) []string { return []string{"0", "1", "2", "absent"} })
	}},
	{"Get falls back to what was before", "Readers", func(b *broken, h *Harness, _ context.Context) {
		var mu sync.Mutex
		before, n := map[string]*Object{}, 0
		h.Put = func(o *Object) string {
			old, _ := b.Map.Get(o.Key)
			mu.Lock()
			before[o.Key] = old
			mu.Unlock()
			return b.Put(o)
		}
		b.get = func(key string) (*Object, bool) {
			mu.Lock()
			defer mu.Unlock()
			if n++; n%2 == 0 && before[key] != nil {
				return before[key], true
			}
			return b.Map.Get(key)
		}
	}},
	{"the index is not of one moment", "Readers", func(b *broken, h *Harness, _ context.Context) {
		h.ByGroup = localcache.Scan(b.Map, func(o *Object) []string { return []string{"0"} })
	}},
}
