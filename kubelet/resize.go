package kubelet

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/planekit/planekit/kubelet/internal/allocation"
	"github.com/planekit/planekit/kubelet/internal/lifecycle"
	"github.com/planekit/planekit/kubelet/internal/podconfig"
	"github.com/planekit/planekit/kubelet/internal/qos"
	"github.com/planekit/planekit/kubelet/internal/resize"
	corev1 "k8s.io/api/core/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// retryResize is the delay after a resize that could not be carried out.
const retryResize = 10 * time.Second

// resizing holds back a resize that could not be carried out, unless the pod has changed since.
type resizing struct {
	until      time.Time
	generation int64
}

func (k *Kubelet) newAllocations() *allocation.Manager {
	return allocation.New(allocation.Config{
		Directory: k.podConfig.PodDirectory, Pods: k.onNode, Wake: k.wake, Log: k.log,
		StaticCPU:   k.config.CPUManager.Policy == "static",
		Allocatable: func() corev1.ResourceList { return k.allocatable(k.host.Capacity) },
		Infeasible:  k.config.Meters.ResizeInfeasible, Accepted: k.config.Meters.ResizeAccepted,
		Event: func(pod *corev1.Pod, kind, reason, message string) { k.events.Pod(pod, nil, kind, reason, message) },
	})
}

// onNode returns the newest version of every pod on the node, including those that the API no longer
// has but that still run.
func (k *Kubelet) onNode() []*corev1.Pod {
	all := map[podUID]*corev1.Pod{}
	k.mu.Lock()
	workers := slices.Collect(maps.Values(k.workers))
	k.mu.Unlock()
	for _, w := range workers {
		all[w.uid], _ = w.current()
	}
	for pod := range k.pods.All() {
		if pod.Spec.NodeName == k.config.NodeName && checkNames(pod) == nil {
			all[pod.UID] = pod
		}
	}
	return slices.Collect(maps.Values(all))
}

// holdResize removes a resize from a decision that must not be retried yet.
func (w *worker) holdResize(pod *corev1.Pod, d *lifecycle.Decision) {
	if len(d.Resize) == 0 && !d.ResizePod || w.resizing.generation != pod.Generation || !time.Now().Before(w.resizing.until) {
		return
	}
	d.Resize, d.ResizePod = nil, false
	d.LookAgain(w.resizing.until)
}

// resizeFailed reports a resize that could not be carried out, and holds back the next attempt.
func (w *worker) resizeFailed(pod *corev1.Pod, err error) {
	w.kubelet.log.Info("pod not resized", "uid", w.uid, "error", err.Error())
	w.kubelet.allocations.Failed(pod, err.Error())
	w.resizing = resizing{until: time.Now().Add(retryResize), generation: pod.Generation}
}

// resize carries out the steps of a resize. It stops at the first that fails; the others are planned
// again.
func (w *worker) resize(ctx context.Context, pod *corev1.Pod, state *lifecycle.State, d *lifecycle.Decision) (err error) {
	k := w.kubelet
	if meter, began := k.config.Meters.Resized, time.Now(); meter != nil {
		defer func() { meter(time.Since(began), err == nil) }()
	}
	want := qos.Limits(pod)
	now, path := want, k.podCgroup(pod)
	if path != "" {
		limits, err := k.cgroups.Limits(path)
		if err != nil {
			return fmt.Errorf("unable to get pod cgroup config for pod %q: %w", lifecycle.PodName(pod), err)
		}
		if now = limits; state.Cgroup != nil {
			now = *state.Cgroup // what was written, before the kernel rounded it
		}
	}
	if err := w.checkMemory(ctx, pod, resize.Shrinks(now, want, d.Resize)); err != nil {
		return err
	}
	for _, step := range resize.Steps(now, want, d.Resize) {
		if err := w.resizeStep(ctx, pod, step); err != nil {
			return err
		}
	}
	if path != "" || state.Cgroup != nil { // the pod may have had one
		k.allocations.SetCgroup(pod.UID, resize.Target(now, want))
		k.updateClasses()
	}
	return nil
}

// resizeStep carries out one step and records it.
func (w *worker) resizeStep(ctx context.Context, pod *corev1.Pod, step resize.Step) error {
	k := w.kubelet
	if u := step.Container; u != nil {
		c := *u.Spec
		c.Resources = step.Size
		_, err := k.config.Runtime.UpdateContainerResources(ctx, &runtimeapi.UpdateContainerResourcesRequest{
			ContainerId: u.ID, Linux: k.podConfig.Resources(pod, &c),
		})
		if err != nil {
			return err
		}
		w.observer.Forget(u.ID)
		k.allocations.SetContainer(pod.UID, c.Name, step.Size)
		return nil
	}
	path, l := k.podCgroup(pod), step.Cgroup
	var err error
	switch {
	case l.Memory != step.Before.Memory:
		err = k.cgroups.SetMemory(path, l.Memory)
	case l.Quota != step.Before.Quota:
		err = k.cgroups.SetQuota(path, l.Quota)
	case l.Shares != step.Before.Shares:
		err = k.cgroups.SetShares(path, l.Shares)
	}
	if err != nil {
		return err
	}
	k.allocations.SetCgroup(pod.UID, l)
	return nil
}

// checkMemory returns an error if a memory limit would be lower than what is in use. The kernel would
// refuse it, or kill processes.
func (w *worker) checkMemory(ctx context.Context, pod *corev1.Pod, shrinks []resize.Shrink) error {
	if len(shrinks) == 0 {
		return nil
	}
	containers, total, err := w.memoryUsage(ctx, pod)
	if err != nil {
		return fmt.Errorf("unable to read memory usage for pod %q: %w", lifecycle.PodName(pod), err)
	}
	var errs []error
	for _, s := range shrinks {
		used, known := containers[s.Container]
		switch {
		case s.Container == "" && total >= s.Limit:
			errs = append(errs, fmt.Errorf("attempting to set pod memory limit (%d) below current usage (%d)", s.Limit, total))
		case s.Container != "" && !known:
			errs = append(errs, fmt.Errorf("missing container %q memory usage", s.Container))
		case s.Container != "" && used >= s.Limit:
			errs = append(errs, fmt.Errorf("attempting to set container %q memory limit (%d) below current usage (%d)", s.Container, s.Limit, used))
		}
	}
	if err := utilerrors.NewAggregate(errs); err != nil {
		return fmt.Errorf("cannot decrease memory limits: %w", err)
	}
	return nil
}

// memoryUsage returns the memory that the containers of a pod use, by name, and the pod as a whole.
func (w *worker) memoryUsage(ctx context.Context, pod *corev1.Pod) (map[string]int64, int64, error) {
	k := w.kubelet
	stats, ok := k.config.Runtime.(StatsSource)
	if !ok {
		return nil, 0, errors.New("the runtime has no statistics")
	}
	list, err := stats.ListContainerStats(ctx, &runtimeapi.ListContainerStatsRequest{Filter: &runtimeapi.ContainerStatsFilter{
		LabelSelector: map[string]string{podconfig.LabelNode: k.config.NodeName, podconfig.LabelPodUID: string(pod.UID)},
	}})
	if err != nil {
		return nil, 0, err
	}
	used, total := map[string]int64{}, int64(0)
	for _, s := range list.GetStats() {
		n := s.GetMemory().GetUsageBytes().GetValue()
		if s.GetMemory().GetUsageBytes() == nil {
			n = s.GetMemory().GetWorkingSetBytes().GetValue()
		}
		used[s.GetAttributes().GetMetadata().GetName()] = int64(n)
		total += int64(n)
	}
	if path := k.podCgroup(pod); path != "" {
		total, err = k.cgroups.MemoryUsage(path)
	}
	return used, total, err
}
