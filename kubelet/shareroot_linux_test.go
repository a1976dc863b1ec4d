package kubelet_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/go-logr/logr/funcr"

	"github.com/planekit/planekit/kubelet/cri/memruntime"
	"github.com/planekit/planekit/kubelet/internal/fulldisk"
	"github.com/planekit/planekit/kubelet/volumes"
)

// TestShareRoot: the kubelet says that its directory cannot propagate mounts, or makes it one that can.
func TestShareRoot(t *testing.T) {
	disk := fulldisk.New(t) // a mount that is private where the tests' directory is in a private one
	before, err := volumes.IsShared(disk.Path)
	if err != nil {
		t.Fatal(err)
	}
	for _, share := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var mu sync.Mutex
			var log strings.Builder
			r := bubbleRig(t, memruntime.Config{})
			r.config.Root, r.config.ShareRoot = disk.Path, share
			r.config.LogRoot = filepath.Join(disk.Path, "logs")
			r.config.Log = funcr.New(func(prefix, args string) {
				mu.Lock()
				defer mu.Unlock()
				fmt.Fprintln(&log, prefix, args)
			}, funcr.Options{})
			r.start()
			r.stop()
			mu.Lock()
			defer mu.Unlock()
			if said := strings.Contains(log.String(), "set ShareRoot") && strings.Contains(log.String(), disk.Path); said != (!share && !before) {
				t.Errorf("with ShareRoot %v it says %q", share, log.String())
			}
			if shared, err := volumes.IsShared(r.config.Root); shared != (share || before) || err != nil {
				t.Errorf("with ShareRoot %v, it is %v that it is shared: %v", share, shared, err)
			}
		})
	}
}
