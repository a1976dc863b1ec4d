package memruntime_test

import (
	"testing"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/planekit/planekit/kubelet/cri/memruntime"
)

// TestStats: what runs uses what its behavior says, and nothing else does.
func TestStats(t *testing.T) {
	h := start(t, memruntime.Config{Behave: func(*runtimeapi.ContainerConfig) memruntime.Behavior {
		return memruntime.Behavior{CPU: 250e6, Memory: 5 << 20}
	}})
	h.setRange("10.0.0.0/24")
	sandbox, running := h.running("web")
	_, stopped := h.running("gone")
	if _, err := h.StopContainer(t.Context(), &runtimeapi.StopContainerRequest{ContainerId: stopped}); err != nil {
		t.Fatal(err)
	}
	list := func(f *runtimeapi.ContainerStatsFilter) []*runtimeapi.ContainerStats {
		t.Helper()
		out, err := h.ListContainerStats(t.Context(), &runtimeapi.ListContainerStatsRequest{Filter: f})
		if err != nil {
			t.Fatal(err)
		}
		return out.Stats
	}
	all := list(nil)
	if len(all) != 1 || all[0].Attributes.Id != running || all[0].Memory.WorkingSetBytes.Value != 5<<20 || all[0].Cpu.UsageNanoCores != nil {
		t.Fatalf("ListContainerStats() = %v, want only %s with a working set of %d bytes and no UsageNanoCores", all, running, 5<<20)
	}
	one := all[0]
	// CPU time is a quarter of the time that it runs, to the nanosecond.
	want := uint64(one.Cpu.Timestamp-h.status(running).StartedAt) / 4
	if got := one.Cpu.UsageCoreNanoSeconds.Value; got != want || got == 0 {
		t.Errorf("%d nanoseconds of CPU, want %d", got, want)
	}
	for name, test := range map[string]struct {
		filter *runtimeapi.ContainerStatsFilter
		want   int
	}{
		"its id":      {&runtimeapi.ContainerStatsFilter{Id: running}, 1},
		"another id":  {&runtimeapi.ContainerStatsFilter{Id: stopped}, 0},
		"its sandbox": {&runtimeapi.ContainerStatsFilter{PodSandboxId: sandbox}, 1},
		"no sandbox":  {&runtimeapi.ContainerStatsFilter{PodSandboxId: "none"}, 0},
		"a label":     {&runtimeapi.ContainerStatsFilter{LabelSelector: map[string]string{"nobody": "has"}}, 0},
	} {
		if got := list(test.filter); len(got) != test.want {
			t.Errorf("by %s: %v", name, got)
		}
	}
}
