package resourcequota

import (
	"context"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// line is where the requests of one namespace wait to be charged. One of them
// leads: it charges all that wait, and then the first that came meanwhile leads.
// All fields are guarded by the plugin's mutex. A line without a leader is gone.
type line struct{ waiting []*waiter }

type waiter struct {
	*demand
	// woken gets one value: when the waiter is to lead, or is settled. It has room
	// for it, so nobody waits for a waiter who left.
	woken   chan struct{}
	leads   bool // guarded by the plugin's mutex
	settled bool // set before woken, like err
	err     error
	// charged are the quotas that were.
	charged map[string]bool
}

// charge waits until the demand was charged or refused.
func (p *Plugin) charge(ctx context.Context, d *demand) error {
	w := &waiter{demand: d, woken: make(chan struct{}, 1), charged: map[string]bool{}}
	if d.request.DryRun {
		return p.weigh(ctx, w)
	}
	if !p.join(w) {
		select {
		case <-w.woken:
		case <-ctx.Done():
			if p.leave(w) {
				return ctx.Err()
			}
			<-w.woken // its turn has come, and will not take long
		}
		if w.settled {
			return w.err
		}
	}
	return p.lead(ctx, w)
}

// join puts w into its line and reports whether it leads.
func (p *Plugin) join(w *waiter) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	l, ok := p.lines[w.request.Namespace]
	if !ok {
		l = &line{}
		p.lines[w.request.Namespace] = l
	}
	l.waiting = append(l.waiting, w)
	w.leads = !ok
	return w.leads
}

// leave takes w, whose client left, out of its line, and reports whether it was
// there and not about to lead.
func (p *Plugin) leave(w *waiter) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	l, ok := p.lines[w.request.Namespace]
	if !ok || w.leads {
		return false
	}
	at := slices.Index(l.waiting, w)
	if at < 0 {
		return false
	}
	l.waiting = slices.Delete(l.waiting, at, at+1)
	return true
}

// lead charges all who wait, w among them.
func (p *Plugin) lead(ctx context.Context, w *waiter) error {
	namespace := w.request.Namespace
	p.mu.Lock()
	l := p.lines[namespace]
	batch := l.waiting
	l.waiting = nil
	p.mu.Unlock()
	// The others must not fail because the client of this one left.
	settling, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	done := false
	defer func() {
		p.pass(namespace, l)
		for _, other := range batch {
			if !done { // a panic: nobody is admitted
				other.err = apierrors.NewInternalError(errUnsettled)
			}
			if other != w {
				other.settled = true
				other.woken <- struct{}{}
			}
		}
	}()
	p.settle(settling, namespace, batch)
	done = true
	return w.err
}

// pass ends a lead: the first who waits has the next, or the line is gone.
func (p *Plugin) pass(namespace string, l *line) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(l.waiting) == 0 {
		delete(p.lines, namespace)
		return
	}
	l.waiting[0].leads = true
	l.waiting[0].woken <- struct{}{}
}
