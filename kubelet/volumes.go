package kubelet

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/planekit/planekit/internal/volumeclaim"
	"github.com/planekit/planekit/kubelet/internal/qos"
	"github.com/planekit/planekit/kubelet/internal/tree"
	"github.com/planekit/planekit/kubelet/volumes"
	"github.com/planekit/planekit/kubelet/volumestats"
	corev1 "k8s.io/api/core/v1"
)

// mountHeldError means that volumes could not be set up and are not retried before until.
type mountHeldError struct{ until time.Time }

func (e *mountHeldError) Error() string {
	return "volumes are not set up again before " + e.until.Format(time.RFC3339Nano)
}

// setUpError means that a directory or a volume of a pod could not be set up, which an event says.
type setUpError struct {
	reason, message string
	err             error
}

func (e *setUpError) Error() string { return e.err.Error() }
func (e *setUpError) Unwrap() error { return e.err }

// mountFirst and mountMost bound the delay after a failure to set up volumes.
const (
	mountFirst = 500 * time.Millisecond
	mountMost  = 2*time.Minute + 2*time.Second
)

// mountBackoff is the delay between attempts to set up a pod's volumes. It doubles with each
// failure and starts over after a success. The zero value has no delay.
type mountBackoff struct {
	delay time.Duration
	// until is the time of the next attempt.
	until time.Time
}

// next returns the backoff after another failure at now.
func (b mountBackoff) next(now time.Time) mountBackoff {
	delay := min(2*b.delay, mountMost)
	if delay == 0 {
		delay = mountFirst
	}
	return mountBackoff{delay: delay, until: now.Add(delay)}
}

// newVolumes returns the configured types of volumes before the built-in ones.
func (k *Kubelet) newVolumes() (*volumes.Set, error) {
	set, err := volumes.NewSet(slices.Concat(k.config.Volumes, volumes.Builtin(volumes.Sources{
		ConfigMap:    k.podConfig.ConfigMap,
		Secret:       k.podConfig.Secret,
		Token:        k.tokens.Token,
		TrustBundles: k.config.TrustBundles,
		Field:        k.podConfig.Field,
		ResourceField: func(pod *corev1.Pod, r *corev1.ResourceFieldSelector) (string, error) {
			return k.podConfig.ResourceField(pod, nil, r)
		},
		MemoryLimit: k.memoryOf,
	}))...)
	if err != nil || k.config.Claims == nil || k.config.PersistentVolumes == nil {
		return set, err
	}
	return set.With(volumes.Claims{
		Claim: k.config.Claims,
		PersistentVolume: func(ctx context.Context, name string) (*corev1.PersistentVolume, error) {
			return k.config.PersistentVolumes(ctx, "", name)
		},
		NodeLabels: func(ctx context.Context) (map[string]string, error) {
			node, err := k.config.Nodes.Get(ctx, "", k.config.NodeName)
			if err != nil {
				return nil, err
			}
			return node.Labels, nil
		},
	}), nil
}

// shareRoot makes Root a shared mount, or says that it is none.
func (k *Kubelet) shareRoot() error {
	if k.config.ShareRoot {
		if err := volumes.Share(k.config.Root); err != nil {
			return fmt.Errorf("kubelet: error configuring root directory: %w", err)
		}
		return nil
	}
	if shared, err := volumes.IsShared(k.config.Root); err != nil {
		k.log.Error(err, "read the mounts of this machine")
	} else if !shared {
		k.log.Info("volumes below Root cannot propagate mounts, because it is not a shared mount; "+
			"set ShareRoot, or run mount --bind and mount --make-rshared on it", "root", k.config.Root)
	}
	return nil
}

// memoryOf returns the memory that a pod can use at most, in bytes: its own limit or that of the node.
func (k *Kubelet) memoryOf(pod *corev1.Pod) int64 {
	node := k.host.Capacity.Memory().Value()
	if own := qos.Limits(pod).Memory; own > 0 && (own < node || node <= 0) {
		return own
	}
	return node
}

// setUpVolumes creates or refreshes a pod's directories and volumes. It returns the host path of
// each volume by name. An error that is not only an interruption is a *setUpError.
func (k *Kubelet) setUpVolumes(ctx context.Context, pod *corev1.Pod) (map[string]string, error) {
	if err := os.MkdirAll(k.podConfig.PodDirectory(pod.UID), 0o750); err != nil {
		return nil, &setUpError{"Failed", fmt.Sprintf("error making pod data directories: %v", err), err}
	}
	if err := os.MkdirAll(k.podConfig.LogDirectory(pod), 0o755); err != nil {
		return nil, &setUpError{"FailedCreatePodSandBox", fmt.Sprintf("Failed to create pod sandbox: %v", err), err}
	}
	paths, err := k.volumes.SetUp(ctx, pod, k.podConfig.PodDirectory(pod.UID))
	if failed, ok := errors.AsType[*volumes.Error](err); ok {
		err = &setUpError{"FailedMount", failed.Error(), err}
	}
	return paths, err
}

// setMounted records the paths of the pod's volumes for their statistics.
func (w *worker) setMounted(paths map[string]string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mounted = paths
}

// VolumeStats returns what the volumes of a pod use and have left, for the kubelet's server: those of
// claims and those that are made for the pod alone. As in Kubernetes, volumes of type hostPath and image
// have no statistics.
func (k *Kubelet) VolumeStats(ctx context.Context, pod *corev1.Pod) []volumestats.Stats {
	w := k.find(pod.UID)
	if w == nil {
		return nil
	}
	w.mu.Lock()
	mounted := w.mounted
	w.mu.Unlock()
	below := k.podConfig.PodDirectory(pod.UID) + string(filepath.Separator)
	var list []volumestats.Volume
	for i := range pod.Spec.Volumes {
		spec := &pod.Spec.Volumes[i]
		v := volumestats.Volume{
			Name: spec.Name, Path: mounted[spec.Name],
			Walk: spec.EmptyDir != nil || spec.ConfigMap != nil || spec.Secret != nil || spec.DownwardAPI != nil || spec.Projected != nil,
		}
		if use, ok := volumeclaim.UseOf(pod, spec); ok {
			v.Claim = &volumestats.ClaimReference{Name: use.Claim, Namespace: pod.Namespace}
		}
		if (v.Walk || v.Claim != nil) && strings.HasPrefix(v.Path, below) {
			list = append(list, v)
		}
	}
	stats := k.usage.Of(ctx, pod.UID, list)
	if k.find(pod.UID) == nil { // it has gone in the meantime
		k.usage.Forget(pod.UID)
	}
	return stats
}

// ClaimStats returns what the volumes of all claims use and have left. A claim that several pods use
// may be in the list several times.
func (k *Kubelet) ClaimStats(ctx context.Context) []volumestats.Stats {
	var list []volumestats.Stats
	for pod := range k.Pods().All() {
		for range volumeclaim.Uses(pod) {
			list = append(list, k.VolumeStats(ctx, pod)...)
			break
		}
	}
	return slices.DeleteFunc(list, func(s volumestats.Stats) bool { return s.Claim == nil })
}

// tearDownVolumes undoes setUpVolumes, except for the directories. It needs only what is on the
// disk.
func (k *Kubelet) tearDownVolumes(ctx context.Context, uid podUID) error {
	return k.volumes.TearDown(ctx, k.podConfig.PodDirectory(uid))
}

// removeVolumes undoes setUpVolumes and removes what is in the volumes.
func (k *Kubelet) removeVolumes(ctx context.Context, uid podUID) error {
	if err := k.tearDownVolumes(ctx, uid); err != nil {
		return err
	}
	directory := k.podConfig.PodDirectory(uid)
	return errors.Join(tree.Remove(ctx, filepath.Join(directory, "volumes")), tree.Remove(ctx, filepath.Join(directory, "volume-subpaths")))
}

// removePodDirectory removes the directory of a pod. Nothing may be mounted below it: the contents
// of a mount must not be deleted. The UID may be what a runtime says.
func (k *Kubelet) removePodDirectory(ctx context.Context, uid podUID) error {
	if err := checkName(string(uid)); err != nil {
		return fmt.Errorf("remove the directory of a pod: %w", err)
	}
	if err := k.tearDownVolumes(ctx, uid); err != nil {
		return err
	}
	if err := tree.Remove(ctx, k.podConfig.PodDirectory(uid)); err != nil {
		return err
	}
	k.podConfig.UserNamespaces.Release(uid)
	return nil
}
