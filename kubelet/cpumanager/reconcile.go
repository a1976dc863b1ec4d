package cpumanager

import (
	"context"
	"errors"
	"fmt"

	"github.com/planekit/planekit/kubelet/internal/podconfig"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Runtime lists containers and changes their resources.
type Runtime interface {
	ListContainers(context.Context, *runtimeapi.ListContainersRequest) (*runtimeapi.ListContainersResponse, error)
	UpdateContainerResources(context.Context, *runtimeapi.UpdateContainerResourcesRequest) (*runtimeapi.UpdateContainerResourcesResponse, error)
}

// reconciler brings running containers to their CPUs. One goroutine uses it.
type reconciler struct {
	manager *Manager
	// applied are the CPUs that containers were last updated to, by container ID.
	applied map[string]string
}

// reconcile updates the running containers whose CPUs are not those of the last update. A container that
// is created with its CPUs is updated once more.
func (r *reconciler) reconcile(ctx context.Context) error {
	m := r.manager
	list, err := m.config.Runtime.ListContainers(ctx, &runtimeapi.ListContainersRequest{Filter: &runtimeapi.ContainerFilter{
		State:         &runtimeapi.ContainerStateValue{State: runtimeapi.ContainerState_CONTAINER_RUNNING},
		LabelSelector: m.config.Labels,
	}})
	if err != nil {
		return fmt.Errorf("list containers: %w", err)
	}
	var errs []error
	applied := map[string]string{}
	for _, c := range list.GetContainers() {
		labels := c.GetLabels()
		cpus := m.For(types.UID(labels[podconfig.LabelPodUID]), labels[podconfig.LabelContainerName]).String()
		if cpus == "" {
			continue // with StrictCPUReservation, all CPUs may be owned
		}
		if r.applied[c.GetId()] == cpus {
			applied[c.GetId()] = cpus
			continue
		}
		_, err := m.config.Runtime.UpdateContainerResources(ctx, &runtimeapi.UpdateContainerResourcesRequest{
			ContainerId: c.GetId(), Linux: &runtimeapi.LinuxContainerResources{CpusetCpus: cpus},
		})
		switch {
		case err == nil:
			applied[c.GetId()] = cpus
		case status.Code(err) != codes.NotFound:
			errs = append(errs, fmt.Errorf("container %s: %w", c.GetId(), err))
		}
	}
	r.applied = applied
	return errors.Join(errs...)
}
