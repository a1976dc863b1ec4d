package kubelet

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"github.com/planekit/planekit/kubelet/internal/lifecycle"
	corev1 "k8s.io/api/core/v1"
)

// protectTimeout bounds one call of Config.Protect, which takes milliseconds. The next attempt is after retrySync.
const protectTimeout = 10 * time.Second

// protect calls Config.Protect with the addresses of a sandbox, once, before any of its containers starts. The pod stays as it is
// after an error: nothing of it has run.
func (w *worker) protect(ctx context.Context, pod *corev1.Pod, sandbox *lifecycle.Sandbox) error {
	protect := w.kubelet.config.Protect
	if protect == nil || pod.Spec.HostNetwork || w.protected == sandbox.ID {
		return nil
	}
	var addresses []netip.Addr
	for _, ip := range sandbox.IPs {
		a, err := netip.ParseAddr(ip)
		if err != nil {
			return fmt.Errorf("sandbox %s: %w", sandbox.ID, err)
		}
		addresses = append(addresses, a.Unmap())
	}
	bounded, done := context.WithTimeout(ctx, protectTimeout)
	defer done()
	if err := protect(bounded, pod, addresses); err != nil {
		if ctx.Err() == nil {
			w.kubelet.events.Pod(pod, nil, corev1.EventTypeWarning, "NetworkNotReady", fmt.Sprintf("network is not ready: the pod is not protected: %v", err))
		}
		return fmt.Errorf("protect %v: %w", addresses, err)
	}
	w.protected = sandbox.ID
	return nil
}
