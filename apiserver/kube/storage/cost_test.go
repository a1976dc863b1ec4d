package storage

import (
	"fmt"
	"testing"
	"time"

	"github.com/planekit/planekit/internal/used"
	storagev1 "k8s.io/api/storage/v1"
)

// TestCostOfManyDrivers: an update of a CSINode with 5,000 drivers is compared in time that grows with their number.
func TestCostOfManyDrivers(t *testing.T) {
	n := &storagev1.CSINode{}
	for i := range 5000 {
		n.Spec.Drivers = append(n.Spec.Drivers, storagev1.CSINodeDriver{Name: fmt.Sprint("driver", i), NodeID: "i"})
	}
	old := n.DeepCopy()
	old.Spec.Drivers[4000].NodeID = "j"
	before := used.Processor()
	problems := validateCSINodeUpdate(n, old)
	took := used.Processor() - before
	t.Logf("it takes %v", took)
	if len(problems) != 1 || took > 2*time.Second {
		t.Errorf("validateCSINodeUpdate() = %.300v after %v, want one problem in less than 2s", problems, took)
	}
}
