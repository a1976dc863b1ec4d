package resourcequota

import (
	"context"
	"errors"
	"fmt"

	"github.com/planekit/planekit/internal/usage"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// errUnsettled is the error of requests that could not be charged in time.
var errUnsettled = errors.New("resource quota evaluation timed out")

// ledger holds the quotas of a namespace while a batch is charged.
type ledger struct {
	quotas []*corev1.ResourceQuota
	// used is the usage of the quotas after the charges so far, by name.
	used map[string]corev1.ResourceList
	// pending holds what the next write of a quota changes, by quota.
	pending map[string]*changes
	// live holds the quotas that were read or written during this batch; stale those that must be
	// read.
	live, stale map[string]bool
}

// changes holds what one write of a quota changes.
type changes struct {
	charged  map[*waiter]corev1.ResourceList
	returned []*waiter // their charges are removed, because another quota refused them
}

// settle charges or refuses every waiter of batch. The charges to a quota are added up and written
// at once. If the quota has changed, it is read, and the same waiters are decided again. A waiter
// that is refused stays in the batch until its charges have been removed.
func (p *Plugin) settle(ctx context.Context, namespace string, batch []*waiter) {
	fail := func(err error) {
		for _, w := range batch {
			if w.err == nil {
				w.err = apierrors.NewInternalError(err)
			}
		}
	}
	quotas, err := p.quotas(ctx, namespace)
	if err != nil {
		fail(err)
		return
	}
	l := &ledger{quotas: quotas, live: map[string]bool{}}
	for len(batch) > 0 {
		if ctx.Err() != nil {
			fail(errUnsettled)
			return
		}
		batch = l.decide(batch)
		for i, q := range l.quotas {
			if c, ok := l.pending[q.Name]; ok {
				l.quotas[i] = p.write(ctx, l, q, c)
			}
		}
		batch = unsettled(batch, l)
		if err := p.refresh(ctx, l); err != nil {
			fail(err)
			return
		}
	}
}

// decide checks every waiter against what its predecessors leave. It returns those that are not
// refused or whose charges must be removed.
func (l *ledger) decide(batch []*waiter) (open []*waiter) {
	l.used, l.pending, l.stale = map[string]corev1.ResourceList{}, map[string]*changes{}, map[string]bool{}
	for _, w := range batch {
		if w.err == nil {
			w.err = l.enter(w)
		}
		if w.err == nil || l.giveBack(w) {
			open = append(open, w)
		}
	}
	return open
}

// giveBack removes the charges of a waiter that another quota refuses, and reports whether it has
// any.
func (l *ledger) giveBack(w *waiter) (any bool) {
	for _, q := range l.quotas {
		charged, ok := w.charged[q.Name]
		if !ok {
			continue
		}
		any = true
		used := l.usage(q)
		for name, amount := range charged {
			if have, ok := used[name]; ok {
				have.Sub(amount)
				used[name] = have
			}
		}
		c := l.change(q.Name)
		c.returned = append(c.returned, w)
	}
	return any
}

// usage returns the usage of q with all charges so far.
func (l *ledger) usage(q *corev1.ResourceQuota) corev1.ResourceList {
	if _, ok := l.used[q.Name]; !ok {
		l.used[q.Name] = q.Status.Used.DeepCopy()
	}
	return l.used[q.Name]
}

// change returns the pending changes of a quota, which must be written.
func (l *ledger) change(quota string) *changes {
	if l.pending[quota] == nil {
		l.pending[quota] = &changes{charged: map[*waiter]corev1.ResourceList{}}
	}
	return l.pending[quota]
}

// enter adds the demand of w to all quotas that have not charged it yet, or to none and fails. If
// it exceeds a quota that may be stale, the quota is marked as stale instead.
func (l *ledger) enter(w *waiter) error {
	demands := map[string]corev1.ResourceList{}
	stale := false
	for _, q := range l.quotas {
		if _, ok := w.charged[q.Name]; ok {
			continue
		}
		more, err := w.of(q)
		if err != nil {
			return err
		}
		if len(more) == 0 {
			continue
		}
		if err := w.fits(q, l.usage(q), more); err != nil {
			if l.live[q.Name] {
				return err
			}
			l.stale[q.Name], stale = true, true
		}
		demands[q.Name] = more
	}
	if stale {
		return nil
	}
	for name, more := range demands {
		usage.Add(l.used[name], more)
		l.change(name).charged[w] = more
	}
	return nil
}

// write writes the usage of q with the changes c and returns the quota after it. If it has changed,
// the quota is marked as stale.
func (p *Plugin) write(ctx context.Context, l *ledger, q *corev1.ResourceQuota, c *changes) *corev1.ResourceQuota {
	next := q.DeepCopy()
	next.Status.Used = l.used[q.Name]
	stored, err := p.config.Writer.UpdateStatus(ctx, next)
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		l.stale[q.Name] = true
		return q
	}
	for _, w := range c.returned { // also after a failure: the charge may be gone, and must not be removed twice
		delete(w.charged, q.Name)
	}
	if err != nil {
		// It may have been written or not. The next batch must read it first.
		l.stale[q.Name] = true
		for w := range c.charged {
			w.err = apierrors.NewInternalError(fmt.Errorf("charge quota %s: %w", q.Name, err))
		}
		return q
	}
	for w, more := range c.charged {
		w.charged[q.Name] = more
	}
	l.live[q.Name] = true
	p.remember(stored)
	return stored
}

// refresh reads the stale quotas and drops deleted ones.
func (p *Plugin) refresh(ctx context.Context, l *ledger) error {
	kept := l.quotas[:0]
	for _, q := range l.quotas {
		if !l.stale[q.Name] {
			kept = append(kept, q)
			continue
		}
		now, err := p.config.Writer.Get(ctx, q.Namespace, q.Name)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return fmt.Errorf("read quota %s: %w", q.Name, err)
		}
		l.live[q.Name] = true
		p.remember(now)
		kept = append(kept, now)
	}
	l.quotas = kept
	return nil
}

// unsettled returns the waiters of batch that must be decided again: those that a quota has refused
// or failed to charge while others charge them, and those that a stale quota has not charged.
func unsettled(batch []*waiter, l *ledger) (open []*waiter) {
	for _, w := range batch {
		for _, q := range l.quotas {
			_, charged := w.charged[q.Name]
			if w.err != nil && charged || w.err == nil && !charged && l.stale[q.Name] {
				open = append(open, w)
				break
			}
		}
	}
	return open
}

// weigh decides on a dry run, without writing.
func (p *Plugin) weigh(ctx context.Context, w *waiter) error {
	quotas, err := p.quotas(ctx, w.request.Namespace)
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	l := &ledger{quotas: quotas, live: map[string]bool{}}
	for {
		l.decide([]*waiter{w})
		if w.err != nil || len(l.stale) == 0 {
			return w.err
		}
		if err := p.refresh(ctx, l); err != nil {
			return apierrors.NewInternalError(err)
		}
	}
}
