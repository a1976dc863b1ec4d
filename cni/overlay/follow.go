//go:build linux

package overlay

import (
	"context"
	"sync"

	"github.com/vishvananda/netlink"
)

// followKernel requests a reconciliation for each notification that may concern the overlay.
// Notifications can be lost; Resync makes up for them.
func (r *run) followKernel(ctx context.Context, wait *sync.WaitGroup) {
	ns := r.kernel.ns
	wait.Go(func() {
		follow(ctx, r, func(ch chan<- netlink.LinkUpdate, done <-chan struct{}) error {
			return netlink.LinkSubscribeAt(ns, ch, done)
		}, r.linkConcerns)
	})
	wait.Go(func() {
		follow(ctx, r, func(ch chan<- netlink.AddrUpdate, done <-chan struct{}) error {
			return netlink.AddrSubscribeAt(ns, ch, done)
		}, r.addressConcerns)
	})
	wait.Go(func() {
		follow(ctx, r, func(ch chan<- netlink.RouteUpdate, done <-chan struct{}) error {
			return netlink.RouteSubscribeAt(ns, ch, done)
		}, r.routeConcerns)
	})
	if r.c.Backend != VXLAN {
		return
	}
	wait.Go(func() {
		follow(ctx, r, func(ch chan<- netlink.NeighUpdate, done <-chan struct{}) error {
			return netlink.NeighSubscribeAt(ns, ch, done)
		}, r.neighbourConcerns)
	})
}

// follow keeps one subscription until ctx is done.
func follow[T any](ctx context.Context, r *run, subscribe func(chan<- T, <-chan struct{}) error, concerns func(T) bool) {
	for ctx.Err() == nil {
		updates := make(chan T)
		subscribed, cancel := context.WithCancel(ctx)
		if err := subscribe(updates, subscribed.Done()); err != nil {
			r.c.Log.Error(err, "The kernel's notifications cannot be followed")
		} else {
			// The subscription closes the channel when ctx is done, or when the kernel has dropped some.
			for update := range updates {
				if concerns(update) {
					r.request()
				}
			}
			r.request()
		}
		cancel()
		if !pause(ctx, retryDelay) {
			return
		}
	}
}

func (r *run) linkConcerns(u netlink.LinkUpdate) bool {
	name := ""
	if at := r.underlay.Load(); at != nil {
		name = at.name
	}
	return r.c.isOurName(u.Attrs().Name, name)
}

func (r *run) addressConcerns(u netlink.AddrUpdate) bool {
	// An address that another interface got or lost may be the one that identifies the underlay.
	at := r.underlay.Load()
	return at == nil || u.LinkIndex == at.index || u.LinkIndex == int(r.deviceIndex.Load())
}

func (r *run) routeConcerns(u netlink.RouteUpdate) bool {
	dst, ok := prefixOf(u.Dst)
	return int(u.Protocol) == r.c.Protocol || ok && r.c.concerns(dst)
}

func (r *run) neighbourConcerns(u netlink.NeighUpdate) bool {
	return u.LinkIndex == int(r.deviceIndex.Load())
}
