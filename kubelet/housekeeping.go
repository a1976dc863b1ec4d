package kubelet

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/planekit/planekit/kubelet/internal/observe"
	"github.com/planekit/planekit/kubelet/internal/podconfig"
	"github.com/planekit/planekit/kubelet/internal/stoppods"
	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// housekeepingPeriod is the interval of housekeeping.
const housekeepingPeriod = 2 * time.Second

// housekeeper cleans up what no worker handles: pods in the runtime, on disk or in cgroups that are
// no longer in the API, and workers of such pods.
type housekeeper struct{ kubelet *Kubelet }

// run cleans up at intervals until ctx is done. It starts the workers of what it finds in group.
func (h *housekeeper) run(ctx context.Context, group *sync.WaitGroup) {
	k := h.kubelet
	tick := time.NewTicker(housekeepingPeriod)
	defer tick.Stop()
	for {
		h.forgetMissing()
		err := h.adoptOrphans(ctx, group)
		if err == nil {
			// Now everything that runs has a worker.
			err = h.sweep(ctx)
		}
		if err != nil && ctx.Err() == nil {
			k.log.Error(err, "housekeeping")
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// inCache reports whether the cache contains the pod.
func (k *Kubelet) inCache(pod *corev1.Pod) bool {
	have, ok := k.pods.Get(pod.Namespace + "/" + pod.Name)
	return ok && have.UID == pod.UID
}

// forgetMissing notifies workers whose pod is no longer in the cache, in case the event was missed.
func (h *housekeeper) forgetMissing() {
	k := h.kubelet
	k.mu.Lock()
	workers := slices.Collect(maps.Values(k.workers))
	k.mu.Unlock()
	for _, w := range workers {
		if pod, gone := w.current(); !gone && !k.inCache(pod) {
			w.forget()
		}
	}
}

// adoptOrphans creates workers that stop the sandboxes of pods that are no longer in the API. It
// ignores sandboxes of other nodes.
func (h *housekeeper) adoptOrphans(ctx context.Context, group *sync.WaitGroup) error {
	k := h.kubelet
	list, err := k.config.Runtime.ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{
		Filter: &runtimeapi.PodSandboxFilter{LabelSelector: map[string]string{podconfig.LabelNode: k.config.NodeName}},
	})
	if err != nil {
		return err
	}
	for _, s := range list.Items {
		pod := observe.Pod(s.GetLabels())
		if pod.UID == "" || k.has(pod.UID) || k.inCache(pod) {
			continue
		}
		k.log.Info("stopping a pod that the API does not have", "pod", pod.Namespace+"/"+pod.Name, "uid", pod.UID)
		k.worker(ctx, group, pod).forget()
	}
	return nil
}

func (k *Kubelet) has(uid podUID) bool { return k.find(uid) != nil }

// sweepLogs removes the log directories of pods without workers. A kubelet that was killed may have
// removed everything else of these pods.
func (h *housekeeper) sweepLogs() error {
	k := h.kubelet
	entries, err := os.ReadDir(k.config.LogRoot)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	var errs []error
	for _, e := range entries {
		// NAMESPACE_NAME_UID; none of them can contain an underscore.
		parts := strings.Split(e.Name(), "_")
		if e.IsDir() && len(parts) == 3 && !k.alive(podUID(parts[2])) {
			errs = append(errs, os.RemoveAll(filepath.Join(k.config.LogRoot, e.Name())))
		}
	}
	return errors.Join(errs...)
}

// sweep removes directories, logs and cgroups of pods without workers. It must be called after
// every pod in the cache has a worker.
func (h *housekeeper) sweep(ctx context.Context) error {
	k := h.kubelet
	var errs []error
	for _, uid := range k.onDisk() {
		if !k.alive(uid) {
			errs = append(errs, k.removePodDirectory(ctx, uid))
		}
	}
	errs = append(errs, h.sweepLogs())
	uids, err := k.groups.Found()
	errs = append(errs, err)
	for _, uid := range uids {
		if !k.alive(uid) {
			errs = append(errs, k.groups.Remove(uid))
		}
	}
	return errors.Join(errs...)
}

// alive reports whether a pod has a worker or is in the cache.
func (k *Kubelet) alive(uid podUID) bool {
	if k.has(uid) {
		return true
	}
	for pod := range k.pods.All() {
		if pod.UID == uid {
			return true
		}
	}
	return false
}

// onDisk returns the pods that have a directory.
func (k *Kubelet) onDisk() []podUID {
	entries, err := os.ReadDir(filepath.Join(k.config.Root, "pods"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		k.log.Error(err, "list pod directories")
	}
	var uids []podUID
	for _, e := range entries {
		if e.IsDir() {
			uids = append(uids, podUID(e.Name()))
		}
	}
	return uids
}

// newStopper returns what StopPods needs.
func (k *Kubelet) newStopper() *stoppods.Stopper {
	return stoppods.New(stoppods.Config{
		Runtime: k.config.Runtime, NodeName: k.config.NodeName, Grace: k.config.StopGrace, Now: k.config.StopNow,
		Clean: func(ctx context.Context, pods map[podUID]bool) error {
			for _, uid := range k.onDisk() {
				pods[uid] = true
			}
			var errs []error
			for uid := range pods {
				if uid != "" {
					errs = append(errs, k.tearDownVolumes(ctx, uid), k.groups.Remove(uid))
				}
			}
			return errors.Join(append(errs, k.groups.RemoveEmpty())...)
		},
	})
}

// StopPods stops and removes all sandboxes of this node, its pods' mounts and its cgroups. It does
// not change the API, so that a kubelet that runs later starts the same pods again. Call it after
// Run has returned, or without Run; it uses the runtime's state.
func (k *Kubelet) StopPods(ctx context.Context) error { return k.stopper.Stop(ctx) }

// Stopping returns the sorted namespace/name of the pods that StopPods is stopping.
func (k *Kubelet) Stopping() []string { return k.stopper.Stopping() }
