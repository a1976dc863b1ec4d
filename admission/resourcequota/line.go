package resourcequota

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// line is the queue of the requests of one namespace that wait to be charged. The leader charges
// all waiting requests; then the first request that has arrived meanwhile leads. The plugin's mutex
// guards all fields. A line without a leader is deleted.
type line struct{ waiting []*waiter }

type waiter struct {
	*demand
	// woken receives one value: when the waiter becomes the leader or is settled. It is buffered,
	// so that a sender does not block if the waiter has left.
	woken   chan struct{}
	leads   bool // guarded by the plugin's mutex
	settled bool // set before woken, like err
	err     error
	// charged holds the charges for the waiter, by quota.
	charged map[string]corev1.ResourceList
}

// charge waits until the demand was charged or refused.
func (p *Plugin) charge(ctx context.Context, d *demand) error {
	w := &waiter{demand: d, woken: make(chan struct{}, 1), charged: map[string]corev1.ResourceList{}}
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
			<-w.woken // it is about to lead, which will not take long
		}
		if w.settled {
			return w.err
		}
	}
	return p.lead(ctx, w)
}

// join adds w to its line and reports whether it leads.
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

// leave removes w, whose client has left, from its line. It reports false if w is not in the line
// or is about to lead.
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

// lead charges all waiters, including w.
func (p *Plugin) lead(ctx context.Context, w *waiter) error {
	namespace := w.request.Namespace
	p.mu.Lock()
	l := p.lines[namespace]
	batch := l.waiting
	l.waiting = nil
	p.mu.Unlock()
	// The other waiters must not fail because the client of this one has left.
	settling, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	done := false
	defer func() {
		p.pass(namespace, l)
		for _, other := range batch {
			if !done { // a panic: admit no request
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

// pass hands the lead to the first waiter, or deletes the line.
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
