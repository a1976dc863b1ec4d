package critest

import (
	"slices"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

func (e *env) update(id string, r *runtimeapi.LinuxContainerResources) error {
	_, err := e.Runtime.UpdateContainerResources(e.ctx, &runtimeapi.UpdateContainerResourcesRequest{ContainerId: id, Linux: r})
	return err
}

// limited starts a container with limits.
func (e *env) limited() string {
	e.Helper()
	sandbox, of := e.sandbox("a")
	config := e.containerConfig("a", "run")
	config.Linux.Resources = &runtimeapi.LinuxContainerResources{
		CpuShares: 100, CpuQuota: 20000, CpuPeriod: 100000, MemoryLimitInBytes: 64 << 20,
	}
	id := e.create(sandbox, of, config)
	e.start(id)
	e.ready("a")
	return id
}

// checkUpdateResources: a running container can be resized.
func checkUpdateResources(e *env) {
	id := e.limited()
	e.succeeds(e.update(id, &runtimeapi.LinuxContainerResources{CpuShares: 200, MemoryLimitInBytes: 96 << 20}), "update")
	e.containerIs(id, containerRunning)
}

// checkResourceStatus: the status has what was set, and an update keeps what it does not name.
func checkResourceStatus(e *env) {
	id := e.limited()
	e.hasResources(id, 100, 20000, 64<<20)
	e.succeeds(e.update(id, &runtimeapi.LinuxContainerResources{CpuShares: 200}), "update the shares")
	e.hasResources(id, 200, 20000, 64<<20)
	e.succeeds(e.update(id, &runtimeapi.LinuxContainerResources{CpuQuota: 30000, CpuPeriod: 100000, MemoryLimitInBytes: 96 << 20}), "update the limits")
	e.hasResources(id, 200, 30000, 96<<20)
}

func (e *env) hasResources(id string, shares, quota, memory int64) {
	e.Helper()
	r := e.status(id).GetResources().GetLinux()
	if r.GetCpuShares() != shares || r.GetCpuQuota() != quota || r.GetCpuPeriod() != 100000 || r.GetMemoryLimitInBytes() != memory {
		e.Errorf("the resources are %v, want shares %d, quota %d, memory %d", r, shares, quota, memory)
	}
}

// checkStats: a running container has statistics, by each filter that matches it.
func checkStats(e *env) {
	sandbox, id := e.running("a", "run")
	other, _ := e.running("b", "run")
	for _, test := range []struct {
		name   string
		filter *runtimeapi.ContainerStatsFilter
		want   bool
	}{
		{"nothing", nil, true},
		{"id", &runtimeapi.ContainerStatsFilter{Id: id}, true},
		{"unknown id", &runtimeapi.ContainerStatsFilter{Id: unknownID}, false},
		{"sandbox", &runtimeapi.ContainerStatsFilter{PodSandboxId: sandbox}, true},
		{"another sandbox", &runtimeapi.ContainerStatsFilter{PodSandboxId: other}, false},
		{"labels", &runtimeapi.ContainerStatsFilter{LabelSelector: map[string]string{"check": e.id, "name": "a"}}, true},
		{"another label", &runtimeapi.ContainerStatsFilter{LabelSelector: map[string]string{"check": e.id, "name": "b"}}, false},
	} {
		out, err := e.Runtime.ListContainerStats(e.ctx, &runtimeapi.ListContainerStatsRequest{Filter: test.filter})
		e.succeeds(err, "stats by "+test.name)
		i := slices.IndexFunc(out.GetStats(), func(s *runtimeapi.ContainerStats) bool { return s.GetAttributes().GetId() == id })
		if i >= 0 != test.want {
			e.Errorf("stats by %s: found: %v, want %v", test.name, i >= 0, test.want)
		}
		if i < 0 {
			continue
		}
		s := out.GetStats()[i]
		if s.GetAttributes().GetMetadata().GetName() != "a" || !contains(s.GetAttributes().GetLabels(), map[string]string{"check": e.id, "name": "a"}) ||
			s.GetCpu().GetTimestamp() == 0 || s.GetMemory().GetTimestamp() == 0 || s.GetCpu().GetUsageCoreNanoSeconds() == nil || s.GetMemory().GetWorkingSetBytes() == nil {
			e.Errorf("stats by %s: %v", test.name, s)
		}
	}
}
