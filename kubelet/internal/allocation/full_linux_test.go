package allocation

import (
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/planekit/planekit/kubelet/internal/fulldisk"
)

// TestWriteOnAFullDisk: the old file stays whole, and nothing is left of the new one.
func TestWriteOnAFullDisk(t *testing.T) {
	disk := fulldisk.New(t)
	path := filepath.Join(disk.Path, "pod", "state")
	disk.CheckReplace(path, func(text string) error {
		r := &record{}
		r.Allocated.Containers = map[string]corev1.ResourceRequirements{text: {}}
		return write(path, r)
	})
}
