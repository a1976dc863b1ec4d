package kubelet

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/planekit/planekit/kubelet/internal/qos"
	"github.com/planekit/planekit/kubelet/volumes"
	corev1 "k8s.io/api/core/v1"
)

// mountHeldError means that volumes could not be set up and are not retried before until.
type mountHeldError struct{ until time.Time }

func (e *mountHeldError) Error() string {
	return "volumes are not set up again before " + e.until.Format(time.RFC3339Nano)
}

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

// memoryOf returns the memory that a pod can use at most, in bytes: its own limit or that of the node.
func (k *Kubelet) memoryOf(pod *corev1.Pod) int64 {
	node := k.host.capacity.Memory().Value()
	if own := qos.Limits(pod).Memory; own > 0 && (own < node || node <= 0) {
		return own
	}
	return node
}

// setUpVolumes creates or refreshes a pod's directories and volumes. It returns the host path of
// each volume by name.
func (k *Kubelet) setUpVolumes(ctx context.Context, pod *corev1.Pod) (map[string]string, error) {
	if err := os.MkdirAll(k.podConfig.PodDirectory(pod.UID), 0o750); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(k.podConfig.LogDirectory(pod), 0o755); err != nil {
		return nil, err
	}
	return k.volumes.SetUp(ctx, pod, k.podConfig.PodDirectory(pod.UID))
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
	return errors.Join(os.RemoveAll(filepath.Join(directory, "volumes")), os.RemoveAll(filepath.Join(directory, "volume-subpaths")))
}

// removePodDirectory removes the directory of a pod. Nothing may be mounted below it: the contents
// of a mount must not be deleted.
func (k *Kubelet) removePodDirectory(ctx context.Context, uid podUID) error {
	if err := k.tearDownVolumes(ctx, uid); err != nil {
		return err
	}
	if err := os.RemoveAll(k.podConfig.PodDirectory(uid)); err != nil {
		return err
	}
	k.podConfig.UserNamespaces.Release(uid)
	return nil
}
