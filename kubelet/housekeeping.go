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

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// housekeepingPeriod is how often leftovers are looked for.
const housekeepingPeriod = 2 * time.Second

// housekeep finds what no worker cares for: pods in the runtime, on disk or in
// cgroups that the API has no more, and workers whose pods it has no more. It
// returns when ctx is done.
func (k *Kubelet) housekeep(ctx context.Context, group *sync.WaitGroup) {
	tick := time.NewTicker(housekeepingPeriod)
	defer tick.Stop()
	for {
		k.forgetMissing()
		err := k.adoptOrphans(ctx, group)
		if err == nil {
			// Only now is it certain that nothing without a worker runs.
			err = k.sweep()
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

// inCache says that the API has the pod, as far as is known here.
func (k *Kubelet) inCache(pod *corev1.Pod) bool {
	have, ok := k.config.Pods.Get(pod.Namespace + "/" + pod.Name)
	return ok && have.UID == pod.UID
}

// forgetMissing tells workers whose pod is gone so, should the news have been
// missed.
func (k *Kubelet) forgetMissing() {
	k.mu.Lock()
	workers := slices.Collect(maps.Values(k.workers))
	k.mu.Unlock()
	for _, w := range workers {
		if pod, gone := w.current(); !gone && !k.inCache(pod) {
			w.forget()
		}
	}
}

// adoptOrphans gives the sandboxes of pods that are gone from the API workers,
// which stop them. Sandboxes of other nodes are not seen.
func (k *Kubelet) adoptOrphans(ctx context.Context, group *sync.WaitGroup) error {
	list, err := k.config.Runtime.ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{
		Filter: &runtimeapi.PodSandboxFilter{LabelSelector: map[string]string{labelNode: k.config.NodeName}},
	})
	if err != nil {
		return err
	}
	for _, s := range list.Items {
		pod := podOf(s.GetLabels())
		if pod.UID == "" || k.has(pod.UID) || k.inCache(pod) {
			continue
		}
		k.log.Info("stopping a pod that the API does not have", "pod", pod.Namespace+"/"+pod.Name, "uid", pod.UID)
		k.worker(ctx, group, pod).forget()
	}
	return nil
}

func (k *Kubelet) has(uid podUID) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.workers[uid] != nil
}

// sweepLogs removes the log directories of pods without workers: a kubelet that was
// killed may have removed everything else of them.
func (k *Kubelet) sweepLogs() error {
	entries, err := os.ReadDir(k.config.LogRoot)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	var errs []error
	for _, e := range entries {
		// NAMESPACE_NAME_UID; none of them can have an underscore.
		parts := strings.Split(e.Name(), "_")
		if e.IsDir() && len(parts) == 3 && !k.alive(podUID(parts[2])) {
			errs = append(errs, os.RemoveAll(filepath.Join(k.config.LogRoot, e.Name())))
		}
	}
	return errors.Join(errs...)
}

// sweep removes directories, logs and cgroups of pods without workers. Every pod in
// the cache has one by the time this is called.
func (k *Kubelet) sweep() error {
	var errs []error
	for _, uid := range k.onDisk() {
		if !k.alive(uid) {
			errs = append(errs, k.removePodDirectory(uid))
		}
	}
	errs = append(errs, k.sweepLogs())
	if k.config.CgroupRoot == "" {
		return errors.Join(errs...)
	}
	for _, class := range classes {
		names, err := k.cgroups.children(filepath.Join(k.config.CgroupRoot, class))
		errs = append(errs, err)
		for _, name := range names {
			if uid, ok := strings.CutPrefix(name, "pod"); ok && !k.alive(podUID(uid)) {
				errs = append(errs, k.removePodCgroups(podUID(uid)))
			}
		}
	}
	return errors.Join(errs...)
}

// alive says that a pod has a worker or is in the cache.
func (k *Kubelet) alive(uid podUID) bool {
	if k.has(uid) {
		return true
	}
	for pod := range k.config.Pods.All() {
		if pod.UID == uid {
			return true
		}
	}
	return false
}

// onDisk lists the pods that have a directory.
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
