//go:build linux

package overlay

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// ErrRunning is the error of a Run or Remove while another one of the same overlay is active.
var ErrRunning = errors.New("overlay: already running")

const (
	// pace is the least time between two reconciliations, so that a flood of notifications does not
	// keep a processor busy.
	pace = 100 * time.Millisecond
	// retryDelay is the delay before a failed source, subscription or publication is tried again.
	retryDelay = time.Second
	// rounds bounds how often one reconciliation reads and applies until the kernel agrees.
	rounds = 4
)

// run is the state of one Run.
type run struct {
	o      *Overlay
	c      *Config
	kernel *kernel
	// wake, of size 1, holds a request for a reconciliation.
	wake chan struct{}
	// publish, of size 1, holds the newest local member that is not published.
	publish   chan Member
	published atomic.Bool

	mu      sync.Mutex
	members []Member // guarded by mu
	known   bool     // guarded by mu: members has been set

	// underlay and deviceIndex are what was read last.
	underlay    atomic.Pointer[underlay]
	deviceIndex atomic.Int64

	// The rest belongs to the goroutine that reconciles.
	guard     guardKeeper
	local     Member
	lastError string
}

// Run keeps the kernel in the desired state until ctx is done, and returns nil then. It removes
// nothing at its end. Failures are logged and retried; an error means that Run could not start.
func (o *Overlay) Run(ctx context.Context) error {
	if !o.running.TryLock() {
		return ErrRunning
	}
	defer o.running.Unlock()
	k, err := openKernel(&o.c)
	if err != nil {
		return fmt.Errorf("overlay: %w", err)
	}
	defer k.close()
	r := &run{o: o, c: &o.c, kernel: k, wake: make(chan struct{}, 1), publish: make(chan Member, 1)}
	if o.c.Backend == UDP {
		k.tunnel = newTunnel(r.request)
		defer k.tunnel.close()
	}
	ctx, cancel := context.WithCancel(ctx)
	var wait sync.WaitGroup
	defer wait.Wait()
	defer cancel()
	wait.Go(func() { r.followMembers(ctx) })
	wait.Go(func() { r.publishLocal(ctx) })
	r.followKernel(ctx, &wait)
	r.loop(ctx)
	return nil
}

// request asks for a reconciliation.
func (r *run) request() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

func (r *run) loop(ctx context.Context) {
	resync := time.NewTicker(r.c.Resync)
	defer resync.Stop()
	for ctx.Err() == nil {
		r.reconcile()
		if !pause(ctx, pace) {
			return
		}
		select {
		case <-ctx.Done():
		case <-r.wake:
		case <-resync.C:
		}
	}
}

// pause waits and reports whether ctx is still alive.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// reconcile brings the kernel to the desired state. It logs an error once while it persists.
func (r *run) reconcile() {
	ready, err := r.converge()
	if err != nil {
		if text := err.Error(); text != r.lastError {
			r.lastError = text
			r.c.Log.Error(err, "The overlay is not in the desired state")
		}
		return
	}
	if r.lastError != "" {
		r.lastError = ""
		r.c.Log.Info("The overlay is in the desired state again")
	}
	if ready && r.published.Load() {
		select {
		case <-r.o.ready:
		default:
			close(r.o.ready)
		}
	}
}

// converge reports whether the kernel has what all members need.
func (r *run) converge() (ready bool, err error) {
	r.mu.Lock()
	members, known := r.members, r.known
	r.mu.Unlock()
	u, err := r.kernel.underlay()
	if err != nil {
		return false, err
	}
	r.underlay.Store(u)
	want, refused, err := r.c.desired(u, members)
	if err != nil {
		return false, err
	}
	if known {
		r.report(refused)
	}
	// Before there is a device or a socket that takes packets.
	guarding := r.c.guard(u, want.members)
	if err := r.kernel.inside(func() error { return r.guard.keep(guarding, !known) }); err != nil {
		return false, err
	}
	if r.kernel.tunnel != nil {
		if err := r.kernel.inside(func() error { return r.kernel.tunnel.listen(u.address, r.c.Port) }); err != nil {
			return false, err
		}
		r.kernel.tunnel.setMembers(u, r.c, want.members)
	}
	for range rounds {
		have, err := r.kernel.read(want)
		if err != nil {
			return false, err
		}
		if have.device != nil {
			r.deviceIndex.Store(int64(have.device.index))
		}
		changes := diff(r.c.Device, want, have, known)
		if len(changes) == 0 {
			r.settle(u)
			return known, nil
		}
		if err := r.applyAll(changes); err != nil {
			return false, err
		}
	}
	return false, errors.New("the kernel does not keep the desired state")
}

// applyAll goes on after a failure: a failure for one member must not affect another.
func (r *run) applyAll(changes []change) error {
	var errs []error
	for _, c := range changes {
		if err := r.kernel.apply(c); err != nil {
			errs = append(errs, fmt.Errorf("%v: %w", c, err))
			if c.op == addDevice {
				break // the other changes need it
			}
			continue
		}
		r.c.Log.V(1).Info("Changed the kernel", "change", c.String())
	}
	const most = 10 // errors in one message
	if len(errs) > most {
		errs = append(errs[:most], fmt.Errorf("and %d more", len(errs)-most))
	}
	return errors.Join(errs...)
}

// settle publishes the local member and sets the MTU.
func (r *run) settle(u *underlay) {
	mtu, err := r.c.mtu(u)
	if err != nil {
		return
	}
	r.o.mtu.Store(int64(mtu))
	local := r.c.localMember(u)
	if reflect.DeepEqual(local, r.local) {
		return
	}
	r.local = local
	select {
	case <-r.publish: // an older one
	default:
	}
	r.publish <- local
}

// localMember returns what the other members need to know.
func (c *Config) localMember(u *underlay) Member {
	m := c.Local.clone()
	m.Address, m.Address6, m.Backend, m.Data = u.address4, u.address6, c.Backend, Data{}
	switch c.Backend {
	case VXLAN:
		m.Data = Data{MAC: deriveMAC(c.Local.Name), VNI: c.VNI, Port: c.Port}
	case UDP:
		m.Data = Data{Port: c.Port}
	}
	return m
}

func (r *run) publishLocal(ctx context.Context) {
	for {
		var local Member
		select {
		case <-ctx.Done():
			return
		case local = <-r.publish:
		}
		for r.c.Publish != nil {
			err := r.c.Publish(ctx, local)
			if err == nil {
				break
			}
			r.c.Log.Error(err, "The local member is not published")
			if !pause(ctx, retryDelay) {
				return
			}
			select {
			case local = <-r.publish:
			default:
			}
		}
		r.published.Store(true)
		r.request()
	}
}

func (r *run) followMembers(ctx context.Context) {
	for {
		err := r.c.Members.Follow(ctx, func(members []Member) {
			r.mu.Lock()
			r.members, r.known = members, true
			r.mu.Unlock()
			r.request()
		})
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			r.c.Log.Error(err, "The members cannot be followed")
		}
		if !pause(ctx, retryDelay) {
			return
		}
	}
}

// report records refusals, and logs those that are new.
func (r *run) report(refused map[string]error) {
	r.o.mu.Lock()
	old := r.o.refused
	r.o.refused = refused
	r.o.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(refused)) {
		if old[name] == nil || old[name].Error() != refused[name].Error() {
			r.c.Log.Info("Refused a member", "member", name, "reason", refused[name].Error())
		}
	}
}

// Remove removes the overlay's device and routes from the kernel. Run must not be active.
func (o *Overlay) Remove(ctx context.Context) error {
	if !o.running.TryLock() {
		return ErrRunning
	}
	defer o.running.Unlock()
	k, err := openKernel(&o.c)
	if err != nil {
		return fmt.Errorf("overlay: %w", err)
	}
	defer k.close()
	nothing := newState()
	have, err := k.read(nothing)
	if err != nil {
		return fmt.Errorf("overlay: %w", err)
	}
	r := &run{o: o, c: &o.c, kernel: k}
	changes := removals(nothing, have)
	if have.device != nil {
		changes = append(changes, change{op: deleteDevice, name: o.c.Device})
	}
	if err := errors.Join(r.applyAll(changes), k.inside(o.c.removeGuard)); err != nil {
		return fmt.Errorf("overlay: remove: %w", err)
	}
	return ctx.Err()
}
