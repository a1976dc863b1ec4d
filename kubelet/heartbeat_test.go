package kubelet_test

import (
	"strings"
	"testing"
	"time"

	"github.com/planekit/planekit/kubelet"
	"github.com/planekit/planekit/kubelet/cri/memruntime"
)

// TestHeartbeat checks that the node reports more often than it could with the default intervals.
func TestHeartbeat(t *testing.T) {
	r := newRig(t, memruntime.Config{})
	r.config.Heartbeat = kubelet.Heartbeat{StatusPeriod: 10 * time.Millisecond, ReportPeriod: time.Millisecond, LeaseSeconds: 1}
	r.start()
	versions := map[string]bool{}
	eventually(t, "the lease was renewed and the node reported 20 times", func() bool {
		r.api.mu.Lock()
		defer r.api.mu.Unlock()
		versions[r.api.node.ResourceVersion] = true
		return r.api.renewals >= 20 && len(versions) >= 20 && *r.api.lease.Spec.LeaseDurationSeconds == 1
	})
	for _, h := range []kubelet.Heartbeat{{StatusPeriod: -1}, {ReportPeriod: -1}, {LeaseSeconds: -1}} {
		c := r.config
		c.Heartbeat = h
		if _, err := kubelet.New(c); err == nil || !strings.Contains(err.Error(), "Heartbeat has a negative field") {
			t.Errorf("New with %+v = %v, want an error with %q", h, err, "Heartbeat has a negative field")
		}
	}
}
