package volumebinding

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/planekit/planekit/internal/volumeclaim"
	"github.com/planekit/planekit/localcache"
	"github.com/planekit/planekit/schedule"
	corev1 "k8s.io/api/core/v1"
)

// PreBind gives volumes that a node reaches to the claims of a pod that wait for that, and waits until
// the claims are bound. It implements [schedule.PreBinder].
func (b *Binder) PreBind(ctx context.Context, pod *corev1.Pod, nodeName string) error {
	return b.preBind(ctx, pod, nodeName, b.config.Timeout)
}

// Within returns the predicate with another limit for how long PreBind waits. Zero means that claims must be
// bound at once. If timeout is negative, PreBind does nothing.
func (b *Binder) Within(timeout time.Duration) schedule.Predicate { return within{b, timeout} }

// within is a Binder with another timeout.
type within struct {
	*Binder
	timeout time.Duration
}

// PreBind implements [schedule.PreBinder].
func (w within) PreBind(ctx context.Context, pod *corev1.Pod, node string) error {
	if w.timeout < 0 {
		return nil
	}
	return w.preBind(ctx, pod, node, w.timeout)
}

func (b *Binder) preBind(ctx context.Context, pod *corev1.Pod, nodeName string, timeout time.Duration) error {
	claims, refusal := b.claimsOf(pod)
	if refusal != "" {
		return errors.New(refusal)
	}
	if len(claims.delayed) == 0 {
		return nil
	}
	node, ok := b.config.Nodes.Get(nodeName)
	if !ok {
		return fmt.Errorf("node %s not found", nodeName)
	}
	chosen, release := b.reserve(claims.delayed, node)
	defer release()
	if len(chosen) < len(claims.delayed) {
		return errors.New(unavailable)
	}
	for i, claim := range claims.delayed {
		bound, changed := volumeclaim.Bind(chosen[i], claim)
		if !changed {
			continue
		}
		if _, err := b.config.Update(ctx, bound); err != nil {
			return fmt.Errorf("binding volumes: bind %s to claim %s/%s: %w", bound.Name, claim.Namespace, claim.Name, err)
		}
	}
	if err := b.await(ctx, claims.delayed, timeout); err != nil {
		return fmt.Errorf("binding volumes: %w", err)
	}
	return nil
}

// reserve chooses volumes that no other call of PreBind chooses before release is called.
func (b *Binder) reserve(delayed []*corev1.PersistentVolumeClaim, node *corev1.Node) (chosen []*corev1.PersistentVolume, release func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	chosen = b.match(delayed, node)
	for _, v := range chosen {
		b.reserved[v.Name] = true
	}
	return chosen, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, v := range chosen {
			delete(b.reserved, v.Name)
		}
	}
}

// await waits until all claims are bound in the cache.
func (b *Binder) await(ctx context.Context, delayed []*corev1.PersistentVolumeClaim, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	changed := make(chan struct{}, 1) // one signal is as good as many
	subscription := b.config.Claims.Subscribe(func(_, _ *corev1.PersistentVolumeClaim) {
		select {
		case changed <- struct{}{}:
		default:
		}
	})
	defer subscription.Stop()
	for {
		waiting := ""
		for _, before := range delayed {
			claim, ok := b.config.Claims.Get(localcache.KeyOf(before))
			if !ok || claim.UID != before.UID {
				return fmt.Errorf("claim %s/%s is gone", before.Namespace, before.Name)
			}
			if !volumeclaim.IsBound(claim) {
				waiting = claim.Name
			}
		}
		if waiting == "" {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("claim %s is not bound: %w", waiting, ctx.Err())
		}
	}
}
