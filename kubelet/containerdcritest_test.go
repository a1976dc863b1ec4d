package kubelet_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/planekit/planekit/kubelet/cri"
	"github.com/planekit/planekit/kubelet/cri/critest"
	"github.com/planekit/planekit/kubelet/internal/cgroup"
)

// containerdCritest: containerd does what package critest expects of a runtime.
func containerdCritest(t *testing.T, c *containerd, client *cri.Client, parent string) {
	logs := filepath.Join(c.dir, "critest")
	if err := os.Mkdir(logs, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := (cgroup.FS{Mount: "/sys/fs/cgroup"}).Remove(parent); err != nil {
			t.Error(err)
		}
	})
	critest.Run(t, critest.Config{
		Runtime: client, Image: actorImage, Command: []string{"/actor", "critest"}, LogRoot: logs, CgroupParent: parent,
		// Sandboxes of this containerd have no network that gives each an address of its own.
		Lacks: []critest.Feature{critest.PodNetwork, critest.Pulls, critest.Events, critest.Resources, critest.ImageFilters, critest.UnknownStops},
	})
}
