package kubelet_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/planekit/planekit/kubelet"
	"github.com/planekit/planekit/kubelet/cri/memruntime"
	"github.com/planekit/planekit/kubelet/internal/machine"
)

// TestRequirements: a kubelet runs only on a machine that is as required.
func TestRequirements(t *testing.T) {
	separate, unified := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(unified, "cgroup.controllers"), []byte("cpu memory"), 0o600); err != nil {
		t.Fatal(err)
	}
	wrong, swap := "", ""
	if err := machine.CheckKernelDefaults("/proc"); err != nil {
		wrong = err.Error()
	}
	if swaps, err := machine.Swaps("/proc"); err != nil || swaps {
		swap = "running with swap on is not supported"
	}
	for _, test := range []struct {
		require kubelet.Requirements
		mount   string
		want    string // of the error; empty if the kubelet runs
	}{
		{kubelet.Requirements{}, separate, ""},
		{kubelet.Requirements{Unified: true}, separate, "kubelet is configured to not run on a host using cgroup v1"},
		{kubelet.Requirements{Unified: true}, unified, ""},
		{kubelet.Requirements{NoSwap: true}, separate, swap},
		{kubelet.Requirements{KernelDefaults: true}, separate, wrong},
	} {
		inBubble(t, memruntime.Config{}, func(t *testing.T, r *rig) {
			r.config.Require, r.config.CgroupMount = test.require, test.mount
			if test.want == "" {
				r.start()
				return
			}
			k, err := kubelet.New(r.config)
			if err != nil {
				t.Fatal(err)
			}
			if err := k.Run(t.Context()); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%+v: %v, want %q", test.require, err, test.want)
			}
			if _, err := os.Stat(r.config.Root); err == nil {
				t.Errorf("%+v: the kubelet has made its directory", test.require)
			}
			r.stop = func() {}
		})
	}
}
