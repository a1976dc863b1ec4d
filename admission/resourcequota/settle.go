package resourcequota

import (
	"context"
	"errors"
	"fmt"

	"github.com/planekit/planekit/internal/usage"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// errUnsettled is what a batch is told that cannot be charged in time.
var errUnsettled = errors.New("resource quota evaluation timed out")

// ledger is the quotas of a namespace while a batch is charged.
type ledger struct {
	quotas []*corev1.ResourceQuota
	// used is what quotas would be after the charges so far, by name.
	used map[string]corev1.ResourceList
	// charges are the waiters for whom a quota is about to be written.
	charges map[string][]*waiter
	// live are the quotas that were read or written during this batch; stale
	// those that must be.
	live, stale map[string]bool
}

// settle charges or refuses every waiter of batch. What is to be charged to a
// quota is added up and written at once; if the quota has moved it is read, and
// the same waiters are decided on again.
func (p *Plugin) settle(ctx context.Context, namespace string, batch []*waiter) {
	fail := func(err error) {
		for _, w := range batch {
			w.err = apierrors.NewInternalError(err)
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
			if waiters := l.charges[q.Name]; len(waiters) > 0 {
				l.quotas[i] = p.write(ctx, l, q, waiters)
			}
		}
		batch = unsettled(batch, l)
		if err := p.refresh(ctx, l); err != nil {
			fail(err)
			return
		}
	}
}

// decide weighs every waiter against what the ones before it leave, and returns
// those that are not refused.
func (l *ledger) decide(batch []*waiter) (open []*waiter) {
	l.used, l.charges, l.stale = map[string]corev1.ResourceList{}, map[string][]*waiter{}, map[string]bool{}
	for _, w := range batch {
		if w.err = l.enter(w); w.err == nil {
			open = append(open, w)
		}
	}
	return open
}

// enter adds the demand of w to all quotas that it was not charged to before,
// or to none and fails. A quota that it exceeds and that may be old is noted as
// stale instead.
func (l *ledger) enter(w *waiter) error {
	demands := map[string]corev1.ResourceList{}
	stale := false
	for _, q := range l.quotas {
		if w.charged[q.Name] {
			continue
		}
		more, err := w.of(q)
		if err != nil {
			return err
		}
		if len(more) == 0 {
			continue
		}
		used, ok := l.used[q.Name]
		if !ok {
			used = q.Status.Used.DeepCopy()
		}
		if err := w.fits(q, used, more); err != nil {
			if l.live[q.Name] {
				return err
			}
			l.stale[q.Name], stale = true, true
		}
		demands[q.Name] = more
		l.used[q.Name] = used
	}
	if stale {
		return nil
	}
	for name, more := range demands {
		usage.Add(l.used[name], more)
		l.charges[name] = append(l.charges[name], w)
	}
	return nil
}

// write writes the usage of q and returns the quota as it is now. Where that is
// not known, because q has moved, it is noted as stale.
func (p *Plugin) write(ctx context.Context, l *ledger, q *corev1.ResourceQuota, waiters []*waiter) *corev1.ResourceQuota {
	next := q.DeepCopy()
	next.Status.Used = l.used[q.Name]
	stored, err := p.config.Writer.UpdateStatus(ctx, next)
	switch {
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		l.stale[q.Name] = true
		return q
	case err != nil:
		// It may have been written or not. Whoever comes next reads it first.
		l.stale[q.Name] = true
		for _, w := range waiters {
			w.err = apierrors.NewInternalError(fmt.Errorf("charge quota %s: %w", q.Name, err))
		}
		return q
	}
	for _, w := range waiters {
		w.charged[q.Name] = true
	}
	l.live[q.Name] = true
	p.remember(stored)
	return stored
}

// refresh reads the stale quotas. Those that are gone limit nobody.
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

// unsettled are those of batch that still exceed or are to be charged to a
// quota which was stale.
func unsettled(batch []*waiter, l *ledger) (open []*waiter) {
	for _, w := range batch {
		if w.err != nil {
			continue
		}
		for _, q := range l.quotas {
			if l.stale[q.Name] && !w.charged[q.Name] {
				open = append(open, w)
				break
			}
		}
	}
	return open
}

// weigh decides on a dry run: nothing is written.
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
