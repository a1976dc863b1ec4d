package core

import (
	"fmt"
	"testing"
	"time"

	"github.com/planekit/planekit/apiserver/kube/internal/check"
	"github.com/planekit/planekit/internal/used"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// TestCostOfManyTolerations: the tolerations of a pod are compared in time that grows with their number. A change of their
// time is allowed, and any other is not.
func TestCostOfManyTolerations(t *testing.T) {
	var old, longer []corev1.Toleration
	for i := range 5000 {
		old = append(old, corev1.Toleration{Key: fmt.Sprint("key", i), TolerationSeconds: new(int64(5))})
		longer = append(longer, corev1.Toleration{Key: fmt.Sprint("key", 4999-i), TolerationSeconds: new(int64(7))})
	}
	for want, now := range map[int][]corev1.Toleration{0: longer, 1: longer[1:]} {
		var ps check.Problems
		before := used.Processor()
		checkAddedTolerations(&ps, field.NewPath("spec"), now, old)
		took := used.Processor() - before
		t.Logf("%d of 5,000: %v", len(now), took)
		if len(ps.List) != want || took > time.Second {
			t.Errorf("checkAddedTolerations() with %d of 5000 = %v after %v, want %d problems in less than 1s", len(now), ps.List, took, want)
		}
	}
}
