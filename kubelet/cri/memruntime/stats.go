package memruntime

import (
	"context"
	"math/bits"
	"slices"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// ListContainerStats returns the usage of running containers that match the filter, oldest first.
func (r *Runtime) ListContainerStats(_ context.Context, in *runtimeapi.ListContainerStatsRequest) (*runtimeapi.ListContainerStatsResponse, error) {
	f := in.GetFilter()
	r.mu.Lock()
	defer r.mu.Unlock()
	var found []*container
	for _, c := range r.containers {
		if c.state() != runtimeapi.ContainerState_CONTAINER_RUNNING ||
			f.GetId() != "" && f.GetId() != c.id ||
			f.GetPodSandboxId() != "" && f.GetPodSandboxId() != c.sandbox.id ||
			!selects(f.GetLabelSelector(), c.config.GetLabels()) {
			continue
		}
		found = append(found, c)
	}
	sortByCreation(found)
	out := &runtimeapi.ListContainerStatsResponse{}
	for _, c := range found {
		out.Stats = append(out.Stats, c.stats(r.now()))
	}
	return out, nil
}

func sortByCreation(list []*container) {
	slices.SortFunc(list, func(a, b *container) int { return int(a.created - b.created) })
}

// ContainerStats returns the usage of a running container.
func (r *Runtime) ContainerStats(_ context.Context, in *runtimeapi.ContainerStatsRequest) (*runtimeapi.ContainerStatsResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c, err := r.running(in.GetContainerId())
	if err != nil {
		return nil, err
	}
	return &runtimeapi.ContainerStatsResponse{Stats: c.stats(r.now())}, nil
}

func (c *container) stats(now int64) *runtimeapi.ContainerStats {
	// The product of a CPU rate and several weeks does not fit into 64 bits.
	high, low := bits.Mul64(c.behavior.CPU, uint64(now-c.started))
	used, _ := bits.Div64(high%uint64(time.Second), low, uint64(time.Second))
	return &runtimeapi.ContainerStats{
		Attributes: &runtimeapi.ContainerAttributes{
			Id: c.id, Metadata: c.config.GetMetadata(), Labels: c.config.GetLabels(), Annotations: c.config.GetAnnotations(),
		},
		Cpu:    &runtimeapi.CpuUsage{Timestamp: now, UsageCoreNanoSeconds: &runtimeapi.UInt64Value{Value: used}},
		Memory: &runtimeapi.MemoryUsage{Timestamp: now, WorkingSetBytes: &runtimeapi.UInt64Value{Value: c.behavior.Memory}},
	}
}
