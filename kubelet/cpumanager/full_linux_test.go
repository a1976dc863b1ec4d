package cpumanager

import (
	"path/filepath"
	"testing"

	"github.com/planekit/planekit/internal/wholefile"
	"github.com/planekit/planekit/kubelet/internal/fulldisk"
)

// TestWriteOnAFullDisk: the old file stays whole, and nothing is left of the new one.
func TestWriteOnAFullDisk(t *testing.T) {
	disk := fulldisk.New(t)
	path := filepath.Join(disk.Path, "pod", "state")
	disk.CheckReplace(path, func(text string) error { return wholefile.Write(path, []byte(text), 0o600) })
}
